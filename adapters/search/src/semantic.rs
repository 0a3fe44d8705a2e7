//! Semantic search: for each model its vectors, and the texts without one.
//!
//! The best model with vectors for nearly all texts ranks. So answers improve while a better model
//! still embeds, and never wait for it.

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
use crate::item_table::{self, ItemTable};
use crate::rank_fusion::{self, MAX_FUSED, ScoredSlot, SemanticRanking};
use crate::script::Script;
use vector_file::VectorFile;
use vector_set::{HashPrefix, QuantizedVector, VectorSet};

/// A model ranks if it has vectors for this share of all texts.
const MIN_RANKING_PERCENT: usize = 95;
/// Maximum texts embedded synchronously when a project is opened, so that a start stays fast. Texts
/// of a call are all embedded within it, which takes less time than indexing them.
pub(crate) const MAX_EMBEDDED_ON_OPEN: usize = 20_000;
/// Texts per background batch, by the model's pace. Calls run between batches.
const INSTANT_BATCH_TEXTS: usize = 64;
const SLOW_BATCH_TEXTS: usize = 4;
/// Cached vectors of queries: pages of one query follow each other.
const MAX_CACHED_QUERIES: usize = 16;
/// Factor of semantic scores if query and texts differ in script, so that no words match.
const CROSS_SCRIPT_FACTOR: f32 = 3.0;
/// An item without a word of the query is found if its similarity is this number of standard
/// deviations above the mean, which works where all texts have one subject. In two judged
/// collections a quarter of the relevant texts lies above, and one in 300 of the others.
const CUTOFF_DEVIATIONS: f32 = 3.0;
/// This similarity is enough, as outliers are rare in few texts. About half of the relevant texts
/// have it, and one in twenty of the others.
const MAX_CUTOFF: f32 = 0.55;
/// A lower similarity is never enough. Most relevant texts have more.
const MIN_CUTOFF: f32 = 0.25;
/// Unused vectors are kept for a text's return, up to the number of used ones and these.
const MAX_UNUSED_VECTORS: usize = 1024;

#[derive(Debug)]
pub(crate) struct SemanticIndex {
    models: Vec<ModelIndex>,
    /// Number of items with each chunk.
    chunk_counts: HashMap<ChunkHash, u32, BuildHasherDefault<HashPrefix>>,
}

/// One model.
struct ModelIndex {
    embedder: Arc<dyn Embedder>,
    vectors: VectorSet,
    file: Option<VectorFile>,
    /// Texts without a vector, the newest last.
    pending: Vec<(ChunkHash, Box<str>)>,
    chunk_rows: ChunkRows,
    cached_queries: VecDeque<(String, Arc<[f32]>)>,
    /// A failed model is ignored.
    failed: bool,
}

impl std::fmt::Debug for ModelIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier").field("model", &self.embedder.profile().id).finish_non_exhaustive()
    }
}

/// The rows of all slots, derived again after a change of either.
#[derive(Debug, Default)]
struct ChunkRows {
    source: Option<(u64, usize)>,
    /// Row, slot, and position of the chunk in its item.
    rows: Vec<(u32, u32, u32)>,
    missing_chunks: usize,
    total_chunks: usize,
}

/// Texts for one model to embed without a lock.
pub(crate) struct EmbeddingBatch {
    model: usize,
    pub(crate) embedder: Arc<dyn Embedder>,
    hashes: Vec<ChunkHash>,
    pub(crate) texts: Vec<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct SemanticHits {
    pub(crate) ranking: SemanticRanking,
    /// The position of each item's most similar chunk.
    pub(crate) best_chunks: HashMap<u32, u32>,
}

impl SemanticIndex {
    pub(crate) fn new(embedders: &[Arc<dyn Embedder>], folder: Option<&CacheDir>) -> Self {
        let tier = |embedder: &Arc<dyn Embedder>| {
            let profile = embedder.profile();
            let mut store = folder.map(|folder| VectorFile::new(folder, profile));
            let vectors = match &mut store {
                Some(store) => store.load(profile.dimension),
                None => VectorSet::new(profile.dimension),
            };
            ModelIndex {
                embedder: Arc::clone(embedder),
                vectors,
                file: store,
                pending: Vec::new(),
                chunk_rows: ChunkRows::default(),
                cached_queries: VecDeque::new(),
                failed: false,
            }
        };
        Self { models: embedders.iter().map(tier).collect(), chunk_counts: HashMap::default() }
    }

    /// Adds an item with these chunks.
    pub(crate) fn add_item(&mut self, chunks: &[ChunkHash]) {
        for hash in chunks {
            *self.chunk_counts.entry(*hash).or_default() += 1;
        }
    }

    /// Removes an item with these chunks. Their vectors stay for a while, as texts come back.
    pub(crate) fn remove_item(&mut self, chunks: &[ChunkHash]) {
        for hash in chunks {
            if let Some(count) = self.chunk_counts.get_mut(hash) {
                *count -= 1;
                if *count == 0 {
                    self.chunk_counts.remove(hash);
                }
            }
        }
    }

