//! `reqlore init`: configures the assistants on this machine, and takes it back.
//!
//! It edits other programs' files: each change is shown first, needs consent, and is logged, so
//! that `--remove` restores the bytes.

mod plan;
mod remove;
mod report;
mod server_entry;
mod undo_log;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use reqlore_client_config::{Client, ClientEnvironment, ConfigScope};

use super::demo::SNIPPET;
use super::{print, print_json};
use crate::client_environment::client_environment;
use crate::config::state;
use crate::exit::{CommandError, OK, REFUSED};
use crate::settings::Flags;
use plan::{ChangeOutcome, ChangePlan, FileChange, Scaffold};
use report::Confirmation;
use server_entry::ServerEntry;
use undo_log::{ChangeKind, LogFile, UndoLog};

/// In the state folder.
const LOG_FILE: &str = "init.json";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Configure this client, once or several times [default: those that are found here]
    #[arg(long, value_name = "NAME", value_parser = parse_client)]
    client: Vec<Client>,
    /// The project's files, shared by all who work on it, or your own, for all projects
    /// [default: the project's, where the client has one]
    #[arg(long, value_name = "SCOPE", value_parser = scope_parser())]
    scope: Option<ConfigScope>,
    /// The address of a server over HTTP, for --transport http
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The variable of the client's environment that holds the token, for --transport http
    #[arg(long, value_name = "VARIABLE", default_value = "REQLORE_TOKEN", requires = "url")]
    token_variable: String,
    /// Create the first files of a kind, where there are none
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    create: Vec<Scaffold>,
    /// Leave AGENTS.md as it is
    #[arg(long)]
    no_agents_md: bool,
    #[command(flatten)]
    how: ChangeMode,
    /// Print what was found and done as JSON
    #[arg(long)]
    json: bool,
}

/// The handling of changes; without a flag each needs an answer.
#[expect(clippy::struct_excessive_bools, reason = "flags, of which there is one at most")]
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct ChangeMode {
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Exit with code 1 if anything would change
    #[arg(long)]
    check: bool,
    /// Take out what was put in, without asking
    #[arg(long)]
    remove: bool,
}

fn parse_client(name: &str) -> Result<Client, String> {
    Client::from_name(name).ok_or_else(|| format!("there are {}", client_names()))
}

fn client_names() -> String {
    Client::ALL.map(Client::name).join(", ")
}

fn scope_parser() -> impl TypedValueParser<Value = ConfigScope> {
    let names = PossibleValuesParser::new(ConfigScope::ALL.map(ConfigScope::name));
    names.try_map(|name| ConfigScope::from_name(&name).ok_or("it is project or user"))
}

pub(crate) fn run(flags: &Flags, options: &Options) -> Result<u8, CommandError> {
    let environment = client_environment(flags)?;
    // Neither the log nor a client's file can contain other names.
    if environment.project.to_str().is_none() {
        return Err(CommandError::refused(format!(
            "the name of {} is not UTF-8, which clients' files can't contain; rename the folder",
            environment.project.display()
        )));
    }
    let is_present = |client: &Client| client.is_present(&environment);
    let present: Vec<Client> = Client::ALL.into_iter().filter(is_present).collect();
    let clients = match &*options.client {
        [] => present.clone(),
        named => Client::ALL.into_iter().filter(|client| named.contains(client)).collect(),
    };
    let path = state(&environment.home).join(LOG_FILE);
    let log_file = LogFile { path: &path, home: &environment.home };
    let log = if options.how.dry_run || options.how.check {
        UndoLog::default()
    } else {
        log_file.open().map_err(CommandError::refused)?
    };
    let plan = if options.how.remove {
        remove::plan_removal(options, &clients, &log, &environment)
    } else {
        let server = ServerEntry::from_flags(flags, options, &environment)?;
        check_create(flags, options)?;
        check_project(options, &environment)?;
        if clients.is_empty() && options.create.is_empty() {
            if options.json {
                print_json(&report::as_json(&ChangePlan::new(&environment), &[], &[]))?;
            }
            return Err(no_client());
        }
        ChangePlan::configure(&server, flags, options, &clients, &environment)?
    };
    InitRun { options, log: &log, log_file, plan, written: vec![] }.execute(&present)
}

/// Files in a home folder are for all projects.
fn check_project(options: &Options, environment: &ClientEnvironment) -> Result<(), CommandError> {
    let home = environment.home.canonicalize().unwrap_or_else(|_| environment.home.clone());
    let is_project = environment.project != home && environment.project.parent().is_some();
    if is_project || options.scope == Some(ConfigScope::User) && options.create.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "{} is not a project; go into one, name it with --root, or use --scope user",
        environment.project.display()
    )))
}

fn check_create(flags: &Flags, options: &Options) -> Result<(), CommandError> {
    let is_files = flags.storage.as_deref().is_none_or(|storage| storage == "fs");
    let is_here = flags.transport.as_deref().is_none_or(|transport| transport == "stdio");
    if options.create.is_empty() || is_files && is_here {
        return Ok(());
    }
    Err(CommandError::usage(
        "--create makes files in the project, for --storage fs; with another storage or over HTTP \
         the documents are elsewhere, so leave it out",
    ))
}

