//! Documents, which store all content of a project, and the metadata derived from their bytes.
//!
//! A document has the same name on every storage; only the file adapter knows folders.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backlog::reference::title_slug;
use crate::backlog::{ItemKind, ItemMeta, MENTIONS, Reference, Status};
use crate::bounded_types::{deserialize_text, inline_schema, truncate_echo};
use crate::diagnostic::Diagnostic;
use crate::knowledge::{Entity, EntityKind};
use crate::sections::mentions::MentionSource;
use crate::sections::requirement_index::SectionKey;

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DocumentKind {
    /// AGENTS.md: how to work with the project's requirements.
    Instructions,
    /// One section of requirements, named by its key.
    Section,
    /// The configuration of the docsets.
    Docsets,
    /// The custom fields and statuses of the project.
    Schema,
    /// The fields and text that a new record begins with, named `requirement` or
    /// `requirement-login`.
    Template,
    /// One entity, named by its path below `.ixchel` without `.md`.
    Entity,
    /// One item of the backlog, named by its path below the folder of its kind:
    /// `REQ-048-guest-checkout-3f9a1c`, or by hand `auth/REQ-048`.
    Item(ItemKind),
    /// The tombstone of an item or entity, see [`DocumentId::tombstone`].
    Deleted,
}

impl DocumentKind {
    pub const ALL: [Self; 7 + ItemKind::ALL.len()] = {
        let mut all = [Self::Deleted; 7 + ItemKind::ALL.len()];
        all[0] = Self::Instructions;
        all[1] = Self::Section;
        all[2] = Self::Docsets;
        all[3] = Self::Schema;
        all[4] = Self::Template;
        all[5] = Self::Entity;
        Self::with_items(all, 6)
    };
    pub const ITEMS: [Self; ItemKind::ALL.len()] =
        Self::with_items([Self::Entity; ItemKind::ALL.len()], 0);

    /// Sets the kinds of items in a list, from a position on.
    pub const fn with_items<const N: usize>(mut kinds: [Self; N], first: usize) -> [Self; N] {
        let mut at = 0;
        while at < ItemKind::ALL.len() {
            kinds[first + at] = Self::Item(ItemKind::ALL[at]);
            at += 1;
        }
        kinds
    }

    /// The name in storages and dumps. Never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Section => "section",
            Self::Docsets => "docsets",
            Self::Schema => "schema",
            Self::Template => "template",
            Self::Entity => "entity",
            Self::Item(kind) => kind.name(),
            Self::Deleted => "deleted",
        }
    }

    /// Parses a [`DocumentKind::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A document's identity within its project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentId {
    pub kind: DocumentKind,
    /// A file adapter uses it as the file's name, without `.md`.
    pub name: String,
}

impl DocumentId {
    pub fn instructions() -> Self {
        Self { kind: DocumentKind::Instructions, name: "AGENTS".to_owned() }
    }

    pub fn section(key: impl Into<String>) -> Self {
        Self { kind: DocumentKind::Section, name: key.into() }
    }

    pub fn docsets() -> Self {
        Self { kind: DocumentKind::Docsets, name: "config".to_owned() }
    }

    pub fn schema() -> Self {
        Self { kind: DocumentKind::Schema, name: "project".to_owned() }
    }

    pub fn template(name: impl Into<String>) -> Self {
        Self { kind: DocumentKind::Template, name: name.into() }
    }

    /// The schema or template at this path, as `Display` prints it.
    pub fn from_settings_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix(TEMPLATE_FOLDER).and_then(|path| path.strip_prefix('/'));
        let template = name.and_then(|name| name.strip_suffix(".md")).map(Self::template);
        let id = template.unwrap_or_else(Self::schema);
        (id.to_string() == path && id.check().is_ok()).then_some(id)
    }

    pub fn entity(path: impl Into<String>) -> Self {
        Self { kind: DocumentKind::Entity, name: path.into() }
    }

    /// The tombstone of an item or entity, with its name. Tombstones of entities are in a folder of
    /// their own, because the name of an entity may look like that of an item.
    #[must_use]
    pub fn tombstone(&self) -> Self {
        let folder = if self.kind == DocumentKind::Entity { ENTITY_TOMBSTONES } else { "" };
        Self { kind: DocumentKind::Deleted, name: format!("{folder}{}", self.name) }
    }

    /// The name of the entity that a tombstone replaces; `None` for any other document.
    pub fn deleted_entity(&self) -> Option<&str> {
        match self.kind {
            DocumentKind::Deleted => self.name.strip_prefix(ENTITY_TOMBSTONES),
            _ => None,
        }
    }

    /// Validates an untrusted name, which must not address a file outside of the kind's folder. The
    /// message never contains a long name.
    pub fn check(&self) -> Result<(), String> {
        match self.kind {
            DocumentKind::Instructions => check_fixed(&self.name, &Self::instructions().name),
            DocumentKind::Docsets => check_fixed(&self.name, &Self::docsets().name),
            DocumentKind::Schema => check_fixed(&self.name, &Self::schema().name),
            DocumentKind::Section => SectionKey::try_from(self.name.clone()).map(drop),
            DocumentKind::Template if self.name.contains('/') => {
                Err(format!("{:?} is not a valid name; remove the '/'", self.name))
            }
            DocumentKind::Template
            | DocumentKind::Entity
            | DocumentKind::Item(_)
            | DocumentKind::Deleted => check_path(&self.name),
        }
    }
}

