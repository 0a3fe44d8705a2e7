//! The driven port from what a call names to a project.

use async_trait::async_trait;

use crate::error::Result;
use crate::project::ProjectKey;

/// Finds the project of a call. Refusals of roots live behind this port and nowhere else.
#[async_trait]
pub trait Projects: Send + Sync {
    /// The project that a call means: `default` for the server's own root.
    ///
    /// `named` is what the caller gave (S1 `project_root`, S4 `repo`); nothing means the server's
    /// root. Where documents of the slice may lie above the named folder (`.ixchel`,
    /// `.knowledge/config.yaml`), the nearest folder upwards that has them is the project; where
    /// none has, the named folder itself.
    ///
    /// An `InvalidArgument` error says what a usable root looks like; nothing is created.
    async fn resolve<'a>(&self, named: Option<&'a str>, slice: Slice) -> Result<ProjectKey>;

    /// The project's folder, absolute, with forward slashes and without one at the end.
    async fn folder(&self, project: &ProjectKey) -> Result<String>;

    /// Is there a folder at this absolute path?
    async fn has_folder(&self, path: &str) -> bool;
}

/// A part of the product with tools and documents of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// Requirement sections (S1).
    Sections,
    /// The backlog: epics, user stories, requirements and their criteria (S2, S5).
    Backlog,
    /// Docsets (S3).
    Docsets,
    /// The knowledge graph (S4).
    Knowledge,
}

impl Slice {
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
