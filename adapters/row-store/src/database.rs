//! The seam between this storage and a database: transactions on rows, without SQL.
//!
//! Implemented by drivers.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::storage_health::DatabaseStatistics;
use reqlore_domain::timestamp::Timestamp;

use crate::error::busy;
use crate::row::{RowChange, RowQuery, TableRow};
use crate::tables::Table;

/// Random ID of a group of commits.
pub type GroupId = [u8; 16];

/// How much one read may visit.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimit {
    pub rows: usize,
    pub bytes: usize,
}

impl ReadLimit {
    pub const NONE: Self = Self { rows: usize::MAX, bytes: usize::MAX };
    /// For a read on the caller's thread. For short reads that is faster than a switch to another
    /// thread.
    pub const INLINE: Self = Self { rows: 200, bytes: 256 * 1024 };

    /// Counts a row. Returns false if the read exceeds the limit.
    pub fn count(&mut self, row: &TableRow) -> bool {
        let rows = self.rows.checked_sub(1);
        let bytes = self.bytes.checked_sub(row.as_bytes().len());
        self.rows = rows.unwrap_or_default();
        self.bytes = bytes.unwrap_or_default();
        rows.is_some() && bytes.is_some()
    }
}

/// Rows that can be read. They are verified by their checksum.
#[async_trait]
pub trait RowSource: Send + Sync {
    /// Runs all queries on one state, in one round trip.
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>>;
}

/// A database with the tables of this storage. A read sees every commit that was acknowledged
/// before it.
#[async_trait]
pub trait Database: RowSource + fmt::Debug + 'static {
    /// Begins a transaction that reads the present state until it is dropped.
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>>;

    /// True for a database on a server: each read costs a round trip, so reading more at once than
    /// is needed is faster, and the answer of a commit can be lost.
    fn is_remote(&self) -> bool {
        false
    }

    /// The time of a database on a server; `None` if its clients have one clock.
    async fn current_time(&self) -> StoreResult<Option<Timestamp>> {
        Ok(None)
    }

    fn health(&self) -> DatabaseHealth {
        DatabaseHealth::default()
    }

    /// Searches for damage below the rows, such as that of indexes. Returns a text for each.
    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }

    /// Overwrites the content of deleted rows in free space.
    async fn erase_free_space(&self) -> StoreResult<()> {
        Ok(())
    }

    /// A session for a writer. Connects when its first transaction begins.
    fn open_session(&self) -> Box<dyn WriteSession>;
}

/// The present state of a database.
#[derive(Debug, Default)]
pub struct DatabaseHealth {
    /// The numbers of the connections that read from a server.
    pub connections: Option<DatabaseStatistics>,
    /// Why writes would fail, as a sentence for an operator.
    pub problem: Option<String>,
}

/// One connection of a writer, used from a thread that may block. At most one transaction is open.
pub trait WriteSession: Send {
    /// Sets whether the next transactions are synced. A power cut may undo an unsynced one until
    /// the next synced one; a killed process cannot. A database may sync each one.
    fn set_sync(&mut self, is_needed: bool) {
        let _ = is_needed;
    }

    /// Begins a transaction, waits for those of all other writers, and runs queries on the state
    /// that they left, in one round trip. `Err` leaves no transaction open.
    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError>;

    /// Runs queries in the transaction, in one round trip. They see its own writes.
    fn read(&mut self, queries: &[RowQuery]) -> Result<Vec<Vec<TableRow>>, SessionError>;

    /// Applies changes in the transaction, in one round trip. No key occurs twice.
    fn write(&mut self, changes: Vec<(&'static Table, Vec<RowChange>)>)
    -> Result<(), SessionError>;

    fn commit(&mut self) -> CommitOutcome;

    /// Undoes the transaction, if there is one. If the connection is lost, the database does it.
    fn roll_back(&mut self);

    /// Waits before a transaction is repeated. A simulated database takes no time for it.
    fn wait(&mut self, pause: Duration) {
        std::thread::sleep(pause);
    }
}

/// The answer to [`WriteSession::begin`].
#[derive(Debug)]
pub struct BegunTransaction {
    /// The results of the queries.
    pub rows: Vec<Vec<TableRow>>,
    /// True if the connection was lost since the last transaction, so that commits of other writers
    /// may be lost as well: a standby may have taken over.
    pub was_interrupted: bool,
}

impl From<Vec<Vec<TableRow>>> for BegunTransaction {
    fn from(rows: Vec<Vec<TableRow>>) -> Self {
        Self { rows, was_interrupted: false }
    }
}

/// Why a transaction cannot continue. It must be rolled back. The texts are for logs and for the
/// error after the last attempt.
#[derive(Debug)]
pub enum SessionError {
    /// A conflict with another transaction: nothing was written, and it can be repeated.
    Conflict(String),
    /// The connection was lost before the commit: nothing was written, and the transaction can be
    /// repeated.
    Disconnected(String),
    /// Repeating does not help.
    Failed(StoreError),
}

impl SessionError {
    /// The error for a caller, if the transaction is not repeated.
    pub fn to_store_error(&self) -> StoreError {
        match self {
            Self::Conflict(problem) | Self::Disconnected(problem) => {
                busy(&format!("{problem}; try again"))
            }
            Self::Failed(error) => error.clone_for_group(),
        }
    }
}

/// The end of a transaction.
#[derive(Debug)]
pub enum CommitOutcome {
    /// Durable.
    Committed,
    NotWritten(SessionError),
    /// The connection was lost at the commit. The next transaction sees whether it was written,
    /// because [`WriteSession::begin`] waits for its end.
    Unknown(String),
}
