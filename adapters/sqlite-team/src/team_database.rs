//! The database for the team data of a file project.
//!
//! Its log (`-wal`) and index (`-shm`) are never removed, so that the owner of the files can
//! recognize them. This process must not open the files in another way: closing such a descriptor
//! would release SQLite's locks.

use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::connection::{configure, is_too_old, keep_log_on_close, wait_when_busy};
use crate::error::{DatabaseError, LOSS_HINT, refused};
use crate::team_schema;

/// A connection, for callers without a dependency on SQLite.
pub type TeamConnection = Connection;

/// Number of read connections: about the number of threads that serve requests.
const READ_CONNECTIONS: usize = 4;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks that the files of an open database are still its own.
pub trait FileGuard: Debug + Send + Sync {
    /// Called before each read, and before and after the commit of each write.
    fn check(&self, is_write: bool) -> StoreResult<()>;

    /// The number of the last recorded commit. It may be lower than that of the last commit, after
    /// a kill or a power cut, but never higher.
    fn recorded_commits(&self) -> StoreResult<u64>;

    /// Records the number of a synced commit, without a sync.
    fn record_commit(&self, number: u64);
}

#[derive(Debug)]
pub struct TeamDatabase {
    /// Name of the file in messages.
    place: &'static str,
    writer: Mutex<Connection>,
    /// Empty if the writer's connection also reads.
    readers: Vec<Mutex<Connection>>,
    /// `None` for a database in memory.
    guard: Option<Box<dyn FileGuard>>,
    /// The damage that the first write or any call found. No write is accepted after it.
    damage: OnceLock<String>,
    is_checked: AtomicBool,
}

impl TeamDatabase {
    /// Makes an empty file a database without rows. Does not sync.
    pub fn create(path: &Path, place: &'static str) -> StoreResult<()> {
        create_file(path, place).map_err(|error| error.into_store_error(place))
    }

    /// Opens a database that was created by [`TeamDatabase::create`].
    pub fn open(
        file: &Path,
        place: &'static str,
        read_only: bool,
        guard: Box<dyn FileGuard>,
    ) -> StoreResult<Self> {
        if is_too_old(rusqlite::version_number()) {
            let version = rusqlite::version();
            let reason = format!(
                "cannot be opened: SQLite {version} may lose commits; build reqlore with its \
                 bundled SQLite"
            );
            return Err(refused(place, reason));
        }
        guard.check(true)?;
        let (writer, readers) = open_connections(file, place, read_only, &*guard)
            .map_err(|error| error.into_store_error(place))?;
        // The files may have been replaced while they were opened.
        guard.check(true)?;
        Ok(Self::new(place, writer, readers, Some(guard)))
    }

    fn new(
        place: &'static str,
        writer: Connection,
        readers: Vec<Mutex<Connection>>,
        guard: Option<Box<dyn FileGuard>>,
    ) -> Self {
        let writer = Mutex::new(writer);
        let (damage, is_checked) = (OnceLock::new(), AtomicBool::new(false));
        Self { place, writer, readers, guard, damage, is_checked }
    }

    /// The damage because of which writes are refused until a restart.
    pub fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    fn check(&self, is_write: bool) -> StoreResult<()> {
        match &self.guard {
            Some(guard) => guard.check(is_write),
            None => Ok(()),
        }
    }

