//! Whether assistants will come to read what init writes: it is said, and not mended, since the
//! files and folders that decide it are the person's own.

use std::path::Path;

use reqlore_client_config::{Client, Scope, Surroundings};

use super::plan::Change;
use crate::client_environment::repository_around;
use crate::commands::untrusted_text::agents_md_ignored_by_claude;

/// What to look at before the project's files are of use.
pub(super) fn warnings(changes: &[Change], around: &Surroundings) -> Vec<String> {
    let is_of_project = |change: &&Change| change.scope == Scope::Project && change.is_write();
    let written: Vec<&Change> = changes.iter().filter(is_of_project).collect();
    if written.is_empty() {
        return Vec::new();
    }
    let is_for_claude = written.iter().any(|change| change.clients.contains(&Client::ClaudeCode));
    let claude = is_for_claude.then(|| of_claude(&around.project)).flatten();
    [claude, of_repository(&around.project)].into_iter().flatten().collect()
}

fn of_claude(project: &Path) -> Option<String> {
    let [what, next] = agents_md_ignored_by_claude(project)?;
    Some(format!("{what}; {next}"))
}

/// Clients look for a project's files where they are opened, mostly at the top of a repository.
fn of_repository(project: &Path) -> Option<String> {
    let top = repository_around(project).filter(|top| top != project)?;
    Some(format!(
        "the git repository begins further up, at {}; where assistants are opened there, use \
         --root with it",
        top.display()
    ))
}
