//! The texts that a search finds for a task and for changed paths.

use std::collections::{HashMap, HashSet};

use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::document_label::{DocumentLabel, SECTION_REQUIREMENT};
use reqlore_domain::search::{SearchFacet, SearchHit, SearchHits, SearchQuery, SemanticMode};
use reqlore_domain::task_context::words::{has_word, task_words};
use reqlore_domain::task_context::{ContextEntry, EntryReason, weights};

use super::candidate_texts::{Candidate, read_texts};
use crate::answers::empty_answer::HitCounts;
use crate::answers::ended_hits::{names_id, read_records};
use crate::backlog::search_global::EntityType;
use crate::context::ToolContext;

/// A search in a project.
pub(super) struct TextSearch<'a> {
    pub(super) context: &'a ToolContext,
    pub(super) project: &'a ProjectKey,
    pub(super) progress: &'a dyn ProgressSink,
    pub(super) document_kinds: Vec<DocumentKind>,
    pub(super) item_kinds: Vec<String>,
    pub(super) limit: usize,
    pub(super) max_bytes: usize,
}

/// The candidates of a search.
#[derive(Default)]
pub(super) struct FoundTexts {
    /// Best first.
    pub(super) entries: Vec<ContextEntry>,
    /// True if no hit for the task is convincing.
    pub(super) is_weak: bool,
    pub(super) pending_note: Option<String>,
}

impl TextSearch<'_> {
    fn query(&self, text: &str, semantic_mode: SemanticMode) -> SearchQuery {
        // A filter takes time to compare, so no filter selects all.
        let is_filtered = self.document_kinds.len() < EntityType::DOCUMENTS.len();
        let document_kinds = if is_filtered { &*self.document_kinds } else { &[] };
        SearchQuery {
            text: text.to_owned(),
            document_kinds: document_kinds.to_vec(),
            item_kinds: self.item_kinds.clone(),
            facets: Vec::new(),
            offset: 0,
            limit: self.limit,
            semantic_mode,
            is_unfinished: false,
        }
    }

    async fn search(&self, query: Option<&SearchQuery>) -> Result<Option<SearchHits>> {
        // Without a kind, a query would select all.
        let Some(query) = query.filter(|_| !self.document_kinds.is_empty()) else {
            return Ok(None);
        };
        let (indexes, ports) = (&self.context.indexes, &self.context.server_ports);
        Ok(Some(indexes.search(ports, self.project, query, self.progress).await?))
    }

    /// Finds texts for a task and changed paths, without the documents in `known`.
    pub(super) async fn find(
        &self,
        task: Option<&str>,
        path_words: Option<&str>,
        known: &HashSet<String>,
    ) -> Result<FoundTexts> {
        let task_query = task.map(|task| self.query(task, SemanticMode::Best));
        let path_query = path_words.map(|words| self.query(words, SemanticMode::Off));
        let by_task = self.search(task_query.as_ref()).await?;
        let by_path = self.search(path_query.as_ref()).await?;
        let first = by_task.as_ref().zip(task_query.as_ref());
        let Some((found, query)) = first.or(by_path.as_ref().zip(path_query.as_ref())) else {
            return Ok(FoundTexts::default());
        };
        let is_weak = task.is_some() && found.hits.iter().all(|hit| hit.is_uncertain);
        let pending_note = HitCounts::of_page(found, query).pending_note();
        let [task_hits, path_hits] =
            [by_task, by_path].map(|found| found.map(|found| found.hits).unwrap_or_default());
        let mut hits = add_scores(task_hits, path_hits);
        hits.retain(|hit| !known.contains(&hit.reference));
        let words = [task, path_words].map(Option::unwrap_or_default).join(" ");
        let candidates = self.candidates(hits, task.unwrap_or_default(), &words).await?;
        let entries = read_texts(self.context, self.project, candidates, self.max_bytes).await;
        Ok(FoundTexts { entries, is_weak, pending_note })
    }

    /// The candidates for hits, without documents that are no longer valid and that the task does
    /// not name.
    async fn candidates(
        &self,
        hits: Vec<SearchHit>,
        task: &str,
        words: &str,
    ) -> Result<Vec<Candidate>> {
        let (records, freshness) = read_records(self.context, self.project, &hits).await?;
        let words = task_words(words);
        let mut candidates = Vec::with_capacity(hits.len());
        for hit in hits {
            let mut label = hit_label(&hit);
            label.mark(freshness.get(&hit.document).cloned().unwrap_or_default());
            if label.stale.is_some() && !names_id(task, &label.id) {
                continue;
            }
            // Paths are searched by words only, which may be those of a parent.
            let text = format!("{} {}", hit.title, hit.snippet);
            let is_word = task.is_empty() || has_word(&words, &text);
            let reason = if is_word { EntryReason::Words } else { EntryReason::Meaning };
            let prefix = format!("{}:", hit.document.name);
            let index = hit.reference.strip_prefix(&prefix).map(str::to_owned);
            candidates.push(Candidate {
                entry: ContextEntry::new(label, reason),
                index: index.filter(|_| hit.document.kind == DocumentKind::Section),
                meta: records.iter().find(|meta| meta.id == hit.document).cloned(),
                document: hit.document,
            });
        }
        Ok(candidates)
    }
}

