//! The backlog (S2, S5): epics, user stories, requirements and acceptance criteria, each a markdown
//! file with front matter.
//!
//! Everything is read tolerantly: a file that a person made with a title alone is an item, and what
//! it lacks reads as the defaults of a new one (rulings 3). The trap: the *reference* comes from
//! the file's name, so it needs no key, and a copied file can't claim another one's.

mod keys;
mod kind;
mod mention;
mod order;
mod read;
pub mod reference;
pub mod text;
pub mod values;
mod write;

use serde::{Deserialize, Serialize};

pub use keys::{Misnamed, misnamed};
pub use kind::ItemKind;
pub use order::order;
pub use reference::Reference;
pub use values::{Priority, RelationshipType, RequirementType, Status};
pub use write::{Edit, Linked, New, edit, relink, tombstone};

use crate::time::Timestamp;

/// What lists need of an item. It is kept in the document's head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub kind: ItemKind,
    /// `None` where the file's name gives none of this kind; such an item can only be mended.
    pub reference: Option<Reference>,
    /// Given once and never changed; a file made by hand may have none.
    pub uid: Option<String>,
    /// On one line. Criteria have none of their own: it is their description's first line.
    pub title: String,
    /// Where it is short, as most are: then lists that show it read no document.
    pub description: Option<String>,
    /// `None` for what has no state.
    pub status: Option<Status>,
    /// `None` for what has no priority.
    pub priority: Option<Priority>,
    /// Of requirements.
    pub requirement_type: Option<RequirementType>,
    /// The epic of a story, the story of a requirement or of criteria.
    pub parent: Option<Reference>,
    /// Of requirements: those that begin here.
    pub relationships: Vec<Relationship>,
    /// What title and description speak of: references and ids of entities, each once.
    pub mentions: Vec<String>,
    /// The user who made it.
    pub creator: Option<String>,
    /// The user whose turn it is.
    pub assignee: Option<String>,
    /// Whole seconds; the file's own time where it does not say.
    pub created_at: Timestamp,
    /// Whole seconds; the file's own time where it does not say.
    pub updated_at: Timestamp,
    pub tags: Vec<String>,
    /// Which of several items of one reference its links mean: the end of that file's name.
    pub linked: Vec<(Reference, String)>,
    /// Set in a tombstone.
    pub deleted: Option<Deletion>,
}

/// A link from one requirement to another, kept by the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Relationship {
    pub kind: RelationshipType,
    pub target: Reference,
}

/// When an item was deleted, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Whole seconds.
    pub at: Timestamp,
    pub by: Option<String>,
}

/// The relation of what a text only speaks of.
pub const MENTIONS: &str = "mentions";

impl Item {
    /// Where it leads: relation and reference. A deleted item leads nowhere.
    pub fn links(&self) -> impl Iterator<Item = (&str, String)> {
        let live = self.deleted.is_none();
        let parent = self.parent.map(|parent| (parent.kind.name(), parent.to_string()));
        let related = self.relationships.iter();
        let related = related.map(|related| (related.kind.name(), related.target.to_string()));
        let mentions = self.mentions.iter().map(|mention| (MENTIONS, mention.clone()));
        parent.into_iter().chain(related).chain(mentions).filter(move |_| live)
    }

    /// The reference as it is printed; the file's name where it gives none.
    pub fn called<'a>(&self, name: &'a str) -> std::borrow::Cow<'a, str> {
        self.reference.map_or(name.into(), |reference| reference.to_string().into())
    }
}

#[cfg(test)]
mod tests;
