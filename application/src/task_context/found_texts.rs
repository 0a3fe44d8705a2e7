//! The texts that a search finds for a task and for changed paths, and the rules that always hold.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::document_label::{DocumentLabel, SECTION_REQUIREMENT};
use reqlore_domain::search::{SearchFacet, SearchHit, SearchHits, SearchQuery, SemanticMode};
use reqlore_domain::sections::Section;
use reqlore_domain::task_context::words::{count_words, task_words};
use reqlore_domain::task_context::{ContextEntry, EntryReason, weights};

use super::candidate_texts::{Candidate, read_texts, rule_entry, unread_entry};
use crate::answers::empty_answer::HitCounts;
use crate::answers::ended_hits::{names_id, read_records};
use crate::backlog::item_lookup::{BacklogReader, item_meta};
use crate::backlog::search_global::EntityType;
use crate::context::ToolContext;
use crate::documents::get_one;
use crate::sections::stored_section;

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
    /// By kind, of candidates whose texts were not read.
    pub(super) unread: BTreeMap<String, usize>,
    pub(super) is_uncertain: bool,
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
        let words = task_words(&[task, path_words].map(Option::unwrap_or_default).join(" "));
        let is_certain = |hit| {
            // Many names of folders are in no text, so a search finds few of the words.
            let has_path =
                || count_hit_words(&words, hit) >= weights::MIN_PATH_WORDS.min(words.len());
            task.map_or_else(has_path, |_| !hit.is_uncertain)
        };
        let is_uncertain = !found.hits.iter().any(is_certain);
        let pending_note = HitCounts::of_page(found, query).pending_note();
        let path_weight = if task.is_some() { weights::PATH_WEIGHT } else { 1.0 };
        let task_hits = by_task.map(|found| found.hits).unwrap_or_default();
        let path_hits = by_path.map(|found| found.hits).unwrap_or_default();
        let mut hits = add_scores(task_hits, path_hits, path_weight);
        hits.retain(|hit| !known.contains(&hit.reference));
        let candidates = self.candidates(hits, task.unwrap_or_default(), &words).await?;
        let (mut entries, read) =
            read_texts(self.context, self.project, candidates, self.max_bytes).await;
        let mut unread = BTreeMap::new();
        for entry in entries.split_off(read) {
            *unread.entry(entry.label.kind).or_default() += 1;
        }
        Ok(FoundTexts { entries, unread, is_uncertain, pending_note })
    }

    /// The candidates for hits, best first, without documents that are no longer valid and that the
    /// task does not name.
    async fn candidates(
        &self,
        mut hits: Vec<SearchHit>,
        task: &str,
        words: &[String],
    ) -> Result<Vec<Candidate>> {
        let (context, project) = (self.context, self.project);
        let (records, freshness) = read_records(context, project, &hits).await?;
        let mut metas: HashMap<DocumentId, Arc<DocumentMeta>> = HashMap::new();
        metas.extend(records.into_iter().map(|meta| (meta.id.clone(), meta)));
        for kind in DocumentKind::ITEMS {
            let is_unknown = |hit: &&SearchHit| !metas.contains_key(&hit.document);
            let of_kind = hits.iter().filter(|hit| hit.document.kind == kind).filter(is_unknown);
            let names: Vec<String> = of_kind.map(|hit| hit.document.name.clone()).collect();
            if !names.is_empty() {
                let found = context.ports.documents.lookup(project, kind, &names).await?;
                metas.extend(found.into_iter().flatten().map(|meta| (meta.id.clone(), meta)));
            }
        }
        let groups = self.groups(&hits).await?;
        add_group_scores(&mut hits, &groups);
        hits.sort_by(|a, b| {
            b.score.total_cmp(&a.score).then_with(|| a.reference.cmp(&b.reference))
        });
        let mut candidates = Vec::with_capacity(hits.len());
        for hit in hits {
            let meta = metas.get(&hit.document).cloned();
            // The index may still have a document that was just removed.
            if meta.is_none() && hit.document.kind != DocumentKind::Section {
                continue;
            }
            let mut label = match &meta {
                Some(meta) => DocumentLabel::from_meta(meta, hit.reference.clone()),
                None => section_label(&hit),
            };
            label.mark(freshness.get(&hit.document).cloned().unwrap_or_default());
            if label.stale.is_some() && !names_id(task, &label.id) {
                continue;
            }
            // Paths are searched by words only, which may be those of a parent.
            let has_word = task.is_empty() || count_hit_words(words, &hit) > 0;
            let reason = if has_word { EntryReason::Words } else { EntryReason::Meaning };
            let prefix = format!("{}:", hit.document.name);
            let index = hit.reference.strip_prefix(&prefix).filter(|_| meta.is_none());
            candidates.push(Candidate {
                entry: unread_entry(label, reason, None),
                index: index.map(str::to_owned),
                document: hit.document,
                meta,
            });
        }
        Ok(candidates)
    }

    /// The epic or section of each hit, by its reference; hits without one are absent.
    async fn groups(&self, hits: &[SearchHit]) -> Result<HashMap<String, String>> {
        let mut groups = HashMap::new();
        let mut stories = Vec::new();
        for hit in hits {
            let parent = hit.facets.iter().find_map(|facet| facet.value(SearchFacet::PARENT));
            let group = match (parent, hit.document.kind) {
                (_, DocumentKind::Section) => Some(hit.document.name.clone()),
                (parent, _) => parent.map(str::to_owned),
            };
            let story = group.as_deref().and_then(Reference::parse);
            stories.extend(story.filter(|story| story.kind == ItemKind::UserStory));
            groups.extend(group.map(|group| (hit.reference.clone(), group)));
        }
        stories.sort_unstable();
        stories.dedup();
        let backlog = BacklogReader { ports: &self.context.ports, project: self.project };
        let found = backlog.find_items(&stories).await?;
        let mut epics = HashMap::new();
        for (story, meta) in stories.iter().zip(found) {
            let epic = meta.ok().and_then(|meta| item_meta(&meta).and_then(|item| item.parent));
            epics.extend(epic.map(|epic| (story.to_string(), epic.to_string())));
        }
        for group in groups.values_mut() {
            if let Some(epic) = epics.get(group) {
                group.clone_from(epic);
            }
        }
        Ok(groups)
    }

    /// The rules of these sections, which always hold. A missing section has none.
    pub(super) async fn rules(
        &self,
        sections: &[String],
        known: &HashSet<String>,
    ) -> Result<Vec<ContextEntry>> {
        let mut entries = Vec::new();
        for name in sections {
            let ports = &self.context.ports;
            let id = DocumentId::section(name.as_str());
            let id = stored_section(ports, self.project, id).await?;
            let document = get_one(&*ports.documents, self.project, &id).await?;
            let Some(document) = document else { continue };
            let Ok(text) = document.text() else { continue };
            let section = Section::parse(text);
            for rule in section.requirements() {
                let id = format!("{name}:{}", rule.index);
                if !known.contains(&id) {
                    let text = section.text(rule);
                    let reason = EntryReason::Rule;
                    entries.push(rule_entry(id, &text, reason, &document, self.max_bytes));
                }
            }
        }
        Ok(entries)
    }
}