impl Reference {
    /// The reference of an item or a tombstone; `None` for any other document.
    pub fn from_document(id: &DocumentId) -> Option<Self> {
        let found = Self::from_document_name(&id.name);
        match id.kind {
            DocumentKind::Item(kind) => found.filter(|found| found.kind == kind),
            DocumentKind::Deleted => found.filter(|_| id.deleted_entity().is_none()),
            _ => None,
        }
    }

    /// The id of an item's document with this title and file suffix.
    pub fn document_id(self, title: &str, suffix: &str) -> DocumentId {
        let slug = title_slug(title);
        let separator = if slug.is_empty() { "" } else { "-" };
        let name = format!("{self}{separator}{slug}-{suffix}");
        DocumentId { kind: DocumentKind::Item(self.kind), name }
    }
}

impl EntityKind {
    /// The document of a new entity, such as `decisions/dec-1d2c8f`.
    pub fn document_id(self, digits: &str) -> DocumentId {
        DocumentId::entity(self.document_name(digits))
    }
}

/// Before the name of an entity in that of its tombstone.
const ENTITY_TOMBSTONES: &str = "ixchel/";
const MAX_PATH_BYTES: usize = 4_000;
const MAX_PATH_FOLDERS: usize = 32;
/// Maximum length of a folder's name, or of a file's name without `.md`.
const MAX_FILE_NAME_BYTES: usize = 250;

fn check_fixed(name: &str, expected: &str) -> Result<(), String> {
    if name != expected {
        return Err(format!("a document of this kind is called {expected:?}"));
    }
    Ok(())
}

fn check_path(name: &str) -> Result<(), String> {
    // First, so that no later message contains a long name.
    if name.len() > MAX_PATH_BYTES {
        return Err(name_too_long(MAX_PATH_BYTES, name));
    }
    // Names appear in terminals and logs.
    if name.contains(char::is_control) {
        return Err(format!("{name:?} is not a valid name; remove the control characters"));
    }
    for part in name.split('/') {
        // Also rejects `.` and `..`; hidden files are never documents.
        if part.is_empty() || part.starts_with('.') {
            return Err(format!(
                "{name:?} is not a valid name; no part between '/' may be empty or begin with '.'"
            ));
        }
        if part.len() > MAX_FILE_NAME_BYTES {
            return Err(format!(
                "each part of a name between '/' has at most {MAX_FILE_NAME_BYTES} bytes, one has \
                 {}; shorten it",
                part.len()
            ));
        }
    }
    if name.matches('/').count() > MAX_PATH_FOLDERS {
        return Err(format!(
            "{name:?} is not a valid name; use at most {MAX_PATH_FOLDERS} folders"
        ));
    }
    Ok(())
}

fn name_too_long(max: usize, name: &str) -> String {
    format!("a name has at most {max} bytes, this has {}; shorten it", name.len())
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DocumentKind::Instructions => f.write_str("AGENTS.md"),
            DocumentKind::Section => write!(f, "section {}", self.name),
            DocumentKind::Docsets => f.write_str(".knowledge/config.yaml"),
            DocumentKind::Schema => f.write_str(".reqlore/project.toml"),
            DocumentKind::Template => write!(f, "{TEMPLATE_FOLDER}/{}.md", self.name),
            DocumentKind::Entity => write!(f, ".ixchel/{}.md", self.name),
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                write!(f, "{BACKLOG_FOLDER}/{}/{}.md", backlog_folder_of(self.kind), self.name)
            }
        }
    }
}

/// The folder of templates, relative to the project.
pub const TEMPLATE_FOLDER: &str = ".reqlore/templates";

/// The backlog's folder, relative to the project.
pub const BACKLOG_FOLDER: &str = ".reqlore/backlog";

/// The folder of a kind, relative to [`BACKLOG_FOLDER`]; empty for kinds outside of the backlog.
pub fn backlog_folder_of(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Item(kind) => kind.row().folder,
        DocumentKind::Deleted => "deleted",
        _ => "",
    }
}

/// Maximum size of a document, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 8 * 1024 * 1024;

/// A stored document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub id: DocumentId,
    pub body: Bytes,
    pub version: Version,
}

