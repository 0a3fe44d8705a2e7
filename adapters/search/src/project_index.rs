//! The index of one project: item table, lexical index and semantic index.
//!
//! The index is a cache. After an error it is emptied and the error is logged. The application
//! finds the missing documents by `indexed` and adds them again.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::change_page::ChangePosition;
use reqlore_domain::ports::embedder::{Embedder, ModelLanguages, ModelSpeed, TextRole};
use reqlore_domain::search::{
    self, DocumentProjection, IncompleteDocuments, IndexDifference, SearchHit, SearchHits,
    SearchQuery, truncate_text,
};

use crate::SearchConfig;
use crate::analyzer::Analyzer;
use crate::cache_dir::CacheDir;
use crate::checkpoints::CheckpointFile;
use crate::chunk;
use crate::filter::ItemFilter;
use crate::item_table::{IndexedItem, ItemTable, first_bytes, slot_index};
use crate::lexical::LexicalIndex;
use crate::lexical::bm25::{self, LexicalMatch, QueryTerm};
use crate::lexical::query_expansion::{self, MAX_QUERY_BYTES};
use crate::project_cache::{IndexCost, MEMORY_READERS};
use crate::rank_fusion::{self, Candidate, FusionRule, ResultPage};
use crate::script::Script;
use crate::semantic::{self, EmbeddingBatch, SemanticHits, SemanticIndex};
use crate::snippet;

/// The share of the memory limit that texts may take in tantivy's queue, where each is held twice.
const QUEUE_SHARE: usize = 8;
/// Maximum words of a query that are looked up as references.
const MAX_REFERENCE_WORDS: usize = 256;
/// Maximum items that a query's references put first.
const MAX_PINNED_ITEMS: usize = 32;
/// A larger index is searched on a blocking thread.
const MAX_FAST_SEARCH_ITEMS: usize = 50_000;

#[derive(Debug)]
pub(crate) struct ProjectIndex {
    analyzers: AnalyzerPair,
    cache_dir: Option<CacheDir>,
    lexical: LexicalIndex,
    table: ItemTable,
    semantic: SemanticIndex,
    checkpoints: CheckpointFile,
    has_unsaved: bool,
    /// Bytes of texts that may wait for tantivy.
    max_queued_bytes: usize,
    /// See [`SearchIndex::position`](reqlore_domain::ports::search::SearchIndex::position).
    position: Option<ChangePosition>,
}

/// Separate analyzers, because an analyzer is locked and a search must not wait for indexing.
#[derive(Debug, Clone)]
pub(crate) struct AnalyzerPair {
    pub(crate) query: Analyzer,
    pub(crate) document: Analyzer,
}

pub(crate) enum QueryPlan {
    Ready(SemanticPlan),
    /// This slow model must embed the query first, without holding the lock.
    NeedsEmbedding(SemanticPlan, Arc<dyn Embedder>),
}

pub(crate) struct SemanticPlan {
    /// The ranking model; `None` for a lexical search.
    model: Option<usize>,
    query_vector: Option<Arc<[f32]>>,
    script: Script,
}

impl ProjectIndex {
    /// Opens the saved index of the directory; an unusable one is removed and the index is empty.
    pub(crate) fn open(
        mut cache_dir: Option<CacheDir>,
        analyzers: AnalyzerPair,
        config: &SearchConfig,
    ) -> Result<Self> {
        let semantic = SemanticIndex::new(&config.embedders, cache_dir.as_ref());
        let saved = match &mut cache_dir {
            Some(cache_dir) => load_saved(cache_dir, &analyzers),
            None => None,
        };
        let has_saved = saved.is_some();
        let (table, lexical) = if let Some(saved) = saved {
            saved
        } else {
            let lexical = LexicalIndex::create(&analyzers.document).map_err(build_error)?;
            (ItemTable::default(), lexical)
        };
        let mut project = Self {
            analyzers,
            cache_dir,
            lexical,
            table,
            semantic,
            checkpoints: CheckpointFile::default(),
            has_unsaved: false,
            max_queued_bytes: config.memory_bytes / QUEUE_SHARE,
            // Not saved, so callers compare all documents after each opening.
            position: None,
        };
        if has_saved {
            project.queue_missing_vectors();
        } else {
            // The next start must not load unusable files again.
            project.clear_cache_dir();
        }
        Ok(project)
    }