fn count_hit_words(words: &[String], hit: &SearchHit) -> usize {
    count_words(words, &format!("{} {}", hit.title, hit.snippet))
}

fn section_label(hit: &SearchHit) -> DocumentLabel {
    let kind = if hit.reference.contains(':') { SECTION_REQUIREMENT } else { "section" };
    DocumentLabel {
        id: hit.reference.clone(),
        kind: kind.to_owned(),
        title: Some(hit.title.clone()),
        ..DocumentLabel::default()
    }
}

/// The hits of both searches with their added scores, each once.
fn add_scores(
    task_hits: Vec<SearchHit>,
    path_hits: Vec<SearchHit>,
    path_weight: f32,
) -> Vec<SearchHit> {
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
    hits
}

/// Adds a share of the best scores of the same epic or section.
fn add_group_scores(hits: &mut [SearchHit], groups: &HashMap<String, String>) {
    let mut best: HashMap<&str, Vec<f32>> = HashMap::new();
    for hit in hits.iter() {
        if let Some(group) = groups.get(&hit.reference) {
            best.entry(group).or_default().push(hit.score);
        }
    }
    for scores in best.values_mut() {
        scores.sort_by(|a, b| b.total_cmp(a));
        scores.truncate(weights::GROUP_SCORES);
    }
    for hit in hits {
        let found = groups.get(&hit.reference).and_then(|group| best.get(&**group));
        let sum: f32 = found.into_iter().flatten().sum();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let count = weights::GROUP_SCORES as f32;
        hit.score += weights::GROUP_WEIGHT * sum / count;
    }
}
