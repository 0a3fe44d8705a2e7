//! Port from the project that a call names to its key.

use async_trait::async_trait;

use crate::bounded_types::named_enum;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Caller, ProjectScope};
use crate::project_key::ProjectKey;

/// Finds the project of a call. All refusals of roots are behind this port.
#[async_trait]
pub trait ProjectResolver: Send + Sync {
    /// The project of a call. `named` is the tool's argument; `None` is the server's root.
    ///
    /// If documents of the toolset may lie above the named folder (`.ixchel`,
    /// `.knowledge/config.yaml`), the nearest folder upwards that has them is the project, else the
    /// named folder. An `InvalidArgument` error describes a valid root. Nothing is created.
    ///
    /// A caller with a limited [`ProjectScope`] names a configured project by its key or its exact
    /// folder, and no folder above it is read. Without a name it is the caller's own project.
    /// Missing projects and those out of scope give the same `NotFound`, with the keys in scope.
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        slice: Toolset,
    ) -> Result<ProjectKey>;

    /// The keys of all configured projects, `default` first.
    fn keys(&self) -> Vec<ProjectKey>;

    /// The project's folder, absolute, with forward slashes, without one at the end.
    async fn folder(&self, project: &ProjectKey) -> Result<String>;

    /// True if this absolute path is a folder.
    async fn has_folder(&self, path: &str) -> bool;
}

/// The error for a project that is missing or out of scope.
pub fn no_project(reach: &ProjectScope, keys: &[ProjectKey], argument: &str, named: &str) -> Error {
    let within = keys.iter().filter(|key| reach.includes(key));
    let within: Vec<&str> = within.map(ProjectKey::as_str).collect();
    let named: String = named.chars().take(100).collect();
    let message = format!(
        "{argument}: there is no project {named:?} for you; the projects that you can use are: {}.",
        within.join(", ")
    );
    Error::new(ErrorKind::NotFound, message).field(argument)
}

named_enum! {
    /// A group of tools with documents of its own, named as in settings.
    Toolset {
        Sections = "sections",
        Backlog = "backlog",
        Docsets = "docsets",
        Knowledge = "knowledge",
    }
}

impl Toolset {
    /// The argument that names a project.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Sections => "project_root",
            Self::Backlog | Self::Docsets => "root",
            Self::Knowledge => "repo",
        }
    }
}
