//! Creates a database, or checks and migrates it before it is used.
//!
//! A file does not change before it is recognized as ours.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::timestamp::Timestamp;
use reqlore_sqlite_team::connection::{BUSY_PAUSE, configure, keep_log_on_close};
use reqlore_sqlite_team::error::{RESTORE_HINT, is_busy, refused, unavailable};
use reqlore_sqlite_team::whole_file::copy_to_file;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::commit_count::{COUNTED_SCHEMA, CommitCount, current_count};
use crate::connection::{CACHE_KIB, ConnectionUse, Connector};
use crate::database_file::{DatabaseFile, create_empty, sibling_path};
use crate::error::{BUSY_TIMEOUT, QueryError, io_error};
use crate::integrity_check::refuse_damage;
use crate::tables::STORE;
use crate::{loss, read, write};

/// Application id in the header of our files: `Rqlr`.
pub(crate) const APPLICATION_ID: i32 = 0x5271_6c72;

/// Migrations in order: number N migrates schema N to N + 1. Published migrations never change.
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    concat!(
        include_str!("../../sqlite-team/src/add_checksums.sql"),
        include_str!("migrations/0004.sql")
    ),
    concat!(
        include_str!("../../sqlite-metadata/src/tables.sql"),
        include_str!("migrations/0005.sql")
    ),
];

/// Returns the schema version of the database.
pub(crate) fn schema_version(
    file: &DatabaseFile,
    connection: &Connection,
    newest: usize,
) -> Result<usize, QueryError> {
    // One statement, because another process may be migrating the database.
    let select = "SELECT (SELECT application_id FROM pragma_application_id), \
                  (SELECT user_version FROM pragma_user_version)";
    let (application, version): (i32, i32) =
        connection.query_one(select, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let version = usize::try_from(version).unwrap_or_default();
    if application != APPLICATION_ID || version == 0 {
        let reason = format!(
            "is a database of another program, or its header is damaged; name another file, or \
             {RESTORE_HINT}"
        );
        return Err(refused(&file.shown_path, reason).into());
    }
    if version > newest {
        let reason = format!(
            "was written by a newer reqlore (schema {version}, supported: {newest}); update reqlore"
        );
        return Err(refused(&file.shown_path, reason).into());
    }
    Ok(version)
}

/// Creates a missing database. It gets its name when it is complete, so that a crash leaves none
/// that looks empty.
pub(crate) fn create_database(file: &DatabaseFile, migrations: &[&str]) -> Result<(), QueryError> {
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
    let count = fill_database(file, &unfinished, migrations)?;
    fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(io_failed)?;
    if let Some(count) = count {
        // Before the database, which is refused without it.
        file.replace_commits(count)?;
    }
    fs::rename(&unfinished, &file.path).map_err(io_failed)?;
    Ok(file.sync_folder()?)
}

/// Makes an empty file a database without documents. Does not sync. Returns its number of commits
/// if it counts them.
fn fill_database(
    file: &DatabaseFile,
    path: &Path,
    migrations: &[&str],
) -> Result<Option<CommitCount>, QueryError> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    configure(&connection, CACHE_KIB)?;
    // A file that a crash leaves is never read.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    let transaction = connection.transaction()?;
    apply_migrations(&transaction, 0, migrations)?;
    let is_counted = migrations.len() >= COUNTED_SCHEMA;
    let count = is_counted.then(|| current_count(&transaction)).transpose()?;
    transaction.commit()?;
    enable_wal(file, &connection)?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(count)
}

/// Checks a database, then upgrades its contents if an older version of Reqlore wrote them.
pub(crate) fn prepare_database(
    connector: &Connector,
    connection: &mut Connection,
    migrations: &[&str],
    progress: &dyn ProgressSink,
) -> Result<(), QueryError> {
    let file = &connector.file;
    let version = schema_version(file, connection, migrations.len())?;
    if let Some(loss) = loss::find_loss(file, connection, version)? {
        return Err(loss.into_error(file).into());
    }
    let is_readonly = connection.is_readonly("main")?;
    if !is_readonly {
        // A database without its log is refused, so closing it must not remove the log.
        keep_log_on_close(connection, true)?;
        enable_wal(file, connection)?;
    }
    if !read::is_current(connection, migrations.len())? {
        if is_readonly {
            return Err(needs_upgrade(file).into());
        }
        upgrade(connector, connection, migrations, progress)?;
    }
    if !is_readonly {
        // Not written here: the last commit of a killed process may not be synced yet, and the side
        // file must not lead.
        if migrations.len() >= COUNTED_SCHEMA {
            file.open_commits()?;
        }
        // A process that was killed may have created the files without syncing their names.
        file.sync_folder()?;
    }
    read::check_complete(&file.shown_path, connection)
}

