//! Which folder holds which project: the server's root, those that are configured by a key, and
//! any other, whose key is its path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqlore_domain::project::ProjectKey;

use crate::Config;

#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// The default project's among them.
    keyed: BTreeMap<ProjectKey, PathBuf>,
}

impl Folders {
    /// Resolves the configured places once, so that comparing is by resolved path.
    pub(crate) fn new(config: &Config) -> Self {
        let mut keyed = config.projects.clone();
        keyed.insert(ProjectKey::default(), config.documents.clone());
        for folder in keyed.values_mut() {
            *folder = resolved(folder);
        }
        Self { keyed }
    }

    pub(crate) fn path<'a>(&'a self, project: &'a ProjectKey) -> &'a Path {
        self.keyed.get(project).map_or_else(|| Path::new(project.as_str()), PathBuf::as_path)
    }

    /// The default project's folder.
    pub(crate) fn base(&self) -> &Path {
        self.keyed.get(&ProjectKey::default()).map_or(Path::new("."), PathBuf::as_path)
    }

    /// The project that is configured for this very folder.
    pub(crate) fn project_at(&self, folder: &Path) -> Option<ProjectKey> {
        let found = self.keyed.iter().find(|(_, known)| *known == folder);
        found.map(|(key, _)| key.clone())
    }

    /// All that have a key of their own, sorted by it.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = (&ProjectKey, &Path)> {
        self.keyed.iter().map(|(key, folder)| (key, folder.as_path()))
    }

    pub(crate) fn has(&self, project: &ProjectKey) -> bool {
        self.keyed.contains_key(project)
    }
}

pub(crate) fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
