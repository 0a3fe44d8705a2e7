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

use crate::analyzer::{Analyzer, beginning};
use crate::checkpoints::Checkpoints;
use crate::chunk;
use crate::filter::Filter;
use crate::folder::Folder;
use crate::meaning::{self, Batch, Found, Meaning};
use crate::rank::{self, Page};
use crate::script::Script;
use crate::snippet;
use crate::table::{Entry, Table};
use crate::words::Words;
use crate::words::expand::{self, MAX_BYTES};
use crate::words::score::{self, Weighted};

/// Maximum words of a query that are looked up as references.
const MAX_PIECES: usize = 256;
/// Maximum items that a query's references put first.
const MAX_PINNED: usize = 32;
/// More items are searched on a blocking thread.
const LIGHT_ITEMS: usize = 50_000;

#[derive(Debug)]
pub(crate) struct Project {
    analyzers: Analyzers,
    folder: Option<Folder>,
    words: Words,
    table: Table,
    meaning: Meaning,
    checkpoints: Checkpoints,
    unsaved: bool,
    /// Its own number of [`Project::losses`], and the next one of all projects.
    losses: (u64, Arc<AtomicU64>),
}

/// Separate analyzers, so that a search never waits for indexing.
#[derive(Debug, Clone)]
pub(crate) struct Analyzers {
    pub(crate) asking: Analyzer,
    pub(crate) indexing: Analyzer,
}

pub(crate) enum Prepared {
    Ready(Plan),
    /// This slow model must embed the query, without a lock.
    Unread(Plan, Arc<dyn Embedder>),
}

pub(crate) struct Plan {
    /// The ranking model, and the query's vector once it is known.
    tier: Option<usize>,
    vector: Option<Arc<[f32]>>,
    script: Script,
}

impl Project {
    /// Opens the saved index of the folder, or begins empty.
    pub(crate) fn open(
        mut folder: Option<Folder>,
        analyzers: Analyzers,
        embedders: &[Arc<dyn Embedder>],
        losses: Arc<AtomicU64>,
    ) -> Result<Self> {
        let meaning = Meaning::new(embedders, folder.as_ref());
        let checkpoints = Checkpoints::default();
        let stored = folder.as_mut().and_then(Folder::load);
        let restored = stored.and_then(|(directory, table)| {
            let words = Words::open(directory, &analyzers.indexing).ok()?;
            let table = Table::parse(&table).filter(|table| words.view().fits(table))?;
            Some((table, words))
        });
        let found = restored.is_some();
        let (table, words) = match restored {
            Some(restored) => restored,
            None => (Table::default(), Words::empty(&analyzers.indexing).map_err(unusable)?),
        };
        let unsaved = false;
        let losses = (losses.fetch_add(1, Ordering::Relaxed), losses);
        let mut project =
            Self { analyzers, folder, words, table, meaning, checkpoints, unsaved, losses };
        if found {
            project.resume();
        } else if let Some(folder) = &mut project.folder {
            folder.clear().unwrap_or_else(|error| not_kept(&error));
        }
        Ok(project)
    }

    pub(crate) fn indexed(&self) -> BTreeMap<DocumentId, Version> {
        self.table.versions()
    }

