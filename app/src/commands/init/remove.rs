//! The planned changes of `--remove`: undo logged edits, and cut out named entries.
//!
//! An intact edit is undone to the byte; from an edited one only our part is removed. An entry
//! that is not in the log may be committed by a colleague, so it is removed only by client name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reqlore_client_config::edit::{self, EntrySlot, block};
use reqlore_client_config::{Client, ClientEnvironment, ConfigError, ConfigScope, HOOKS};
use reqlore_domain::skills::SKILL_FILE;
use serde_json::{Map, Value};

use super::file_change;
use super::hook_files::list_file;
use super::plan::{self, ChangePlan};
use super::undo_log::{UndoEntry, UndoLog, find_entry};
use crate::commands::init::file_change::{
    AGENTS_MD_TITLE, ChangeKind, ChangeOutcome, FileChange, short_path,
};
use crate::commands::init::options::Options;

const EDITED_NOTE: &str = "edited after init; only Reqlore's part is removed";
const UNLOGGED_NOTE: &str =
    "not in the undo log; only Reqlore's part is removed, and the text it replaced is lost";

pub(super) fn plan_removal<'a>(
    options: &Options,
    clients: &[Client],
    log: &UndoLog,
    environment: &'a ClientEnvironment,
) -> ChangePlan<'a> {
    let mut plan = ChangePlan::new(environment);
    for (path, entry) in &log.files {
        // Other clients' hooks need the list.
        let is_needed = *path == list_file(&environment.home)
            && !options.client.is_empty()
            && entry.clients.iter().any(|name| options.client.iter().all(|one| one.name() != name));
        if !is_needed && is_selected(entry, options, environment) {
            plan.changes.push(undo_logged_edit(path, entry, environment));
        }
    }
    for client in clients {
        add_unlogged_entries(&mut plan, *client, options, log);
    }
    add_agents_md(&mut plan, options, log);
    // The block is last, as in the output of init.
    plan.changes.sort_by_key(|change| change.kind != ChangeKind::Entry);
    plan
}

fn is_selected(entry: &UndoEntry, options: &Options, environment: &ClientEnvironment) -> bool {
    // All clients share the block, so `add_agents_md` decides about it.
    if entry.kind == ChangeKind::Block {
        return false;
    }
    if entry.project.as_ref().is_some_and(|project| *project != environment.project) {
        return false;
    }
    if options.scope.is_some_and(|scope| scope != scope_of(entry)) {
        return false;
    }
    options.client.is_empty()
        || options.client.iter().any(|client| entry.clients.contains(client.name()))
}

fn scope_of(entry: &UndoEntry) -> ConfigScope {
    if entry.project.is_some() { ConfigScope::Project } else { ConfigScope::User }
}

/// Removes the entry of a client that the user named, and warns of the entries that stay.
fn add_unlogged_entries(
    plan: &mut ChangePlan<'_>,
    client: Client,
    options: &Options,
    log: &UndoLog,
) {
    let environment = plan.environment;
    let mut named_scope = None;
    if !options.client.is_empty()
        && let Ok(location) = plan::choose_location(client, options.scope, environment)
    {
        named_scope = Some(location.scope);
    }
    for scope in ConfigScope::ALL {
        let Ok(location) = client.config_location(scope, environment) else { continue };
        // The undo of the logged edit is planned already.
        if resolved_target(&location.file).is_some_and(|target| log.files.contains_key(&target)) {
            continue;
        }
        let is_asked = options.scope.is_none_or(|asked| asked == scope);
        if named_scope == Some(scope) {
            let change = plan.add_change(client, location.scope, &location.file);
            cut_our_part(change, |text| cut_entry(text, &[location.slot], &[]), UNLOGGED_NOTE);
        } else if is_asked && find_entry(&location).is_some() {
            plan.warnings.push(format!(
                "{}: the entry is not in the undo log; to remove it, run reqlore init --remove \
                 --client {client} --scope {}",
                short_path(&location.file, environment),
                scope.name()
            ));
        }
    }
}

fn resolved_target(file: &Path) -> Option<PathBuf> {
    let (target, _) = file_change::resolve_and_read(file, None).ok()?;
    Some(target)
}

/// Removes the block in AGENTS.md with the last entry of the project, because all clients share
/// it. Without logged entries, entries in the files are checked instead.
fn add_agents_md(plan: &mut ChangePlan<'_>, options: &Options, log: &UndoLog) {
    if options.no_agents_md || options.scope == Some(ConfigScope::User) {
        return;
    }
    let environment = plan.environment;
    let mut removed: BTreeSet<&Path> = BTreeSet::new();
    for change in &plan.changes {
        if !change.is_refused() {
            removed.insert(&change.target);
        }
    }
    let mut is_logged = false;
    let mut logged_block = None;
    let mut is_needed = false;
    for (path, entry) in &log.files {
        if entry.project.as_ref() != Some(&environment.project) {
            continue;
        }
        is_logged = true;
        match entry.kind {
            ChangeKind::Entry => is_needed |= !removed.contains(path.as_path()),
            ChangeKind::Block => logged_block = Some((path, entry)),
            ChangeKind::Scaffold => {}
        }
    }
    if !is_logged {
        // After a clone nothing is logged, but a colleague may have committed entries.
        is_needed = has_other_entry(environment, &removed);
    }
    if is_needed {
        return;
    }
    if let Some((path, entry)) = logged_block {
        plan.changes.push(undo_logged_edit(path, entry, environment));
    } else if !is_logged && !options.client.is_empty() {
        let mut change = FileChange::agents_md(environment);
        cut_our_part(&mut change, block::remove_block, UNLOGGED_NOTE);
        plan.changes.push(change);
    }
}