    /// Embeds the first `budget` texts with instant models, and queues the rest.
    pub(crate) fn embed_or_queue(&mut self, chunks: &[Chunk], budget: &mut usize) {
        let Self { models: tiers, .. } = self;
        for tier in tiers.iter_mut().filter(|tier| !tier.failed) {
            let unread = chunks.iter().filter(|chunk| tier.vectors.row(&chunk.hash).is_none());
            let unread: Vec<&Chunk> = unread.collect();
            let instant = tier.embedder.profile().pace == ModelSpeed::Instant;
            let now = if instant { unread.len().min(*budget) } else { 0 };
            let (now, later) = unread.split_at(now);
            *budget -= now.len();
            let texts: Vec<&str> = now.iter().map(|chunk| chunk.text.as_str()).collect();
            let hashes: Vec<ChunkHash> = now.iter().map(|chunk| chunk.hash).collect();
            if !texts.is_empty() {
                let result = embed_texts(&*tier.embedder, TextRole::Passage, &texts);
                tier.insert_vectors(&hashes, result);
            }
            let later = later.iter().map(|chunk| (chunk.hash, chunk.text.as_str().into()));
            tier.pending.extend(later);
        }
    }

    /// True if a model has no vector of this chunk.
    pub(crate) fn lacks_vector(&self, hash: &ChunkHash) -> bool {
        self.models.iter().any(|tier| !tier.failed && tier.vectors.row(hash).is_none())
    }

    /// The next batch: the newest texts of the least model with queued ones.
    pub(crate) fn next_batch(&mut self) -> Option<EmbeddingBatch> {
        let live = &self.chunk_counts;
        for (number, tier) in self.models.iter_mut().enumerate() {
            let profile = tier.embedder.profile();
            let most = if profile.pace == ModelSpeed::Slow {
                SLOW_BATCH_TEXTS
            } else {
                INSTANT_BATCH_TEXTS
            };
            let (mut hashes, mut texts) = (Vec::new(), Vec::new());
            while hashes.len() < most
                && let Some((hash, text)) = tier.pending.pop()
            {
                let wanted = live.contains_key(&hash) && tier.vectors.row(&hash).is_none();
                if wanted && !hashes.contains(&hash) && !tier.failed {
                    hashes.push(hash);
                    texts.push(text);
                }
            }
            if !hashes.is_empty() {
                let embedder = Arc::clone(&tier.embedder);
                return Some(EmbeddingBatch { model: number, embedder, hashes, texts });
            }
        }
        None
    }

    /// Stores the vectors of a batch.
    pub(crate) fn store_batch(&mut self, batch: &EmbeddingBatch, result: Result<Vec<Vec<f32>>>) {
        if let Some(tier) = self.models.get_mut(batch.model) {
            tier.insert_vectors(&batch.hashes, result);
        }
    }

    /// Number of texts without a vector of the best model.
    pub(crate) fn pending_chunks(&mut self, table: &ItemTable) -> usize {
        let best = self.models.iter_mut().rev().find(|tier| !tier.failed);
        best.map_or(0, |tier| tier.refresh_rows(table).missing_chunks)
    }

