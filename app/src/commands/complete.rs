//! Completes commands, flags, IDs and paths in shells. Errors are silent: they would break the line
//! that the user types. Bash inserts a candidate unquoted, so IDs and paths, which may come from a
//! cloned repository, are candidates only if no shell evaluates them.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap::ValueHint;
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use reqlore_domain::records::values::is_built_in;
use serde_json::json;

use super::item_fields::{DocumentForm, FormField, WritableKind};
use super::output::{clean_line, write_stdout};
use super::tool_client::{ProjectOptions, ToolClient};
use super::untrusted_text::is_shell_plain;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};
use crate::settings::SettingFlags;

/// Set by the scripts of shells, with the name of the shell.
const VARIABLE: &str = "REQLORE_COMPLETE";
const PROGRAM: &str = "reqlore";
const MAX_CANDIDATES: u32 = 1_000;

/// Answers the script of a shell. False if this is an ordinary run.
pub(crate) fn answer_shell(command_line: fn() -> clap::Command) -> bool {
    let env = CompleteEnv::with_factory(move || complete_plain_paths(command_line()))
        .var(VARIABLE)
        .bin(PROGRAM);
    let folder = std::env::current_dir().ok();
    env.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}

/// Replaces the completer of paths, which offers every name of a file.
fn complete_plain_paths(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| match arg.get_value_hint() {
        ValueHint::Unknown => arg,
        _ => arg.add(ArgValueCompleter::new(plain_paths)),
    });
    command.mut_subcommands(complete_plain_paths)
}

fn plain_paths(begun: &OsStr) -> Vec<CompletionCandidate> {
    let mut paths = PathCompleter::any().complete(begun);
    paths.retain(|path| is_shell_plain(&path.get_value().to_string_lossy()));
    paths
}

/// Prints the script that makes a shell ask this program.
pub(crate) fn print_script(shell: Shell) -> Result<u8> {
    let name = shell.to_string();
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&name) {
        completer
            .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
            .map_err(CommandError::failure)?;
    }
    write_stdout(&String::from_utf8_lossy(&script))
}

/// Completes the IDs of backlog items and entities.
pub(crate) fn all_ids() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let begun = current.to_string_lossy().to_lowercase();
        let mut found = Vec::new();
        for kind in ItemKind::ALL {
            let prefix = format!("{}-", kind.prefix().to_lowercase());
            if prefix.starts_with(&begun) || begun.starts_with(&prefix) {
                found.extend(complete_ids(kind.name(), &begun));
            }
        }
        // The IDs of entities begin with the first letters of any kind.
        if found.is_empty() && !begun.is_empty() {
            found = complete_ids("entity", &begun);
        }
        found
    })
}

pub(crate) fn epics() -> ArgValueCompleter {
    ids_of_kind("epic")
}

pub(crate) fn stories() -> ArgValueCompleter {
    ids_of_kind("user_story")
}

fn ids_of_kind(kind: &'static str) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        complete_ids(kind, &current.to_string_lossy().to_lowercase())
    })
}

/// Completes fields and their values, such as `risk=High`. Without `has_built_in`, only custom
/// fields.
pub(crate) fn assignments(has_built_in: bool) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let begun = current.to_string_lossy();
        let mut words = Vec::new();
        for field in all_fields() {
            match begun.split_once('=') {
                _ if !has_built_in && is_built_in(&field.name) => {}
                None => words.push(field.name + "="),
                Some((name, _)) if field.is_called(name) => {
                    words.extend(field.choices.iter().map(|choice| format!("{name}={choice}")));
                }
                Some(_) => {}
            }
        }
        plain_candidates(words, &begun)
    })
}

pub(crate) fn statuses() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let fields = all_fields().into_iter().filter(|field| field.name == "status");
        plain_candidates(fields.flat_map(|field| field.choices), &current.to_string_lossy())
    })
}

/// The fields of each kind of record.
fn all_fields() -> Vec<FormField> {
    let schema = quiet_client().and_then(|client| client.record_schema().ok()).unwrap_or_default();
    let items = ItemKind::ALL.map(WritableKind::Item).into_iter();
    let entities =
        EntityKind::all().into_iter().map(|kind| WritableKind::Entity(kind.name().to_owned()));
    items.chain(entities).flat_map(|kind| DocumentForm::new(kind, &schema).fields).collect()
}

/// Returns the words that start with `begun` in any case, without duplicates.
fn plain_candidates(
    words: impl IntoIterator<Item = String>,
    begun: &str,
) -> Vec<CompletionCandidate> {
    let begun = fold_name(begun);
    let words: BTreeSet<String> = words.into_iter().collect();
    let words = words.into_iter().filter(|word| fold_name(word).starts_with(&begun));
    words.filter(|word| is_shell_plain(word)).map(CompletionCandidate::new).collect()
}

fn quiet_client() -> Option<ToolClient> {
    let config = AppConfig::resolve(&SettingFlags::default()).ok()?;
    ToolClient::open_quietly(&config, &ProjectOptions::default()).ok()
}

/// The IDs of one kind that begin with this lower-case text, with their titles.
fn complete_ids(kind: &str, begun: &str) -> Vec<CompletionCandidate> {
    let mut arguments = json!({ "kind": kind, "limit": MAX_CANDIDATES, "sort": "reference" });
    if !begun.is_empty() {
        arguments["text"] = json!(begun);
    }
    let mut candidates = Vec::new();
    let Some(client) = quiet_client() else { return candidates };
    let Ok(listed) = client.call::<ListPage>("list_items", arguments) else { return candidates };
    for ListedItem { reference_id: id, title, .. } in listed.items {
        if id.to_lowercase().starts_with(begun) && is_shell_plain(&id) {
            let title = clean_line(&title);
            candidates.push(CompletionCandidate::new(id).help(Some(title.into())));
        }
    }
    candidates
}