impl Document {
    pub fn new(id: DocumentId, body: Bytes) -> Self {
        let version = Version::of_bytes(&body);
        Self { id, body, version }
    }

    /// The body as text. The error names the line of the first invalid byte.
    pub fn text(&self) -> Result<&str, String> {
        let text = std::str::from_utf8(&self.body).map_err(|error| {
            let line = self.line_of(error.valid_up_to());
            format!("line {line} is not UTF-8 text; save the file as UTF-8")
        })?;
        // Many programs end a text at a NUL, so readers would see different documents.
        match memchr::memchr(0, &self.body) {
            None => Ok(text),
            Some(at) => Err(format!("line {} has a NUL character; remove it", self.line_of(at))),
        }
    }

    /// The 1-based line of a byte.
    fn line_of(&self, at: usize) -> usize {
        self.body[..at].split(|byte| *byte == b'\n').count()
    }
}

/// The version of a document: the first 16 hexadecimal digits of the SHA-256 hash of its bytes.
/// Opaque to clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Version(u64);

impl Version {
    pub const LENGTH: usize = 16;
    /// The version of an unreadable document.
    pub const UNREADABLE: Self = Self(0);

    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::of_hash(&Sha256::digest(bytes))
    }

    /// The version of the text with this SHA-256.
    pub fn of_hash(hash: &[u8]) -> Self {
        // 64 bits suffice to detect changes; versions are not a security feature.
        Self(hash.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The version as a number, for storing it.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Parses the [`fmt::Display`] form: 16 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        // `from_str_radix` also accepts a sign and capital letters.
        let is_valid = text.len() == Self::LENGTH
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_valid { u64::from_str_radix(text, 16).ok().map(Self) } else { None }
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As text also in binary formats, so that stored metadata does not depend on the integer.
        serializer.collect_str(self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!("a version is {} hexadecimal digits; copy it from an answer", Self::LENGTH)
        })
    }
}

/// The version that a caller expects: at least the first 8 digits, as sentences show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionPrefix {
    /// The digits as a number, with leading zeros in `length`.
    digits: u64,
    length: usize,
}

impl VersionPrefix {
    const MIN_LENGTH: usize = 8;

    pub fn matches(self, version: Version) -> bool {
        // Each hexadecimal digit has 4 bits; the length is at least 8, so the shift is below 64.
        version.0 >> (4 * (Version::LENGTH - self.length)) == self.digits
    }
}

impl TryFrom<String> for VersionPrefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let given = text.trim();
        // `from_str_radix` also accepts a sign.
        if (Self::MIN_LENGTH..=Version::LENGTH).contains(&given.len())
            && given.bytes().all(|byte| byte.is_ascii_hexdigit())
            && let Ok(digits) = u64::from_str_radix(given, 16)
        {
            return Ok(Self { digits, length: given.len() });
        }
        Err(format!(
            "{:?} is not a version; copy its {} hexadecimal digits (or the first {}) from an \
             answer",
            truncate_echo(&text),
            Version::LENGTH,
            Self::MIN_LENGTH
        ))
    }
}

impl<'de> Deserialize<'de> for VersionPrefix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(deserialize_text(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for VersionPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0length$x}", self.digits, length = self.length)
    }
}

