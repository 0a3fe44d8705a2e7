//! `reqlore init`: tells the assistants on this machine of this server, and takes it back.
//!
//! Trap: it edits files of others. Every change is shown before it is written, and written only
//! with consent; what was put in is on record, so that `--remove` leaves the bytes that were there
//! before.

mod agents;
mod apply;
mod beginning;
mod consent;
mod files;
mod plan;
mod reading;
mod record;
mod remote;
mod remove;
mod report;
mod server;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use reqlore_client_config::{Client, Scope, Surroundings};

use super::demo::SNIPPET;
use super::print;
use crate::client_environment::surroundings;
use crate::config::state;
use crate::exit::{CommandError, OK, REFUSED};
use crate::settings::Flags;
use beginning::Folder;
use consent::Consent;
use plan::{Change, Outcome, Plan};
use record::{Record, What};
use server::Wanted;

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
    #[arg(long, value_name = "VARIABLE", default_value = "REQLORE_TOKEN", requires = "url")]
    token_variable: String,
    /// Make files to begin with, where there are none
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
#[expect(clippy::struct_excessive_bools, reason = "flags, of which there is one at most")]
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
    /// Take out what was put in, without asking
    #[arg(long)]
    remove: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum For {
    Project,
    User,
}

fn client(name: &str) -> Result<Client, String> {
    Client::named(name).ok_or_else(|| {
        let names: Vec<&str> = Client::ALL.into_iter().map(Client::name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// The file in this program's folder for what outlives it.
const RECORD: &str = "init.json";

impl Options {
    fn scope(&self) -> Option<Scope> {
        self.scope.map(|scope| match scope {
            For::Project => Scope::Project,
            For::User => Scope::User,
        })
    }

    /// Are changes written, or is somebody asked?
    fn is_to_write(&self) -> bool {
        !self.how.dry_run && !self.how.check
    }
}

pub(crate) fn run(flags: &Flags, options: &Options) -> Result<u8, CommandError> {
    let around = surroundings(flags)?;
    check_name(&around)?;
    let is_present = |client: &Client| client.is_present(&around);
    let present: Vec<Client> = Client::ALL.into_iter().filter(is_present).collect();
    let clients = match &*options.client {
        [] => present.clone(),
        named => Client::ALL.into_iter().filter(|client| named.contains(client)).collect(),
    };
    let path = state(&around.home).join(RECORD);
    let record = if options.is_to_write() {
        Record::read(&path).map_err(CommandError::refused)?
    } else {
        Record::default()
    };
    let plan = if options.how.remove {
        remove::plan(options, &clients, &record, &around)
    } else {
        let wanted = Wanted::read(flags, options, &around)?;
        check_create(flags, options)?;
        check_project(options, &around)?;
        if clients.is_empty() && options.create.is_empty() {
            if options.json {
                print(&format!("{:#}\n", report::object(&Plan::default(), &[], &[], &around)))?;
            }
            return Err(nobody());
        }
        let mut plan = plan::plan(&wanted, flags, options, &clients, &around)?;
        plan.warnings.extend(reading::warnings(&plan.changes, &around));
        plan
    };
    let mut run =
        Run { options, around: &around, record: &record, path: &path, plan, done: vec![] };
    run.all(&present)
}

/// Neither the record nor a client's file can hold other names.
fn check_name(around: &Surroundings) -> Result<(), CommandError> {
    if around.project.to_str().is_some() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "the name of {} is no UTF-8, which clients' files can't hold; rename the folder",
        around.project.display()
    )))
}

/// A home folder is no project: what stands in it is for all of them.
fn check_project(options: &Options, around: &Surroundings) -> Result<(), CommandError> {
    let home = around.home.canonicalize().unwrap_or_else(|_| around.home.clone());
    let is_project = around.project != home && around.project.parent().is_some();
    if is_project || options.scope() == Some(Scope::User) && options.create.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "{} is no project; go into one, name it with --root, or use --scope user",
        around.project.display()
    )))
}

/// What is made to begin with are files of the project, which a server elsewhere does not see.
fn check_create(flags: &Flags, options: &Options) -> Result<(), CommandError> {
    let is_files = flags.storage.as_deref().is_none_or(|storage| storage == "fs");
    let is_here = flags.transport.as_deref().is_none_or(|transport| transport == "stdio");
    if options.create.is_empty() || is_files && is_here {
        return Ok(());
    }
    Err(CommandError::usage(
        "--create makes files in the project, for --storage fs; with another storage or over http \
         the documents are kept there, so leave it out",
    ))
}

fn nobody() -> CommandError {
    let names: Vec<&str> = Client::ALL.into_iter().map(Client::name).collect();
    CommandError::refused(format!(
        "none of the clients that init knows is here. Name one with --client: {}.\n\nAny other MCP \
         client needs this in its configuration:\n\n  {SNIPPET}\n",
        names.join(", ")
    ))
}

/// One run: what is to be done, and what was.
struct Run<'a> {
    options: &'a Options,
    around: &'a Surroundings,
    record: &'a Record,
    path: &'a Path,
    plan: Plan,
    /// The files that were written.
    done: Vec<PathBuf>,
}

