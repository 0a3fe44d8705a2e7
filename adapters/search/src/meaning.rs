//! Semantic search: for each model its vectors, and the texts without one.
//!
//! The best model with vectors for nearly all texts ranks. So answers improve while a better model
//! still embeds, and never wait for it.

mod file;
pub(crate) mod vectors;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::{Embedder, ModelLanguages, ModelSpeed, TextRole};

use crate::chunk::{Chunk, Hash};
use crate::folder::Folder;
use crate::rank::{self, FUSED, Near, Scored};
use crate::script::Script;
use crate::table::{self, Table};
use file::Store;
use vectors::{Prefix, Row, Vectors};

/// A model ranks if it has vectors for this share of all texts.
const RANKING_PERCENT: usize = 95;
/// Maximum texts embedded synchronously when a project is opened, so that a start stays fast. Texts
/// of a call are all embedded within it, which takes less time than indexing them.
pub(crate) const AT_OPENING: usize = 20_000;
/// Texts per background batch, by the model's pace. Calls run between batches.
const BATCH_INSTANT: usize = 64;
const BATCH_SLOW: usize = 4;
/// Cached vectors of queries: pages of one query follow each other.
const QUERIES: usize = 16;
/// Factor of semantic scores if query and texts differ in script, so that no words match.
const ACROSS_SCRIPTS: f32 = 3.0;
/// An item without a word of the query is found if its similarity is this number of standard
/// deviations above the mean, which works where all texts have one subject. In two judged
/// collections a quarter of the relevant texts lies above, and one in 300 of the others.
const NEAR_DEVIATIONS: f32 = 3.0;
/// This similarity is enough, as outliers are rare in few texts. About half of the relevant texts
/// have it, and one in twenty of the others.
const NEAR_SURELY: f32 = 0.55;
/// A lower similarity is never enough. Most relevant texts have more.
const NEAR_AT_LEAST: f32 = 0.25;
/// Unused vectors are kept for a text's return, up to the number of used ones and these.
const SPARE: usize = 1024;

#[derive(Debug)]
pub(crate) struct Meaning {
    tiers: Vec<Tier>,
    /// Number of items with each chunk.
    live: HashMap<Hash, u32, BuildHasherDefault<Prefix>>,
}

/// One model.
struct Tier {
    embedder: Arc<dyn Embedder>,
    vectors: Vectors,
    store: Option<Store>,
    /// Texts without a vector, the newest last.
    waiting: Vec<(Hash, Box<str>)>,
    places: Places,
    asked: VecDeque<(String, Arc<[f32]>)>,
    /// A failed model is ignored.
    failed: bool,
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier").field("model", &self.embedder.profile().id).finish_non_exhaustive()
    }
}

/// The rows of all slots, derived again after a change of either.
#[derive(Debug, Default)]
struct Places {
    of: Option<(u64, usize)>,
    /// Row, slot, and position of the chunk in its item.
    list: Vec<(u32, u32, u32)>,
    missing: usize,
    total: usize,
}

/// Texts for one model to embed without a lock.
pub(crate) struct Batch {
    tier: usize,
    pub(crate) embedder: Arc<dyn Embedder>,
    hashes: Vec<Hash>,
    pub(crate) texts: Vec<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) near: Near,
    /// The position of each item's most similar chunk.
    pub(crate) chunks: HashMap<u32, u32>,
}

impl Meaning {
    pub(crate) fn new(embedders: &[Arc<dyn Embedder>], folder: Option<&Folder>) -> Self {
        let tier = |embedder: &Arc<dyn Embedder>| {
            let profile = embedder.profile();
            let mut store = folder.map(|folder| Store::new(folder, profile));
            let vectors = match &mut store {
                Some(store) => store.load(profile.dimension),
                None => Vectors::new(profile.dimension),
            };
            Tier {
                embedder: Arc::clone(embedder),
                vectors,
                store,
                waiting: Vec::new(),
                places: Places::default(),
                asked: VecDeque::new(),
                failed: false,
            }
        };
        Self { tiers: embedders.iter().map(tier).collect(), live: HashMap::default() }
    }

    /// Adds an item with these chunks.
    pub(crate) fn hold(&mut self, chunks: &[Hash]) {
        for hash in chunks {
            *self.live.entry(*hash).or_default() += 1;
        }
    }

    /// Removes an item with these chunks. Their vectors stay for a while, as texts come back.
    pub(crate) fn release(&mut self, chunks: &[Hash]) {
        for hash in chunks {
            if let Some(count) = self.live.get_mut(hash) {
                *count -= 1;
                if *count == 0 {
                    self.live.remove(hash);
                }
            }
        }
    }

