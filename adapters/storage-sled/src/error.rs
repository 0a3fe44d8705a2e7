//! Errors of sled and of the operating system as messages with a next step.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{StoreError, StoreResult};

/// The object of errors of calls, which must not reveal a path.
const DATABASE_NAME: &str = "the database";

/// The next step where data is lost.
pub(crate) const RESTORE_HINT: &str = "Nothing was deleted. Stop the server, keep a copy of the \
     folder, and restore a backup into a new one with `reqlore restore`";

pub(crate) const INCOMPLETE: &str = "is incomplete: what filled it did not finish. Remove it and \
     copy again";

/// Reports a panic as damage, because sled panics where other libraries return an error.
pub(crate) fn catch_sled_panic<T>(act: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(damaged_database("sled panicked")))
}

pub(crate) fn from_sled(error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            let reason = "no space is left on the disk; free some and start the server again";
            let (place, reason) = (DATABASE_NAME.to_owned(), reason.to_owned());
            StoreError::Unavailable { place, reason, source: Some(error) }
        }
        sled::Error::Io(error) => database_unavailable("the disk failed", Some(error)),
        other => damaged_database(&other.to_string()),
    }
}

pub(crate) fn damaged_database(what: &str) -> StoreError {
    let reason = format!("is damaged ({what}). {RESTORE_HINT}");
    StoreError::Unreadable { place: DATABASE_NAME.to_owned(), reason }
}

pub(crate) fn damaged_document(id: &DocumentId) -> StoreError {
    StoreError::Unreadable { place: id.to_string(), reason: damaged_value() }
}

pub(crate) fn damaged_value() -> String {
    format!(
        "what is stored does not match its checksum; other documents are served. {RESTORE_HINT}"
    )
}

pub(crate) fn database_unavailable(what: &str, source: Option<io::Error>) -> StoreError {
    let reason = source.as_ref().map_or(what.to_owned(), |error| format!("{what}: {error}"));
    StoreError::Unavailable { place: DATABASE_NAME.to_owned(), reason, source }
}

pub(crate) fn database_refused(reason: &str) -> StoreError {
    StoreError::Refused { place: DATABASE_NAME.to_owned(), reason: reason.to_owned() }
}

/// Refuses to open a folder.
pub(crate) fn folder_refused(folder: &Path, reason: &str) -> StoreError {
    StoreError::Refused { place: folder.display().to_string(), reason: reason.to_owned() }
}

/// The operating system refused `doing` while the folder was opened.
pub(crate) fn folder_error(folder: &Path, doing: &str, error: io::Error) -> StoreError {
    let next = match error.kind() {
        io::ErrorKind::PermissionDenied => "give this user the right to it and start again",
        io::ErrorKind::StorageFull => "free some space and start again",
        io::ErrorKind::ReadOnlyFilesystem => "make the file system writable and start again",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "name a folder instead of a file"
        }
        _ => "fix that and start again",
    };
    let reason = format!("could not {doing}: {error}; {next}");
    StoreError::Unavailable { place: folder.display().to_string(), reason, source: Some(error) }
}
