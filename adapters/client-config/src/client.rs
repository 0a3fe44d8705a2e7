//! The clients there are: their names, their files, and what an entry looks like in them.
//!
//! A client's facts are in one file of `clients/`, named after it; here is what they share.

use std::fmt;

use crate::clients::{self, Facts, Starts};
use crate::edit::Entry;
use crate::place::{NoPlace, Place, Scope, Server};
use crate::surroundings::{Surroundings, is_there};

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
    pub fn is_present(self, around: &Surroundings) -> bool {
        let facts = self.facts();
        around.has_program(facts.programs)
            || (facts.own)(around).iter().any(|own| is_there(own))
            || facts.in_project.iter().any(|name| is_there(&around.project.join(name)))
    }

    /// The file in which it looks for servers, or why there is none for this scope.
    pub fn place(self, scope: Scope, around: &Surroundings) -> Result<Place, NoPlace> {
        let facts = self.facts();
        let file = match scope {
            Scope::Project => facts.project_file.map_err(NoPlace::because)?(around),
            Scope::User => (facts.user_file)(around),
        };
        let starts_in_project = match facts.starts {
            Starts::InProject => true,
            Starts::InItsOwnProject => scope == Scope::Project,
            Starts::Elsewhere => false,
        };
        Ok(Place { file, slot: facts.slot, starts_in_project })
    }

    /// The text to put the entry into where there is no file yet; mostly an empty one.
    pub fn new_file(self) -> &'static str {
        self.facts().new_file
    }

    /// How an argument names the project's folder to a client that replaces a variable by it. Where
    /// [`Place::starts_in_project`] is false, `--root` takes this rather than a path, which is true
    /// on one machine and for one project only. It has to be an argument of its own.
    pub fn project_variable(self) -> Option<&'static str> {
        self.facts().project_variable
    }

    /// What stands in that file for this server, or why this client can't be told of it.
    pub fn entry(self, server: &Server) -> Result<Entry, NoPlace> {
        let facts = self.facts();
        match server {
            Server::Command { program, arguments } => {
                facts.check_command(self.title(), program, arguments)?;
                Ok((facts.command)(program, arguments))
            }
            Server::Url { url, token_variable } => {
                let remote = facts.remote.map_err(NoPlace::because)?;
                facts.check_url(self.title(), url, token_variable)?;
                Ok(remote(url, token_variable))
            }
        }
    }

    fn facts(self) -> &'static Facts {
        match self {
            Self::ClaudeCode => &clients::claude_code::FACTS,
            Self::ClaudeDesktop => &clients::claude_desktop::FACTS,
            Self::Cursor => &clients::cursor::FACTS,
            Self::VsCode => &clients::vscode::FACTS,
            Self::Zed => &clients::zed::FACTS,
            Self::Codex => &clients::codex::FACTS,
            Self::Gemini => &clients::gemini::FACTS,
            Self::Copilot => &clients::copilot::FACTS,
            Self::Kiro => &clients::kiro::FACTS,
            Self::OpenCode => &clients::opencode::FACTS,
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
