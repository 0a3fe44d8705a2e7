//! Projects without folders.

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::project_resolver::{
    DocumentsFolder, ProjectResolver, Toolset, project_not_found,
};
use reqlore_domain::project_key::ProjectKey;

/// Folder of the default project. It does not exist.
const DEFAULT_ROOT: &str = "/project";

/// Project resolver that uses absolute paths as keys. Callers with a limited project scope may use
/// only the projects in this list.
#[derive(Debug, Default)]
pub struct NamedProjects(pub Vec<ProjectKey>);

#[async_trait]
impl ProjectResolver for NamedProjects {
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        toolset: Toolset,
    ) -> Result<ProjectKey> {
        if caller.scope != ProjectScope::Anywhere {
            let mut project = match named {
                Some(name) => ProjectKey::new(name),
                None => caller.project.clone(),
            };
            if project.as_str() == DEFAULT_ROOT {
                project = ProjectKey::default();
            }
            let (keys, argument) = (self.keys(), toolset.argument());
            return if self.is_configured(&project) && caller.scope.includes(&project) {
                Ok(project)
            } else {
                Err(project_not_found(&caller.scope, &keys, argument, project.as_str()))
            };
        }
        match named {
            None | Some(DEFAULT_ROOT | "default" | ".") => Ok(ProjectKey::default()),
            Some(root) if root.starts_with('/') => Ok(ProjectKey::new(root)),
            Some(root) => {
                let argument = toolset.argument();
                let message = format!(
                    "{argument}: {root:?} must be an absolute path without \"..\", such as \
                     \"/home/me/app\""
                );
                Err(Error::new(ErrorKind::InvalidArgument, message).field(argument))
            }
        }
    }

    fn find_documents(
        &self,
        _: &Caller,
        project: &ProjectKey,
        toolset: Toolset,
    ) -> DocumentsFolder {
        match toolset {
            Toolset::Knowledge => DocumentsFolder::Missing,
            _ => DocumentsFolder::Found(project.clone()),
        }
    }

    fn keys(&self) -> Vec<ProjectKey> {
        let mut keys = vec![ProjectKey::default()];
        keys.extend_from_slice(&self.0);
        keys
    }

    fn is_configured(&self, project: &ProjectKey) -> bool {
        project.is_default() || self.0.contains(project)
    }

    async fn folder(&self, project: &ProjectKey) -> Result<String> {
        Ok(if project.is_default() { DEFAULT_ROOT } else { project.as_str() }.to_owned())
    }

    async fn has_folder(&self, _: &str) -> bool {
        false
    }
}
