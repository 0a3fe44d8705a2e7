//! Checks and migrates a file before it is used as a database.
//!
//! Nothing in the file changes until it is known to be one of ours. An empty file is ours to fill.

use std::fs;
use std::io;
use std::time::Instant;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs as durable_fs;
use reqlore_sqlite_team::connection::{BUSY_PAUSE, keep_log_on_close};
use reqlore_sqlite_team::error::{is_busy, refused, unavailable};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, TransactionBehavior};

use crate::connection::{ConnectionUse, Connector};
use crate::database_file::{DatabaseFile, sibling_path};
use crate::error::{BUSY_TIMEOUT, QueryError, io_error};
use crate::{read, write};

/// The application id in the header of our files: `Rqlr`.
pub(crate) const APPLICATION_ID: i32 = 0x5271_6c72;

/// Each migrates the schema from its place in this list to the next. Published ones never change.
pub(crate) const MIGRATIONS: &[&str] =
    &[include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];

/// The schema of the database; 0 if it is empty.
pub(crate) fn schema_version(
    place: &DatabaseFile,
    connection: &Connection,
    newest: usize,
) -> Result<usize, QueryError> {
    let header = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (header("application_id")?, header("user_version")?);
    let holds = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
    let is_empty = !connection.query_one(holds, [], |row| row.get::<_, bool>(0))?;
    if application == 0 && version == 0 && is_empty {
        return Ok(0);
    }
    let version = usize::try_from(version).unwrap_or_default();
    if application != APPLICATION_ID || version == 0 {
        let reason = "is a database of another program; it was not touched. Name another file";
        return Err(refused(&place.shown_path, reason).into());
    }
    if version > newest {
        let reason = format!(
            "was written by a newer reqlore (schema {version}, this one knows {newest}); it was \
             not touched. Update reqlore"
        );
        return Err(refused(&place.shown_path, reason).into());
    }
    Ok(version)
}

/// Refuses a database that is not ours, and migrates one that is.
pub(crate) fn prepare_database(
    connector: &Connector,
    connection: &mut Connection,
    migrations: &[&str],
) -> Result<(), QueryError> {
    let place = &connector.file;
    let version = schema_version(place, connection, migrations.len())?;
    let is_readonly = connection.is_readonly("main")?;
    if !is_readonly {
        keep_log_on_close(connection, false)?;
        if version == 0 {
            place.make_private()?;
        }
        enable_wal(place, connection)?;
    } else if version < migrations.len() {
        return Err(needs_migration(place).into());
    }
    if version < migrations.len() {
        migrate(connector, connection, migrations)?;
        place.sync_folder()?;
    }
    read::check_complete(&place.shown_path, connection)?;
    match read::is_current(connection, migrations.len())? {
        true => Ok(()),
        false if is_readonly => Err(needs_migration(place).into()),
        false => rebuild_metadata(connection),
    }
}

fn needs_migration(place: &DatabaseFile) -> StoreError {
    let reason = "was written by an older reqlore and can only be read; make it writable, and this \
                  one brings it up to date";
    unavailable(&place.shown_path, reason)
}

/// Several processes may create one database at once, and SQLite does not wait here.
fn enable_wal(place: &DatabaseFile, connection: &Connection) -> Result<(), QueryError> {
    let start = Instant::now();
    let set_mode =
        || connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
    let mode: String = loop {
        match set_mode() {
            Err(error) if is_busy(&error) && start.elapsed() <= BUSY_TIMEOUT => {
                std::thread::sleep(BUSY_PAUSE);
            }
            mode => break mode?,
        }
    };
    if mode == "wal" {
        return Ok(());
    }
    let reason = "can't be used here: its file system shares no memory between processes; put it \
                  on a disk of this machine";
    Err(refused(&place.shown_path, reason).into())
}

/// Copies the database to a file next to it.
fn back_up(connector: &Connector, version: usize) -> StoreResult<()> {
    let place = &connector.file;
    let fail = |error: io::Error| {
        io_error(&place.shown_path, "back it up before its schema changes", error)
    };
    let copy = sibling_path(&place.path, &format!(".schema-{version}.backup"));
    let unfinished = sibling_path(&place.path, &format!(".schema-{version}.unfinished"));
    let created =
        durable_fs::private_file().write(true).create(true).truncate(true).open(&unfinished);
    created.map_err(fail)?;
    let copied = || -> rusqlite::Result<()> {
        let mut target = Connection::open(&unfinished)?;
        // The connection that migrates is in a transaction, so it can't be the source.
        let source = connector.open(ConnectionUse::Read)?;
        let backup = Backup::new(&source, &mut target)?;
        while backup.step(-1)? != StepResult::Done {
            std::thread::sleep(BUSY_PAUSE);
        }
        drop(backup);
        // Without a log the copy is one file.
        target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
    };
    copied().map_err(|error| {
        QueryError::Sql(error).into_store_error(&unfinished.display().to_string())
    })?;
    fs::rename(&unfinished, &copy).map_err(fail)?;
    place.sync_folder()?;
    tracing::info!(copy = %copy.display(), "the database was backed up before its schema changes");
    Ok(())
}

fn migrate(
    connector: &Connector,
    connection: &mut Connection,
    migrations: &[&str],
) -> Result<(), QueryError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated it before this transaction began.
    let version = schema_version(&connector.file, &transaction, migrations.len())?;
    if version > 0 && version < migrations.len() {
        back_up(connector, version)?;
    }
    for migration in &migrations[version..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", migrations.len())?;
    if version == 0 {
        set_metadata_format(&transaction, DocumentMeta::FORMAT)?;
    }
    Ok(transaction.commit()?)
}

/// Derives the metadata of all documents again, in the format of this program.
fn rebuild_metadata(connection: &mut Connection) -> Result<(), QueryError> {
    tracing::info!("what lists need of each document is made anew");
    // From now on a program with the old format writes no more.
    set_metadata_format(connection, 0)?;
    let mut last = 0;
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for _ in 0..read::BATCH_RECORDS {
            let Some(id) = rebuild_next(&transaction, last)? else {
                set_metadata_format(&transaction, DocumentMeta::FORMAT)?;
                return Ok(transaction.commit()?);
            };
            last = id;
        }
        transaction.commit()?;
    }
}

fn set_metadata_format(connection: &Connection, format: u32) -> rusqlite::Result<()> {
    connection.execute("UPDATE store SET heads = ?1", [format]).map(drop)
}

/// Derives the metadata of the first document after the row `last`, and returns its row.
fn rebuild_next(connection: &Connection, last: i64) -> Result<Option<i64>, QueryError> {
    let mut select = connection.prepare_cached(
        "SELECT d.kind, d.name, d.version, b.body, d.id, d.project, d.modified \
         FROM documents d JOIN bodies b ON b.document = d.id \
         WHERE d.id > ?1 ORDER BY d.id LIMIT 1",
    )?;
    let mut rows = select.query([last])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (id, project, modified) = (row.get(4)?, row.get(5)?, Timestamp(row.get(6)?));
    let head = DocumentMeta::of(&read::decode_document(row)?, modified);
    write::update_metadata(connection, (id, project), &head)?;
    Ok(Some(id))
}
