//! Docsets: two tools, and the configuration that both read.
//!
//! `ConfigCache` caches each configuration while its version stays the same. A faulty one is
//! cached as its error, so an older state never answers.

pub mod import;
pub(crate) mod list_docsets;
pub(crate) mod search_docs;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::{DocsetConfig, FILE, MINIMAL, located};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project_key::ProjectKey;
use serde_json::Value;

use crate::ApplicationPorts;
use crate::transaction::get_one;
use list_docsets::render_list;

/// Cached projects; a full cache is cleared.
const MAX_PROJECTS: usize = 1_000;
/// The remedy in each error about the file.
const RELOAD_HINT: &str = "the next call reads it (a database reads it with `reqlore docsets \
                    import FILE`)";
const MAX_DIAGNOSTICS: usize = 5;

#[derive(Debug)]
pub(crate) struct ConfigCache {
    id: DocumentId,
    cached: Mutex<HashMap<ProjectKey, (Version, ConfigOutcome)>>,
}

/// A configuration that can be used, or why it can't.
type ConfigOutcome = std::result::Result<Arc<LoadedConfig>, Arc<str>>;

/// A configuration, and the answer that is made of it once.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) configuration: DocsetConfig,
    list_text: String,
    list_data: Arc<Value>,
}

impl Default for ConfigCache {
    fn default() -> Self {
        Self { id: DocumentId::docsets(), cached: Mutex::default() }
    }
}

impl ConfigCache {
    /// The current configuration. Each call reads its version; the file is read after a change
    /// only.
    pub(crate) async fn current_config(
        &self,
        ports: &ApplicationPorts,
        caller: &Caller,
    ) -> Result<Arc<LoadedConfig>> {
        let project = ports.projects.resolve(caller, None, Toolset::Docsets).await?;
        let versions = ports.documents.versions(&project, std::slice::from_ref(&self.id)).await?;
        let Some(version) = versions.into_iter().next().flatten() else {
            return Err(not_configured(&ports.projects.folder(&project).await?, caller));
        };
        let known = self.lock_cache().get(&project).filter(|(known, _)| *known == version).cloned();
        match known {
            Some((_, outcome)) => outcome.map_err(|message| unusable_config(&message)),
            None => self.read_config(ports, caller, project).await,
        }
    }

    fn lock_cache(&self) -> MutexGuard<'_, HashMap<ProjectKey, (Version, ConfigOutcome)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_config(
        &self,
        ports: &ApplicationPorts,
        caller: &Caller,
        project: ProjectKey,
    ) -> Result<Arc<LoadedConfig>> {
        let folder = ports.projects.folder(&project).await?;
        let Some(document) = get_one(&*ports.documents, &project, &self.id).await? else {
            return Err(not_configured(&folder, caller));
        };
        let outcome: ConfigOutcome = match document.text() {
            Err(fault) => Err(format!("{FILE}: {fault}; {RELOAD_HINT}.").into()),
            Ok(text) => match DocsetConfig::read(text, &folder) {
                Err(faults) => {
                    Err(format!("{}\nMend the file; {RELOAD_HINT}.", first_diagnostics(&faults))
                        .into())
                }
                Ok(configuration) => render_list(configuration).map(Arc::new).map(Ok)?,
            },
        };
        let mut known = self.lock_cache();
        if known.len() >= MAX_PROJECTS && !known.contains_key(&project) {
            known.clear();
        }
        known.insert(project, (document.version, outcome.clone()));
        drop(known);
        outcome.map_err(|message| unusable_config(&message))
    }
}

/// The first faults, a line each.
fn first_diagnostics(faults: &[Diagnostic]) -> String {
    let mut lines: Vec<String> = faults.iter().take(MAX_DIAGNOSTICS).map(located).collect();
    if let Some(more) = faults.len().checked_sub(MAX_DIAGNOSTICS).filter(|more| *more > 0) {
        lines.push(format!("({more} more; `reqlore check` lists them all.)"));
    }
    lines.join("\n")
}

fn unusable_config(message: &str) -> Error {
    Error::new(ErrorKind::Unreadable, message).reference(FILE)
}

/// The error for a missing configuration. Only a local caller sees the folder.
fn not_configured(folder: &str, caller: &Caller) -> Error {
    let (place, file) = match caller.reach {
        ProjectScope::Anywhere => {
            (format!("{folder} or in the folders above it"), format!("{folder}/{FILE}"))
        }
        ProjectScope::Configured | ProjectScope::Only(_) => {
            ("the project's folder".to_owned(), format!("{FILE} there"))
        }
    };
    let message = format!(
        "No docsets are configured: there is no {FILE} in {place}. Create {file}, for instance \
         with:\n\n{MINIMAL}\nand put the documentation into .knowledge/docs/react-18.2/; {RELOAD_HINT}."
    );
    Error::new(ErrorKind::NotFound, message).reference(FILE)
}
