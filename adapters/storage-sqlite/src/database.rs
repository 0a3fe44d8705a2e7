//! The database as the row store sees it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::damage::KnownDamage;
use reqlore_row_store::database::{Database, DatabaseHealth, ReadLimit, RowSource, WriteSession};
use reqlore_row_store::row::{RowQuery, TableRow};
use rusqlite::Connection;

use crate::blocking::run_blocking;
use crate::connection::{ConnectionUse, OpenFiles, ReadPool};
use crate::damage::CheckStage;
use crate::error::{DATABASE_NAME, QueryError, unavailable};
use crate::integrity_check::{IntegrityCheck, find_file_damage, stage_of};
use crate::rows::{self, QueriedRows};
use crate::session::SqliteSession;

/// An open database.
pub(crate) struct SqliteDatabase {
    _check: IntegrityCheck,
    pool: Arc<ReadPool>,
    files: Arc<OpenFiles>,
    /// The connection that opened the database, for the first session.
    first_connection: Mutex<Option<Connection>>,
}

impl fmt::Debug for SqliteDatabase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SqliteDatabase").finish_non_exhaustive()
    }
}

impl SqliteDatabase {
    pub(crate) fn new(
        files: Arc<OpenFiles>,
        check: IntegrityCheck,
        connection: Connection,
    ) -> Self {
        let pool = Arc::new(ReadPool::new(Arc::clone(&files)));
        let first_connection = Mutex::new(Some(connection));
        Self { _check: check, pool, files, first_connection }
    }

    pub(crate) fn files(&self) -> Arc<OpenFiles> {
        Arc::clone(&self.files)
    }

    pub(crate) fn known_damage(&self) -> Arc<KnownDamage> {
        Arc::clone(&self.files.damage.known)
    }
}

/// The stage that must pass before the answer is believed: damage may hide rows. `None` if each
/// key was found.
fn needed_stage(queries: &[RowQuery], results: &[Vec<TableRow>]) -> Option<CheckStage> {
    let mut needed = None;
    for (query, rows) in queries.iter().zip(results) {
        if !query.is_complete(rows) {
            needed = needed.max(Some(stage_of(query.table)));
        }
    }
    needed
}

#[async_trait]
impl RowSource for SqliteDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<QueriedRows> {
        let results = self.pool.read(&queries).await?;
        if let Some(stage) = needed_stage(&queries, &results) {
            let is_guarded = self.files.connector.file.guard.is_some();
            self.files.damage.wait_for_stage(stage, is_guarded).await?;
        }
        Ok(results)
    }
}

#[async_trait]
impl Database for SqliteDatabase {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        self.files.damage.wait_for_stage(CheckStage::WholeFile, false).await?;
        let files = Arc::clone(&self.files);
        let connection = run_blocking(move || {
            let OpenFiles { connector, damage } = &*files;
            connector.file.check_identity()?;
            let begin = || {
                let connection = connector.open(ConnectionUse::Read)?;
                connection.execute_batch("BEGIN")?;
                // The snapshot starts with the first read.
                connection.query_one("SELECT count(*) FROM store", [], |_| Ok(()))?;
                Ok(connection)
            };
            begin().map_err(|error: rusqlite::Error| damage.record(error.into()))
        });
        let connection = Mutex::new(Some(connection.await?));
        Ok(Box::new(SqliteSnapshot { connection, files: Arc::clone(&self.files) }))
    }

    fn health(&self) -> DatabaseHealth {
        // A missing file stops all writes, but only writes would find that out.
        let check = self.files.connector.file.check_all_identities();
        let problem = check.err().map(|error| error.to_string());
        DatabaseHealth { connections: None, problem }
    }

    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        let files = Arc::clone(&self.files);
        run_blocking(move || find_file_damage(&files.connector)).await
    }

    async fn erase_free_space(&self) -> StoreResult<()> {
        let files = Arc::clone(&self.files);
        run_blocking(move || {
            let connection = files.connector.open(ConnectionUse::Write)?;
            overwrite_free_space(&connection)
        })
        .await
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        let mut first = self.first_connection.lock().unwrap_or_else(PoisonError::into_inner);
        Box::new(SqliteSession::new(Arc::clone(&self.files), first.take()))
    }
}

/// Rewrites the whole file, because deleted bytes and earlier copies stay in free pages and in the
/// log.
fn overwrite_free_space(connection: &Connection) -> Result<(), QueryError> {
    // The rewritten copy may be larger than the memory.
    connection.pragma_update(None, "temp_store", "FILE")?;
    let vacuumed = connection.execute_batch("VACUUM");
    let is_blocked = match &vacuumed {
        // The first column is 1 if another process kept the log from being emptied.
        Ok(()) => connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?,
        Err(_) => true,
    };
    if !is_blocked {
        return Ok(());
    }
    let reason = "the text is erased from the history, but its bytes may remain in the file; stop \
                  other processes, free space on the disk, and purge again";
    Err(unavailable(DATABASE_NAME, reason).into())
}

/// A transaction with the state of the database at its start.
struct SqliteSnapshot {
    /// `None` after an error.
    connection: Mutex<Option<Connection>>,
    files: Arc<OpenFiles>,
}

impl SqliteSnapshot {
    fn replace(&self, connection: Option<Connection>) -> Option<Connection> {
        let mut current = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, connection)
    }
}

#[async_trait]
impl RowSource for SqliteSnapshot {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<QueriedRows> {
        let Some(connection) = self.replace(None) else {
            return Err(StoreError::Internal("the copy was continued after an error".to_owned()));
        };
        let files = Arc::clone(&self.files);
        let read = run_blocking(move || {
            let rows = rows::select(&connection, &queries, ReadLimit::NONE);
            let rows = rows.map_err(|error| files.damage.record(error))?;
            Ok::<_, QueryError>((connection, rows.unwrap_or_default()))
        });
        let (connection, rows) = read.await?;
        self.replace(Some(connection));
        Ok(rows)
    }
}
