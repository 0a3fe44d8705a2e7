//! The projects of a storage that is no folder: only those that somebody configured (rulings 1).

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset};
use reqlore_domain::project::ProjectKey;

use crate::{Config, FsProjects};

/// The server's root and the projects that have a key, whose documents are kept elsewhere. A folder
/// is judged as one on files is; then it must be a project's, or for the knowledge graph lie in it.
#[derive(Debug, Clone)]
pub struct ConfiguredProjects {
    files: FsProjects,
}

impl ConfiguredProjects {
    /// The documents of these projects are not in `config.documents`, which is the root here.
    pub fn new(config: &Config) -> Self {
        Self { files: FsProjects::new(config) }
    }

    fn not_configured(&self, named: &str, slice: Toolset) -> Error {
        let argument = slice.argument();
        let projects =
            self.files.keyed().map(|(key, folder)| format!("{key} ({})", folder.display()));
        let projects: Vec<String> = projects.collect();
        let message = format!(
            "{argument}: {named:?} is no project of this server. Its database keeps {}; name one \
             of these folders, or configure the project as [projects.KEY] in reqlore.toml",
            projects.join(", ")
        );
        Error::new(ErrorKind::InvalidArgument, message).field(argument)
    }
}

#[async_trait]
impl ProjectResolver for ConfiguredProjects {
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        slice: Toolset,
    ) -> Result<ProjectKey> {
        if caller.reach != ProjectScope::Anywhere {
            return self.files.chosen(caller, named, slice);
        }
        let Some(named) = named else { return Ok(caller.project.clone()) };
        let found = self.files.check(named, slice)?;
        let folder = self.files.path(&found);
        let within = self.files.keyed().filter(|(_, project)| {
            *project == folder || (slice == Toolset::Knowledge && folder.starts_with(project))
        });
        // The innermost, where one project lies in another.
        let nearest = within.max_by_key(|(_, project)| project.components().count());
        nearest.map(|(key, _)| key.clone()).ok_or_else(|| self.not_configured(named, slice))
    }

    fn keys(&self) -> Vec<ProjectKey> {
        self.files.keys()
    }

    async fn folder(&self, project: &ProjectKey) -> Result<String> {
        self.files.folder(project).await
    }

    async fn has_folder(&self, path: &str) -> bool {
        self.files.has_folder(path).await
    }
}
