//! The lexical index of a project: a tantivy index in a directory on disk or in memory.
//!
//! Changes are buffered as records until a search needs them. An idle project has no writer, so it
//! uses neither threads nor buffers.

pub(crate) mod bm25;
pub(crate) mod parent_matches;
mod pending;
pub(crate) mod pinned_items;
pub(crate) mod query_expansion;
pub(crate) mod schema;
pub(crate) mod searcher;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use reqlore_domain::document::DocumentKind;
use reqlore_domain::ports::change_page::{ChangePosition, Revision};
use reqlore_domain::search::DocumentProjection;
use tantivy::index::{IndexSettings, SegmentMeta};
use tantivy::indexer::{
    IndexWriterOptions, LogMergePolicy, MergeCandidate, MergePolicy, NoMergePolicy,
};
use tantivy::{FutureResult, Index, IndexReader, IndexWriter, ReloadPolicy, TantivyError};

use crate::analyzer::{self, Analyzer};
use crate::chunk::Chunk;
use crate::disk_directory::{ByteCache, DiskDirectory};
use crate::index_folder::{IndexLocation, is_out_of_files};
use pending::PendingDocuments;
use schema::SchemaFields;
use searcher::LexicalSearcher;

/// An index of another version is rebuilt.
pub(crate) const VERSION: u32 = 7;

/// A new folder, a copy of the old index in memory, and an empty one there.
const MAX_REPLACED_PLACES: usize = 3;
/// Memory in which tantivy buffers changes; this is its minimum.
const WRITER_MEMORY_BYTES: usize = 15_000_000;
/// A commit closes its writer if more are open, because each has four threads.
const MAX_KEPT_WRITERS: usize = 4;
/// With this number of segments, a commit starts a merge. With fewer, merges wait for idle time.
const MAX_UNMERGED_SEGMENTS: usize = 8;
/// Decompressed blocks of texts that each segment keeps.
const STORE_CACHE_BLOCKS: usize = 4;

pub(crate) struct LexicalIndex {
    index: Index,
    /// The directory of `index`; `None` in memory.
    disk: Option<DiskDirectory>,
    fields: SchemaFields,
    reader: IndexReader,
    searcher: LexicalSearcher,
    pending: PendingDocuments,
    /// The position after the pending changes.
    position: Option<ChangePosition>,
    committed_position: Option<ChangePosition>,
    /// Kept after a commit until the next [`LexicalIndex::merge_step`], because opening one takes
    /// longer than a small commit.
    writer: Option<OpenWriter>,
    /// Woken at the end of a merge.
    merge_waker: Waker,
}

struct OpenWriter {
    writer: IndexWriter,
    /// The result of a merge, which runs in a thread of the writer.
    merge: Option<FutureResult<Option<SegmentMeta>>>,
    _count: WriterCount,
}

/// Counts the open writers of all projects.
struct WriterCount;

static OPEN_WRITERS: AtomicUsize = AtomicUsize::new(0);

