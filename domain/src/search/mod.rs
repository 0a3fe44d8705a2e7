//! Search as a read model: the small value that every item projects to, queries and hits.
//!
//! Storages keep documents and rank nothing; an index ranks [`Item`]s and keeps no truth. So
//! answers are the same on every storage, and deleting an index costs a rebuild, never data.

pub mod projection;

use std::collections::BTreeMap;

use crate::document::{DocumentId, Kind, Version};

/// One thing that can be found: an item of the backlog, a knowledge entity, a requirement of a
/// section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What answers call it and people type: `dec-1d2c8f`, `general:2.1`, `REQ-048`.
    pub reference: String,
    /// What it is, in the words of its slice: `decision`, `issue`, `requirement`.
    pub kind: String,
    pub title: String,
    /// Markdown without its front matter; may be empty.
    pub text: String,
    /// Found as words, not shown.
    pub tags: Vec<String>,
    /// Ids of what it links to; found as words, not shown.
    pub links: Vec<String>,
    /// What queries filter by and hits show.
    pub facets: Vec<Facet>,
}

/// A property that is compared as a whole: `status:In Progress`, `parent:US-001`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facet(String);

impl Facet {
    /// An item's or an entity's status, by its name.
    pub const STATUS: &'static str = "status";
    /// A priority's number.
    pub const PRIORITY: &'static str = "priority";
    /// A requirement's type, by its name.
    pub const TYPE: &'static str = "type";
    /// The reference of what an item belongs to.
    pub const PARENT: &'static str = "parent";

    pub fn new(name: &str, value: impl std::fmt::Display) -> Self {
        Self(format!("{name}:{value}"))
    }

    /// The facet of a text that [`Facet::as_str`] gave.
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its value, if this is its name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.strip_prefix(name)?.strip_prefix(':')
    }
}

/// What a document is to the search at one version; it takes the place of what was known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    pub document: DocumentId,
    /// `None` when the document is gone.
    pub version: Option<Version>,
    pub items: Vec<Item>,
}

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Words as a person types them; nothing in it is syntax.
    pub text: String,
    /// Only items of documents of these kinds.
    pub documents: Vec<Kind>,
    /// Only items of these kinds; empty for all.
    pub kinds: Vec<String>,
    /// Only items that have one of each of these lists; one of an empty list nothing has.
    pub facets: Vec<Vec<Facet>>,
    /// Skip so many of the best.
    pub offset: usize,
    pub limit: usize,
    pub meaning: Meaning,
}

/// Shall meaning rank beside words?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Meaning {
    /// With the best model there is.
    #[default]
    Best,
    /// Words alone.
    Off,
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Hits {
    /// Best first.
    pub hits: Vec<Hit>,
    /// How many items match in all: those with a word of the query, and those near in meaning.
    pub total: usize,
    /// What ranked: `words`, `meaning:NAME`.
    pub signals: Vec<String>,
    /// How many texts still await embedding.
    pub pending: usize,
}

/// One item found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub document: DocumentId,
    pub reference: String,
    pub kind: String,
    pub title: String,
    pub facets: Vec<Facet>,
    /// From 0 to 1, within one answer.
    pub score: f32,
    /// The part of the text that shows why it matched, on one line, at most some 240 characters.
    pub snippet: String,
}

/// How a set of documents differs from what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Difference {
    pub added: usize,
    pub modified: usize,
    pub deleted: usize,
    pub unchanged: usize,
}

impl Difference {
    /// How `now` differs from `before`.
    pub fn between(
        before: &BTreeMap<DocumentId, Version>,
        now: &BTreeMap<DocumentId, Version>,
    ) -> Self {
        let mut difference = Self::default();
        for (id, version) in now {
            match before.get(id) {
                None => difference.added += 1,
                Some(known) if known == version => difference.unchanged += 1,
                Some(_) => difference.modified += 1,
            }
        }
        difference.deleted = before.keys().filter(|id| !now.contains_key(id)).count();
        difference
    }
}
