//! Schema of a team database: creation, migration, the count of commits, and the search for damage.

use std::sync::LazyLock;

use rusqlite::{Connection, TransactionBehavior};

use crate::checksum::{self, TableLayout};
use crate::error::{DatabaseError, RESTORE_HINT, refused};
use crate::whole_file::{copy, sqlite_findings};
use crate::{audit, idempotency, identity, pending};

/// Application id in the header of our files: `Rqlt`.
const APPLICATION_ID: i32 = 0x5271_6c74;
const SCHEMA_VERSION: i32 = 2;
const CREATE: &str = include_str!("team.sql");
/// Migrates schema 1 to 2.
const MIGRATION: &str = concat!(include_str!("add_checksums.sql"), include_str!("team_2.sql"));
/// Maximum number of damages that one report names.
const MAX_REPORTED: usize = 100;

pub(crate) const CACHE_KIB: i64 = 4 * 1024;

const COMMITS: TableLayout = TableLayout { name: "commits", columns: &["one", "number"] };
const TABLES: [TableLayout; 7] = [
    COMMITS,
    identity::EPOCH,
    identity::USERS,
    identity::TOKENS,
    audit::AUDIT,
    idempotency::ANSWERS,
    pending::PENDING,
];

/// Creates the tables in an empty database.
pub(crate) fn create_tables(connection: &Connection) -> rusqlite::Result<()> {
    checksum::register(connection)?;
    connection.execute_batch(CREATE)?;
    set_header(connection)
}

fn set_header(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", SCHEMA_VERSION)
}

/// True if the database has the schema of this version, false if it has an older one.
pub(crate) fn is_current(connection: &Connection, place: &str) -> Result<bool, DatabaseError> {
    let application = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match (application, version) {
        (APPLICATION_ID, 1..=SCHEMA_VERSION) => Ok(version == SCHEMA_VERSION),
        (APPLICATION_ID, version) if version > SCHEMA_VERSION => {
            let reason = format!(
                "was written by a newer version ({version}); update Reqlore, or {RESTORE_HINT}"
            );
            Err(refused(place, reason).into())
        }
        _ => Err(refused(place, "is not a team database; restore it from a backup").into()),
    }
}

/// Migrates the database, unless another process did. `back_up` runs while no process can write.
pub(crate) fn migrate(
    connection: &mut Connection,
    place: &str,
    back_up: impl FnOnce() -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if is_current(&transaction, place)? {
        return Ok(());
    }
    // The checksums of damaged rows would make the damage valid.
    fail_if_damaged(&find_damaged_pages(&transaction)?)?;
    back_up()?;
    transaction.execute_batch(MIGRATION)?;
    set_header(&transaction)?;
    Ok(transaction.commit()?)
}

/// Copies a database with an older schema that can only be read into memory, and migrates the copy.
pub(crate) fn migrated_copy(source: &Connection, place: &str) -> Result<Connection, DatabaseError> {
    let mut copied = Connection::open_in_memory()?;
    checksum::register(&copied)?;
    copy(source, &mut copied, |_, _| {})?;
    migrate(&mut copied, place, || Ok(()))?;
    copied.pragma_update(None, "query_only", true)?;
    Ok(copied)
}

/// Returns the number of committed write transactions.
pub(crate) fn commits(connection: &Connection) -> Result<u64, DatabaseError> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT number, {} FROM commits", COMMITS.verify("")));
    Ok(connection.prepare_cached(&SELECT)?.query_one([], |row| row.get(0))?)
}

/// Counts the running write transaction. Returns its number.
pub(crate) fn count_commit(connection: &Connection) -> Result<u64, DatabaseError> {
    continue_count(connection, 0)
}

/// Like [`count_commit`], with a number higher than `recorded`, too.
pub(crate) fn continue_count(connection: &Connection, recorded: u64) -> Result<u64, DatabaseError> {
    static UPDATE: LazyLock<String> =
        LazyLock::new(|| COMMITS.update(&[("number", "max(number, ?1) + 1")], "one = 1"));
    connection.prepare_cached(&UPDATE)?.execute([recorded])?;
    commits(connection)
}

/// Returns the damaged pages, indexes and rows, at most 100.
pub(crate) fn find_damage(connection: &Connection) -> Result<Vec<String>, DatabaseError> {
    let mut damage = find_damaged_pages(connection)?;
    // Rows on a damaged page may not be readable.
    if damage.is_empty() {
        for table in TABLES {
            damage.extend(table.find_damage(connection, MAX_REPORTED - damage.len())?);
        }
    }
    Ok(damage)
}

fn find_damaged_pages(connection: &Connection) -> Result<Vec<String>, DatabaseError> {
    // Unlike `quick_check`, it compares indexes: a lost idempotency key would allow a second write.
    sqlite_findings(connection, &format!("integrity_check({MAX_REPORTED})"))
}

/// Fails with the first of these damages.
pub(crate) fn fail_if_damaged(damage: &[String]) -> Result<(), DatabaseError> {
    damage.first().map_or(Ok(()), |first| Err(DatabaseError::damaged(first)))
}
