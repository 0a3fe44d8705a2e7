//! Errors of this storage.

use reqlore_domain::ports::documents::StoreError;

/// How messages name the database: never by its address.
pub const DATABASE_LABEL: &str = "the database";

pub fn unavailable(reason: impl Into<String>) -> StoreError {
    unavailable_at(DATABASE_LABEL.to_owned(), reason.into())
}

pub fn unavailable_at(subject: String, reason: String) -> StoreError {
    StoreError::Unavailable { subject, reason, source: None }
}

pub fn refused(reason: impl Into<String>) -> StoreError {
    StoreError::Refused { subject: DATABASE_LABEL.to_owned(), reason: reason.into() }
}

pub fn busy(reason: &str) -> StoreError {
    StoreError::Busy { reason: format!("{DATABASE_LABEL}: {reason}") }
}

const DAMAGED: (&str, &str) =
    ("is damaged (", "); restore a backup into a new database with `reqlore restore`");

pub fn damaged(object: &str) -> StoreError {
    let reason = format!("{}{object}{}", DAMAGED.0, DAMAGED.1);
    StoreError::Unreadable { subject: DATABASE_LABEL.to_owned(), reason }
}

/// Damage that may hide rows, such as that of an index.
pub fn damaged_structure(object: &str) -> StoreError {
    damaged(&format!("{STRUCTURE}{object}"))
}

pub(crate) const STRUCTURE: &str = "its structure: ";

/// The object of an error of [`damaged`].
pub fn damaged_object(error: &StoreError) -> Option<&str> {
    match error {
        StoreError::Unreadable { subject, reason } if subject == DATABASE_LABEL => {
            reason.strip_prefix(DAMAGED.0)?.strip_suffix(DAMAGED.1)
        }
        _ => None,
    }
}
