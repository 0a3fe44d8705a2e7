//! Directories that can be projects: any existing absolute path, unless roots are configured, but
//! never the file system's root, its special folders or a home folder.
//!
//! A remote caller can't choose a directory, only a configured project.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset, no_project};
use reqlore_domain::project_key::ProjectKey;

use crate::Config;
use crate::layout::{DOCSETS_CONFIG, KNOWLEDGE};

const SPECIAL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Resolves `project_root` on the file system.
#[derive(Debug, Clone)]
pub struct FsProjects {
    root: PathBuf,
    folders: ProjectFolders,
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl FsProjects {
    /// Resolves the configured places once, so that comparing is by resolved path.
    pub fn new(config: &Config) -> Self {
        Self {
            root: canonical_or_given(&config.root),
            folders: ProjectFolders::new(config),
            roots: config.roots.iter().map(|root| canonical_or_given(root)).collect(),
            home: config.home.as_deref().map(canonical_or_given),
        }
    }

    /// The folder that holds documents of the slice: the one given or the nearest above it. The
    /// walk ends below the home folder and the system's root, at folders of other users and those
    /// that everybody may write to, and where roots are configured it stays inside them.
    fn find_ancestor(&self, start: &ProjectKey, slice: Toolset) -> ProjectKey {
        let holds = |folder: &Path| match slice {
            // These are looked for in the named folder alone.
            Toolset::Sections | Toolset::Backlog => true,
            Toolset::Docsets => {
                folder.join(DOCSETS_CONFIG.0).join(DOCSETS_CONFIG.1).symlink_metadata().is_ok()
            }
            Toolset::Knowledge => folder.join(KNOWLEDGE).is_dir(),
        };
        let first = self.folders.path(start);
        let owner = LazyCell::new(|| owner_uid(first));
        let is_inside = |folder: &&Path| {
            let fenced = !self.roots.is_empty();
            *folder == first
                || (folder.parent().is_some()
                    && self.home.as_deref() != Some(*folder)
                    && is_private(folder, *owner)
                    && (!fenced || self.roots.iter().any(|root| folder.starts_with(root))))
        };
        // The documents of the server's own root may be kept elsewhere.
        let default = ProjectKey::default();
        let kept = |folder: &Path| {
            if folder == self.root { holds(self.folders.path(&default)) } else { holds(folder) }
        };
        let found = first.ancestors().take_while(is_inside).find(|folder| kept(folder));
        let key = |folder: &Path| match self.configured_key(folder) {
            Some(key) => key,
            None => folder.to_str().map_or_else(|| start.clone(), ProjectKey::new),
        };
        found.map_or_else(|| start.clone(), key)
    }

    /// The project that is configured for exactly this folder.
    fn configured_key(&self, folder: &Path) -> Option<ProjectKey> {
        if folder == self.root {
            return Some(ProjectKey::default());
        }
        let found = self.folders.iter().find(|(_, known)| *known == folder);
        found.map(|(key, _)| key.clone())
    }

    /// The project that a caller means who chooses no directory. What is not there and what is
    /// another's is one answer, and neither is looked for on disk.
    pub(crate) fn resolve_configured(
        &self,
        caller: &Caller,
        named: Option<&str>,
        slice: Toolset,
    ) -> Result<ProjectKey> {
        let named = named.unwrap_or(caller.project.as_str());
        // A repository may be named by any path in it (S4 AC-003.1).
        let found = self.folders.named(named, slice == Toolset::Knowledge);
        let found = found.filter(|key| caller.reach.includes(key));
        let (reach, argument) = (&caller.reach, slice.argument());
        found.cloned().ok_or_else(|| no_project(reach, &self.folders.keys(), argument, named))
    }

    /// The project of a folder that may be one, for the local person.
    pub(crate) fn resolve_folder(&self, named: &str, slice: Toolset) -> Result<ProjectKey> {
        let key = ProjectKey::new(named);
        if self.folders.has_key(&key) && !key.is_default() {
            return Ok(key);
        }
        let path = Path::new(named);
        let unusable = |reason: String| invalid_argument(slice.argument(), &reason);
        // A client of the original names a repository relative to where the server works (S4
        // AC-003).
        let relative = slice == Toolset::Knowledge && !named.starts_with('~');
        let joined = if relative { &self.root.join(path) } else { path };
        let path = joined;
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err(unusable(format!(
                "{named:?} must be an absolute path without \"..\", such as \"/home/me/app\""
            )));
        }
        // The server's own root was resolved at start; opening it rejects a link that came since.
        let is_root = path == self.root && path.is_dir();
        let resolved = if is_root { Ok(path.to_owned()) } else { path.canonicalize() };
        let resolved = resolved.map_err(|error| {
            let reason = match error.kind() {
                std::io::ErrorKind::NotFound => "there is no such directory; create it first",
                std::io::ErrorKind::PermissionDenied => "permission denied on the way to it",
                _ => "it can't be opened",
            };
            unusable(format!("{named:?}: {reason}")).caused_by(error)
        })?;
        // A repository may be named by any path in it (S4 AC-003.1).
        let resolved = match resolved.parent() {
            Some(folder) if slice == Toolset::Knowledge && !is_root && resolved.is_file() => {
                folder.to_owned()
            }
            _ => resolved,
        };
        if !is_root && !resolved.is_dir() {
            return Err(unusable(format!("{named:?} is no directory; name the project's folder")));
        }
        let is_special = SPECIAL.iter().any(|special| resolved.starts_with(special));
        if resolved.parent().is_none() || is_special {
            return Err(unusable(format!(
                "{named:?} belongs to the system; name a project's folder"
            )));
        }
        if self.home.as_ref().is_some_and(|home| *home == resolved) {
            return Err(unusable(format!("{named:?} is a home folder; name a folder in it")));
        }
        if let Some(key) = self.configured_key(&resolved) {
            return Ok(key);
        }
        if !self.roots.is_empty() && !self.roots.iter().any(|root| resolved.starts_with(root)) {
            return Err(unusable(format!(
                "{named:?} is outside of the roots that this server is configured for"
            )));
        }
        let key = resolved
            .to_str()
            .ok_or_else(|| unusable(format!("{named:?} resolves to a path that is not UTF-8")))?;
        Ok(ProjectKey::new(key))
    }
}

