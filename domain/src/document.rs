//! Documents: the one form in which a project keeps everything.
//!
//! Bytes are the truth, the [`Head`] is derived from them. A newcomer's trap: a document's *name*
//! is not its place. The name is the same on every storage; only the files adapter knows folders.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backlog::{Item, ItemKind, Reference};
use crate::fault::Fault;
use crate::knowledge::Entity;
use crate::sections::{self, key::SectionKey};
use crate::time::Timestamp;

/// What kind of document this is. Each slice adds its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// AGENTS.md: how to work with the project's requirements (S1 T.3).
    Instructions,
    /// One section of requirements, named by its key (S1 G.3.2).
    Section,
    /// The configuration of the docsets (S3); there is one.
    Docsets,
    /// One entity of the knowledge graph (S4), named by its path below `.ixchel` without `.md`.
    Entity,
    /// One item of the backlog, named `REQ-048-3f9a1c`, or by hand `REQ-048` (rulings 3).
    Item(ItemKind),
    /// The tombstone of an item, with the name that the item had.
    Deleted,
}

impl Kind {
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
    /// The kinds of items.
    pub const ITEMS: [Self; 4] = [
        Self::Item(ItemKind::Epic),
        Self::Item(ItemKind::UserStory),
        Self::Item(ItemKind::Requirement),
        Self::Item(ItemKind::AcceptanceCriteria),
    ];

    /// What storages and dumps call it; never changes.
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

    /// The kind of a [`Kind::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A document's identity within its project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentId {
    pub kind: Kind,
    /// The file's stem, where documents are files.
    pub name: String,
}

impl DocumentId {
    /// The project's instructions; there is one document of this kind.
    pub fn instructions() -> Self {
        Self { kind: Kind::Instructions, name: "AGENTS".to_owned() }
    }

    pub fn section(key: impl Into<String>) -> Self {
        Self { kind: Kind::Section, name: key.into() }
    }

    /// The configuration of the docsets; there is one document of this kind.
    pub fn docsets() -> Self {
        Self { kind: Kind::Docsets, name: "config".to_owned() }
    }

    pub fn entity(path: impl Into<String>) -> Self {
        Self { kind: Kind::Entity, name: path.into() }
    }

    /// Can a document of this kind have this name? It may come from outside, so it must lead to no
    /// other place; the message says what is wrong and repeats no long name.
    pub fn check(&self) -> Result<(), String> {
        match self.kind {
            Kind::Instructions => check_only(&self.name, &Self::instructions().name),
            Kind::Docsets => check_only(&self.name, &Self::docsets().name),
            Kind::Section => SectionKey::try_from(self.name.clone()).map(drop),
            Kind::Entity => check_path(&self.name),
            Kind::Item(_) | Kind::Deleted => check_file(&self.name),
        }
    }
}

/// The longest path of an entity, in bytes, and the folders it may go through.
const MAX_PATH: (usize, usize) = (4_000, 32);

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
            "{name:?} is no name; no part of one between '/' is empty or begins with '.'"
        ));
    }
    if name.split('/').count() > folders + 1 {
        return Err(format!("{name:?} lies in more than {folders} folders"));
    }
    Ok(())
}

/// The longest name of a file, in bytes, without its `.md`.
const MAX_FILE: usize = 250;

fn check_file(name: &str) -> Result<(), String> {
    if name.len() > MAX_FILE {
        return Err(format!("a name has at most {MAX_FILE} bytes, this has {}", name.len()));
    }
    if name.contains('/') {
        return Err(format!("{name:?} is no name; an item lies in no folder of its own"));
    }
    check_path(name)
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Instructions => f.write_str("AGENTS.md"),
            Kind::Section => write!(f, "section {}", self.name),
            Kind::Docsets => f.write_str(".knowledge/config.yaml"),
            Kind::Entity => write!(f, ".ixchel/{}.md", self.name),
            Kind::Item(_) | Kind::Deleted => {
                write!(f, "{BACKLOG}/{}/{}.md", folder_of(self.kind), self.name)
            }
        }
    }
}

/// The folder of the backlog below a project's root, and what its folders are called.
pub const BACKLOG: &str = ".reqlore/backlog";

/// The folder of a kind of the backlog below [`BACKLOG`]; nothing for other kinds.
pub fn folder_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Item(ItemKind::Epic) => "epics",
        Kind::Item(ItemKind::UserStory) => "stories",
        Kind::Item(ItemKind::Requirement) => "requirements",
        Kind::Item(ItemKind::AcceptanceCriteria) => "criteria",
        Kind::Deleted => "deleted",
        _ => "",
    }
}

/// The largest document, in bytes: what is larger is neither read nor written.
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

    /// The document as text, or why it is none, with the line where it stops being text.
    pub fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.body).map_err(|error| {
            let line = self.body[..error.valid_up_to()].split(|b| *b == b'\n').count();
            format!("not UTF-8 text from line {line} on; save the file as UTF-8")
        })
    }
}

/// An opaque token for a document's exact bytes: the same on every storage, true for edits by hand.
///
/// It is the first 16 hexadecimal digits of the SHA-256 of the bytes, so `sha256sum FILE` shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Version(u64);

impl Version {
    pub const LENGTH: usize = 16;
    /// Stands for the version of what can't be read; no text that can be read has it.
    pub const UNREAD: Self = Self(0);

