//! The semantic index: for each model its vectors, and the texts without one.
//!
//! The best model with vectors for nearly all texts ranks. So results improve while a better model
//! still embeds, and a search never waits for it. A project with more than [`MAX_CHUNKS`] chunks
//! has no vectors: an instant model embeds the best lexical hits for each query.

mod segment_chunks;
mod vector_file;
pub(crate) mod vector_set;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::{Embedder, ModelLanguages, ModelSpeed, TextRole};
use tantivy::query::Query;
use tantivy::{DocAddress, TantivyError};

use crate::cache_dir::CacheDir;
use crate::chunk::{self, Chunk, ChunkHash};
use crate::lexical::bm25::FilterCursor;
use crate::lexical::searcher::{LexicalSearcher, to_usize};
use crate::rank_fusion::{self, ScoredItem};
use crate::script::Script;
use segment_chunks::SegmentChunks;
use vector_file::VectorFile;
use vector_set::{HashPrefix, QuantizedVector, VectorSet};

/// A project with more chunks keeps no vectors. Their scan would take longer than the rest of a
/// search, and 50,000 take 13 MiB.
const MAX_CHUNKS: usize = if cfg!(test) { 30 } else { 50_000 };
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
/// Without vectors, a query embeds this number of the best lexical hits ...
pub(crate) const MAX_RESCORED_HITS: usize = 50;
/// ... and this number of the first chunks of each.
const MAX_RESCORED_CHUNKS: usize = 4;
/// Query vectors are cached because the pages of one query follow each other.
const MAX_CACHED_QUERIES: usize = 16;
/// Unused vectors are kept, as texts come back: at most the number of used ones plus this.
const MAX_UNUSED_VECTORS: usize = 1024;

pub(crate) struct SemanticIndex {
    /// The best model last.
    models: Vec<ModelIndex>,
    /// In the order of the searcher's segments; empty without vectors.
    segments: Vec<SegmentChunks>,
    /// Number of chunks of live items, if there are vectors.
    total_chunks: usize,
    /// False above [`MAX_CHUNKS`].
    has_vectors: bool,
}

struct ModelIndex {
    /// The position in the list of models.
    number: usize,
    embedder: Arc<dyn Embedder>,
    vectors: VectorSet,
    file: Option<VectorFile>,
    is_loaded: bool,
    /// Number of live chunks without a vector, and the number of vectors when they were counted.
    missing_chunks: Option<(usize, usize)>,
    /// The newest first.
    cached_queries: VecDeque<(String, Arc<[f32]>)>,
    /// A failed model is not called again.
    has_failed: bool,
}

/// Texts that one model embeds without holding the lock.
pub(crate) struct EmbeddingBatch {
    model: usize,
    pub(crate) embedder: Arc<dyn Embedder>,
    hashes: Vec<ChunkHash>,
    pub(crate) texts: Vec<String>,
}

/// The similarity of an item to a query, and its most similar chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SimilarChunk {
    /// 0 for an unrelated item to 1.
    pub(crate) similarity: f32,
    /// The position of the chunk; `None` without a vector.
    pub(crate) position: Option<u32>,
}

impl SimilarChunk {
    /// Keeps the more similar chunk.
    fn add(&mut self, similarity: f32, position: u32) {
        if self.position.is_none() || similarity > self.similarity {
            *self = Self { similarity, position: Some(position) };
        }
    }
}

/// The similarity of the items to a query.
#[derive(Debug)]
pub(crate) struct SemanticHits {
    similarities: Similarities,
    /// At most [`MAX_SEMANTIC_HITS`], best first; none if only hits by words were compared.
    pub(crate) best: Vec<ScoredItem>,
}

#[derive(Debug)]
enum Similarities {
    /// Of all items, by segment and record.
    Whole(Vec<Vec<SimilarChunk>>),
    OfSome(HashMap<DocAddress, SimilarChunk>),
}

impl SemanticHits {
    pub(crate) fn similar_chunk(&self, item: DocAddress) -> SimilarChunk {
        let found = match &self.similarities {
            Similarities::Whole(segments) => segments
                .get(to_usize(item.segment_ord))
                .and_then(|segment| segment.get(to_usize(item.doc_id))),
            Similarities::OfSome(items) => items.get(&item),
        };
        found.copied().unwrap_or_default()
    }
}

