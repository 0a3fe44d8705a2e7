//! The driven port from what a call names to a project.

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Caller, ProjectScope};
use crate::project::ProjectKey;

/// Finds the project of a call. Refusals of roots live behind this port and nowhere else.
#[async_trait]
pub trait ProjectResolver: Send + Sync {
    /// The project that a call means: `default` for the server's own root.
    ///
    /// `named` is what the caller gave (S1 `project_root`, S4 `repo`); nothing means the server's
    /// root. Where documents of the slice may lie above the named folder (`.ixchel`,
    /// `.knowledge/config.yaml`), the nearest folder upwards that has them is the project; where
    /// none has, the named folder itself.
    ///
    /// An `InvalidArgument` error says what a usable root looks like; nothing is created.
    ///
    /// A caller who does not reach everywhere names a project that is configured, by its key or its
    /// very folder, and means the caller's own project when naming none; what is out of reach
    /// and what is not there is one and the same `NotFound`, which tells the keys within reach.
    /// Nothing above a project's folder is looked at for such a caller.
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        slice: Toolset,
    ) -> Result<ProjectKey>;

    /// The keys of all projects that are configured, `default` first.
    fn keys(&self) -> Vec<ProjectKey>;

    /// The project's folder, absolute, with forward slashes and without one at the end.
    async fn folder(&self, project: &ProjectKey) -> Result<String>;

    /// Is there a folder at this absolute path?
    async fn has_folder(&self, path: &str) -> bool;
}

/// What a caller is told who names a project that is not there, or is another's (rulings 1).
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

/// A part of the product with tools and documents of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    /// Requirement sections (S1).
    Sections,
    /// The backlog: epics, user stories, requirements and their criteria (S2, S5).
    Backlog,
    /// Docsets (S3).
    Docsets,
    /// The knowledge graph (S4).
    Knowledge,
}

impl Toolset {
    pub const ALL: [Self; 4] = [Self::Sections, Self::Backlog, Self::Docsets, Self::Knowledge];

    /// As settings call the slice's set of tools.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sections => "sections",
            Self::Backlog => "backlog",
            Self::Docsets => "docsets",
            Self::Knowledge => "knowledge",
        }
    }

    /// The argument by which the slice's tools name a project.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Sections => "project_root",
            Self::Backlog | Self::Docsets => "root",
            Self::Knowledge => "repo",
        }
    }
}
