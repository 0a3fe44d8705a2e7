//! MCP clients' configuration files: their locations, and a server's entry in them.
//!
//! Nothing here reads the environment or writes a file: the caller shows each change to the user
//! before it is written. An edit changes one entry, and can be undone to the byte ([`UndoPatch`]).

pub mod client;
pub mod edit;
mod environment;
mod profiles;
pub mod undo;

pub use client::{Client, ConfigLocation, ConfigScope, ServerSpec};
pub use edit::{ConfigFormat, EntryEdit, EntrySlot};
pub use environment::{ClientEnvironment, Platform};
pub use undo::UndoPatch;

/// Why a client can't be configured or its file can't be edited, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl ConfigError {
    /// An error at a byte of a text, with line and column as editors count them.
    fn at_position(text: &str, at: usize, what: &str) -> Self {
        let before = &text[..at];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[start..].chars().count() + 1;
        Self(format!("line {line}, column {column}: {what}"))
    }

    fn syntax_error(text: &str, at: usize, format: &str, what: &str) -> Self {
        let what = format!(
            "not the {format} that the client reads: {what}; correct it there, or move the file \
             away, then run this again"
        );
        Self::at_position(text, at, &what)
    }
}

impl From<&str> for ConfigError {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl From<ConfigError> for String {
    fn from(error: ConfigError) -> Self {
        error.0
    }
}
