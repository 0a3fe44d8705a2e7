//! Errors of this storage. Clients see "the database"; messages while opening name the path.

use std::io;
use std::time::Duration;

use reqlore_domain::ports::documents::StoreError;
use reqlore_sqlite_team::error::DatabaseError;

/// How long a call waits for locks of other processes.
pub(crate) const BUSY_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 2_000 } else { 5_000 });

pub(crate) const DATABASE_NAME: &str = "the database";

pub(crate) type QueryError = DatabaseError;

/// Error of the operating system on a database file. `action` completes "could not …".
pub(crate) fn io_error(place: &str, action: &str, source: io::Error) -> StoreError {
    let reason = format!("could not {action}: {source}; fix that and try again");
    StoreError::Unavailable { place: place.to_owned(), reason, source: Some(source) }
}

/// The object of an error that reports damage, for a list or for a sentence around it.
pub(crate) fn damaged_object(error: &QueryError) -> String {
    match error {
        DatabaseError::Sql(error) => error.to_string(),
        DatabaseError::Damaged(object) => object.clone(),
        DatabaseError::Store(error) => error.to_string(),
    }
}

/// Error of a call, without a path.
pub(crate) fn call_error(error: impl Into<DatabaseError>) -> StoreError {
    error.into().into_store_error(DATABASE_NAME)
}
