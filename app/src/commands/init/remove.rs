//! The changes of `--remove`: every logged edit is taken back.
//!
//! An edit that is still intact is undone to the byte; of an edited one only our part is cut out.
//! An entry that is not logged may be someone's commit, and goes only if its client is named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reqlore_client_config::edit::{self, EntrySlot, block};
use reqlore_client_config::{Client, ClientEnvironment, ConfigError, ConfigScope};
use serde_json::{Map, Value};

use super::Options;
use super::plan::{self, AGENTS_MD_TITLE, ChangeOutcome, ChangePlan, FileChange};
use super::report::short_path;
use super::undo_log::{self, ChangeKind, UndoEntry, UndoLog, find_entry};

const EDITED_NOTE: &str = "it was edited since: only Reqlore's part goes, the rest stays";
const UNRECORDED_NOTE: &str =
    "it is not recorded: only Reqlore's part goes, what it replaced is lost";

pub(super) fn plan_removal<'a>(
    options: &Options,
    clients: &[Client],
    log: &UndoLog,
    environment: &'a ClientEnvironment,
) -> ChangePlan<'a> {
    let mut plan = ChangePlan::new(environment);
    for (path, entry) in
        log.files.iter().filter(|(_, entry)| is_selected(entry, options, environment))
    {
        plan.changes.push(undo_logged_edit(path, entry, environment));
    }
    for client in clients {
        let named = plan::choose_location(*client, options.scope, environment).ok();
        let named = named.filter(|_| !options.client.is_empty()).map(|location| location.scope);
        for scope in ConfigScope::ALL {
            let Ok(location) = client.config_location(scope, environment) else { continue };
            let file = undo_log::resolve_and_read(&location.file, None);
            if file.is_ok_and(|(target, _)| log.files.contains_key(&target)) {
                continue;
            }
            if named == Some(scope) {
                let change = plan.add_change(*client, &location);
                cut_our_part(change, |text| cut_entry(text, &[location.slot]), UNRECORDED_NOTE);
            } else if options.scope.is_none_or(|asked| asked == scope)
                && find_entry(&location).is_some()
            {
                plan.warnings.push(format!(
                    "{} has an entry that init did not record; to take it out: reqlore init \
                     --remove --client {client} --scope {}",
                    short_path(&location.file, environment),
                    scope.name()
                ));
            }
        }
    }
    add_agents_md(&mut plan, options, log);
    plan.changes.sort_by_key(|change| change.kind != ChangeKind::Entry);
    plan
}

fn is_selected(entry: &UndoEntry, options: &Options, environment: &ClientEnvironment) -> bool {
    let is_here = entry.project.as_ref().is_none_or(|project| *project == environment.project);
    let is_named = |client: &Client| entry.clients.contains(client.name());
    entry.kind != ChangeKind::Block
        && is_here
        && options.scope.is_none_or(|asked| asked == scope_of(entry))
        && (options.client.is_empty() || options.client.iter().any(is_named))
}

fn scope_of(entry: &UndoEntry) -> ConfigScope {
    if entry.project.is_some() { ConfigScope::Project } else { ConfigScope::User }
}

/// AGENTS.md is shared by all clients of the project, so its block stays while a logged entry
/// stays, or, if nothing is logged, any entry.
fn add_agents_md(plan: &mut ChangePlan<'_>, options: &Options, log: &UndoLog) {
    if options.no_agents_md || options.scope == Some(ConfigScope::User) {
        return;
    }
    let environment = plan.environment;
    let removed = plan.changes.iter().filter(|change| !change.is_refused());
    let removed: BTreeSet<&Path> = removed.map(|change| &*change.target).collect();
    let is_here = |entry: &UndoEntry| entry.project.as_ref() == Some(&environment.project);
    let here: Vec<(&PathBuf, &UndoEntry)> =
        log.files.iter().filter(|(_, entry)| is_here(entry)).collect();
    let is_needed = if here.is_empty() {
        let locations = Client::ALL
            .iter()
            .filter_map(|c| c.config_location(ConfigScope::Project, environment).ok());
        let mut locations = locations.filter(|location| find_entry(location).is_some());
        locations.any(|location| {
            let file = undo_log::resolve_and_read(&location.file, None);
            file.is_ok_and(|(target, _)| !removed.contains(&*target))
        })
    } else {
        here.iter().any(|(path, entry)| {
            entry.kind == ChangeKind::Entry && !removed.contains(path.as_path())
        })
    };
    if is_needed {
        return;
    }
    if let Some((path, entry)) = here.iter().find(|(_, entry)| entry.kind == ChangeKind::Block) {
        plan.changes.push(undo_logged_edit(path, entry, environment));
    } else if here.is_empty() && !options.client.is_empty() {
        let mut change = FileChange::agents_md(environment);
        cut_our_part(&mut change, block::remove_block, UNRECORDED_NOTE);
        plan.changes.push(change);
    }
}

