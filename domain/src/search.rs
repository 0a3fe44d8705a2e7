//! Search: the projection of documents to searchable items, queries and hits.
//!
//! An index can always be rebuilt from the documents, so results are the same on every storage.

use std::collections::BTreeMap;

use crate::backlog::ItemMeta;
use crate::document::{Document, DocumentId, DocumentKind, Version};
use crate::knowledge::{self, Entity};
use crate::records::ended::is_ended;
use crate::records::values::{CustomValues, value_key};
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
    pub const TAG: &'static str = "tag";

    /// The facet of a record whose status says that it has ended.
    pub fn ended() -> Self {
        Self::new("ended", true)
    }

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
    /// True if a part of the document cannot be found, because it is too long or unreadable.
    pub is_incomplete: bool,
}

/// A query and its filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// Plain words without query syntax.
    pub text: String,
    /// Selects items of documents of these kinds; empty for all.
    pub document_kinds: Vec<DocumentKind>,
    /// Selects items of these kinds; empty for all.
    pub item_kinds: Vec<String>,
    /// Selects items that have at least one facet of each list. An empty list selects nothing.
    pub facets: Vec<Vec<SearchFacet>>,
    /// Number of best hits to skip.
    pub offset: usize,
    pub limit: usize,
    pub semantic_mode: SemanticMode,
    /// True while the text is typed: words that begin with its last word match as well.
    pub is_unfinished: bool,
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
    /// Number of texts that cannot be found yet, or that have no embedding yet.
    pub pending: usize,
    /// The documents that are indexed in part or not at all.
    pub incomplete: IncompleteDocuments,
    /// Differs after each change of the indexed items or of the ranking model. Pages with different
    /// states may repeat or miss hits.
    pub state: u64,
}

/// Documents whose projection [`is_incomplete`](DocumentProjection::is_incomplete). Queries
/// miss their unindexed text, so an answer names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncompleteDocuments {
    pub total: usize,
    /// The first of them, at most [`IncompleteDocuments::MAX_NAMED`].
    pub first: Vec<DocumentId>,
}

impl IncompleteDocuments {
    pub const MAX_NAMED: usize = 3;

    pub fn add(&mut self, document: &DocumentId) {
        self.total += 1;
        if self.first.len() < Self::MAX_NAMED {
            self.first.push(document.clone());
        }
    }
}

/// A matching item.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    pub document: DocumentId,
    /// The indexed version. While the index is built, the storage may have another one.
    pub version: Version,
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

/// Maximum bytes of a document that are indexed. The rest of a longer text is not found: a file of
/// many megabytes is data rather than prose, and would take most of the index.
pub const MAX_INDEXED_BYTES: usize = 512 * 1024;
/// Counted for each item in addition to its text, because each takes memory in every list.
const ITEM_OVERHEAD_BYTES: usize = 256;
/// Tools accept 500 characters. A longer title of a file is cut, because every chunk repeats it.
const MAX_TITLE_BYTES: usize = 2_000;

impl DocumentProjection {
    /// Projects a document to its searchable items; none if the body is not text. `entity` is the
    /// document's entity if it is already parsed.
    pub fn from_document(document: &Document, entity: Option<Entity>) -> Self {
        let mut projection = Self::without_items(document.id.clone(), Some(document.version));
        let name = &document.id.name;
        let Ok(text) = document.text() else {
            projection.is_incomplete = true;
            return projection;
        };
        match document.id.kind {
            DocumentKind::Entity => {
                let entity = entity.unwrap_or_else(|| Entity::parse(name, text).0);
                projection.items.push(project_entity(entity));
                projection.add_text(knowledge::body(text));
            }
            DocumentKind::Section => {
                let indexed = projection.take_indexed(text);
                projection.add_section(name, indexed);
            }
            DocumentKind::Item(kind) => {
                // Times are not searchable.
                let (item, _) = ItemMeta::parse(kind, name, text, Timestamp(0));
                projection.items.push(project_item(item, name));
                projection.add_text(ItemMeta::description(text));
            }
            // Tombstones must not appear in results.
            DocumentKind::Instructions
            | DocumentKind::Docsets
            | DocumentKind::Schema
            | DocumentKind::Template
            | DocumentKind::Deleted => {}
        }
        projection
    }

    /// The projection of a removed document, or of one that cannot be read.
    pub fn without_items(document: DocumentId, version: Option<Version>) -> Self {
        let is_incomplete = version == Some(Version::UNREADABLE);
        Self { document, version, items: Vec::new(), is_incomplete }
    }

