//! The semantic index: for each model its vectors, and the texts without one.
//!
//! The best model with vectors for nearly all texts ranks. So results improve while a better model
//! still embeds, and a search never waits for it.

mod vector_file;
pub(crate) mod vector_set;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::{Embedder, ModelLanguages, ModelSpeed, TextRole};

use crate::cache_dir::CacheDir;
use crate::chunk::{Chunk, ChunkHash};
use crate::item_table::{ItemTable, slot_index};
use crate::rank_fusion::{self, ScoredSlot};
use crate::script::Script;
use vector_file::VectorFile;
use vector_set::{HashPrefix, QuantizedVector, VectorSet};

/// A model ranks if it has vectors for this share of all chunks.
const MIN_RANKING_PERCENT: usize = 95;
/// Maximum chunks embedded synchronously when a project is opened, so that a start stays fast. All
/// chunks of a call are embedded within it, which takes less time than indexing them.
pub(crate) const MAX_EMBEDDED_ON_OPEN: usize = 20_000;
/// Texts per background batch, by the model's speed. Calls run between batches.
const INSTANT_BATCH_TEXTS: usize = 64;
const SLOW_BATCH_TEXTS: usize = 4;
/// Number of the most similar items that are ranked, besides those with a word of the query.
const MAX_SEMANTIC_HITS: usize = 200;
/// Query vectors are cached because the pages of one query follow each other.
const MAX_CACHED_QUERIES: usize = 16;
/// Unused vectors are kept, as texts come back: at most the number of used ones plus this.
const MAX_UNUSED_VECTORS: usize = 1024;

#[derive(Debug)]
pub(crate) struct SemanticIndex {
    /// The best model last.
    models: Vec<ModelIndex>,
    /// Number of items with each chunk.
    chunk_counts: HashMap<ChunkHash, u32, BuildHasherDefault<HashPrefix>>,
    /// Number of chunks that lost their last item since unused vectors were last dropped.
    removed_chunks: usize,
}

struct ModelIndex {
    embedder: Arc<dyn Embedder>,
    vectors: VectorSet,
    file: Option<VectorFile>,
    /// Chunks without a vector, the newest last.
    pending: Vec<(ChunkHash, Box<str>)>,
    chunk_rows: ChunkRows,
    /// The newest first.
    cached_queries: VecDeque<(String, Arc<[f32]>)>,
    /// A failed model is not called again.
    has_failed: bool,
}

impl std::fmt::Debug for ModelIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let model = &self.embedder.profile().id;
        f.debug_struct("ModelIndex").field("model", model).finish_non_exhaustive()
    }
}

/// The vectors of all chunks of the item table.
#[derive(Debug, Default)]
struct ChunkRows {
    /// The table's revision and the number of vectors from which this was derived.
    source: Option<(u64, usize)>,
    /// Vector, slot, and position of the chunk in its item.
    rows: Vec<(u32, u32, u32)>,
    missing_chunks: usize,
    total_chunks: usize,
}

/// Texts that one model embeds without holding the lock.
pub(crate) struct EmbeddingBatch {
    model: usize,
    pub(crate) embedder: Arc<dyn Embedder>,
    hashes: Vec<ChunkHash>,
    pub(crate) texts: Vec<Box<str>>,
}

/// The similarity of the items to a query.
#[derive(Debug)]
pub(crate) struct SemanticHits {
    /// By slot: 0 for an unrelated item to 1.
    pub(crate) similarities: Vec<f32>,
    /// By slot: the position of the item's most similar chunk; `None` without a vector.
    pub(crate) best_chunks: Vec<Option<u32>>,
    /// At most [`MAX_SEMANTIC_HITS`], best first.
    pub(crate) best: Vec<ScoredSlot>,
}

impl SemanticHits {
    fn of_slots(count: usize) -> Self {
        let (similarities, best_chunks) = (vec![0.0; count], vec![None; count]);
        Self { similarities, best_chunks, best: Vec::new() }
    }
}

impl SemanticIndex {
    pub(crate) fn new(embedders: &[Arc<dyn Embedder>], cache_dir: Option<&CacheDir>) -> Self {
        let mut models = Vec::with_capacity(embedders.len());
        for embedder in embedders {
            models.push(ModelIndex::new(Arc::clone(embedder), cache_dir));
        }
        Self { models, chunk_counts: HashMap::default(), removed_chunks: 0 }
    }

