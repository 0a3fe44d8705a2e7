//! Settings for every new connection, because `PRAGMA` settings belong to one connection.
//! SQLite's own checks.

use std::time::{Duration, Instant};

use reqlore_domain::ports::documents::StoreError;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::error::{BUSY_TIMEOUT, QueryError, RESTORE_HINT, is_busy, refused};

/// Pause between attempts while another process writes. A busy writer releases its lock only for
/// tenths of a millisecond.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Older versions may lose commits when one process writes while another one checkpoints.
const OLDEST_VERSION: i32 = 3_051_003;

/// Size in bytes to which a checkpoint truncates the log.
const LOG_LIMIT: i64 = 64 * 1024 * 1024;

/// Some for each table, and some for each kind of list.
const CACHED_STATEMENTS: usize = 256;

/// Size of the page cache: enough for the inner pages of some hundred thousand documents.
const CACHE_KIB: i64 = 16 * 1024;

/// The marks of a kind of database in the header of its file.
#[derive(Debug)]
pub(crate) struct FileFormat {
    pub(crate) application_id: [u8; 4],
    pub(crate) version: u32,
}

impl FileFormat {
    pub(crate) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let application = i32::from_be_bytes(self.application_id);
        connection.pragma_update(None, "application_id", application)?;
        connection.pragma_update(None, "user_version", self.version)
    }

    /// Refuses a database of another program or of another version of this one.
    pub(crate) fn check(&self, connection: &Connection, subject: &str) -> Result<(), QueryError> {
        // Each write transaction checks it, so the statements are cached.
        let pragma = |name| -> rusqlite::Result<i64> {
            connection.prepare_cached(name)?.query_one([], |row| row.get(0))
        };
        let application = pragma("PRAGMA application_id")?;
        if application != i64::from(i32::from_be_bytes(self.application_id)) {
            let reason = format!(
                "is a database of another program, or its header is damaged; name another file, \
                 or {RESTORE_HINT}"
            );
            return Err(refused(subject, reason).into());
        }
        let version = pragma("PRAGMA user_version")?;
        if version == i64::from(self.version) {
            return Ok(());
        }
        Err(StoreError::other_format(subject, version, self.version).into())
    }
}

pub(crate) fn is_too_old(version: i32) -> bool {
    version < OLDEST_VERSION
}

/// Applies the settings for durability and safety.
pub(crate) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // The file may come from elsewhere, and its schema must not call functions with effects.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // The default depends on how SQLite was built.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    // Otherwise most cached statements are prepared again, because bound values may change a plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Finds a damaged page as soon as it is read.
    connection.pragma_update(None, "cell_size_check", true)?;
    // With memory mapping, a disk error would kill the process.
    connection.pragma_update(None, "mmap_size", 0)?;
    // A negative size is in KiB.
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT)
}

/// Keeps the log when the last connection closes. By default SQLite moves it into the database and
/// removes it.
pub(crate) fn keep_log_on_close(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Waits for locks of other processes up to the timeout.
pub(crate) fn wait_when_busy(
    connection: &mut Connection,
    timeout: Duration,
) -> rusqlite::Result<()> {
    let mut start = Instant::now();
    // The pauses of SQLite's own timeout grow to 100 ms, although writers finish soon.
    connection.busy_handler(Some(move |attempts| {
        // The handler serves all later statements, too, so each wait starts its own clock.
        if attempts == 0 {
            start = Instant::now();
        }
        #[cfg(test)]
        crate::tests::sharing::count_wait();
        std::thread::sleep(BUSY_PAUSE);
        start.elapsed() < timeout
    }))
}

/// Runs one of SQLite's own checks, such as `integrity_check(1)`. Returns its findings.
pub(crate) fn sqlite_findings(
    connection: &Connection,
    check: &str,
) -> Result<Vec<String>, QueryError> {
    let mut pragma = connection.prepare(&format!("PRAGMA {check}"))?;
    let mut rows = pragma.query([])?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        let finding: String = row.get(0)?;
        // Findings in the structure are lines after a heading.
        let lines = finding.lines().filter(|line| *line != "ok" && !line.starts_with("***"));
        findings.extend(lines.map(str::to_owned));
    }
    Ok(findings)
}

/// Switches to WAL mode. Several processes may create one database at the same time, and SQLite
/// does not wait for locks here.
pub(crate) fn enable_wal(shown_path: &str, connection: &Connection) -> Result<(), QueryError> {
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
    Err(refused(shown_path, reason).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_too_old_rejects_versions_that_lose_commits() {
        assert!(is_too_old(3_040_001) && is_too_old(3_051_002));
        assert!(!is_too_old(3_051_003) && !is_too_old(rusqlite::version_number()));
    }
}
