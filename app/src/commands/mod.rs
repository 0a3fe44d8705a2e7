//! The commands, one file each, and what they share.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod demo;
pub(crate) mod docsets;
pub(crate) mod doctor;
pub(crate) mod init;
#[cfg(feature = "semantic")]
pub(crate) mod model;
mod moving;
pub(crate) mod restore;
pub(crate) mod serve;
mod table;
pub(crate) mod token;
mod untrusted_text;
pub(crate) mod user;

use std::io::{self, Write};

use clap::{Parser, Subcommand};

use crate::exit::{CommandError, OK};
use crate::settings::Flags;

/// The single source of truth for a project's requirements, as an MCP server.
///
/// Without a command it serves the project in the working directory to one MCP client over
/// standard input and output; an AI assistant starts it that way, with a configuration like
///
///   { "mcpServers": { "reqlore": { "command": "reqlore" } } }
///
/// To see what it does: reqlore demo
#[derive(Debug, Parser)]
#[command(name = "reqlore", version, verbatim_doc_comment)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) settings: Flags,

    /// Show every setting with its value and where it came from, and end
    #[arg(long, global = true)]
    pub(crate) print_config: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell the AI assistants on this machine of this server; shows each change before it is made
    Init(init::Options),
    /// Look at everything between you and a working assistant, with the next step for what is wrong
    Doctor(doctor::Options),
    #[command(flatten)]
    Configured(Configured),
    /// Show in half a minute what Reqlore does, on a sample project in a temporary folder
    Demo,
    /// Print what a shell needs to complete commands and flags
    Completions(completions::Options),
}

/// The commands that begin with the settings, and end where these are wrong.
#[derive(Debug, Subcommand)]
pub(crate) enum Configured {
    /// Serve MCP clients (what `reqlore` alone does)
    Serve,
    /// Look for what a person should mend in the requirements; exit code 1 if there is any
    Check(check::Options),
    /// Copy everything from one storage to another one, which must be empty
    Copy(copy::Options),
    /// Write everything that the storage keeps to one file
    Backup(backup::Options),
    /// Fill the storage, which must be empty, from a backup
    Restore(restore::Options),
    /// Add, list and disable the users of a server over http
    #[command(subcommand)]
    User(user::Command),
    /// Make, list, revoke and rotate the tokens that let users in
    #[command(subcommand)]
    Token(token::Command),
    /// Read who did what, and prove that the record is whole
    #[command(subcommand)]
    Audit(audit::Command),
    /// Put the configuration of the docsets into a storage that is no folder
    #[command(subcommand)]
    Docsets(docsets::Command),
    /// Install, list and remove models that let search rank by meaning
    #[cfg(feature = "semantic")]
    #[command(subcommand)]
    Model(model::Command),
}

impl Configured {
    /// Does its answer speak of what one storage holds, and mislead about another one?
    pub(crate) fn is_of_one_storage(&self) -> bool {
        match self {
            Self::Check(_) | Self::Backup(_) => true,
            Self::User(_) | Self::Token(_) | Self::Audit(_) => true,
            #[cfg(feature = "semantic")]
            Self::Model(_) => false,
            Self::Serve | Self::Copy(_) | Self::Restore(_) | Self::Docsets(_) => false,
        }
    }
}

/// Prints a command's result. A reader that went away early is no failure of ours.
pub(crate) fn print(text: &str) -> Result<u8, CommandError> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::refused(format!("standard output: {error}")))
        }
        _ => Ok(OK),
    }
}