    /// Adds an item with these chunks.
    pub(crate) fn add_item(&mut self, chunks: &[ChunkHash]) {
        for hash in chunks {
            // Counted, because equal chunks of several items share one vector.
            *self.chunk_counts.entry(*hash).or_default() += 1;
        }
    }

    /// Removes an item with these chunks. Their vectors are kept for a while.
    pub(crate) fn remove_item(&mut self, chunks: &[ChunkHash]) {
        for hash in chunks {
            if let Some(count) = self.chunk_counts.get_mut(hash) {
                *count -= 1;
                if *count == 0 {
                    self.chunk_counts.remove(hash);
                    self.removed_chunks += 1;
                }
            }
        }
    }

    /// Removes all items. The vectors are kept, because the items will be added again.
    pub(crate) fn clear_items(&mut self) {
        self.chunk_counts.clear();
        self.removed_chunks = 0;
    }

    /// Embeds at most `budget` chunks with instant models, and queues the rest.
    pub(crate) fn embed_or_queue(&mut self, chunks: &[Chunk], budget: &mut usize) {
        for model in &mut self.models {
            if !model.has_failed {
                model.embed_or_queue(chunks, budget);
            }
        }
    }

    /// True if a model has no vector of this chunk.
    pub(crate) fn lacks_vector(&self, hash: &ChunkHash) -> bool {
        self.models.iter().any(|model| !model.has_failed && model.vectors.row(hash).is_none())
    }

    /// Takes the next batch: the newest chunks of the first model with pending ones.
    pub(crate) fn next_batch(&mut self) -> Option<EmbeddingBatch> {
        for (number, model) in self.models.iter_mut().enumerate() {
            let max_texts = match model.embedder.profile().speed {
                ModelSpeed::Slow => SLOW_BATCH_TEXTS,
                ModelSpeed::Instant => INSTANT_BATCH_TEXTS,
            };
            let (mut hashes, mut texts) = (Vec::new(), Vec::new());
            while hashes.len() < max_texts
                && let Some((hash, text)) = model.pending.pop()
            {
                // The chunk may have been removed or embedded since.
                let is_needed =
                    self.chunk_counts.contains_key(&hash) && model.vectors.row(&hash).is_none();
                if is_needed && !hashes.contains(&hash) && !model.has_failed {
                    hashes.push(hash);
                    texts.push(text);
                }
            }
            if !hashes.is_empty() {
                let embedder = Arc::clone(&model.embedder);
                return Some(EmbeddingBatch { model: number, embedder, hashes, texts });
            }
        }
        None
    }

    /// Stores the vectors of a batch. An error disables its model.
    pub(crate) fn store_batch(&mut self, batch: &EmbeddingBatch, result: Result<Vec<Vec<f32>>>) {
        if let Some(model) = self.models.get_mut(batch.model) {
            model.insert_vectors(&batch.hashes, result);
        }
    }

    /// Number of chunks without a vector of the best model.
    pub(crate) fn pending_chunks(&mut self, table: &ItemTable) -> usize {
        match self.models.iter_mut().rev().find(|model| !model.has_failed) {
            Some(best) => best.refresh_rows(table).missing_chunks,
            None => 0,
        }
    }

    /// Returns the best model that can rank a query of this script.
    pub(crate) fn ranking_model(&mut self, table: &ItemTable, script: Script) -> Option<usize> {
        // From the best model down.
        for (number, model) in self.models.iter_mut().enumerate().rev() {
            let supports_script = match model.embedder.profile().languages {
                ModelLanguages::English => script == Script::Latin,
                ModelLanguages::Many => script != Script::None,
            };
            if model.has_failed || !supports_script {
                continue;
            }
            let rows = model.refresh_rows(table);
            let embedded = rows.total_chunks - rows.missing_chunks;
            if embedded > 0 && embedded * 100 >= rows.total_chunks * MIN_RANKING_PERCENT {
                return Some(number);
            }
        }
        None
    }

