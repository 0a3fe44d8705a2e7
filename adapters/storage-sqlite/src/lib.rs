//! Driver of the row store for one SQLite file that several processes of one machine may use at
//! once.
//!
//! Only SQLite may open the files: closing another descriptor would drop its locks.

mod blocking;
mod commit_count;
mod connection;
mod creation;
mod damage;
mod database;
mod database_file;
mod error;
mod integrity_check;
mod loss;
mod rows;
mod schema;
mod session;
mod settings;
mod statements;
pub mod team;
mod torn_copy;

use std::path::Path;
use std::sync::Arc;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_row_store::{RowStore, StoreRow};
use rusqlite::Connection;

pub use database_file::SqliteConfig;
pub use error::RESTORE_HINT;
pub use loss::accept_loss;

use connection::open_and_access;
use connection::{ConnectionUse, Connector, OpenFiles, OpenMode, needs_immutable_mode};
use damage::DamageState;
use database::SqliteDatabase;
use database_file::DatabaseFile;
use error::{QueryError, io_error, refused};
use integrity_check::IntegrityCheck;
use loss::{MISSING_LOG, loss_error};
use settings::{enable_wal, is_too_old, keep_log_on_close};

/// The outcome of a read-only open.
#[derive(Debug)]
pub enum ReadOnlyOpen {
    Open(RowStore),
    /// The last process did not close it, and its log cannot be read without a recovery.
    NeedsRecovery,
}

/// Opens the database, or creates it if it is missing. Blocks for a few milliseconds.
pub fn open(config: &SqliteConfig) -> StoreResult<RowStore> {
    let (connector, connection) = open_for_writing(&config.file)?;
    start(connector, connection)
}

/// Opens the database, or creates it if it is missing. Returns the writer's connection.
fn open_for_writing(path: &Path) -> StoreResult<(Connector, Connection)> {
    let file = Arc::new(DatabaseFile::prepare(path)?);
    let shown_path = file.shown_path.clone();
    let mut connector = Connector { file: Arc::clone(&file), mode: OpenMode::Shared };
    let opened = create_and_connect(&mut connector);
    let connection = opened.map_err(|failed| torn_copy::explain(&file, failed))?;
    if connector.mode == OpenMode::Immutable {
        tracing::warn!(
            file = shown_path,
            "the database is read-only; changes by other processes show after a restart"
        );
    }
    Ok((connector, connection))
}

/// Fails if files next to a missing database show that it was lost. Changes nothing.
pub fn check_never_used(config: &SqliteConfig) -> StoreResult<()> {
    // A missing folder has no such files, and would be created.
    if !config.file.parent().is_some_and(Path::is_dir) {
        return Ok(());
    }
    DatabaseFile::prepare(&config.file)?.check_never_used()
}

/// Opens an existing database for reading, without creating or recovering it.
///
/// To read a log, SQLite changes the shared memory file. So a database with an empty log is read as
/// immutable. Such a read may fail once if another process begins to write.
pub fn open_read_only(config: &SqliteConfig) -> StoreResult<ReadOnlyOpen> {
    let file = Arc::new(DatabaseFile::prepare(&config.file)?);
    let mode = match (file.has_pending_log(), file.has_shared_memory()) {
        (false, _) => OpenMode::Immutable,
        (true, true) => OpenMode::ReadOnly,
        (true, false) => return Ok(ReadOnlyOpen::NeedsRecovery),
    };
    let connector = Connector { file: Arc::clone(&file), mode };
    let connection =
        open_existing(&connector).map_err(|failed| torn_copy::explain(&file, failed))?;
    Ok(ReadOnlyOpen::Open(start(connector, connection)?))
}

fn start(connector: Connector, connection: Connection) -> StoreResult<RowStore> {
    let row = store_row(&connector.file, &connection)?;
    let database = start_database(connector, connection)?;
    let damage = database.known_damage();
    RowStore::start_with(Arc::new(database), &row, damage)
}

/// Reads the row about the database. Fails for an incomplete database.
fn store_row(file: &Arc<DatabaseFile>, connection: &Connection) -> StoreResult<StoreRow> {
    let row = schema::read_store_row(connection)
        .map_err(|failed| file.name_path(torn_copy::explain(file, failed)))?;
    row.check_complete().map_err(|error| file.name_path(error))?;
    Ok(row)
}

fn start_database(connector: Connector, connection: Connection) -> StoreResult<SqliteDatabase> {
    let file = Arc::clone(&connector.file);
    file.record_identity();
    let damage = Arc::new(DamageState::new(&file.name()));
    let check = IntegrityCheck::start(&connector, &damage);
    let check =
        check.map_err(|error| io_error(&file.shown_path, "start a thread for it", error))?;
    Ok(SqliteDatabase::new(Arc::new(OpenFiles { connector, damage }), check, connection))
}

/// Returns the writer's connection.
fn create_and_connect(connector: &mut Connector) -> Result<Connection, QueryError> {
    if !connector.file.exists() {
        creation::create_database(&connector.file)?;
    }
    connect_for_writing(connector)
}

/// Opens an existing database and checks it. The file does not change before it is recognized as
/// ours.
fn connect_for_writing(connector: &mut Connector) -> Result<Connection, QueryError> {
    let connection = connect(connector)?;
    let file = &connector.file;
    file.schema.format.check(&connection, &file.shown_path)?;
    if let Some(loss) = loss::find_loss(file, &connection)? {
        return Err(loss_error(file, &loss).into());
    }
    if !connection.is_readonly("main")? {
        // A database without its log is refused, so closing it must not remove the log.
        keep_log_on_close(&connection, true)?;
        enable_wal(&file.shown_path, &connection)?;
        // Not written here: the last commit of a killed process may not be synced yet, and the side
        // file must not lead.
        file.open_commits()?;
        // A process that was killed may have created the files without syncing their names.
        file.sync_folder()?;
    }
    Ok(connection)
}

/// Opens an existing database, as immutable if it can only be read.
fn connect(connector: &mut Connector) -> Result<Connection, QueryError> {
    let file = Arc::clone(&connector.file);
    if is_too_old(rusqlite::version_number()) {
        let reason = format!(
            "cannot be opened: SQLite {} may lose commits; build reqlore with its bundled SQLite",
            rusqlite::version()
        );
        return Err(refused(&file.shown_path, reason).into());
    }
    if loss::is_log_missing(&file)? {
        return Err(loss_error(&file, MISSING_LOG).into());
    }
    if file.has_pending_log() {
        torn_copy::check_log(&file)?;
    }
    match open_and_access(connector, ConnectionUse::Write) {
        Err(error) if needs_immutable_mode(&error) && file.exists() && !file.has_pending_log() => {
            // File or folder are read-only. Without a log the file alone is complete.
            connector.mode = OpenMode::Immutable;
            Ok(connector.open(ConnectionUse::Write)?)
        }
        result => Ok(result?),
    }
}

/// Opens a database for reading.
fn open_existing(connector: &Connector) -> Result<Connection, QueryError> {
    let file = &connector.file;
    if loss::is_log_missing(file)? {
        return Err(loss_error(file, MISSING_LOG).into());
    }
    let connection = connector.open(ConnectionUse::Read)?;
    // Before the tables are read, which another schema may not have.
    file.schema.format.check(&connection, &file.shown_path)?;
    if let Some(loss) = loss::find_loss(file, &connection)? {
        return Err(loss_error(file, &loss).into());
    }
    Ok(connection)
}

#[cfg(test)]
mod tests;