    /// The model that ranks for a query of this script.
    pub(crate) fn ranking_model(&mut self, table: &ItemTable, script: Script) -> Option<usize> {
        let tiers = self.models.iter_mut().enumerate().rev();
        for (number, tier) in tiers.filter(|(_, tier)| !tier.failed) {
            let speaks = match tier.embedder.profile().languages {
                ModelLanguages::English => script == Script::Latin,
                ModelLanguages::Many => script != Script::None,
            };
            let places = tier.refresh_rows(table);
            let known = places.total_chunks - places.missing_chunks;
            if speaks && known > 0 && known * 100 >= places.total_chunks * MIN_RANKING_PERCENT {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn embedder(&self, tier: usize) -> &Arc<dyn Embedder> {
        &self.models[tier].embedder
    }

    /// The cached vector of a query.
    pub(crate) fn cached_query(&self, tier: usize, query: &str) -> Option<Arc<[f32]>> {
        let asked = &mut self.models[tier].cached_queries.iter();
        asked.find(|(text, _)| text == query).map(|(_, vector)| Arc::clone(vector))
    }

    pub(crate) fn cache_query(&mut self, tier: usize, query: &str, vector: &Arc<[f32]>) {
        let asked = &mut self.models[tier].cached_queries;
        asked.truncate(MAX_CACHED_QUERIES - 1);
        asked.push_front((query.to_owned(), Arc::clone(vector)));
    }

    pub(crate) fn disable(&mut self, tier: usize, error: &Error) {
        self.models[tier].disable(error);
    }

    /// The most similar items to a query among those that fit.
    pub(crate) fn most_similar(
        &mut self,
        tier: usize,
        table: &ItemTable,
        query: &[f32],
        script: Script,
        fits: impl Fn(u32) -> bool,
    ) -> SemanticHits {
        let tier = &mut self.models[tier];
        tier.refresh_rows(table);
        let nearness = tier.vectors.similarities(query);
        let mut best = vec![(f32::MIN, 0); table.slot_count()];
        for (row, slot, chunk) in &tier.chunk_rows.rows {
            let score = nearness[item_table::slot_index(*row)];
            let best = &mut best[item_table::slot_index(*slot)];
            if score > best.0 {
                *best = (score, *chunk);
            }
        }
        let known = (0..).zip(&best).filter(|(_, (score, _))| *score > f32::MIN);
        let cutoff = similarity_cutoff(known.clone().map(|(_, (score, _))| *score));
        let fitting = known.filter(|(slot, (score, _))| *score > 0.0 && fits(*slot));
        let mut list: Vec<ScoredSlot> =
            fitting.map(|(slot, (score, _))| ScoredSlot { slot, score: *score }).collect();
        rank_fusion::keep_best(&mut list, MAX_FUSED);
        list.sort_unstable_by(|a, b| rank_fusion::compare_ranks(table, *a, *b));
        list.truncate(MAX_FUSED);
        let chunks =
            list.iter().map(|found| (found.slot, best[item_table::slot_index(found.slot)].1));
        let profile = tier.embedder.profile();
        let across = profile.languages == ModelLanguages::Many
            && table.main_script() != Script::None
            && script != table.main_script();
        let weight = profile.weight * if across { CROSS_SCRIPT_FACTOR } else { 1.0 };
        SemanticHits {
            best_chunks: chunks.collect(),
            ranking: SemanticRanking { best: list, weight, cutoff },
        }
    }

    /// Makes this process the writer of the files.
    pub(crate) fn take_over(&mut self) {
        for tier in &mut self.models {
            if let Some(store) = &mut tier.file {
                store.take_over(&mut tier.vectors, tier.embedder.profile().dimension);
            }
        }
    }

    /// Saves new vectors, and drops unused ones once they are the majority.
    pub(crate) fn save(&mut self) {
        let live = &self.chunk_counts;
        for tier in &mut self.models {
            let used = live.keys().filter(|hash| tier.vectors.row(hash).is_some()).count();
            if used > 0 && tier.vectors.len() > 2 * used + MAX_UNUSED_VECTORS {
                tier.vectors.retain(|hash| live.contains_key(hash));
                tier.chunk_rows.source = None;
                if let Some(store) = &mut tier.file {
                    store.rewrite_on_save();
                }
            }
            if let Some(store) = &mut tier.file
                && let Err(error) = store.save(&tier.vectors)
            {
                tracing::warn!(%error, "vectors can't be kept for the next start");
            }
        }
    }
}

impl ModelIndex {
    fn insert_vectors(&mut self, hashes: &[ChunkHash], result: Result<Vec<Vec<f32>>>) {
        let vectors = match result {
            Ok(vectors) if vectors.len() == hashes.len() => vectors,
            Ok(_) => return self.disable(&profile_mismatch()),
            Err(error) => return self.disable(&error),
        };
        for (hash, vector) in hashes.iter().zip(vectors) {
            let row = QuantizedVector::quantize(&vector);
            if self.vectors.insert(*hash, &row) {
                if let Some(store) = &mut self.file {
                    store.push(hash, &row);
                }
            } else if self.vectors.row(hash).is_none() {
                return self.disable(&profile_mismatch());
            }
        }
    }

    fn disable(&mut self, error: &Error) {
        let model = &self.embedder.profile().id;
        tracing::error!(model, error = error as &dyn std::error::Error, "the model can't read");
        self.failed = true;
        self.pending = Vec::new();
    }

    fn refresh_rows(&mut self, table: &ItemTable) -> &ChunkRows {
        let of = Some((table.revision(), self.vectors.len()));
        if self.chunk_rows.source != of {
            let mut places = ChunkRows { source: of, ..ChunkRows::default() };
            for (slot, entry) in table.iter() {
                places.total_chunks += entry.chunks.len();
                for (chunk, hash) in (0..).zip(&entry.chunks) {
                    match self.vectors.row(hash) {
                        Some(row) => places.rows.push((row, slot, chunk)),
                        None => places.missing_chunks += 1,
                    }
                }
            }
            self.chunk_rows = places;
        }
        &self.chunk_rows
    }
}

/// Embeds texts. A panic of the model is an error.
pub(crate) fn embed_texts(
    embedder: &dyn Embedder,
    role: TextRole,
    texts: &[&str],
) -> Result<Vec<Vec<f32>>> {
    // A model in an unknown state is not called again.
    let made = catch_unwind(AssertUnwindSafe(|| embedder.embed(role, texts)));
    made.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the model panicked")))
}

fn profile_mismatch() -> Error {
    Error::new(ErrorKind::Internal, "the model's vectors don't fit what it says of itself")
}

/// The minimum similarity of an item without a word of the query.
fn similarity_cutoff(scores: impl Iterator<Item = f32>) -> f32 {
    let (mut count, mut sum, mut squares) = (0.0_f32, 0.0_f32, 0.0_f32);
    for score in scores {
        count += 1.0;
        sum += score;
        squares += score * score;
    }
    let mean = sum / count.max(1.0);
    let deviation = (squares / count.max(1.0) - mean * mean).max(0.0).sqrt();
    (mean + CUTOFF_DEVIATIONS * deviation).clamp(MIN_CUTOFF, MAX_CUTOFF)
}
