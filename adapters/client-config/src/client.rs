//! The clients there are: their names, their files, and what an entry looks like in them.
//!
//! A client's facts are in one file of `clients/`, named after it; this is what they have in common.

use std::fmt;
use std::path::PathBuf;

use crate::edit::{Entry, Slot};

/// A program that speaks MCP to servers which its configuration names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    VsCode,
    Zed,
    Codex,
    Gemini,
    Copilot,
    Kiro,
    OpenCode,
}

impl Client {
    pub const ALL: [Self; 10] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Zed,
        Self::Codex,
        Self::Gemini,
        Self::Copilot,
        Self::Kiro,
        Self::OpenCode,
    ];

    /// As `--client` takes it (rulings 1): `claude-code`, `vscode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Zed => "zed",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Copilot => "copilot",
            Self::Kiro => "kiro",
            Self::OpenCode => "opencode",
        }
    }

    /// As its makers write it: `Claude Code`, `VS Code`.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Zed => "Zed",
            Self::Codex => "Codex CLI",
            Self::Gemini => "Gemini CLI",
            Self::Copilot => "Copilot CLI",
            Self::Kiro => "Kiro",
            Self::OpenCode => "OpenCode",
        }
    }

    /// The client of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    /// Is it on this machine, or used in this project? Programs on the path and the folders that it
    /// makes tell.
    pub fn is_present(self, _around: &Surroundings) -> bool {
        false
    }

    /// The file in which it looks for servers, or why there is none for this scope.
    pub fn place(self, _scope: Scope, _around: &Surroundings) -> Result<Place, NoPlace> {
        Err(NoPlace(String::new()))
    }

    /// What stands in that file for this server, or why this client can't be told of it.
    pub fn entry(self, _server: &Server) -> Result<Entry, NoPlace> {
        Err(NoPlace(String::new()))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// For whom a server is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For everybody who works on the project: a file in it, for git.
    Project,
    /// For this person, in all projects: a file in the home folder.
    User,
}

/// What decides where files lie. It comes in as values, so that tests can be elsewhere.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub project: PathBuf,
    pub home: PathBuf,
    pub platform: Platform,
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// The variables of the environment that move a client's folder, like `CODEX_HOME`; those that
    /// are looked at are `Surroundings::VARIABLES`.
    pub variables: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
    Windows,
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
