//! The open database: its trees and its transactions.
//!
//! [`Database::write`] is only a transaction. Nothing is durable, and no caller gets an answer,
//! before [`Database::sync`].

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use serde::de::DeserializeOwned;
use sled::transaction::{TransactionError, Transactional, TransactionalTree};
use sled::{IVec, Tree};
use tokio::sync::RwLock;

use crate::error::{
    INCOMPLETE, catch_sled_panic, database_refused, database_unavailable, from_sled,
};
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
pub(crate) const TREE_NAMES: [&str; 13] = [
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
pub(crate) const COMMITS_KEY: &[u8] = b"commits";
/// In [`META`]: the number of changes of users and tokens.
pub(crate) const EPOCH_KEY: &[u8] = b"epoch";
/// In [`META`] until an import is finished.
pub(crate) const IMPORT_KEY: &[u8] = b"filling";

#[derive(Debug)]
pub(crate) struct SledDatabase {
    pub(crate) trees: [Tree; TREE_NAMES.len()],
    pub(crate) file: DatabaseFile,
    /// Shared by readers; exclusive from the first change of a group until it is durable.
    pub(crate) gate: Arc<RwLock<()>>,
    /// Shared by exports and imports, which may last for minutes; a group holds it exclusively and
    /// takes it before the gate, so that a group that waits for a copy does not hold up readers.
    pub(crate) copy_lock: Arc<RwLock<()>>,
    /// An import has begun and not finished.
    pub(crate) is_incomplete: AtomicBool,
    /// A transaction or a sync failed, so nothing more is written.
    pub(crate) is_write_disabled: AtomicBool,
    /// As [`COMMITS`].
    pub(crate) commits: AtomicU64,
    /// As [`EPOCH`]; cached because every request asks for it.
    pub(crate) epoch: AtomicU64,
    /// Keeps other processes from opening the folder.
    pub(crate) _lock: File,
}

/// Changes of trees, to be written in one transaction.
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

    /// `Some(None)` if the batch removes the key.
    pub(crate) fn get(&self, tree: usize, key: &[u8]) -> Option<&Option<IVec>> {
        self.0.get(&(tree, key.into()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl SledDatabase {
    pub(crate) fn tree(&self, tree: usize) -> &Tree {
        &self.trees[tree]
    }

    pub(crate) fn get(&self, tree: usize, key: &[u8]) -> StoreResult<Option<IVec>> {
        self.trees[tree].get(key).map_err(from_sled)
    }

    /// A value of [`META`]; `None` if it is missing or damaged.
    pub(crate) fn meta_value<T: DeserializeOwned>(&self, key: &[u8]) -> StoreResult<Option<T>> {
        Ok(self.get(META, key)?.and_then(|value| decode(key, &value)))
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

    /// sled can't undo a transaction, so nothing may build on one whose sync failed.
    fn check_writes_enabled(&self) -> StoreResult<()> {
        if !self.is_write_disabled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let reason = "an earlier change could not be made durable, so nothing is written until \
                      the server is started again; check the disk first. Whether that change was \
                      kept shows then";
        Err(database_unavailable(reason, None))
    }

    /// Writes a batch in one transaction over all trees.
    pub(crate) fn write_batch(&self, mut batch: TreeBatch) -> StoreResult<()> {
        self.check_writes_enabled()?;
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        batch.put(META, COMMITS_KEY, encode(COMMITS_KEY, &commits));
        let apply = |trees: &Vec<TransactionalTree>| {
            for ((tree, key), value) in &batch.0 {
                match value {
                    Some(value) => trees[*tree].insert(key, value)?,
                    None => trees[*tree].remove(key)?,
                };
            }
            Ok(())
        };
        let written = catch_sled_panic(|| {
            let written: Result<(), TransactionError<()>> = self.trees[..].transaction(apply);
            written.map_err(|error| match error {
                TransactionError::Storage(error) => from_sled(error),
                TransactionError::Abort(()) => StoreError::Internal("it was aborted".to_owned()),
            })
        });
        written.map_err(|error| self.disable_writes(error))
    }

    /// Makes everything written so far durable, and counts it as acknowledged. After an error it is
    /// unknown what is durable.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        self.check_writes_enabled()?;
        self.flush().map_err(|error| self.disable_writes(error))?;
        let failed =
            |error| self.disable_writes(database_unavailable("the sync failed", Some(error)));
        self.file.sync().map_err(failed)?;
        if !self.file.is_in_place() {
            return Err(self.disable_writes(file_replaced()));
        }
        self.file.acknowledge(self.commits.load(Ordering::Relaxed)).map_err(failed)
    }

    /// Passes what sled has in memory to the operating system.
    pub(crate) fn flush(&self) -> StoreResult<()> {
        catch_sled_panic(|| self.tree(META).flush().map_err(from_sled).map(drop))
    }

    fn disable_writes(&self, error: StoreError) -> StoreError {
        self.is_write_disabled.store(true, Ordering::Relaxed);
        tracing::error!(%error, "the database takes no more changes until it is opened again");
        error
    }
}

fn file_replaced() -> StoreError {
    let reason = "its file was removed or replaced while it was open, so nothing is written. Put \
                  it back, or stop the server and restore a backup with `reqlore restore`";
    database_unavailable(reason, None)
}
