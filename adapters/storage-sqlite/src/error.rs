//! Names in error messages: calls say "the database"; opening names the path as it was given.

use std::io;
use std::time::Duration;

use reqlore_domain::ports::documents::StoreError;
use reqlore_sqlite_team::error::DatabaseError;

/// How long a call waits for other processes.
pub(crate) const BUSY_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 2_000 } else { 5_000 });

pub(crate) const DATABASE_NAME: &str = "the database";

pub(crate) type QueryError = DatabaseError;

/// The error of a system call on the database's files.
pub(crate) fn io_error(place: &str, doing: &str, source: io::Error) -> StoreError {
    let reason = format!("could not {doing}: {source}; fix that and try again");
    StoreError::Unavailable { place: place.to_owned(), reason, source: Some(source) }
}

/// The error of a call.
pub(crate) fn call_error(error: impl Into<DatabaseError>) -> StoreError {
    error.into().into_store_error(DATABASE_NAME)
}