    /// Embeds the first `budget` texts with instant models, and queues the rest.
    pub(crate) fn read(&mut self, chunks: &[Chunk], budget: &mut usize) {
        let Self { tiers, .. } = self;
        for tier in tiers.iter_mut().filter(|tier| !tier.failed) {
            let unread = chunks.iter().filter(|chunk| tier.vectors.row(&chunk.hash).is_none());
            let unread: Vec<&Chunk> = unread.collect();
            let instant = tier.embedder.profile().pace == ModelSpeed::Instant;
            let now = if instant { unread.len().min(*budget) } else { 0 };
            let (now, later) = unread.split_at(now);
            *budget -= now.len();
            let texts: Vec<&str> = now.iter().map(|chunk| chunk.text.as_str()).collect();
            let hashes: Vec<Hash> = now.iter().map(|chunk| chunk.hash).collect();
            if !texts.is_empty() {
                let result = embed(&*tier.embedder, TextRole::Passage, &texts);
                tier.take(&hashes, result);
            }
            let later = later.iter().map(|chunk| (chunk.hash, chunk.text.as_str().into()));
            tier.waiting.extend(later);
        }
    }

    /// True if a model has no vector of this chunk.
    pub(crate) fn lacks(&self, hash: &Hash) -> bool {
        self.tiers.iter().any(|tier| !tier.failed && tier.vectors.row(hash).is_none())
    }

