//! The number of commits in the table `store`, which the side file `NAME-commits` has as well.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_durable_fs::commit_counter::{CommitCounter, CounterFile, DatabaseId, IssuedNumbers};
use rusqlite::Connection;

use crate::database_file::sibling_path;
use crate::error::QueryError;
use crate::tables::STORE;

/// Number of commits after which the side file is synced, because SQLite does not report its
/// checkpoints.
const SYNC_COMMITS: u64 = 1_000;

/// The state of a database after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitCount {
    pub(crate) counter: CommitCounter,
    /// The highest number of each kind in any project, in the order of [`ItemKind::ALL`].
    numbers: IssuedNumbers,
}

/// Returns the counter in the database.
pub(crate) fn read_counter(connection: &Connection) -> Result<CommitCounter, QueryError> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT commits, {} FROM store", STORE.verify("")));
    let mut select = connection.prepare_cached(&SELECT)?;
    let value: Vec<u8> = select.query_one([], |row| row.get(0))?;
    if let Some((database_id, commits)) = value.split_first_chunk()
        && let Ok(commits) = commits.try_into()
    {
        return Ok(CommitCounter {
            database_id: DatabaseId(*database_id),
            commits: u64::from_be_bytes(commits),
        });
    }
    Err(QueryError::damaged("the number of commits"))
}

/// Counts a commit. Call it last in each transaction that a caller relies on, and pass the result
/// to `DatabaseFile::record_commit` after the commit.
pub(crate) fn count_commit(connection: &Connection) -> Result<CommitCount, QueryError> {
    let CommitCounter { database_id, commits } = read_counter(connection)?;
    write_counter(connection, CommitCounter { database_id, commits: commits + 1 })
}

/// Gives the database a new identity, because its history differs from that of every copy.
pub(crate) fn renew_database_id(
    connection: &Connection,
    database_id: DatabaseId,
) -> Result<CommitCount, QueryError> {
    let CommitCounter { commits, .. } = read_counter(connection)?;
    write_counter(connection, CommitCounter { database_id, commits: commits + 1 })
}

fn write_counter(
    connection: &Connection,
    counter: CommitCounter,
) -> Result<CommitCount, QueryError> {
    static UPDATE: LazyLock<String> =
        LazyLock::new(|| STORE.update(&[("commits", "?1")], "one = 1"));
    let value = [&counter.database_id.0[..], &counter.commits.to_be_bytes()].concat();
    connection.prepare_cached(&UPDATE)?.execute([value])?;
    Ok(CommitCount { counter, numbers: issued_numbers(connection)? })
}

/// Returns the state of the database for its side file.
pub(crate) fn current_count(connection: &Connection) -> Result<CommitCount, QueryError> {
    Ok(CommitCount { counter: read_counter(connection)?, numbers: issued_numbers(connection)? })
}

fn issued_numbers(connection: &Connection) -> Result<IssuedNumbers, QueryError> {
    // The index `marks_by_number` makes this fast with any number of projects.
    let highest = "SELECT coalesce((SELECT max(number) FROM marks WHERE kind = ?1), 0), \
                   coalesce((SELECT max(number) FROM marks WHERE kind = ?2), 0), \
                   coalesce((SELECT max(number) FROM marks WHERE kind = ?3), 0), \
                   coalesce((SELECT max(number) FROM marks WHERE kind = ?4), 0)";
    let kinds = ItemKind::ALL.map(ItemKind::name);
    let mut numbers = IssuedNumbers::default();
    let mut select = connection.prepare_cached(highest)?;
    let mut rows = select.query(kinds)?;
    if let Some(row) = rows.next()? {
        for (column, number) in numbers.iter_mut().enumerate() {
            *number = row.get(column)?;
        }
    }
    Ok(numbers)
}

impl CommitCount {
    /// Reads the side file; `None` if it is missing or damaged.
    pub(crate) fn read_file(path: &Path) -> io::Result<Option<Self>> {
        let read = CommitCounter::read_with_numbers(path)?;
        Ok(read.map(|(counter, numbers)| Self { counter, numbers }))
    }

    /// The highest references that the database has issued, in any project.
    pub(crate) fn references(self) -> impl Iterator<Item = Reference> {
        let numbers = ItemKind::ALL.into_iter().zip(self.numbers);
        numbers.map(|(kind, number)| Reference { kind, number })
    }

    /// Writes the side file after the commit is durable.
    pub(crate) fn write_file(self, file: &CounterFile) -> io::Result<()> {
        file.write_with_numbers(self.counter, self.numbers)?;
        if self.counter.commits.is_multiple_of(SYNC_COMMITS) {
            file.sync()?;
        }
        Ok(())
    }

    /// Creates or replaces the side file durably, except for its name. The caller syncs the folder.
    pub(crate) fn replace_file(self, path: &Path) -> io::Result<()> {
        let unfinished = sibling_path(path, ".new");
        // A killed process may have left one.
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        CounterFile::fill(&unfinished, self.counter, self.numbers)?;
        fs::rename(unfinished, path)
    }
}