    pub fn of(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        Self(digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads what [`fmt::Display`] wrote; `None` for anything else.
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

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 16, "maxLength": 16 })
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What lists need of a document, derived from its bytes by [`Head::of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub id: DocumentId,
    /// The first heading, where there is one; an entity has a title of its own.
    pub title: Option<String>,
    pub version: Version,
    /// What an entity of the knowledge graph says of itself; `None` for other kinds.
    pub entity: Option<Arc<Entity>>,
    /// What an item of the backlog, or its tombstone, says of itself; `None` for other kinds.
    pub item: Option<Arc<Item>>,
    /// Why the content can't be used, or not all of it. The document is listed all the same and
    /// harms nobody.
    pub fault: Option<Fault>,
}

impl Head {
    /// Grows with every change of what [`Head::of`] makes of the same bytes. A storage that keeps
    /// heads makes them anew when theirs were made by another one.
    pub const FORMAT: u32 = 2;

    /// What the document is called by others, beside its name: an entity's id, an item's
    /// reference. Nothing keeps two documents from claiming the same.
    pub fn reference(&self) -> Option<Cow<'_, str>> {
        match (&self.entity, &self.item) {
            (Some(entity), _) => Some(Cow::Borrowed(&entity.id)),
            (_, Some(item)) => item.reference.map(|reference| Cow::Owned(reference.to_string())),
            _ => None,
        }
    }

    /// Where the document leads: relation and target, references in their one spelling.
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

    /// Never fails: an unreadable document has a head with a fault. `modified` is when the bytes
    /// were last changed, for what does not say it itself.
    pub fn of(document: &Document, modified: Timestamp) -> Self {
        let Document { id, version, .. } = document;
        let text = match document.text() {
            Ok(text) => text,
            Err(reason) => return Self::unread(id.clone(), *version, modified, reason),
        };
        let empty = Self::empty(id.clone(), *version);
        match id.kind {
            Kind::Entity => {
                let (entity, fault) = Entity::read(&id.name, text);
                Self { entity: Some(Arc::new(entity)), fault, ..empty }
            }
            Kind::Item(_) | Kind::Deleted => match item_kind(id) {
                Some(kind) => {
                    let (item, fault) = Item::read(kind, &id.name, text, modified);
                    Self { item: Some(Arc::new(item)), fault, ..empty }
                }
                None => Self { fault: Some(no_tombstone()), ..empty },
            },
            Kind::Docsets => empty,
            Kind::Instructions | Kind::Section => {
                Self { title: sections::title(text).map(str::to_owned), ..empty }
            }
        }
    }

    /// The head of a document whose text can't be had.
    pub fn unread(id: DocumentId, version: Version, modified: Timestamp, reason: String) -> Self {
        let entity = (id.kind == Kind::Entity).then(|| Arc::new(Entity::unread(&id.name)));
        let item = item_kind(&id).map(|kind| Arc::new(Item::unread(kind, &id.name, modified)));
        let fault = Some(Fault { line: None, reason });
        Self { entity, item, fault, ..Self::empty(id, version) }
    }

    fn empty(id: DocumentId, version: Version) -> Self {
        Self { id, title: None, version, entity: None, item: None, fault: None }
    }
}

/// A tombstone's name tells what the item was.
fn item_kind(id: &DocumentId) -> Option<ItemKind> {
    match id.kind {
        Kind::Item(kind) => Some(kind),
        Kind::Deleted => Reference::of(id).map(|reference| reference.kind),
        _ => None,
    }
}

fn no_tombstone() -> Fault {
    let reason = "the file's name gives no reference, so it is nobody's tombstone; remove it";
    Fault { line: None, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let head = Head::of(
            &Document::new(DocumentId::section("x"), Bytes::from_static(b"\xff\xfe")),
            Timestamp::default(),
        );
        assert!(head.fault.is_some_and(|fault| fault.reason.contains("UTF-8")));
    }
    #[test]
    fn a_name_leads_nowhere_else() {
        let deep = "d/".repeat(32);
        let entities = ["a", "a/b/c", "a..b/c d", "n\u{f6}te", "a\\b", &(deep.clone() + "x")];
        let ids = entities.map(DocumentId::entity);
        let others = [DocumentId::instructions(), DocumentId::docsets(), DocumentId::section("a")];
        for id in ids.iter().chain(&others) {
            assert_eq!(id.check(), Ok(()), "{id}");
        }
        let entities = ["", "/", "/a", "a/", "a//b", ".", "..", "../../evil", "a/../b", ".a/b"];
        let odd = ["a/.b", "a\0", "a\nb", "a\u{85}", &(deep + "d/x"), &"x".repeat(4_001)];
        let mut wrong = entities.map(DocumentId::entity).to_vec();
        wrong.extend(odd.map(DocumentId::entity));
        wrong.extend(["a/../../b", "", "AGENTS", ".a", "a\n"].map(DocumentId::section));
        for kind in [Kind::Instructions, Kind::Docsets] {
            let named = |name: &str| DocumentId { kind, name: name.to_owned() };
            wrong.extend(["", "agents", "Config", "../AGENTS"].map(named));
        }
        for id in wrong {
            let said = id.check().unwrap_err();
            assert!(said.len() < 9_000, "{said}");
        }
    }
}