    /// The next batch: the newest texts of the least model with queued ones.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        let live = &self.live;
        for (number, tier) in self.tiers.iter_mut().enumerate() {
            let profile = tier.embedder.profile();
            let most = if profile.pace == ModelSpeed::Slow { BATCH_SLOW } else { BATCH_INSTANT };
            let (mut hashes, mut texts) = (Vec::new(), Vec::new());
            while hashes.len() < most
                && let Some((hash, text)) = tier.waiting.pop()
            {
                let wanted = live.contains_key(&hash) && tier.vectors.row(&hash).is_none();
                if wanted && !hashes.contains(&hash) && !tier.failed {
                    hashes.push(hash);
                    texts.push(text);
                }
            }
            if !hashes.is_empty() {
                let embedder = Arc::clone(&tier.embedder);
                return Some(Batch { tier: number, embedder, hashes, texts });
            }
        }
        None
    }

    /// Stores the vectors of a batch.
    pub(crate) fn take(&mut self, batch: &Batch, result: Result<Vec<Vec<f32>>>) {
        if let Some(tier) = self.tiers.get_mut(batch.tier) {
            tier.take(&batch.hashes, result);
        }
    }

    /// Number of texts without a vector of the best model.
    pub(crate) fn pending(&mut self, table: &Table) -> usize {
        let best = self.tiers.iter_mut().rev().find(|tier| !tier.failed);
        best.map_or(0, |tier| tier.places(table).missing)
    }

    /// The model that ranks for a query of this script.
    pub(crate) fn choose(&mut self, table: &Table, script: Script) -> Option<usize> {
        let tiers = self.tiers.iter_mut().enumerate().rev();
        for (number, tier) in tiers.filter(|(_, tier)| !tier.failed) {
            let speaks = match tier.embedder.profile().languages {
                ModelLanguages::English => script == Script::Latin,
                ModelLanguages::Many => script != Script::None,
            };
            let places = tier.places(table);
            let known = places.total - places.missing;
            if speaks && known > 0 && known * 100 >= places.total * RANKING_PERCENT {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn model(&self, tier: usize) -> &Arc<dyn Embedder> {
        &self.tiers[tier].embedder
    }

    /// The cached vector of a query.
    pub(crate) fn asked(&self, tier: usize, query: &str) -> Option<Arc<[f32]>> {
        let asked = &mut self.tiers[tier].asked.iter();
        asked.find(|(text, _)| text == query).map(|(_, vector)| Arc::clone(vector))
    }

    pub(crate) fn remember(&mut self, tier: usize, query: &str, vector: &Arc<[f32]>) {
        let asked = &mut self.tiers[tier].asked;
        asked.truncate(QUERIES - 1);
        asked.push_front((query.to_owned(), Arc::clone(vector)));
    }

    pub(crate) fn fail(&mut self, tier: usize, error: &Error) {
        self.tiers[tier].fail(error);
    }

    /// The most similar items to a query among those that fit.
    pub(crate) fn near(
        &mut self,
        tier: usize,
        table: &Table,
        query: &[f32],
        script: Script,
        fits: impl Fn(u32) -> bool,
    ) -> Found {
        let tier = &mut self.tiers[tier];
        tier.places(table);
        let nearness = tier.vectors.scan(query);
        let mut best = vec![(f32::MIN, 0); table.width()];
        for (row, slot, chunk) in &tier.places.list {
            let score = nearness[table::index(*row)];
            let best = &mut best[table::index(*slot)];
            if score > best.0 {
                *best = (score, *chunk);
            }
        }
        let known = (0..).zip(&best).filter(|(_, (score, _))| *score > f32::MIN);
        let cutoff = cutoff(known.clone().map(|(_, (score, _))| *score));
        let fitting = known.filter(|(slot, (score, _))| *score > 0.0 && fits(*slot));
        let mut list: Vec<Scored> =
            fitting.map(|(slot, (score, _))| Scored { slot, score: *score }).collect();
        rank::keep_best(&mut list, FUSED);
        list.sort_unstable_by(|a, b| rank::compare(table, *a, *b));
        list.truncate(FUSED);
        let chunks = list.iter().map(|found| (found.slot, best[table::index(found.slot)].1));
        let profile = tier.embedder.profile();
        let across = profile.languages == ModelLanguages::Many
            && table.script() != Script::None
            && script != table.script();
        let weight = profile.weight * if across { ACROSS_SCRIPTS } else { 1.0 };
        Found { chunks: chunks.collect(), near: Near { list, weight, cutoff } }
    }

    /// Makes this process the writer of the files.
    pub(crate) fn take_over(&mut self) {
        for tier in &mut self.tiers {
            if let Some(store) = &mut tier.store {
                store.take_over(&mut tier.vectors, tier.embedder.profile().dimension);
            }
        }
    }

    /// Saves new vectors, and drops unused ones once they are the majority.
    pub(crate) fn save(&mut self) {
        let live = &self.live;
        for tier in &mut self.tiers {
            let used = live.keys().filter(|hash| tier.vectors.row(hash).is_some()).count();
            if used > 0 && tier.vectors.len() > 2 * used + SPARE {
                tier.vectors.retain(|hash| live.contains_key(hash));
                tier.places.of = None;
                if let Some(store) = &mut tier.store {
                    store.renew();
                }
            }
            if let Some(store) = &mut tier.store
                && let Err(error) = store.save(&tier.vectors)
            {
                tracing::warn!(%error, "vectors can't be kept for the next start");
            }
        }
    }
}

impl Tier {
    fn take(&mut self, hashes: &[Hash], result: Result<Vec<Vec<f32>>>) {
        let vectors = match result {
            Ok(vectors) if vectors.len() == hashes.len() => vectors,
            Ok(_) => return self.fail(&unfit()),
            Err(error) => return self.fail(&error),
        };
        for (hash, vector) in hashes.iter().zip(vectors) {
            let row = Row::of(&vector);
            if self.vectors.insert(*hash, &row) {
                if let Some(store) = &mut self.store {
                    store.push(hash, &row);
                }
            } else if self.vectors.row(hash).is_none() {
                return self.fail(&unfit());
            }
        }
    }

    fn fail(&mut self, error: &Error) {
        let model = &self.embedder.profile().id;
        tracing::error!(model, error = error as &dyn std::error::Error, "the model can't read");
        self.failed = true;
        self.waiting = Vec::new();
    }

    fn places(&mut self, table: &Table) -> &Places {
        let of = Some((table.changes(), self.vectors.len()));
        if self.places.of != of {
            let mut places = Places { of, ..Places::default() };
            for (slot, entry) in table.all() {
                places.total += entry.chunks.len();
                for (chunk, hash) in (0..).zip(&entry.chunks) {
                    match self.vectors.row(hash) {
                        Some(row) => places.list.push((row, slot, chunk)),
                        None => places.missing += 1,
                    }
                }
            }
            self.places = places;
        }
        &self.places
    }
}

/// Embeds texts. A panic of the model is an error.
pub(crate) fn embed(
    embedder: &dyn Embedder,
    role: TextRole,
    texts: &[&str],
) -> Result<Vec<Vec<f32>>> {
    // A model in an unknown state is not called again.
    let made = catch_unwind(AssertUnwindSafe(|| embedder.embed(role, texts)));
    made.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the model panicked")))
}

fn unfit() -> Error {
    Error::new(ErrorKind::Internal, "the model's vectors don't fit what it says of itself")
}

/// The minimum similarity of an item without a word of the query.
fn cutoff(scores: impl Iterator<Item = f32>) -> f32 {
    let (mut count, mut sum, mut squares) = (0.0_f32, 0.0_f32, 0.0_f32);
    for score in scores {
        count += 1.0;
        sum += score;
        squares += score * score;
    }
    let mean = sum / count.max(1.0);
    let deviation = (squares / count.max(1.0) - mean * mean).max(0.0).sqrt();
    (mean + NEAR_DEVIATIONS * deviation).clamp(NEAR_AT_LEAST, NEAR_SURELY)
}
