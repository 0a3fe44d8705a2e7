//! The planned changes of hooks.

use std::collections::BTreeSet;
use std::path::Path;

use reqlore_client_config::edit;
use reqlore_client_config::{Client, ClientHook, ConfigError, ConfigScope, HOOKS, HookEvent};
use serde_json::json;

use super::file_change::{ChangeOutcome, link_target, resolve_and_read};
use super::hook_files::{LIST_PATH, list_file};
use super::options::{HookChoice, Options};
use super::plan::ChangePlan;
use super::remove::undo_logged_edit;
use super::server_entry::ServerEntry;
use super::undo_log::UndoLog;
use crate::config::AppConfig;
use crate::settings::SettingFlags;
use crate::storage_spec::StorageSpec;

const SESSION_NOTE: &str = "the hook shows the state of the project to the assistant at the start \
                            of each session, in at most 400 tokens";
const PROMPT_NOTE: &str = "the hooks show the state of the project to the assistant at the start \
                           of each session, in at most 400 tokens, and the texts that matter for \
                           each prompt, in at most 300";

impl ChangePlan<'_> {
    /// Adds the chosen hooks of the clients. Hooks that the user did not ask for are left out if
    /// they would fail, or change a file that changes anyway.
    pub(super) fn add_hooks(
        &mut self,
        choice: HookChoice,
        server: &ServerEntry,
        flags: &SettingFlags,
        options: &Options,
        clients: &[Client],
    ) {
        let is_sled = matches!(server, ServerEntry::Command { .. })
            && AppConfig::resolve(flags)
                .is_ok_and(|config| matches!(config.storage, StorageSpec::Sled(_)));
        let mut listed = BTreeSet::new();
        for hook in hooks_of(clients) {
            let ClientHook { client, event, .. } = *hook;
            let (scope, file) =
                hook.location(options.scope.unwrap_or(ConfigScope::Project), self.environment);
            let is_shared = self.changes.iter().any(|change| change.path == file);
            if !choice.has(event)
                || hook.also_runs.is_some_and(|other| self.has_hook(other, event, None))
                || options.hooks.is_none() && (is_shared || is_sled)
            {
                continue;
            }
            if self.has_hook(client, event, Some(&file)) {
                if scope == ConfigScope::Project {
                    listed.insert(client);
                }
                continue;
            }
            let command = if is_sled {
                Err("a hook can't open the storage sled, which a running server holds; use \
                     --transport http --url URL"
                    .into())
            } else {
                server.hook_command(client, event, scope, self.environment)
            };
            match command.and_then(|command| self.put_hook(hook, scope, &file, &command)) {
                Ok(()) if scope == ConfigScope::User => {
                    listed.insert(client);
                }
                Ok(()) => {}
                Err(_) if options.hooks.is_none() => {}
                Err(reason) => self.unsupported.push((client, reason.into())),
            }
        }
        for client in listed {
            let file = list_file(&self.environment.home);
            let project = json!(self.environment.project);
            let change = self.add_change(client, ConfigScope::User, &file);
            change.mentions_reqlore = change.old_text.is_some();
            let text = change.current_text().to_owned();
            if !change.is_refused() {
                change.set_text(edit::put_item(&text, LIST_PATH, &project));
            }
        }
    }

    fn put_hook(
        &mut self,
        hook: &ClientHook,
        scope: ConfigScope,
        file: &Path,
        command: &str,
    ) -> Result<(), ConfigError> {
        let entries = hook.entries(command)?;
        let change = self.add_change(hook.client, scope, file);
        if change.is_refused() {
            return Ok(());
        }
        let is_new_file = change.old_text.is_none() && !change.is_write();
        let text = if is_new_file { hook.new_file } else { change.current_text() }.to_owned();
        change.mentions_reqlore |= is_hook_in(&text, hook);
        change.set_text(edit::put_hook(&text, hook.path, &entries));
        if let ChangeOutcome::Write { note, .. } = &mut change.outcome {
            let is_prompt = hook.event == HookEvent::Prompt;
            *note = Some(if is_prompt { PROMPT_NOTE } else { SESSION_NOTE }.to_owned());
            if !hook.advice.is_empty() && !self.warnings.iter().any(|one| one == hook.advice) {
                self.warnings.push(hook.advice.to_owned());
            }
        }
        Ok(())
    }

    /// True if a file other than `except` has, or will have, a hook of this client.
    fn has_hook(&self, client: Client, event: HookEvent, except: Option<&Path>) -> bool {
        let Some(hook) = client.hook(event) else { return false };
        ConfigScope::ALL.into_iter().any(|scope| {
            let (_, file) = hook.location(scope, self.environment);
            except != Some(&*file) && is_hook_in(&self.planned_text(&file), hook)
        })
    }

    fn planned_text(&self, file: &Path) -> String {
        match self.changes.iter().find(|change| change.path == file) {
            Some(change) if change.is_file_removal() => String::new(),
            Some(change) => change.current_text().to_owned(),
            None => text_of(file),
        }
    }

    /// Removes the hooks of the clients that the choice does not have.
    pub(super) fn remove_hooks(
        &mut self,
        choice: HookChoice,
        options: &Options,
        clients: &[Client],
        log: &UndoLog,
    ) {
        for hook in hooks_of(clients) {
            let (scope, file) =
                hook.location(options.scope.unwrap_or(ConfigScope::Project), self.environment);
            if choice.has(hook.event) || !is_hook_in(&self.planned_text(&file), hook) {
                continue;
            }
            let is_whole = choice == HookChoice::None
                && !self.changes.iter().any(|change| change.path == file);
            let target = link_target(&file).unwrap_or_default();
            if let Some(entry) = log.files.get(&target).filter(|_| is_whole) {
                self.changes.push(undo_logged_edit(&target, entry, self.environment));
                continue;
            }
            let change = self.add_change(hook.client, scope, &file);
            change.mentions_reqlore = true;
            change.set_text(edit::remove_hook(change.current_text(), hook.path));
        }
    }
}

/// In the order of the clients.
fn hooks_of(clients: &[Client]) -> impl Iterator<Item = &'static ClientHook> {
    clients.iter().flat_map(|client| HOOKS.iter().filter(move |hook| hook.client == *client))
}

fn text_of(file: &Path) -> String {
    let read = resolve_and_read(file, None);
    read.ok().and_then(|(_, text)| text).unwrap_or_default()
}

fn is_hook_in(text: &str, hook: &ClientHook) -> bool {
    edit::find_hook(text, hook.path).is_ok_and(|found| !found.is_empty())
}