fn needs_upgrade(file: &DatabaseFile) -> StoreError {
    let path = &file.shown_path;
    let reason = format!(
        "was written by an older version of reqlore and is read-only; make it writable, or copy it \
         with `reqlore copy --from sqlite:{path} --to sqlite:NEW_FILE` and serve the copy"
    );
    unavailable(path, &reason)
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

/// Copies the database to a file next to it, which gets its name when it is complete.
fn back_up(connector: &Connector, version: usize, progress: &dyn ProgressSink) -> StoreResult<()> {
    let file = &connector.file;
    let copy = sibling_path(&file.path, &format!(".schema-{version}.backup"));
    let unfinished = sibling_path(&file.path, &format!(".schema-{version}.unfinished"));
    create_empty(&unfinished).map_err(|error| backup_error(file, error))?;
    copy_database(connector, &unfinished, progress)
        .map_err(|error| error.into_store_error(&unfinished.display().to_string()))?;
    fs::File::open(&unfinished)
        .and_then(|copied| copied.sync_all())
        .map_err(|error| backup_error(file, error))?;
    fs::rename(&unfinished, &copy).map_err(|error| backup_error(file, error))?;
    // The backup must be on disk before the upgrade changes the database.
    file.sync_folder()?;
    tracing::info!(copy = %copy.display(), "backed up the database before a schema change");
    Ok(())
}

fn backup_error(file: &DatabaseFile, error: io::Error) -> StoreError {
    io_error(&file.shown_path, "back it up before its schema changes", error)
}

fn copy_database(
    connector: &Connector,
    target: &Path,
    progress: &dyn ProgressSink,
) -> Result<(), QueryError> {
    // The connection that upgrades is in a transaction, so it can't be the source.
    let source = connector.open(ConnectionUse::Read)?;
    copy_to_file(&source, target, |done, total| {
        progress.progress(done, total, "Backing up the database (pages)");
    })
}

/// Upgrades schema and metadata in one transaction: a process that is killed leaves the database as
/// it was.
fn upgrade(
    connector: &Connector,
    connection: &mut Connection,
    migrations: &[&str],
    progress: &dyn ProgressSink,
) -> Result<(), QueryError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = match transaction {
        Err(error) if is_busy(&error) => return Err(upgrade_elsewhere(&connector.file).into()),
        transaction => transaction?,
    };
    // Another process may have upgraded the database before this transaction began.
    let version = schema_version(&connector.file, &transaction, migrations.len())?;
    if read::is_current(&transaction, migrations.len())? {
        return Ok(());
    }
    tracing::info!(schema = version, "upgrading the database");
    progress.progress(0, 0, "Checking the database");
    refuse_damage(&transaction)?;
    if version < migrations.len() {
        // Inside the transaction, so that no other process writes after the copy.
        back_up(connector, version, progress)?;
        apply_migrations(&transaction, version, migrations)?;
    }
    if version < COUNTED_SCHEMA && migrations.len() >= COUNTED_SCHEMA {
        // Before the commit: a process that sees the new schema expects the side file.
        connector.file.replace_commits(current_count(&transaction)?)?;
        connector.file.sync_folder()?;
    }
    rebuild_metadata(&transaction, progress)?;
    transaction.commit()?;
    // The file alone must show the new schema: without its log it is refused from now on. Another
    // process may block this only until it ends.
    connection.query_one(write::CHECKPOINT, [], |_| Ok(()))?;
    Ok(())
}

fn upgrade_elsewhere(file: &DatabaseFile) -> StoreError {
    let reason = format!(
        "{} was written by an older version of reqlore, and another process is upgrading it or \
         writing to it. Nothing was changed; start again when that process has finished.",
        file.shown_path
    );
    StoreError::Busy { reason }
}

fn apply_migrations(
    connection: &Connection,
    version: usize,
    migrations: &[&str],
) -> Result<(), QueryError> {
    for migration in &migrations[version..] {
        connection.execute_batch(migration)?;
    }
    // The header is part of the transaction, so it changes together with the tables.
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", migrations.len())?;
    if version == 0 {
        set_metadata_format(connection, DocumentMeta::FORMAT)?;
    }
    Ok(())
}

/// Derives the metadata of all documents from their bodies, in the format of this version.
fn rebuild_metadata(
    connection: &Connection,
    progress: &dyn ProgressSink,
) -> Result<(), QueryError> {
    let count = "SELECT count(*) FROM documents";
    let total = connection.query_one(count, [], |row| row.get(0))?;
    reqlore_sqlite_metadata::clear_tables(connection)?;
    let (mut last_id, mut done) = (0, 0);
    while let Some(id) = rebuild_next(connection, last_id)? {
        last_id = id;
        done += 1;
        progress.progress(done, total, "Upgrading the database (documents)");
    }
    Ok(set_metadata_format(connection, DocumentMeta::FORMAT)?)
}

fn set_metadata_format(connection: &Connection, format: u32) -> rusqlite::Result<()> {
    connection.execute(&STORE.update(&[("heads", "?1")], "one = 1"), [format]).map(drop)
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
