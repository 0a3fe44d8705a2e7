//! `reqlore init`: configures the AI assistants on this machine, and removes that configuration.
//!
//! It edits other programs' files. So each change is shown, confirmed and logged, and `--remove`
//! restores the bytes.

mod file_change;
pub(crate) mod hook_files;
mod hooks;
pub(crate) mod options;
mod plan;
mod remove;
mod report;
pub(crate) mod server_entry;
mod undo_log;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use reqlore_client_config::{Client, ClientEnvironment, ConfigScope};
use reqlore_storage_fs::is_system_folder;

use self::options::{ChangeMode, HookChoice, Options, client_names};
use super::demo::SNIPPET;
use crate::client_environment::client_environment;
use crate::commands::init::file_change::{ChangeKind, ChangeOutcome, FileChange};
use crate::commands::output::{print, print_json};
use crate::config::{AppConfig, state_folder};
use crate::console::eprint_line;
use crate::exit::{CommandError, EXIT_FAILED, EXIT_OK, Result};
use crate::settings::SettingFlags;
use plan::ChangePlan;
use report::Confirmation;
use server_entry::ServerEntry;
use undo_log::{LogFile, UndoLog};

/// The undo log, in the state folder.
const LOG_FILE: &str = "init.json";

pub(crate) fn run(flags: &SettingFlags, options: &Options) -> Result<u8> {
    let environment = client_environment(flags)?;
    // Neither the log nor a client's file can contain other names.
    if environment.project.to_str().is_none() {
        return Err(CommandError::failure(format!(
            "{}: the path is not UTF-8, so clients' files can't contain it; rename the folder",
            environment.project.display()
        )));
    }
    let is_elsewhere = |folder: PathBuf| folder != environment.project;
    if flags.root.is_none() && std::env::current_dir().is_ok_and(is_elsewhere) {
        eprint_line(&format!(
            "reqlore: configuring the project {}; pass --root . for one of its own here",
            environment.project.display()
        ));
    }
    let mut present = Vec::new();
    let mut clients = Vec::new();
    for client in Client::ALL {
        let is_present = client.is_present(&environment);
        if is_present {
            present.push(client);
        }
        let is_named = options.client.contains(&client);
        if is_named || options.client.is_empty() && is_present {
            clients.push(client);
        }
    }
    let path = state_folder(&environment.home).join(LOG_FILE);
    let log_file = LogFile { path: &path, home: &environment.home };
    // A preview works without a log. A write does not: the edit could not be undone.
    let log = if options.mode.dry_run || options.mode.check {
        log_file.load().unwrap_or_default()
    } else {
        log_file.open().map_err(CommandError::failure)?
    };
    let plan = if options.mode.remove {
        remove::plan_removal(options, &clients, &log, &environment)
    } else {
        let server = ServerEntry::from_flags(flags, options, &environment)?;
        // The server would reject sled.
        if cfg!(windows) && matches!(server, ServerEntry::Command { .. }) {
            AppConfig::resolve(flags)?;
        }
        check_create(flags, options)?;
        check_project(options, &environment)?;
        if clients.is_empty() && options.create.is_empty() {
            if options.json {
                // Scripts get an object even if the command fails.
                print_json(&report::as_json(&ChangePlan::new(&environment), &[], &[]))?;
            }
            return Err(no_client_error());
        }
        let mut plan =
            ChangePlan::configure(&server, flags, options, &clients, &log, &environment)?;
        let asks = needs_answers(options) && can_ask(options);
        if let Some(choice) = options.hooks {
            plan.remove_hooks(choice, options, &clients, &log);
        }
        if let Some(choice) = options.hooks.or(asks.then_some(HookChoice::Session)) {
            plan.add_hooks(choice, &server, flags, options, &clients);
        }
        plan
    };
    InitRun { options, log: &log, log_file, plan, written: vec![] }.execute(&present)
}

/// Rejects a home folder as the project, because files in it apply to all projects, and folders of
/// the system.
fn check_project(options: &Options, environment: &ClientEnvironment) -> Result<()> {
    if options.scope == Some(ConfigScope::User) && options.create.is_empty() {
        return Ok(());
    }
    // The project's path is resolved, so the home folder must be too.
    let home = dunce::canonicalize(&environment.home).unwrap_or_else(|_| environment.home.clone());
    if environment.project != home && !is_system_folder(&environment.project) {
        return Ok(());
    }
    Err(CommandError::failure(format!(
        "{} is not a project folder; change into one, pass it with --root, or use --scope user",
        environment.project.display()
    )))
}

fn check_create(flags: &SettingFlags, options: &Options) -> Result<()> {
    let is_files = flags.storage.as_deref().is_none_or(|storage| storage == "fs");
    let is_stdio = flags.transport.as_deref().is_none_or(|transport| transport == "stdio");
    if options.create.is_empty() || is_files && is_stdio {
        return Ok(());
    }
    Err(CommandError::usage_error(
        "--create is for --storage fs and --transport stdio, whose documents are in the project; \
         leave it out",
    ))
}

fn no_client_error() -> CommandError {
    CommandError::failure(format!(
        "no supported client found; name one with --client: {}.\n\nAny other MCP client needs \
         this configuration:\n\n  {SNIPPET}\n",
        client_names()
    ))
}

