//! The knowledge graph: entities are Markdown files below `.ixchel`, links are keys of their front
//! matter.
//!
//! Parsing is tolerant: a file without an id or with invalid front matter is an entity too. The id
//! comes from the front matter and the document name is the path, so two files may have the same
//! id.

pub mod entity_graph;
pub mod entity_words;
mod known_words;

use serde::{Deserialize, Serialize};

pub use crate::front_matter::body;
pub use known_words::{similar_relation, usual_status};

use crate::records::ended::is_ended;
pub use crate::records::kinds::{EntityKind, is_entity_id};
use crate::records::values::CustomValues;
use crate::timestamp::Timestamp;

/// The metadata of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// From the front matter, or else the document's name.
    pub id: String,
    /// A kind such as `decision`, or any other word from the front matter.
    pub kind: String,
    pub title: String,
    pub status: Option<String>,
    /// The values of `tags` and `labels`, without duplicates.
    pub tags: Vec<String>,
    pub links: Vec<EntityLink>,
    /// From `updated_at`, or else `created_at` or `date`; `None` if the file states no time.
    pub updated_at: Option<Timestamp>,
    /// The values of keys that may be custom fields.
    pub custom: CustomValues,
}

impl Entity {
    /// True if this entity replaces the one with this id or document name. A draft, a proposal or
    /// a rejected entity replaces nothing.
    pub fn supersedes(&self, name: &str) -> bool {
        let is_valid = !self.has_status(&["draft", "proposed", "rejected"]);
        let mut links = self.links.iter().filter(|link| link.relation == "supersedes");
        is_valid && links.any(|link| link.target == name)
    }

    /// True if the status says that the entity is no longer valid.
    pub fn is_outdated(&self) -> bool {
        self.status.as_deref().is_some_and(is_ended)
    }

    /// Compares the status in lower case.
    pub fn has_status(&self, words: &[&str]) -> bool {
        let status = self.status.as_ref().map(|status| status.trim().to_lowercase());
        status.is_some_and(|status| words.contains(&status.as_str()))
    }
}

/// An outgoing link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityLink {
    /// The front matter key.
    pub relation: String,
    /// The `type` of an item with `id` and `type`, such as `blocks` under `depends_on`.
    pub attribute: Option<Box<str>>,
    pub target: String,
    /// True if the target has the form of an id or reference. Any other target is a link only if
    /// the entity exists.
    pub is_certain: bool,
}

#[cfg(test)]
mod tests;
