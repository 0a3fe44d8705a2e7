//! Port that maps the project argument of a call to a project key.

use async_trait::async_trait;

use crate::bounded_types::{named_enum, truncate_echo};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Caller, ProjectScope};
use crate::image_file::ImageFile;
#[cfg(doc)]
use crate::image_file::is_image_path;
use crate::project_key::ProjectKey;

/// The folder of this machine that has the documents of a toolset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentsFolder {
    /// The key of the project's folder, or of the nearest one above it.
    Found(ProjectKey),
    /// The nearest documents may not be used. Names their path, the reason and the next step.
    Unusable(String),
    Missing,
}

/// Resolves and validates projects. No other code accepts or rejects a project folder.
#[async_trait]
pub trait ProjectResolver: Send + Sync {
    /// Returns the project of a call. `named` is the tool's argument; `None` means the server's
    /// root. Nothing is created.
    ///
    /// Without a limit of scope, `named` is a folder. If the toolset's documents may be in a folder
    /// above it (`.ixchel`, `.knowledge/config.yaml`), the project is the nearest such folder. An
    /// `InvalidArgument` error describes a valid folder.
    ///
    /// A caller with a limited [`ProjectScope`] names a configured project by its key or exact
    /// folder. `None` means the caller's own project. A project that is missing or out of scope is
    /// `NotFound`; the message lists the keys in scope and does not reveal which of the two.
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        slice: Toolset,
    ) -> Result<ProjectKey>;

    /// Searches the project's folder and, without a limit of scope, the folders above it for
    /// documents of a toolset, also if the documents themselves are in a database.
    fn find_documents(
        &self,
        caller: &Caller,
        project: &ProjectKey,
        toolset: Toolset,
    ) -> DocumentsFolder;

    /// The keys of all configured projects, `default` first.
    fn keys(&self) -> Vec<ProjectKey>;

    /// True for each of [`Self::keys`]. Called by every request, so it must not search them.
    fn is_configured(&self, project: &ProjectKey) -> bool;

    /// The absolute path of a project's folder, with forward slashes and without a trailing one.
    async fn folder(&self, project: &ProjectKey) -> Result<String>;

    /// The branch that is checked out in a project's folder; `None` outside of Git.
    fn branch(&self, _: &ProjectKey) -> Option<String> {
        None
    }

    /// Chooses the project of a connection whose client announces the absolute paths of its
    /// folders: the server's own, the same one in another work tree of the clone, or one inside of
    /// them. Paths that do not exist are ignored.
    ///
    /// A `Refused` error forbids writes: the folders belong to other projects only.
    fn choose_announced(&self, _: &Caller, _: &[String]) -> Result<ProjectKey> {
        Ok(ProjectKey::default())
    }

    /// True if the folders of projects have images that [`Self::read_image`] returns.
    fn has_images(&self) -> bool {
        false
    }

    /// Returns the image at a path below a project's folder. `None` if there is none, if it is
    /// reached by a link or too large, or if [`is_image_path`] rejects its path.
    async fn read_image(&self, _: &ProjectKey, _: &str) -> Result<Option<ImageFile>> {
        Ok(None)
    }

    /// True if this absolute path is a folder.
    async fn has_folder(&self, path: &str) -> bool;
}

/// The error for a project that is missing or out of scope.
pub fn project_not_found(
    scope: &ProjectScope,
    keys: &[ProjectKey],
    argument: &str,
    named: &str,
) -> Error {
    let in_scope: Vec<_> = keys.iter().filter(|key| scope.includes(key)).collect();
    // The name is untrusted and may be long.
    let named = truncate_echo(named);
    let message = format!(
        "{argument}: there is no project {named:?} for you; the projects that you can use are: {}.",
        list_projects(&in_scope)
    );
    Error::new(ErrorKind::NotFound, message).field(argument)
}

/// Lists the first projects and the number of further ones.
pub fn list_projects(projects: &[impl std::fmt::Display]) -> String {
    const MAX_LISTED: usize = 20;
    let listed = &projects[..projects.len().min(MAX_LISTED)];
    let mut names: Vec<String> = listed.iter().map(ToString::to_string).collect();
    if projects.len() > MAX_LISTED {
        names.push(format!("and {} more", projects.len() - MAX_LISTED));
    }
    names.join(", ")
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
    /// The word in settings that lists only the core tools of [`Self::CORE`].
    pub const CORE_NAME: &str = "core";
    pub const CORE: [Self; 3] = [Self::Sections, Self::Backlog, Self::Knowledge];

    /// The argument that names a project.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Sections => "project_root",
            Self::Backlog | Self::Docsets => "root",
            Self::Knowledge => "repo",
        }
    }
}
