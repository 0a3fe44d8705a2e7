//! Inspection of a database server, for operators.

use tokio_postgres::SimpleQueryMessage;

use super::connect_options::{PostgresConfig, TlsMode};
use super::connector::SessionKind;
use super::pool::{ConnectionPool, UnpooledClient};

/// A server's description of itself and of the role of this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// As the server spells it.
    pub version: String,
    pub role: String,
    /// True if the role may create tables. `None` if the server does not say.
    pub can_create: Option<bool>,
    /// How the connection is protected.
    pub protection: &'static str,
    /// True if the server proved its identity, or is on this machine.
    pub is_verified: bool,
}

/// Connects and changes nothing. The error is for operators: it may name hosts and files.
pub async fn inspect_server(config: PostgresConfig) -> Result<ServerReport, String> {
    let (protection, is_verified) = match config.tls.mode {
        TlsMode::Disable if config.is_local() => ("on this machine", true),
        TlsMode::Disable => ("not encrypted", false),
        TlsMode::Require => ("encrypted", false),
        TlsMode::VerifyCa => ("encrypted, with a verified certificate", true),
        TlsMode::VerifyFull => ("encrypted, with a verified certificate and name", true),
    };
    let pool = ConnectionPool::new(config).map_err(|error| error.to_string())?;
    let connected = pool.connect(SessionKind::Reader).await;
    let client = connected.map_err(|error| error.operator_text())?;
    let version = first_value(&client, "SELECT version()").await.unwrap_or_default();
    let allowed = "SELECT has_schema_privilege(current_schema(), 'CREATE')";
    Ok(ServerReport {
        version: version.split(',').next().unwrap_or_default().to_owned(),
        role: first_value(&client, "SELECT current_user").await.unwrap_or_default(),
        can_create: first_value(&client, allowed).await.map(|answer| answer == "t"),
        protection,
        is_verified,
    })
}

/// `None` if the server does not understand the statement.
async fn first_value(client: &UnpooledClient, statement: &str) -> Option<String> {
    let messages = client.simple_query(statement).await.ok()?;
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}
