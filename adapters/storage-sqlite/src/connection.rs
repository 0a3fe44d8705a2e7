//! Connections to the database, and the pool of read connections.
//!
//! `PRAGMA` settings belong to one connection, so every connection must be opened here.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::row::RowQuery;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::blocking::run_blocking;
use crate::damage::DamageState;
use crate::database_file::DatabaseFile;
use crate::error::{BUSY_TIMEOUT, DATABASE_NAME, QueryError, call_error, is_busy};
use crate::rows::{self, QueriedRows};
use crate::settings::{configure, keep_log_on_close, wait_when_busy};
use crate::statements::QueryPlan;

/// Maximum number of connections that stay open between reads.
const MAX_IDLE_CONNECTIONS: usize = 4;
/// Maximum number of large reads that run at the same time.
const MAX_LARGE_READS: usize = 4;
/// Estimated number of rows that begin with a key of a list.
const ROWS_OF_LIST: usize = 5;
/// One thread at a time uses a connection.
const NO_MUTEX: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionUse {
    Write,
    Read,
    /// Fails instead of waiting for locks.
    InlineRead,
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
        set_timeout(&mut connection, purpose)?;
        if purpose == ConnectionUse::Exclusive {
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        // The file may belong to another program, so closing it must not add or remove a file.
        keep_log_on_close(&connection, has_log)?;
        configure(&connection)?;
        if self.file.guard.is_some() {
            // A free page must not hold an old row with a valid checksum, such as a token before
            // its revocation.
            connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        }
        // A reader of the log opens the file for writing, so this protects the data.
        let is_read = matches!(purpose, ConnectionUse::Read | ConnectionUse::InlineRead);
        connection.pragma_update(None, "query_only", is_read)?;
        Ok(connection)
    }
}

fn set_timeout(connection: &mut Connection, purpose: ConnectionUse) -> rusqlite::Result<()> {
    match purpose {
        ConnectionUse::Write | ConnectionUse::Read => wait_when_busy(connection, BUSY_TIMEOUT),
        // The first access fails immediately if another process holds a lock.
        ConnectionUse::InlineRead | ConnectionUse::Exclusive => {
            connection.busy_timeout(Duration::ZERO)
        }
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

/// Pool of read connections. A read on the caller's thread never waits: if the database is busy, it
/// is repeated on a thread that may block. With a guard, that is the thread of the second poll.
#[derive(Debug)]
pub(crate) struct ReadPool {
    files: Arc<OpenFiles>,
    idle: Mutex<Vec<Connection>>,
    large_reads: Arc<Semaphore>,
}

/// The open database and its known damage.
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
        if is_small(queries) {
            match self.read_on_connection(ConnectionUse::InlineRead, queries, ReadLimit::INLINE) {
                Ok(Some(rows)) => return Ok(rows),
                // The caller's thread must not wait for locks.
                Ok(None) | Err(StoreError::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if self.files.connector.file.guard.is_some() {
            // A caller that must not block polls only once.
            yield_now().await;
            let rows = self.read_on_connection(ConnectionUse::Read, queries, ReadLimit::NONE)?;
            return Ok(rows.unwrap_or_default());
        }
        let permit = Arc::clone(&self.large_reads).acquire_owned().await;
        let permit = permit.map_err(|error| StoreError::Internal(error.to_string()))?;
        let (pool, queries) = (Arc::clone(self), queries.to_vec());
        run_blocking(move || {
            let _permit = permit;
            pool.read_on_connection(ConnectionUse::Read, &queries, ReadLimit::NONE)
        })
        .await
        .map(Option::unwrap_or_default)
    }

    fn read_on_connection(
        &self,
        purpose: ConnectionUse,
        queries: &[RowQuery],
        limit: ReadLimit,
    ) -> StoreResult<Option<QueriedRows>> {
        let OpenFiles { connector, damage } = &*self.files;
        // Also for reads: a deleted file would be read as if nothing had happened.
        connector.file.check_identity()?;
        let connection = self.take_connection(purpose);
        let connection = connection.map_err(|error| damage.record(error))?;
        let rows = match read_one_state(&connection, queries, limit) {
            Ok(rows) => rows,
            // The connection is dropped after an error.
            Err(QueryError::Sql(error)) if is_busy(&error) => return Err(call_error(error)),
            Err(error) => {
                // Explains the error better than SQLite's own message.
                let format = connector.file.schema.format.check(&connection, DATABASE_NAME);
                format.map_err(|error| damage.record(error))?;
                let schema = connector.file.schema.check_objects(&connection).err();
                return Err(damage.record(schema.filter(QueryError::is_damage).unwrap_or(error)));
            }
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
        Ok(rows)
    }

    fn take_connection(&self, purpose: ConnectionUse) -> Result<Connection, QueryError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut connection) = idle else { return self.files.connector.open_same(purpose) };
        // It has the timeout of its last use.
        set_timeout(&mut connection, purpose)?;
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
        let is_short = query.limit.is_none_or(|limit| limit <= ReadLimit::INLINE.rows);
        // Within a document, all rows are few.
        let is_local = query.columns.len() > 2;
        if !is_short || !(is_local || QueryPlan::of(query).is_exact) {
            return false;
        }
    }
    rows <= ReadLimit::INLINE.rows
}

/// Several statements need a transaction to see one state.
fn read_one_state(
    connection: &Connection,
    queries: &[RowQuery],
    limit: ReadLimit,
) -> Result<Option<QueriedRows>, QueryError> {
    if let [query] = queries
        && query.tuples.len() <= 1
    {
        return rows::select(connection, queries, limit);
    }
    connection.prepare_cached("BEGIN")?.execute([])?;
    let found = rows::select(connection, queries, limit)?;
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(found)
}

/// Opens a connection and reads from the file: SQLite reports most errors only then.
pub(crate) fn open_and_access(
    connector: &Connector,
    purpose: ConnectionUse,
) -> rusqlite::Result<Connection> {
    let connection = connector.open(purpose)?;
    connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
    Ok(connection)
}