fn no_client() -> CommandError {
    CommandError::refused(format!(
        "no supported client was found. Name one with --client: {}.\n\nAny other MCP client needs \
         this in its configuration:\n\n  {SNIPPET}\n",
        client_names()
    ))
}

struct InitRun<'a> {
    options: &'a Options,
    log: &'a UndoLog,
    log_file: LogFile<'a>,
    plan: ChangePlan<'a>,
    /// The files that were written.
    written: Vec<PathBuf>,
}

impl InitRun<'_> {
    fn execute(&mut self, present: &[Client]) -> Result<u8, CommandError> {
        let ChangeMode { yes, remove, dry_run, check } = self.options.how;
        let is_to_ask = !(yes || remove || dry_run || check);
        let is_asked = is_to_ask && !self.options.json && io::stdin().is_terminal();
        // Warnings come before questions, but after differences that need no answer.
        if is_asked {
            self.print_warnings();
            let mut confirmation = Confirmation::new(io::stdin().lock());
            self.write_changes(|change| confirmation.confirm(&report::question_subject(change)))?;
        } else if yes || remove {
            self.write_changes(|_| true)?;
        } else {
            self.print_text(&self.preview_text())?;
        }
        if self.options.json {
            print_json(&report::as_json(&self.plan, present, &self.written))?;
        }
        if !is_asked {
            self.print_warnings();
        }
        let changes = &self.plan.changes;
        let is_open =
            changes.iter().any(|change| change.is_write() && !self.written.contains(&change.path));
        let is_refused =
            !self.plan.unsupported.is_empty() || changes.iter().any(FileChange::is_refused);
        let is_unasked = is_open && is_to_ask && !is_asked;
        if is_unasked {
            eprintln!("reqlore: nothing was written; use --yes to write all of it");
        }
        let is_stale = check && is_open;
        Ok(if is_refused || is_unasked || is_stale { REFUSED } else { OK })
    }

    fn print_warnings(&self) {
        for warning in &self.plan.warnings {
            eprintln!("warning: {warning}");
        }
    }

    fn print_text(&self, text: &str) -> Result<u8, CommandError> {
        if self.options.json { Ok(OK) } else { print(text) }
    }

    fn preview_text(&self) -> String {
        let mut text = String::new();
        for change in &self.plan.changes {
            text += &match &change.outcome {
                _ if self.options.how.check => report::check_line(change),
                ChangeOutcome::Write { .. } => report::diff_with_heading(change),
                ChangeOutcome::Refused(reason) => report::refusal_line(change, reason),
                ChangeOutcome::Unchanged => String::new(),
            };
        }
        text += &report::unsupported_lines(&self.plan);
        if text.is_empty() { "Nothing to change.\n".to_owned() } else { text }
    }

    /// Shows each change, and writes it if it is wanted.
    fn write_changes(
        &mut self,
        mut is_wanted: impl FnMut(&FileChange) -> bool,
    ) -> Result<(), CommandError> {
        let is_removal = self.options.how.remove;
        let mut changes = std::mem::take(&mut self.plan.changes);
        for change in &mut changes {
            let is_write = change.is_write();
            if is_write {
                self.print_text(&report::diff_with_heading(change))?;
            }
            let entry = self.log.files.get(&change.target);
            // An entry whose edit is gone is removed from the log.
            let is_taken = !change.is_refused() && (is_write || entry.is_some());
            let written = if is_removal && is_taken {
                self.log_file.remove_change(change, entry)
            } else if !is_removal && is_write && is_wanted(change) {
                self.log_file.write_change(change, &self.plan.environment.project)
            } else {
                continue;
            };
            match written {
                Err(reason) => change.outcome = ChangeOutcome::Refused(reason),
                Ok(()) if is_write => self.written.push(change.path.clone()),
                Ok(()) => {}
            }
        }
        self.plan.changes = changes;
        self.print_text(&self.results_text()).map(|_| ())
    }

    fn results_text(&self) -> String {
        let is_removal = self.options.how.remove;
        let mut text = String::new();
        // A client may have two files.
        let mut clients = BTreeSet::new();
        for change in &self.plan.changes {
            let is_done = self.written.contains(&change.path);
            text += &report::result_line(change, is_done, is_removal);
            if is_done && change.kind == ChangeKind::Entry {
                clients.extend(change.clients.iter().copied());
            }
        }
        text += &report::unsupported_lines(&self.plan);
        if text.is_empty() {
            text += "Nothing written by init is here.\n";
        }
        if clients.is_empty() {
            return text;
        }
        let titles = clients.into_iter().map(Client::title).collect::<Vec<_>>().join(", ");
        let next = if is_removal { " gone." } else { ". To undo it: reqlore init --remove" };
        format!("{text}\nRestart {titles} to see it{next}\n")
    }
}
