//! Errors of this storage. Clients see "the database"; messages while opening name the path.

use std::io;
use std::time::Duration;

use reqlore_domain::ports::documents::StoreError;
use rusqlite::ErrorCode;

/// The next step after damage.
///
/// `reqlore restore` refuses to write over files, so they must go first.
pub const RESTORE_HINT: &str = "move its files away and restore a backup with `reqlore restore`";

/// How long a call waits for locks of other processes.
pub(crate) const BUSY_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 2_000 } else { 5_000 });

pub(crate) const DATABASE_NAME: &str = "the database";

/// A database error that does not contain the name of the database yet.
#[derive(Debug)]
pub(crate) enum QueryError {
    Sql(rusqlite::Error),
    /// The named value is damaged.
    Damaged(String),
    Store(StoreError),
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl QueryError {
    pub(crate) fn damaged(object: &str) -> Self {
        Self::Damaged(object.to_owned())
    }

    /// True if the error reports damage of the database's content.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Sql(error) => is_damage(error),
            Self::Damaged(_) => true,
            Self::Store(_) => false,
        }
    }

    /// True if SQLite found the structure of the file damaged, so that rows may be hidden.
    pub(crate) fn is_structural(&self) -> bool {
        use ErrorCode::{DatabaseCorrupt, NotADatabase};
        let Self::Sql(error) = self else { return false };
        // The second one is a damaged header of the file that this process opened.
        matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
    }

    /// Converts to the port's error. `subject` names the database in the message.
    pub(crate) fn into_store_error(self, subject: &str) -> StoreError {
        match self {
            Self::Sql(error) => from_sql(subject, &error),
            Self::Damaged(object) => StoreError::Unreadable {
                subject: subject.to_owned(),
                reason: format!("{object} is damaged; {RESTORE_HINT}"),
            },
            Self::Store(error) => error,
        }
    }
}

pub(crate) fn refused(subject: &str, reason: impl Into<String>) -> StoreError {
    StoreError::Refused { subject: subject.to_owned(), reason: reason.into() }
}

pub(crate) fn unavailable(subject: &str, reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { subject: subject.to_owned(), reason: reason.into(), source: None }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
    let code = error.sqlite_error_code();
    // The last code means that several processes kept opening the log at the same time.
    matches!(code, Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed))
}

/// True if the error reports damage of the database's content.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_DATA, SQLITE_IOERR_SHORT_READ};
    // These I/O errors report the content of the file, not the access to the disk.
    const CONTENT: [i32; 3] = [SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_DATA, SQLITE_IOERR_CORRUPTFS];
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
        || error.sqlite_error().is_some_and(|error| CONTENT.contains(&error.extended_code))
        || has_unexpected_schema(error)
}

/// True if the tables are not those that our statements expect: a damaged schema, or a page of
/// another table.
fn has_unexpected_schema(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    match error {
        Error::InvalidColumnType(..)
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..)
        // Only tables that always have a row are read in this way.
        | Error::QueryReturnedNoRows
        | Error::SqlInputError { .. } => true,
        Error::SqliteFailure(_, Some(message)) => message == "unsupported file format",
        _ => false,
    }
}

fn from_sql(subject: &str, error: &rusqlite::Error) -> StoreError {
    tracing::debug!(?error, "SQLite failed");
    let owned = subject.to_owned();
    match error.sqlite_error_code() {
        _ if is_damage(error) => {
            let reason = format!("is damaged; {RESTORE_HINT}");
            StoreError::Unreadable { subject: owned, reason }
        }
        _ if is_busy(error) => StoreError::Busy {
            reason: format!(
                "Another process kept writing {subject}. Nothing was written; try again."
            ),
        },
        Some(ErrorCode::DiskFull) => {
            unavailable(subject, "no space is left, so nothing was written; free some space")
        }
        Some(ErrorCode::ReadOnly) => {
            unavailable(subject, "can only be read, so nothing was written; make it writable")
        }
        Some(ErrorCode::NotADatabase) => refused(
            subject,
            format!(
                "is not an SQLite database, or its first page is damaged; name another file, \
                     or {RESTORE_HINT}"
            ),
        ),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            unavailable(
                subject,
                format!("cannot be read or written ({error}); check its disk and its permissions"),
            )
        }
        Some(ErrorCode::TooBig) => refused(subject, "cannot store a text of this size; shorten it"),
        _ => StoreError::Internal(format!("{subject}: {error}")),
    }
}

/// Error of the operating system on a database file. `action` completes "could not …".
pub(crate) fn io_error(subject: &str, action: &str, source: io::Error) -> StoreError {
    let reason = format!("could not {action}: {source}; fix that and try again");
    StoreError::Unavailable { subject: subject.to_owned(), reason, source: Some(source) }
}

/// The object of an error that reports damage, for a list or for a sentence around it.
pub(crate) fn damaged_object(error: &QueryError) -> String {
    match error {
        QueryError::Sql(error) => error.to_string(),
        QueryError::Damaged(object) => object.clone(),
        QueryError::Store(error) => error.to_string(),
    }
}

/// Error of a call, without a path.
pub(crate) fn call_error(error: impl Into<QueryError>) -> StoreError {
    error.into().into_store_error(DATABASE_NAME)
}
