//! Detects a torn copy: files that were copied one after the other while a server wrote.
//!
//! SQLite restarts its log after it moved all of it into the database. A file that was copied
//! before that, with a log from after it, lacks the commits in between, and their counter does not
//! show it: the newest one is in the log.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use reqlore_domain::ports::documents::StoreError;
use reqlore_durable_fs::commit_counter::{CommitCounter, DatabaseId};
use rusqlite::Connection;

use crate::commit_count::CommitCount;
use crate::connection::{ConnectionUse, Connector, OpenMode};
use crate::database_file::DatabaseFile;
use crate::error::{QueryError, RESTORE_HINT, io_error, refused};

/// Sizes of the headers in the format of SQLite's log.
const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// Two random numbers that change with each restart of the log, in both headers.
const LOG_SALT: std::ops::Range<usize> = 16..24;
const FRAME_SALT: std::ops::Range<usize> = 8..16;
/// Maximum page size of SQLite.
const MAX_PAGE_BYTES: usize = 65_536;

/// Refuses a database whose log does not continue it. Other processes may have it open.
pub(crate) fn check_log(file: &Arc<DatabaseFile>) -> Result<(), QueryError> {
    // A checkpoint that was killed leaves a file that only its log completes.
    let Ok((counter, page)) = counter_without_log(file) else { return Ok(()) };
    let first = first_count(&file.wal_path, page, counter)
        .map_err(|error| io_error(&file.shown_path, "read its -wal file", error))?;
    let Some(first) = first.filter(|first| *first > counter.commits + 1) else { return Ok(()) };
    // Another process may have restarted the log after the first read of the file.
    match counter_without_log(file) {
        Ok((counter, _)) if first > counter.commits + 1 => Err(torn_copy(file).into()),
        _ => Ok(()),
    }
}

/// Returns the error of a failed open. The log of another database looks like damage.
pub(crate) fn explain(file: &Arc<DatabaseFile>, error: QueryError) -> StoreError {
    let owner = if error.is_damage() { check_owner(file) } else { Ok(()) };
    let foreign = owner.err().filter(|error| !error.is_damage());
    foreign.unwrap_or(error).into_store_error(&file.shown_path)
}

/// Rejects a log whose commits all belong to another database. Each commit writes the database ID.
pub(crate) fn check_owner(file: &Arc<DatabaseFile>) -> Result<(), QueryError> {
    let Some(recorded) = file.read_commits()?.filter(|_| file.has_pending_log()) else {
        return Ok(());
    };
    let DatabaseId(id) = recorded.counter.database_id;
    if counter_without_log(file)?.0.database_id.0 != id {
        return Ok(());
    }
    let mut has_commit = false;
    let own = find_frame(&file.wal_path, |header, page| {
        // The size of the database after a commit, 0 in other frames.
        has_commit |= header[4..8] != [0; 4];
        page.windows(id.len()).any(|bytes| bytes == id).then_some(())
    });
    let own = own.map_err(|error| io_error(&file.shown_path, "read its -wal file", error))?;
    if own.is_some() || !has_commit {
        return Ok(());
    }
    let reason = format!(
        "its -wal file belongs to another database; put its own -wal file back, or {RESTORE_HINT}"
    );
    Err(refused(&file.shown_path, reason).into())
}

fn torn_copy(file: &DatabaseFile) -> StoreError {
    let reason = format!(
        "lacks commits before its -wal file begins, as in a copy that was made during a write; \
         stop the server and copy all files again, or {RESTORE_HINT}"
    );
    refused(&file.shown_path, reason)
}

/// Returns the counter in the file without its log, and the page that contains it.
fn counter_without_log(file: &Arc<DatabaseFile>) -> Result<(CommitCounter, u32), QueryError> {
    let connector = Connector { file: Arc::clone(file), mode: OpenMode::Immutable };
    let connection: Connection = connector.open(ConnectionUse::Read)?;
    file.schema.format.check(&connection, &file.shown_path)?;
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'commit_counter'";
    let page = connection.query_one(page, [], |row| row.get(0))?;
    Ok((CommitCount::read(&connection)?.counter, page))
}

/// Returns the number of commits in the first copy of the page in the log.
fn first_count(log: &Path, page: u32, counter: CommitCounter) -> io::Result<Option<u64>> {
    let count = find_frame(log, |header, content| {
        (header[..4] == page.to_be_bytes()).then(|| newest_count(content, counter))
    });
    Ok(count?.flatten())
}

/// Returns the first value for a frame of the log, from its header and its page.
fn find_frame<T>(
    log: &Path,
    mut find: impl FnMut(&[u8], &[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut log = BufReader::new(File::open(log)?);
    let mut header = [0; LOG_HEADER_BYTES];
    if !read_whole(&mut log, &mut header)? {
        return Ok(None);
    }
    let page_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if page_bytes > MAX_PAGE_BYTES {
        return Ok(None);
    }
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    while read_whole(&mut log, &mut frame)? {
        // A frame of the log before its restart.
        if frame[FRAME_SALT] != header[LOG_SALT] {
            break;
        }
        let (header, page) = frame.split_at(FRAME_HEADER_BYTES);
        if let Some(found) = find(header, page) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Finds the counter by its identity. Free space of a page may contain older ones.
fn newest_count(page: &[u8], counter: CommitCounter) -> Option<u64> {
    let mut newest = None;
    for value in page.windows(24) {
        if let Some((id, commits)) = value.split_first_chunk::<16>()
            && *id == counter.database_id.0
            && let Ok(commits) = commits.try_into()
        {
            newest = newest.max(Some(u64::from_be_bytes(commits)));
        }
    }
    newest
}

/// False at the end of the file.
fn read_whole(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