#[async_trait]
impl ProjectResolver for FsProjects {
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        slice: Toolset,
    ) -> Result<ProjectKey> {
        if caller.reach != ProjectScope::Anywhere {
            return self.resolve_configured(caller, named, slice);
        }
        let start = match named {
            Some(named) => self.resolve_folder(named, slice)?,
            None => caller.project.clone(),
        };
        Ok(self.find_ancestor(&start, slice))
    }

    fn keys(&self) -> Vec<ProjectKey> {
        self.folders.keys()
    }

    async fn folder(&self, project: &ProjectKey) -> Result<String> {
        Ok(self.folders.path(project).to_string_lossy().trim_end_matches('/').to_owned())
    }

    async fn has_folder(&self, path: &str) -> bool {
        Path::new(path).is_dir()
    }
}

fn owner_uid(folder: &Path) -> Option<u32> {
    folder.metadata().ok().map(|found| found.uid())
}

/// Does nobody else put files there? Another user's `.ixchel` above a project is not the project's.
fn is_private(folder: &Path, owner: Option<u32>) -> bool {
    const EVERYBODY_WRITES: u32 = 0o002;
    let found = folder.metadata().ok();
    found.is_some_and(|found| Some(found.uid()) == owner && found.mode() & EVERYBODY_WRITES == 0)
}

fn invalid_argument(argument: &str, reason: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{argument}: {reason}")).field(argument)
}

#[derive(Debug, Clone)]
pub(crate) struct ProjectFolders {
    /// The default project's among them.
    by_key: BTreeMap<ProjectKey, PathBuf>,
    /// What callers may call them: as they were configured, and resolved.
    by_spelling: Vec<(PathBuf, ProjectKey)>,
}

impl ProjectFolders {
    /// Resolves the configured places once, so that comparing is by resolved path.
    pub(crate) fn new(config: &Config) -> Self {
        let mut by_key = config.projects.clone();
        by_key.insert(ProjectKey::default(), config.documents.clone());
        let root = (ProjectKey::default(), config.root.clone());
        let all = by_key.clone().into_iter().chain([root]);
        let both = |(key, folder): (ProjectKey, PathBuf)| {
            let resolved = canonical_or_given(&folder);
            [(folder, key.clone()), (resolved, key)]
        };
        let by_spelling = all.flat_map(both).collect();
        for folder in by_key.values_mut() {
            *folder = canonical_or_given(folder);
        }
        Self { by_key, by_spelling }
    }

    pub(crate) fn path<'a>(&'a self, project: &'a ProjectKey) -> &'a Path {
        self.by_key.get(project).map_or_else(|| Path::new(project.as_str()), PathBuf::as_path)
    }

    /// The default project's folder.
    pub(crate) fn default_path(&self) -> &Path {
        self.by_key.get(&ProjectKey::default()).map_or(Path::new("."), PathBuf::as_path)
    }

    /// The project that this names: its key, its folder, or, where `is_inside` is wanted, a path in
    /// it, of projects in each other the innermost. The words alone are compared: nothing on disk
    /// is looked at, so nobody learns here what else there is.
    pub(crate) fn named(&self, named: &str, is_inside: bool) -> Option<&ProjectKey> {
        if let Some((key, _)) = self.by_key.get_key_value(&ProjectKey::new(named)) {
            return Some(key);
        }
        let path = Path::new(named);
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let fits = |folder: &Path| folder == path || (is_inside && path.starts_with(folder));
        let found = self.by_spelling.iter().filter(|(folder, _)| fits(folder));
        found.max_by_key(|(folder, _)| folder.components().count()).map(|(_, key)| key)
    }

    /// All that have a key of their own, sorted by it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ProjectKey, &Path)> {
        self.by_key.iter().map(|(key, folder)| (key, folder.as_path()))
    }

    /// The keys, the default project's first.
    pub(crate) fn keys(&self) -> Vec<ProjectKey> {
        let further = self.by_key.keys().filter(|key| !key.is_default()).cloned();
        std::iter::once(ProjectKey::default()).chain(further).collect()
    }

    pub(crate) fn has_key(&self, project: &ProjectKey) -> bool {
        self.by_key.contains_key(project)
    }
}

pub(crate) fn canonical_or_given(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

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
            self.files.folders.iter().map(|(key, folder)| format!("{key} ({})", folder.display()));
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
            return self.files.resolve_configured(caller, named, slice);
        }
        let Some(named) = named else { return Ok(caller.project.clone()) };
        let found = self.files.resolve_folder(named, slice)?;
        let folder = self.files.folders.path(&found);
        let within = self.files.folders.iter().filter(|(_, project)| {
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
