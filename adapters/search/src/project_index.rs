//! The index of one project: lexical index and semantic index.
//!
//! The index is a cache. After an error it is set aside and the error is logged. The application
//! finds the missing documents by the position and adds them again.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::change_page::ChangePosition;
use reqlore_domain::ports::embedder::{Embedder, ModelLanguages, ModelSpeed, TextRole};
use reqlore_domain::search::{
    self, DocumentProjection, IndexDifference, SearchHit, SearchHits, SearchQuery, truncate_text,
};
use tantivy::DocAddress;

use crate::analyzer::Analyzer;
use crate::cache_dir::CacheDir;
use crate::candidates;
use crate::checkpoints::CheckpointFile;
use crate::chunk;
use crate::config::SearchConfig;
use crate::disk_directory::ByteCache;
use crate::filter::filter_query;
use crate::index_cost::IndexCost;
use crate::index_folder::{IndexFolder, IndexLocation, is_out_of_files};
use crate::lexical::bm25::{LexicalScorer, QueryTerm};
use crate::lexical::pinned_items::pinned_items;
use crate::lexical::query_expansion::{self, MAX_QUERY_BYTES};
use crate::lexical::searcher::{MAX_SCORED_ITEMS, to_usize};
use crate::lexical::{self, LexicalIndex, catch_panic, open_index};
use crate::rank_fusion::{self, FusionRule, ResultPage};
use crate::rebuild;
use crate::script::Script;
use crate::semantic::{self, EmbeddingBatch, SemanticHits, SemanticIndex};
use crate::snippet;

/// The share of the memory limit for pending texts. Each is in memory several times: as stored
/// text, as words, and in the buffers of the segment.
const QUEUE_SHARE: usize = 16;
/// In an index of more than [`MAX_SCORED_ITEMS`], this number of the best items by words are ranked
/// by all evidence.
const RANKED_ITEMS: usize = 200;

/// Builds that a process leaves to the writer of the vectors, because only the writer saves them.
/// After this number of attempts, the process builds the index itself.
const MAX_DEFERRED: usize = 10;

pub(crate) struct ProjectIndex {
    analyzers: AnalyzerPair,
    cache_dir: Option<CacheDir>,
    location: IndexLocation,
    /// The format of the index folder; see [`IndexLocation::open`].
    format: String,
    byte_cache: Arc<ByteCache>,
    lexical: LexicalIndex,
    semantic: SemanticIndex,
    checkpoints: CheckpointFile,
    has_unsaved: bool,
    /// Limits the memory of texts that wait for a commit, and of an index in memory.
    memory_bytes: usize,
    /// Number of builds that were left to another process.
    deferred: usize,
    /// Number of documents removed since the index was opened.
    removed_documents: usize,
    /// Size of the files when the index was opened or saved last.
    disk_bytes: u64,
}

