//! The index of one project: table, lexical and semantic index.
//!
//! The index is a cache: an error empties it and is logged. The application finds the missing
//! documents by `indexed` and adds them again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::{Embedder, ModelSpeed, TextRole};
use reqlore_domain::search::{
    self, DocumentProjection, IndexDifference, SearchHit, SearchHits, SearchQuery,
};

use crate::analyzer::{Analyzer, truncate_to};
use crate::cache_dir::CacheDir;
use crate::checkpoints::CheckpointFile;
use crate::chunk;
use crate::filter::ItemFilter;
use crate::item_table::{IndexedItem, ItemTable};
use crate::lexical::LexicalIndex;
use crate::lexical::bm25::{self, QueryTerm};
use crate::lexical::query_expansion::{self, MAX_QUERY_BYTES};
use crate::rank_fusion::{self, ResultPage};
use crate::script::Script;
use crate::semantic::{self, EmbeddingBatch, SemanticHits, SemanticIndex};
use crate::snippet;

/// Maximum words of a query that are looked up as references.
const MAX_REFERENCE_WORDS: usize = 256;
/// Maximum items that a query's references put first.
const MAX_PINNED_ITEMS: usize = 32;
/// More items are searched on a blocking thread.
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
    /// Its own number of [`Project::losses`], and the next one of all projects.
    generation: (u64, Arc<AtomicU64>),
}

/// Separate analyzers, so that a search never waits for indexing.
#[derive(Debug, Clone)]
pub(crate) struct AnalyzerPair {
    pub(crate) query: Analyzer,
    pub(crate) document: Analyzer,
}

pub(crate) enum QueryPlan {
    Ready(SemanticPlan),
    /// This slow model must embed the query, without a lock.
    NeedsEmbedding(SemanticPlan, Arc<dyn Embedder>),
}

pub(crate) struct SemanticPlan {
    /// The ranking model, and the query's vector once it is known.
    model: Option<usize>,
    vector: Option<Arc<[f32]>>,
    script: Script,
}

impl ProjectIndex {
    /// Opens the saved index of the folder, or begins empty.
    pub(crate) fn open(
        mut folder: Option<CacheDir>,
        analyzers: AnalyzerPair,
        embedders: &[Arc<dyn Embedder>],
        losses: Arc<AtomicU64>,
    ) -> Result<Self> {
        let meaning = SemanticIndex::new(embedders, folder.as_ref());
        let checkpoints = CheckpointFile::default();
        let stored = folder.as_mut().and_then(CacheDir::load_index);
        let restored = stored.and_then(|(directory, table)| {
            let words = LexicalIndex::open(directory, &analyzers.document).ok()?;
            let table =
                ItemTable::decode(&table).filter(|table| words.searcher().matches_table(table))?;
            Some((table, words))
        });
        let found = restored.is_some();
        let (table, words) = match restored {
            Some(restored) => restored,
            None => (
                ItemTable::default(),
                LexicalIndex::create(&analyzers.document).map_err(build_error)?,
            ),
        };
        let unsaved = false;
        let losses = (losses.fetch_add(1, Ordering::Relaxed), losses);
        let mut project = Self {
            analyzers,
            cache_dir: folder,
            lexical: words,
            table,
            semantic: meaning,
            checkpoints,
            has_unsaved: unsaved,
            generation: losses,
        };
        if found {
            project.queue_missing_vectors();
        } else if let Some(folder) = &mut project.cache_dir {
            folder.clear_index().unwrap_or_else(|error| warn_not_saved(&error));
        }
        Ok(project)
    }

    pub(crate) fn indexed(&self) -> BTreeMap<DocumentId, Version> {
        self.table.versions()
    }

