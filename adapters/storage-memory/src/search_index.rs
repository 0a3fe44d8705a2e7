//! The simplest search index: a scan for the query's words.
//!
//! It keeps the search port's rules about documents and versions. Its ranking is for tests only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::error::Result;
use reqlore_domain::ports::change_page::ChangePosition;
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{
    DocumentProjection, IncompleteDocuments, IndexDifference, SearchFacet, SearchHit, SearchHits,
    SearchItem, SearchQuery,
};

/// In-memory search index, gone when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    projects: Mutex<BTreeMap<ProjectKey, IndexedProject>>,
}

#[derive(Debug, Default)]
struct IndexedProject {
    documents: BTreeMap<DocumentId, (Version, Vec<SearchItem>)>,
    incomplete: BTreeSet<DocumentId>,
    checkpoints: BTreeMap<&'static str, BTreeMap<DocumentId, Version>>,
    position: Option<ChangePosition>,
    /// Number of changes, which identifies the state.
    changes: u64,
}

impl MemoryIndex {
    fn with_project<T>(
        &self,
        project: &ProjectKey,
        action: impl FnOnce(&mut IndexedProject) -> T,
    ) -> T {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        action(projects.entry(project.clone()).or_default())
    }
}

#[async_trait]
impl SearchIndex for MemoryIndex {
    async fn position(&self, project: &ProjectKey) -> Result<Option<ChangePosition>> {
        Ok(self.with_project(project, |project| project.position))
    }

    async fn indexed_versions<'a>(
        &self,
        project: &ProjectKey,
        after: Option<&'a DocumentId>,
        limit: usize,
    ) -> Result<Vec<(DocumentId, Version)>> {
        Ok(self.with_project(project, |project| {
            let start = after.map_or(Bound::Unbounded, Bound::Excluded);
            let mut versions = Vec::new();
            for (id, (version, _)) in project.documents.range((start, Bound::Unbounded)) {
                if versions.len() == limit {
                    break;
                }
                versions.push((id.clone(), *version));
            }
            versions
        }))
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        documents: &[DocumentId],
    ) -> Result<Vec<Option<Version>>> {
        Ok(self.with_project(project, |project| {
            let mut versions = Vec::with_capacity(documents.len());
            for id in documents {
                versions.push(project.documents.get(id).map(|(version, _)| *version));
            }
            versions
        }))
    }

    async fn apply_projections(
        &self,
        project: &ProjectKey,
        projections: Vec<DocumentProjection>,
        position: Option<ChangePosition>,
    ) -> Result<()> {
        self.with_project(project, |project| {
            project.position = position.or(project.position);
            for DocumentProjection { document, version, items, is_incomplete } in projections {
                project.changes += 1;
                project.incomplete.remove(&document);
                if is_incomplete && version.is_some() {
                    project.incomplete.insert(document.clone());
                }
                match version {
                    Some(version) => project.documents.insert(document, (version, items)),
                    None => project.documents.remove(&document),
                };
            }
        });
        Ok(())
    }

    async fn search(&self, project: &ProjectKey, query: &SearchQuery) -> Result<SearchHits> {
        let words: Vec<String> = query.text.split_whitespace().map(str::to_lowercase).collect();
        let (mut hits, incomplete, state) = self.with_project(project, |project| {
            let mut hits = Vec::new();
            let mut incomplete = IncompleteDocuments::default();
            for document in &project.incomplete {
                if includes_kind(query, document.kind) {
                    incomplete.add(document);
                }
            }
            for (id, (version, items)) in &project.documents {
                if !includes_kind(query, id.kind) {
                    continue;
                }
                for item in items {
                    let is_kind =
                        query.item_kinds.is_empty() || query.item_kinds.contains(&item.kind);
                    if is_kind && has_facets(item, query) {
                        hits.extend(match_item((id, *version), item, &words));
                    }
                }
            }
            (hits, incomplete, project.changes)
        });
        let is_ended = |hit: &SearchHit| {
            hit.facets.contains(&SearchFacet::ended()) && !query.text.contains(&hit.reference)
        };
        // The best score first, then by reference.
        hits.sort_by_key(|hit| {
            (is_ended(hit), Reverse(hit.score.to_bits()), hit.reference.clone())
        });
        let total = hits.len();
        let hits = hits.into_iter().skip(query.offset).take(query.limit).collect();
        let signals = vec!["words".to_owned()];
        Ok(SearchHits { hits, total, signals, pending: 0, incomplete, state })
    }

    async fn update_checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<IndexDifference> {
        Ok(self.with_project(project, |project| {
            let before = project.checkpoints.insert(name, versions.clone()).unwrap_or_default();
            IndexDifference::compare_versions(&before, &versions)
        }))
    }
}

/// True if the item has at least one facet of each group.
fn has_facets(item: &SearchItem, query: &SearchQuery) -> bool {
    query.facets.iter().all(|wanted| wanted.iter().any(|facet| item.facets.contains(facet)))
}

fn match_item(
    (document, version): (&DocumentId, Version),
    item: &SearchItem,
    words: &[String],
) -> Option<SearchHit> {
    let text = format!("{} {} {}", item.reference, item.title, item.text).to_lowercase();
    let matches = words.iter().filter(|word| text.contains(*word)).count();
    if matches == 0 {
        return None;
    }
    Some(SearchHit {
        document: document.clone(),
        version,
        reference: item.reference.clone(),
        kind: item.kind.clone(),
        title: item.title.clone(),
        facets: item.facets.clone(),
        #[expect(clippy::cast_precision_loss, reason = "a few words")]
        score: matches as f32 / words.len() as f32,
        is_uncertain: false,
        snippet: item.text.lines().find(|line| !line.is_empty()).unwrap_or_default().to_owned(),
    })
}

fn includes_kind(query: &SearchQuery, kind: DocumentKind) -> bool {
    query.document_kinds.is_empty() || query.document_kinds.contains(&kind)
}
