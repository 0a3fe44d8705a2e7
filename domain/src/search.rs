//! Search: the projection of documents to searchable items, queries and hits.
//!
//! An index can always be rebuilt from the documents, so results are the same on every storage.

use std::collections::BTreeMap;

use crate::backlog::ItemMeta;
use crate::document::{Document, DocumentId, DocumentKind, Version};
use crate::knowledge::{self, Entity};
use crate::sections::{self, Section};
use crate::timestamp::Timestamp;

/// A searchable backlog item, entity, or requirement of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchItem {
    /// Such as `dec-1d2c8f`, `general:2.1` or `REQ-048`.
    pub reference: String,
    /// Such as `decision`, `issue` or `requirement`.
    pub kind: String,
    pub title: String,
    /// Markdown without front matter; may be empty.
    pub text: String,
    /// Searchable, but not part of a hit.
    pub tags: Vec<String>,
    /// Ids of link targets. Searchable, but not part of a hit.
    pub links: Vec<String>,
    pub facets: Vec<SearchFacet>,
}

/// A property for exact filters, such as `status:In Progress` or `parent:US-001`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SearchFacet(String);

impl SearchFacet {
    /// The name of a status.
    pub const STATUS: &'static str = "status";
    /// The number of a priority.
    pub const PRIORITY: &'static str = "priority";
    /// The name of a requirement type.
    pub const TYPE: &'static str = "type";
    /// The reference of the parent.
    pub const PARENT: &'static str = "parent";

    pub fn new(name: &str, value: impl std::fmt::Display) -> Self {
        Self(format!("{name}:{value}"))
    }

    /// Restores a facet from [`SearchFacet::as_str`].
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value, if the facet has this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.strip_prefix(name)?.strip_prefix(':')
    }
}

/// The searchable items of one version of a document. Replaces the projection of another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentProjection {
    pub document: DocumentId,
    /// `None` for a removed document.
    pub version: Option<Version>,
    pub items: Vec<SearchItem>,
}

/// A query and its filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// Plain words without query syntax.
    pub text: String,
    /// Selects items of documents of these kinds.
    pub document_kinds: Vec<DocumentKind>,
    /// Selects items of these kinds; empty for all.
    pub item_kinds: Vec<String>,
    /// Selects items that have at least one facet of each list. An empty list selects nothing.
    pub facets: Vec<Vec<SearchFacet>>,
    /// Number of best hits to skip.
    pub offset: usize,
    pub limit: usize,
    pub semantic_mode: SemanticMode,
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

/// The result of a query: its certain hits, page by page. The last page ends with uncertain hits.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHits {
    /// Certain hits, best first, then uncertain ones, best first.
    pub hits: Vec<SearchHit>,
    /// Number of certain hits on all pages.
    pub total: usize,
    /// The signals of the ranking: `words`, `meaning:NAME`.
    pub signals: Vec<String>,
    /// Number of texts without an embedding.
    pub pending: usize,
    /// Differs after each change of the indexed items or of the ranking model. Pages with different
    /// states may repeat or miss hits.
    pub state: u64,
}

/// A matching item.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    pub document: DocumentId,
    pub reference: String,
    pub kind: String,
    pub title: String,
    pub facets: Vec<SearchFacet>,
    /// From 0 to 1. Comparable between the results of one model.
    pub score: f32,
    /// True if the evidence is weak: the text is near to the query, but may not answer it.
    pub is_uncertain: bool,
    /// The matching part of the text on one line, about 240 characters.
    pub snippet: String,
}

/// Counts of changes between two sets of document versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexDifference {
    pub added: usize,
    pub modified: usize,
    pub deleted: usize,
    pub unchanged: usize,
}

impl IndexDifference {
    pub fn compare_versions(
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
        // Present before and missing now.
        difference.deleted = before.keys().filter(|id| !now.contains_key(id)).count();
        difference
    }
}