    /// Sets the text of the only item.
    fn add_text(&mut self, text: &str) {
        let indexed = self.take_indexed(text).to_owned();
        if let Some(item) = self.items.first_mut() {
            item.text = indexed;
        }
    }

    /// Returns the beginning of a text that is indexed.
    fn take_indexed<'t>(&mut self, text: &'t str) -> &'t str {
        self.is_incomplete = text.len() > MAX_INDEXED_BYTES;
        truncate_text(text, MAX_INDEXED_BYTES)
    }

    /// The reference of a rule is `key:index`, and its title is that of the section. All text
    /// outside of rules is one item with the reference `key`.
    fn add_section(&mut self, key: &str, source: &str) {
        let section = Section::parse(source);
        let heading = sections::first_heading(source).unwrap_or(key);
        let title = truncate_text(heading, MAX_TITLE_BYTES);
        let outside = section.outside_text();
        let mut texts = Vec::new();
        // Every rule has the first heading as its title.
        let other_text = outside.trim_matches(['\u{feff}', '#', '=', '-', ' ', '\n', '\r']);
        if section.requirements().is_empty() || !["", heading].contains(&other_text) {
            texts.push(("section", key.to_owned(), outside));
        }
        for requirement in section.requirements() {
            let reference = format!("{key}:{}", requirement.index);
            texts.push(("requirement", reference, section.text(requirement)));
        }
        let mut free_bytes = MAX_INDEXED_BYTES;
        for (kind, reference, text) in texts {
            let size = text.len() + title.len() + ITEM_OVERHEAD_BYTES;
            // A section of a million empty rules is short and has as many items.
            let Some(rest) = free_bytes.checked_sub(size) else {
                self.is_incomplete = true;
                break;
            };
            free_bytes = rest;
            self.items.push(SearchItem {
                reference,
                kind: kind.to_owned(),
                title: title.to_owned(),
                text,
                tags: Vec::new(),
                links: Vec::new(),
                facets: Vec::new(),
            });
        }
    }

    /// Approximate size in memory.
    pub fn size_bytes(&self) -> usize {
        let mut size = 0;
        for item in &self.items {
            size += ITEM_OVERHEAD_BYTES + item.title.len() + item.text.len();
            for word in item.tags.iter().chain(&item.links) {
                size += word.len();
            }
        }
        size
    }
}

