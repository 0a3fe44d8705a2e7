//! The open database: its trees, its transactions, and the lock between readers and the writer.
//!
//! [`Database::write`] is only a transaction. Nothing is durable, and no caller gets an answer,
//! before [`Database::sync`].

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use serde::de::DeserializeOwned;
use sled::transaction::{TransactionError, Transactional, TransactionalTree};
use sled::{IVec, Tree};

use crate::error::{INCOMPLETE, guarded, of_sled, refused, unavailable};
use crate::files::DatabaseFile;
use crate::records::{decode, encode};

/// Indexes of the trees in [`Database::trees`].
pub(crate) const PROJECTS: usize = 0;
pub(crate) const DOCUMENTS: usize = 1;
pub(crate) const BODIES: usize = 2;
pub(crate) const REFERENCES: usize = 3;
pub(crate) const LINKS: usize = 4;
pub(crate) const HISTORY: usize = 5;
pub(crate) const DELETIONS: usize = 6;
pub(crate) const META: usize = 7;
pub(crate) const USERS: usize = 8;
pub(crate) const TOKENS: usize = 9;
pub(crate) const AUDIT: usize = 10;
pub(crate) const KEYS: usize = 11;
pub(crate) const OVERFLOW: usize = 12;
pub(crate) const NAMES: [&str; 13] = [
    "projects",
    "documents",
    "bodies",
    "references",
    "links",
    "history",
    "deletions",
    "meta",
    "users",
    "tokens",
    "audit",
    "keys",
    "overflow",
];

/// In [`META`]: the number of transactions.
pub(crate) const COMMITS: &[u8] = b"commits";
/// In [`META`]: the number of changes of users and tokens.
pub(crate) const EPOCH: &[u8] = b"epoch";
/// In [`META`] until an import is finished.
pub(crate) const FILLING: &[u8] = b"filling";

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) trees: [Tree; NAMES.len()],
    pub(crate) file: DatabaseFile,
    pub(crate) gate: Arc<Gate>,
    /// An import has begun and not finished.
    pub(crate) is_incomplete: AtomicBool,
    /// A transaction or a sync failed, so nothing more is written.
    pub(crate) is_broken: AtomicBool,
    /// As [`COMMITS`].
    pub(crate) commits: AtomicU64,
    /// As [`EPOCH`]; cached because every request asks for it.
    pub(crate) epoch: AtomicU64,
    /// Keeps other processes from opening the folder.
    pub(crate) _lock: File,
}

/// Changes of trees, to be written in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Batch(BTreeMap<(usize, IVec), Option<IVec>>);

