//! Opens connections: tries the hosts of a URL in turn and prepares the session.

use std::error::Error;
use std::io;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::future::join_all;
use rustls::CertificateError;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;

use super::connect_options::{PostgresConfig, address_of};
use super::errors::{DatabaseError, LOSSY, NextStep, TLS_FAILED, UNREACHABLE};
use super::password_file::PasswordFile;
use super::tls;
use reqlore_row_store::error::{DATABASE_LABEL, unavailable, unavailable_at};

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

/// Why a host gave no connection.
struct HostFailure {
    /// For clients.
    error: DatabaseError,
    /// For operators: may name roles and files.
    reason: String,
}

impl HostFailure {
    fn of_file(reason: String) -> Self {
        let text = "a file for its connection cannot be read; see Reqlore's log";
        Self { error: DatabaseError::report(unavailable(text)), reason }
    }

    fn timeout(limit: Duration) -> Self {
        let reason = format!(
            "no answer within {} s; correct the host, or raise connect_timeout",
            limit.as_secs()
        );
        Self { error: DatabaseError::reconnect(UNREACHABLE), reason }
    }

    fn read_only() -> Self {
        let text = "only a read-only standby can be reached; try again later";
        let reason = "it is a read-only standby; name all hosts of the cluster in the URL, or wait \
                      until a standby is promoted";
        Self { error: DatabaseError::reconnect(text), reason: reason.to_owned() }
    }

    /// `settings` has the names and values that lose acknowledged writes.
    fn lossy(settings: &str) -> Self {
        Self {
            error: DatabaseError::report(unavailable(LOSSY)),
            reason: format!(
                "{settings} loses acknowledged writes in a crash; turn it on for the server, the \
                 database, the role and the URL"
            ),
        }
    }

    fn no_password(target: &Config, file: Option<&PasswordFile>) -> Self {
        let user = target.get_user().unwrap_or("USER");
        let name = target.get_dbname().unwrap_or(user);
        let line = format!("{}:{name}:{user}:PASSWORD", address_of(target));
        let file = match file {
            Some(file) => file.to_string(),
            None => "a file that PGPASSFILE names".to_owned(),
        };
        Self {
            error: DatabaseError::report(unavailable("rejected the login; configure a password")),
            reason: format!(
                "it requires a password for the role {user}, but none is configured; set \
                 PGPASSWORD, or add the line `{line}` to {file}"
            ),
        }
    }

    fn explain(error: tokio_postgres::Error, target: &Config, file: Option<&PasswordFile>) -> Self {
        let cause = describe(&error);
        if cause.ends_with("password missing") {
            return Self::no_password(target, file);
        }
        if error.as_db_error().is_none() && error.to_string().starts_with("authentication") {
            let error = DatabaseError::report(unavailable("rejected the login; check its URL"));
            return Self { error, reason: format!("{cause}; check the parameters of the URL") };
        }
        if let Some(problem) = tls_problem(&error) {
            let error = DatabaseError::report(unavailable(TLS_FAILED));
            return Self { error, reason: add_cause(problem, &cause) };
        }
        let is_network = error.as_db_error().is_none() && error.source().is_some();
        let error = DatabaseError::from(error);
        if is_network && error.next == NextStep::Reconnect {
            let reason = format!("cannot be reached ({cause}); start it, or correct the URL");
            return Self { error, reason };
        }
        Self { reason: add_cause(&error.message(), &cause), error }
    }
}

/// The problem of a TLS handshake, and what to do.
fn tls_problem(error: &tokio_postgres::Error) -> Option<&'static str> {
    use CertificateError::{NotValidForName, NotValidForNameContext, UnknownIssuer};
    let cause = error.source()?;
    if cause.to_string().contains("does not support TLS") {
        return Some(
            "it does not offer TLS; turn on `ssl` in its `postgresql.conf`, or pass \
             sslmode=disable if you trust the network",
        );
    }
    let cause = cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match cause {
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "its certificate is for another name; correct the host in the URL, or the certificate"
        }
        rustls::Error::InvalidCertificate(UnknownIssuer) => {
            "no trusted authority has signed its certificate; name the authority's certificate as \
             sslrootcert in the URL"
        }
        rustls::Error::AlertReceived(_) => {
            "it refused the certificate of this client; correct sslcert and sslkey in the URL"
        }
        _ => "TLS handshake failed; check its certificate, and its versions of TLS",
    })
}

/// Adds a cause to a message `problem; advice`.
fn add_cause(message: &str, cause: &str) -> String {
    match message.split_once(';') {
        _ if message.contains(cause) => message.to_owned(),
        Some((problem, advice)) if cause.ends_with(problem) => format!("{cause};{advice}"),
        Some((problem, advice)) => format!("{problem} ({cause});{advice}"),
        None => format!("{message} ({cause})"),
    }
}

