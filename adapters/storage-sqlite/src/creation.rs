//! Creates a database.

use std::fs;
use std::path::Path;

use reqlore_domain::audit_log::ChainHead;
use reqlore_durable_fs as durable_fs;
use reqlore_row_store::row::RowChange;
use reqlore_row_store::tables::STORE;
use reqlore_row_store::{METADATA_FORMAT, StoreRow};
use rusqlite::{Connection, OpenFlags};

use crate::commit_count::{CommitCount, sibling_path};
use crate::database_file::{DatabaseFile, create_empty};
use crate::error::{QueryError, io_error};
use crate::rows;
use crate::schema::PROTECT_AUDIT;
use crate::settings::{configure, enable_wal};
use crate::statements::{COMMIT_COUNTER, create_text};

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
    durable_fs::open_to_sync(&unfinished).and_then(|file| file.sync_all()).map_err(io_failed)?;
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
    enable_wal(&file.shown_path, &connection)?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(count)
}
