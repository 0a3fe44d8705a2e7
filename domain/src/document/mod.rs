//! Documents: the one form in which a project keeps everything.
//!
//! Bytes are the truth, the [`DocumentMeta`] is derived from them. A newcomer's trap: a document's *name*
//! is not its place. The name is the same on every storage; only the files adapter knows folders.

mod head;
mod version;

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use head::DocumentMeta;
pub use version::Version;

use crate::backlog::ItemKind;
use crate::sections::key::SectionKey;

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
/// The longest name of a file, in bytes, without its `.md`, and of a folder.
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
            "{name:?} is no name; no part of one between '/' is empty or begins with '.'"
        ));
    }
    if let Some(part) = name.split('/').find(|part| part.len() > MAX_FILE) {
        return Err(format!(
            "each part of a name between '/' has at most {MAX_FILE} bytes, one has {}",
            part.len()
        ));
    }
    if name.split('/').count() > folders + 1 {
        return Err(format!("{name:?} lies in more than {folders} folders"));
    }
    Ok(())
}

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
