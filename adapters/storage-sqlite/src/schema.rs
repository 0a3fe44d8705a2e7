//! Creates a database, or checks it before it is used.
//!
//! A file does not change before it is recognized as ours.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use reqlore_domain::audit_log::ChainHead;
use reqlore_domain::document::DocumentMeta;
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::row::{RowChange, RowQuery};
use reqlore_row_store::tables::{STORE, TABLES, TEAM_TABLES, Table};
use reqlore_row_store::{METADATA_FORMAT, StoreRow};
use rusqlite::{Connection, OpenFlags};

use crate::commit_count::CommitCount;
use crate::commit_count::sibling_path;
use crate::database_file::{DatabaseFile, create_empty};
use crate::error::{BUSY_TIMEOUT, QueryError, io_error, is_busy, refused};
use crate::settings::{BUSY_PAUSE, FileFormat, configure, keep_log_on_close};
use crate::statements::COMMIT_COUNTER;
use crate::statements::create_text;
use crate::{loss, rows};

/// The tables of a file, besides the number of its commits.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) format: FileFormat,
    pub(crate) tables: &'static [&'static Table],
}

/// The version: the tables (hundreds) and the metadata in them.
pub(crate) static WHOLE_SCHEMA: Schema = Schema {
    format: FileFormat { application_id: *b"Rqlr", version: 900 + DocumentMeta::FORMAT },
    tables: &TABLES,
};

pub(crate) static TEAM_SCHEMA: Schema =
    Schema { format: FileFormat { application_id: *b"Rqlt", version: 4 }, tables: &TEAM_TABLES };

const PROTECT_AUDIT: &str = "CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit \
                             BEGIN SELECT RAISE(ABORT, 'audit rows are never changed'); END";

/// Creates a missing database. It gets its name when it is complete, so that a crash leaves none
/// that looks empty.
pub(crate) fn create_database(file: &DatabaseFile) -> Result<(), QueryError> {
    let checked = file.check_never_used();
    // Another process may have created it after the caller found none.
    if file.exists() {
        return Ok(());
    }
    checked?;
    let _lock = file.lock_creation()?;
    // Again, because other processes held the lock until now.
    if file.exists() {
        return Ok(());
    }
    file.check_never_used()?;
    let io_failed = |error| io_error(&file.shown_path, "create it", error);
    let unfinished = sibling_path(&file.path, ".unfinished");
    create_empty(&unfinished).map_err(io_failed)?;
    let count = fill_database(file, &unfinished)?;
    fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(io_failed)?;
    // Before the database, which is refused without it.
    file.replace_commits(&count)?;
    fs::rename(&unfinished, &file.path).map_err(io_failed)?;
    Ok(file.sync_folder()?)
}

/// Makes an empty file a database without documents. Does not sync.
pub(crate) fn fill_database(file: &DatabaseFile, path: &Path) -> Result<CommitCount, QueryError> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    configure(&connection)?;
    // A file that a crash leaves is never read.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    let transaction = connection.transaction()?;
    for table in file.schema.tables.iter().copied().chain([&COMMIT_COUNTER]) {
        transaction.execute_batch(&create_text(table))?;
    }
    transaction.execute_batch(PROTECT_AUDIT)?;
    file.schema.format.write(&transaction)?;
    let count =
        CommitCount::begin().map_err(|error| io_error(&file.shown_path, "name it", error))?;
    count.write(&transaction)?;
    let row = StoreRow {
        state: StoreRow::COMPLETE.to_owned(),
        store_id: count.counter.database_id.0,
        epoch: 0,
        newest_audit: ChainHead::default(),
        metadata_format: METADATA_FORMAT,
    };
    rows::apply(&transaction, &STORE, &[RowChange::Insert(row.encode())])?;
    transaction.commit()?;
    enable_wal(file, &connection)?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(count)
}

/// Checks a database before it is used.
pub(crate) fn prepare_database(
    file: &Arc<DatabaseFile>,
    connection: &Connection,
) -> Result<(), QueryError> {
    file.schema.format.check(connection, &file.shown_path)?;
    if let Some(loss) = loss::find_loss(file, connection)? {
        return Err(loss::loss_error(file, &loss).into());
    }
    if !connection.is_readonly("main")? {
        // A database without its log is refused, so closing it must not remove the log.
        keep_log_on_close(connection, true)?;
        enable_wal(file, connection)?;
        // Not written here: the last commit of a killed process may not be synced yet, and the side
        // file must not lead.
        file.open_commits()?;
        // A process that was killed may have created the files without syncing their names.
        file.sync_folder()?;
    }
    Ok(())
}

/// Fails if a table, an index or the trigger is not as in a new database. SQLite's own check does
/// not miss them.
pub(crate) fn check_objects(
    file: &DatabaseFile,
    connection: &Connection,
) -> Result<(), QueryError> {
    let mut select = connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let found: HashSet<String> =
        select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let tables = file.schema.tables.iter().copied().chain([&COMMIT_COUNTER]);
    let tables: String = tables.map(create_text).collect();
    for statement in tables.split_terminator(';').chain([PROTECT_AUDIT]) {
        if !found.contains(statement) {
            let name = statement.split(' ').nth(2).unwrap_or_default();
            return Err(QueryError::damaged(&format!("its schema: {name}")));
        }
    }
    Ok(())
}

/// Reads what is in the database.
pub(crate) fn read_store_row(connection: &Connection) -> Result<StoreRow, QueryError> {
    let query = RowQuery::keys(&STORE, vec![StoreRow::key()]);
    let rows = rows::select(connection, &[query], ReadLimit::NONE)?.unwrap_or_default();
    Ok(StoreRow::decode(rows.first().map(Vec::as_slice).unwrap_or_default())?)
}

/// Switches to WAL mode. Several processes may create one database at the same time, and SQLite
/// does not wait for locks here.
pub(crate) fn enable_wal(file: &DatabaseFile, connection: &Connection) -> Result<(), QueryError> {
    let start = Instant::now();
    let mode: String = loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)) {
            Err(error) if is_busy(&error) && start.elapsed() <= BUSY_TIMEOUT => {
                std::thread::sleep(BUSY_PAUSE);
            }
            mode => break mode?,
        }
    };
    if mode == "wal" {
        return Ok(());
    }
    let reason = "is on a file system where processes cannot share memory; put it on a local disk";
    Err(refused(&file.shown_path, reason).into())
}
