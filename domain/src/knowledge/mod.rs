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
