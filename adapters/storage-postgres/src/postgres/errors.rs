//! Errors of the database: the next step of the caller, and the message for clients.

use std::{fmt, io};

use reqlore_domain::ports::documents::StoreError;

use reqlore_row_store::database::SessionError;
use reqlore_row_store::error::{
    DATABASE_LABEL, busy, damaged, damaged_structure, refused, unavailable,
};

pub(crate) const UNREACHABLE: &str = "cannot be reached; check that it runs, then try again";
pub(crate) const LOSSY: &str = "its settings lose acknowledged writes; see Reqlore's log";
pub(crate) const TLS_FAILED: &str = "TLS handshake failed; see Reqlore's log for the reason";

/// The step that can follow an error.
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
    /// For clients: names no host, role or file.
    pub(crate) error: Box<StoreError>,
    /// The same for operators, if there is no connection.
    pub(crate) for_operators: Option<Box<StoreError>>,
}

impl DatabaseError {
    pub(crate) fn report(error: StoreError) -> Self {
        Self { next: NextStep::Report, code: None, error: Box::new(error), for_operators: None }
    }

    /// The error for an administrator, with hosts, roles and files.
    pub(crate) fn into_operator_error(self) -> StoreError {
        *self.for_operators.unwrap_or(self.error)
    }

    /// The message for clients, without the name of the database.
    pub(crate) fn message(&self) -> String {
        let text = self.error.to_string();
        let label = format!("{DATABASE_LABEL}: ");
        text.strip_prefix(&label).unwrap_or(&text).to_owned()
    }

    /// The message without advice.
    pub(crate) fn problem(&self) -> String {
        let message = self.message();
        message.split_once(';').map_or(&*message, |(problem, _)| problem).to_owned()
    }

    /// The text of [`Self::into_operator_error`].
    pub(crate) fn operator_text(&self) -> String {
        self.for_operators.as_ref().unwrap_or(&self.error).to_string()
    }

    pub(crate) fn reconnect(reason: &str) -> Self {
        Self { next: NextStep::Reconnect, ..Self::report(unavailable(reason)) }
    }

    /// A bug.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::report(StoreError::Internal(format!("{DATABASE_LABEL}: {}", message.into())))
    }

    pub(crate) fn damaged_row(row: &str) -> Self {
        Self::report(damaged(row))
    }

    /// True if the server ended or cannot be reached, and not only this connection or statement.
    pub(crate) fn is_lost_server(&self) -> bool {
        let code = self.code.as_deref().unwrap_or("08");
        self.next == NextStep::Reconnect && (code.starts_with("08") || code.starts_with("57P"))
    }

    /// True if the database rejected a value, a key or a size.
    pub(crate) fn is_rejected_data(&self) -> bool {
        let class = self.code.as_deref().and_then(|code| code.get(..2));
        matches!(class, Some("22" | "23" | "54"))
    }

    pub(crate) fn has_code(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        *error.error
    }
}

impl From<DatabaseError> for SessionError {
    fn from(error: DatabaseError) -> Self {
        match error.next {
            NextStep::Repeat => Self::Conflict(error.problem()),
            NextStep::Reconnect => Self::Disconnected(error.problem()),
            NextStep::Report => Self::Failed(*error.error),
        }
    }
}

pub(crate) fn lost_connection() -> DatabaseError {
    DatabaseError::reconnect("the connection was lost; check that it runs, then try again")
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        tracing::debug!(%error, "the database failed");
        if let Some(reported) = error.as_db_error() {
            let code = reported.code().code();
            let message: String = reported.message().chars().take(200).collect();
            return Self {
                next: next_step(code, &message),
                code: Some(code.to_owned()),
                ..Self::report(store_error(code, &message))
            };
        }
        let source = std::error::Error::source(&error);
        let cause = source.and_then(|source| source.downcast_ref::<io::Error>());
        match cause {
            // The TLS library reports a certificate that it does not trust in this way.
            Some(cause) if cause.kind() == io::ErrorKind::InvalidData => {
                Self::report(unavailable(TLS_FAILED))
            }
            Some(_) => Self::reconnect(UNREACHABLE),
            None if error.is_closed() => lost_connection(),
            None => Self::internal(error.to_string()),
        }
    }
}

