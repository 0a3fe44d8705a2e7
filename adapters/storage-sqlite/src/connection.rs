//! Connections to the database, and the pool of read connections.
//!
//! `PRAGMA` settings belong to one connection, so every connection must be opened here.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::row::RowQuery;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::Semaphore;

use crate::damage::DamageState;
use crate::database_file::DatabaseFile;
use crate::error::{BUSY_TIMEOUT, DATABASE_NAME, QueryError, call_error, is_busy};
use crate::open_and_access;
use crate::rows::{self, QueriedRows};
use crate::schema::check_objects;
use crate::settings::{configure, keep_log_on_close, wait_when_busy};
use crate::statements::QueryPlan;

/// Maximum number of connections that stay open between reads.
const MAX_IDLE_CONNECTIONS: usize = 4;
/// Maximum number of large reads that run at the same time.
const MAX_LARGE_READS: usize = 4;
/// Maximum number of rows that are read on the caller's thread.
pub(crate) const INLINE_ROWS: usize = 200;
/// Estimated number of rows that begin with a key of a list.
const ROWS_OF_LIST: usize = 5;
/// One thread at a time uses a connection.
const NO_MUTEX: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionUse {
    Write,
    /// A power cut may undo commits, a killed process cannot.
    WriteUnsynced,
    Read,
    /// Fails if another process has the database open.
    Exclusive,
}

/// Opens connections to one database.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) file: Arc<DatabaseFile>,
    pub(crate) mode: OpenMode,
}

/// Access to the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Read and write; other processes may write too.
    Shared,
    /// Read; other processes may write.
    ReadOnly,
    /// Read; SQLite assumes that no process writes.
    Immutable,
}

impl Connector {
    /// Opens a connection to the files that this process has open. SQLite opens the log by its
    /// name.
    pub(crate) fn open_same(&self, purpose: ConnectionUse) -> Result<Connection, QueryError> {
        self.file.check_all_identities()?;
        let connection = open_and_access(self, purpose)?;
        self.file.check_all_identities()?;
        Ok(connection)
    }

    /// Opens a connection to an existing file.
    pub(crate) fn open(&self, purpose: ConnectionUse) -> rusqlite::Result<Connection> {
        let file = &self.file.path;
        // Before SQLite creates it.
        let has_log = self.file.has_log();
        let mut connection = match self.mode {
            OpenMode::Immutable => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(immutable_uri(file), flags | NO_MUTEX)?
            }
            OpenMode::ReadOnly => {
                Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | NO_MUTEX)?
            }
            OpenMode::Shared => {
                Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE | NO_MUTEX)?
            }
        };
        if purpose == ConnectionUse::Exclusive {
            // The first access fails immediately if another process holds a lock.
            connection.busy_timeout(Duration::ZERO)?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        } else {
            wait_when_busy(&mut connection, BUSY_TIMEOUT)?;
        }
        // The file may belong to another program, so closing it must not add or remove a file.
        keep_log_on_close(&connection, has_log)?;
        configure(&connection)?;
        if purpose == ConnectionUse::WriteUnsynced {
            connection.pragma_update(None, "synchronous", "NORMAL")?;
        }
        if self.file.guard.is_some() {
            // A free page must not hold an old row with a valid checksum, such as a token before
            // its revocation.
            connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        }
        // A reader of the log opens the file for writing, so this protects the data.
        connection.pragma_update(None, "query_only", purpose == ConnectionUse::Read)?;
        Ok(connection)
    }
}

/// True if no log can be created for the database, so that it can only be read as immutable.
pub(crate) fn needs_immutable_mode(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn immutable_uri(file: &Path) -> String {
    let mut uri = "file:".to_owned();
    // Unescaped, `?`, `#` and `%` in a path would have a meaning in the URI.
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            _ => uri.extend(format!("%{byte:02x}").chars()),
        }
    }
    uri + "?mode=ro&immutable=1"
}

/// Runs work on a thread that may block.
pub(crate) async fn run_blocking<T: Send + 'static, E: Into<QueryError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> StoreResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(call_error),
        Err(error) => Err(StoreError::Internal(error.to_string())),
    }
}

