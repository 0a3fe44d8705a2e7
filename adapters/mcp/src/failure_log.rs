//! The log lines of failed requests.

use reqlore_domain::identity::{Caller, TokenId, redact_echo, redact_secrets};

/// Maximum characters of an error message in the log.
const MAX_LOGGED_CHARS: usize = 300;

/// Logs a failed request: one line for each. `method` is "unknown" if the request has none.
pub fn log_failure(
    id: &str,
    caller: Option<&Caller>,
    (method, tool): (&str, Option<&str>),
    code: i32,
    message: &str,
) {
    // A conflict repeats the whole document after its first line.
    let line = message.lines().next().unwrap_or_default();
    let line: String = redact_secrets(line).chars().take(MAX_LOGGED_CHARS).collect();
    let (method, tool) = (redact_echo(method), tool.map(redact_echo));
    let user = caller.map(|caller| &*caller.name);
    let token = caller.and_then(|caller| caller.token.as_ref()).map(TokenId::as_str);
    tracing::info!(id, user, token, method, tool, code, error = line, "request failed");
}
