//! For whom a server is configured, where its entry stands, and what the server is.

use std::path::PathBuf;

use crate::edit::Slot;

/// For whom a server is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For everybody who works on the project: a file in it, for git.
    Project,
    /// For this person, in all projects: a file in the home folder.
    User,
}

/// The server as a client has to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// It is started, and spoken to over standard input and output.
    Command { program: String, arguments: Vec<String> },
    /// It runs elsewhere. The token is in a variable of the client's environment, never in a file.
    Url { url: String, token_variable: String },
}

/// Where a client's entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    pub slot: Slot,
    /// Is the server started in the project's folder? Else the entry has to name it (`--root`).
    pub starts_in_project: bool,
}

/// Why a client can't be configured so, and what to do instead; a whole sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPlace(pub String);

impl NoPlace {
    pub(crate) fn because(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}