    /// Reads one snapshot of rows that must be complete. The first call checks all pages: a
    /// damaged page may hide rows, while each row that is read is verified.
    pub fn read_checked<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.read(|connection| {
            self.check_once(connection)?;
            read(connection)
        })
    }

    /// Returns the damaged pages, indexes and rows, at most 100.
    pub fn find_damage(&self) -> StoreResult<Vec<String>> {
        self.read(team_schema::find_damage)
    }

    /// Reads one snapshot.
    pub fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        let connection = lock(self.readers.first().unwrap_or(&self.writer));
        self.read_on(&connection, |connection| {
            let transaction = connection.unchecked_transaction()?;
            let result = read(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Runs one statement, which needs no transaction, without waiting for other threads. Returns
    /// `None` if all connections are in use.
    pub fn try_read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> Option<StoreResult<T>> {
        let connection = if self.readers.is_empty() {
            try_lock(&self.writer)?
        } else {
            // `read` uses the first connection, possibly for a long time.
            self.readers.iter().rev().find_map(try_lock)?
        };
        Some(self.read_on(&connection, read))
    }

    fn read_on<T>(
        &self,
        connection: &Connection,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.check(false)?;
        read(connection).map_err(|error| self.note_error(error))
    }

    /// Writes in one transaction and syncs it.
    pub fn write<T>(
        &self,
        write: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        self.write_on(&mut lock(&self.writer), true, write)
    }

    /// Writes in one transaction without a sync. A power cut may undo it, a killed process cannot.
    pub fn write_unsynced(
        &self,
        write: impl FnOnce(&Connection) -> Result<(), DatabaseError>,
    ) -> StoreResult<()> {
        let mut connection = lock(&self.writer);
        self.set_synchronous(&connection, "NORMAL")?;
        let result = self.write_on(&mut connection, false, write);
        // Restored after a failed write too, because later writes must be synced.
        self.set_synchronous(&connection, "FULL")?;
        result
    }

    fn set_synchronous(&self, connection: &Connection, level: &str) -> StoreResult<()> {
        connection
            .pragma_update(None, "synchronous", level)
            .map_err(|error| DatabaseError::from(error).into_store_error(self.place))
    }

    fn write_on<T>(
        &self,
        connection: &mut Connection,
        is_synced: bool,
        write: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> StoreResult<T> {
        let (result, number) = self
            .check_before_write(connection)
            .and_then(|()| self.write_transaction(connection, write))
            .map_err(|error| self.note_error(error))?;
        // A commit that was not synced may be lost, so its number is not recorded. The next synced
        // commit counts both.
        if let Some(guard) = self.guard.as_ref().filter(|_| is_synced) {
            guard.record_commit(number);
        }
        // A commit to a file that lost its name is not durable under this name.
        self.check(true).map_err(|error| StoreError::Unavailable {
            place: self.place.to_owned(),
            reason: format!("was replaced during a write, so the change may be lost: {error}"),
            source: None,
        })?;
        Ok(result)
    }

    fn write_transaction<T>(
        &self,
        connection: &mut Connection,
        write: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> Result<(T, u64), DatabaseError> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = write(&transaction)?;
        let number = team_schema::count_commit(&transaction)?;
        self.check(true)?;
        transaction.commit()?;
        Ok((result, number))
    }

    /// Checks pages and rows before the first write, and refuses each write after damage.
    fn check_before_write(&self, connection: &Connection) -> Result<(), DatabaseError> {
        if let Some(damage) = self.damage() {
            let reason = format!("{damage}, so writes are refused until a restart");
            return Err(StoreError::Unreadable { place: self.place.to_owned(), reason }.into());
        }
        self.check_once(connection)
    }

    fn check_once(&self, connection: &Connection) -> Result<(), DatabaseError> {
        if !self.is_checked.load(Ordering::Relaxed) {
            team_schema::fail_if_damaged(&team_schema::find_damage(connection)?)?;
            self.is_checked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Converts an error. The first damage is logged, and disables writes.
    fn note_error(&self, error: DatabaseError) -> StoreError {
        let is_damage = error.is_damage();
        let error = error.into_store_error(self.place);
        if is_damage
            && let StoreError::Unreadable { reason, .. } = &error
            && self.damage.set(reason.clone()).is_ok()
        {
            tracing::error!(%error, "the team data is damaged, so writes to it are refused");
        }
        error
    }
}

fn create_file(path: &Path, place: &str) -> Result<(), DatabaseError> {
    let mut connection = Connection::open(path)?;
    // The caller uses the file only when it is complete, and syncs it then.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    let transaction = connection.transaction()?;
    team_schema::create_tables(&transaction)?;
    transaction.commit()?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let reason = "needs a file system where processes can share memory; put the project on a \
                      local disk";
        return Err(refused(place, reason).into());
    }
    connection.close().map_err(|(_, error)| error.into())
}

/// Opens the writer's connection and the read connections.
fn open_connections(
    file: &Path,
    place: &str,
    read_only: bool,
    guard: &dyn FileGuard,
) -> Result<(Connection, Vec<Mutex<Connection>>), DatabaseError> {
    let writer = connect(file, read_only)?;
    team_schema::FORMAT.check(&writer, place)?;
    // The file is read first, because other processes commit meanwhile.
    let recorded = guard.recorded_commits()?;
    let commits = team_schema::commits(&writer)?;
    if commits < recorded {
        let reason = format!(
            "lost its last commits: it has {commits} of {recorded}, as after a loss of its -wal \
             file; {LOSS_HINT}"
        );
        return Err(refused(place, reason).into());
    }
    let mut readers = Vec::new();
    if !read_only {
        for _ in 0..READ_CONNECTIONS {
            readers.push(Mutex::new(connect(file, true)?));
        }
    }
    Ok((writer, readers))
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
    let flags = if read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    };
    let mut connection = Connection::open_with_flags(file, flags)?;
    wait_when_busy(&mut connection, BUSY_TIMEOUT)?;
    // The guard knows the log by its identity, so closing must not remove it.
    keep_log_on_close(&connection, true)?;
    configure(&connection, team_schema::CACHE_KIB)?;
    // A free page must not hold an old row with a valid checksum, such as a token before its
    // revocation.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    connection.pragma_update(None, "query_only", read_only)?;
    Ok(connection)
}