inline_schema!([] VersionPrefix, { "type": "string", "pattern": "^[0-9a-f]{8,16}$" });

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Metadata of a document, derived from its bytes by [`DocumentMeta::from_document`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentMeta {
    pub id: DocumentId,
    /// The first heading of instructions or a section; `None` for other kinds.
    pub title: Option<String>,
    pub version: Version,
    /// Present for entities.
    pub entity: Option<Arc<Entity>>,
    /// Present for backlog items and tombstones.
    pub item: Option<Arc<ItemMeta>>,
    /// The mentions in a section; empty for other kinds.
    pub mentions: Vec<MentionSource>,
    /// A problem of the content, which does not prevent listing the document.
    pub diagnostic: Option<Diagnostic>,
}

impl DocumentMeta {
    /// Version of the derivation, part of the format of each storage that keeps metadata.
    pub const FORMAT: u32 = 11;

    /// An entity's id or an item's reference. Several documents may have the same one.
    pub fn reference(&self) -> Option<Cow<'_, str>> {
        match (&self.entity, &self.item) {
            (Some(entity), _) => Some(Cow::Borrowed(&entity.id)),
            // A document is either an entity or an item.
            (_, Some(item)) => item.reference.map(|reference| Cow::Owned(reference.to_string())),
            _ => None,
        }
    }

    /// The status of an entity or item.
    pub fn status(&self) -> Option<&str> {
        match (&self.entity, &self.item) {
            (Some(entity), _) => entity.status.as_deref(),
            (None, item) => item.as_ref()?.status.as_ref().map(Status::name),
        }
    }

    /// Relations and targets of the document's links. References are normalized: `REQ-7` becomes
    /// `REQ-007`. Several requirements of a section may mention the same target.
    pub fn links(&self) -> Vec<(&str, Cow<'_, str>)> {
        let mut links = Vec::new();
        if let Some(entity) = &self.entity {
            for link in &entity.links {
                let target = match Reference::parse(&link.target) {
                    Some(reference) => Cow::Owned(reference.to_string()),
                    None => Cow::Borrowed(link.target.as_str()),
                };
                links.push((link.relation.as_str(), target));
            }
        } else if let Some(item) = &self.item {
            for (relation, target) in item.links() {
                links.push((relation, Cow::Owned(target)));
            }
        }
        for source in &self.mentions {
            for target in &source.targets {
                links.push((MENTIONS, Cow::Borrowed(target.as_str())));
            }
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_name_outside_of_its_folder_is_rejected() {
        let deep = "d/".repeat(32);
        let entities = ["a", "a/b/c", "a..b/c d", "n\u{f6}te", "a\\b", &(deep.clone() + "x")];
        let long = format!("{0}/{0}", "x".repeat(250));
        let mut valid: Vec<DocumentId> = entities.map(DocumentId::entity).to_vec();
        valid.push(DocumentId::entity(long));
        valid.extend([DocumentId::instructions(), DocumentId::docsets(), DocumentId::schema()]);
        valid.push(DocumentId::section("a"));
        valid.push(DocumentId::template("requirement-log in"));
        for id in &valid {
            assert_eq!(id.check(), Ok(()), "{id}");
            let is_setting = matches!(id.kind, DocumentKind::Schema | DocumentKind::Template);
            let found = DocumentId::from_settings_path(&id.to_string());
            assert_eq!(found.as_ref(), is_setting.then_some(id));
        }
        let paths = ["", "/", "/a", "a/", "a//b", ".", "..", "../../evil", "a/../b", ".a/b"];
        let item = |name: &str| DocumentId {
            kind: DocumentKind::Item(ItemKind::Requirement),
            name: name.to_owned(),
        };
        assert_eq!(item("auth/web/REQ-002").check(), Ok(()));
        let others = ["a/.b", "a\0", "a\nb", "a\u{85}", &(deep + "d/x"), &"x".repeat(4_001)];
        let mut invalid = paths.map(DocumentId::entity).to_vec();
        invalid.extend(others.map(DocumentId::entity));
        invalid.extend(paths.map(item));
        invalid.extend(["epic/a", ".epic", "", "a\n"].map(DocumentId::template));
        let longer = "x".repeat(251);
        for name in [longer.clone(), format!("{longer}/x"), format!("x/{longer}")] {
            let error = DocumentId::entity(name).check().unwrap_err();
            assert!(error.contains("250 bytes") && error.contains("251"), "{error}");
        }
        invalid.extend(["a/../../b", "", "AGENTS", ".a", "a\n"].map(DocumentId::section));
        for kind in [DocumentKind::Instructions, DocumentKind::Docsets, DocumentKind::Schema] {
            for name in ["", "agents", "Config", "../AGENTS"] {
                invalid.push(DocumentId { kind, name: name.to_owned() });
            }
        }
        for id in invalid {
            let found = DocumentId::from_settings_path(&id.to_string());
            assert!(found.is_none_or(|found| found == DocumentId::schema()), "{id}");
            let error = id.check().unwrap_err();
            assert!(error.len() < 9_000, "{error}");
        }
    }

    #[test]
    fn version_is_the_start_of_sha256_and_parses_back() {
        let version = Version::of_bytes(b"abc");
        assert_eq!(version.to_string(), "ba7816bf8f01cfea");
        assert_eq!(Version::parse("ba7816bf8f01cfea"), Some(version));
        for invalid in
            ["", "ba7816bf8f01cfe", "BA7816BF8F01CFEA", "+a7816bf8f01cfea", "ba7816bf8f01cfea0"]
        {
            assert_eq!(Version::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn version_prefix_of_8_digits_in_any_case_matches() {
        let version = Version::of_bytes(b"abc");
        let prefix = |text: &str| VersionPrefix::try_from(text.to_owned());
        for given in ["ba7816bf", "BA7816BF8", " ba7816bf8f01cfea "] {
            assert!(prefix(given).unwrap().matches(version), "{given}");
        }
        for other in ["ba7816be", "ba7816bf8f01cfeb", "0ba7816b"] {
            assert!(!prefix(other).unwrap().matches(version), "{other}");
        }
        assert_eq!(prefix("00000000a").unwrap().to_string(), "00000000a");
        for invalid in ["", "ba7816b", "+a7816bf", "ba7816bg", "ba7816bf8f01cfea0"] {
            assert!(prefix(invalid).is_err(), "{invalid}");
        }
    }
}