impl WriterCount {
    fn new() -> Self {
        OPEN_WRITERS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for WriterCount {
    fn drop(&mut self) {
        OPEN_WRITERS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LexicalIndex {
    /// Opens the index of a location, or creates it in an empty one. An error if it is damaged.
    pub(crate) fn open(
        location: &IndexLocation,
        cache: &Arc<ByteCache>,
        analyzer: &Analyzer,
    ) -> tantivy::Result<Self> {
        let (schema, fields) = schema::build_schema();
        let (directory, disk) = location.directory(cache);
        let index = if Index::exists(&*directory)? {
            let mut index = Index::open(directory)?;
            location.check_files(&mut index)?;
            index
        } else {
            let settings = IndexSettings {
                // Snippets read single texts: small blocks, and no thread for each segment.
                docstore_blocksize: 4096,
                docstore_compress_dedicated_thread: false,
                ..IndexSettings::default()
            };
            Index::create(directory, schema.clone(), settings)?
        };
        let meta = index.load_metas()?;
        let committed_position = match &meta.payload {
            Some(payload) => decode_payload(payload)?,
            // A new index has no payload and no record.
            None if meta.segments.is_empty() => None,
            None => return Err(wrong_version()),
        };
        // The field numbers are those of `build_schema`, so another schema would mix them up.
        if index.schema() != schema {
            return Err(wrong_version());
        }
        index.tokenizers().register(schema::ANALYZER_NAME, analyzer.clone());
        let reader = index
            .reader_builder()
            // Reloaded by `commit`: an automatic reload would need a thread for each project.
            .reload_policy(ReloadPolicy::Manual)
            .doc_store_cache_num_blocks(STORE_CACHE_BLOCKS)
            .try_into()?;
        let searcher = LexicalSearcher::new(reader.searcher(), fields)?;
        Ok(Self {
            index,
            disk,
            fields,
            reader,
            searcher,
            pending: PendingDocuments::default(),
            position: committed_position,
            committed_position,
            writer: None,
            merge_waker: Waker::noop().clone(),
        })
    }

    /// The position after all changes, including uncommitted ones.
    pub(crate) fn position(&self) -> Option<ChangePosition> {
        self.position
    }

    pub(crate) fn move_to(&mut self, position: ChangePosition) {
        self.position = Some(position);
    }

    /// Adds, replaces or removes a document. `chunks` are those of its items.
    pub(crate) fn replace(&mut self, projection: &DocumentProjection, chunks: &[Vec<Chunk>]) {
        let document = projection.document.clone();
        let records = match projection.version {
            Some(version) => self.fields.records(projection, version, chunks),
            None => Vec::new(),
        };
        self.pending.add(document, records, projection.size_bytes());
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.bytes()
    }

    /// True if a search must commit changes first.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.len() > 0
    }

    /// True if [`LexicalIndex::commit`] would write anything.
    pub(crate) fn has_changes(&self) -> bool {
        self.has_pending() || self.position != self.committed_position
    }

    /// Writes the pending changes and their position in one step, and makes them visible.
    pub(crate) fn commit(&mut self) -> tantivy::Result<()> {
        if !self.has_changes() {
            return Ok(());
        }
        // A second writer would discard the output of a running merge.
        let OpenWriter { writer, .. } = match &mut self.writer {
            Some(open) => open,
            closed => closed.insert(open_writer(&self.index)?),
        };
        let mut written = self.pending.write_segment(&self.index, &self.searcher, self.fields)?;
        if let Some(records) = written.replaced_records() {
            writer.delete_query(records)?;
        }
        if let Some(meta) = written.meta {
            writer.add_segment(meta)?;
        }
        let mut commit = writer.prepare_commit()?;
        commit.set_payload(&encode_payload(self.position));
        commit.commit()?;
        self.committed_position = self.position;
        // Also here: a stream of changes and searches would otherwise leave a segment for each.
        let is_merging = self.continue_merge(MAX_UNMERGED_SEGMENTS)?;
        if !is_merging && OPEN_WRITERS.load(Ordering::Relaxed) > MAX_KEPT_WRITERS {
            self.writer = None;
        }
        self.reload()
    }

    fn reload(&mut self) -> tantivy::Result<()> {
        self.reader.reload()?;
        self.searcher = LexicalSearcher::new(self.reader.searcher(), self.fields)?;
        Ok(())
    }

    /// Starts a merge if there are too many segments or deleted records, or finishes a complete
    /// one. Does not wait. True if a merge runs, which wakes `waker` at its end.
    pub(crate) fn merge_step(&mut self, waker: &Waker) -> tantivy::Result<bool> {
        self.merge_waker.clone_from(waker);
        if self.writer.is_none() {
            if self.merge_candidate(0)?.is_none() {
                return Ok(false);
            }
            self.writer = Some(open_writer(&self.index)?);
        }
        if self.continue_merge(0)? {
            return Ok(true);
        }
        self.writer = None;
        self.reload()?;
        Ok(false)
    }

    /// Finishes a complete merge, and starts the next one with the open writer if there are at
    /// least `min_segments`. True while a merge runs.
    fn continue_merge(&mut self, min_segments: usize) -> tantivy::Result<bool> {
        loop {
            if let Some(open) = &mut self.writer
                && let Some(merge) = &mut open.merge
            {
                let mut context = Context::from_waker(&self.merge_waker);
                let Poll::Ready(result) = Pin::new(merge).poll(&mut context) else {
                    return Ok(true);
                };
                open.merge = None;
                // The caller may be a commit that noticed the end of the merge.
                self.merge_waker.wake_by_ref();
                if let Err(error) = result {
                    // The index is unchanged: a segment lost its last record meanwhile. No
                    // retry now, because a merge that always fails would repeat forever.
                    tracing::debug!(%error, "search index: a merge failed");
                    return Ok(false);
                }
            }
            if !self.start_merge(min_segments)? {
                return Ok(false);
            }
        }
    }

    fn start_merge(&mut self, min_segments: usize) -> tantivy::Result<bool> {
        let candidate = self.merge_candidate(min_segments)?;
        if let (Some(candidate), Some(open)) = (candidate, &mut self.writer) {
            open.merge = Some(open.writer.merge(&candidate.0));
            return Ok(true);
        }
        Ok(false)
    }

    fn merge_candidate(&self, min_segments: usize) -> tantivy::Result<Option<MergeCandidate>> {
        let segments = self.index.searchable_segment_metas()?;
        if segments.len() < min_segments {
            return Ok(None);
        }
        Ok(merge_policy().compute_merge_candidates(&segments).into_iter().next())
    }

    /// The committed files, and possible files that may not exist.
    pub(crate) fn files(&self) -> tantivy::Result<HashSet<PathBuf>> {
        Ok(self.index.load_metas()?.list_segment_files())
    }

    /// True if the committed state has all documents.
    pub(crate) fn is_complete(&self) -> bool {
        self.committed_position.is_some_and(|position| position != ChangePosition::BUILDING)
    }

    /// The state of the last commit.
    pub(crate) fn searcher(&self) -> &LexicalSearcher {
        &self.searcher
    }
}

/// Opens the index of a location. Replaces a damaged one with an empty one, if necessary in memory.
pub(crate) fn open_index(
    location: &mut IndexLocation,
    format: &str,
    byte_cache: &Arc<ByteCache>,
    analyzer: &Analyzer,
    memory_bytes: usize,
) -> tantivy::Result<LexicalIndex> {
    let open = |location: &IndexLocation| {
        catch_panic(|| LexicalIndex::open(location, byte_cache, analyzer))
    };
    for _ in 0..MAX_REPLACED_PLACES {
        match open(location) {
            Ok(lexical) => return Ok(lexical),
            Err(error) if is_out_of_files(&error) => return Err(error),
            Err(error) => location.replace(format, memory_bytes, &error),
        }
    }
    open(location)
}

/// A damaged file may also make tantivy panic.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> tantivy::Result<T>) -> tantivy::Result<T> {
    // Unwind safe: after a panic the index is replaced.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(_) => Err(TantivyError::InternalError("a panic; see the log".to_owned())),
    }
}

impl Drop for LexicalIndex {
    /// Aborts a running merge, and waits until it no longer writes to the folder, which may get
    /// another owner. A merge in memory may continue.
    fn drop(&mut self) {
        if let Some(disk) = &self.disk
            && let Some(OpenWriter { writer, merge: Some(_), .. }) = self.writer.take()
        {
            disk.close();
            if let Err(error) = writer.wait_merging_threads() {
                tracing::debug!(%error, "search index: a merge was abandoned");
            }
        }
    }
}

fn open_writer(index: &Index) -> tantivy::Result<OpenWriter> {
    let options = IndexWriterOptions::builder()
        .num_worker_threads(1)
        .num_merge_threads(1)
        .memory_budget_per_thread(WRITER_MEMORY_BYTES)
        .build();
    let writer = index.writer_with_options(options)?;
    // Dropping a writer aborts its merges, so merges are a separate step.
    writer.set_merge_policy(Box::new(NoMergePolicy));
    Ok(OpenWriter { writer, merge: None, _count: WriterCount::new() })
}

/// Merges small segments early, so that a search reads only a few. A large segment merges after a
/// tenth of it was deleted, because its deleted records count into the rarity of words.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_layer_size(256);
    policy.set_min_num_segments(6);
    policy.set_del_docs_ratio_before_merge(0.1);
    policy
}