impl SemanticIndex {
    pub(crate) fn new(embedders: &[Arc<dyn Embedder>], cache_dir: Option<&CacheDir>) -> Self {
        let mut models = Vec::with_capacity(embedders.len());
        for (number, embedder) in embedders.iter().enumerate() {
            models.push(ModelIndex::new(number, Arc::clone(embedder), cache_dir));
        }
        Self { models, segments: Vec::new(), total_chunks: 0, has_vectors: false }
    }

    /// Updates the list of segments after a commit.
    pub(crate) fn refresh(&mut self, searcher: &LexicalSearcher) -> tantivy::Result<()> {
        let mut former = mem::take(&mut self.segments);
        self.total_chunks = 0;
        self.has_vectors = searcher.is_scored_whole() && !self.models.is_empty();
        for reader in searcher.segment_readers() {
            if !self.has_vectors {
                break;
            }
            let known = former.iter().position(|segment| segment.id == reader.segment_id());
            let segment = match known {
                Some(position) => former.swap_remove(position),
                None => SegmentChunks::read(reader, self.models.len(), MAX_CHUNKS)?,
            };
            self.total_chunks += segment.live_count(reader);
            self.has_vectors = self.total_chunks <= MAX_CHUNKS;
            self.segments.push(segment);
        }
        if !self.has_vectors {
            self.segments = Vec::new();
        }
        for model in &mut self.models {
            model.missing_chunks = None;
            model.load_or_unload(self.has_vectors);
        }
        Ok(())
    }

    /// Embeds the chunks of a changed document with instant models. Slower models embed them in the
    /// background.
    pub(crate) fn embed_document(&mut self, chunks: &[Chunk]) {
        if !self.has_vectors {
            return;
        }
        for model in &mut self.models {
            if !model.has_failed && model.is_instant() {
                model.embed_chunks(chunks);
            }
        }
    }

    /// Takes the next batch: the newest chunks of the first model that lacks vectors.
    pub(crate) fn next_batch(
        &mut self,
        searcher: &LexicalSearcher,
        is_instant_only: bool,
    ) -> tantivy::Result<Option<EmbeddingBatch>> {
        for model in &mut self.models {
            let is_skipped = is_instant_only && !model.is_instant();
            if is_skipped || model.missing_chunks(&mut self.segments, searcher) == 0 {
                continue;
            }
            let max_texts = if model.is_instant() { INSTANT_BATCH_TEXTS } else { SLOW_BATCH_TEXTS };
            let (mut hashes, mut texts) = (Vec::new(), Vec::new());
            let segments = (0..).zip(searcher.segment_readers()).zip(&self.segments);
            // The last segment is the newest.
            let segments: Vec<_> = segments.collect();
            for ((ordinal, reader), segment) in segments.into_iter().rev() {
                let mut split: Option<(u32, Vec<Chunk>)> = None;
                for (doc, position, hash) in segment.missing(model.number, reader) {
                    if texts.len() == max_texts {
                        break;
                    }
                    if hashes.contains(&hash) {
                        continue;
                    }
                    if split.as_ref().is_none_or(|(split_doc, _)| *split_doc != doc) {
                        let item = searcher.stored_item(DocAddress::new(ordinal, doc))?;
                        split = Some((doc, chunk::split_item(&item.title, &item.text)));
                    }
                    let chunks = split.as_ref().map_or(&[][..], |(_, chunks)| chunks);
                    // Otherwise the same chunk would be retried forever.
                    let chunk = chunks.get(to_usize(position)).ok_or_else(missing_chunk)?;
                    hashes.push(hash);
                    texts.push(chunk.text.clone());
                }
            }
            if !hashes.is_empty() {
                let embedder = Arc::clone(&model.embedder);
                return Ok(Some(EmbeddingBatch { model: model.number, embedder, hashes, texts }));
            }
        }
        Ok(None)
    }

    /// Stores the vectors of a batch. An error disables its model.
    pub(crate) fn store_batch(&mut self, batch: &EmbeddingBatch, result: Result<Vec<Vec<f32>>>) {
        if let Some(model) = self.models.get_mut(batch.model) {
            model.insert_vectors(&batch.hashes, result);
        }
    }

    /// Number of chunks without a vector of the best model.
    pub(crate) fn pending_chunks(&mut self, searcher: &LexicalSearcher) -> usize {
        match self.models.iter_mut().rev().find(|model| !model.has_failed) {
            Some(best) => best.missing_chunks(&mut self.segments, searcher),
            None => 0,
        }
    }

