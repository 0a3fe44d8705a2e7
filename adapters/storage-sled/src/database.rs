//! The open database: trees, transactions and syncs.
//!
//! [`SledDatabase::write_batch`] does not make a batch durable. Callers may be answered only after
//! [`SledDatabase::sync`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs::commit_counter::{CommitCounter, DatabaseId, IssuedNumbers};
use serde::de::DeserializeOwned;
use sled::transaction::{
    ConflictableTransactionError, TransactionError, Transactional, TransactionalTree,
};
use sled::{IVec, Tree};
use tokio::sync::RwLock;

use crate::error::{
    INCOMPLETE, catch_sled_panic, damaged_database, database_refused, database_unavailable,
    from_sled,
};
use crate::files::DatabaseFile;
use crate::records::{ProjectRow, decode, encode};
use crate::row_totals::RowTotals;

/// Indexes of the trees in [`SledDatabase::trees`].
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
/// Earlier versions and deletions of documents. [`HISTORY`] is the index of present changes.
pub(crate) const VERSIONS: usize = 13;
/// Earlier texts, by document and hash.
pub(crate) const TEXTS: usize = 14;
/// The keys of [`VERSIONS`] by the time when the version ended.
pub(crate) const VERSION_ENDS: usize = 15;
/// Keys of all items in the order of lists, by kind, status and type.
pub(crate) const ITEMS: usize = 16;
/// Keys of items with a parent, by kind and parent.
pub(crate) const CHILDREN: usize = 17;
/// Keys of documents with a diagnostic.
pub(crate) const DIAGNOSTICS: usize = 18;
/// The [`SledDatabase::writer_id`] of each process, by project and its first revision.
pub(crate) const WRITERS: usize = 19;
pub(crate) const TREE_NAMES: [&str; 20] = [
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
    "versions",
    "texts",
    "version-ends",
    "items",
    "children",
    "diagnostics",
    "writers",
];

/// Key in [`META`] of the number of transactions.
pub(crate) const COMMITS_KEY: &[u8] = b"commits";
/// Key in [`META`] of the number of changes of users and tokens.
pub(crate) const EPOCH_KEY: &[u8] = b"epoch";
/// Key in [`META`] that exists while an import is unfinished.
pub(crate) const IMPORT_KEY: &[u8] = b"filling";
/// Key in [`META`] of the [`RowTotals`].
pub(crate) const TOTALS_KEY: &[u8] = b"totals";

#[derive(Debug)]
pub(crate) struct SledDatabase {
    /// In the order of [`TREE_NAMES`].
    pub(crate) trees: Vec<Tree>,
    pub(crate) file: DatabaseFile,
    pub(crate) database_id: DatabaseId,
    /// Random ID of this process in the history of each project.
    pub(crate) writer_id: u64,
    /// Readers share it. A group holds it exclusively until its changes are durable.
    pub(crate) gate: Arc<RwLock<()>>,
    /// Exports and imports share it, possibly for minutes. A group holds it exclusively and takes
    /// it before the gate, so that a group that waits for a copy does not block readers.
    pub(crate) copy_lock: Arc<RwLock<()>>,
    /// An import is unfinished.
    pub(crate) is_incomplete: AtomicBool,
    /// Why writes are disabled until the database is opened again.
    pub(crate) write_stop: OnceLock<WriteStop>,
    /// The value of [`TOTALS_KEY`].
    pub(crate) totals: Mutex<RowTotals>,
    /// The highest high-water marks of all projects, in the order of [`ItemKind::ALL`].
    pub(crate) issued_numbers: Mutex<IssuedNumbers>,
    /// The value of [`COMMITS_KEY`].
    pub(crate) commits: AtomicU64,
    /// The value of [`EPOCH_KEY`], cached because every request reads it.
    pub(crate) epoch: AtomicU64,
    /// Keeps other processes from opening the folder.
    pub(crate) _lock: File,
}

/// The reason why a database accepts no writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteStop {
    /// A transaction or its sync failed. sled cannot undo it, so nothing may build on it.
    NotDurable,
    /// A read found damage.
    Damaged,
}

/// Changes of trees that are written in one transaction.
#[derive(Debug, Default)]
pub(crate) struct TreeBatch(BTreeMap<(usize, IVec), Option<IVec>>);