    /// Changes after each opening and each error that emptied the index.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.0
    }

    /// Adds or replaces documents. An error empties the index first.
    pub(crate) fn apply(&mut self, projections: &[DocumentProjection]) -> Result<()> {
        self.unsaved = true;
        self.try_apply(projections).or_else(|error| {
            self.reset(&error)?;
            self.try_apply(projections).map_err(unusable)
        })
    }

    fn try_apply(&mut self, projections: &[DocumentProjection]) -> tantivy::Result<()> {
        let mut budget = usize::MAX;
        for projection in projections {
            self.remove(&projection.document);
            let Some(version) = projection.version else { continue };
            let mut unread = Vec::new();
            let document = self.table.know(projection.document.clone(), version);
            for item in &projection.items {
                let chunks = chunk::split(&item.title, &item.text);
                let facets = item.facets.iter();
                let numbers = facets.map(|facet| self.table.facets.number(facet.as_str()));
                let numbers: Box<[u32]> = numbers.collect();
                let entry = Entry {
                    document: Arc::clone(&document),
                    reference: item.reference.as_str().into(),
                    kind: self.table.kind(&item.kind),
                    title: item.title.as_str().into(),
                    script: Script::of(&[&item.title, &item.text]),
                    chunks: chunks.iter().map(|chunk| chunk.hash).collect(),
                    facets: numbers,
                };
                unread.extend(chunks);
                self.meaning.hold(&entry.chunks);
                self.words.add(self.table.add(entry), item)?;
            }
            self.meaning.read(&unread, &mut budget);
        }
        Ok(())
    }

    fn remove(&mut self, document: &DocumentId) {
        for (slot, entry) in self.table.remove(document) {
            self.words.remove(slot);
            self.meaning.release(&entry.chunks);
        }
    }

    /// True if a search takes less time than a change of threads.
    pub(crate) fn is_light(&self) -> bool {
        !self.words.dirty() && self.table.items() <= LIGHT_ITEMS
    }

    /// Commits changes and selects the ranking model.
    pub(crate) fn prepare(&mut self, query: &SearchQuery) -> Result<Prepared> {
        if let Err(error) = self.words.commit() {
            self.reset(&error)?;
        }
        let text = beginning(&query.text, MAX_BYTES);
        let script = Script::of(&[text]);
        let wanted = query.meaning == search::SemanticMode::Best;
        let tier = wanted.then(|| self.meaning.choose(&self.table, script)).flatten();
        let mut plan = Plan { tier, vector: None, script };
        let Some(tier) = tier else { return Ok(Prepared::Ready(plan)) };
        plan.vector = self.meaning.asked(tier, text);
        if plan.vector.is_some() {
            return Ok(Prepared::Ready(plan));
        }
        let embedder = Arc::clone(self.meaning.model(tier));
        if embedder.profile().pace == ModelSpeed::Slow {
            return Ok(Prepared::Unread(plan, embedder));
        }
        let read = read_query(&*embedder, query);
        Ok(Prepared::Ready(self.with_vector(plan, query, read)))
    }

    /// Adds a model's result for a query.
    pub(crate) fn with_vector(
        &mut self,
        mut plan: Plan,
        query: &SearchQuery,
        read: Result<Vec<f32>>,
    ) -> Plan {
        let Some(tier) = plan.tier else { return plan };
        match read {
            Ok(vector) => {
                let vector: Arc<[f32]> = vector.into();
                let text = beginning(&query.text, MAX_BYTES);
                self.meaning.remember(tier, text, &vector);
                plan.vector = Some(vector);
            }
            Err(error) => {
                self.meaning.fail(tier, &error);
                plan.tier = None;
            }
        }
        plan
    }

    /// Answers a query. An error empties the index, and then nothing is found.
    pub(crate) fn search(&mut self, query: &SearchQuery, plan: &Plan) -> Result<SearchHits> {
        // Another call may have changed it while the query was embedded.
        let answer = self.words.commit().and_then(|()| self.try_search(query, plan));
        answer.or_else(|error| {
            self.reset(&error)?;
            self.try_search(query, plan).map_err(unusable)
        })
    }

    fn try_search(&mut self, query: &SearchQuery, plan: &Plan) -> tantivy::Result<SearchHits> {
        let Self { words, table, meaning, analyzers, .. } = self;
        let filter = Filter::of(query, &table.facets);
        let fits = |slot| filter.fits(table, slot);
        let sought = expand::words(words.view(), &analyzers.asking, &query.text)?;
        let mut scores = score::scores(words.view(), &sought, table.items(), table.width())?;
        for (slot, score) in (0..).zip(&mut scores).filter(|(_, score)| **score > 0.0) {
            if !fits(slot) {
                *score = 0.0;
            }
        }
        let mut pinned = exact_references(table, &query.text);
        pinned.retain(|slot| fits(*slot));
        let near = match (plan.tier, &plan.vector) {
            (Some(tier), Some(vector)) => {
                Some(meaning.near(tier, table, vector, plan.script, fits))
            }
            _ => None,
        };
        let range = query.offset..query.offset.saturating_add(query.limit);
        let ranking = near.as_ref().map(|found| &found.near);
        let page = rank::page(table, &scores, ranking, &pinned, range);
        let mut signals = vec!["words".to_owned()];
        if let (Some(tier), Some(_)) = (plan.tier, &near) {
            signals.push(format!("meaning:{}", meaning.model(tier).profile().name));
        }
        let pending = meaning.pending(table);
        let total = page.total;
        let hits = self.hits(&page, near.as_ref(), &sought)?;
        Ok(SearchHits { hits, total, signals, pending })
    }

    fn hits(
        &self,
        page: &Page,
        near: Option<&Found>,
        sought: &[Weighted],
    ) -> tantivy::Result<Vec<SearchHit>> {
        let mut hits = Vec::with_capacity(page.found.len());
        for found in &page.found {
            let Some(entry) = self.table.item(found.slot) else { continue };
            let (title, text) = self.words.view().text(found.slot)?.unwrap_or_default();
            let nearest = near.and_then(|near| near.chunks.get(&found.slot));
            let start = || {
                let nearest = nearest.and_then(|at| usize::try_from(*at).ok());
                let chunk = nearest.and_then(|at| chunk::split(&title, &text).into_iter().nth(at));
                chunk.map_or(0, |chunk| chunk.range.start)
            };
            let snippet = snippet::of(&self.analyzers.asking, &text, sought, start);
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
        self.checkpoints.take(self.folder.as_ref(), name, versions)
    }

    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        self.meaning.next()
    }

    pub(crate) fn take_batch(&mut self, batch: &Batch, result: Result<Vec<Vec<f32>>>) {
        self.unsaved = true;
        self.meaning.take(batch, result);
    }

    /// Saves changes. After a failure the next process builds the index again.
    pub(crate) fn save(&mut self) {
        let Some(folder) = self.folder.as_mut().filter(|_| self.unsaved) else { return };
        if folder.take_over() {
            self.meaning.take_over();
        }
        self.meaning.save();
        if !folder.writes() {
            // Another process is the writer; it may have ended at the next save.
            return;
        }
        self.unsaved = false;
        let table = self.table.compose();
        let saved = self.words.commit().map_err(std::io::Error::other);
        match saved.and_then(|()| folder.save(&self.words.index, &self.words.directory, &table)) {
            Ok(complete) => self.unsaved = !complete,
            Err(error) => not_kept(&error),
        }
    }

    /// Begins empty, after an error.
    fn reset(&mut self, fault: &tantivy::TantivyError) -> Result<()> {
        self.losses.0 = self.losses.1.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(error = %fault, "the search index is damaged and is built anew");
        for (_, entry) in self.table.all() {
            self.meaning.release(&entry.chunks);
        }
        self.table = Table::default();
        self.words = Words::empty(&self.analyzers.indexing).map_err(unusable)?;
        if let Some(folder) = &mut self.folder {
            folder.clear().unwrap_or_else(|error| not_kept(&error));
        }
        Ok(())
    }

    /// Queues the texts that an earlier process did not embed.
    fn resume(&mut self) {
        let mut lacking = Vec::new();
        for (slot, entry) in self.table.all() {
            self.meaning.hold(&entry.chunks);
            if entry.chunks.iter().any(|hash| self.meaning.lacks(hash)) {
                lacking.push(slot);
            }
        }
        let mut budget = meaning::AT_OPENING;
        for slot in lacking {
            // The next search notices an error.
            let (title, text) = self.words.view().text(slot).ok().flatten().unwrap_or_default();
            self.meaning.read(&chunk::split(&title, &text), &mut budget);
        }
    }
}

