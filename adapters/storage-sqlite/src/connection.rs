//! Connections to the database, all set up alike.
//!
//! The trap: settings made by `PRAGMA` belong to one connection, so all of them are opened here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqlore_sqlite_team::connection::{configure, keep_log_on_close, wait_when_busy};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::WAIT;
use crate::place::Place;

/// In KiB: enough for the inner pages of some hundred thousand documents.
const CACHE: i64 = 16 * 1024;

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
        if purpose == Use::Alone {
            connection.busy_timeout(Duration::ZERO)?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        } else {
            wait_when_busy(&mut connection, WAIT)?;
        }
        // Closing a file that is not known to be ours yet must not change it.
        keep_log_on_close(&connection, purpose != Use::Read && self.place.has_wal())?;
        configure(&connection, CACHE)?;
        connection.pragma_update(None, "query_only", purpose == Use::Read)?;
        Ok(connection)
    }
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