impl TreeBatch {
    pub(crate) fn put(&mut self, tree: usize, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.0.insert((tree, key.into()), Some(value.into()));
    }

    pub(crate) fn remove(&mut self, tree: usize, key: impl Into<IVec>) {
        self.0.insert((tree, key.into()), None);
    }

    pub(crate) fn append(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }

    /// Returns `Some(None)` if the batch removes the key.
    pub(crate) fn get(&self, tree: usize, key: &[u8]) -> Option<&Option<IVec>> {
        self.0.get(&(tree, key.into()))
    }

    /// The trees and keys of all changes.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &(usize, IVec)> {
        self.0.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Applies the changes to the trees. Returns the new totals, which it writes as well.
    fn apply(
        &self,
        trees: &[TransactionalTree],
        mut totals: RowTotals,
    ) -> Result<RowTotals, ConflictableTransactionError<()>> {
        for ((tree, key), value) in &self.0 {
            let old = match value {
                Some(value) => trees[*tree].insert(key, value)?,
                None => trees[*tree].remove(key)?,
            };
            if let Some(old) = old {
                totals.remove(*tree, key, &old);
            }
            if let Some(value) = value {
                totals.add(*tree, key, value);
            }
        }
        trees[META].insert(TOTALS_KEY, encode(TOTALS_KEY, &totals))?;
        Ok(totals)
    }
}

impl SledDatabase {
    pub(crate) fn tree(&self, tree: usize) -> &Tree {
        &self.trees[tree]
    }

    pub(crate) fn get(&self, tree: usize, key: &[u8]) -> StoreResult<Option<IVec>> {
        self.trees[tree].get(key).map_err(from_sled)
    }

    /// Returns a value of [`META`], or `None` if it is missing or damaged.
    pub(crate) fn meta_value<T: DeserializeOwned>(&self, key: &[u8]) -> StoreResult<Option<T>> {
        match self.get(META, key)? {
            Some(value) => Ok(decode(key, &value)),
            None => Ok(None),
        }
    }

    pub(crate) fn check_writable(&self) -> StoreResult<()> {
        self.check_writes_enabled()?;
        if self.file.is_in_place() { Ok(()) } else { Err(file_replaced()) }
    }

    pub(crate) fn check_complete(&self) -> StoreResult<()> {
        if self.is_incomplete.load(Ordering::Relaxed) {
            Err(database_refused(INCOMPLETE))
        } else {
            Ok(())
        }
    }

    /// Fails after a failed sync, and after damage was found.
    pub(crate) fn check_writes_enabled(&self) -> StoreResult<()> {
        match self.write_stop.get() {
            None => Ok(()),
            Some(WriteStop::NotDurable) => {
                let reason = "an earlier change could not be made durable, so writes are \
                              disabled; check the disk and restart the server";
                Err(database_unavailable(reason, None))
            }
            Some(WriteStop::Damaged) => {
                Err(damaged_database("a read found damage, so writes are disabled"))
            }
        }
    }

    /// Disables writes if the result shows damage: more of the database may be damaged, and only
    /// the check of a start reads all of it.
    pub(crate) fn watch_damage<T>(&self, result: StoreResult<T>) -> StoreResult<T> {
        if let Err(error @ StoreError::Unreadable { .. }) = &result {
            self.stop_writes(WriteStop::Damaged, error);
        }
        result
    }

    /// Logs the first reason.
    pub(crate) fn stop_writes(&self, stop: WriteStop, error: &StoreError) {
        if self.write_stop.set(stop).is_ok() {
            tracing::error!(%error, "writes are disabled; restart the server");
        }
    }

    /// Writes a batch in one transaction over all trees. It is not durable before [`Self::sync`].
    pub(crate) fn write_batch(&self, mut batch: TreeBatch) -> StoreResult<()> {
        self.check_writes_enabled()?;
        // A failed transaction disables writes, so a skipped number does no harm.
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        // In the same transaction, so that the count shows which transactions a file contains.
        batch.put(META, COMMITS_KEY, encode(COMMITS_KEY, &commits));
        let mut totals = lock(&self.totals);
        let result = catch_sled_panic(|| {
            let written = self.trees[..].transaction(|trees| batch.apply(trees, *totals));
            written.map_err(|error| match error {
                TransactionError::Storage(error) => from_sled(error),
                TransactionError::Abort(()) => {
                    StoreError::Internal("the transaction was aborted".to_owned())
                }
            })
        });
        *totals = result.map_err(|error| self.disable_writes(error))?;
        for ((_, key), value) in
            batch.0.range((PROJECTS, IVec::default())..(PROJECTS + 1, IVec::default()))
        {
            if let Some(project) = value.as_ref().and_then(|value| ProjectRow::decode(key, value)) {
                self.raise_issued_numbers(&project);
            }
        }
        Ok(())
    }

