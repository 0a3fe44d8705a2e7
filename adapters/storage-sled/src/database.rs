//! The open database: its tree, commits and syncs.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_ordered_rows::{Change, Changes, OrderedTree, select};
use reqlore_row_store::StoreRow;
use reqlore_row_store::damage::KnownDamage;
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::row::{RowQuery, TableRow};
use reqlore_row_store::tables::STORE;
use sled::{Batch, IVec, Tree};
use tokio::sync::RwLock;

use crate::commit_state::{CommitState, STATE_KEY};
use crate::error::{catch_sled_panic, database_unavailable, from_sled};
use crate::files::DatabaseFile;

/// The rows of queries.
pub(crate) type QueriedRows = Vec<Vec<TableRow>>;

/// The tree of all rows, indexes and the state.
#[derive(Debug, Clone)]
pub(crate) struct SledTree(pub(crate) Tree);

impl OrderedTree for SledTree {
    type Bytes = IVec;

    // sled moves a page above 128 KiB to a file of its own. A page has at most 17 values, or 257
    // beginnings of keys.
    const MAX_KEY_BYTES: usize = 1400;
    const MAX_VALUE_BYTES: usize = 4096;

    fn get(&self, key: &[u8]) -> StoreResult<Option<IVec>> {
        self.0.get(key).map_err(from_sled)
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        is_descending: bool,
    ) -> impl Iterator<Item = StoreResult<(IVec, IVec)>> {
        let mut range = self.0.range(start..end);
        std::iter::from_fn(move || {
            let entry = if is_descending { range.next_back() } else { range.next() };
            entry.map(|entry| entry.map_err(from_sled))
        })
    }
}

pub(crate) struct OpenDatabase {
    /// `None` after it was closed.
    pub(crate) tree: Option<SledTree>,
    pub(crate) file: DatabaseFile,
    /// The value of [`STATE_KEY`].
    pub(crate) state: Mutex<CommitState>,
    /// Readers share it. A commit holds it exclusively until it is durable.
    pub(crate) commit_lock: Arc<RwLock<()>>,
    /// Copies share it, possibly for minutes. A transaction holds it exclusively.
    pub(crate) copy_lock: Arc<RwLock<()>>,
    /// How long a transaction waits for the end of a copy.
    pub(crate) copy_timeout: Duration,
    pub(crate) damage: Arc<KnownDamage>,
    /// The inverse of a failed commit, which may be durable and which sled cannot roll back. Until
    /// the database is reopened, reads apply the inverse and writes are rejected.
    pub(crate) undo: OnceLock<Changes<IVec>>,
    /// Keeps other processes from opening the folder.
    pub(crate) _lock: File,
}

impl OpenDatabase {
    pub(crate) fn tree(&self) -> &SledTree {
        match &self.tree {
            Some(tree) => tree,
            None => unreachable!("only its drop takes it"),
        }
    }

    pub(crate) fn store_row(&self) -> StoreResult<StoreRow> {
        let query = RowQuery::keys(&STORE, vec![StoreRow::key()]);
        let rows = catch_sled_panic(|| select(self.tree(), &[query], ReadLimit::NONE))?;
        StoreRow::decode(&rows.unwrap_or_default().concat())
    }

    /// Fails after a failed sync, and if the file was replaced.
    pub(crate) fn check_writable(&self) -> StoreResult<()> {
        if self.undo.get().is_some() {
            let reason = "an earlier change could not be made durable, so writes are disabled; \
                          check the disk and restart the server";
            return Err(database_unavailable(reason, None));
        }
        if self.file.is_in_place() { Ok(()) } else { Err(file_replaced()) }
    }

    /// Applies a transaction and syncs it if needed, while readers wait.
    pub(crate) fn commit(
        &self,
        changes: Changes<IVec>,
        mut state: CommitState,
        needs_sync: bool,
    ) -> StoreResult<()> {
        let mut batch = Batch::default();
        for (key, Change { before, after }) in changes.iter() {
            if before == after {
                continue;
            }
            if let Some(value) = before {
                state.totals.remove(key, value);
            }
            match after {
                Some(value) => {
                    state.totals.add(key, value);
                    batch.insert(key, value);
                }
                None => batch.remove(key),
            }
        }
        state.commits += 1;
        // In the same batch, so that the state shows which commits a file contains.
        batch.insert(STATE_KEY, state.encode()?);
        self.check_writable()?;
        self.apply_and_count(batch, &state, needs_sync).inspect_err(|error| {
            tracing::error!(%error, "writes are disabled; restart the server");
            // No other commit can have set it, because the caller holds the lock.
            let _ = self.undo.set(changes.inverted());
        })
    }

    /// After an error it is unknown whether the batch is durable.
    fn apply_and_count(
        &self,
        batch: Batch,
        state: &CommitState,
        needs_sync: bool,
    ) -> StoreResult<()> {
        let is_new_id = state.database_id != lock(&self.state).database_id;
        self.apply(batch, needs_sync)?;
        lock(&self.state).clone_from(state);
        if !needs_sync {
            return Ok(());
        }
        // After the sync, so that the counter is never ahead of the durable data.
        let counter = &self.file.counter;
        let mut written = counter.write_with_numbers(state.counter(), &state.numbers);
        if is_new_id {
            // After a crash before this line the counter has the old ID.
            written = written.and_then(|()| counter.sync());
        }
        written.map_err(sync_failed)
    }

    fn apply(&self, batch: Batch, needs_sync: bool) -> StoreResult<()> {
        catch_sled_panic(|| {
            let tree = &self.tree().0;
            tree.apply_batch(batch).map_err(from_sled)?;
            // sled's flush only starts to write the pages.
            tree.flush().map_err(from_sled)
        })?;
        if needs_sync {
            self.file.sync().map_err(sync_failed)?;
        }
        // A sync of a file that lost its name is worthless.
        if self.file.is_in_place() { Ok(()) } else { Err(file_replaced()) }
    }

    /// Runs queries on the state before a failed commit.
    pub(crate) fn select(
        &self,
        queries: &[RowQuery],
        limit: ReadLimit,
    ) -> StoreResult<Option<QueriedRows>> {
        match self.undo.get() {
            Some(undo) => select(&undo.on(self.tree()), queries, limit),
            None => select(self.tree(), queries, limit),
        }
    }
}

fn sync_failed(error: io::Error) -> StoreError {
    database_unavailable("the sync failed", Some(error))
}

fn file_replaced() -> StoreError {
    let reason = "its file was removed or replaced while it was open; put it back, or stop the \
                  server and run `reqlore restore`";
    database_unavailable(reason, None)
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

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        let Some(tree) = self.tree.take() else { return };
        let flushed = catch_sled_panic(|| tree.0.flush().map_err(from_sled));
        let synced = flushed.and_then(|_| {
            let synced = self.file.sync().and_then(|()| self.file.counter.sync());
            synced.map_err(|error| database_unavailable("its last sync failed", Some(error)))
        });
        let closed = match synced {
            Ok(()) => catch_unwind(AssertUnwindSafe(|| drop(tree)))
                .map_err(|_| database_unavailable("sled panicked", None)),
            Err(error) => {
                // sled would sync again, and panics if that fails. The operating system releases
                // the files at the end of the process.
                std::mem::forget(tree);
                Err(error)
            }
        };
        if let Err(error) = closed {
            HAS_FAILED_CLOSE.store(true, Ordering::Relaxed);
            tracing::error!(%error, "the database was not closed; check the disk");
        }
    }
}