/// The removal of a logged edit.
fn undo_logged_edit(path: &Path, entry: &UndoEntry, environment: &ClientEnvironment) -> FileChange {
    let scope = scope_of(entry);
    let clients: Vec<Client> =
        entry.clients.iter().filter_map(|name| Client::from_name(name)).collect();
    let titles = clients.iter().map(|client| client.title()).collect::<Vec<_>>().join(", ");
    let title = match entry.kind {
        ChangeKind::Entry => titles.as_str(),
        ChangeKind::Block => AGENTS_MD_TITLE,
        ChangeKind::Scaffold => "First files",
    };
    let mut change = FileChange::for_file(entry.kind, title, scope, path, environment);
    change.clients.clone_from(&clients);
    let Some(text) = change.old_text.clone() else { return change };
    let undone = entry.undo(&text);
    let undone =
        undone.filter(|undone| entry.kind != ChangeKind::Block || keeps_other_lines(undone, &text));
    match (undone, entry.kind) {
        (Some(undone), _) => change.set_text(Ok(undone)),
        (None, ChangeKind::Entry) => {
            let locations =
                clients.iter().filter_map(|client| client.config_location(scope, environment).ok());
            let slots: Vec<EntrySlot> = locations.map(|location| location.slot).collect();
            cut_our_part(&mut change, |text| cut_entry(text, &slots), EDITED_NOTE);
        }
        (None, ChangeKind::Block) => cut_our_part(&mut change, block::remove_block, EDITED_NOTE),
        (None, ChangeKind::Scaffold) if text.is_empty() => {}
        // The user has edited the file.
        (None, ChangeKind::Scaffold) => return change,
    }
    change.mentions_reqlore = true;
    let new_file = clients.first().map_or("", |client| client.new_file());
    if entry.is_new && !change.is_refused() && is_empty_file(change.current_text(), new_file) {
        change.remove_file();
    }
    change
}

/// Cuts out our part, with a note.
fn cut_our_part(
    change: &mut FileChange,
    cut: impl Fn(&str) -> Result<String, ConfigError>,
    why: &str,
) {
    let Some(text) = change.old_text.clone().filter(|_| !change.is_refused()) else { return };
    change.set_text(cut(&text));
    change.mentions_reqlore = !matches!(change.outcome, ChangeOutcome::Unchanged);
    if let ChangeOutcome::Write { note, .. } = &mut change.outcome {
        *note = Some(why.to_owned());
    }
}

fn cut_entry(text: &str, slots: &[EntrySlot]) -> Result<String, ConfigError> {
    let mut text = text.to_owned();
    // A file without our name needs no edit, even if it can't be parsed.
    let is_named = text.contains(edit::SERVER_NAME);
    for slot in slots.iter().filter(|_| is_named) {
        text = edit::remove_entry(&text, *slot)?;
    }
    Ok(text)
}

/// True if every line around the block is kept. If the file had no line end before the block, text
/// that was added below it since would join its last line.
fn keeps_other_lines(undone: &str, text: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    block::remove_block(text).is_ok_and(|cut| lines(&cut) == lines(undone))
}

/// True if only `new_file` and the empty maps around an entry are left.
fn is_empty_file(text: &str, new_file: &str) -> bool {
    fn is_empty(value: &Value) -> bool {
        value.as_object().is_some_and(|map| map.values().all(is_empty))
    }
    let text = text.trim_start_matches('\u{feff}').trim();
    let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let first = parse(new_file).unwrap_or_default();
    let map = parse(text);
    text.is_empty()
        || map.is_some_and(|map| {
            map.iter().all(|(key, value)| is_empty(value) || first.get(key) == Some(value))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_empty_file_accepts_only_what_init_created() {
        let schema = "{\"$schema\": \"https://example.org\"}";
        for text in ["", "\n", "{}", "{\n  \"mcpServers\": {}\n}\n", "{\"a\": {\"b\": {}}}", schema]
        {
            assert!(is_empty_file(text, schema), "{text}");
        }
        for text in ["x", "{\"a\": 1}", "{} // mine", "{\"a\": []}", "# mine\n", schema] {
            assert!(!is_empty_file(text, ""), "{text}");
        }
    }
}