    pub(crate) fn raise_issued_numbers(&self, project: &ProjectRow) {
        let mut issued = lock(&self.issued_numbers);
        for (number, kind) in issued.iter_mut().zip(ItemKind::ALL) {
            *number = project.high_water_mark(kind).unwrap_or_default().max(*number);
        }
    }

    /// Makes all written batches durable, then records their number in the commit counter. After an
    /// error it is unknown which batches are durable.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        self.make_durable()?;
        // The count comes after the sync, so it is never ahead of the durable data.
        let commits = self.commits.load(Ordering::Relaxed);
        let counter = CommitCounter { database_id: self.database_id, commits };
        self.write_counter(counter).map_err(|error| self.sync_failed(error))
    }

    pub(crate) fn make_durable(&self) -> StoreResult<()> {
        self.check_writes_enabled()?;
        self.flush().map_err(|error| self.disable_writes(error))?;
        self.file.sync().map_err(|error| self.sync_failed(error))?;
        // A sync of a file that lost its name is worthless.
        if self.file.is_in_place() { Ok(()) } else { Err(self.disable_writes(file_replaced())) }
    }

    /// Writes the commit counter, without a sync.
    pub(crate) fn write_counter(&self, counter: CommitCounter) -> io::Result<()> {
        let issued = *lock(&self.issued_numbers);
        self.file.counter.write_with_numbers(counter, issued)
    }

    /// Passes sled's dirty pages to the operating system, which is not a sync.
    pub(crate) fn flush(&self) -> StoreResult<()> {
        catch_sled_panic(|| {
            // All trees share one log, so flushing one of them is enough.
            self.tree(META).flush().map_err(from_sled)?;
            Ok(())
        })
    }

    fn sync_failed(&self, error: io::Error) -> StoreError {
        self.disable_writes(database_unavailable("the sync failed", Some(error)))
    }

    /// Rejects all later writes until the database is opened again. Returns the error.
    fn disable_writes(&self, error: StoreError) -> StoreError {
        self.stop_writes(WriteStop::NotDurable, &error);
        error
    }
}

/// Locks a value that is valid even after a panic of another thread.
pub(crate) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Set when the last sync of a database failed.
static HAS_FAILED_CLOSE: AtomicBool = AtomicBool::new(false);

/// True if a database of this process could not be closed, for its exit code: a drop returns no
/// error.
pub fn has_failed_close() -> bool {
    HAS_FAILED_CLOSE.load(Ordering::Relaxed)
}

impl Drop for SledDatabase {
    fn drop(&mut self) {
        let trees = std::mem::take(&mut self.trees);
        let flushed = catch_sled_panic(|| trees[META].flush().map_err(from_sled));
        let synced = flushed.and_then(|_| {
            let synced = self.file.sync().and_then(|()| self.file.counter.sync());
            synced.map_err(|error| database_unavailable("its last sync failed", Some(error)))
        });
        let closed = match synced {
            Ok(()) => catch_unwind(AssertUnwindSafe(|| drop(trees)))
                .map_err(|_| database_unavailable("sled panicked", None)),
            Err(error) => {
                // sled would sync again, and panics if that fails. The operating system releases
                // the files at the end of the process.
                std::mem::forget(trees);
                Err(error)
            }
        };
        if let Err(error) = closed {
            HAS_FAILED_CLOSE.store(true, Ordering::Relaxed);
            tracing::error!(%error, "the database was not closed; check the disk");
        }
    }
}

fn file_replaced() -> StoreError {
    let reason = "its file was removed or replaced while it was open; put it back, or stop the \
                  server and run `reqlore restore`";
    database_unavailable(reason, None)
}
