//! Documents, the only stored form of a project's content, and metadata derived from their bytes.
//!
//! A document's name is the same on every storage; only the files adapter knows folders.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backlog::{ItemKind, ItemMeta, Reference};
use crate::bounded_types::inline_schema;
use crate::diagnostic::Diagnostic;
use crate::knowledge::Entity;
use crate::sections;
use crate::sections::requirement_index::SectionKey;
use crate::timestamp::Timestamp;

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DocumentKind {
    /// AGENTS.md: how to work with the project's requirements.
    Instructions,
    /// One section of requirements, named by its key.
    Section,
    /// The configuration of the docsets.
    Docsets,
    /// One entity, named by its path below `.ixchel` without `.md`.
    Entity,
    /// One item of the backlog, named `REQ-048-3f9a1c`, or by hand `REQ-048`.
    Item(ItemKind),
    /// The tombstone of an item, with the item's name.
    Deleted,
}

impl DocumentKind {
    pub const ALL: [Self; 9] = [
        Self::Instructions,
        Self::Section,
        Self::Docsets,
        Self::Entity,
        Self::Item(ItemKind::Epic),
        Self::Item(ItemKind::UserStory),
        Self::Item(ItemKind::Requirement),
        Self::Item(ItemKind::AcceptanceCriteria),
        Self::Deleted,
    ];
    pub const ITEMS: [Self; 4] = [
        Self::Item(ItemKind::Epic),
        Self::Item(ItemKind::UserStory),
        Self::Item(ItemKind::Requirement),
        Self::Item(ItemKind::AcceptanceCriteria),
    ];

    /// The name in storages and dumps. Never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Section => "section",
            Self::Docsets => "docsets",
            Self::Entity => "entity",
            Self::Item(kind) => kind.name(),
            Self::Deleted => "deleted",
        }
    }

    /// The kind of a [`DocumentKind::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A document's identity within its project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentId {
    pub kind: DocumentKind,
    /// The file's stem, where documents are files.
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

    pub fn entity(path: impl Into<String>) -> Self {
        Self { kind: DocumentKind::Entity, name: path.into() }
    }

    /// Checks an untrusted name, which must not lead elsewhere. The message repeats no long name.
    pub fn check(&self) -> Result<(), String> {
        match self.kind {
            DocumentKind::Instructions => check_only(&self.name, &Self::instructions().name),
            DocumentKind::Docsets => check_only(&self.name, &Self::docsets().name),
            DocumentKind::Section => SectionKey::try_from(self.name.clone()).map(drop),
            DocumentKind::Entity => check_path(&self.name),
            DocumentKind::Item(_) | DocumentKind::Deleted => check_file(&self.name),
        }
    }
}

/// Maximum length of an entity's path, in bytes, and of its folders.
const MAX_PATH: (usize, usize) = (4_000, 32);
/// Maximum length of a file's name without `.md`, or of a folder's, in bytes.
const MAX_FILE: usize = 250;

fn check_only(name: &str, only: &str) -> Result<(), String> {
    if name == only { Ok(()) } else { Err(format!("a document of this kind is called {only:?}")) }
}

fn check_path(name: &str) -> Result<(), String> {
    let (bytes, folders) = MAX_PATH;
    if name.len() > bytes {
        return Err(format!("a name has at most {bytes} bytes, this has {}", name.len()));
    }
    if name.contains(char::is_control) {
        return Err(format!("{name:?} has a control character in its name"));
    }
    if name.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        return Err(format!(
            "{name:?} is not a valid name; no part between '/' may be empty or begin with '.'"
        ));
    }
    if let Some(part) = name.split('/').find(|part| part.len() > MAX_FILE) {
        return Err(format!(
            "each part of a name between '/' has at most {MAX_FILE} bytes, one has {}",
            part.len()
        ));
    }
    if name.split('/').count() > folders + 1 {
        return Err(format!("{name:?} is in more than {folders} folders"));
    }
    Ok(())
}

fn check_file(name: &str) -> Result<(), String> {
    if name.len() > MAX_FILE {
        return Err(format!("a name has at most {MAX_FILE} bytes, this has {}", name.len()));
    }
    if name.contains('/') {
        return Err(format!("{name:?} is not a valid name; an item has no folder of its own"));
    }
    check_path(name)
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DocumentKind::Instructions => f.write_str("AGENTS.md"),
            DocumentKind::Section => write!(f, "section {}", self.name),
            DocumentKind::Docsets => f.write_str(".knowledge/config.yaml"),
            DocumentKind::Entity => write!(f, ".ixchel/{}.md", self.name),
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                write!(f, "{BACKLOG}/{}/{}.md", folder_of(self.kind), self.name)
            }
        }
    }
}

