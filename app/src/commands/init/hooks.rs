//! The planned changes of session hooks.

use std::path::Path;

use reqlore_client_config::edit;
use reqlore_client_config::{Client, ConfigError, ConfigScope, SessionHook};
use serde_json::json;

use super::file_change::{ChangeOutcome, link_target, resolve_and_read};
use super::hook_files::{LIST_PATH, hook_file, list_file};
use super::options::Options;
use super::plan::ChangePlan;
use super::remove::undo_logged_edit;
use super::server_entry::ServerEntry;
use super::undo_log::UndoLog;
use crate::config::AppConfig;
use crate::settings::SettingFlags;
use crate::storage_spec::StorageSpec;

const NOTE: &str = "the hook shows the state of the project to the assistant at the start of each \
                    session, in at most 400 tokens";

impl ChangePlan<'_> {
    /// Adds the hooks of the clients. Hooks that the user did not ask for are left out if they
    /// would fail, or change a file that changes anyway.
    pub(super) fn add_hooks(
        &mut self,
        server: &ServerEntry,
        flags: &SettingFlags,
        options: &Options,
        clients: &[Client],
    ) {
        let is_sled = matches!(server, ServerEntry::Command { .. })
            && AppConfig::resolve(flags)
                .is_ok_and(|config| matches!(config.storage, StorageSpec::Sled(_)));
        let mut listed = Vec::new();
        for client in clients {
            let Some((hook, scope, file)) = hook_file(*client, options.scope, self.environment)
            else {
                continue;
            };
            let is_shared = self.changes.iter().any(|change| change.path == file);
            if hook.also_runs.is_some_and(|other| self.has_hook(other, None))
                || options.hooks.is_none() && (is_shared || is_sled)
            {
                continue;
            }
            if self.has_hook(*client, Some(&file)) {
                if scope == ConfigScope::Project {
                    listed.push(*client);
                }
                continue;
            }
            let command = if is_sled {
                Err("a hook can't open the storage sled, which a running server holds; use \
                     --transport http --url URL"
                    .into())
            } else {
                server.hook_command(*client, scope, self.environment)
            };
            match command.and_then(|command| self.put_hook(*client, hook, scope, &file, &command)) {
                Ok(()) if scope == ConfigScope::User => listed.push(*client),
                Ok(()) => {}
                Err(_) if options.hooks.is_none() => {}
                Err(reason) => self.unsupported.push((*client, reason.into())),
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
        client: Client,
        hook: &SessionHook,
        scope: ConfigScope,
        file: &Path,
        command: &str,
    ) -> Result<(), ConfigError> {
        let entries = hook.entries(command)?;
        let change = self.add_change(client, scope, file);
        if change.is_refused() {
            return Ok(());
        }
        let is_new_file = change.old_text.is_none() && !change.is_write();
        let text = if is_new_file { hook.new_file } else { change.current_text() }.to_owned();
        change.mentions_reqlore |= is_hook_in(&text, hook);
        change.set_text(edit::put_hook(&text, hook.path, &entries));
        if let ChangeOutcome::Write { note, .. } = &mut change.outcome {
            *note = Some(NOTE.to_owned());
            if !hook.advice.is_empty() {
                self.warnings.push(hook.advice.to_owned());
            }
        }
        Ok(())
    }

    /// True if a file other than `except` has, or will have, a hook of this client.
    fn has_hook(&self, client: Client, except: Option<&Path>) -> bool {
        ConfigScope::ALL.into_iter().any(|scope| {
            let Some((hook, _, file)) = hook_file(client, Some(scope), self.environment) else {
                return false;
            };
            let planned = self.changes.iter().find(|change| change.path == file);
            let text = planned.map(|change| change.current_text().to_owned());
            except != Some(&*file) && is_hook_in(&text.unwrap_or_else(|| text_of(&file)), hook)
        })
    }

    /// Removes the hooks of the clients, for `--hooks none`.
    pub(super) fn remove_hooks(&mut self, options: &Options, clients: &[Client], log: &UndoLog) {
        for client in clients {
            let Some((hook, scope, file)) = hook_file(*client, options.scope, self.environment)
            else {
                continue;
            };
            if !is_hook_in(&text_of(&file), hook) {
                continue;
            }
            let is_shared = self.changes.iter().any(|change| change.path == file);
            let target = link_target(&file).unwrap_or_default();
            if let Some(entry) = log.files.get(&target).filter(|_| !is_shared) {
                self.changes.push(undo_logged_edit(&target, entry, self.environment));
                continue;
            }
            let change = self.add_change(*client, scope, &file);
            change.mentions_reqlore = true;
            change.set_text(edit::remove_hook(change.current_text(), hook.path));
        }
    }
}

fn text_of(file: &Path) -> String {
    let read = resolve_and_read(file, None);
    read.ok().and_then(|(_, text)| text).unwrap_or_default()
}

fn is_hook_in(text: &str, hook: &SessionHook) -> bool {
    edit::find_hook(text, hook.path).is_ok_and(|found| !found.is_empty())
}
