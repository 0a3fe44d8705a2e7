//! Maps errors of sled and of the operating system to store errors with a next step.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::error::{DATABASE_LABEL, damaged_object, damaged_structure};

/// The next step after damage.
pub(crate) const RESTORE_HINT: &str =
    "stop the server, keep the folder and run `reqlore restore` into a new one";

/// The next steps after a file was lost.
pub(crate) const PUT_BACK_HINT: &str =
    "put all files of the folder back, or run `reqlore restore` into a new one";

/// Reports a panic as damage, because sled panics where other libraries return an error.
pub(crate) fn catch_sled_panic<T>(work: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(_) => Err(damaged_structure("sled panicked")),
    }
}

pub(crate) fn from_sled(error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            let reason = "no space is left on the disk; free some and start the server again";
            StoreError::Unavailable {
                subject: DATABASE_LABEL.to_owned(),
                reason: reason.to_owned(),
                source: Some(error),
            }
        }
        sled::Error::Io(error) => {
            // After the first failure, sled returns copies without the code of the system, with the
            // debug form of the first error as their text.
            let cause = error.raw_os_error().map(|_| format!(" ({error})")).unwrap_or_default();
            let problem = format!("the disk failed{cause}; check it and restart the server");
            database_unavailable(&problem, None)
        }
        // Its text has an offset in sled's notation.
        sled::Error::Corruption { .. } => damaged_structure("a part of its log"),
        other => damaged_structure(&other.to_string()),
    }
}

pub(crate) fn damaged_folder(folder: &Path, object: &str) -> StoreError {
    let reason = format!("is damaged ({object}); {RESTORE_HINT}");
    StoreError::Unreadable { subject: folder.display().to_string(), reason }
}

pub(crate) fn database_unavailable(problem: &str, source: Option<io::Error>) -> StoreError {
    let reason = match &source {
        Some(error) => format!("{problem}: {error}"),
        None => problem.to_owned(),
    };
    StoreError::Unavailable { subject: DATABASE_LABEL.to_owned(), reason, source }
}

/// Error for a folder that is not opened. It names the path, because only the operator sees it.
pub(crate) fn folder_refused(folder: &Path, reason: &str) -> StoreError {
    StoreError::Refused { subject: folder.display().to_string(), reason: reason.to_owned() }
}

/// Error of the operating system while the folder was opened. `action` completes "could not …".
pub(crate) fn folder_error(folder: &Path, action: &str, error: io::Error) -> StoreError {
    let next = match error.kind() {
        io::ErrorKind::PermissionDenied => "give this user the right to it and start again",
        io::ErrorKind::StorageFull => "free some space and start again",
        io::ErrorKind::ReadOnlyFilesystem => "make the file system writable and start again",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "name a folder instead of a file"
        }
        _ => "fix that and start again",
    };
    let reason = format!("could not {action}: {error}; {next}");
    StoreError::Unavailable { subject: folder.display().to_string(), reason, source: Some(error) }
}

/// Names the folder in an error, because the operator sees it and no client does.
pub(crate) fn name_folder(folder: &Path, error: StoreError) -> StoreError {
    if let Some(object) = damaged_object(&error) {
        return damaged_folder(folder, object);
    }
    let subject = folder.display().to_string();
    match error {
        StoreError::Unavailable { reason, source, .. } => {
            StoreError::Unavailable { subject, reason, source }
        }
        StoreError::Unreadable { reason, .. } => StoreError::Unreadable { subject, reason },
        StoreError::Refused { reason, .. } => StoreError::Refused { subject, reason },
        other => other,
    }
}