fn needs_answers(options: &Options) -> bool {
    let ChangeMode { yes, remove, dry_run, check } = options.mode;
    !(yes || remove || dry_run || check)
}

fn can_ask(options: &Options) -> bool {
    !options.json && io::stdin().is_terminal()
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
    fn execute(&mut self, present: &[Client]) -> Result<u8> {
        let ChangeMode { yes, remove, check, dry_run } = self.options.mode;
        let needs_answers = needs_answers(self.options);
        let can_ask = can_ask(self.options);
        // Warnings come before questions, but after diffs that need no answer.
        if needs_answers && can_ask {
            self.print_warnings();
            let mut confirmation = Confirmation::new(io::stdin().lock());
            self.write_changes(|change| confirmation.confirm(&report::question_subject(change)))?;
        } else if yes || remove && !(dry_run || check) {
            self.write_changes(|_| true)?;
        } else {
            self.print_text(&self.preview_text())?;
        }
        if self.options.json {
            print_json(&report::as_json(&self.plan, present, &self.written))?;
        }
        if !(needs_answers && can_ask) {
            self.print_warnings();
        }
        let mut is_refused = !self.plan.unsupported.is_empty();
        let mut has_pending = false;
        for change in &self.plan.changes {
            is_refused |= change.is_refused();
            has_pending |= change.is_write() && !self.written.contains(&change.path);
        }
        let is_unanswered = has_pending && needs_answers && !can_ask;
        if is_unanswered {
            eprint_line("reqlore: nothing was written; pass --yes to write these changes");
        }
        // Changes that the user declined do not fail the command.
        let is_stale = check && has_pending;
        Ok(if is_refused || is_unanswered || is_stale { EXIT_FAILED } else { EXIT_OK })
    }

    fn print_warnings(&self) {
        for warning in &self.plan.warnings {
            eprint_line(&format!("warning: {warning}"));
        }
    }

    fn print_text(&self, text: &str) -> Result<u8> {
        if self.options.json { Ok(EXIT_OK) } else { print(text) }
    }

    fn preview_text(&self) -> String {
        let mut text = String::new();
        for change in &self.plan.changes {
            text += &match &change.outcome {
                _ if self.options.mode.check => report::check_line(change),
                ChangeOutcome::Write { .. } => report::diff_with_heading(change),
                ChangeOutcome::Refused(reason) => report::refusal_line(change, reason),
                ChangeOutcome::Unchanged => String::new(),
            };
        }
        text += &report::unsupported_lines(&self.plan);
        if text.is_empty() { "Nothing to change.\n".to_owned() } else { text }
    }

    /// Shows each change, and writes it if `is_wanted` accepts it.
    fn write_changes(&mut self, mut is_wanted: impl FnMut(&FileChange) -> bool) -> Result<()> {
        // Moved out of the plan, because writing and printing borrow `self`.
        let mut changes = std::mem::take(&mut self.plan.changes);
        for change in &mut changes {
            let is_write = change.is_write();
            let is_removal = self.options.mode.remove || change.is_file_removal();
            if is_write {
                self.print_text(&report::diff_with_heading(change))?;
            }
            let entry = self.log.files.get(&change.target);
            // An entry whose edit is gone is removed from the log.
            let needs_removal = !change.is_refused() && (is_write || entry.is_some());
            let result = if is_removal && needs_removal && is_wanted(change) {
                self.log_file.remove_change(change, entry)
            } else if !is_removal && is_write && is_wanted(change) {
                self.log_file.write_change(change, &self.plan.environment.project)
            } else {
                continue;
            };
            match result {
                // One file that can't be written does not stop the rest.
                Err(reason) => change.outcome = ChangeOutcome::Refused(reason),
                Ok(()) if is_write => self.written.push(change.path.clone()),
                Ok(()) => {}
            }
        }
        self.plan.changes = changes;
        self.print_text(&self.results_text())?;
        Ok(())
    }

    fn results_text(&self) -> String {
        let is_removal = self.options.mode.remove;
        let mut text = String::new();
        // A set, because a client may have two files.
        let mut clients = BTreeSet::new();
        for change in &self.plan.changes {
            let is_written = self.written.contains(&change.path);
            text += &report::result_line(change, is_written, is_removal);
            if is_written && change.kind == ChangeKind::Entry {
                clients.extend(change.clients.iter().copied());
            }
        }
        text += &report::unsupported_lines(&self.plan);
        if text.is_empty() {
            text += "Nothing to remove.\n";
        }
        if clients.is_empty() {
            return text;
        }
        let undo = if is_removal { "" } else { " To undo it, run reqlore init --remove." };
        format!("{text}\nRestart {} to apply the change.{undo}\n", join_titles(&clients))
    }
}

/// `A`, `A and B` or `A, B and C`.
fn join_titles(clients: &BTreeSet<Client>) -> String {
    let mut text = String::new();
    for (index, client) in clients.iter().enumerate() {
        if index > 0 {
            text += if index + 1 == clients.len() { " and " } else { ", " };
        }
        text += client.title();
    }
    text
}
