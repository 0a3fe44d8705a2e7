//! Connections to the database, and the pool of those that read.
//!
//! `PRAGMA` settings belong to one connection, so every connection is opened here.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_sqlite_team::connection::{configure, keep_log_on_close, wait_when_busy};
use reqlore_sqlite_team::error::refused;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::Semaphore;

use crate::error::{DATABASE, Failed, WAIT, call_failed};
use crate::place::Place;
use crate::read;

/// In KiB: enough for the inner pages of some hundred thousand documents.
const CACHE: i64 = 16 * 1024;
/// Connections that stay open between reads.
const MAX_IDLE: usize = 4;
/// Large reads that run at once.
const MAX_LARGE_READS: usize = 4;
/// At most this many documents or words are read on the caller's thread.
pub(crate) const INLINE_LIMIT: usize = 16;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Write,
    Read,
    /// Fails if another process has the database open.
    Alone,
}

/// Opens connections to one database.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) place: Arc<Place>,
    pub(crate) mode: Mode,
}

/// How the files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For reading and writing; other processes may write too.
    Shared,
    /// For reading; other processes may write.
    ReadOnly,
    /// For reading; SQLite assumes that no process writes.
    Frozen,
}

impl Connector {
    /// A connection for writing creates a missing file.
    pub(crate) fn open(&self, purpose: Use) -> rusqlite::Result<Connection> {
        let file = &self.place.file;
        let mut connection = match self.mode {
            Mode::Frozen => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(immutable_uri(file), flags)?
            }
            Mode::ReadOnly => Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
            Mode::Shared => {
                let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
                flags.set(OpenFlags::SQLITE_OPEN_CREATE, purpose == Use::Write);
                Connection::open_with_flags(file, flags)?
            }
        };
        if purpose == Use::Alone {
            connection.busy_timeout(Duration::ZERO)?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        } else {
            wait_when_busy(&mut connection, WAIT)?;
        }
        // Closing a file that is not known to be ours yet must not change it.
        let keep_log = purpose != Use::Read && self.place.has_unmoved_log();
        keep_log_on_close(&connection, keep_log)?;
        configure(&connection, CACHE)?;
        connection.pragma_update(None, "query_only", purpose == Use::Read)?;
        Ok(connection)
    }
}

/// True if the database can only be read as immutable, because no file can be created next to it.
pub(crate) fn needs_freezing(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn immutable_uri(file: &Path) -> String {
    let mut uri = "file:".to_owned();
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

/// Runs `act` on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static, E: Into<Failed> + Send + 'static>(
    act: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> StoreResult<T> {
    let done = tokio::task::spawn_blocking(act).await;
    done.map_err(|error| StoreError::Internal(error.to_string()))?.map_err(call_failed)
}

/// Connections for reading. A read on the caller's thread never waits: when the database is busy it
/// runs again on a thread that may block.
#[derive(Debug)]
pub(crate) struct Pool {
    connector: Connector,
    /// The schema that this process opened.
    schema: usize,
    idle: Mutex<Vec<Connection>>,
    large_reads: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(connector: Connector, schema: usize) -> Self {
        let large_reads = Arc::new(Semaphore::new(MAX_LARGE_READS));
        Self { connector, schema, idle: Mutex::default(), large_reads }
    }

    /// Reads this many values by a statement each; a few of them on the caller's thread.
    pub(crate) async fn sized<T: Send + 'static>(
        self: &Arc<Self>,
        count: usize,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        match count {
            // One statement sees one snapshot by itself.
            ..=1 => self.single(read).await,
            2..=INLINE_LIMIT => self.small(read).await,
            _ => self.large(read).await,
        }
    }

    /// Reads on the caller's thread, from one snapshot.
    pub(crate) async fn small<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        self.single(move |connection| in_snapshot(connection, &read)).await
    }

    /// Runs one statement, which needs no transaction, on the caller's thread.
    pub(crate) async fn single<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        match self.read(false, &read) {
            Err(StoreError::Busy { .. }) => self.blocking(read).await,
            done => done,
        }
    }

    /// Reads on a thread that may block, from one snapshot.
    pub(crate) async fn large<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        self.blocking(move |connection| in_snapshot(connection, &read)).await
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        let permit = Arc::clone(&self.large_reads).acquire_owned().await;
        let permit = permit.map_err(|error| StoreError::Internal(error.to_string()))?;
        let pool = Arc::clone(self);
        blocking(move || {
            let _permit = permit;
            pool.read(true, &read)
        })
        .await
    }

    fn read<T>(
        &self,
        may_wait: bool,
        read: &impl Fn(&Connection) -> Result<T, Failed>,
    ) -> StoreResult<T> {
        self.connector.place.check()?;
        let connection = self.take(may_wait).map_err(call_failed)?;
        // A connection is closed after an error.
        let found = read(&connection).map_err(|failed| {
            let has_newer_format = read::is_current(&connection, self.schema) == Ok(false);
            call_failed(if has_newer_format { taken_over() } else { failed })
        })?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
        Ok(found)
    }

    fn take(&self, may_wait: bool) -> rusqlite::Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = idle.map_or_else(|| self.connector.open(Use::Read), Ok)?;
        if may_wait {
            wait_when_busy(&mut connection, WAIT)?;
        } else {
            connection.busy_timeout(Duration::ZERO)?;
        }
        Ok(connection)
    }
}

fn taken_over() -> Failed {
    let reason = "was brought to another version by another reqlore; start this one again";
    refused(DATABASE, reason).into()
}

/// All statements of `read` see the same state.
fn in_snapshot<T>(
    connection: &Connection,
    read: &impl Fn(&Connection) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let transaction = connection.unchecked_transaction()?;
    let found = read(&transaction)?;
    transaction.commit()?;
    Ok(found)
}