    /// Returns the best model that can rank a query of this script.
    pub(crate) fn ranking_model(
        &mut self,
        searcher: &LexicalSearcher,
        script: Script,
    ) -> Option<usize> {
        // From the best model down.
        for model in self.models.iter_mut().rev() {
            let supports_script = match model.embedder.profile().languages {
                ModelLanguages::English => script == Script::Latin,
                ModelLanguages::Many => script != Script::None,
            };
            if model.has_failed || !supports_script {
                continue;
            }
            if !self.has_vectors {
                // A slow model would take seconds to embed the best hits.
                if model.is_instant() && searcher.item_count() > 0 {
                    return Some(model.number);
                }
                continue;
            }
            let missing = model.missing_chunks(&mut self.segments, searcher);
            let embedded = self.total_chunks - missing;
            if embedded > 0 && embedded * 100 >= self.total_chunks * MIN_RANKING_PERCENT {
                return Some(model.number);
            }
        }
        None
    }

    /// Identifies the vectors that rank: the model, and how many of its texts are embedded.
    pub(crate) fn ranking_state(
        &mut self,
        model: usize,
        searcher: &LexicalSearcher,
    ) -> (&str, usize) {
        let model = &mut self.models[model];
        let missing = model.missing_chunks(&mut self.segments, searcher);
        (&model.embedder.profile().id, missing)
    }

