//! Creates a database, or checks it before it is used.
//!
//! A file does not change before it is recognized as ours.

use std::fs;
use std::path::Path;
use std::time::Instant;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::timestamp::Timestamp;
use reqlore_sqlite_team::connection::{BUSY_PAUSE, configure, keep_log_on_close};
use reqlore_sqlite_team::error::{RESTORE_HINT, is_busy, refused, unavailable};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::commit_count::{CommitCount, current_count};
use crate::connection::CACHE_KIB;
use crate::database_file::{DatabaseFile, create_empty, sibling_path};
use crate::error::{BUSY_TIMEOUT, QueryError, io_error};
use crate::integrity_check::refuse_damage;
use crate::tables::STORE;
use crate::{loss, read, write};

/// Application id in the header of our files: `Rqlr`.
pub(crate) const APPLICATION_ID: i32 = 0x5271_6c72;

/// Databases of other schemas are refused.
const SCHEMA_VERSION: i32 = 5;
const CREATE: &str = concat!(
    include_str!("../../sqlite-team/src/tables.sql"),
    include_str!("../../sqlite-metadata/src/tables.sql"),
    include_str!("schema.sql")
);

/// Refuses a database of another program or another schema.
pub(crate) fn check_schema(file: &DatabaseFile, connection: &Connection) -> Result<(), QueryError> {
    // One statement, because another process may be creating the database.
    let select = "SELECT (SELECT application_id FROM pragma_application_id), \
                  (SELECT user_version FROM pragma_user_version)";
    match connection.query_one(select, [], |row| Ok((row.get(0)?, row.get(1)?)))? {
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(()),
        (APPLICATION_ID, version) if version > 0 => {
            let reason = format!(
                "was written by another version of Reqlore (schema {version}, supported: \
                 {SCHEMA_VERSION}); use that version to make a backup, and `reqlore restore` it \
                 into a new database"
            );
            Err(refused(&file.shown_path, reason).into())
        }
        _ => {
            let reason = format!(
                "is a database of another program, or its header is damaged; name another file, \
                 or {RESTORE_HINT}"
            );
            Err(refused(&file.shown_path, reason).into())
        }
    }
}

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
    file.replace_commits(count)?;
    fs::rename(&unfinished, &file.path).map_err(io_failed)?;
    Ok(file.sync_folder()?)
}

/// Makes an empty file a database without documents. Does not sync.
fn fill_database(file: &DatabaseFile, path: &Path) -> Result<CommitCount, QueryError> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    configure(&connection, CACHE_KIB)?;
    // A file that a crash leaves is never read.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(CREATE)?;
    set_metadata_format(&transaction)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    let count = current_count(&transaction)?;
    transaction.commit()?;
    enable_wal(file, &connection)?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(count)
}

/// Checks a database, then derives its metadata again if another version of Reqlore derived it.
pub(crate) fn prepare_database(
    file: &DatabaseFile,
    connection: &mut Connection,
    progress: &dyn ProgressSink,
) -> Result<(), QueryError> {
    check_schema(file, connection)?;
    if let Some(loss) = loss::find_loss(file, connection)? {
        return Err(loss.into_error(file).into());
    }
    let is_readonly = connection.is_readonly("main")?;
    if !is_readonly {
        // A database without its log is refused, so closing it must not remove the log.
        keep_log_on_close(connection, true)?;
        enable_wal(file, connection)?;
    }
    if !read::is_current(connection)? {
        if is_readonly {
            return Err(outdated_metadata(file).into());
        }
        rebuild_metadata(file, connection, progress)?;
    }
    if !is_readonly {
        // Not written here: the last commit of a killed process may not be synced yet, and the side
        // file must not lead.
        file.open_commits()?;
        // A process that was killed may have created the files without syncing their names.
        file.sync_folder()?;
    }
    read::check_complete(&file.shown_path, connection)
}

/// The error of a database that can only be read.
pub(crate) fn outdated_metadata(file: &DatabaseFile) -> StoreError {
    let reason = "has metadata of another version of Reqlore and is read-only; to update it, start \
                  a server that can write it";
    unavailable(&file.shown_path, reason)
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

/// Derives the metadata of all documents from their bodies, in one transaction: a process that is
/// killed leaves the database as it was.
fn rebuild_metadata(
    file: &DatabaseFile,
    connection: &mut Connection,
    progress: &dyn ProgressSink,
) -> Result<(), QueryError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = match transaction {
        Err(error) if is_busy(&error) => return Err(written_elsewhere(file).into()),
        transaction => transaction?,
    };
    // Another process may have done it before this transaction began.
    if read::is_current(&transaction)? {
        return Ok(());
    }
    refuse_damage(&transaction)?;
    let count = "SELECT count(*) FROM documents";
    let total = transaction.query_one(count, [], |row| row.get(0))?;
    reqlore_sqlite_metadata::clear_tables(&transaction)?;
    let (mut last_id, mut done) = (0, 0);
    while let Some(id) = rebuild_next(&transaction, last_id)? {
        last_id = id;
        done += 1;
        progress.progress(done, total, "Updating the metadata (documents)");
    }
    set_metadata_format(&transaction)?;
    Ok(transaction.commit()?)
}

fn written_elsewhere(file: &DatabaseFile) -> StoreError {
    let reason = format!(
        "{} has metadata of another version of Reqlore, and another process is updating it or \
         writing to it. Nothing was changed; start again when that process has finished.",
        file.shown_path
    );
    StoreError::Busy { reason }
}

fn set_metadata_format(connection: &Connection) -> rusqlite::Result<()> {
    let update = STORE.update(&[("heads", "?1")], "one = 1");
    connection.execute(&update, [DocumentMeta::FORMAT]).map(drop)
}

/// Rebuilds the metadata of the first document after the row `last_id`. Returns its row.
fn rebuild_next(connection: &Connection, last: i64) -> Result<Option<i64>, QueryError> {
    let mut select = connection.prepare_cached(
        "SELECT d.kind, d.name, d.version, b.body, d.id, d.project, d.modified \
         FROM documents d LEFT JOIN bodies b ON b.document = d.id \
         WHERE d.id > ?1 ORDER BY d.id LIMIT 1",
    )?;
    let mut rows = select.query([last])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (id, project, modified) = (row.get(4)?, row.get(5)?, Timestamp(row.get(6)?));
    match read::decode_document(row) {
        Ok(document) => {
            let meta = DocumentMeta::from_document(&document, modified);
            write::update_metadata(connection, (id, project), &meta)?;
        }
        // Reads refuse it; all other documents can be served.
        Err(QueryError::Damaged(object)) => {
            tracing::error!(object, "a document is damaged, so its metadata was not rebuilt");
        }
        Err(error) => return Err(error),
    }
    Ok(Some(id))
}