/// True if a file of the project keeps an entry.
fn has_other_entry(environment: &ClientEnvironment, removed: &BTreeSet<&Path>) -> bool {
    for client in Client::ALL {
        let Ok(location) = client.config_location(ConfigScope::Project, environment) else {
            continue;
        };
        if find_entry(&location).is_some()
            && resolved_target(&location.file).is_some_and(|target| !removed.contains(&*target))
        {
            return true;
        }
    }
    false
}

pub(super) fn undo_logged_edit(
    path: &Path,
    entry: &UndoEntry,
    environment: &ClientEnvironment,
) -> FileChange {
    let scope = scope_of(entry);
    let clients: Vec<Client> =
        entry.clients.iter().filter_map(|name| Client::from_name(name)).collect();
    let title = match entry.kind {
        ChangeKind::Entry => {
            clients.iter().map(|client| client.title()).collect::<Vec<_>>().join(", ")
        }
        ChangeKind::Block => AGENTS_MD_TITLE.to_owned(),
        ChangeKind::Scaffold if path.ends_with(SKILL_FILE) => plan::SKILL_TITLE.to_owned(),
        ChangeKind::Scaffold => "First files".to_owned(),
    };
    let mut change = FileChange::for_file(entry.kind, &title, scope, path, environment);
    change.clients.clone_from(&clients);
    let Some(text) = change.old_text.clone() else { return change };
    let mut new_file = clients.first().map_or("", |client| client.new_file());
    let mut undone = entry.undo(&text);
    if entry.kind == ChangeKind::Block {
        // The user may have added text below the block, which an exact undo could join.
        undone = undone.filter(|undone| keeps_other_lines(undone, &text));
    }
    match (undone, entry.kind) {
        (Some(undone), _) => change.set_text(Ok(undone)),
        (None, ChangeKind::Entry) => {
            let (mut slots, mut hooks) = (Vec::new(), Vec::new());
            for hook in HOOKS.iter().filter(|hook| clients.contains(&hook.client)) {
                let (_, file) = hook.location(scope, environment);
                if resolved_target(&file).is_some_and(|target| target == path) {
                    hooks.push(hook.path);
                    new_file = hook.new_file;
                }
            }
            for client in &clients {
                if let Ok(location) = client.config_location(scope, environment)
                    && resolved_target(&location.file).is_some_and(|target| target == path)
                {
                    slots.push(location.slot);
                }
            }
            cut_our_part(&mut change, |text| cut_entry(text, &slots, &hooks), EDITED_NOTE);
        }
        (None, ChangeKind::Block) => {
            cut_our_part(&mut change, block::remove_block, EDITED_NOTE);
        }
        (None, ChangeKind::Scaffold) if text.is_empty() => {}
        // The user has edited the file.
        (None, ChangeKind::Scaffold) => return change,
    }
    change.mentions_reqlore = true;
    // A file that init created is removed if only our text was in it.
    if entry.is_new && !change.is_refused() && is_empty_file(change.current_text(), new_file) {
        change.remove_file();
    }
    change
}

/// Applies `cut` to the file and adds the note.
fn cut_our_part(
    change: &mut FileChange,
    cut: impl Fn(&str) -> Result<String, ConfigError>,
    note_text: &str,
) {
    if change.is_refused() {
        return;
    }
    let Some(text) = &change.old_text else { return };
    change.set_text(cut(text));
    change.mentions_reqlore = !matches!(change.outcome, ChangeOutcome::Unchanged);
    if let ChangeOutcome::Write { note, .. } = &mut change.outcome {
        *note = Some(note_text.to_owned());
    }
}

fn cut_entry(text: &str, slots: &[EntrySlot], hooks: &[&[&str]]) -> Result<String, ConfigError> {
    let mut text = text.to_owned();
    // A file without our name needs no edit, even if it can't be parsed.
    if !text.contains(edit::SERVER_NAME) {
        return Ok(text);
    }
    for slot in slots {
        text = edit::remove_entry(&text, *slot)?;
    }
    for path in hooks {
        text = edit::remove_hook(&text, path)?;
    }
    Ok(text)
}

/// True if every line around the block is kept. If the file had no line end before the block, text
/// that was added below it since would join its last line.
fn keeps_other_lines(undone: &str, text: &str) -> bool {
    match block::remove_block(text) {
        Ok(cut) => filled_lines(&cut).eq(filled_lines(undone)),
        Err(_) => false,
    }
}

fn filled_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

/// True if only `new_file` and the empty maps around an entry are left.
fn is_empty_file(text: &str, new_file: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return true;
    }
    let Some(map) = parse_object(text) else { return false };
    // A client's new file may have keys of its own, such as `$schema`.
    let new_file = parse_object(new_file).unwrap_or_default();
    map.iter().all(|(key, value)| is_empty_map(value) || new_file.get(key) == Some(value))
}

fn parse_object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

fn is_empty_map(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.values().all(is_empty_map))
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
