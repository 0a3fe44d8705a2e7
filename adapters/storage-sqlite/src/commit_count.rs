//! The number of commits in the table `commit_counter`, which the side file `NAME-commits` has as
//! well.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reqlore_durable_fs::commit_counter::{
    CommitCounter, CounterFile, DatabaseId, IssuedNumbers, numbers_text, parse_numbers,
};
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::row::{RowChange, RowQuery, TableRow, Value};
use rusqlite::Connection;

use crate::error::QueryError;
use crate::rows;
use crate::statements::COMMIT_COUNTER;

/// Number of commits after which the side file is synced, because SQLite does not report its
/// checkpoints.
const SYNC_COMMITS: u64 = 1_000;

/// The state of a database after a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitCount {
    pub(crate) counter: CommitCounter,
    pub(crate) numbers: IssuedNumbers,
}

impl CommitCount {
    /// The state of a new database.
    pub(crate) fn begin() -> io::Result<Self> {
        let counter = CommitCounter { database_id: DatabaseId::random()?, commits: 0 };
        Ok(Self { counter, numbers: IssuedNumbers::default() })
    }

    /// Returns the state in the database.
    pub(crate) fn read(connection: &Connection) -> Result<Self, QueryError> {
        let query = RowQuery::all(&COMMIT_COUNTER).limited_to(1);
        let rows = rows::select(connection, &[query], ReadLimit::NONE)?.unwrap_or_default();
        if let Some(row) = rows.first().and_then(|rows| rows.first())
            && let Value::Binary(value) = row.value(1)
            && let Some(count) = Self::decode(value)
        {
            return Ok(count);
        }
        Err(QueryError::damaged("the number of commits"))
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (id, rest) = value.split_first_chunk()?;
        let (commits, rest) = rest.split_first_chunk()?;
        let commits = u64::from_be_bytes(*commits);
        let counter = CommitCounter { database_id: DatabaseId(*id), commits };
        Some(Self { counter, numbers: parse_numbers(rest)? })
    }

    /// Writes the state into the database.
    pub(crate) fn write(&self, connection: &Connection) -> Result<(), QueryError> {
        let CommitCounter { database_id, commits } = self.counter;
        let numbers = numbers_text(&self.numbers);
        let value = [&database_id.0[..], &commits.to_be_bytes(), numbers.as_bytes()].concat();
        let row = TableRow::of(&[1.into(), value[..].into()]);
        rows::apply(connection, &COMMIT_COUNTER, &[RowChange::Insert(row)])
    }

    /// Reads the side file; `None` if it is missing or damaged.
    pub(crate) fn read_file(path: &Path) -> io::Result<Option<Self>> {
        let read = CommitCounter::read_with_numbers(path)?;
        Ok(read.map(|(counter, numbers)| Self { counter, numbers }))
    }

    /// Writes the side file after the commit is durable.
    pub(crate) fn write_file(&self, file: &CounterFile) -> io::Result<()> {
        file.write_with_numbers(self.counter, &self.numbers)?;
        if self.counter.commits.is_multiple_of(SYNC_COMMITS) {
            file.sync()?;
        }
        Ok(())
    }

    /// Creates or replaces the side file durably, except for its name. The caller syncs the folder.
    pub(crate) fn replace_file(&self, path: &Path) -> io::Result<()> {
        let unfinished = sibling_path(path, ".new");
        // A killed process may have left one.
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        CounterFile::fill(&unfinished, self.counter, &self.numbers)?;
        fs::rename(unfinished, path)
    }
}

/// Returns the path of a file next to the database.
pub(crate) fn sibling_path(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
