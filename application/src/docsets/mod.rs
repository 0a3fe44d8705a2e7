//! Docsets: `list_docsets`, and the configuration that both tools read.
//!
//! `Configurations` caches each configuration while its version stays the same. A faulty one is
//! cached as its error, so an older state never answers.

pub mod import;
pub(crate) mod search_docs;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::{Configuration, Docset, FILE, MINIMAL, located};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use reqlore_domain::project::ProjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::edit::get_one;
use crate::tool::{Tool, decode, read_tool};
use crate::{Context, Ports};

/// Cached projects; a full cache is cleared.
const MAX_PROJECTS: usize = 1_000;
/// The remedy in each error about the file.
const NEXT: &str = "the next call reads it (a database reads it with `reqlore docsets \
                    import FILE`)";
const MAX_FAULTS: usize = 5;

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
    list_text: String,
    list_data: Arc<Value>,
}

impl Default for Configurations {
    fn default() -> Self {
        Self { id: DocumentId::docsets(), known: Mutex::default() }
    }
}

impl Configurations {
    /// The current configuration. Each call reads its version; the file is read after a change
    /// only.
    pub(crate) async fn load(&self, ports: &Ports, caller: &Caller) -> Result<Arc<Loaded>> {
        let project = ports.projects.resolve(caller, None, Toolset::Docsets).await?;
        let versions = ports.documents.versions(&project, std::slice::from_ref(&self.id)).await?;
        let Some(version) = versions.into_iter().next().flatten() else {
            return Err(not_configured(&ports.projects.folder(&project).await?, caller));
        };
        let known = self.lock().get(&project).filter(|(known, _)| *known == version).cloned();
        match known {
            Some((_, outcome)) => outcome.map_err(|message| unusable(&message)),
            None => self.read(ports, caller, project).await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProjectKey, (Version, Outcome)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(
        &self,
        ports: &Ports,
        caller: &Caller,
        project: ProjectKey,
    ) -> Result<Arc<Loaded>> {
        let folder = ports.projects.folder(&project).await?;
        let Some(document) = get_one(&*ports.documents, &project, &self.id).await? else {
            return Err(not_configured(&folder, caller));
        };
        let outcome: Outcome = match document.text() {
            Err(fault) => Err(format!("{FILE}: {fault}; {NEXT}.").into()),
            Ok(text) => match Configuration::read(text, &folder) {
                Err(faults) => Err(format!("{}\nMend the file; {NEXT}.", told(&faults)).into()),
                Ok(configuration) => loaded(configuration).map(Arc::new).map(Ok)?,
            },
        };
        let mut known = self.lock();
        if known.len() >= MAX_PROJECTS && !known.contains_key(&project) {
            known.clear();
        }
        known.insert(project, (document.version, outcome.clone()));
        drop(known);
        outcome.map_err(|message| unusable(&message))
    }
}

/// The first faults, a line each.
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
         with:\n\n{MINIMAL}\nand put the documentation into .knowledge/docs/react-18.2/; {NEXT}."
    );
    Error::new(ErrorKind::NotFound, message).reference(FILE)
}

pub(crate) struct ListDocsets;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct DocsetList<'a> {
    /// The docsets in the order of the configuration; the text holds the same.
    docsets: Vec<DocsetItem<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct DocsetItem<'a> {
    /// The name that search_docs takes.
    name: &'a str,
    /// The version of what is documented, as it is configured; null where none is.
    #[schemars(required, extend("type" = ["string", "null"]))]
    version: Option<&'a str>,
    /// Other names that search_docs takes.
    aliases: &'a [String],
    /// The folder of the files: absolute, with forward slashes, ending with one.
    local_path: &'a str,
    /// What the documentation is about, where that is configured.
    #[schemars(required, extend("type" = ["string", "null"]))]
    description: Option<&'a str>,
}

#[async_trait]
impl Tool for ListDocsets {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, DocsetList<'_>>(
            "list_docsets",
            "List the docsets",
            "\
Lists the documentation sets of this project: name, version, aliases and folder of each.
Call it to learn which docset search_docs can be asked for. The list is empty when the \
configuration names none.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let Arguments {} = decode(&mut call, spec)?;
        let loaded = context.configurations.load(&context.ports, &call.caller).await?;
        let text = vec![loaded.list_text.clone()];
        Ok(Reply { text, data: Arc::clone(&loaded.list_data) })
    }
}

/// A configuration with its list, which is the same for every call.
fn loaded(configuration: Configuration) -> Result<Loaded> {
    let answer = DocsetList { docsets: configuration.docsets.iter().map(item).collect() };
    let failed = |error: serde_json::Error| {
        Error::new(ErrorKind::Internal, "The list could not be written.").caused_by(error)
    };
    let list_text = serde_json::to_string_pretty(&answer.docsets).map_err(failed)?;
    let list_data = Arc::new(serde_json::to_value(&answer).map_err(failed)?);
    Ok(Loaded { configuration, list_text, list_data })
}

fn item(docset: &Docset) -> DocsetItem<'_> {
    DocsetItem {
        name: &docset.name,
        version: docset.version.as_deref(),
        aliases: &docset.aliases,
        local_path: &docset.local_path,
        description: docset.description.as_deref().or(docset.title.as_deref()),
    }
}