/// The folder of the backlog below a project's root.
pub const BACKLOG: &str = ".reqlore/backlog";

/// The folder of a backlog kind below [`BACKLOG`]; empty for other kinds.
pub fn folder_of(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Item(ItemKind::Epic) => "epics",
        DocumentKind::Item(ItemKind::UserStory) => "stories",
        DocumentKind::Item(ItemKind::Requirement) => "requirements",
        DocumentKind::Item(ItemKind::AcceptanceCriteria) => "criteria",
        DocumentKind::Deleted => "deleted",
        _ => "",
    }
}

/// Maximum size of a document that is read or written, in bytes.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub id: DocumentId,
    pub body: Bytes,
    pub version: Version,
}

impl Document {
    pub fn new(id: DocumentId, body: Bytes) -> Self {
        let version = Version::of(&body);
        Self { id, body, version }
    }

    /// The document as text; an error names the line of the first invalid byte.
    pub fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.body).map_err(|error| {
            let line = self.body[..error.valid_up_to()].split(|b| *b == b'\n').count();
            format!("not UTF-8 text from line {line} on; save the file as UTF-8")
        })
    }
}

/// An opaque token for a document's exact bytes: the first 16 hexadecimal digits of `sha256sum`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Version(u64);

impl Version {
    pub const LENGTH: usize = 16;
    /// The version of an unreadable document.
    pub const UNREAD: Self = Self(0);

    pub fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        Self(digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Parses the form of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        let lower_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let well_formed = text.len() == Self::LENGTH && text.bytes().all(lower_hex);
        well_formed.then(|| u64::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
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
            format!("a version is {} hexadecimal digits, as an answer gave it", Self::LENGTH)
        })
    }
}

