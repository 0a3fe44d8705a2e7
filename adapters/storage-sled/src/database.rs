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
    /// Shared by readers; exclusive from the first change of a group until it is durable.
    pub(crate) gate: Arc<RwLock<()>>,
    /// Shared by exports and imports, which may last for minutes; a group holds it exclusively and
    /// takes it before the gate, so that a group that waits for a copy does not hold up readers.
    pub(crate) copies: Arc<RwLock<()>>,
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