    /// True if all items can be compared with a query.
    pub(crate) fn has_vectors(&self) -> bool {
        self.has_vectors
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

    /// Returns the similarity of each item to a query, and the most similar ones that pass the
    /// filter.
    pub(crate) fn most_similar(
        &mut self,
        model: usize,
        searcher: &LexicalSearcher,
        query: &[f32],
        filter: Option<&dyn Query>,
    ) -> tantivy::Result<SemanticHits> {
        let model = &mut self.models[model];
        model.find_rows(&mut self.segments);
        let cosines = model.vectors.similarities(query);
        let (mut similarities, mut best) = (Vec::new(), Vec::new());
        for ((ordinal, reader), segment) in
            (0..).zip(searcher.segment_readers()).zip(&self.segments)
        {
            let mut similar = vec![SimilarChunk::default(); to_usize(reader.max_doc())];
            for (doc, position, row) in segment.rows(model.number) {
                let similarity = model.scale(cosines[to_usize(row)]);
                similar[to_usize(doc)].add(similarity, position);
            }
            let mut cursor = FilterCursor::new(searcher, filter, reader)?;
            for (doc, similar) in (0..).zip(&similar) {
                if similar.position.is_some() && !reader.is_deleted(doc) && cursor.includes(doc) {
                    let item = DocAddress::new(ordinal, doc);
                    best.push(ScoredItem { item, score: similar.similarity });
                }
            }
            similarities.push(similar);
        }
        // A selection, because sorting every item would cost more.
        let keys = |items: &[DocAddress]| searcher.rank_keys(items);
        rank_fusion::sort_best(&keys, &mut best, MAX_SEMANTIC_HITS)?;
        Ok(SemanticHits { similarities: Similarities::Whole(similarities), best })
    }

    /// Returns the similarity of some items to a query, whose texts it embeds again.
    pub(crate) fn rescore(
        &mut self,
        model: usize,
        searcher: &LexicalSearcher,
        query: &[f32],
        items: &[DocAddress],
    ) -> tantivy::Result<SemanticHits> {
        let model = &mut self.models[model];
        let (mut found_chunks, mut texts) = (Vec::new(), Vec::new());
        for item in items {
            let stored = searcher.stored_item(*item)?;
            let chunks = chunk::split_item(&stored.title, &stored.text);
            for (position, chunk) in (0..).zip(chunks).take(MAX_RESCORED_CHUNKS) {
                found_chunks.push((*item, position));
                texts.push(chunk.text);
            }
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut similar: HashMap<DocAddress, SimilarChunk> = HashMap::new();
        match embed_texts(&*model.embedder, TextRole::Passage, &texts) {
            Ok(vectors) => {
                for ((item, position), vector) in found_chunks.into_iter().zip(vectors) {
                    let cosine = vector.iter().zip(query).map(|(a, b)| a * b).sum();
                    similar.entry(item).or_default().add(model.scale(cosine), position);
                }
            }
            Err(error) => model.disable(&error),
        }
        Ok(SemanticHits { similarities: Similarities::OfSome(similar), best: Vec::new() })
    }

    /// Adds the vectors that the writer has saved since the project was opened.
    pub(crate) fn add_saved(&mut self) {
        for model in &mut self.models {
            if let Some(file) = &mut model.file {
                file.add_saved(&mut model.vectors, model.embedder.profile().dimension);
            }
        }
    }

    /// Makes this process the writer of the vector files.
    pub(crate) fn take_over(&mut self) {
        for model in &mut self.models {
            if let Some(file) = &mut model.file {
                file.take_over(&mut model.vectors, model.embedder.profile().dimension);
            }
        }
    }

    /// Drops unused vectors when they are the majority. `removed_documents` counts those that
    /// were removed since the project was opened.
    pub(crate) fn drop_unused(&mut self, searcher: &LexicalSearcher, removed_documents: usize) {
        if !self.has_vectors {
            return;
        }
        let mut used: HashSet<ChunkHash, BuildHasherDefault<HashPrefix>> = HashSet::default();
        for (reader, segment) in searcher.segment_readers().iter().zip(&self.segments) {
            used.extend(segment.live_hashes(reader));
        }
        // Without used vectors a new process has not indexed its documents yet, or all items were
        // deleted.
        if used.is_empty() && removed_documents <= MAX_UNUSED_VECTORS {
            return;
        }
        for model in &mut self.models {
            let used_count = used.iter().filter(|hash| model.vectors.row(hash).is_some()).count();
            if model.vectors.len() > 2 * used_count + MAX_UNUSED_VECTORS {
                model.vectors.retain(|hash| used.contains(hash));
                model.missing_chunks = None;
                // The remaining vectors have new row numbers.
                for segment in &mut self.segments {
                    segment.forget_rows(model.number);
                }
                if let Some(file) = &mut model.file {
                    file.rewrite_on_save();
                }
            }
        }
    }

    /// Saves new vectors.
    pub(crate) fn save(&mut self) {
        for model in &mut self.models {
            if model.is_loaded
                && let Some(file) = &mut model.file
                && let Err(error) = file.save(&model.vectors)
            {
                tracing::warn!(%error, "search cache: cannot save vectors");
            }
        }
    }
}

impl ModelIndex {
    fn new(number: usize, embedder: Arc<dyn Embedder>, cache_dir: Option<&CacheDir>) -> Self {
        let profile = embedder.profile();
        let file = cache_dir.map(|cache_dir| VectorFile::new(cache_dir, profile));
        let vectors = VectorSet::new(profile.dimension);
        Self {
            number,
            embedder,
            vectors,
            file,
            is_loaded: false,
            missing_chunks: None,
            cached_queries: VecDeque::new(),
            has_failed: false,
        }
    }

    fn is_instant(&self) -> bool {
        self.embedder.profile().speed == ModelSpeed::Instant
    }

    /// Scales a cosine by that of unrelated texts, so that 0 means unrelated.
    fn scale(&self, cosine: f32) -> f32 {
        let unrelated = self.embedder.profile().unrelated_cosine;
        ((cosine - unrelated) / (1.0 - unrelated)).clamp(0.0, 1.0)
    }

    /// Reads the saved vectors on first use, and frees them when they are no longer needed.
    fn load_or_unload(&mut self, is_needed: bool) {
        if is_needed == self.is_loaded {
            return;
        }
        self.is_loaded = is_needed;
        let dimension = self.embedder.profile().dimension;
        self.vectors = match &mut self.file {
            Some(file) if is_needed => file.load(dimension),
            _ => VectorSet::new(dimension),
        };
    }

    /// Finds the rows of chunks that had no vector.
    fn find_rows(&self, segments: &mut [SegmentChunks]) {
        for segment in segments {
            segment.find_rows(self.number, &self.vectors);
        }
    }

    /// Number of live chunks without a vector; 0 for a failed model.
    fn missing_chunks(
        &mut self,
        segments: &mut [SegmentChunks],
        searcher: &LexicalSearcher,
    ) -> usize {
        if self.has_failed {
            return 0;
        }
        // Between saves vectors are only added, so their number identifies them.
        if let Some((missing, vectors)) = self.missing_chunks
            && vectors == self.vectors.len()
        {
            return missing;
        }
        self.find_rows(segments);
        let mut missing = 0;
        for (reader, segment) in searcher.segment_readers().iter().zip(segments) {
            missing += segment.missing(self.number, reader).count();
        }
        self.missing_chunks = Some((missing, self.vectors.len()));
        missing
    }

    fn embed_chunks(&mut self, chunks: &[Chunk]) {
        let (mut hashes, mut texts) = (Vec::new(), Vec::new());
        for chunk in chunks {
            if self.vectors.row(&chunk.hash).is_none() {
                hashes.push(chunk.hash);
                texts.push(chunk.text.as_str());
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

fn missing_chunk() -> TantivyError {
    TantivyError::InternalError("the text of a chunk is missing".to_owned())
}
