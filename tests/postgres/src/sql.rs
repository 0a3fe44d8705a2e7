//! Statements of the tests themselves, each on a connection of its own.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

/// A statement that waits longer waits for a lock that nothing releases.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs statements and returns the first column of all rows; null is an empty text.
///
/// Uses a thread of its own, because the caller may be inside a runtime.
pub(crate) fn run_sql(config: &Config, statements: &str) -> Result<Vec<String>, String> {
    let messages = std::thread::scope(|scope| {
        scope.spawn(|| run_on_this_thread(config, statements)).join().expect("no panic")
    })?;
    let mut values = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            values.push(row.get(0).unwrap_or_default().to_owned());
        }
    }
    Ok(values)
}

fn run_on_this_thread(
    config: &Config,
    statements: &str,
) -> Result<Vec<SimpleQueryMessage>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = config.connect(NoTls).await.map_err(describe)?;
        let connection = tokio::spawn(connection);
        let answer = timeout(STATEMENT_TIMEOUT, client.simple_query(statements)).await;
        let messages =
            answer.map_err(|_| format!("no answer within {STATEMENT_TIMEOUT:?}: {statements}"))?;
        let messages = messages.map_err(describe);
        drop(client);
        // The server has seen the end of the connection when this returns.
        let _ = connection.await;
        messages
    })
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn describe(error: tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |cause| cause.message().to_owned())
}
