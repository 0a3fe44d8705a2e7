//! Errors of storages, and their mapping to errors of calls.

use std::fmt::Display;

use thiserror::Error;

use crate::error::{Error, ErrorKind};
use crate::idempotency::IdempotencyRecord;
use crate::timestamp::Timestamp;

pub type StoreResult<T> = std::result::Result<T, StoreError>;

/// The error of a storage. `subject` is the file, document or storage that it is about: a path
/// relative to the project, because no message contains an absolute path, or a name.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The error that the decision of a commit returned. The caller gets it unchanged.
    #[error("{0}")]
    Decided(#[source] Error),
    /// A commit with this idempotency key has already succeeded. Nothing was written.
    #[error("a request with this idempotency key has already succeeded")]
    Repeated(Box<IdempotencyRecord>),
    /// Other writers kept the storage locked. Nothing was written.
    #[error("{reason}")]
    Busy { reason: String },
    /// No permission, no space, a missing folder or another version. The reason says whether
    /// something was written.
    #[error("{subject}: {reason}")]
    Unavailable { subject: String, reason: String, source: Option<std::io::Error> },
    /// The path leaves the project or is not a regular file. It was neither read nor changed.
    #[error("{subject}: {reason}")]
    Refused { subject: String, reason: String },
    /// The content is invalid.
    #[error("{subject}: {reason}")]
    Unreadable { subject: String, reason: String },
    /// A bug.
    #[error("{0}")]
    Internal(String),
}

impl IdempotencyRecord {
    /// Rejects the key of this record. A storage calls this before the decision.
    pub fn check_unused(record: Option<Self>, now: Timestamp) -> StoreResult<()> {
        match record {
            Some(record) if record.is_valid_at(now) => Err(StoreError::Repeated(Box::new(record))),
            _ => Ok(()),
        }
    }
}

impl StoreError {
    /// The error for a database that another version of Reqlore wrote, maybe while it was open.
    pub fn other_format(subject: &str, found: impl Display, supported: impl Display) -> Self {
        let reason = format!(
            "was written by another version of Reqlore (format {found}, supported: {supported}); \
             use that version, or make a backup with it and `reqlore restore` it into an empty \
             storage"
        );
        Self::Unavailable { subject: subject.to_owned(), reason, source: None }
    }

    /// The same error for another commit of the same group. [`StoreError::Decided`] becomes
    /// [`StoreError::Internal`], because it belongs to one commit.
    #[must_use]
    pub fn clone_for_group(&self) -> Self {
        match self {
            // The error of a group comes from its transaction, not from a decision.
            Self::Decided(error) => Self::Internal(error.to_string()),
            Self::Repeated(record) => Self::Repeated(record.clone()),
            Self::Busy { reason } => Self::Busy { reason: reason.clone() },
            Self::Unavailable { subject, reason, source } => Self::Unavailable {
                subject: subject.clone(),
                reason: reason.clone(),
                source: source.as_ref().map(clone_io_error),
            },
            Self::Refused { subject, reason } => {
                Self::Refused { subject: subject.clone(), reason: reason.clone() }
            }
            Self::Unreadable { subject, reason } => {
                Self::Unreadable { subject: subject.clone(), reason: reason.clone() }
            }
            Self::Internal(message) => Self::Internal(message.clone()),
        }
    }
}

/// `io::Error` is not `Clone`.
fn clone_io_error(error: &std::io::Error) -> std::io::Error {
    match error.raw_os_error() {
        Some(code) => std::io::Error::from_raw_os_error(code),
        None => std::io::Error::new(error.kind(), error.to_string()),
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let kind = match error {
            StoreError::Decided(error) => return error,
            StoreError::Repeated(_) => ErrorKind::Conflict,
            StoreError::Busy { .. } => ErrorKind::Busy,
            StoreError::Unavailable { source, .. } => {
                let error = Error::new(ErrorKind::Unavailable, message);
                return match source {
                    Some(source) => error.caused_by(source),
                    None => error,
                };
            }
            StoreError::Refused { .. } => ErrorKind::Refused,
            StoreError::Unreadable { .. } => ErrorKind::Unreadable,
            StoreError::Internal(_) => ErrorKind::Internal,
        };
        Error::new(kind, message)
    }
}
