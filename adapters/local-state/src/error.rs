//! Maps I/O errors to store errors with a remedy. Places are paths relative to the project.

use std::io;

use reqlore_domain::ports::documents::StoreError;

pub fn refused(subject: &str, reason: impl Into<String>) -> StoreError {
    StoreError::Refused { subject: subject.to_owned(), reason: reason.into() }
}

/// The error of an I/O operation on `subject`; `doing` completes "could not …".
pub fn failed(subject: &str, doing: &str, error: io::Error) -> StoreError {
    let subject = subject.to_owned();
    // `cap-std` reports an escape from the root without an operating system's error code.
    if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        let reason = "a symbolic link leads outside of the project; it was not followed".to_owned();
        return StoreError::Refused { subject, reason };
    }
    let reason = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "permission denied; give this user the right and try again".to_owned()
        }
        io::ErrorKind::StorageFull => {
            "no space is left on the disk; free some and try again".to_owned()
        }
        io::ErrorKind::QuotaExceeded => {
            "the disk quota is used up; free some and try again".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only; make it writable and try again".to_owned()
        }
        io::ErrorKind::NotFound => "it is not there; create it and try again".to_owned(),
        io::ErrorKind::NotADirectory => {
            "a part of this path is not a folder; move that file away and try again".to_owned()
        }
        _ => error.to_string(),
    };
    StoreError::Unavailable {
        subject,
        reason: format!("could not {doing}: {reason}"),
        source: Some(error),
    }
}

/// The error of a write to `subject` that changed nothing.
pub fn not_written(subject: &str, doing: &str, error: io::Error) -> StoreError {
    match failed(subject, doing, error) {
        StoreError::Unavailable { subject, reason, source } => StoreError::Unavailable {
            subject,
            reason: format!("{reason}. Nothing was written"),
            source,
        },
        other => other,
    }
}
