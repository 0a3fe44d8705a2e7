//! Transactions of a writer. Their changes are in memory until the commit.

use std::sync::Arc;
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs::commit_counter::DatabaseId;
use reqlore_ordered_rows::{Changes, select};
use reqlore_row_store::database::{BegunTransaction, CommitOutcome, SessionError, WriteSession};
use reqlore_row_store::loss::raise_issued_numbers;
use reqlore_row_store::row::{RowChange, RowQuery};
use reqlore_row_store::tables::Table;
use sled::IVec;
use tokio::runtime::Builder;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

use crate::commit_state::CommitState;
use crate::database::{OpenDatabase, QueriedRows, lock};
use crate::error::{catch_sled_panic, database_unavailable};

pub(crate) struct SledSession {
    database: Arc<OpenDatabase>,
    transaction: Option<Transaction>,
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
        Self { database, transaction: None, new_id: None }
    }

    fn begin_transaction(&mut self) -> StoreResult<()> {
        self.database.check_writable()?;
        let copy_lock = lock_exclusively(&self.database.copy_lock, self.database.copy_timeout)?;
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
        let _gate = lock_exclusively(&self.database.gate, Duration::MAX)?;
        self.database.commit(changes, state)?;
        self.new_id = None;
        Ok(())
    }
}

/// Waits for a lock, which is asynchronous for readers.
fn lock_exclusively(
    lock: &Arc<RwLock<()>>,
    time_limit: Duration,
) -> StoreResult<OwnedRwLockWriteGuard<()>> {
    if let Ok(guard) = Arc::clone(lock).try_write_owned() {
        return Ok(guard);
    }
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| database_unavailable("it cannot wait", Some(error)))?;
    let waiting = Arc::clone(lock).write_owned();
    runtime.block_on(async { timeout(time_limit, waiting).await }).map_err(|_| {
        let reason = "the database is being copied; nothing was written, try again later";
        StoreError::Busy { reason: reason.to_owned() }
    })
}

impl WriteSession for SledSession {
    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError> {
        self.roll_back();
        self.begin_transaction().map_err(SessionError::Failed)?;
        Ok(self.read(queries).inspect_err(|_| self.roll_back())?.into())
    }

    fn read(&mut self, queries: &[RowQuery]) -> Result<QueriedRows, SessionError> {
        let rows = self.run(|database, transaction| {
            select(&transaction.changes.on(database.tree()), queries, usize::MAX)
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
