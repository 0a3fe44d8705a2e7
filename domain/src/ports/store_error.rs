//! Errors of storages.

use thiserror::Error;

use super::idempotency::IdempotencyRecord;
use crate::error::{Error, ErrorKind};

pub type StoreResult<T> = std::result::Result<T, StoreError>;

/// The error of a storage. `place` is relative to the project, never an absolute path.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The decision's own error, which the caller gets unchanged.
    #[error("{0}")]
    Decided(#[source] Error),
    /// A commit with this idempotency key succeeded before; nothing was written.
    #[error("this was done before under the same key")]
    Repeated(Box<IdempotencyRecord>),
    /// Other writers held the storage; nothing was written.
    #[error("{reason}")]
    Busy { reason: String },
    /// Permissions, space, a vanished folder: nothing was written.
    #[error("{place}: {reason}")]
    Unavailable { place: String, reason: String, source: Option<std::io::Error> },
    /// The place leads outside of the project or is not a regular file; it was not read or changed.
    #[error("{place}: {reason}")]
    Refused { place: String, reason: String },
    /// The content is invalid.
    #[error("{place}: {reason}")]
    Unreadable { place: String, reason: String },
    /// A bug.
    #[error("{0}")]
    Internal(String),
}

impl StoreError {
    /// The same error for another commit of the group. A decision's error becomes an internal one.
    #[must_use]
    pub fn clone_for_group(&self) -> Self {
        match self {
            Self::Decided(error) => Self::Internal(error.to_string()),
            Self::Repeated(earlier) => Self::Repeated(earlier.clone()),
            Self::Busy { reason } => Self::Busy { reason: reason.clone() },
            Self::Unavailable { place, reason, source } => Self::Unavailable {
                place: place.clone(),
                reason: reason.clone(),
                source: source.as_ref().map(|source| match source.raw_os_error() {
                    Some(code) => std::io::Error::from_raw_os_error(code),
                    None => std::io::Error::new(source.kind(), source.to_string()),
                }),
            },
            Self::Refused { place, reason } => {
                Self::Refused { place: place.clone(), reason: reason.clone() }
            }
            Self::Unreadable { place, reason } => {
                Self::Unreadable { place: place.clone(), reason: reason.clone() }
            }
            Self::Internal(fault) => Self::Internal(fault.clone()),
        }
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