impl Run<'_> {
    fn all(&mut self, present: &[Client]) -> Result<u8, CommandError> {
        let how = &self.options.how;
        let is_asked = !how.yes && !how.remove && self.options.is_to_write();
        let is_asked = is_asked && !self.options.json && io::stdin().is_terminal();
        if is_asked {
            self.warn();
        }
        if how.yes || how.remove {
            self.write(|_, _| true)?;
        } else if is_asked {
            let mut consent = Consent::new(io::stdin().lock());
            self.write(|change, around| consent.is_given(&report::question(change, around)))?;
        } else if !self.options.json {
            self.show()?;
        }
        if self.options.json {
            let done: Vec<&Path> = self.done.iter().map(PathBuf::as_path).collect();
            let object = report::object(&self.plan, present, &done, self.around);
            print(&format!("{object:#}\n"))?;
        }
        if !is_asked {
            self.warn();
        }
        Ok(self.end())
    }

    /// Before a question, else last, where it is not above all differences.
    fn warn(&self) {
        for warning in &self.plan.warnings {
            eprintln!("warning: {warning}");
        }
    }

    fn say(&self, text: &str) -> Result<u8, CommandError> {
        if self.options.json { Ok(OK) } else { print(text) }
    }

    /// What would change, and no more.
    fn show(&self) -> Result<u8, CommandError> {
        let Self { options, around, plan, .. } = self;
        let mut text = String::new();
        for change in &plan.changes {
            match &change.outcome {
                _ if options.how.check => {
                    text += &report::finding(change, around).unwrap_or_default();
                }
                Outcome::Write { .. } => text += &report::difference(change, around),
                Outcome::Refused(reason) => text += &report::refusal(change, reason, around),
                Outcome::Same => {}
            }
        }
        text += &report::unplaced(plan);
        if text.is_empty() {
            text.push_str("Everything is as it shall be.\n");
        }
        self.say(&text)
    }

    /// Shows each change and writes it, where there is consent.
    fn write(
        &mut self,
        mut is_wanted: impl FnMut(&Change, &Surroundings) -> bool,
    ) -> Result<(), CommandError> {
        let mut changes = std::mem::take(&mut self.plan.changes);
        for change in &mut changes {
            let is_write = change.is_write();
            if is_write {
                self.say(&report::difference(change, self.around))?;
            }
            let is_forgotten = self.options.how.remove && !change.is_refused();
            if !(is_forgotten || is_write && is_wanted(change, self.around)) {
                continue;
            }
            match self.apply(change) {
                Err(reason) => change.outcome = Outcome::Refused(reason),
                Ok(()) if is_write => self.done.push(change.path.clone()),
                Ok(()) => {}
            }
        }
        self.plan.changes = changes;
        let results = self.results();
        self.say(&results).map(|_| ())
    }

    fn apply(&self, change: &Change) -> Result<(), String> {
        if !self.options.how.remove {
            return apply::put(change, self.path, &self.around.project);
        }
        let expected = self.record.files.get(&change.target);
        if expected.is_none() && !change.is_write() {
            return Ok(());
        }
        apply::take(change, self.path, expected)
    }

    /// What was written and what was not, a line each.
    fn results(&self) -> String {
        let mut text = String::new();
        for change in &self.plan.changes {
            let path = words::shown(&change.path, self.around);
            // Writing to a string does not fail.
            let _ = match &change.outcome {
                Outcome::Refused(reason) => {
                    text += &report::refusal(change, reason, self.around);
                    Ok(())
                }
                Outcome::Write { .. } if !self.done.contains(&change.path) => {
                    writeln!(text, "left as it is: {path}")
                }
                Outcome::Write { after: None, .. } => writeln!(text, "removed: {path}"),
                Outcome::Write { .. } => writeln!(text, "written: {path}"),
                Outcome::Same if self.options.how.remove && change.what == What::Beginning => {
                    writeln!(text, "left as it is, since it was edited: {path}")
                }
                Outcome::Same if self.options.how.remove => Ok(()),
                Outcome::Same => writeln!(text, "already so: {path} ({})", change.title),
            };
        }
        text += &report::unplaced(&self.plan);
        match self.next() {
            Some(next) => text + "\n" + &next,
            None if text.is_empty() => "Nothing that init wrote is here.\n".to_owned(),
            None => text,
        }
    }

    /// What a person does after it.
    fn next(&self) -> Option<String> {
        let written = |change: &&Change| self.done.contains(&change.path);
        let is_entry = |change: &&Change| change.what == What::Entry;
        let changed = self.plan.changes.iter().filter(written).filter(is_entry);
        // A client may have a file of the project and one of the person.
        let clients: BTreeSet<Client> = changed.flat_map(|change| change.clients.clone()).collect();
        let titles = clients.into_iter().map(Client::title).collect::<Vec<_>>().join(", ");
        let next = if self.options.how.remove {
            format!("Restart {titles} to see it gone.\n")
        } else {
            format!("Restart {titles} to see it there. To undo it: reqlore init --remove\n")
        };
        (!titles.is_empty()).then_some(next)
    }

    /// The exit code, and what is left to say.
    fn end(&self) -> u8 {
        let how = &self.options.how;
        let Plan { changes, unplaced, .. } = &self.plan;
        let is_stuck = !unplaced.is_empty() || changes.iter().any(Change::is_refused);
        let is_open =
            changes.iter().any(|change| change.is_write() && !self.done.contains(&change.path));
        let is_unasked = is_open
            && self.options.is_to_write()
            && (self.options.json || !io::stdin().is_terminal());
        if is_unasked {
            eprintln!("reqlore: nothing was written; use --yes to write all of it");
        }
        if is_stuck || is_unasked || how.check && is_open { REFUSED } else { OK }
    }
}