fn next_step(code: &str, message: &str) -> NextStep {
    match code {
        // Lost, ended by the database, led to a standby, or given to another client by a pooler.
        // 40003 leaves open whether a statement was completed.
        "40003" | "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" | "25006" | "53300"
        | "26000" => NextStep::Reconnect,
        // A migration changed a column that a prepared statement uses.
        "0A000" if message.contains("cached plan") => NextStep::Reconnect,
        _ if code.starts_with("08") => NextStep::Reconnect,
        // CockroachDB, YugabyteDB and Aurora DSQL report conflicts as 40001. The documentation of
        // Aurora DSQL also names OC000 and OC001.
        "55P03" => NextStep::Repeat,
        _ if code.starts_with("40") || code.starts_with("OC") => NextStep::Repeat,
        _ => NextStep::Report,
    }
}

fn store_error(code: &str, message: &str) -> StoreError {
    let reason = match code {
        "40003" => return *lost_connection().error,
        "57P03" => "is starting or shutting down; try again",
        "57P01" | "57P02" => "ended the connection, for example for a restart; try again",
        "57P05" => "ended an idle session; try again",
        "25P03" | "25P04" => {
            "ended a session that was too long in a transaction; raise its \
             `idle_in_transaction_session_timeout` or `transaction_timeout`"
        }
        "26000" => "lost a prepared statement; connect directly, or through a pooler of sessions",
        "25006" => {
            "can only be read, so nothing was written; connect to the primary, or wait until a \
             standby is promoted"
        }
        "53300" => "accepts no more connections; raise its `max_connections`, or lower `pool_size`",
        "53100" => "no space is left on its disk, so nothing was written; free some space",
        "3D000" => "does not exist; create it, or correct its name in the URL",
        "55P03" => {
            return busy(
                "a statement waited for a lock longer than its `lock_timeout`, so nothing was \
                 written; try again",
            );
        }
        "57014" => {
            return busy(
                "a statement was cancelled, so nothing was written; try again, or raise its \
                 `statement_timeout`",
            );
        }
        "22021" | "22P05" => {
            return refused("has an encoding without this text; create it with ENCODING 'UTF8'");
        }
        "28P01" => "rejected the login; correct the user or its password",
        "28000" if message.contains("no encryption") => {
            "rejected the login without TLS; set sslmode=verify-full in the URL, or correct \
             `pg_hba.conf`"
        }
        "28000" if message.contains("certificate") => {
            "rejected the login; name a certificate for this role as sslcert and sslkey in the URL"
        }
        "42501" => &format!("a permission is missing ({message}); grant it to the role"),
        "42P01" | "42703" | "3F000" => &format!(
            "its schema is incomplete ({message}); run `reqlore migrate up`, or restore a \
                 backup into a new database if nothing is pending"
        ),
        "42704" => "does not know a parameter of `options`; correct the URL",
        "XX001" | "XX002" => return damaged_structure(message),
        _ => return store_error_of_class(code, message),
    };
    unavailable(reason)
}

fn store_error_of_class(code: &str, message: &str) -> StoreError {
    match code.get(..2).unwrap_or_default() {
        "08" => *lost_connection().error,
        "28" => unavailable("rejected the login; check the role and `pg_hba.conf`"),
        "40" | "OC" => {
            busy("other writers kept changing the same rows, so nothing was written; try again")
        }
        "53" => unavailable(format!("is short of a resource ({message}); raise its limit")),
        "54" => {
            refused(format!("cannot store a change of this size ({message}); split or shorten it"))
        }
        class => {
            // The message may name files and values.
            tracing::warn!(code, message, "error of the database");
            if class == "58" {
                return unavailable("cannot access its files; check its disk and its log");
            }
            StoreError::Internal(format!("{DATABASE_LABEL}: error {code}; see Reqlore's log"))
        }
    }
}
