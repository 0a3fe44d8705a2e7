//! The metadata indexes in memory, within a budget of bytes. A thread closes indexes above the
//! budget, because writing and freeing a large index takes longer than a call.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use reqlore_domain::project_key::ProjectKey;

use crate::inotify::WatchQueue;
use crate::metadata_index::MetadataIndex;
use crate::metadata_index::load::MetadataCache;
use crate::project_cache::ProjectCache;

/// Memory budget of all indexes. A single index in use may exceed it; then no other one is kept.
pub(crate) const MAX_BYTES: usize = 64 * 1024 * 1024;
/// With a longer backlog of indexes to close, a call closes one itself, which bounds memory.
const MAX_CLOSING: usize = 64;

#[derive(Debug)]
pub(crate) struct OpenIndexes {
    indexes: ProjectCache<Mutex<MetadataIndex>>,
    watch_queue: WatchQueue,
    cache: MetadataCache,
    closer: OnceLock<Option<IndexCloser>>,
}

/// An index that no call uses, with its project's folder.
struct ClosingIndex {
    path: PathBuf,
    index: Arc<Mutex<MetadataIndex>>,
}

impl OpenIndexes {
    pub(crate) fn new(max_bytes: usize, watch_queue: WatchQueue, cache: MetadataCache) -> Self {
        let indexes = ProjectCache::new(max_bytes);
        Self { indexes, watch_queue, cache, closer: OnceLock::new() }
    }

    /// The holder of an index's lock refreshes it.
    pub(crate) fn get(&self, project: &ProjectKey) -> Arc<Mutex<MetadataIndex>> {
        self.indexes
            .get_or_insert(project, || Mutex::new(MetadataIndex::new(self.watch_queue.clone())))
    }

    /// Records the size of an index that a call has used, and closes idle ones over the budget.
    pub(crate) fn record_size(
        &self,
        project: &ProjectKey,
        bytes: usize,
        path_of: impl Fn(&ProjectKey) -> PathBuf,
    ) {
        self.indexes.set_cost(project, bytes);
        while let Some((project, index)) = self.indexes.evict() {
            let closing = ClosingIndex { path: path_of(&project), index };
            let closer = self.closer.get_or_init(|| IndexCloser::start(self.cache.clone()));
            let rejected = match closer {
                Some(closer) => closer.close_later(closing),
                None => Some(closing),
            };
            if let Some(closing) = rejected {
                closing.close(&self.cache);
            }
        }
    }

    #[cfg(all(test, unix))]
    pub(crate) fn len(&self) -> usize {
        self.indexes.all().len()
    }

    /// Writes the caches of all indexes.
    pub(crate) fn save_all(&self, path_of: impl Fn(&ProjectKey) -> PathBuf) {
        for (project, index) in self.indexes.all() {
            ClosingIndex { path: path_of(&project), index }.close(&self.cache);
        }
    }
}

impl ClosingIndex {
    /// Writes the cache, so that the next call or process need not read every document.
    fn close(self, cache: &MetadataCache) {
        if let Some(rows) = lock_index(&self.index).take_unsaved() {
            cache.save(&self.path, &rows);
        }
    }
}

/// The thread that closes indexes. Dropping it waits until all are closed.
#[derive(Debug)]
struct IndexCloser {
    sender: Option<SyncSender<ClosingIndex>>,
    thread: Option<JoinHandle<()>>,
}

impl IndexCloser {
    /// Starts the thread; `None` if the limit of threads is reached.
    fn start(cache: MetadataCache) -> Option<Self> {
        let (sender, receiver): (_, Receiver<ClosingIndex>) = mpsc::sync_channel(MAX_CLOSING);
        let thread = thread::Builder::new().name("index-closer".into()).spawn(move || {
            for closing in receiver {
                closing.close(&cache);
            }
        });
        Some(Self { sender: Some(sender), thread: Some(thread.ok()?) })
    }

    /// Queues an index. Returns it if the backlog is full.
    fn close_later(&self, closing: ClosingIndex) -> Option<ClosingIndex> {
        let Some(sender) = &self.sender else { return Some(closing) };
        match sender.try_send(closing) {
            Ok(()) => None,
            Err(mpsc::TrySendError::Full(closing) | mpsc::TrySendError::Disconnected(closing)) => {
                Some(closing)
            }
        }
    }
}

impl Drop for IndexCloser {
    fn drop(&mut self) {
        // Ends the thread's loop.
        self.sender.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn lock_index(index: &Mutex<MetadataIndex>) -> MutexGuard<'_, MetadataIndex> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}