/// Separate analyzers, because an analyzer is locked and a search must not wait for indexing.
#[derive(Clone)]
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
    /// Opens the index of the directory; an unusable one is set aside and the index is empty.
    pub(crate) fn open(
        cache_dir: Option<CacheDir>,
        byte_cache: Arc<ByteCache>,
        analyzers: AnalyzerPair,
        config: &SearchConfig,
    ) -> Result<Self> {
        let semantic = SemanticIndex::new(&config.embedders, cache_dir.as_ref());
        let folder = cache_dir.as_ref().map(CacheDir::folder);
        let format = folder.map_or_else(lexical::format, rebuild::folder_format);
        let location = IndexLocation::open(folder, &format, config.memory_bytes);
        let mut location = location.map_err(|error| build_error(error.into()))?;
        let (analyzer, memory_bytes) = (&analyzers.document, config.memory_bytes);
        let lexical = open_index(&mut location, &format, &byte_cache, analyzer, memory_bytes)
            .map_err(build_error)?;
        let mut project = Self {
            analyzers,
            cache_dir,
            location,
            format,
            byte_cache,
            lexical,
            semantic,
            checkpoints: CheckpointFile::default(),
            has_unsaved: false,
            memory_bytes: config.memory_bytes,
            deferred: 0,
            removed_documents: 0,
            disk_bytes: 0,
        };
        project.update_size();
        project.try_or_reset(Self::embed_missing)?;
        Ok(project)
    }

    /// Begins to build the index. False while another process builds it. If that build has ended,
    /// the index is a copy of it and has a position.
    pub(crate) fn begin_build(&mut self) -> Result<bool> {
        let Some(folder) = self.location.folder().cloned() else { return Ok(true) };
        let is_writer = self.cache_dir.as_ref().is_some_and(CacheDir::is_writer);
        if !is_writer && !folder.has_source(&self.format) && self.deferred < MAX_DEFERRED {
            self.deferred += 1;
            return Ok(false);
        }
        let io_error = |error: io::Error| build_error(error.into());
        if !folder.lock_build(&self.format).map_err(io_error)? {
            return Ok(false);
        }
        if folder.has_source(&self.format) {
            self.reopen(|_, format, _| folder.copy_source(format))?;
            folder.unlock_build();
            self.semantic.add_saved();
            self.try_or_reset(Self::embed_missing)?;
        }
        Ok(true)
    }

    /// True if other processes may wait for this build, which is complete.
    pub(crate) fn completes_build(&self) -> bool {
        let is_building = self.position() == Some(ChangePosition::BUILDING);
        !is_building && self.location.folder().is_some_and(|folder| folder.is_build_locked())
    }

    /// The position after all changes, including uncommitted ones.
    pub(crate) fn position(&self) -> Option<ChangePosition> {
        self.lexical.position()
    }

    /// True if no change awaits a commit, so reads are fast.
    pub(crate) fn is_committed(&self) -> bool {
        !self.lexical.has_pending()
    }

    pub(crate) fn indexed(
        &mut self,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<(DocumentId, Version)>> {
        self.try_or_reset(|project| {
            project.commit()?;
            project.lexical.searcher().versions(after, limit)
        })
    }

    /// The versions that the last search saw.
    pub(crate) fn versions_of(&mut self, ids: &[DocumentId]) -> Result<Vec<Option<Version>>> {
        self.try_or_reset(|project| project.lexical.searcher().versions_of(ids))
    }

    /// Adds, replaces or removes documents. After an error, the index contains only these.
    pub(crate) fn apply(
        &mut self,
        projections: &[DocumentProjection],
        position: Option<ChangePosition>,
    ) -> Result<()> {
        self.has_unsaved = true;
        let before = self.lexical.position();
        self.try_or_reset(|project| project.try_apply(projections))?;
        // After an error the other documents are missing, so the position stays unknown.
        if self.lexical.position() == before
            && let Some(position) = position
        {
            self.lexical.move_to(position);
        }
        Ok(())
    }

    fn try_apply(&mut self, projections: &[DocumentProjection]) -> tantivy::Result<()> {
        for projection in projections {
            let mut chunks = Vec::with_capacity(projection.items.len());
            for item in &projection.items {
                chunks.push(chunk::split_item(&item.title, &item.text));
            }
            self.lexical.replace(projection, &chunks);
            self.removed_documents += usize::from(projection.version.is_none());
            // One batch for each document, as a call of the model has a fixed cost.
            self.semantic.embed_document(&chunks.concat());
            if self.lexical.pending_bytes() > self.memory_bytes / QUEUE_SHARE {
                self.commit()?;
            }
        }
        Ok(())
    }

    /// Makes pending changes visible.
    fn commit(&mut self) -> tantivy::Result<()> {
        if self.lexical.has_pending() {
            self.check_lock()?;
            self.lexical.commit()?;
            self.embed_missing()?;
        }
        Ok(())
    }

    /// True if a search takes less time than a change of threads.
    pub(crate) fn is_fast_search(&self) -> bool {
        self.is_committed() && self.lexical.searcher().item_count() <= MAX_SCORED_ITEMS
    }

    /// Commits changes and selects the ranking model.
    pub(crate) fn plan_query(&mut self, query: &SearchQuery) -> Result<QueryPlan> {
        self.try_or_reset(Self::commit)?;
        let text = truncate_text(&query.text, MAX_QUERY_BYTES);
        let script = Script::detect(&[text]);
        let mut plan = SemanticPlan { model: None, query_vector: None, script };
        if query.semantic_mode != search::SemanticMode::Best {
            return Ok(QueryPlan::Ready(plan));
        }
        let Some(model) = self.semantic.ranking_model(self.lexical.searcher(), script) else {
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
        self.try_or_reset(|project| {
            // Another call may have changed the index while the query was embedded.
            project.commit()?;
            project.try_search(query, plan)
        })
    }

    fn try_search(
        &mut self,
        query: &SearchQuery,
        plan: &SemanticPlan,
    ) -> tantivy::Result<SearchHits> {
        let Self { lexical, semantic, analyzers, .. } = self;
        let searcher = lexical.searcher();
        let filter = filter_query(query, searcher.fields);
        let filter = filter.as_deref();
        let words = query_expansion::expand_query(
            searcher,
            &analyzers.query,
            &query.text,
            query.is_unfinished,
        )?;
        let scorer = LexicalScorer::new(searcher, &words)?;
        let pinned = pinned_items(searcher, &query.text, filter)?;
        let range = query.offset..query.offset.saturating_add(query.limit);

        let is_whole = searcher.is_scored_whole();
        let (mut best, mut total) = (Vec::new(), 0);
        if !is_whole {
            let count = range.end.min(searcher.item_count()).max(RANKED_ITEMS);
            (best, total) = scorer.best_items(filter, count)?;
        }
        let matches = if is_whole {
            candidates::match_all(searcher, &scorer, filter)?
        } else {
            best.iter().copied().zip(scorer.match_items(&best)?).collect()
        };
        let mut signals = vec!["words".to_owned()];
        let (mut semantic_hits, mut rule) = (None, FusionRule::lexical(words.is_long()));
        if let (Some(model), Some(vector)) = (plan.model, &plan.query_vector) {
            let found = if semantic.has_vectors() {
                semantic.most_similar(model, searcher, vector, filter)?
            } else {
                let best = candidates::best_by_words(searcher, &matches, is_whole)?;
                semantic.rescore(model, searcher, vector, &best)?
            };
            let profile = semantic.embedder(model).profile();
            signals.push(format!("meaning:{}", profile.name));
            // Other models need no script, so it is not read for them.
            let is_cross_script = profile.languages == ModelLanguages::Many
                && ![Script::None, plan.script].contains(&searcher.main_script()?);
            rule = rule.with_model(words.word_count(), profile.min_evidence, is_cross_script);
            semantic_hits = Some(found);
        }
        let candidates = candidates::candidates(searcher, &matches, semantic_hits.as_ref())?;
        let keys = |items: &[DocAddress]| searcher.rank_keys(items);
        let page = if is_whole {
            rank_fusion::rank_page(&keys, &candidates, &rule, &pinned, range)?
        } else {
            // An item may be pinned without a word of the query.
            for pinned in scorer.match_items(&pinned)? {
                total += usize::from(pinned.score == 0.0);
            }
            let hits = rank_fusion::rank_window(&keys, &candidates, &rule, &pinned, RANKED_ITEMS)?;
            let hits = hits.into_iter().skip(range.start).take(range.len()).collect();
            ResultPage { hits, total }
        };
        let pending = semantic.pending_chunks(searcher);
        let state = candidates::index_state(searcher, semantic, plan.model)?;
        let kinds = &query.document_kinds;
        let incomplete = searcher.incomplete(|kind| kinds.is_empty() || kinds.contains(&kind))?;
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
        for (ranked, is_uncertain) in &page.hits {
            // Read only for the items of one page; ranking needs no text.
            let stored = self.lexical.searcher().stored_item(ranked.item)?;
            let (Some(document), Some(version)) = (stored.document, stored.version) else {
                continue;
            };
            let best_chunk =
                semantic_hits.and_then(|hits| hits.similar_chunk(ranked.item).position);
            let snippet = snippet::best_snippet(&self.analyzers.query, &stored.text, terms, || {
                chunk_start(&stored.title, &stored.text, best_chunk)
            });
            hits.push(SearchHit {
                document,
                version,
                reference: stored.reference,
                kind: stored.kind,
                title: stored.title,
                facets: stored.facets,
                score: ranked.score,
                is_uncertain: *is_uncertain,
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

    pub(crate) fn next_batch(&mut self) -> Result<Option<EmbeddingBatch>> {
        self.try_or_reset(|project| project.semantic.next_batch(project.lexical.searcher(), false))
    }

    pub(crate) fn store_batch(&mut self, batch: &EmbeddingBatch, result: Result<Vec<Vec<f32>>>) {
        self.has_unsaved = true;
        self.semantic.store_batch(batch, result);
    }

    /// Commits changes, drops unused vectors and saves the rest.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if !self.has_unsaved {
            return Ok(());
        }
        self.has_unsaved = false;
        self.try_or_reset(|project| {
            project.commit()?;
            // The position may have moved without a change.
            project.check_lock()?;
            project.lexical.commit()
        })?;
        self.semantic.drop_unused(self.lexical.searcher(), self.removed_documents);
        if let Some(cache_dir) = &mut self.cache_dir
            && cache_dir.take_over()
        {
            self.semantic.take_over();
        }
        self.semantic.save();
        Ok(())
    }

    /// See [`LexicalIndex::merge_step`].
    pub(crate) fn merge_step(&mut self, waker: &Waker) -> Result<bool> {
        self.try_or_reset(|project| {
            project.check_lock()?;
            let must_continue = project.lexical.merge_step(waker)?;
            project.semantic.refresh(project.lexical.searcher())?;
            Ok(must_continue)
        })
    }

    /// Another process may have the folder after a user has removed the cache.
    fn check_lock(&self) -> io::Result<()> {
        match self.location.folder() {
            Some(folder) => folder.check_lock(),
            None => Ok(()),
        }
    }

    /// The folder of the committed index, and whether the index is complete. `None` in memory.
    pub(crate) fn folder(&self) -> Option<(Arc<IndexFolder>, bool)> {
        self.location.folder().map(|folder| (Arc::clone(folder), self.lexical.is_complete()))
    }

    /// The files that the index reads.
    pub(crate) fn files(&mut self) -> Result<HashSet<PathBuf>> {
        self.try_or_reset(|project| project.lexical.files())
    }

    /// Reads the size of the files, which costs more than a small commit.
    pub(crate) fn update_size(&mut self) {
        self.disk_bytes = self.location.disk_bytes();
    }

    pub(crate) fn cost(&mut self) -> IndexCost {
        let searcher = self.lexical.searcher();
        let unembedded_texts = self.semantic.pending_chunks(searcher);
        let disk_bytes = self.disk_bytes;
        IndexCost {
            disk_bytes,
            unembedded_texts,
            ..self.location.cost(searcher.segment_readers().len())
        }
    }

    /// Runs the work. After an error or panic of tantivy, the index is set aside and the work runs
    /// again on an empty one.
    fn try_or_reset<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> tantivy::Result<T>,
    ) -> Result<T> {
        let error = match catch_panic(|| work(self)) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.replace_index(&error)?;
        work(self).map_err(build_error)
    }

    /// Sets a damaged index aside and creates an empty one. Fails and keeps the index if the cause
    /// is that there was no free file descriptor.
    pub(crate) fn replace_index(&mut self, cause: &dyn std::error::Error) -> Result<()> {
        if is_out_of_files(cause) {
            return Err(out_of_files());
        }
        self.reopen(|location, format, max_memory| {
            location.replace(format, max_memory, &cause);
            Ok(())
        })
    }

    /// Closes the index, changes its location and opens it again. After an error it is in memory.
    fn reopen(
        &mut self,
        change: impl FnOnce(&mut IndexLocation, &str, usize) -> io::Result<()>,
    ) -> Result<()> {
        let Self { format, byte_cache, analyzers, memory_bytes, .. } = self;
        let analyzer = &analyzers.document;
        // Closed first, so that no merge writes into the new folder.
        let mut location = mem::replace(&mut self.location, IndexLocation::in_memory());
        self.lexical =
            open_index(&mut self.location, format, byte_cache, analyzer, 0).map_err(build_error)?;
        change(&mut location, format, *memory_bytes).map_err(|error| build_error(error.into()))?;
        self.lexical = open_index(&mut location, format, byte_cache, analyzer, *memory_bytes)
            .map_err(build_error)?;
        self.location = location;
        self.semantic.refresh(self.lexical.searcher()).map_err(build_error)
    }

    /// Updates the semantic index after a commit. Embeds a limited number of texts without a
    /// vector: an earlier process may have left them, or there were too many.
    fn embed_missing(&mut self) -> tantivy::Result<()> {
        self.semantic.refresh(self.lexical.searcher())?;
        let mut embedded = 0;
        while embedded < semantic::MAX_EMBEDDED_ON_OPEN {
            let Some(batch) = self.semantic.next_batch(self.lexical.searcher(), true)? else {
                break;
            };
            embedded += batch.texts.len();
            let texts: Vec<&str> = batch.texts.iter().map(String::as_str).collect();
            let result = semantic::embed_texts(&*batch.embedder, TextRole::Passage, &texts);
            self.store_batch(&batch, result);
        }
        Ok(())
    }
}

impl Drop for ProjectIndex {
    /// Saves the changes of a call that used the index after it was closed.
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "search index: cannot be saved; the next start updates it");
        }
    }
}

/// Embeds the first [`MAX_QUERY_BYTES`] of a query.
pub(crate) fn embed_query(embedder: &dyn Embedder, query: &SearchQuery) -> Result<Vec<f32>> {
    let text = truncate_text(&query.text, MAX_QUERY_BYTES);
    let vectors = semantic::embed_texts(embedder, TextRole::Query, &[text])?;
    Ok(vectors.into_iter().next().unwrap_or_default())
}

fn build_error(error: tantivy::TantivyError) -> Error {
    if is_out_of_files(&error) {
        return out_of_files();
    }
    let message = "search index: cannot be built; see the server log";
    Error::new(ErrorKind::Internal, message).caused_by(error)
}

fn out_of_files() -> Error {
    let message = "search index: no free file descriptor; try again, or raise the limit of open \
                   files (ulimit -n)";
    Error::new(ErrorKind::Unavailable, message)
}

/// Returns the offset of an item's chunk in its text; 0 without a chunk.
fn chunk_start(title: &str, text: &str, position: Option<u32>) -> usize {
    let Some(position) = position else { return 0 };
    match chunk::split_item(title, text).get(to_usize(position)) {
        Some(chunk) => chunk.range.start,
        None => 0,
    }
}