    pub(crate) fn position(&self) -> Option<ChangePosition> {
        self.position
    }

    pub(crate) fn indexed(
        &self,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Vec<(DocumentId, Version)> {
        self.table.versions(after, limit)
    }

    /// Adds, replaces or removes documents. After an error it empties the index and tries again.
    pub(crate) fn apply(
        &mut self,
        projections: &[DocumentProjection],
        position: Option<ChangePosition>,
    ) -> Result<()> {
        self.has_unsaved = true;
        match self.try_apply(projections) {
            Ok(()) => self.position = position.or(self.position),
            Err(error) => {
                self.reset_after(&error)?;
                // The other documents are missing now, so the position stays unknown.
                self.try_apply(projections).map_err(build_error)?;
            }
        }
        Ok(())
    }

    fn try_apply(&mut self, projections: &[DocumentProjection]) -> tantivy::Result<()> {
        // The texts of a call are embedded within it; see MAX_EMBEDDED_ON_OPEN.
        let mut budget = usize::MAX;
        for projection in projections {
            // A changed document is replaced as a whole.
            self.remove_document(&projection.document);
            let Some(version) = projection.version else { continue };
            let mut document_chunks = Vec::new();
            let document = self.table.add_document(projection.document.clone(), version);
            for item in &projection.items {
                let chunks = chunk::split_item(&item.title, &item.text);
                let mut facets = Vec::with_capacity(item.facets.len());
                for facet in &item.facets {
                    facets.push(self.table.facets.assign(facet.as_str()));
                }
                let indexed = IndexedItem {
                    document: Arc::clone(&document),
                    reference: item.reference.as_str().into(),
                    kind: self.table.intern_kind(&item.kind),
                    title: item.title.as_str().into(),
                    script: Script::detect(&[&item.title, &item.text]),
                    chunks: chunks.iter().map(|chunk| chunk.hash).collect(),
                    facets: facets.into(),
                };
                document_chunks.extend(chunks);
                self.semantic.add_item(&indexed.chunks);
                self.lexical.add(self.table.add_item(indexed), item)?;
            }
            if projection.is_incomplete {
                self.table.mark_incomplete(&document);
            }
            if self.lexical.queued_bytes() > self.max_queued_bytes {
                self.lexical.flush()?;
            }
            // One batch for each document, as a call of the model has a fixed cost.
            self.semantic.embed_or_queue(&document_chunks, &mut budget);
        }
        Ok(())
    }

    fn remove_document(&mut self, document: &DocumentId) {
        for (slot, item) in self.table.remove_document(document) {
            self.lexical.remove(slot);
            self.semantic.remove_item(&item.chunks);
        }
    }

    /// True if a search takes less time than a change of threads.
    pub(crate) fn is_fast_search(&self) -> bool {
        !self.lexical.is_dirty() && self.table.item_count() <= MAX_FAST_SEARCH_ITEMS
    }

    /// Commits changes and selects the ranking model.
    pub(crate) fn plan_query(&mut self, query: &SearchQuery) -> Result<QueryPlan> {
        if let Err(error) = self.lexical.commit() {
            self.reset_after(&error)?;
        }
        let text = truncate_text(&query.text, MAX_QUERY_BYTES);
        let script = Script::detect(&[text]);
        let mut plan = SemanticPlan { model: None, query_vector: None, script };
        if query.semantic_mode != search::SemanticMode::Best {
            return Ok(QueryPlan::Ready(plan));
        }
        let Some(model) = self.semantic.ranking_model(&self.table, script) else {
            return Ok(QueryPlan::Ready(plan));
        };
        plan.model = Some(model);
        plan.query_vector = self.semantic.cached_query(model, text);
        if plan.query_vector.is_some() {
            return Ok(QueryPlan::Ready(plan));
        }
        let embedder = Arc::clone(self.semantic.embedder(model));
        if embedder.profile().speed == ModelSpeed::Slow {
            return Ok(QueryPlan::NeedsEmbedding(plan, embedder));
        }
        let vector = embed_query(&*embedder, query);
        Ok(QueryPlan::Ready(self.add_query_vector(plan, query, vector)))
    }

    /// Adds the query's vector to the plan. An error disables the model; the search is then
    /// lexical.
    pub(crate) fn add_query_vector(
        &mut self,
        mut plan: SemanticPlan,
        query: &SearchQuery,
        vector: Result<Vec<f32>>,
    ) -> SemanticPlan {
        let Some(model) = plan.model else { return plan };
        match vector {
            Ok(vector) => {
                let vector: Arc<[f32]> = vector.into();
                let text = truncate_text(&query.text, MAX_QUERY_BYTES);
                self.semantic.cache_query(model, text, &vector);
                plan.query_vector = Some(vector);
            }
            Err(error) => {
                self.semantic.disable(model, &error);
                plan.model = None;
            }
        }
        plan
    }

    /// Answers a query. An error empties the index, and then nothing is found.
    pub(crate) fn search(
        &mut self,
        query: &SearchQuery,
        plan: &SemanticPlan,
    ) -> Result<SearchHits> {
        // Another call may have changed the index while the query was embedded.
        let committed = self.lexical.commit();
        let result = committed.and_then(|()| self.try_search(query, plan));
        let error = match result {
            Ok(hits) => return Ok(hits),
            Err(error) => error,
        };
        self.reset_after(&error)?;
        self.try_search(query, plan).map_err(build_error)
    }

    fn try_search(
        &mut self,
        query: &SearchQuery,
        plan: &SemanticPlan,
    ) -> tantivy::Result<SearchHits> {
        let Self { lexical, table, semantic, analyzers, .. } = self;
        let filter = ItemFilter::new(query, &table.facets);
        let searcher = lexical.searcher();
        let words = query_expansion::expand_query(searcher, &analyzers.query, &query.text)?;
        let matches = bm25::match_items(searcher, &words, table.item_count(), table.slot_count())?;
        let mut pinned = pinned_slots(table, &query.text);
        pinned.retain(|slot| filter.includes_slot(table, *slot));

        let mut signals = vec!["words".to_owned()];
        let (mut semantic_hits, mut rule) = (None, FusionRule::LEXICAL);
        if let (Some(model), Some(vector)) = (plan.model, &plan.query_vector) {
            let includes_slot = |slot| filter.includes_slot(table, slot);
            semantic_hits = Some(semantic.most_similar(model, table, vector, includes_slot));
            let profile = semantic.embedder(model).profile();
            signals.push(format!("meaning:{}", profile.name));
            let is_cross_script = profile.languages == ModelLanguages::Many
                && table.main_script() != Script::None
                && table.main_script() != plan.script;
            rule =
                FusionRule::with_model(words.word_count(), profile.min_evidence, is_cross_script);
        }
        let mut candidates = find_candidates(table, &filter, &matches, semantic_hits.as_ref());
        for candidate in &mut candidates {
            candidate.length = searcher.term_count(candidate.slot);
        }
        let range = query.offset..query.offset.saturating_add(query.limit);
        let page = rank_fusion::rank_page(table, &candidates, &rule, &pinned, range);
        let pending = semantic.pending_chunks(table);
        let state = index_state(table, semantic, plan.model);
        let mut incomplete = IncompleteDocuments::default();
        for document in table.incomplete() {
            if filter.includes_kind(document.kind) {
                incomplete.add(document);
            }
        }
        let hits = self.build_hits(&page, semantic_hits.as_ref(), &words.terms)?;
        Ok(SearchHits { hits, total: page.total, signals, pending, incomplete, state })
    }

    fn build_hits(
        &self,
        page: &ResultPage,
        semantic_hits: Option<&SemanticHits>,
        terms: &[QueryTerm],
    ) -> tantivy::Result<Vec<SearchHit>> {
        let mut hits = Vec::with_capacity(page.hits.len());
        for (position, ranked) in page.hits.iter().enumerate() {
            let Some(item) = self.table.item(ranked.slot) else { continue };
            // Read only for the items of one page; ranking needs no text.
            let stored = self.lexical.searcher().stored_text(ranked.slot)?;
            let (title, text) = stored.unwrap_or_default();
            let best_chunk = match semantic_hits {
                Some(semantic_hits) => semantic_hits.best_chunks[slot_index(ranked.slot)],
                None => None,
            };
            let snippet = snippet::best_snippet(&self.analyzers.query, &text, terms, || {
                chunk_start(&title, &text, best_chunk)
            });
            hits.push(SearchHit {
                document: DocumentId::clone(&item.document),
                reference: item.reference.to_string(),
                kind: item.kind.to_string(),
                title: item.title.to_string(),
                facets: self.table.facets.to_facets(&item.facets),
                score: ranked.score,
                is_uncertain: position >= page.certain_count,
                snippet,
            });
        }
        Ok(hits)
    }

    pub(crate) fn checkpoint(
        &mut self,
        name: &str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> IndexDifference {
        self.checkpoints.compare_and_replace(self.cache_dir.as_ref(), name, versions)
    }

    pub(crate) fn cost(&self) -> IndexCost {
        IndexCost { files: usize::from(self.cache_dir.is_some()), readers: MEMORY_READERS }
    }

    pub(crate) fn next_batch(&mut self) -> Option<EmbeddingBatch> {
        self.semantic.next_batch()
    }

    pub(crate) fn store_batch(&mut self, batch: &EmbeddingBatch, result: Result<Vec<Vec<f32>>>) {
        self.has_unsaved = true;
        self.semantic.store_batch(batch, result);
    }

    /// Saves changes and drops unused vectors. After a failure the next process builds the index
    /// again.
    pub(crate) fn save(&mut self) {
        if !self.has_unsaved {
            return;
        }
        self.semantic.drop_unused();
        let Some(cache_dir) = &mut self.cache_dir else {
            self.has_unsaved = false;
            return;
        };
        if cache_dir.take_over() {
            self.semantic.take_over();
        }
        self.semantic.save();
        if !cache_dir.is_writer() {
            // Another process is the writer; it may have ended at the next save.
            return;
        }
        self.has_unsaved = false;
        let table = self.table.encode();
        if let Err(error) = self.lexical.commit() {
            return warn_not_saved(&io::Error::other(error));
        }
        match cache_dir.save_index(&self.lexical.index, &self.lexical.directory, &table) {
            Ok(is_complete) => self.has_unsaved = !is_complete,
            Err(error) => warn_not_saved(&error),
        }
    }

    /// Empties the index after an error.
    fn reset_after(&mut self, error: &tantivy::TantivyError) -> Result<()> {
        self.position = None;
        tracing::warn!(%error, "search index: it is damaged and is rebuilt");
        self.semantic.clear_items();
        self.table = ItemTable::default();
        self.lexical = LexicalIndex::create(&self.analyzers.document).map_err(build_error)?;
        self.clear_cache_dir();
        Ok(())
    }

    fn clear_cache_dir(&mut self) {
        if let Some(cache_dir) = &mut self.cache_dir
            && let Err(error) = cache_dir.clear_index()
        {
            warn_not_saved(&error);
        }
    }

    /// Embeds or queues the texts that an earlier process did not embed.
    fn queue_missing_vectors(&mut self) {
        let mut slots = Vec::new();
        for (slot, item) in self.table.iter() {
            self.semantic.add_item(&item.chunks);
            if item.chunks.iter().any(|hash| self.semantic.lacks_vector(hash)) {
                slots.push(slot);
            }
        }
        let mut budget = semantic::MAX_EMBEDDED_ON_OPEN;
        for slot in slots {
            // An error is left to the next search, which resets the index.
            if let Ok(Some((title, text))) = self.lexical.searcher().stored_text(slot) {
                self.semantic.embed_or_queue(&chunk::split_item(&title, &text), &mut budget);
            }
        }
    }
}

impl Drop for ProjectIndex {
    /// Saves the changes of a call that used the index after it was closed.
    fn drop(&mut self) {
        self.save();
    }
}

/// Loads a saved index; `None` if a part is missing, damaged or inconsistent with the other.
fn load_saved(
    cache_dir: &mut CacheDir,
    analyzers: &AnalyzerPair,
) -> Option<(ItemTable, LexicalIndex)> {
    let (directory, table) = cache_dir.load_index()?;
    let lexical = LexicalIndex::open(directory, &analyzers.document).ok()?;
    let table = ItemTable::decode(&table)?;
    if !lexical.searcher().matches_table(&table) {
        return None;
    }
    Some((table, lexical))
}

/// Returns the included items that have a word of the query or are among the most similar ones.
fn find_candidates(
    table: &ItemTable,
    filter: &ItemFilter<'_>,
    matches: &[LexicalMatch],
    semantic_hits: Option<&SemanticHits>,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (slot, lexical) in (0..).zip(matches) {
        // The filter is applied after matching, so that it does not change the weights of terms.
        if lexical.score > 0.0 && filter.includes_slot(table, slot) {
            let similarity = semantic_hits.map_or(0.0, |hits| hits.similarities[slot_index(slot)]);
            candidates.push(Candidate { slot, lexical: *lexical, similarity, length: 0.0 });
        }
    }
    let Some(semantic_hits) = semantic_hits else { return candidates };
    for hit in &semantic_hits.best {
        let lexical = matches.get(slot_index(hit.slot)).copied().unwrap_or_default();
        if lexical.score == 0.0 {
            let (slot, similarity) = (hit.slot, hit.score);
            candidates.push(Candidate { slot, lexical, similarity, length: 0.0 });
        }
    }
    candidates
}

/// Returns a number that differs if the items, the model, or its vectors differ.
fn index_state(table: &ItemTable, semantic: &mut SemanticIndex, model: Option<usize>) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&table.content_hash().to_le_bytes());
    if let Some(model) = model {
        let (id, missing) = semantic.ranking_state(model, table);
        // A vector that arrives between two pages may change their order.
        hasher.update(id.as_bytes()).update(&missing.to_le_bytes());
    }
    first_bytes(&hasher.finalize())
}

