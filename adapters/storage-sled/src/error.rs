//! From what sled and the system said to what a person can do about it.
//!
//! The trap: sled panics where others answer with an error, so whatever it does is [`guarded`].

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{StoreError, StoreResult};

/// What messages of calls name; they have no path to give away.
const DATABASE: &str = "the database";

/// The next step wherever data is gone.
pub(crate) const RESTORE: &str = "Nothing was deleted. Stop the server, keep a copy of the \
     folder, and restore a backup into a new one with `reqlore restore`";

/// A panic of sled is damage that is told.
pub(crate) fn guarded<T>(act: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(damaged("sled panicked")))
}

pub(crate) fn of_sled(error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            let what = "no space is left on the disk; free some and start the server again";
            let (place, reason) = (DATABASE.to_owned(), what.to_owned());
            StoreError::Unavailable { place, reason, source: Some(error) }
        }
        sled::Error::Io(error) => unavailable("the disk failed", Some(error)),
        other => damaged(&other.to_string()),
    }
}

pub(crate) fn damaged(what: &str) -> StoreError {
    let reason = format!("is damaged ({what}). {RESTORE}");
    StoreError::Unreadable { place: DATABASE.to_owned(), reason }
}

pub(crate) fn damaged_document(id: &DocumentId) -> StoreError {
    StoreError::Unreadable { place: id.to_string(), reason: damaged_value() }
}

pub(crate) fn damaged_value() -> String {
    format!("what is stored does not match its checksum; other documents are served. {RESTORE}")
}

pub(crate) fn unavailable(what: &str, source: Option<io::Error>) -> StoreError {
    let reason = source.as_ref().map_or(what.to_owned(), |error| format!("{what}: {error}"));
    StoreError::Unavailable { place: DATABASE.to_owned(), reason, source }
}

pub(crate) fn busy() -> StoreError {
    let reason = "the database is being copied; nothing was written, try again later".to_owned();
    StoreError::Busy { reason }
}

/// After a failed sync nobody knows what the disk has, so nothing more is built on it.
pub(crate) fn broken() -> StoreError {
    let what = "an earlier change could not be made durable, so nothing is written until the \
                server is started again; check the disk first. Whether that change was kept shows \
                then";
    unavailable(what, None)
}

pub(crate) fn refused(reason: &str) -> StoreError {
    StoreError::Refused { place: DATABASE.to_owned(), reason: reason.to_owned() }
}

pub(crate) const INCOMPLETE: &str = "is incomplete: what filled it did not finish. Remove it and \
     copy again";

/// The folder as given, what is wrong with it and the next step.
pub(crate) fn not_opened(folder: &Path, reason: &str) -> StoreError {
    StoreError::Refused { place: folder.display().to_string(), reason: reason.to_owned() }
}

/// The system refused something while the folder was opened.
pub(crate) fn failed(folder: &Path, doing: &str, error: io::Error) -> StoreError {
    let next = match error.kind() {
        io::ErrorKind::PermissionDenied => "give this user the right to it and start again",
        io::ErrorKind::StorageFull => "free some space and start again",
        io::ErrorKind::ReadOnlyFilesystem => "make the file system writable and start again",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "name a folder instead of a file"
        }
        _ => "mend that and start again",
    };
    let reason = format!("could not {doing}: {error}; {next}");
    StoreError::Unavailable { place: folder.display().to_string(), reason, source: Some(error) }
}
