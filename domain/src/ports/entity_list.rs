//! Queries over all entities of a project: kinds, tags, similar and duplicate IDs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::item_list::MAX_PAGE_ITEMS;
use crate::document::{DocumentKind, DocumentMeta};
use crate::knowledge::entity_graph::{EntityCounts, id_parts, similar_prefix};
use crate::name_form::fold_name;

/// Maximum number of similar IDs.
pub const MAX_SIMILAR_IDS: usize = 3;
/// Entities without tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UntaggedList {
    /// Sorted by kind and name: the first ones.
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// Number of entities without tags.
    pub total: usize,
}

/// Candidates for a text that is neither an ID nor a name of an entity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimilarEntities {
    /// Entities whose ID or name differs from the text only in its case, sorted by name, at most
    /// [`MAX_PAGE_ITEMS`].
    pub same: Vec<Arc<DocumentMeta>>,
    /// IDs of which a part begins with the last part of the text, in the order of these parts, at
    /// most [`MAX_SIMILAR_IDS`].
    pub ids: Vec<String>,
}

/// IDs that several entities have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DuplicateIds {
    /// Sorted: the first ones.
    pub ids: Vec<String>,
    pub total: usize,
}

/// Words by which an entity is found: `=` with its ID and with its name, and `-` with the end of
/// its ID from each part on, in lower case. Empty for other documents.
pub fn entity_words(meta: &DocumentMeta) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let (DocumentKind::Entity, Some(entity)) = (meta.id.kind, &meta.entity) else { return words };
    words.extend([exact_word(&meta.id.name), exact_word(&entity.id)]);
    words.extend(id_parts(&entity.id));
    words
}

/// The word that the entities of [`SimilarEntities::same`] have.
pub fn exact_word(text: &str) -> String {
    format!("={}", fold_name(text))
}

// The functions below select from the metadata of all entities, sorted by name, for storages
// without tables. With an iterator they keep no metadata that is not in the answer.

pub(super) fn count_kinds(all: &[Arc<DocumentMeta>]) -> EntityCounts {
    let mut kinds = EntityCounts::new();
    for entity in all.iter().filter_map(|meta| meta.entity.as_ref()) {
        *kinds.entry(entity.kind.clone()).or_default() += 1;
    }
    kinds
}

pub(super) fn count_tags(all: &[Arc<DocumentMeta>], kind: Option<&str>) -> EntityCounts {
    let mut tags = EntityCounts::new();
    for entity in all.iter().filter_map(|meta| meta.entity.as_ref()) {
        if kind.is_none_or(|kind| entity.kind == kind) {
            for tag in &entity.tags {
                *tags.entry(tag.clone()).or_default() += 1;
            }
        }
    }
    tags
}

impl UntaggedList {
    pub(super) fn select(all: Vec<Arc<DocumentMeta>>, kind: Option<&str>, limit: usize) -> Self {
        let mut metadata = all;
        metadata.retain(|meta| match &meta.entity {
            Some(entity) => entity.tags.is_empty() && kind.is_none_or(|kind| entity.kind == kind),
            None => false,
        });
        let total = metadata.len();
        // The sort is stable, so entities of one kind stay in the order of their names.
        metadata.sort_by(|a, b| kind_of(a).cmp(&kind_of(b)));
        metadata.truncate(limit);
        Self { metadata, total }
    }
}

fn kind_of(meta: &DocumentMeta) -> Option<&str> {
    meta.entity.as_ref().map(|entity| entity.kind.as_str())
}

impl SimilarEntities {
    pub fn select(all: impl IntoIterator<Item = Arc<DocumentMeta>>, text: &str) -> Self {
        let (exact, prefix) = (exact_word(text), similar_prefix(text));
        let mut same = Vec::new();
        // The first parts, sorted, with the name and the ID of their entities.
        let mut parts: Vec<(String, String, String)> = Vec::new();
        for meta in all {
            let Some(entity) = &meta.entity else { continue };
            for word in entity_words(&meta) {
                if word == exact && same.len() < MAX_PAGE_ITEMS {
                    same.push(Arc::clone(&meta));
                } else if prefix.as_ref().is_some_and(|prefix| word.starts_with(prefix)) {
                    keep_part(&mut parts, (word, meta.id.name.clone(), entity.id.clone()));
                }
            }
        }
        Self { same, ids: parts.into_iter().map(|(.., id)| id).collect() }
    }
}

/// Adds a part if it is one of the first, at most one of each ID.
fn keep_part(parts: &mut Vec<(String, String, String)>, part: (String, String, String)) {
    if let Some(same_id) = parts.iter_mut().find(|other| other.2 == part.2) {
        if part < *same_id {
            *same_id = part;
        }
    } else {
        parts.push(part);
    }
    parts.sort();
    parts.truncate(MAX_SIMILAR_IDS);
}

/// Adds an ID unless it is in the list or the list is full. Returns true if more are wanted.
pub fn push_id(ids: &mut Vec<String>, id: &str) -> bool {
    if ids.len() < MAX_SIMILAR_IDS && !ids.iter().any(|other| other == id) {
        ids.push(id.to_owned());
    }
    ids.len() < MAX_SIMILAR_IDS
}

impl DuplicateIds {
    pub fn select(all: impl IntoIterator<Item = Arc<DocumentMeta>>, limit: usize) -> Self {
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for meta in all {
            if let Some(entity) = &meta.entity {
                *numbers.entry(entity.id.clone()).or_default() += 1;
            }
        }
        numbers.retain(|_, number| *number > 1);
        let total = numbers.len();
        Self { ids: numbers.into_keys().take(limit).collect(), total }
    }
}