    /// Changes after each opening and each error that emptied the index.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.0
    }

    /// Adds or replaces documents. An error empties the index first.
    pub(crate) fn apply(&mut self, projections: &[DocumentProjection]) -> Result<()> {
        self.has_unsaved = true;
        self.try_apply(projections).or_else(|error| {
            self.reset_after(&error)?;
            self.try_apply(projections).map_err(build_error)
        })
    }

    fn try_apply(&mut self, projections: &[DocumentProjection]) -> tantivy::Result<()> {
        let mut budget = usize::MAX;
        for projection in projections {
            self.remove(&projection.document);
            let Some(version) = projection.version else { continue };
            let mut unread = Vec::new();
            let document = self.table.add_document(projection.document.clone(), version);
            for item in &projection.items {
                let chunks = chunk::split_item(&item.title, &item.text);
                let facets = item.facets.iter();
                let numbers = facets.map(|facet| self.table.facets.assign(facet.as_str()));
                let numbers: Box<[u32]> = numbers.collect();
                let entry = IndexedItem {
                    document: Arc::clone(&document),
                    reference: item.reference.as_str().into(),
                    kind: self.table.intern_kind(&item.kind),
                    title: item.title.as_str().into(),
                    script: Script::of(&[&item.title, &item.text]),
                    chunks: chunks.iter().map(|chunk| chunk.hash).collect(),
                    facets: numbers,
                };
                unread.extend(chunks);
                self.semantic.add_item(&entry.chunks);
                self.lexical.add(self.table.add_item(entry), item)?;
            }
            self.semantic.embed_or_queue(&unread, &mut budget);
        }
        Ok(())
    }

    fn remove(&mut self, document: &DocumentId) {
        for (slot, entry) in self.table.remove_document(document) {
            self.lexical.remove(slot);
            self.semantic.remove_item(&entry.chunks);
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
        let text = truncate_to(&query.text, MAX_QUERY_BYTES);
        let script = Script::of(&[text]);
        let wanted = query.meaning == search::SemanticMode::Best;
        let tier = wanted.then(|| self.semantic.ranking_model(&self.table, script)).flatten();
        let mut plan = SemanticPlan { model: tier, vector: None, script };
        let Some(tier) = tier else { return Ok(QueryPlan::Ready(plan)) };
        plan.vector = self.semantic.cached_query(tier, text);
        if plan.vector.is_some() {
            return Ok(QueryPlan::Ready(plan));
        }
        let embedder = Arc::clone(self.semantic.embedder(tier));
        if embedder.profile().pace == ModelSpeed::Slow {
            return Ok(QueryPlan::NeedsEmbedding(plan, embedder));
        }
        let read = embed_query(&*embedder, query);
        Ok(QueryPlan::Ready(self.add_query_vector(plan, query, read)))
    }

    /// Adds a model's result for a query.
    pub(crate) fn add_query_vector(
        &mut self,
        mut plan: SemanticPlan,
        query: &SearchQuery,
        read: Result<Vec<f32>>,
    ) -> SemanticPlan {
        let Some(tier) = plan.model else { return plan };
        match read {
            Ok(vector) => {
                let vector: Arc<[f32]> = vector.into();
                let text = truncate_to(&query.text, MAX_QUERY_BYTES);
                self.semantic.cache_query(tier, text, &vector);
                plan.vector = Some(vector);
            }
            Err(error) => {
                self.semantic.disable(tier, &error);
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
        // Another call may have changed it while the query was embedded.
        let answer = self.lexical.commit().and_then(|()| self.try_search(query, plan));
        answer.or_else(|error| {
            self.reset_after(&error)?;
            self.try_search(query, plan).map_err(build_error)
        })
    }

    fn try_search(
        &mut self,
        query: &SearchQuery,
        plan: &SemanticPlan,
    ) -> tantivy::Result<SearchHits> {
        let Self { lexical: words, table, semantic: meaning, analyzers, .. } = self;
        let filter = ItemFilter::of(query, &table.facets);
        let fits = |slot| filter.includes_slot(table, slot);
        let sought =
            query_expansion::expand_query(words.searcher(), &analyzers.query, &query.text)?;
        let mut scores =
            bm25::score_items(words.searcher(), &sought, table.item_count(), table.slot_count())?;
        for (slot, score) in (0..).zip(&mut scores).filter(|(_, score)| **score > 0.0) {
            if !fits(slot) {
                *score = 0.0;
            }
        }
        let mut pinned = pinned_slots(table, &query.text);
        pinned.retain(|slot| fits(*slot));
        let near = match (plan.model, &plan.vector) {
            (Some(tier), Some(vector)) => {
                Some(meaning.most_similar(tier, table, vector, plan.script, fits))
            }
            _ => None,
        };
        let range = query.offset..query.offset.saturating_add(query.limit);
        let ranking = near.as_ref().map(|found| &found.ranking);
        let page = rank_fusion::rank_page(table, &scores, ranking, &pinned, range);
        let mut signals = vec!["words".to_owned()];
        if let (Some(tier), Some(_)) = (plan.model, &near) {
            signals.push(format!("meaning:{}", meaning.embedder(tier).profile().name));
        }
        let pending = meaning.pending_chunks(table);
        let total = page.total;
        let hits = self.build_hits(&page, near.as_ref(), &sought)?;
        Ok(SearchHits { hits, total, signals, pending })
    }

    fn build_hits(
        &self,
        page: &ResultPage,
        near: Option<&SemanticHits>,
        sought: &[QueryTerm],
    ) -> tantivy::Result<Vec<SearchHit>> {
        let mut hits = Vec::with_capacity(page.hits.len());
        for found in &page.hits {
            let Some(entry) = self.table.item(found.slot) else { continue };
            let (title, text) =
                self.lexical.searcher().stored_text(found.slot)?.unwrap_or_default();
            let nearest = near.and_then(|near| near.best_chunks.get(&found.slot));
            let start = || {
                let nearest = nearest.and_then(|at| usize::try_from(*at).ok());
                let chunk =
                    nearest.and_then(|at| chunk::split_item(&title, &text).into_iter().nth(at));
                chunk.map_or(0, |chunk| chunk.range.start)
            };
            let snippet = snippet::best_snippet(&self.analyzers.query, &text, sought, start);
            hits.push(SearchHit {
                document: DocumentId::clone(&entry.document),
                reference: entry.reference.to_string(),
                kind: entry.kind.to_string(),
                title: entry.title.to_string(),
                facets: self.table.facets.of(&entry.facets),
                score: found.score,
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

    pub(crate) fn next_batch(&mut self) -> Option<EmbeddingBatch> {
        self.semantic.next_batch()
    }

    pub(crate) fn store_batch(&mut self, batch: &EmbeddingBatch, result: Result<Vec<Vec<f32>>>) {
        self.has_unsaved = true;
        self.semantic.store_batch(batch, result);
    }

    /// Saves changes. After a failure the next process builds the index again.
    pub(crate) fn save(&mut self) {
        let Some(folder) = self.cache_dir.as_mut().filter(|_| self.has_unsaved) else { return };
        if folder.take_over() {
            self.semantic.take_over();
        }
        self.semantic.save();
        if !folder.is_writer() {
            // Another process is the writer; it may have ended at the next save.
            return;
        }
        self.has_unsaved = false;
        let table = self.table.encode();
        let saved = self.lexical.commit().map_err(std::io::Error::other);
        match saved
            .and_then(|()| folder.save_index(&self.lexical.index, &self.lexical.directory, &table))
        {
            Ok(complete) => self.has_unsaved = !complete,
            Err(error) => warn_not_saved(&error),
        }
    }

    /// Begins empty, after an error.
    fn reset_after(&mut self, fault: &tantivy::TantivyError) -> Result<()> {
        self.generation.0 = self.generation.1.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(error = %fault, "the search index is damaged and is built anew");
        for (_, entry) in self.table.iter() {
            self.semantic.remove_item(&entry.chunks);
        }
        self.table = ItemTable::default();
        self.lexical = LexicalIndex::create(&self.analyzers.document).map_err(build_error)?;
        if let Some(folder) = &mut self.cache_dir {
            folder.clear_index().unwrap_or_else(|error| warn_not_saved(&error));
        }
        Ok(())
    }

    /// Queues the texts that an earlier process did not embed.
    fn queue_missing_vectors(&mut self) {
        let mut lacking = Vec::new();
        for (slot, entry) in self.table.iter() {
            self.semantic.add_item(&entry.chunks);
            if entry.chunks.iter().any(|hash| self.semantic.lacks_vector(hash)) {
                lacking.push(slot);
            }
        }
        let mut budget = semantic::MAX_EMBEDDED_ON_OPEN;
        for slot in lacking {
            // The next search notices an error.
            let (title, text) =
                self.lexical.searcher().stored_text(slot).ok().flatten().unwrap_or_default();
            self.semantic.embed_or_queue(&chunk::split_item(&title, &text), &mut budget);
        }
    }
}

impl Drop for ProjectIndex {
    /// Saves the changes of a call that held it longer than the index.
    fn drop(&mut self) {
        self.save();
    }
}

/// Embeds the beginning of a query.
pub(crate) fn embed_query(embedder: &dyn Embedder, query: &SearchQuery) -> Result<Vec<f32>> {
    let text = truncate_to(&query.text, MAX_QUERY_BYTES);
    let vectors = semantic::embed_texts(embedder, TextRole::Query, &[text])?;
    Ok(vectors.into_iter().next().unwrap_or_default())
}

fn build_error(error: tantivy::TantivyError) -> Error {
    Error::new(ErrorKind::Internal, "The search index can't be built.").caused_by(error)
}

fn warn_not_saved(error: &std::io::Error) {
    tracing::warn!(%error, "the search index can't be kept for the next start");
}

/// The slots of items whose exact references occur in the query, in its order. A reference may be a
/// plain word (`login`): it counts if it is the whole query, others if they look like a name.
fn pinned_slots(table: &ItemTable, query: &str) -> Vec<u32> {
    let query = truncate_to(query, MAX_QUERY_BYTES).trim();
    let mut pinned = Vec::new();
    let mut pin = |reference: &str| {
        for slot in table.slots_of_reference(reference) {
            if !pinned.contains(&slot) && pinned.len() < MAX_PINNED_ITEMS {
                pinned.push(slot);
            }
        }
    };
    pin(query);
    for piece in query.split_whitespace().take(MAX_REFERENCE_WORDS) {
        let inner = |c: char| c.is_alphanumeric();
        let bare = piece.trim_matches(|c| !inner(c) && c != '_');
        if looks_like_a_name(bare) {
            pin(bare);
        }
        // Lists: `REQ-1,REQ-2` or `[REQ-1](x)`.
        for part in bare.split(|c| !inner(c) && !matches!(c, '-' | '_' | '.' | ':' | '/')) {
            if part.len() < bare.len() && looks_like_a_name(part) {
                pin(part);
            }
        }
    }
    pinned
}

fn looks_like_a_name(piece: &str) -> bool {
    piece.contains(|c: char| c.is_numeric() || matches!(c, '-' | '_' | '.' | ':' | '/'))
}
