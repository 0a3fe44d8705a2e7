//! A database of its own for the team data of a file project.
//!
//! The log (`-wal`) and the index (`-shm`) beside it are never removed, so that the owner of the
//! files can recognize them. This process must not open these files by other means: closing such a
//! descriptor would release SQLite's locks.

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::connection::{configure, is_too_old, keep_log_on_close, wait_when_busy};
use crate::error::{DatabaseError, refused};

/// A connection, for callers that do not depend on SQLite themselves.
pub type TeamConnection = Connection;

/// Marks the file's header: `Rqlt`.
const APPLICATION: i32 = 0x5271_6c74;
const SCHEMA: i32 = 1;
const TABLES: &str = include_str!("team.sql");
const CACHE_KIB: i64 = 4 * 1024;
/// Connections for reading: about as many as there are threads that serve requests.
const READERS: usize = 4;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks that the files of an open database are still its own.
pub trait FileGuard: Debug + Send + Sync {
    /// Runs before a read, and before and after the commit of a write.
    fn check(&self, is_write: bool) -> StoreResult<()>;
}

#[derive(Debug)]
pub struct TeamDatabase {
    /// The name of the file in messages.
    place: &'static str,
    writer: Mutex<Connection>,
    /// Empty where one connection does both.
    readers: Vec<Mutex<Connection>>,
    /// `None` for data in memory.
    guard: Option<Box<dyn FileGuard>>,
}

impl TeamDatabase {
    /// Writes a complete database into an empty file, with rows that `fill` inserts. Does not sync.
    pub fn create(
        path: &Path,
        place: &'static str,
        fill: impl FnOnce(&Connection) -> Result<(), DatabaseError>,
    ) -> StoreResult<()> {
        let create = || {
            let mut connection = Connection::open(path)?;
            // The file counts only when it is complete and synced by the caller.
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
            let transaction = connection.transaction()?;
            transaction.execute_batch(TABLES)?;
            fill(&transaction)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", SCHEMA)?;
            transaction.commit()?;
            let mut mode = String::new();
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| {
                mode = row.get(0)?;
                Ok(())
            })?;
            if mode != "wal" {
                let reason = "needs a file system whose memory processes can share; put the \
                              project on a disk of this machine";
                return Err(refused(place, reason).into());
            }
            connection.close().map_err(|(_, error)| error.into())
        };
        create().map_err(|error: DatabaseError| error.into_store_error(place))
    }

    /// Data that is read from elsewhere and never stored.
    pub fn in_memory(
        place: &'static str,
        fill: impl FnOnce(&Connection) -> Result<(), DatabaseError>,
    ) -> StoreResult<Self> {
        let create = || {
            let connection = Connection::open_in_memory()?;
            connection.execute_batch(TABLES)?;
            fill(&connection)?;
            connection.pragma_update(None, "query_only", true)?;
            Ok(Self { place, writer: Mutex::new(connection), readers: Vec::new(), guard: None })
        };
        create().map_err(|error: DatabaseError| error.into_store_error(place))
    }

    /// Opens a database that [`TeamDatabase::create`] made.
    pub fn open(
        file: &Path,
        place: &'static str,
        read_only: bool,
        guard: Box<dyn FileGuard>,
    ) -> StoreResult<Self> {
        if is_too_old(rusqlite::version_number()) {
            let version = rusqlite::version();
            let reason = format!("is not safe with SQLite {version}; build reqlore with its own");
            return Err(refused(place, reason));
        }
        guard.check(true)?;
        let open = || {
            let writer = connect(file, read_only)?;
            check_schema(&writer, place)?;
            let count = if read_only { 0 } else { READERS };
            let reader = |_| connect(file, true).map(Mutex::new);
            let readers = (0..count).map(reader).collect::<Result<_, _>>()?;
            guard.check(true)?;
            Ok(Self { place, writer: Mutex::new(writer), readers, guard: Some(guard) })
        };
        open().map_err(|error: DatabaseError| error.into_store_error(place))
    }

    /// False for data that is only in memory.
    pub fn is_stored(&self) -> bool {
        self.guard.is_some()
    }

    fn check(&self, is_write: bool) -> StoreResult<()> {
        self.guard.as_ref().map_or(Ok(()), |guard| guard.check(is_write))
    }

    /// Reads at one moment.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        let connection = lock(self.readers.first().unwrap_or(&self.writer));
        self.read_on(&connection, |connection| {
            let transaction = connection.unchecked_transaction()?;
            let found = read(&transaction)?;
            transaction.commit()?;
            Ok(found)
        })
    }

    /// Runs one statement, which needs no transaction, without waiting for another thread.
    pub fn try_read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> Option<StoreResult<T>> {
        let connection = if self.readers.is_empty() {
            try_lock(&self.writer)?
        } else {
            // The first one may be reading for long.
            self.readers.iter().rev().find_map(try_lock)?
        };
        Some(self.read_on(&connection, read))
    }

    fn read_on<T>(
        &self,
        connection: &Connection,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        let run = || {
            self.check(false)?;
            read(connection)
        };
        run().map_err(|error: DatabaseError| error.into_store_error(self.place))
    }

    /// Writes in one transaction, which is synced.
    pub fn write<T>(
        &self,
        write: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.write_on(&mut lock(&self.writer), write)
    }

    /// The same without the sync: a power cut may undo it, but no kill of a process.
    pub fn write_unsynced(
        &self,
        write: impl FnOnce(&Connection) -> Result<(), DatabaseError>,
    ) -> StoreResult<()> {
        let mut connection = lock(&self.writer);
        let set = |connection: &Connection, level: &str| {
            let set = connection.pragma_update(None, "synchronous", level);
            set.map_err(|error| DatabaseError::from(error).into_store_error(self.place))
        };
        set(&connection, "NORMAL")?;
        let written = self.write_on(&mut connection, write);
        set(&connection, "FULL").and(written)
    }

    fn write_on<T>(
        &self,
        connection: &mut Connection,
        write: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        let run = || {
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior)?;
            let written = write(&transaction)?;
            self.check(true)?;
            transaction.commit()?;
            Ok(written)
        };
        let written = run().map_err(|error: DatabaseError| error.into_store_error(self.place))?;
        self.check(true).map_err(|error| StoreError::Unavailable {
            place: self.place.to_owned(),
            reason: format!(
                "was replaced while it was written, so the change may be lost: {error}"
            ),
            source: None,
        })?;
        Ok(written)
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock(connection: &Mutex<Connection>) -> Option<MutexGuard<'_, Connection>> {
    match connection.try_lock() {
        Ok(connection) => Some(connection),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn connect(file: &Path, read_only: bool) -> Result<Connection, DatabaseError> {
    let access = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let access = if read_only { OpenFlags::SQLITE_OPEN_READ_ONLY } else { access };
    let mut connection = Connection::open_with_flags(file, access)?;
    wait_when_busy(&mut connection, BUSY_TIMEOUT)?;
    keep_log_on_close(&connection, true)?;
    configure(&connection, CACHE_KIB)?;
    connection.pragma_update(None, "query_only", read_only)?;
    Ok(connection)
}

fn check_schema(connection: &Connection, place: &str) -> Result<(), DatabaseError> {
    let header = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    match (header("application_id")?, header("user_version")?) {
        (APPLICATION, SCHEMA) => Ok(()),
        (APPLICATION, version) if version > SCHEMA => {
            let reason = format!("was written by a newer version ({version}); update Reqlore");
            Err(refused(place, reason).into())
        }
        _ => Err(refused(place, "is not a team database; restore it from a backup").into()),
    }
}
