//! From a file to a database that this program can use: whose it is, which schema it has, what is
//! missing.
//!
//! The trap: until it is known to be ours nothing in the file may change, and a file with nothing
//! in it is ours to fill.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::time::Timestamp;
use reqlore_durable_fs as durable_fs;
use reqlore_sqlite_team::connection::{BUSY_PAUSE, keep_log_on_close};
use reqlore_sqlite_team::error::{is_busy, refused, unavailable};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::connection::{Connector, Use};
use crate::error::{Failed, WAIT, system};
use crate::place::Place;
use crate::write::Kept;
use crate::{read, write};

/// Says in the file's header that it is one of ours: `Rqlr`.
pub(crate) const APPLICATION: i32 = 0x5271_6c72;

/// Each brings the schema from its place in this list to the next. What was published never
/// changes.
pub(crate) const MIGRATIONS: &[&str] =
    &[include_str!("migrations/0001.sql"), include_str!("migrations/0002.sql")];

/// Which schema the database has; 0 for one that is empty.
pub(crate) fn version_of(
    place: &Place,
    connection: &Connection,
    newest: usize,
) -> Result<usize, Failed> {
    let header = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (header("application_id")?, header("user_version")?);
    let holds = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
    let is_empty = !connection.query_one(holds, [], |row| row.get::<_, bool>(0))?;
    if application == 0 && version == 0 && is_empty {
        return Ok(0);
    }
    let version = usize::try_from(version).unwrap_or_default();
    if application != APPLICATION || version == 0 {
        let reason = "is a database of another program; it was not touched. Name another file";
        return Err(refused(&place.shown, reason).into());
    }
    if version > newest {
        let reason = format!(
            "was written by a newer reqlore (schema {version}, this one knows {newest}); it was \
             not touched. Update reqlore"
        );
        return Err(refused(&place.shown, reason).into());
    }
    Ok(version)
}

/// Refuses what is not ours, and brings what is ours up to date.
pub(crate) fn prepare(
    connector: &Connector,
    connection: &mut Connection,
    migrations: &[&str],
) -> Result<(), Failed> {
    let place = &connector.place;
    let version = version_of(place, connection, migrations.len())?;
    let is_readonly = connection.is_readonly("main")?;
    if !is_readonly {
        keep_log_on_close(connection, false)?;
        if version == 0 {
            place.make_private()?;
        }
        begin_log(place, connection)?;
    } else if version < migrations.len() {
        return Err(must_be_writable(place).into());
    }
    if version < migrations.len() {
        migrate(connector, connection, migrations)?;
        place.sync_folder()?;
    }
    read::check_complete(&place.shown, connection)?;
    let heads: u32 = connection.query_one("SELECT heads FROM store", [], |row| row.get(0))?;
    match heads == DocumentMeta::FORMAT {
        true => Ok(()),
        false if is_readonly => Err(must_be_writable(place).into()),
        false => make_heads_anew(connection),
    }
}

fn must_be_writable(place: &Place) -> StoreError {
    let reason = "was written by an older reqlore and can only be read; make it writable, and this \
                  one brings it up to date";
    unavailable(&place.shown, reason)
}

/// SQLite waits for nobody here, so when several make one database at once this does.
fn begin_log(place: &Place, connection: &Connection) -> Result<(), Failed> {
    let (start, mut mode) = (Instant::now(), String::new());
    let mut begin = || {
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| {
            mode = row.get(0)?;
            Ok(())
        })
    };
    while let Err(error) = begin() {
        if !is_busy(&error) || start.elapsed() > WAIT {
            return Err(error.into());
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    if mode == "wal" {
        return Ok(());
    }
    let reason = "can't be used here: its file system shares no memory between processes; put it \
                  on a disk of this machine";
    Err(refused(&place.shown, reason).into())
}

/// A copy beside the database, before its schema changes.
fn back_up(connector: &Connector, version: usize) -> StoreResult<()> {
    let place = &connector.place;
    let fail =
        |error: io::Error| system(&place.shown, "back it up before its schema changes", error);
    let beside = |suffix: &str| {
        let mut path = place.file.clone().into_os_string();
        path.push(format!(".schema-{version}{suffix}"));
        PathBuf::from(path)
    };
    let (copy, unfinished) = (beside(".backup"), beside(".unfinished"));
    let created =
        durable_fs::private_file().write(true).create(true).truncate(true).open(&unfinished);
    created.map_err(fail)?;
    let copied = || -> rusqlite::Result<()> {
        let mut target = Connection::open(&unfinished)?;
        // The connection that is about to write can't be copied from.
        let source = connector.open(Use::Read)?;
        let backup = Backup::new(&source, &mut target)?;
        while backup.step(-1)? != StepResult::Done {
            std::thread::sleep(BUSY_PAUSE);
        }
        drop(backup);
        // A copy is one file: it has no log beside it.
        target.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))
    };
    copied()
        .map_err(|error| Failed::Sql(error).into_store_error(&unfinished.display().to_string()))?;
    fs::rename(&unfinished, &copy).map_err(fail)?;
    place.sync_folder()?;
    tracing::info!(copy = %copy.display(), "the database was backed up before its schema changes");
    Ok(())
}

fn migrate(
    connector: &Connector,
    connection: &mut Connection,
    migrations: &[&str],
) -> Result<(), Failed> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster; from here on there is none.
    let version = version_of(&connector.place, &transaction, migrations.len())?;
    if version > 0 && version < migrations.len() {
        back_up(connector, version)?;
    }
    for migration in &migrations[version..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", migrations.len())?;
    if version == 0 {
        set_heads(&transaction, DocumentMeta::FORMAT)?;
    }
    Ok(transaction.commit()?)
}

/// Heads are derived, and this program derives them differently than the last one.
fn make_heads_anew(connection: &mut Connection) -> Result<(), Failed> {
    tracing::info!("what lists need of each document is made anew");
    // From here on, whoever makes the old ones writes no more.
    set_heads(connection, 0)?;
    let mut last = 0;
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let batch = bodies(&transaction, last)?;
        let Some(kept) = batch.last() else {
            set_heads(&transaction, DocumentMeta::FORMAT)?;
            return Ok(transaction.commit()?);
        };
        last = kept.id;
        for kept in &batch {
            write::derived(&transaction, kept)?;
        }
        transaction.commit()?;
    }
}

fn set_heads(connection: &Connection, format: u32) -> rusqlite::Result<()> {
    connection.execute("UPDATE store SET heads = ?1", [format]).map(drop)
}

/// The next documents with a number beyond `last`, by number, a few megabytes at most.
fn bodies(transaction: &Transaction<'_>, last: i64) -> Result<Vec<Kept>, Failed> {
    let mut select = transaction.prepare_cached(
        "SELECT d.kind, d.name, d.version, b.body, d.id, d.project, d.modified \
         FROM documents d JOIN bodies b ON b.document = d.id \
         WHERE d.id > ?1 ORDER BY d.id",
    )?;
    let mut rows = select.query([last])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let document = read::whole(row)?;
        bytes += document.body.len();
        let (id, project, modified) = (row.get(4)?, row.get(5)?, Timestamp(row.get(6)?));
        found.push(Kept { id, project, document, modified });
        if bytes > read::BATCH_BYTES || found.len() >= read::BATCH {
            break;
        }
    }
    Ok(found)
}