impl Drop for Project {
    /// Saves the changes of a call that held it longer than the index.
    fn drop(&mut self) {
        self.save();
    }
}

/// Embeds the beginning of a query.
pub(crate) fn read_query(embedder: &dyn Embedder, query: &SearchQuery) -> Result<Vec<f32>> {
    let text = beginning(&query.text, MAX_BYTES);
    let vectors = meaning::embed(embedder, TextRole::Query, &[text])?;
    Ok(vectors.into_iter().next().unwrap_or_default())
}

fn unusable(error: tantivy::TantivyError) -> Error {
    Error::new(ErrorKind::Internal, "The search index can't be built.").caused_by(error)
}

fn not_kept(error: &std::io::Error) {
    tracing::warn!(%error, "the search index can't be kept for the next start");
}

/// The slots of items whose exact references occur in the query, in its order. A reference may be a
/// plain word (`login`): it counts if it is the whole query, others if they look like a name.
fn exact_references(table: &Table, query: &str) -> Vec<u32> {
    let query = beginning(query, MAX_BYTES).trim();
    let mut pinned = Vec::new();
    let mut pin = |reference: &str| {
        for slot in table.named(reference) {
            if !pinned.contains(&slot) && pinned.len() < MAX_PINNED {
                pinned.push(slot);
            }
        }
    };
    pin(query);
    for piece in query.split_whitespace().take(MAX_PIECES) {
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