/// The item without its text.
fn project_item(item: ItemMeta, name: &str) -> SearchItem {
    let reference = item.display_name(name).into_owned();
    let links = item.links().into_iter().map(|(_, target)| target).collect();
    let mut tags = item.tags;
    let mut facets = tag_facets(&tags);
    if let Some(status) = item.status {
        tags.push(status.name().to_owned());
        facets.push(SearchFacet::new(SearchFacet::STATUS, status.name()));
        facets.extend(is_ended(status.name()).then(SearchFacet::ended));
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
    add_custom(&mut tags, &item.custom);
    SearchItem {
        reference,
        kind: item.kind.name().to_owned(),
        title: truncate_text(&item.title, MAX_TITLE_BYTES).to_owned(),
        text: String::new(),
        tags,
        links,
        facets,
    }
}

/// The entity without its text.
fn project_entity(entity: Entity) -> SearchItem {
    let Entity { id, kind, title, status, mut tags, links, custom, .. } = entity;
    let mut facets = tag_facets(&tags);
    if let Some(status) = status {
        facets.push(SearchFacet::new(SearchFacet::STATUS, &status));
        facets.extend(is_ended(&status).then(SearchFacet::ended));
        tags.push(status);
    }
    add_custom(&mut tags, &custom);
    // Without the storage it is unknown whether other targets exist.
    let links = links.into_iter().filter(|link| link.is_certain).map(|link| link.target).collect();
    let title = truncate_text(&title, MAX_TITLE_BYTES).to_owned();
    SearchItem { reference: id, kind, title, text: String::new(), tags, links, facets }
}

/// Makes custom values searchable, except numbers and dates.
fn add_custom(words: &mut Vec<String>, custom: &CustomValues) {
    for (_, text) in custom.listed() {
        if !value_key(text).starts_with('#') && Timestamp::parse(text).is_none() {
            words.push(text.to_owned());
        }
    }
}

fn tag_facets(tags: &[String]) -> Vec<SearchFacet> {
    tags.iter().map(|tag| SearchFacet::new(SearchFacet::TAG, tag)).collect()
}

/// Returns the beginning of a text: at most this many bytes, and whole characters.
pub fn truncate_text(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentId;

    #[test]
    fn entity_is_projected_with_tags_status_and_links() {
        let text = "---\nid: iss-1\nstatus: open\ntags: [wal]\nblocks: [dec-1d2c8f, perhaps]\n\
                    areas: [ui, 'API 2']\neffort: 3\nseen: 2026-01-31\n---\nBody";
        let document = Document::new(DocumentId::entity("issues/iss-1"), text.into());
        let projection = DocumentProjection::from_document(&document, None);
        let item = &projection.items[0];
        assert_eq!(item.tags, ["wal", "open", "ui", "API 2"]);
        assert_eq!(item.links, ["dec-1d2c8f"]);
        assert_eq!(item.text, "Body");
        let facets: Vec<&str> = item.facets.iter().map(SearchFacet::as_str).collect();
        assert_eq!(facets, ["tag:wal", "status:open"]);
    }

    #[test]
    fn requirement_is_projected_with_its_facets() {
        let text = "---\ntitle: Login\npriority: 2\ntype_name: Data\nuser_story: US-7\n\
                    page: https://a.b\nsize: \"007\"\n---\nBody";
        let id = DocumentId { kind: DocumentKind::ITEMS[2], name: "REQ-1".to_owned() };
        let items = DocumentProjection::from_document(&Document::new(id, text.into()), None).items;
        let facets: Vec<&str> = items[0].facets.iter().map(SearchFacet::as_str).collect();
        assert_eq!(facets, ["status:Draft", "priority:2", "type:Data", "parent:US-007"]);
        assert_eq!(items[0].tags, ["Draft", "Data", "https://a.b"]);
    }

    #[test]
    fn long_text_is_projected_in_part() {
        let text = format!("---\nid: iss-1\ntitle: {}\n---\n", "T".repeat(5_000));
        for (length, is_incomplete) in [(MAX_INDEXED_BYTES, false), (MAX_INDEXED_BYTES + 2, true)] {
            let body = "ж".repeat(length / 2);
            let (id, text) = (DocumentId::entity("issues/iss-1"), format!("{text}{body}"));
            let projection =
                DocumentProjection::from_document(&Document::new(id, text.into()), None);
            let item = &projection.items[0];
            assert_eq!(projection.is_incomplete, is_incomplete);
            assert_eq!((item.title.len(), item.text.len()), (MAX_TITLE_BYTES, MAX_INDEXED_BYTES));
        }
    }

    #[test]
    fn text_outside_of_rules_is_projected_as_the_section() {
        let project = |source: &str| {
            let document = Document::new(DocumentId::section("x"), source.to_owned().into());
            let items = DocumentProjection::from_document(&document, None).items;
            let text = |item: SearchItem| format!("{} {:?}", item.reference, item.text);
            items.into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(
            project("# A\n\nWhy.\n\n**1.** One.\n\n## Later\n"),
            ["x \"# A\\n\\nWhy.\\n\\n\\n\\n## Later\\n\"", "x:1 \"One.\""]
        );
        assert_eq!(project("\u{feff}# A\n\n**1.** One.\n"), ["x:1 \"One.\""]);
        assert_eq!(project("# A\n"), ["x \"# A\\n\""]);
    }

    #[test]
    fn section_of_many_requirements_is_projected_in_part() {
        let project = |source: String| {
            let document = Document::new(DocumentId::section("x"), source.into());
            let projection = DocumentProjection::from_document(&document, None);
            (projection.items.len(), projection.is_incomplete)
        };
        let section = |count: usize| "**1.** a\n".repeat(count);
        assert_eq!(project(section(1_000)), (1_000, false));
        let (count, is_incomplete) = project(section(20_000));
        assert!(is_incomplete && (1_000..3_000).contains(&count), "{count}");
        // The rest of a long last requirement is not indexed.
        let long = format!("# {}\n**1.** {}", "h".repeat(9_000), "word ".repeat(MAX_INDEXED_BYTES));
        assert_eq!(project(long), (1, true));
    }

    #[test]
    fn document_that_cannot_be_read_is_incomplete() {
        let id = DocumentId::entity("a");
        let document = Document::new(id.clone(), b"\xff".as_slice().into());
        assert!(DocumentProjection::from_document(&document, None).is_incomplete);
        let unreadable = Some(Version::UNREADABLE);
        assert!(DocumentProjection::without_items(id.clone(), unreadable).is_incomplete);
        assert!(!DocumentProjection::without_items(id, None).is_incomplete);
    }
}