/// The message of the server, or the error with its causes.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        return reported.message().to_owned();
    }
    let mut cause: Option<&dyn Error> = error.source();
    // Its own text adds nothing if the network failed.
    if let Some(network) = cause.filter(|cause| cause.is::<io::Error>()) {
        return network.to_string();
    }
    let mut text = error.to_string();
    while let Some(error) = cause {
        text += ": ";
        text += &error.to_string();
        cause = error.source();
    }
    text
}

/// Connects to the first host that accepts, beginning with the one at `first`, and returns its
/// index. Passwords and certificates are read from their files each time, because they may rotate.
/// Must run on a runtime that outlives the connection.
pub(crate) async fn connect(
    config: &PostgresConfig,
    first: usize,
    kind: SessionKind,
) -> Result<(ClientWrapper, usize), DatabaseError> {
    let tls = tls::client_config(&config.tls).map_err(|reason| {
        let failure = HostFailure::of_file(reason);
        let for_operators = unavailable(&failure.reason);
        DatabaseError { for_operators: Some(Box::new(for_operators)), ..failure.error }
    })?;
    let tls = MakeRustlsConnect::new(tls);
    let mut failure: Option<DatabaseError> = None;
    let mut reasons = Vec::with_capacity(config.targets.len());
    let count = config.targets.len();
    for index in (0..count).map(|offset| (first + offset) % count) {
        let target = &config.targets[index];
        let address = address_of(target);
        match connect_target(config, target, tls.clone(), kind).await {
            Ok(client) => return Ok((client, index)),
            Err(HostFailure { error, reason }) => {
                reasons.push(format!("{address}: {reason}"));
                // The error of a host that may recover takes precedence.
                let earlier = failure.take().filter(|_| error.next == NextStep::Report);
                failure = Some(earlier.unwrap_or(error));
            }
        }
    }
    let reasons = reasons.join(". ");
    let (address, reason) = reasons.split_once(": ").unwrap_or_default();
    let for_operators = unavailable_at(format!("{DATABASE_LABEL} {address}"), reason.to_owned());
    let error = failure.unwrap_or_else(|| DatabaseError::reconnect(UNREACHABLE));
    Err(DatabaseError { for_operators: Some(Box::new(for_operators)), ..error })
}

async fn connect_target(
    config: &PostgresConfig,
    target: &Config,
    tls: MakeRustlsConnect,
    kind: SessionKind,
) -> Result<ClientWrapper, HostFailure> {
    let mut target = target.clone();
    let file = config.password_file.as_ref();
    if target.get_password().is_none()
        && let Some(file) = file
        && let Some(password) = file.find_password(&target).map_err(HostFailure::of_file)?
    {
        target.password(password);
    }
    // tokio-postgres limits only the time until the socket is connected.
    let limit = target.get_connect_timeout().copied().unwrap_or_default();
    let connecting = async {
        let connected = target.connect(tls).await;
        let (client, connection) =
            connected.map_err(|error| HostFailure::explain(error, &target, file))?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!("database connection ended: {}", describe(&error));
            }
        });
        let client = ClientWrapper::new(client, task);
        if let Some(settings) = lossy_settings(&client).await
            && !config.accepts_loss
        {
            return Err(HostFailure::lossy(&settings));
        }
        prepare_session(&client, &target, kind).await;
        // A standby may serve reads, if the URL allows it.
        let needs_writable = config.needs_writable || kind != SessionKind::Reader;
        if needs_writable && is_read_only(&client).await {
            return Err(HostFailure::read_only());
        }
        Ok(client)
    };
    match timeout(limit, connecting).await {
        Ok(outcome) => outcome,
        Err(_) => Err(HostFailure::timeout(limit)),
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

/// Keeps the value of `synchronous_commit` for the session, so that no later reload of the server's
/// configuration weakens it.
const READ_DURABILITY: &str = "SELECT \
     set_config('synchronous_commit', current_setting('synchronous_commit'), false), \
     current_setting('fsync', true), current_setting('full_page_writes', true)";

/// Returns the settings of the session that lose acknowledged writes. `None` if there are none, or
/// for an engine without these settings.
async fn lossy_settings(client: &Client) -> Option<String> {
    let messages = client.simple_query(READ_DURABILITY).await.ok()?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })?;
    let mut lossy = Vec::new();
    for (index, name) in ["synchronous_commit", "fsync", "full_page_writes"].iter().enumerate() {
        if let Some(value) = row.get(index).filter(|value| !matches!(*value, "on" | "remote_apply"))
        {
            lossy.push(format!("{name} = {value}"));
        }
    }
    (!lossy.is_empty()).then(|| lossy.join(", "))
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