/// Names the versions of analyzer and schema. It is part of the folder's name.
pub(crate) fn format() -> String {
    format!("{}.{VERSION}{}", analyzer::VERSION, DocumentKind::ALL.len())
}

fn encode_payload(position: Option<ChangePosition>) -> String {
    let version = format();
    match position {
        Some(ChangePosition { store_id, writer_id, revision }) => {
            format!("{version} {store_id:x} {writer_id:x} {:x}", revision.0)
        }
        None => version,
    }
}

fn decode_payload(payload: &str) -> tantivy::Result<Option<ChangePosition>> {
    let mut parts = payload.split(' ');
    if parts.next() != Some(&encode_payload(None)) {
        return Err(wrong_version());
    }
    let Some(store_id) = parts.next() else { return Ok(None) };
    let mut next = || u64::from_str_radix(parts.next().unwrap_or_default(), 16);
    match (u128::from_str_radix(store_id, 16), next(), next()) {
        (Ok(store_id), Ok(writer_id), Ok(revision)) => {
            Ok(Some(ChangePosition { store_id, writer_id, revision: Revision(revision) }))
        }
        _ => Err(wrong_version()),
    }
}

fn wrong_version() -> TantivyError {
    TantivyError::SchemaError("the index is of another version".to_owned())
}