/// Projects a document to its searchable items; empty if the body is not text. `entity` is the
/// document's entity if it is already parsed.
pub fn project_document(document: &Document, entity: Option<Entity>) -> Vec<SearchItem> {
    let (name, Ok(text)) = (&document.id.name, document.text()) else { return Vec::new() };
    match document.id.kind {
        DocumentKind::Entity => {
            let entity = entity.unwrap_or_else(|| Entity::parse(name, text).0);
            vec![project_entity(entity, text)]
        }
        DocumentKind::Section => project_requirements(name, text),
        DocumentKind::Item(kind) => {
            // Times are not searchable.
            let (item, _) = ItemMeta::parse(kind, name, text, Timestamp(0));
            vec![project_item(item, name, text)]
        }
        // Tombstones must not appear in results.
        DocumentKind::Instructions | DocumentKind::Docsets | DocumentKind::Deleted => Vec::new(),
    }
}

fn project_item(item: ItemMeta, name: &str, text: &str) -> SearchItem {
    let reference = item.display_name(name).into_owned();
    let links = item.links().into_iter().map(|(_, target)| target).collect();
    let mut tags = item.tags;
    let mut facets = Vec::new();
    if let Some(status) = item.status {
        tags.push(status.name().to_owned());
        facets.push(SearchFacet::new(SearchFacet::STATUS, status.name()));
    }
    if let Some(priority) = item.priority {
        facets.push(SearchFacet::new(SearchFacet::PRIORITY, priority.number()));
    }
    if let Some(requirement_type) = item.requirement_type {
        // Statuses and types are also searchable words.
        tags.push(requirement_type.name().to_owned());
        facets.push(SearchFacet::new(SearchFacet::TYPE, requirement_type.name()));
    }
    if let Some(parent) = item.parent {
        facets.push(SearchFacet::new(SearchFacet::PARENT, parent));
    }
    tags.extend(item.assignee);
    SearchItem {
        reference,
        kind: item.kind.name().to_owned(),
        title: item.title,
        text: ItemMeta::description(text).to_owned(),
        tags,
        links,
        facets,
    }
}

fn project_entity(entity: Entity, text: &str) -> SearchItem {
    let Entity { id, kind, title, status, mut tags, links } = entity;
    let mut facets = Vec::new();
    if let Some(status) = status {
        facets.push(SearchFacet::new(SearchFacet::STATUS, &status));
        tags.push(status);
    }
    // Without the storage it is unknown whether other targets exist.
    let links = links.into_iter().filter(|link| link.is_certain).map(|link| link.target).collect();
    let text = knowledge::body(text).to_owned();
    SearchItem { reference: id, kind, title, text, tags, links, facets }
}

/// The reference of a requirement is `key:index`, and its title is that of the section.
fn project_requirements(key: &str, source: &str) -> Vec<SearchItem> {
    let section = Section::parse(source);
    let title = sections::first_heading(source).unwrap_or(key);
    let mut items = Vec::with_capacity(section.requirements().len());
    for requirement in section.requirements() {
        items.push(SearchItem {
            reference: format!("{key}:{}", requirement.index),
            kind: "requirement".to_owned(),
            title: title.to_owned(),
            text: section.text(requirement),
            tags: Vec::new(),
            links: Vec::new(),
            facets: Vec::new(),
        });
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentId;

    #[test]
    fn entity_is_projected_with_tags_status_and_links() {
        let text = "---\nid: iss-1\nstatus: open\ntags: [wal]\nblocks: [dec-1d2c8f, perhaps]\n\
                    ---\nBody";
        let item = project_entity(Entity::parse("issues/iss-1", text).0, text);
        assert_eq!(item.tags, ["wal", "open"]);
        assert_eq!(item.links, ["dec-1d2c8f"]);
        assert_eq!(item.text, "Body");
        assert_eq!(item.facets, [SearchFacet::new(SearchFacet::STATUS, "open")]);
    }

    #[test]
    fn requirement_is_projected_with_its_facets() {
        let text = "---\ntitle: Login\npriority: 2\ntype_name: Data\nuser_story: US-7\n---\nBody";
        let id = DocumentId { kind: DocumentKind::ITEMS[2], name: "REQ-1".to_owned() };
        let items = project_document(&Document::new(id, text.into()), None);
        let facets: Vec<&str> = items[0].facets.iter().map(SearchFacet::as_str).collect();
        assert_eq!(facets, ["status:Draft", "priority:2", "type:Data", "parent:US-007"]);
    }
}
