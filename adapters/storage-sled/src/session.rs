//! Transactions of a writer. Their changes are in memory until the commit.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs::commit_counter::DatabaseId;
use reqlore_ordered_rows::{Changes, select};
use reqlore_row_store::database::{
    BegunTransaction, CommitOutcome, ReadLimit, SessionError, WriteSession,
};
use reqlore_row_store::loss::raise_issued_numbers;
use reqlore_row_store::row::{RowChange, RowQuery};
use reqlore_row_store::tables::Table;
use sled::IVec;
use tokio::sync::OwnedRwLockWriteGuard;

use crate::commit_state::CommitState;
use crate::database::{OpenDatabase, QueriedRows, lock};
use crate::error::catch_sled_panic;

/// Pause between attempts while a copy reads.
const COPY_PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct SledSession {
    database: Arc<OpenDatabase>,
    transaction: Option<Transaction>,
    needs_sync: bool,
    /// The next ID of the database, if its loss is being accepted.
    pub(crate) new_id: Option<DatabaseId>,
}

struct Transaction {
    changes: Changes<IVec>,
    /// The state that the commit will write, except for its totals.
    state: CommitState,
    /// Excludes other transactions and copies.
    _lock: OwnedRwLockWriteGuard<()>,
}

impl SledSession {
    pub(crate) fn new(database: Arc<OpenDatabase>) -> Self {
        Self { database, transaction: None, needs_sync: true, new_id: None }
    }

    fn begin_transaction(&mut self) -> StoreResult<()> {
        self.database.check_writable()?;
        let copy_lock = wait_for_copies(&self.database)?;
        let mut state = lock(&self.database.state).clone();
        if let Some(DatabaseId(id)) = self.new_id {
            state.database_id = id;
        }
        self.transaction =
            Some(Transaction { changes: Changes::default(), state, _lock: copy_lock });
        Ok(())
    }

    /// Runs work on the open transaction.
    fn run<T>(
        &mut self,
        work: impl FnOnce(&OpenDatabase, &mut Transaction) -> StoreResult<T>,
    ) -> Result<T, SessionError> {
        let Some(transaction) = &mut self.transaction else {
            let message = "no transaction is open".to_owned();
            return Err(SessionError::Failed(StoreError::Internal(message)));
        };
        catch_sled_panic(|| work(&self.database, transaction)).map_err(SessionError::Failed)
    }

    fn commit_transaction(&mut self) -> StoreResult<()> {
        let Some(Transaction { changes, state, _lock }) = self.transaction.take() else {
            return Err(StoreError::Internal("no transaction is open".to_owned()));
        };
        if changes.is_empty() {
            return Ok(());
        }
        // Readers continue only after the sync.
        let commit_lock = &self.database.commit_lock;
        // Without contention it may be called on any thread.
        let _lock = commit_lock.try_write().unwrap_or_else(|_| commit_lock.blocking_write());
        self.database.commit(changes, state, self.needs_sync)?;
        self.new_id = None;
        Ok(())
    }
}

/// Waits until no copy reads.
fn wait_for_copies(database: &OpenDatabase) -> StoreResult<OwnedRwLockWriteGuard<()>> {
    let start = Instant::now();
    let mut locking = pin!(Arc::clone(&database.copy_lock).write_owned());
    loop {
        if let Some(lock) = locking.as_mut().now_or_never() {
            return Ok(lock);
        }
        if start.elapsed() > database.copy_timeout {
            let reason = "the database is being copied; nothing was written, try again later";
            return Err(StoreError::Busy { reason: reason.to_owned() });
        }
        std::thread::sleep(COPY_PAUSE);
    }
}

impl WriteSession for SledSession {
    fn set_sync(&mut self, is_needed: bool) {
        self.needs_sync = is_needed;
    }

    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError> {
        self.roll_back();
        self.begin_transaction().map_err(SessionError::Failed)?;
        Ok(self.read(queries).inspect_err(|_| self.roll_back())?.into())
    }

    fn read(&mut self, queries: &[RowQuery]) -> Result<QueriedRows, SessionError> {
        let rows = self.run(|database, transaction| {
            select(&transaction.changes.on(database.tree()), queries, ReadLimit::NONE)
        });
        Ok(rows?.unwrap_or_default())
    }

    fn write(
        &mut self,
        changes: Vec<(&'static Table, Vec<RowChange>)>,
    ) -> Result<(), SessionError> {
        self.run(|database, transaction| {
            for (table, changes) in changes {
                raise_issued_numbers(&mut transaction.state.numbers, table, &changes);
                transaction.changes.add(database.tree(), table, &changes)?;
            }
            Ok(())
        })
    }

    fn commit(&mut self) -> CommitOutcome {
        match self.commit_transaction() {
            Ok(()) => CommitOutcome::Committed,
            Err(error) => CommitOutcome::NotWritten(SessionError::Failed(error)),
        }
    }

    fn roll_back(&mut self) {
        self.transaction = None;
    }
}
