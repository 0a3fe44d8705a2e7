//! Docsets: two tools and the cached configuration that both use.

mod docset_list;
pub mod import;
pub(crate) mod list_docsets;
pub(crate) mod search_docs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::{CONFIG_PATH, DocsetConfig, format_diagnostic};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::documents::DocumentRepository;
use reqlore_domain::ports::project_resolver::{DocumentsFolder, Toolset};
use reqlore_domain::project_key::ProjectKey;

use crate::answers::answer::TextAnswer;
use crate::documents::get_one;
use crate::ports::ApplicationPorts;
use crate::record_schemas::VersionCache;
use docset_list::render_list;

/// How an edited file takes effect; part of each error about it.
const RELOAD_HINT: &str = "the next call reads it (if it is stored in a database, run `reqlore \
                           docsets import FILE`)";
const MAX_DIAGNOSTICS: usize = 5;

/// Caches the configuration of each project.
#[derive(Debug, Default)]
pub(crate) struct ConfigCache(VersionCache<ConfigOutcome>);

/// A configuration or its error. Errors are cached too, so an invalid file never gets old answers.
type ConfigOutcome = std::result::Result<Arc<LoadedConfig>, Arc<str>>;

/// A configuration with the answer of `list_docsets`, which is rendered once.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) configuration: DocsetConfig,
    pub(crate) version: Version,
    list: TextAnswer,
}

impl ConfigCache {
    /// Returns the current configuration. Each call reads its version; the file is read only after
    /// a change.
    pub(crate) async fn current_config(
        &self,
        ports: &ApplicationPorts,
        caller: &Caller,
    ) -> Result<Arc<LoadedConfig>> {
        let source = ConfigSource::find(ports, caller).await?;
        let outcome = match self.0.find(&source.project, source.version) {
            Some(outcome) => outcome,
            None => self.read_config(ports, caller, &source).await?,
        };
        outcome.map_err(|message| unusable_config(&message))
    }

    async fn read_config(
        &self,
        ports: &ApplicationPorts,
        caller: &Caller,
        source: &ConfigSource<'_>,
    ) -> Result<ConfigOutcome> {
        let project = source.project.clone();
        let folder = ports.projects.folder(&project).await?;
        let Some(document) = get_one(source.documents, &project, &DocumentId::docsets()).await?
        else {
            return Err(not_configured(&folder, caller));
        };
        let outcome: ConfigOutcome = match document.text() {
            Err(problem) => Err(format!("{CONFIG_PATH}: {problem}; {RELOAD_HINT}.").into()),
            Ok(text) => match DocsetConfig::parse(text, &folder) {
                Err(diagnostics) => Err(errors_message(&diagnostics).into()),
                Ok(configuration) => {
                    let (version, list) = (document.version, render_list(&configuration)?);
                    Ok(Arc::new(LoadedConfig { configuration, version, list }))
                }
            },
        };
        // With the version of the text that was read, which may be newer than the one polled.
        self.0.insert(project, document.version, outcome.clone());
        Ok(outcome)
    }
}

/// The storage that has the configuration of a caller's project.
pub(crate) struct ConfigSource<'a> {
    pub(crate) documents: &'a dyn DocumentRepository,
    pub(crate) project: ProjectKey,
    version: Version,
}

impl<'a> ConfigSource<'a> {
    /// Finds the file of this machine, or else the configuration in the database. A file that may
    /// not be used is an error, because it would take precedence.
    pub(crate) async fn find(ports: &'a ApplicationPorts, caller: &Caller) -> Result<Self> {
        let project = ports.projects.resolve(caller, None, Toolset::Docsets).await?;
        let mut sources = vec![(&ports.documents, project.clone())];
        match ports.projects.find_documents(caller, &project, Toolset::Docsets) {
            DocumentsFolder::Found(found) => {
                sources.splice(0..0, ports.root_files.as_ref().map(|files| (files, found)));
            }
            DocumentsFolder::Unusable(reason) => return Err(unusable_config(&reason)),
            DocumentsFolder::Missing => {}
        }
        for (documents, project) in sources {
            let versions = documents.versions(&project, &[DocumentId::docsets()]).await?;
            if let Some(version) = versions.into_iter().next().flatten() {
                return Ok(Self { documents: &**documents, project, version });
            }
        }
        Err(not_configured(&ports.projects.folder(&project).await?, caller))
    }
}

/// Renders the first diagnostics, one per line.
fn first_diagnostics(diagnostics: &[Diagnostic]) -> String {
    let mut lines: Vec<String> =
        diagnostics.iter().take(MAX_DIAGNOSTICS).map(format_diagnostic).collect();
    if diagnostics.len() > MAX_DIAGNOSTICS {
        let more = diagnostics.len() - MAX_DIAGNOSTICS;
        lines.push(format!("({more} more; `reqlore check` lists all.)"));
    }
    lines.join("\n")
}

fn errors_message(diagnostics: &[Diagnostic]) -> String {
    format!("{}\nFix the file; {RELOAD_HINT}.", first_diagnostics(diagnostics))
}

/// The error for a docset with errors.
fn invalid_config(errors: &[Diagnostic]) -> Error {
    unusable_config(&errors_message(errors))
}

fn unusable_config(message: &str) -> Error {
    Error::new(ErrorKind::Unreadable, message).reference(CONFIG_PATH)
}

/// The error for a project without a configuration. Remote callers do not see its folder's path.
fn not_configured(folder: &str, caller: &Caller) -> Error {
    // A path of the server's machine is of no use to a remote caller.
    let (folders, file) = match caller.scope {
        ProjectScope::Anywhere => {
            (format!("{folder} or a folder above it"), format!("{folder}/{CONFIG_PATH}"))
        }
        ProjectScope::Configured | ProjectScope::Only(_) => {
            ("the project's folder".to_owned(), format!("{CONFIG_PATH} there"))
        }
    };
    let message = format!(
        "No docsets are configured: there is no {CONFIG_PATH} in {folders}.\nCreate {file}, for \
         example with `docsets: {{react: {{version: \"18.2\"}}}}`, and copy the documentation to \
         .knowledge/docs/react-18.2/; the next call reads it."
    );
    Error::new(ErrorKind::NotFound, message).reference(CONFIG_PATH)
}
