//! Asks an MCP server who it is, as a client would.
//!
//! For the commands that look at servers from outside (`doctor`, `demo`): the smallest client that
//! there can be, with a time limit on everything, since what it starts may be anything. The trap:
//! what comes back is the server's word, control characters and secrets included; whoever shows it
//! cleans it first.

pub mod command;
mod process;
#[cfg(test)]
mod tests;
pub mod url;

use serde_json::{Value, json};

/// An answer to `initialize` is never longer, in bytes.
const MOST: usize = 1 << 20;

/// What a server says of itself in its answer to `initialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub name: String,
    pub version: String,
    /// The revision of the protocol that it speaks.
    pub protocol: String,
}

/// Why there was no such answer, with what was seen of it, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {next}")]
pub struct NoAnswer {
    pub message: String,
    pub next: String,
}

impl NoAnswer {
    fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { message: message.into(), next: next.into() }
    }
}

/// The parameters of `initialize`.
fn introduction() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "reqlore", "version": env!("CARGO_PKG_VERSION") }
    })
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

impl Hello {
    /// Reads a whole answer to `initialize`.
    fn of(answer: &Value) -> Result<Self, NoAnswer> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let result = &answer["result"];
        let server = &result["serverInfo"];
        let hello = || {
            Some(Self {
                name: text(&server["name"])?,
                version: text(&server["version"])?,
                protocol: text(&result["protocolVersion"])?,
            })
        };
        hello().ok_or_else(|| match text(&answer["error"]["message"]) {
            Some(error) => NoAnswer::new(
                format!("answered with an error: {}", shortened(&error)),
                "look at what the server says in its log",
            ),
            None => NoAnswer::new(
                "answered, but not as an MCP server",
                "look whether this is the right server",
            ),
        })
    }
}

/// As much of a text as a message can quote.
fn shortened(text: &str) -> String {
    const CHARACTERS: usize = 200;
    let text = text.trim();
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
