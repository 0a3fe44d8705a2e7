//! The backlog: epics, user stories, requirements and acceptance criteria, each a markdown file
//! with front matter.
//!
//! Parsing is tolerant: a file with only a title is an item, and missing keys have the defaults of
//! a new item. The reference comes from the file's name, so a copied file can't claim another
//! one's.

mod edit;
pub mod fields;
mod parse;
pub mod reference;

use std::cmp::{Ordering, Reverse};

use serde::{Deserialize, Serialize};

pub use edit::{ItemEdit, LinkTarget, NewItem, edit_item, replace_links, tombstone_text};
pub use fields::{Priority, RelationshipType, RequirementType, Status};
pub use parse::check_keys;
pub use reference::Reference;

use crate::timestamp::Timestamp;

/// A kind of item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ItemKind {
    Epic,
    UserStory,
    Requirement,
    AcceptanceCriteria,
}

impl ItemKind {
    pub const ALL: [Self; 4] =
        [Self::Epic, Self::UserStory, Self::Requirement, Self::AcceptanceCriteria];

    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Epic => ("EP", "epic", "Epic"),
            Self::UserStory => ("US", "user_story", "User story"),
            Self::Requirement => ("REQ", "requirement", "Requirement"),
            Self::AcceptanceCriteria => ("AC", "acceptance_criteria", "Acceptance criteria"),
        }
    }

    /// The prefix of references.
    pub fn prefix(self) -> &'static str {
        self.names().0
    }

    /// The name in arguments, keys and results. Never changes.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    /// The name in sentences.
    pub fn noun(self) -> &'static str {
        self.names().2
    }

    /// The parent's kind. A file names its parent under the key [`ItemKind::name`].
    pub fn parent(self) -> Option<Self> {
        match self {
            Self::Epic => None,
            Self::UserStory => Some(Self::Epic),
            Self::Requirement | Self::AcceptanceCriteria => Some(Self::UserStory),
        }
    }

    /// The valid states, a new item's first; criteria have none.
    pub fn statuses(self) -> &'static [Status] {
        match self {
            Self::Epic | Self::UserStory => &Status::OF_WORK,
            Self::Requirement => &Status::OF_REQUIREMENTS,
            Self::AcceptanceCriteria => &[],
        }
    }

    /// False for criteria.
    pub fn has_priority(self) -> bool {
        self != Self::AcceptanceCriteria
    }
}

/// The metadata of an item, which lists show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemMeta {
    pub kind: ItemKind,
    /// `None` if the file's name is not a reference of this kind.
    pub reference: Option<Reference>,
    /// Never changes; `None` in files made by hand.
    pub uid: Option<String>,
    /// On one line. The title of criteria is the first line of their description.
    pub title: String,
    /// `None` if it is long, so that most lists read no document.
    pub description: Option<String>,
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    /// Of requirements.
    pub requirement_type: Option<RequirementType>,
    /// The epic of a story, the story of a requirement or of criteria.
    pub parent: Option<Reference>,
    /// Outgoing relationships of a requirement.
    pub relationships: Vec<Relationship>,
    /// The references and entity ids in title and description, each once.
    pub mentions: Vec<String>,
    pub creator: Option<String>,
    pub assignee: Option<String>,
    /// Whole seconds, like the next. The file's modification time if the file names none.
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub tags: Vec<String>,
    /// The file suffix of link targets, which identifies one of several items of a reference.
    pub linked: Vec<(Reference, String)>,
    /// Present in a tombstone.
    pub deleted: Option<Deletion>,
}

/// A link from a requirement to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Relationship {
    pub kind: RelationshipType,
    pub target: Reference,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Whole seconds.
    pub at: Timestamp,
    pub by: Option<String>,
}

/// The relation of a mention.
pub const MENTIONS: &str = "mentions";

impl ItemMeta {
    /// Relations and targets of its links. A deleted item has none.
    pub fn links(&self) -> impl Iterator<Item = (&str, String)> {
        let live = self.deleted.is_none();
        let parent = self.parent.map(|parent| (parent.kind.name(), parent.to_string()));
        let related = self.relationships.iter();
        let related = related.map(|related| (related.kind.name(), related.target.to_string()));
        let mentions = self.mentions.iter().map(|mention| (MENTIONS, mention.clone()));
        parent.into_iter().chain(related).chain(mentions).filter(move |_| live)
    }

    /// The reference as printed, else the file's name.
    pub fn display_name<'a>(&self, name: &'a str) -> std::borrow::Cow<'a, str> {
        self.reference.map_or(name.into(), |reference| reference.to_string().into())
    }
}

/// The order of lists: by priority, the newest first, the higher number first.
pub fn compare_items(a: &ItemMeta, b: &ItemMeta) -> Ordering {
    let key = |item: &ItemMeta| {
        let priority = item.priority.map_or(u8::MAX, Priority::number);
        let number = item.reference.map(|reference| reference.number);
        (priority, Reverse(item.created_at), Reverse(number))
    };
    key(a).cmp(&key(b))
}

#[cfg(test)]
mod tests;
