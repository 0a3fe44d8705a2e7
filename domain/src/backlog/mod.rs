//! The backlog: epics, user stories, requirements and acceptance criteria, each a Markdown file
//! with front matter.
//!
//! Parsing is tolerant: a file with only a title is an item, and missing keys get the defaults of a
//! new item. The reference comes from the file's name, so a copied file cannot claim the reference
//! of its original.

pub mod claim;
pub mod fields;
pub mod rank;
pub mod reference;
pub(crate) mod relation_words;
pub mod story_waits;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use fields::{Priority, RelationshipType, RequirementType, Status};
pub use reference::{Reference, scan_mentions};
pub use relation_words::inverse_relation;

pub use crate::records::kinds::ItemKind;
use crate::records::values::CustomValues;
use crate::timestamp::Timestamp;

/// The metadata of an item, enough to show it in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemMeta {
    pub kind: ItemKind,
    /// `None` if the file's name is not a reference of this kind.
    pub reference: Option<Reference>,
    /// Never changes; `None` in files written by hand.
    pub uid: Option<String>,
    /// On one line. The title of acceptance criteria is the first line of their description.
    pub title: String,
    /// `None` for a long description, which only the document holds.
    pub description: Option<String>,
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    /// The order by hand among items of one priority.
    pub rank: Option<String>,
    /// `None` except for requirements.
    pub requirement_type: Option<RequirementType>,
    /// The epic of a user story; the user story of a requirement or acceptance criteria.
    pub parent: Option<Reference>,
    /// Outgoing relationships; empty except for user stories and requirements.
    pub relationships: Vec<Relationship>,
    /// References and entity ids in title and description, without duplicates.
    pub mentions: Vec<String>,
    pub creator: Option<String>,
    pub assignee: Option<String>,
    /// In whole seconds; the file's modification time if the key is missing.
    pub created_at: Timestamp,
    /// In whole seconds; [`ItemMeta::created_at`] if the key is missing.
    pub updated_at: Timestamp,
    pub tags: Vec<String>,
    /// File suffixes of link targets. A suffix identifies one of several items that have the same
    /// reference.
    pub link_suffixes: Vec<(Reference, String)>,
    /// The values of keys that may be custom fields.
    pub custom: CustomValues,
    /// Present in a tombstone.
    pub deletion: Option<Deletion>,
}

/// A link from one user story or requirement to another of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Relationship {
    pub kind: RelationshipType,
    pub target: Reference,
}

/// The time and user of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// In whole seconds.
    pub at: Timestamp,
    pub by: Option<String>,
}

/// The relation of a mention.
pub const MENTIONS: &str = "mentions";

impl ItemMeta {
    /// Relations and targets of all outgoing links: parent, relationships, mentions. Empty for a
    /// deleted item.
    pub fn links(&self) -> Vec<(&str, String)> {
        let mut links = Vec::new();
        // A tombstone keeps its front matter, but its links no longer exist.
        if self.deletion.is_some() {
            return links;
        }
        if let Some(parent) = self.parent {
            links.push((parent.kind.name(), parent.to_string()));
        }
        for relationship in &self.relationships {
            links.push((relationship.kind.name(), relationship.target.to_string()));
        }
        for mention in &self.mentions {
            links.push((MENTIONS, mention.clone()));
        }
        links
    }

    /// The reference, or the document's name for an item without one.
    pub fn display_name<'a>(&self, document_name: &'a str) -> Cow<'a, str> {
        match self.reference {
            Some(reference) => Cow::Owned(reference.to_string()),
            None => Cow::Borrowed(document_name),
        }
    }
}

/// The position of an item in lists: its priority and its rank. Equal ranks are followed by that of
/// the creation, after a blank: the oldest first, then the lowest number first.
pub type ItemSortKey = (u8, String);

pub fn sort_key(item: &ItemMeta) -> ItemSortKey {
    // Acceptance criteria have no priority and come last.
    let priority = item.priority.map_or(u8::MAX, Priority::number);
    let number = item.reference.map_or(0, |reference| reference.number);
    let mut rank = rank::creation_rank(item.created_at, number);
    if let Some(own) = &item.rank {
        rank = format!("{own} {rank}");
    }
    (priority, rank)
}

#[cfg(test)]
mod tests;
