//! Docsets (S3): two tools over the project's configuration, and its check.
//!
//! `Configurations` keeps what was made of a configuration for as long as its version stays. A
//! newcomer's trap: what does not parse is kept as well, as the error it is; an older state that
//! did parse is never answered from.

pub mod import;
pub(crate) mod list_docsets;
pub(crate) mod search_docs;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::{Configuration, FILE, MINIMAL, located};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project::ProjectKey;
use serde_json::Value;

use crate::Ports;

/// So many projects are kept; one more, and all are read anew.
const MAX_PROJECTS: usize = 1_000;
/// What becomes of a mended file.
const NEXT: &str = "the next call reads it (a database reads it with `reqlore docsets \
                    import FILE`)";
/// So many faults are told at once.
const MAX_FAULTS: usize = 5;

/// What is known of each project's configuration.
#[derive(Debug)]
pub(crate) struct Configurations {
    id: DocumentId,
    known: Mutex<HashMap<ProjectKey, (Version, Outcome)>>,
}

/// A configuration that can be used, or why it can't.
type Outcome = std::result::Result<Arc<Loaded>, Arc<str>>;

/// A configuration, and the answer that is made of it once.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) configuration: Configuration,
    pub(crate) list_text: String,
    pub(crate) list_data: Arc<Value>,
}

impl Default for Configurations {
    fn default() -> Self {
        Self { id: DocumentId::docsets(), known: Mutex::default() }
    }
}

impl Configurations {
    /// The configuration as it is now: the version is asked at every call, and only what changed
    /// is read again (S3 REQ-9).
    pub(crate) async fn load(&self, ports: &Ports, caller: &Caller) -> Result<Arc<Loaded>> {
        let project = ports.projects.resolve(caller, None, Toolset::Docsets).await?;
        let id = std::slice::from_ref(&self.id);
        let versions = ports.documents.versions(&project, id).await?;
        let Some(version) = versions.into_iter().next().flatten() else {
            return Err(not_configured(&ports.projects.folder(&project).await?, caller));
        };
        match self.known(&project, version) {
            Some(outcome) => outcome.map_err(|message| unusable(&message)),
            None => self.read(ports, caller, project).await,
        }
    }

    fn known(&self, project: &ProjectKey, version: Version) -> Option<Outcome> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, outcome) = known.get(project).filter(|(known, _)| *known == version)?;
        Some(outcome.clone())
    }

    fn keep(&self, project: ProjectKey, version: Version, outcome: Outcome) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PROJECTS && !known.contains_key(&project) {
            known.clear();
        }
        known.insert(project, (version, outcome));
    }

    async fn read(
        &self,
        ports: &Ports,
        caller: &Caller,
        project: ProjectKey,
    ) -> Result<Arc<Loaded>> {
        let folder = ports.projects.folder(&project).await?;
        let found = ports.documents.get(&project, std::slice::from_ref(&self.id)).await?;
        let Some(document) = found.into_iter().next().flatten() else {
            return Err(not_configured(&folder, caller));
        };
        let outcome: Outcome = match document.text() {
            Err(fault) => Err(format!("{FILE}: {fault}; {NEXT}.").into()),
            Ok(text) => match Configuration::read(text, &folder) {
                Err(faults) => Err(format!("{}\nMend the file; {NEXT}.", told(&faults)).into()),
                Ok(configuration) => list_docsets::loaded(configuration).map(Arc::new).map(Ok)?,
            },
        };
        self.keep(project, document.version, outcome.clone());
        outcome.map_err(|message| unusable(&message))
    }
}

/// The faults for a caller: the first ones, and what to do.
fn told(faults: &[Diagnostic]) -> String {
    let mut lines: Vec<String> = faults.iter().take(MAX_FAULTS).map(located).collect();
    if let Some(more) = faults.len().checked_sub(MAX_FAULTS).filter(|more| *more > 0) {
        lines.push(format!("({more} more; `reqlore check` lists them all.)"));
    }
    lines.join("\n")
}

fn unusable(message: &str) -> Error {
    Error::new(ErrorKind::Unreadable, message).reference(FILE)
}

/// S3 REQ-3.4: where it was looked for, and what to put there. Only who may go anywhere is told the
/// folder.
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
         with:\n\n{MINIMAL}\nand put the documentation into .knowledge/docs/react-18.2/; {NEXT}."
    );
    Error::new(ErrorKind::NotFound, message).reference(FILE)
}
