//! Opens connections: tries the hosts of a URL in turn and prepares the session.

use std::error::Error as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use futures_util::future::join_all;
use thiserror::Error;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{debug, warn};

use super::connect_options::{PostgresConfig, address_of};
use super::errors::DatabaseError;
use super::tls;

/// Between two warnings of the same text.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The job of a connection, which decides its timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionKind {
    Reader,
    /// Holds the lock that all writers queue on, so it may not be idle for long.
    Writer,
    /// Changes the schema, where one statement may take hours.
    Migration,
}

impl SessionKind {
    /// Settings of the session, in milliseconds. 0 means no limit.
    fn settings(self) -> [(&'static str, u32); 3] {
        let (statement, lock, idle) = match self {
            Self::Reader => (30_000, 10_000, 300_000),
            Self::Writer => (30_000, 10_000, 10_000),
            Self::Migration => (0, 2_000, 60_000),
        };
        [
            ("statement_timeout", statement),
            ("lock_timeout", lock),
            ("idle_in_transaction_session_timeout", idle),
        ]
    }
}

/// Why there is no connection. The text is for operators: it may name hosts and files.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    File(String),
    #[error("{address}: {}", describe(error))]
    Failed { address: String, error: tokio_postgres::Error },
    #[error("{address}: no answer within {seconds} s; correct the host, or raise connect_timeout")]
    Timeout { address: String, seconds: u64 },
    #[error(
        "{address}: it is a read-only standby; name all hosts of the cluster in the URL, or wait \
         until a standby is promoted"
    )]
    ReadOnly { address: String },
    #[error("the connection's task ended")]
    Stopped,
}

impl From<ConnectError> for DatabaseError {
    /// The error for clients, which names no host, role or file. The operator's log has them.
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::File(_) => {
                Self::reconnect("a file of its connection can't be used; the server's log names it")
            }
            ConnectError::Failed { error, .. } => error.into(),
            ConnectError::Timeout { .. } | ConnectError::Stopped => {
                Self::reconnect("cannot be reached; check that it runs, then try again")
            }
            ConnectError::ReadOnly { .. } => {
                Self::reconnect("only a read-only standby can be reached; try again later")
            }
        }
    }
}

/// The error with its causes: `tokio_postgres` keeps the text of the server in the cause.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        return reported.to_string();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += ": ";
        text += &error.to_string();
        cause = error.source();
    }
    text
}

/// Connects to the first host that accepts. Passwords and certificates are read from their files
/// each time, because they may rotate. Must run on a runtime that outlives the connection.
pub(crate) async fn connect(
    config: &PostgresConfig,
    kind: SessionKind,
) -> Result<ClientWrapper, ConnectError> {
    let tls = match tls::client_config(&config.tls) {
        Ok(tls) => MakeRustlsConnect::new(tls),
        Err(message) => {
            let error = ConnectError::File(message);
            log_failure(&error);
            return Err(error);
        }
    };
    let mut failure = ConnectError::Stopped;
    for target in &config.targets {
        match connect_target(config, target, tls.clone(), kind).await {
            Ok(client) => return Ok(client),
            Err(error) => {
                log_failure(&error);
                failure = error;
            }
        }
    }
    Err(failure)
}

/// Logs for the operator. While a database is down, each request fails for the same reason.
fn log_failure(error: &ConnectError) {
    static LAST_WARNING: Mutex<Option<(String, Instant)>> = Mutex::new(None);
    let text = error.to_string();
    let mut last = LAST_WARNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((earlier, at)) = &*last
        && *earlier == text
        && at.elapsed() < WARNING_INTERVAL
    {
        debug!("database: {text}");
        return;
    }
    warn!("database: {text}");
    *last = Some((text, Instant::now()));
}

async fn connect_target(
    config: &PostgresConfig,
    target: &Config,
    tls: MakeRustlsConnect,
    kind: SessionKind,
) -> Result<ClientWrapper, ConnectError> {
    let address = address_of(target);
    let mut target = target.clone();
    if target.get_password().is_none()
        && let Some(file) = &config.password_file
        && let Some(password) = file.find_password(&target).map_err(ConnectError::File)?
    {
        target.password(password);
    }
    // tokio-postgres limits only the time until the socket is connected.
    let limit = target.get_connect_timeout().copied().unwrap_or_default();
    let connecting = async {
        let (client, connection) = match target.connect(tls).await {
            Ok(connected) => connected,
            Err(error) => return Err(ConnectError::Failed { address: address.clone(), error }),
        };
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!("database connection ended: {}", describe(&error));
            }
        });
        let client = ClientWrapper::new(client, task);
        prepare_session(&client, &target, kind).await;
        if config.needs_writable && is_read_only(&client).await {
            return Err(ConnectError::ReadOnly { address: address.clone() });
        }
        Ok(client)
    };
    match timeout(limit, connecting).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ConnectError::Timeout { address, seconds: limit.as_secs() }),
    }
}

/// Statements are planned once, maybe while a table is small. Such a plan must not read all of a
/// large table. The choice of the index still needs statistics. Disabled plans look
/// expensive, so compilation must be off as well.
const PLANNER_SETTINGS: [&str; 4] =
    ["enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"];

/// Applies the settings of a session, in one round trip. Not all engines have all of them, and what
/// the URL sets in `options` is left as it is.
async fn prepare_session(client: &Client, target: &Config, kind: SessionKind) {
    let options = target.get_options().unwrap_or_default();
    let mut statements = Vec::new();
    for (name, value) in kind.settings() {
        if !options.contains(name) {
            statements.push(format!("SET {name} = {value}"));
        }
    }
    for name in PLANNER_SETTINGS {
        if !options.contains(name) {
            statements.push(format!("SET {name} = off"));
        }
    }
    for outcome in join_all(statements.iter().map(|one| client.batch_execute(one))).await {
        if let Err(error) = outcome {
            debug!("database session setting: {}", describe(&error));
        }
    }
}

/// False for an engine that does not know the notion of a standby.
async fn is_read_only(client: &Client) -> bool {
    let Ok(messages) = client.simple_query("SHOW transaction_read_only").await else {
        return false;
    };
    messages
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on")))
}
