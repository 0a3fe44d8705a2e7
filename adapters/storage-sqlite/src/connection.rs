//! Connections to the database, all set up alike.
//!
//! The trap: settings made by `PRAGMA` belong to one connection, so all of them are opened here.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::WAIT;
use crate::place::Place;

/// How often it looks. Another process that writes all the time lets go for tenths of a
/// millisecond only.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// SQLite before 3.51.3 may lose commits when one process writes while another moves the log into
/// the database.
const OLDEST: i32 = 3_051_003;

pub(crate) fn is_too_old(version: i32) -> bool {
    version < OLDEST
}

/// What is kept of the log on disk when it was longer once, in bytes.
const LOG_KEPT: i64 = 64 * 1024 * 1024;

const STATEMENTS: usize = 64;

/// What a connection keeps of the file, in KiB below zero as SQLite wants it: the inner pages of
/// some hundred thousand documents.
const CACHE: i64 = -16 * 1024;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Write,
    Read,
    /// To find out whether we are alone.
    Alone,
}

/// Opens connections to one database.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) place: Arc<Place>,
    pub(crate) mode: Mode,
}

/// How the files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To read and to write, beside others.
    Shared,
    /// Nothing beside the file can be written, or shall be, so SQLite is told that nobody writes.
    Frozen,
    /// To read beside others that write.
    Looking,
}

impl Connector {
    /// For writing, the file is created if there is none.
    pub(crate) fn open(&self, purpose: Use) -> rusqlite::Result<Connection> {
        let mut connection = match self.mode {
            Mode::Frozen => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(frozen(&self.place.file), flags)?
            }
            Mode::Looking => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
                Connection::open_with_flags(&self.place.file, flags)?
            }
            Mode::Shared => {
                let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
                flags.set(OpenFlags::SQLITE_OPEN_CREATE, purpose == Use::Write);
                Connection::open_with_flags(&self.place.file, flags)?
            }
        };
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        if purpose == Use::Alone {
            connection.busy_timeout(Duration::ZERO)?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        } else {
            wait_when_busy(&mut connection)?;
        }
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
        // Else most statements are planned anew whenever they come out of the cache, since their
        // values might have told of a better plan.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Whatever it is, closing it must not change it before it is known to be ours.
        keep_log_on_close(&connection, purpose != Use::Read && self.place.has_wal())?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "mmap_size", 0)?;
        connection.pragma_update(None, "cache_size", CACHE)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
        connection.pragma_update(None, "query_only", purpose == Use::Read)?;
        Ok(connection)
    }
}

/// The last one who closes moves the log into the database, unless it is told to keep it.
pub(crate) fn keep_log_on_close(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Others are waited for, up to [`WAIT`].
pub(crate) fn wait_when_busy(connection: &mut Connection) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    connection.busy_handler(Some(move |tries| {
        if tries == 0 {
            began = Instant::now();
        }
        std::thread::sleep(PAUSE);
        began.elapsed() < WAIT
    }))
}

/// Can it not even be read as it is, because nothing can be created beside it?
pub(crate) fn needs_freezing(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// The path as a URI that says that nobody writes.
fn frozen(file: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            _ => uri.extend(format!("%{byte:02x}").chars()),
        }
    }
    uri + "?mode=ro&immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_before_3_51_3_is_too_old() {
        assert!(is_too_old(3_040_001) && is_too_old(3_051_002));
        assert!(!is_too_old(3_051_003) && !is_too_old(rusqlite::version_number()));
    }
}
