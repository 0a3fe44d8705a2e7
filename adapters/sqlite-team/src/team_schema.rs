//! Schema of a team database: creation, the count of commits, and the search for damage.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::checksum::{self, TableLayout};
use crate::connection::{FileFormat, sqlite_findings};
use crate::error::DatabaseError;
use crate::{audit, idempotency, identity, pending};

pub(crate) const FORMAT: FileFormat = FileFormat { application_id: *b"Rqlt", version: 2 };
const CREATE: &str = concat!(include_str!("tables.sql"), include_str!("team.sql"));
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
    FORMAT.write(connection)
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
