//! Errors of this storage.

use reqlore_domain::ports::documents::StoreError;

/// How messages name the database: never by its address.
pub const DATABASE_LABEL: &str = "the database";

pub fn unavailable(reason: impl Into<String>) -> StoreError {
    unavailable_at(DATABASE_LABEL.to_owned(), reason.into())
}

pub fn unavailable_at(place: String, reason: String) -> StoreError {
    StoreError::Unavailable { place, reason, source: None }
}

pub fn refused(reason: impl Into<String>) -> StoreError {
    StoreError::Refused { place: DATABASE_LABEL.to_owned(), reason: reason.into() }
}

pub fn busy(reason: &str) -> StoreError {
    StoreError::Busy { reason: format!("{DATABASE_LABEL}: {reason}") }
}

pub fn damaged(object: &str) -> StoreError {
    let reason = format!(
        "is damaged ({object}); restore a backup into a new database with `reqlore restore`"
    );
    StoreError::Unreadable { place: DATABASE_LABEL.to_owned(), reason }
}