/// Pool of read connections. A read on the caller's thread never waits: if the database is busy, it
/// is repeated on a thread that may block.
#[derive(Debug)]
pub(crate) struct ReadPool {
    files: Arc<OpenFiles>,
    idle: Mutex<Vec<Connection>>,
    large_reads: Arc<Semaphore>,
}

/// The open database, and what is known about its damage.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    pub(crate) connector: Connector,
    pub(crate) damage: Arc<DamageState>,
}

impl ReadPool {
    pub(crate) fn new(files: Arc<OpenFiles>) -> Self {
        let large_reads = Arc::new(Semaphore::new(MAX_LARGE_READS));
        Self { files, idle: Mutex::default(), large_reads }
    }

    /// Runs queries on one state: few rows on the caller's thread.
    pub(crate) async fn read(self: &Arc<Self>, queries: &[RowQuery]) -> StoreResult<QueriedRows> {
        if self.files.connector.file.guard.is_some() {
            return Ok(self.read_on_connection(true, queries, usize::MAX)?.unwrap_or_default());
        }
        if is_small(queries) {
            match self.read_on_connection(false, queries, INLINE_ROWS) {
                Ok(Some(rows)) => return Ok(rows),
                // The caller's thread must not wait for locks.
                Ok(None) | Err(StoreError::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let permit = Arc::clone(&self.large_reads).acquire_owned().await;
        let permit = permit.map_err(|error| StoreError::Internal(error.to_string()))?;
        let (pool, queries) = (Arc::clone(self), queries.to_vec());
        run_blocking(move || {
            let _permit = permit;
            pool.read_on_connection(true, &queries, usize::MAX)
        })
        .await
        .map(Option::unwrap_or_default)
    }

    fn read_on_connection(
        &self,
        may_wait: bool,
        queries: &[RowQuery],
        max_rows: usize,
    ) -> StoreResult<Option<QueriedRows>> {
        let OpenFiles { connector, damage } = &*self.files;
        // Also for reads: a deleted file would be read as if nothing had happened.
        connector.file.check_identity()?;
        let connection = self.take_connection(may_wait);
        let connection = connection.map_err(|error| damage.record(error))?;
        let rows = match read_one_state(&connection, queries, max_rows) {
            Ok(rows) => rows,
            // The connection is dropped after an error.
            Err(QueryError::Sql(error)) if is_busy(&error) => return Err(call_error(error)),
            Err(error) => {
                // Explains the error better than SQLite's own message.
                let format = connector.file.schema.format.check(&connection, DATABASE_NAME);
                format.map_err(|error| damage.record(error))?;
                let reason = damage.record(error);
                let schema = check_objects(&connector.file, &connection);
                return Err(schema.map_err(|error| damage.record(error)).err().unwrap_or(reason));
            }
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
        Ok(rows)
    }

    fn take_connection(&self, may_wait: bool) -> Result<Connection, QueryError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.files.connector.open_same(ConnectionUse::Read)?,
        };
        // A connection of the pool keeps the timeout of its last use.
        if may_wait {
            wait_when_busy(&mut connection, BUSY_TIMEOUT)?;
        } else {
            connection.busy_timeout(Duration::ZERO)?;
        }
        Ok(connection)
    }
}

/// True if reading few rows answers the queries, or shows that there are more.
fn is_small(queries: &[RowQuery]) -> bool {
    let mut rows = 0;
    for query in queries {
        // Keys that miss more than the part of a text have several rows.
        let is_list = query.columns.len() + 1 < query.table.key_width;
        rows += query.tuples.len() * if is_list { ROWS_OF_LIST } else { 1 };
        let is_short = query.limit.is_none_or(|limit| limit <= INLINE_ROWS);
        // Within a document, all rows are few.
        let is_local = query.columns.len() > 2;
        if !is_short || !(is_local || QueryPlan::of(query).is_exact) {
            return false;
        }
    }
    rows <= INLINE_ROWS
}

/// Several statements need a transaction to see one state.
fn read_one_state(
    connection: &Connection,
    queries: &[RowQuery],
    max_rows: usize,
) -> Result<Option<QueriedRows>, QueryError> {
    if let [query] = queries
        && query.tuples.len() <= 1
    {
        return rows::select(connection, queries, max_rows);
    }
    connection.prepare_cached("BEGIN")?.execute([])?;
    let found = rows::select(connection, queries, max_rows)?;
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(found)
}
