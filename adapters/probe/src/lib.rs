//! Asks an MCP server who it is, as a client would.
//!
//! For the commands that look at servers from outside (`doctor`, `demo`): the smallest client that
//! there can be, with a time limit on everything, since what it starts may be anything.

pub mod command;
pub mod url;

/// What a server says of itself in its answer to `initialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub name: String,
    pub version: String,
    /// The revision of the protocol that it speaks.
    pub protocol: String,
}

/// Why there was no such answer, with what was seen of it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);