inline_schema!([] Version, { "type": "string", "pattern": "^[0-9a-f]{16}$" });

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Metadata of a document, derived from its bytes by [`DocumentMeta::of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentMeta {
    pub id: DocumentId,
    /// The first heading of instructions or a section.
    pub title: Option<String>,
    pub version: Version,
    pub entity: Option<Arc<Entity>>,
    /// Of backlog items and tombstones.
    pub item: Option<Arc<ItemMeta>>,
    /// A problem of the content. The document is listed nevertheless.
    pub fault: Option<Diagnostic>,
}

impl DocumentMeta {
    /// Version of the derivation. A storage derives metadata again that has another one.
    pub const FORMAT: u32 = 2;

    /// An entity's id or an item's reference. It need not be unique.
    pub fn reference(&self) -> Option<Cow<'_, str>> {
        match (&self.entity, &self.item) {
            (Some(entity), _) => Some(Cow::Borrowed(&entity.id)),
            (_, Some(item)) => item.reference.map(|reference| Cow::Owned(reference.to_string())),
            _ => None,
        }
    }

    /// Relations and targets of the document's links, references in standard spelling.
    pub fn links(&self) -> Vec<(&str, Cow<'_, str>)> {
        if let Some(entity) = &self.entity {
            let links = entity.links.iter();
            let target = |target: &'_ str| Reference::parse(target).map(|found| found.to_string());
            let links = links.map(|link| {
                let spelled = target(&link.target).map_or(Cow::Borrowed(&*link.target), Cow::Owned);
                (link.relation.as_str(), spelled)
            });
            return links.collect();
        }
        let links = self.item.iter().flat_map(|item| item.links());
        links.map(|(relation, target)| (relation, Cow::Owned(target))).collect()
    }

    /// Never fails: an unreadable document has metadata with a diagnostic. `modified` replaces
    /// times that the document does not name.
    pub fn of(document: &Document, modified: Timestamp) -> Self {
        let Document { id, version, .. } = document;
        let text = match document.text() {
            Ok(text) => text,
            Err(reason) => return Self::placeholder(id.clone(), *version, modified, reason),
        };
        let empty = Self::empty(id.clone(), *version);
        match id.kind {
            DocumentKind::Entity => {
                let (entity, fault) = Entity::read(&id.name, text);
                Self { entity: Some(Arc::new(entity)), fault, ..empty }
            }
            DocumentKind::Item(_) | DocumentKind::Deleted => {
                let Some(kind) = item_kind(id) else {
                    let message =
                        "the file's name is not a reference, as a tombstone's has to be; remove it";
                    return Self { fault: Some(Diagnostic::new(None, message)), ..empty };
                };
                let (item, fault) = ItemMeta::read(kind, &id.name, text, modified);
                Self { item: Some(Arc::new(item)), fault, ..empty }
            }
            DocumentKind::Docsets => empty,
            DocumentKind::Instructions | DocumentKind::Section => {
                Self { title: sections::first_heading(text).map(str::to_owned), ..empty }
            }
        }
    }

    /// The metadata of an unreadable document.
    pub fn placeholder(
        id: DocumentId,
        version: Version,
        modified: Timestamp,
        reason: String,
    ) -> Self {
        let entity =
            (id.kind == DocumentKind::Entity).then(|| Arc::new(Entity::placeholder(&id.name)));
        let item =
            item_kind(&id).map(|kind| Arc::new(ItemMeta::placeholder(kind, &id.name, modified)));
        let fault = Some(Diagnostic::new(None, reason));
        Self { entity, item, fault, ..Self::empty(id, version) }
    }

    fn empty(id: DocumentId, version: Version) -> Self {
        Self { id, title: None, version, entity: None, item: None, fault: None }
    }
}

/// The item's kind; a tombstone's name tells it.
fn item_kind(id: &DocumentId) -> Option<ItemKind> {
    match id.kind {
        DocumentKind::Item(kind) => Some(kind),
        DocumentKind::Deleted => Reference::of_document(id).map(|reference| reference.kind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        let deep = "d/".repeat(32);
        let entities = ["a", "a/b/c", "a..b/c d", "n\u{f6}te", "a\\b", &(deep.clone() + "x")];
        let long = format!("{0}/{0}", "x".repeat(250));
        let ids = entities.into_iter().chain([&*long]).map(DocumentId::entity).collect::<Vec<_>>();
        let others = [DocumentId::instructions(), DocumentId::docsets(), DocumentId::section("a")];
        for id in ids.iter().chain(&others) {
            assert_eq!(id.check(), Ok(()), "{id}");
        }
        let entities = ["", "/", "/a", "a/", "a//b", ".", "..", "../../evil", "a/../b", ".a/b"];
        let odd = ["a/.b", "a\0", "a\nb", "a\u{85}", &(deep + "d/x"), &"x".repeat(4_001)];
        let mut wrong = entities.map(DocumentId::entity).to_vec();
        wrong.extend(odd.map(DocumentId::entity));
        let longer = "x".repeat(251);
        for name in [longer.clone(), format!("{longer}/x"), format!("x/{longer}")] {
            let said = DocumentId::entity(name).check().unwrap_err();
            assert!(said.contains("250 bytes") && said.contains("251"), "{said}");
        }
        wrong.extend(["a/../../b", "", "AGENTS", ".a", "a\n"].map(DocumentId::section));
        for kind in [DocumentKind::Instructions, DocumentKind::Docsets] {
            let named = |name: &str| DocumentId { kind, name: name.to_owned() };
            wrong.extend(["", "agents", "Config", "../AGENTS"].map(named));
        }
        for id in wrong {
            let said = id.check().unwrap_err();
            assert!(said.len() < 9_000, "{said}");
        }
    }

    #[test]
    fn a_version_is_sixteen_digits_of_sha256_and_reads_back() {
        let version = Version::of(b"abc");
        assert_eq!(version.to_string(), "ba7816bf8f01cfea");
        assert_eq!(Version::parse("ba7816bf8f01cfea"), Some(version));
        for wrong in
            ["", "ba7816bf8f01cfe", "BA7816BF8F01CFEA", "+a7816bf8f01cfea", "ba7816bf8f01cfea0"]
        {
            assert_eq!(Version::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_unreadable_document_has_a_head_with_a_fault() {
        let head = DocumentMeta::of(
            &Document::new(DocumentId::section("x"), Bytes::from_static(b"\xff\xfe")),
            Timestamp::default(),
        );
        assert!(head.fault.is_some_and(|fault| fault.message.contains("UTF-8")));
    }
}
