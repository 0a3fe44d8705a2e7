//! Search: the projection of documents to searchable items, queries and hits.
//!
//! An index can always be rebuilt from the documents, so results are the same on every storage.

use std::collections::BTreeMap;

use crate::backlog::{self, RequirementType, Status};
use crate::document::{Document, DocumentId, DocumentKind, Version};
use crate::knowledge::{self, Entity};
use crate::sections::{self, Section};
use crate::timestamp::Timestamp;

/// A searchable backlog item, knowledge entity or requirement of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchItem {
    /// Like `dec-1d2c8f`, `general:2.1` or `REQ-048`.
    pub reference: String,
    /// Like `decision`, `issue` or `requirement`.
    pub kind: String,
    pub title: String,
    /// Markdown without its front matter; may be empty.
    pub text: String,
    /// Searchable, not shown.
    pub tags: Vec<String>,
    /// Ids of link targets; searchable, not shown.
    pub links: Vec<String>,
    pub facets: Vec<SearchFacet>,
}

/// A property for exact filters, like `status:In Progress` or `parent:US-001`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SearchFacet(String);

impl SearchFacet {
    /// An item's or an entity's status, by its name.
    pub const STATUS: &'static str = "status";
    /// A priority's number.
    pub const PRIORITY: &'static str = "priority";
    /// A requirement's type, by its name.
    pub const TYPE: &'static str = "type";
    /// The parent's reference.
    pub const PARENT: &'static str = "parent";

    pub fn new(name: &str, value: impl std::fmt::Display) -> Self {
        Self(format!("{name}:{value}"))
    }

    /// Parses the form of [`SearchFacet::as_str`].
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of a facet with this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.strip_prefix(name)?.strip_prefix(':')
    }
}

/// The items of a document at one version. It replaces an earlier projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentProjection {
    pub document: DocumentId,
    /// `None` for a removed document.
    pub version: Option<Version>,
    pub items: Vec<SearchItem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// Plain words without query syntax.
    pub text: String,
    /// Only items of documents of these kinds.
    pub documents: Vec<DocumentKind>,
    /// Only items of these kinds; empty for all.
    pub kinds: Vec<String>,
    /// Only items with one facet of each list; an empty list matches nothing.
    pub facets: Vec<Vec<SearchFacet>>,
    /// Number of best hits to skip.
    pub offset: usize,
    pub limit: usize,
    pub meaning: SemanticMode,
}

/// The use of embeddings in ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SemanticMode {
    /// The best available model.
    #[default]
    Best,
    /// Lexical ranking only.
    Off,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHits {
    /// Best first.
    pub hits: Vec<SearchHit>,
    /// Number of all matching items.
    pub total: usize,
    /// The ranking signals: `words`, `meaning:NAME`.
    pub signals: Vec<String>,
    /// Number of texts without embeddings yet.
    pub pending: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    pub document: DocumentId,
    pub reference: String,
    pub kind: String,
    pub title: String,
    pub facets: Vec<SearchFacet>,
    /// From 0 to 1, within one answer.
    pub score: f32,
    /// A matching part of the text on one line, about 240 characters.
    pub snippet: String,
}

/// Counts of changes between two sets of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexDifference {
    pub added: usize,
    pub modified: usize,
    pub deleted: usize,
    pub unchanged: usize,
}

impl IndexDifference {
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

/// The items of a document; none if it is not text. `known` is an already parsed entity.
pub fn items(document: &Document, known: Option<Entity>) -> Vec<SearchItem> {
    let (name, Ok(text)) = (&document.id.name, document.text()) else { return Vec::new() };
    match document.id.kind {
        DocumentKind::Entity => {
            vec![entity(known.unwrap_or_else(|| Entity::read(name, text).0), text)]
        }
        DocumentKind::Section => requirements(name, text),
        DocumentKind::Item(kind) => {
            vec![item(backlog::ItemMeta::read(kind, name, text, NO_TIME).0, name, text)]
        }
        DocumentKind::Instructions | DocumentKind::Docsets | DocumentKind::Deleted => Vec::new(),
    }
}

/// Times are not searchable.
const NO_TIME: Timestamp = Timestamp(0);

fn item(item: backlog::ItemMeta, name: &str, text: &str) -> SearchItem {
    let reference = item.display_name(name).into_owned();
    let links = item.links().into_iter().map(|(_, target)| target).collect();
    let backlog::ItemMeta { kind, title, assignee, mut tags, .. } = item;
    let (status, requirement_type) =
        (item.status.map(Status::name), item.requirement_type.map(RequirementType::name));
    tags.extend(status.into_iter().chain(requirement_type).map(str::to_owned));
    tags.extend(assignee);
    let facets = [
        status.map(|status| SearchFacet::new(SearchFacet::STATUS, status)),
        item.priority.map(|priority| SearchFacet::new(SearchFacet::PRIORITY, priority.number())),
        requirement_type.map(|found| SearchFacet::new(SearchFacet::TYPE, found)),
        item.parent.map(|parent| SearchFacet::new(SearchFacet::PARENT, parent)),
    ];
    let facets = facets.into_iter().flatten().collect();
    let text = backlog::ItemMeta::description(text).to_owned();
    SearchItem { reference, kind: kind.name().to_owned(), title, text, tags, links, facets }
}

/// The status is searchable like a tag. Uncertain links are left out.
fn entity(entity: Entity, text: &str) -> SearchItem {
    let Entity { id, kind, title, status, mut tags, links } = entity;
    let facets =
        status.iter().map(|status| SearchFacet::new(SearchFacet::STATUS, status)).collect();
    tags.extend(status);
    let links = links.into_iter().filter(|link| link.certain).map(|link| link.target);
    let (text, links) = (knowledge::body(text).to_owned(), links.collect());
    SearchItem { reference: id, kind, title, text, tags, links, facets }
}

/// Each requirement by `key:index`, under the section's title.
fn requirements(key: &str, source: &str) -> Vec<SearchItem> {
    let section = Section::of(source);
    let title = sections::first_heading(source).unwrap_or(key);
    let requirements = section.requirements().iter();
    let item = requirements.map(|requirement| SearchItem {
        reference: format!("{key}:{}", requirement.index),
        kind: "requirement".to_owned(),
        title: title.to_owned(),
        text: section.text(requirement),
        tags: Vec::new(),
        links: Vec::new(),
        facets: Vec::new(),
    });
    item.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentId;

    #[test]
    fn an_entity_is_found_by_tags_status_and_links() {
        let text = "---\nid: iss-1\nstatus: open\ntags: [wal]\nblocks: [dec-1d2c8f, perhaps]\n\
                    ---\nBody";
        let item = entity(Entity::read("issues/iss-1", text).0, text);
        assert_eq!(item.tags, ["wal", "open"]);
        assert_eq!(item.links, ["dec-1d2c8f"]);
        assert_eq!(item.text, "Body");
        assert_eq!(item.facets, [SearchFacet::new(SearchFacet::STATUS, "open")]);
    }

    #[test]
    fn a_requirement_is_filtered_by_status_priority_type_and_story() {
        let text = "---\ntitle: Login\npriority: 2\ntype_name: Data\nuser_story: US-7\n---\nBody";
        let id = DocumentId { kind: DocumentKind::ITEMS[2], name: "REQ-1".to_owned() };
        let found = items(&Document::new(id, text.into()), None);
        let facets: Vec<&str> = found[0].facets.iter().map(SearchFacet::as_str).collect();
        assert_eq!(facets, ["status:Draft", "priority:2", "type:Data", "parent:US-007"]);
    }
}
