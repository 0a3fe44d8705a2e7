//! Settings that every connection needs, because `PRAGMA` settings belong to one connection.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// The pause between attempts while another process writes. A process that writes all the time
/// releases its lock for tenths of a millisecond only.
pub const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// SQLite before 3.51.3 may lose commits when one process writes while another one checkpoints.
const OLDEST_VERSION: i32 = 3_051_003;

/// The log is truncated to this size in bytes after a checkpoint.
const LOG_LIMIT: i64 = 64 * 1024 * 1024;

const CACHED_STATEMENTS: usize = 64;

pub fn is_too_old(version: i32) -> bool {
    version < OLDEST_VERSION
}

/// `cache_kib` bounds the pages that the connection keeps in memory.
pub fn configure(connection: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    // Otherwise most cached statements are planned again, because bound values might change a plan.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    // Negative: in KiB.
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT)
}

/// By default the last connection to close moves the log into the database and removes it.
pub fn keep_log_on_close(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Waits for other processes, at most this long.
pub fn wait_when_busy(connection: &mut Connection, timeout: Duration) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            began = Instant::now();
        }
        std::thread::sleep(BUSY_PAUSE);
        began.elapsed() < timeout
    }))
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