/// Embeds the first [`MAX_QUERY_BYTES`] of a query.
pub(crate) fn embed_query(embedder: &dyn Embedder, query: &SearchQuery) -> Result<Vec<f32>> {
    let text = truncate_text(&query.text, MAX_QUERY_BYTES);
    let vectors = semantic::embed_texts(embedder, TextRole::Query, &[text])?;
    Ok(vectors.into_iter().next().unwrap_or_default())
}

fn build_error(error: tantivy::TantivyError) -> Error {
    let message = "search index: cannot be built; see the server log";
    Error::new(ErrorKind::Internal, message).caused_by(error)
}

fn warn_not_saved(error: &io::Error) {
    tracing::warn!(%error, "search index: cannot be saved; the next start rebuilds it");
}

/// Returns the offset of an item's chunk in its text; 0 without a chunk.
fn chunk_start(title: &str, text: &str, position: Option<u32>) -> usize {
    let Some(position) = position else { return 0 };
    match chunk::split_item(title, text).get(slot_index(position)) {
        Some(chunk) => chunk.range.start,
        None => 0,
    }
}

/// Returns the slots of items whose exact references occur in the query, in the query's order.
///
/// A reference may be an ordinary word, such as `login`. Such a reference is pinned only if it is
/// the whole query. Within a query only words that look like a name are looked up.
fn pinned_slots(table: &ItemTable, query: &str) -> Vec<u32> {
    let query = truncate_text(query, MAX_QUERY_BYTES).trim();
    let mut pinned = Vec::new();
    pin_reference(table, query, &mut pinned);
    for word in query.split_whitespace().take(MAX_REFERENCE_WORDS) {
        let trimmed = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        if looks_like_a_name(trimmed) {
            pin_reference(table, trimmed, &mut pinned);
        }
        // Lists: `REQ-1,REQ-2` or `[REQ-1](x)`.
        for part in trimmed.split(|c: char| !c.is_alphanumeric() && !is_name_punctuation(c)) {
            if part.len() < trimmed.len() && looks_like_a_name(part) {
                pin_reference(table, part, &mut pinned);
            }
        }
    }
    pinned
}

fn pin_reference(table: &ItemTable, reference: &str, pinned: &mut Vec<u32>) {
    // A path names its file.
    let name = reference.rsplit_once('/').map_or(reference, |(_, name)| name);
    let name = name.strip_suffix(".md").unwrap_or(name);
    // `req-7` and `REQ-007-guest-checkout-3f9a1c` are `REQ-007`.
    let parsed = Reference::from_document_name(&name.to_ascii_uppercase());
    let canonical = parsed.map(|parsed| parsed.to_string());
    pin_slots(table, reference, pinned);
    pin_slots(table, canonical.as_deref().unwrap_or(name), pinned);
}

fn pin_slots(table: &ItemTable, reference: &str, pinned: &mut Vec<u32>) {
    for slot in table.slots_of_reference(reference) {
        if !pinned.contains(&slot) && pinned.len() < MAX_PINNED_ITEMS {
            pinned.push(slot);
        }
    }
}

fn looks_like_a_name(word: &str) -> bool {
    word.contains(|c: char| c.is_numeric() || is_name_punctuation(c))
}

fn is_name_punctuation(c: char) -> bool {
    matches!(c, '-' | '_' | '.' | ':' | '/')
}
