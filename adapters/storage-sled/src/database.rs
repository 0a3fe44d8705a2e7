//! The open database: trees, transactions and syncs.
//!
//! [`SledDatabase::write_batch`] does not make a batch durable. Callers may be answered only after
//! [`SledDatabase::sync`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use serde::de::DeserializeOwned;
use sled::transaction::{
    ConflictableTransactionError, TransactionError, Transactional, TransactionalTree,
};
use sled::{IVec, Tree};
use tokio::sync::RwLock;

use crate::error::{
    INCOMPLETE, catch_sled_panic, database_refused, database_unavailable, from_sled,
};
use crate::files::DatabaseFile;
use crate::records::{decode, encode};

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
pub(crate) const TREE_NAMES: [&str; 16] = [
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
];

/// Key in [`META`] of the number of transactions.
pub(crate) const COMMITS_KEY: &[u8] = b"commits";
/// Key in [`META`] of the number of changes of users and tokens.
pub(crate) const EPOCH_KEY: &[u8] = b"epoch";
/// Key in [`META`] that exists while an import is unfinished.
pub(crate) const IMPORT_KEY: &[u8] = b"filling";

#[derive(Debug)]
pub(crate) struct SledDatabase {
    pub(crate) trees: [Tree; TREE_NAMES.len()],
    pub(crate) file: DatabaseFile,
    /// Readers share it. A group holds it exclusively until its changes are durable.
    pub(crate) gate: Arc<RwLock<()>>,
    /// Exports and imports share it, possibly for minutes. A group holds it exclusively and takes
    /// it before the gate, so that a group that waits for a copy does not block readers.
    pub(crate) copy_lock: Arc<RwLock<()>>,
    /// An import is unfinished.
    pub(crate) is_incomplete: AtomicBool,
    /// Set after a failed transaction or sync, until the database is opened again.
    pub(crate) is_write_disabled: AtomicBool,
    /// The value of [`COMMITS_KEY`].
    pub(crate) commits: AtomicU64,
    /// The value of [`EPOCH_KEY`], cached because every request reads it.
    pub(crate) epoch: AtomicU64,
    /// Keeps other processes from opening the folder.
    pub(crate) _lock: File,
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

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn apply(&self, trees: &[TransactionalTree]) -> Result<(), ConflictableTransactionError<()>> {
        for ((tree, key), value) in &self.0 {
            match value {
                Some(value) => trees[*tree].insert(key, value)?,
                None => trees[*tree].remove(key)?,
            };
        }
        Ok(())
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

    /// Fails after a failed sync: sled cannot undo a transaction, so nothing may build on it.
    fn check_writes_enabled(&self) -> StoreResult<()> {
        if !self.is_write_disabled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let reason = "an earlier change could not be made durable, so writes are disabled; check \
                      the disk and restart the server";
        Err(database_unavailable(reason, None))
    }

    /// Writes a batch in one transaction over all trees. It is not durable before [`Self::sync`].
    pub(crate) fn write_batch(&self, mut batch: TreeBatch) -> StoreResult<()> {
        self.check_writes_enabled()?;
        // A failed transaction disables writes, so a skipped number does no harm.
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        // In the same transaction, so that the count shows which transactions a file contains.
        batch.put(META, COMMITS_KEY, encode(COMMITS_KEY, &commits));
        let result = catch_sled_panic(|| {
            self.trees[..].transaction(|trees| batch.apply(trees)).map_err(|error| match error {
                TransactionError::Storage(error) => from_sled(error),
                TransactionError::Abort(()) => {
                    StoreError::Internal("the transaction was aborted".to_owned())
                }
            })
        });
        result.map_err(|error| self.disable_writes(error))
    }

    /// Makes all written batches durable, then records their number as acknowledged. After an
    /// error it is unknown which batches are durable.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        self.check_writes_enabled()?;
        self.flush().map_err(|error| self.disable_writes(error))?;
        self.file.sync().map_err(|error| self.sync_failed(error))?;
        // A sync of a file that lost its name is worthless.
        if !self.file.is_in_place() {
            return Err(self.disable_writes(file_replaced()));
        }
        // The count comes after the sync, so it is never ahead of the durable data.
        let commits = self.commits.load(Ordering::Relaxed);
        self.file.acknowledge(commits).map_err(|error| self.sync_failed(error))
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
        self.is_write_disabled.store(true, Ordering::Relaxed);
        tracing::error!(%error, "writes are disabled; restart the server");
        error
    }
}

fn file_replaced() -> StoreError {
    let reason = "its file was removed or replaced while it was open; put it back, or stop the \
                  server and run `reqlore restore`";
    database_unavailable(reason, None)
}
