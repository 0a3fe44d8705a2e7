//! Which folder holds which project: the server's root, those that are configured by a key, and
//! any other, whose key is its path.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use reqlore_domain::project::ProjectKey;

use crate::Config;

#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// The default project's among them.
    keyed: BTreeMap<ProjectKey, PathBuf>,
    /// What callers may call them: as they were configured, and resolved.
    spelled: Vec<(PathBuf, ProjectKey)>,
}

impl Folders {
    /// Resolves the configured places once, so that comparing is by resolved path.
    pub(crate) fn new(config: &Config) -> Self {
        let mut keyed = config.projects.clone();
        keyed.insert(ProjectKey::default(), config.documents.clone());
        let root = (ProjectKey::default(), config.root.clone());
        let all = keyed.clone().into_iter().chain([root]);
        let both = |(key, folder): (ProjectKey, PathBuf)| {
            let resolved = resolved(&folder);
            [(folder, key.clone()), (resolved, key)]
        };
        let spelled = all.flat_map(both).collect();
        for folder in keyed.values_mut() {
            *folder = resolved(folder);
        }
        Self { keyed, spelled }
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

    /// The project that this names: its key, its folder, or, where `is_inside` is wanted, a path in
    /// it, of projects in each other the innermost. The words alone are compared: nothing on disk
    /// is looked at, so nobody learns here what else there is.
    pub(crate) fn named(&self, named: &str, is_inside: bool) -> Option<&ProjectKey> {
        if let Some((key, _)) = self.keyed.get_key_value(&ProjectKey::new(named)) {
            return Some(key);
        }
        let path = Path::new(named);
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let fits = |folder: &Path| folder == path || (is_inside && path.starts_with(folder));
        let found = self.spelled.iter().filter(|(folder, _)| fits(folder));
        found.max_by_key(|(folder, _)| folder.components().count()).map(|(_, key)| key)
    }

    /// All that have a key of their own, sorted by it.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = (&ProjectKey, &Path)> {
        self.keyed.iter().map(|(key, folder)| (key, folder.as_path()))
    }

    /// The keys, the default project's first.
    pub(crate) fn keys(&self) -> Vec<ProjectKey> {
        let further = self.keyed.keys().filter(|key| !key.is_default()).cloned();
        std::iter::once(ProjectKey::default()).chain(further).collect()
    }

    pub(crate) fn has(&self, project: &ProjectKey) -> bool {
        self.keyed.contains_key(project)
    }
}

pub(crate) fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