fn hit_label(hit: &SearchHit) -> DocumentLabel {
    let is_rule = hit.document.kind == DocumentKind::Section && hit.reference.contains(':');
    let status = hit.facets.iter().find_map(|facet| facet.value(SearchFacet::STATUS));
    DocumentLabel {
        id: hit.reference.clone(),
        kind: if is_rule { SECTION_REQUIREMENT.to_owned() } else { hit.kind.clone() },
        title: Some(hit.title.clone()),
        status: status.map(str::to_owned),
        ..DocumentLabel::default()
    }
}

/// The hits of both searches with their added scores, each once, best first.
fn add_scores(task_hits: Vec<SearchHit>, path_hits: Vec<SearchHit>) -> Vec<SearchHit> {
    let best = |hits: &[SearchHit]| hits.iter().map(|hit| hit.score).fold(0.0, f32::max);
    // The few words of one path have higher scores than the many of a task.
    let path_weight = weights::PATH_WEIGHT * (best(&task_hits) / best(&path_hits)).min(1.0);
    let mut hits: Vec<SearchHit> = Vec::with_capacity(task_hits.len());
    let mut positions = HashMap::new();
    let weighted = task_hits.into_iter().map(|hit| (hit, 1.0));
    for (mut hit, weight) in weighted.chain(path_hits.into_iter().map(|hit| (hit, path_weight))) {
        hit.score *= weight;
        let position = *positions.entry(hit.reference.clone()).or_insert(hits.len());
        match hits.get_mut(position) {
            Some(known) => known.score += hit.score,
            None => hits.push(hit),
        }
    }
    // Stable, so that hits of one score keep the order of the search.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::{DocumentId, Version};

    use super::*;

    fn hits(scores: &[(&str, f32)]) -> Vec<SearchHit> {
        let hits = scores.iter().map(|(reference, score)| SearchHit {
            document: DocumentId::entity(*reference),
            version: Version::UNREADABLE,
            reference: (*reference).to_owned(),
            kind: String::new(),
            title: String::new(),
            facets: Vec::new(),
            score: *score,
            is_uncertain: false,
            snippet: String::new(),
        });
        hits.collect()
    }

    #[test]
    fn best_hit_for_paths_has_a_share_of_the_best_for_the_task() {
        let order = |task: &[_], paths: &[_]| {
            let added = add_scores(hits(task), hits(paths));
            added.into_iter().map(|hit| hit.reference).collect::<Vec<_>>()
        };
        let task = [("a", 0.2), ("b", 0.15), ("c", 0.05)];
        assert_eq!(order(&task, &[("d", 1.0), ("b", 0.9)]), ["b", "a", "d", "c"]);
        assert_eq!(order(&task, &[("d", 0.1)]), ["a", "b", "c", "d"]);
        assert_eq!(order(&[], &[("d", 0.9), ("b", 0.1)]), ["d", "b"]);
    }
}
