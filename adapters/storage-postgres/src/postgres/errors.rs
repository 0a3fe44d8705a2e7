//! Errors of the database: what to do after them, and what callers are told.

use std::io;

use reqlore_domain::ports::documents::StoreError;
use tokio_postgres::error::DbError;

use crate::database::SessionError;

/// How messages name the database: never by its address.
pub(crate) const PLACE: &str = "the database";

const RESTORE_HINT: &str = "create an empty database and restore a backup with `reqlore restore`";

/// What can follow an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Repeat the transaction: it was in conflict with another one.
    Repeat,
    /// Repeat the transaction on a new connection. At a commit, the outcome is unknown.
    Reconnect,
    /// Repeating does not help.
    Report,
}

/// An error of the database or of the connection to it.
#[derive(Debug)]
pub(crate) struct DatabaseError {
    pub(crate) next: NextStep,
    /// SQLSTATE, if the database reported the error.
    pub(crate) code: Option<String>,
    pub(crate) error: StoreError,
}

impl DatabaseError {
    pub(crate) fn report(error: StoreError) -> Self {
        Self { next: NextStep::Report, code: None, error }
    }

    pub(crate) fn reconnect(reason: &str) -> Self {
        Self { next: NextStep::Reconnect, code: None, error: unavailable(reason) }
    }

    /// A bug.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::report(StoreError::Internal(format!("{PLACE}: {}", message.into())))
    }

    pub(crate) fn damaged_row(table: &str) -> Self {
        Self::report(damaged(&format!("a row does not match its checksum: table {table}")))
    }

    pub(crate) fn has_code(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        error.error
    }
}

impl From<DatabaseError> for SessionError {
    fn from(error: DatabaseError) -> Self {
        match error.next {
            NextStep::Repeat | NextStep::Reconnect => Self::Retry(error.error.to_string()),
            NextStep::Report => Self::Failed(error.error),
        }
    }
}

pub(crate) fn lost_connection() -> DatabaseError {
    DatabaseError::reconnect("the connection was lost; check that it runs, then try again")
}

pub(crate) fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { place: PLACE.to_owned(), reason: reason.to_owned(), source: None }
}

pub(crate) fn refused(reason: impl Into<String>) -> StoreError {
    StoreError::Refused { place: PLACE.to_owned(), reason: reason.into() }
}

fn damaged(object: &str) -> StoreError {
    let reason = format!("is damaged ({object}); {RESTORE_HINT}");
    StoreError::Unreadable { place: PLACE.to_owned(), reason }
}

fn busy(reason: &str) -> StoreError {
    StoreError::Busy { reason: format!("{PLACE}: {reason}") }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        tracing::debug!(?error, "the database failed");
        if let Some(reported) = error.as_db_error() {
            let (next, store_error) = from_report(reported);
            return Self {
                next,
                code: Some(reported.code().code().to_owned()),
                error: store_error,
            };
        }
        let source = std::error::Error::source(&error);
        let cause = source.and_then(|source| source.downcast_ref::<io::Error>());
        match cause {
            // The TLS library reports a certificate that it does not trust in this way.
            Some(cause) if cause.kind() == io::ErrorKind::InvalidData => Self::report(unavailable(
                "TLS failed; the server's log has the reason, often a certificate or its name",
            )),
            Some(_) => Self::reconnect("cannot be reached; check that it runs, then try again"),
            None if error.is_closed() => lost_connection(),
            None => Self::internal(error.to_string()),
        }
    }
}

fn from_report(report: &DbError) -> (NextStep, StoreError) {
    use NextStep::{Reconnect, Repeat, Report};
    let code = report.code().code();
    let class = code.get(..2).unwrap_or_default();
    let message: String = report.message().chars().take(200).collect();
    match (class, code) {
        // Statement completion unknown.
        (_, "40003") | ("08", _) => {
            (Reconnect, unavailable("the connection was lost; check that it runs, then try again"))
        }
        // `OC` are the conflicts of Aurora DSQL, which it also reports as 40001.
        ("40" | "OC", _) => (
            Repeat,
            busy(
                "other writers changed the same data again and again, so nothing was written; \
                  try again",
            ),
        ),
        (_, "57P01" | "57P02" | "57P03" | "57P05") => {
            (Reconnect, unavailable("is starting or shutting down; try again"))
        }
        (_, "25P03" | "25P04") => (
            Reconnect,
            unavailable("ended a transaction that took too long; try again, or raise its timeouts"),
        ),
        // A pooler gave us another connection, or a migration changed the type of a column.
        (_, "26000") | (_, "0A000") if code == "26000" || message.contains("cached plan") => {
            (Reconnect, unavailable("lost its prepared statements; connect without a pooler"))
        }
        (_, "55P03") => (Repeat, busy("other writers kept it locked; try again")),
        (_, "57014") => (
            Report,
            busy(
                "a statement took longer than its `statement_timeout`, so nothing was written; \
                  try again, or raise the timeout",
            ),
        ),
        (_, "25006") => (
            Reconnect,
            unavailable(
                "can only be read, so nothing was written; connect to the primary, or \
                         wait until a standby is promoted",
            ),
        ),
        (_, "53300") => (
            Reconnect,
            unavailable(
                "accepts no more connections; raise its `max_connections`, or use fewer \
                         connections per server",
            ),
        ),
        (_, "53100") => (
            Report,
            unavailable("no space is left on its disk, so nothing was written; free some space"),
        ),
        ("53", _) => (Report, unavailable(&format!("is short of a resource ({message})"))),
        ("54", _) => (
            Report,
            refused(format!("cannot store a change of this size ({message}); split or shorten it")),
        ),
        ("28", _) => {
            (Report, unavailable("rejected the login; check user, password and `pg_hba.conf`"))
        }
        (_, "3D000") => {
            (Report, unavailable("does not exist; create it, or correct its name in the URL"))
        }
        (_, "42501") => (
            Report,
            unavailable(&format!(
                "the role has no permission ({message}); grant it, as \
                                  docs/postgres.md shows"
            )),
        ),
        (_, "42P01" | "42703" | "3F000") => (
            Report,
            unavailable(&format!("its schema is incomplete ({message}); run `reqlore migrate up`")),
        ),
        (_, "22021" | "22P05") => (
            Report,
            refused("cannot store this text in its encoding; create it with ENCODING 'UTF8'"),
        ),
        (_, "XX001" | "XX002") => (Report, damaged(&message)),
        ("58", _) => (Report, unavailable(&format!("cannot access its files ({message})"))),
        _ => (Report, StoreError::Internal(format!("{PLACE}: error {code}: {message}"))),
    }
}
