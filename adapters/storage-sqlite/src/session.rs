//! The connection of a writer.
//!
//! After some errors, such as a full disk, SQLite rolls back the whole transaction itself.

use std::sync::Arc;
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_durable_fs::commit_counter::{DatabaseId, IssuedNumbers};
use reqlore_row_store::database::{
    BegunTransaction, CommitOutcome, ReadLimit, SessionError, WriteSession,
};
use reqlore_row_store::loss::raise_issued_numbers;
use reqlore_row_store::row::{RowChange, RowQuery};
use reqlore_row_store::tables::Table;
use rusqlite::Connection;

use crate::commit_count::CommitCount;
use crate::connection::{ConnectionUse, Connector, OpenFiles};
use crate::damage::DamageState;
use crate::error::{DATABASE_NAME, QueryError, io_error, unavailable};
use crate::rows::{self, QueriedRows};

/// Moves the log into the database, if no other process reads it, and empties it.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

#[derive(Debug)]
pub(crate) struct SqliteSession {
    files: Arc<OpenFiles>,
    /// `None` before the first transaction.
    connection: Option<Connection>,
    /// The next transactions are not synced.
    is_unsynced: bool,
    /// The present setting of the connection.
    is_connection_unsynced: bool,
    /// The highest numbers that the open transaction wrote.
    numbers: IssuedNumbers,
    /// The next ID of the database, if its loss is being accepted.
    new_id: Option<DatabaseId>,
}

impl SqliteSession {
    pub(crate) fn new(files: Arc<OpenFiles>, connection: Option<Connection>) -> Self {
        Self {
            files,
            connection,
            is_unsynced: false,
            is_connection_unsynced: false,
            numbers: IssuedNumbers::default(),
            new_id: None,
        }
    }

    /// For a database that this process has alone. Its next commit gives it a new ID.
    pub(crate) fn exclusive(connector: Connector, connection: Connection) -> StoreResult<Self> {
        let new_id = DatabaseId::random()
            .map_err(|error| io_error(&connector.file.shown_path, "name it", error))?;
        let damage = Arc::new(DamageState::passed(&connector.file.name()));
        let files = Arc::new(OpenFiles { connector, damage });
        let mut session = Self::new(files, Some(connection));
        session.new_id = Some(new_id);
        Ok(session)
    }

    /// Runs work on the connection. Its errors end the transaction.
    fn run<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, QueryError>,
    ) -> Result<T, SessionError> {
        let outcome = match &self.connection {
            Some(connection) if !connection.is_autocommit() => work(connection),
            _ => Err(StoreError::Internal("no transaction is open".to_owned()).into()),
        };
        outcome.map_err(|error| SessionError::Failed(self.files.damage.record(error)))
    }

    fn begin_transaction(&mut self) -> StoreResult<()> {
        let OpenFiles { connector, damage } = &*self.files;
        damage.permit_write()?;
        connector.file.check_all_identities()?;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                connector.open_same(ConnectionUse::Write).map_err(|error| damage.record(error))?
            }
        };
        let connection = self.connection.insert(connection);
        if self.is_unsynced != self.is_connection_unsynced {
            let level = if self.is_unsynced { "NORMAL" } else { "FULL" };
            let set = connection.pragma_update(None, "synchronous", level);
            set.map_err(|error| damage.record(error.into()))?;
            self.is_connection_unsynced = self.is_unsynced;
        }
        // IMMEDIATE takes the write lock now; a later upgrade of a read lock could fail as busy.
        execute(connection, "BEGIN IMMEDIATE").map_err(|error| damage.record(error.into()))?;
        self.numbers = IssuedNumbers::default();
        // Another process may have updated it.
        let format = &connector.file.schema.format;
        format.check(connection, DATABASE_NAME).map_err(|error| damage.record(error))
    }

    fn commit_transaction(&mut self) -> StoreResult<()> {
        let (numbers, new_id) = (std::mem::take(&mut self.numbers), self.new_id);
        let count = self.run(|connection| {
            let mut count = CommitCount::read(connection)?;
            count.counter.commits += 1;
            count.counter.database_id = new_id.unwrap_or(count.counter.database_id);
            for (kind, number) in numbers {
                let highest = count.numbers.entry(kind).or_default();
                *highest = number.max(*highest);
            }
            count.write(connection)?;
            Ok(count)
        });
        let count = count.map_err(|error| error.to_store_error())?;
        let files = Arc::clone(&self.files);
        let file = &files.connector.file;
        file.check_all_identities()?;
        let committed = self.run(|connection| Ok(execute(connection, "COMMIT")?));
        committed.map_err(|error| error.to_store_error())?;
        // A commit to a file that lost its name is not durable under this name.
        file.check_all_identities().map_err(|_| {
            let reason = "its file was moved or replaced during a write, so the change may be \
                          lost; restart the server and check";
            unavailable(DATABASE_NAME, reason)
        })?;
        // After the sync of the commit, so that the side file is never ahead of the database.
        if self.new_id.take().is_some() {
            // A crash before this leaves the side file of the old ID.
            file.replace_commits(&count)?;
            file.sync_folder()?;
        } else if !self.is_connection_unsynced {
            file.record_commit(&count);
        }
        Ok(())
    }
}

fn execute(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

impl WriteSession for SqliteSession {
    fn set_sync(&mut self, is_needed: bool) {
        self.is_unsynced = !is_needed;
    }

    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError> {
        self.roll_back();
        let begun = self.begin_transaction().map_err(SessionError::Failed);
        let rows = begun.and_then(|()| self.read(queries)).inspect_err(|_| self.roll_back())?;
        Ok(rows.into())
    }

    fn read(&mut self, queries: &[RowQuery]) -> Result<QueriedRows, SessionError> {
        let rows = self.run(|connection| rows::select(connection, queries, ReadLimit::NONE));
        Ok(rows?.unwrap_or_default())
    }

    fn write(
        &mut self,
        changes: Vec<(&'static Table, Vec<RowChange>)>,
    ) -> Result<(), SessionError> {
        for (table, changes) in changes {
            raise_issued_numbers(&mut self.numbers, table, &changes);
            self.run(|connection| rows::apply(connection, table, &changes))?;
        }
        Ok(())
    }

    fn commit(&mut self) -> CommitOutcome {
        match self.commit_transaction() {
            Ok(()) => CommitOutcome::Committed,
            Err(error) => {
                self.roll_back();
                CommitOutcome::NotWritten(SessionError::Failed(error))
            }
        }
    }

    fn roll_back(&mut self) {
        // SQLite may have rolled back the transaction itself.
        if let Some(connection) = self.connection.as_ref().filter(|one| !one.is_autocommit())
            && let Err(error) = execute(connection, "ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back a transaction");
        }
    }
}

impl Drop for SqliteSession {
    /// Moves the log into the database. The empty log stays, because a missing one is a loss.
    fn drop(&mut self) {
        self.roll_back();
        let file = &self.files.connector.file;
        let Some(connection) = &self.connection else { return };
        if file.check_all_identities().is_err() {
            return;
        }
        // Another process that reads the log may keep it, and moves it when it ends.
        let checkpointed = connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| connection.query_one(CHECKPOINT, [], |_| Ok(())));
        if let Err(error) = checkpointed {
            tracing::debug!(%error, "the log was not moved into the database");
        }
        file.sync_commits();
    }
}
