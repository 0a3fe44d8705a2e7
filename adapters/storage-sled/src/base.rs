//! The open database: its trees, and the two steps of everything that is written.
//!
//! The trap: [`Base::write`] is only a transaction; nothing is durable, and nobody may be told,
//! before [`Base::settle`].

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use sled::transaction::{TransactionError, Transactional, TransactionalTree};
use sled::{IVec, Tree};

use crate::disk::Disk;
use crate::error::{INCOMPLETE, broken, guarded, of_sled, refused, unavailable};
use crate::gate::Gate;
use crate::values::encode;

/// The trees by their place in [`Base::trees`].
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

/// In [`META`]: how many transactions there were.
pub(crate) const COMMITS: &[u8] = b"commits";
/// In [`META`]: how often identities were changed.
pub(crate) const EPOCH: &[u8] = b"epoch";
/// In [`META`]: there while the storage is being filled.
pub(crate) const FILLING: &[u8] = b"filling";

#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) trees: [Tree; NAMES.len()],
    pub(crate) disk: Disk,
    pub(crate) gate: Arc<Gate>,
    /// It is being filled, and not finished.
    pub(crate) incomplete: AtomicBool,
    pub(crate) broken: AtomicBool,
    pub(crate) commits: AtomicU64,
    /// As in [`META`], kept here because it is asked at every request.
    pub(crate) epoch: AtomicU64,
    /// Of the folder; held, so that no other process opens it.
    pub(crate) _lock: File,
}

/// Prepared changes of trees.
#[derive(Debug, Default)]
pub(crate) struct Batch(Vec<(usize, IVec, Option<IVec>)>);

impl Batch {
    pub(crate) fn put(&mut self, tree: usize, key: impl Into<IVec>, value: impl Into<IVec>) {
        self.0.push((tree, key.into(), Some(value.into())));
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn remove(&mut self, tree: usize, key: impl Into<IVec>) {
        self.0.push((tree, key.into(), None));
    }
}

impl Base {
    pub(crate) fn tree(&self, tree: usize) -> &Tree {
        &self.trees[tree]
    }

    /// Whether anything may be written at all, asked before it is tried.
    pub(crate) fn check_writable(&self) -> StoreResult<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(broken());
        }
        if !self.disk.is_in_place() {
            return Err(replaced());
        }
        Ok(())
    }

    pub(crate) fn check_complete(&self) -> StoreResult<()> {
        if self.incomplete.load(Ordering::Relaxed) { Err(refused(INCOMPLETE)) } else { Ok(()) }
    }

    /// One transaction over all trees. Behind one that failed nothing is written: it may have held
    /// what the next one builds on.
    pub(crate) fn write(&self, mut batch: Batch) -> StoreResult<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(broken());
        }
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        batch.put(META, COMMITS, encode(COMMITS, &commits));
        let apply = |trees: &Vec<TransactionalTree>| {
            for (tree, key, value) in &batch.0 {
                match value {
                    Some(value) => trees[*tree].insert(key, value)?,
                    None => trees[*tree].remove(key)?,
                };
            }
            Ok(())
        };
        let done = guarded(|| {
            let done: Result<(), TransactionError<()>> = self.trees[..].transaction(apply);
            done.map_err(|error| match error {
                TransactionError::Storage(error) => of_sled(error),
                TransactionError::Abort(()) => StoreError::Internal("it gave up".to_owned()),
            })
        });
        done.map_err(|error| self.breaks(error))
    }

    /// Makes durable what was written. An error leaves open whether it is, so nothing more is
    /// written after it.
    pub(crate) fn settle(&self) -> StoreResult<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(broken());
        }
        self.flush().map_err(|error| self.breaks(error))?;
        let failed = |error| self.breaks(unavailable("the sync failed", Some(error)));
        self.disk.sync().map_err(failed)?;
        if !self.disk.is_in_place() {
            return Err(self.breaks(replaced()));
        }
        self.disk.acknowledge(self.commits.load(Ordering::Relaxed)).map_err(failed)
    }

    /// Hands to the system what sled still keeps in memory.
    pub(crate) fn flush(&self) -> StoreResult<()> {
        guarded(|| self.tree(META).flush().map_err(of_sled).map(drop))
    }

    fn breaks(&self, error: StoreError) -> StoreError {
        self.broken.store(true, Ordering::Relaxed);
        tracing::error!(%error, "the database takes no more changes until it is opened again");
        error
    }
}

fn replaced() -> StoreError {
    let what = "its file was removed or replaced while it was open, so nothing is written. Put it \
                back, or stop the server and restore a backup with `reqlore restore`";
    unavailable(what, None)
}