impl Batch {
    pub(crate) fn put(&mut self, tree: usize, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.0.insert((tree, key.into()), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, tree: usize, key: impl Into<IVec>) {
        self.0.insert((tree, key.into()), None);
    }

    pub(crate) fn append(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }

    /// `Some(None)` if the batch removes the key.
    pub(crate) fn get(&self, tree: usize, key: &[u8]) -> Option<&Option<IVec>> {
        self.0.get(&(tree, key.into()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Database {
    pub(crate) fn tree(&self, tree: usize) -> &Tree {
        &self.trees[tree]
    }

    pub(crate) fn get(&self, tree: usize, key: &[u8]) -> StoreResult<Option<IVec>> {
        self.trees[tree].get(key).map_err(of_sled)
    }

    /// A value of [`META`]; `None` if it is missing or damaged.
    pub(crate) fn meta<T: DeserializeOwned>(&self, key: &[u8]) -> StoreResult<Option<T>> {
        Ok(self.get(META, key)?.and_then(|value| decode(key, &value)))
    }

    pub(crate) fn check_writable(&self) -> StoreResult<()> {
        self.check_not_broken()?;
        if self.file.is_in_place() { Ok(()) } else { Err(replaced()) }
    }

    pub(crate) fn check_complete(&self) -> StoreResult<()> {
        if self.is_incomplete.load(Ordering::Relaxed) { Err(refused(INCOMPLETE)) } else { Ok(()) }
    }

    /// sled can't undo a transaction, so nothing may build on one whose sync failed.
    fn check_not_broken(&self) -> StoreResult<()> {
        if !self.is_broken.load(Ordering::Relaxed) {
            return Ok(());
        }
        let reason = "an earlier change could not be made durable, so nothing is written until \
                      the server is started again; check the disk first. Whether that change was \
                      kept shows then";
        Err(unavailable(reason, None))
    }

    /// Writes a batch in one transaction over all trees.
    pub(crate) fn write(&self, mut batch: Batch) -> StoreResult<()> {
        self.check_not_broken()?;
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        batch.put(META, COMMITS, encode(COMMITS, &commits));
        let apply = |trees: &Vec<TransactionalTree>| {
            for ((tree, key), value) in &batch.0 {
                match value {
                    Some(value) => trees[*tree].insert(key, value)?,
                    None => trees[*tree].remove(key)?,
                };
            }
            Ok(())
        };
        let written = guarded(|| {
            let written: Result<(), TransactionError<()>> = self.trees[..].transaction(apply);
            written.map_err(|error| match error {
                TransactionError::Storage(error) => of_sled(error),
                TransactionError::Abort(()) => StoreError::Internal("it was aborted".to_owned()),
            })
        });
        written.map_err(|error| self.break_off(error))
    }

    /// Makes everything written so far durable, and counts it as acknowledged. After an error it is
    /// unknown what is durable.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        self.check_not_broken()?;
        self.flush().map_err(|error| self.break_off(error))?;
        let failed = |error| self.break_off(unavailable("the sync failed", Some(error)));
        self.file.sync().map_err(failed)?;
        if !self.file.is_in_place() {
            return Err(self.break_off(replaced()));
        }
        self.file.acknowledge(self.commits.load(Ordering::Relaxed)).map_err(failed)
    }

    /// Passes what sled has in memory to the operating system.
    pub(crate) fn flush(&self) -> StoreResult<()> {
        guarded(|| self.tree(META).flush().map_err(of_sled).map(drop))
    }

    fn break_off(&self, error: StoreError) -> StoreError {
        self.is_broken.store(true, Ordering::Relaxed);
        tracing::error!(%error, "the database takes no more changes until it is opened again");
        error
    }
}

fn replaced() -> StoreError {
    let reason = "its file was removed or replaced while it was open, so nothing is written. Put \
                  it back, or stop the server and restore a backup with `reqlore restore`";
    unavailable(reason, None)
}

/// Many readers or one writer, with guards that may move between threads.
///
/// A waiting writer holds back new readers, or it would never get its turn. It does not while a
/// copy of the whole database runs: that may take minutes, and reads must go on.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    /// The longest time that the writer waits.
    timeout: Duration,
}

#[derive(Debug, Default)]
struct GateState {
    readers: usize,
    copies: usize,
    is_writing: bool,
    writer_waits: bool,
}

impl GateState {
    fn admits_reader(&self) -> bool {
        !self.is_writing && (self.copies > 0 || !self.writer_waits)
    }
}

/// Nothing is written while this lives.
#[derive(Debug)]
pub(crate) struct ReadGuard {
    gate: Arc<Gate>,
    is_copy: bool,
}

impl Gate {
    pub(crate) fn new(timeout: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), timeout })
    }

    /// `None` if the reader would have to wait.
    pub(crate) fn try_read(self: &Arc<Self>) -> Option<ReadGuard> {
        let mut state = self.state();
        state.admits_reader().then(|| {
            state.readers += 1;
            ReadGuard { gate: Arc::clone(self), is_copy: false }
        })
    }

    pub(crate) fn read(self: &Arc<Self>) -> ReadGuard {
        let state = self.state();
        let wait = self.changed.wait_while(state, |state| !state.admits_reader());
        wait.unwrap_or_else(PoisonError::into_inner).readers += 1;
        ReadGuard { gate: Arc::clone(self), is_copy: false }
    }

    pub(crate) fn copy(self: &Arc<Self>) -> ReadGuard {
        let state = self.state();
        let wait = self.changed.wait_while(state, |state| state.is_writing);
        wait.unwrap_or_else(PoisonError::into_inner).copies += 1;
        ReadGuard { gate: Arc::clone(self), is_copy: true }
    }

    pub(crate) fn begin_write(&self) -> StoreResult<()> {
        let mut state = self.state();
        state.writer_waits = true;
        let is_busy = |state: &mut GateState| state.readers + state.copies > 0;
        let wait = self.changed.wait_timeout_while(state, self.timeout, is_busy);
        let (mut state, waited) = wait.unwrap_or_else(PoisonError::into_inner);
        state.writer_waits = false;
        if waited.timed_out() {
            self.changed.notify_all();
            let reason = "the database is being copied; nothing was written, try again later";
            return Err(StoreError::Busy { reason: reason.to_owned() });
        }
        state.is_writing = true;
        Ok(())
    }

    pub(crate) fn end_write(&self) {
        self.state().is_writing = false;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if self.is_copy {
            state.copies -= 1;
        } else {
            state.readers -= 1;
        }
        let wake = state.writer_waits;
        drop(state);
        if wake {
            self.gate.changed.notify_all();
        }
    }
}