    /// Identifies the vectors that rank: the model, and how many of its texts are embedded.
    pub(crate) fn ranking_state(&mut self, model: usize, table: &ItemTable) -> (&str, usize) {
        let model = &mut self.models[model];
        let missing = model.refresh_rows(table).missing_chunks;
        (&model.embedder.profile().id, missing)
    }

    pub(crate) fn embedder(&self, model: usize) -> &Arc<dyn Embedder> {
        &self.models[model].embedder
    }

    pub(crate) fn cached_query(&self, model: usize, query: &str) -> Option<Arc<[f32]>> {
        for (text, vector) in &self.models[model].cached_queries {
            if text == query {
                return Some(Arc::clone(vector));
            }
        }
        None
    }

    pub(crate) fn cache_query(&mut self, model: usize, query: &str, vector: &Arc<[f32]>) {
        let cached_queries = &mut self.models[model].cached_queries;
        // The last entry is the oldest.
        cached_queries.truncate(MAX_CACHED_QUERIES - 1);
        cached_queries.push_front((query.to_owned(), Arc::clone(vector)));
    }

    pub(crate) fn disable(&mut self, model: usize, error: &Error) {
        self.models[model].disable(error);
    }

    /// Returns the similarity of each item to a query, and the most similar ones of the included
    /// slots.
    pub(crate) fn most_similar(
        &mut self,
        model: usize,
        table: &ItemTable,
        query: &[f32],
        includes_slot: impl Fn(u32) -> bool,
    ) -> SemanticHits {
        let model = &mut self.models[model];
        model.refresh_rows(table);
        let cosines = model.vectors.similarities(query);
        let mut hits = SemanticHits::of_slots(table.slot_count());
        let unrelated = model.embedder.profile().unrelated_cosine;
        for (row, slot, chunk) in &model.chunk_rows.rows {
            let cosine = cosines[slot_index(*row)];
            // Scaled by the model's cosine of unrelated texts, so that 0 means unrelated.
            let similarity = ((cosine - unrelated) / (1.0 - unrelated)).clamp(0.0, 1.0);
            let slot = slot_index(*slot);
            if hits.best_chunks[slot].is_none() || similarity > hits.similarities[slot] {
                hits.similarities[slot] = similarity;
                hits.best_chunks[slot] = Some(*chunk);
            }
        }
        for (slot, similarity) in (0..).zip(&hits.similarities) {
            if hits.best_chunks[slot_index(slot)].is_some() && includes_slot(slot) {
                hits.best.push(ScoredSlot { slot, score: *similarity });
            }
        }
        // A selection first, because sorting every item would cost more.
        rank_fusion::keep_best(&mut hits.best, MAX_SEMANTIC_HITS);
        hits.best.sort_unstable_by(|a, b| rank_fusion::compare_ranks(table, *a, *b));
        hits.best.truncate(MAX_SEMANTIC_HITS);
        hits
    }

    /// Makes this process the writer of the vector files.
    pub(crate) fn take_over(&mut self) {
        for model in &mut self.models {
            if let Some(file) = &mut model.file {
                file.take_over(&mut model.vectors, model.embedder.profile().dimension);
            }
        }
    }

    /// Drops the unused vectors once they are the majority.
    pub(crate) fn drop_unused(&mut self) {
        for model in &mut self.models {
            let hashes = self.chunk_counts.keys();
            let used = hashes.filter(|hash| model.vectors.row(hash).is_some()).count();
            // Without used vectors a new process has not indexed its documents yet, or all items
            // were deleted.
            let has_history = used > 0 || self.removed_chunks > MAX_UNUSED_VECTORS;
            if has_history && model.vectors.len() > 2 * used + MAX_UNUSED_VECTORS {
                model.vectors.retain(|hash| self.chunk_counts.contains_key(hash));
                // The remaining vectors have new row numbers.
                model.chunk_rows.source = None;
                if let Some(file) = &mut model.file {
                    file.rewrite_on_save();
                }
            }
        }
        if self.removed_chunks > MAX_UNUSED_VECTORS {
            self.removed_chunks = 0;
        }
    }

    /// Saves new vectors.
    pub(crate) fn save(&mut self) {
        for model in &mut self.models {
            if let Some(file) = &mut model.file
                && let Err(error) = file.save(&model.vectors)
            {
                tracing::warn!(%error, "search cache: cannot save vectors");
            }
        }
    }
}

