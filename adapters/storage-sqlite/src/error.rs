//! From what SQLite said to what a caller can do about it.
//!
//! The trap: messages of calls never name the file's place, only "the database"; those of opening
//! name it as it was given.

use std::io;
use std::time::Duration;

use reqlore_domain::ports::documents::StoreError;
use rusqlite::ErrorCode;

/// How long a call waits for other processes.
pub(crate) const WAIT: Duration = Duration::from_millis(if cfg!(test) { 2_000 } else { 5_000 });

/// What messages of calls call the file.
pub(crate) const DATABASE: &str = "the database";

pub(crate) const RESTORE: &str = "get it back from a backup with `reqlore restore`";

/// Either half of what can go wrong, so that `?` serves both.
#[derive(Debug)]
pub(crate) enum Failed {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failed {
    /// In the words for whoever called.
    pub(crate) fn told(self) -> StoreError {
        self.told_of(DATABASE)
    }

    pub(crate) fn told_of(self, place: &str) -> StoreError {
        match self {
            Self::Sql(error) => sql(place, &error),
            Self::Store(error) => error,
        }
    }
}

pub(crate) fn refused(place: &str, reason: impl Into<String>) -> StoreError {
    StoreError::Refused { place: place.to_owned(), reason: reason.into() }
}

pub(crate) fn unavailable(place: &str, reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { place: place.to_owned(), reason: reason.into(), source: None }
}

/// Reading or preparing what lies around the database failed.
pub(crate) fn system(place: &str, doing: &str, source: io::Error) -> StoreError {
    let reason = format!("could not {doing}: {source}; mend that and try again");
    StoreError::Unavailable { place: place.to_owned(), reason, source: Some(source) }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
    let code = error.sqlite_error_code();
    matches!(code, Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed))
}

fn sql(place: &str, error: &rusqlite::Error) -> StoreError {
    use rusqlite::ffi::{SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_DATA, SQLITE_IOERR_SHORT_READ};
    tracing::debug!(?error, "SQLite failed");
    let extended = error.sqlite_error().map(|error| error.extended_code);
    let owned = place.to_owned();
    match error.sqlite_error_code() {
        _ if is_busy(error) => StoreError::Busy {
            reason: format!(
                "Another process was writing {place} for {WAIT:?}. Nothing was written; try again."
            ),
        },
        Some(ErrorCode::DiskFull) => {
            unavailable(place, "no space is left on the disk. Nothing was written; free some space")
        }
        Some(ErrorCode::ReadOnly) => {
            unavailable(place, "can only be read. Nothing was written; make it writable")
        }
        Some(ErrorCode::NotADatabase) => {
            refused(place, "is no SQLite database; it was not touched. Name another file")
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            StoreError::Unreadable { place: owned, reason: format!("is damaged; {RESTORE}") }
        }
        Some(ErrorCode::SystemIoFailure)
            if [SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_DATA, SQLITE_IOERR_CORRUPTFS]
                .map(Some)
                .contains(&extended) =>
        {
            StoreError::Unreadable { place: owned, reason: format!("is damaged; {RESTORE}") }
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            unavailable(
                place,
                format!("can't be read or written ({error}); look at its disk and its rights"),
            )
        }
        Some(ErrorCode::TooBig) => refused(place, "the text is too large for it"),
        _ => StoreError::Internal(format!("{place}: {error}")),
    }
}