impl ModelIndex {
    fn new(embedder: Arc<dyn Embedder>, cache_dir: Option<&CacheDir>) -> Self {
        let profile = embedder.profile();
        let mut file = cache_dir.map(|cache_dir| VectorFile::new(cache_dir, profile));
        let vectors = match &mut file {
            Some(file) => file.load(profile.dimension),
            None => VectorSet::new(profile.dimension),
        };
        Self {
            embedder,
            vectors,
            file,
            pending: Vec::new(),
            chunk_rows: ChunkRows::default(),
            cached_queries: VecDeque::new(),
            has_failed: false,
        }
    }

    fn embed_or_queue(&mut self, chunks: &[Chunk], budget: &mut usize) {
        let is_instant = self.embedder.profile().speed == ModelSpeed::Instant;
        let (mut hashes, mut texts) = (Vec::new(), Vec::new());
        for chunk in chunks {
            if self.vectors.row(&chunk.hash).is_some() {
                continue;
            }
            // A slow model would delay the call, so it embeds in the background.
            if is_instant && *budget > 0 {
                *budget -= 1;
                hashes.push(chunk.hash);
                texts.push(chunk.text.as_str());
            } else {
                self.pending.push((chunk.hash, chunk.text.as_str().into()));
            }
        }
        if !texts.is_empty() {
            let result = embed_texts(&*self.embedder, TextRole::Passage, &texts);
            self.insert_vectors(&hashes, result);
        }
    }

    fn insert_vectors(&mut self, hashes: &[ChunkHash], result: Result<Vec<Vec<f32>>>) {
        let vectors = match result {
            // A model with a wrong number of vectors would assign them to the wrong texts.
            Ok(vectors) if vectors.len() == hashes.len() => vectors,
            Ok(_) => return self.disable(&profile_mismatch()),
            Err(error) => return self.disable(&error),
        };
        for (hash, vector) in hashes.iter().zip(vectors) {
            let row = QuantizedVector::quantize(&vector);
            if self.vectors.insert(*hash, &row) {
                if let Some(file) = &mut self.file {
                    file.push(hash, &row);
                }
            } else if self.vectors.row(hash).is_none() {
                // The vector is not a repeat, so its dimension is wrong.
                return self.disable(&profile_mismatch());
            }
        }
    }

    fn disable(&mut self, error: &Error) {
        let model = &self.embedder.profile().id;
        let error = error as &dyn std::error::Error;
        tracing::error!(model, error, "embedding model: it failed and is not used any more");
        self.has_failed = true;
        // Frees the memory, unlike `clear`.
        self.pending = Vec::new();
    }

    /// Derives the rows again if the table or the vectors have changed.
    fn refresh_rows(&mut self, table: &ItemTable) -> &ChunkRows {
        // Between saves vectors are only added, so their number identifies them.
        let source = Some((table.revision(), self.vectors.len()));
        if self.chunk_rows.source == source {
            return &self.chunk_rows;
        }
        let mut chunk_rows = ChunkRows { source, ..ChunkRows::default() };
        for (slot, item) in table.iter() {
            chunk_rows.total_chunks += item.chunks.len();
            for (chunk, hash) in (0..).zip(&item.chunks) {
                match self.vectors.row(hash) {
                    Some(row) => chunk_rows.rows.push((row, slot, chunk)),
                    None => chunk_rows.missing_chunks += 1,
                }
            }
        }
        self.chunk_rows = chunk_rows;
        &self.chunk_rows
    }
}

/// Embeds texts. A panic of the model is returned as an error.
pub(crate) fn embed_texts(
    embedder: &dyn Embedder,
    role: TextRole,
    texts: &[&str],
) -> Result<Vec<Vec<f32>>> {
    // Unwind safe: a model that panicked is disabled and not called again.
    match catch_unwind(AssertUnwindSafe(|| embedder.embed(role, texts))) {
        Ok(result) => result,
        Err(_) => Err(Error::new(ErrorKind::Internal, "embedding model: it panicked")),
    }
}

fn profile_mismatch() -> Error {
    let message = "embedding model: number or dimension of its vectors is wrong";
    Error::new(ErrorKind::Internal, message)
}
