//! Resolves `project_root` to a project: any existing absolute directory, except folders of the
//! system and home folders. If roots are configured, only directories in them.
//!
//! A remote caller can only choose a configured project.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::image_file::ImageFile;
use reqlore_domain::ports::project_resolver::{
    DocumentsFolder, ProjectResolver, Toolset, list_projects, project_not_found,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::unreplaced_variable::check_replaced;
use reqlore_git_runner::WorkTree;

use crate::config::Config;
use crate::folder_names::{DOCSETS_FILE, DOCSETS_FOLDER, KNOWLEDGE_FOLDER};
use crate::images::read_image;
use crate::root_search::{RootSearch, WORLD_WRITABLE, owner_uid, refusal};
use crate::system::is_read_forbidden;
use crate::system_folders::is_system_folder;

/// Resolves `project_root`. If the documents are in a database, only to a configured project; a
/// path in a project's folder is enough for the knowledge graph.
#[derive(Debug, Clone)]
pub struct FsProjects {
    /// True if the documents are files.
    has_files: bool,
    root: PathBuf,
    folders: ProjectFolders,
    roots: Vec<PathBuf>,
    search: RootSearch,
}

impl FsProjects {
    /// Creates a resolver for documents in files. Canonicalizes the configured paths.
    pub fn new(config: &Config) -> Self {
        Self {
            has_files: true,
            root: canonical_or_given(&config.root),
            folders: ProjectFolders::new(config),
            roots: config.roots.iter().map(|root| canonical_or_given(root)).collect(),
            search: RootSearch {
                home: config.home.as_deref().map(canonical_or_given),
                temporary: None,
                requirements_directory: config.requirements_directory.clone(),
            },
        }
    }

    /// Creates a resolver for documents in a database. `config.documents` must be the default
    /// project's root.
    pub fn of_database(config: &Config) -> Self {
        Self { has_files: false, ..Self::new(config) }
    }

    /// Returns the nearest folder with documents of the toolset: the given one or, if `is_local`,
    /// an ancestor. Those at the system's root, and those at or above a folder of another user or
    /// that everyone may write to, are unusable. Only docsets are found in the home folder. If
    /// roots are configured, the search stays in them.
    fn find_folder(&self, start: &ProjectKey, toolset: Toolset, is_local: bool) -> DocumentsFolder {
        let folder = self.folders.path(start);
        let owner = owner_uid(folder);
        let mut reason = None;
        for ancestor in folder.ancestors() {
            let is_above = ancestor != folder;
            if is_above && (!is_local || !self.is_in_roots(ancestor)) {
                break;
            }
            if is_above {
                let home = self.search.home.as_deref().filter(|_| toolset != Toolset::Docsets);
                reason = reason.or_else(|| refusal(ancestor, owner, home, WORLD_WRITABLE));
            }
            // The documents of the server's own root may be in another folder.
            let own = if ancestor == self.root { self.folders.default_path() } else { ancestor };
            let Some((path, problem)) = inspect_documents(own, toolset) else { continue };
            let Some(problem) = problem.or_else(|| reason.clone()) else {
                let key = if is_above { self.key_of(ancestor) } else { None };
                return DocumentsFolder::Found(key.unwrap_or_else(|| start.clone()));
            };
            // A path of the server's machine is of no use to a remote caller.
            let shown = if is_local { &path } else { path.strip_prefix(own).unwrap_or(&path) };
            return DocumentsFolder::Unusable(format!("{} {problem}", shown.display()));
        }
        DocumentsFolder::Missing
    }

    /// Returns the project with the documents of the toolset.
    fn find_ancestor(&self, caller: &Caller, start: &ProjectKey, toolset: Toolset) -> ProjectKey {
        if let DocumentsFolder::Found(key) = self.find_folder(start, toolset, true) {
            return key;
        }
        // The first entity of a project must not begin a second graph in a subfolder.
        let mut ancestors = self.folders.path(start).ancestors();
        let configured = match toolset {
            Toolset::Knowledge if *start != caller.project => {
                ancestors.find_map(|ancestor| self.configured_key(ancestor))
            }
            _ => None,
        };
        configured.unwrap_or_else(|| start.clone())
    }

    fn is_in_roots(&self, folder: &Path) -> bool {
        self.roots.is_empty() || self.roots.iter().any(|root| folder.starts_with(root))
    }

    /// The key of a folder; `None` if its path is not UTF-8.
    fn key_of(&self, folder: &Path) -> Option<ProjectKey> {
        match self.configured_key(folder) {
            Some(key) => Some(key),
            None => folder.to_str().map(ProjectKey::new),
        }
    }

    /// Returns the project that is configured for exactly this folder.
    fn configured_key(&self, folder: &Path) -> Option<ProjectKey> {
        if folder == self.root {
            return Some(ProjectKey::default());
        }
        self.folders.keys_by_path.get(folder).cloned()
    }

    /// Resolves a configured project for a caller that can't choose a directory. A missing project
    /// and one outside the caller's scope give the same error, and the disk is not accessed.
    pub(crate) fn resolve_configured(
        &self,
        caller: &Caller,
        name: Option<&str>,
        toolset: Toolset,
    ) -> Result<ProjectKey> {
        let name = name.unwrap_or(caller.project.as_str());
        match self.folders.find_key(name) {
            Some(key) if caller.scope.includes(key) => Ok(key.clone()),
            _ => Err(project_not_found(
                &caller.scope,
                &self.folders.keys(),
                toolset.argument(),
                name,
            )),
        }
    }

    /// Resolves any folder that can be a project, for the local user.
    fn resolve_folder(&self, caller: &Caller, name: &str, toolset: Toolset) -> Result<ProjectKey> {
        let key = ProjectKey::new(name);
        if self.folders.has_key(&key) && !key.is_default() {
            return Ok(key);
        }
        let folder = self.canonical_folder(self.own_folder(&caller.project), name, toolset)?;
        let shown = truncate_echo(name);
        if is_system_folder(&folder) {
            let reason = format!("{shown:?} belongs to the system; name a project's folder");
            return Err(invalid_argument(toolset, &reason));
        }
        if self.search.home.as_ref() == Some(&folder) {
            let reason = format!("{shown:?} is a home folder; name a folder in it");
            return Err(invalid_argument(toolset, &reason));
        }
        // Configured projects need not be in one of the roots.
        if let Some(key) = self.configured_key(&folder) {
            return Ok(key);
        }
        if !self.is_in_roots(&folder) {
            let reason =
                format!("{shown:?} is outside the server's configured roots; name one inside");
            return Err(invalid_argument(toolset, &reason));
        }
        let Some(key) = folder.to_str() else {
            let reason =
                format!("{shown:?} resolves to a path that is not UTF-8; rename the folder");
            return Err(invalid_argument(toolset, &reason));
        };
        Ok(ProjectKey::new(key))
    }

    /// Returns the configured project of a folder. A project may be in the folder of another one;
    /// the innermost folder decides.
    fn innermost_project(
        &self,
        resolved: &ProjectKey,
        name: &str,
        toolset: Toolset,
    ) -> Result<ProjectKey> {
        let folder = self.folders.path(resolved);
        let innermost = self
            .folders
            .iter()
            .filter(|(_, path)| {
                *path == folder || (toolset == Toolset::Knowledge && folder.starts_with(path))
            })
            .max_by_key(|(_, path)| path.components().count());
        if let Some((key, _)) = innermost {
            return Ok(key.clone());
        }
        let shown = truncate_echo(name);
        let mut projects = Vec::new();
        for (key, folder) in self.folders.iter() {
            projects.push(format!("{key} ({})", folder.display()));
        }
        let reason = format!(
            "{shown:?} is not a project of this server; name the folder of {}, or configure it as \
             [projects.KEY] in reqlore.toml",
            list_projects(&projects)
        );
        Err(invalid_argument(toolset, &reason))
    }

    /// The folder that callers of a project name by `.`.
    fn own_folder<'a>(&'a self, project: &'a ProjectKey) -> &'a Path {
        if project.is_default() { &self.root } else { self.folders.path(project) }
    }

    /// Canonicalizes the path of an existing directory. `own` is the folder of the caller.
    fn canonical_folder(&self, own: &Path, name: &str, toolset: Toolset) -> Result<PathBuf> {
        check_replaced(name).map_err(|reason| invalid_argument(toolset, &reason))?;
        let shown = truncate_echo(name);
        // Answers print the server's own root as `default`, so callers pass it back.
        let is_own_root = matches!(name, "default" | ".");
        let mut path = if is_own_root { own.to_owned() } else { PathBuf::from(name) };
        // Clients of Ixchel may name a repository relative to the folder that the server runs in.
        if toolset == Toolset::Knowledge && !name.starts_with('~') {
            // Joining an absolute path gives that path itself.
            path = own.join(path);
        }
        if !is_absolute_without_parents(&path) {
            let reason = format!(
                "{shown:?} must be an absolute path without \"..\", such as \"/home/me/app\""
            );
            return Err(invalid_argument(toolset, &reason));
        }
        // The server's own root was canonicalized at start; opening it rejects a link made since.
        if path == self.root && path.is_dir() {
            return Ok(path);
        }
        let mut folder = dunce::canonicalize(&path).map_err(|error| {
            let problem = match error.kind() {
                io::ErrorKind::NotFound => "there is no such directory; create it first",
                io::ErrorKind::PermissionDenied => {
                    "permission denied on the path; give this user the right"
                }
                _ => "it can't be opened; name another directory",
            };
            invalid_argument(toolset, &format!("{shown:?}: {problem}")).caused_by(error)
        })?;
        // Any path in a repository may name it.
        if toolset == Toolset::Knowledge
            && folder.is_file()
            && let Some(parent) = folder.parent()
        {
            folder = parent.to_owned();
        }
        if !folder.is_dir() {
            let reason = format!("{shown:?} is not a directory; name the project's folder");
            return Err(invalid_argument(toolset, &reason));
        }
        Ok(folder)
    }
}

#[async_trait]
impl ProjectResolver for FsProjects {
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        name: Option<&'a str>,
        toolset: Toolset,
    ) -> Result<ProjectKey> {
        if caller.scope != ProjectScope::Anywhere {
            return self.resolve_configured(caller, name, toolset);
        }
        let start = match name {
            Some(name) => self.resolve_folder(caller, name, toolset)?,
            None => caller.project.clone(),
        };
        match name {
            _ if self.has_files => Ok(self.find_ancestor(caller, &start, toolset)),
            Some(name) => self.innermost_project(&start, name, toolset),
            None => Ok(start),
        }
    }

    fn find_documents(
        &self,
        caller: &Caller,
        project: &ProjectKey,
        toolset: Toolset,
    ) -> DocumentsFolder {
        self.find_folder(project, toolset, caller.scope == ProjectScope::Anywhere)
    }

    fn keys(&self) -> Vec<ProjectKey> {
        self.folders.keys()
    }

    fn is_configured(&self, project: &ProjectKey) -> bool {
        self.folders.has_key(project)
    }

    async fn folder(&self, project: &ProjectKey) -> Result<String> {
        Ok(self.folders.path(project).to_string_lossy().trim_end_matches('/').to_owned())
    }

    fn branch(&self, project: &ProjectKey) -> Option<String> {
        WorkTree::around(self.folders.path(project), self.search.home.as_deref())?.branch()
    }

    fn choose_announced(&self, caller: &Caller, folders: &[String]) -> Result<ProjectKey> {
        if !self.has_files {
            return Ok(ProjectKey::default());
        }
        let (mut chosen, mut other, mut is_neutral) = (None, None, false);
        for folder in folders {
            let Ok(folder) = dunce::canonicalize(folder) else { continue };
            match self.search.fit(&folder, &self.root) {
                Ok(Some(root)) if root == self.root => return Ok(ProjectKey::default()),
                Ok(Some(root)) => {
                    match self.resolve_folder(caller, &root.to_string_lossy(), Toolset::Backlog) {
                        Ok(key) => chosen = chosen.or(Some(key)),
                        // For example outside of the configured roots.
                        Err(_) => other = other.or(Some(root)),
                    }
                }
                Ok(None) => is_neutral = true,
                Err(root) => other = other.or(Some(root)),
            }
        }
        match other {
            Some(other) if chosen.is_none() && !is_neutral => {
                let (other, own) = (other.display(), self.root.display());
                let message = format!(
                    "The client works in {other}, but this server's project is {own}. Nothing was \
                     changed. Start the server with --root and the project's folder."
                );
                Err(Error::new(ErrorKind::Refused, message))
            }
            _ => Ok(chosen.unwrap_or_default()),
        }
    }

    fn has_images(&self) -> bool {
        self.has_files
    }

    async fn read_image(&self, project: &ProjectKey, path: &str) -> Result<Option<ImageFile>> {
        if !self.has_files {
            return Ok(None);
        }
        let (folder, path) = (self.folders.path(project).to_owned(), path.to_owned());
        let reading = tokio::task::spawn_blocking(move || read_image(&folder, &path)).await;
        reading.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
    }

    async fn has_folder(&self, path: &str) -> bool {
        Path::new(path).is_dir()
    }
}

/// Returns the path of a toolset's documents in a folder, and why they cannot be read; `None` if
/// there are none.
fn inspect_documents(folder: &Path, toolset: Toolset) -> Option<(PathBuf, Option<String>)> {
    let (area, file) = match toolset {
        // These are only searched in the named folder.
        Toolset::Sections | Toolset::Backlog => return Some((folder.to_owned(), None)),
        Toolset::Docsets => (folder.join(DOCSETS_FOLDER), Some(DOCSETS_FILE)),
        Toolset::Knowledge => (folder.join(KNOWLEDGE_FOLDER), None),
    };
    match area.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Ok(_) if !area.is_dir() => {
            return Some((area, Some("is not a folder; remove or rename it".to_owned())));
        }
        _ => {}
    }
    let path = file.map_or_else(|| area.clone(), |file| area.join(file));
    let is_forbidden = match path.symlink_metadata() {
        Ok(_) => is_read_forbidden(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => true,
    };
    let problem = "cannot be read: permission denied; give this user the right".to_owned();
    // Any other error shows when it is read.
    Some((path, is_forbidden.then_some(problem)))
}

fn is_absolute_without_parents(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| part != Component::ParentDir)
}

fn invalid_argument(toolset: Toolset, reason: &str) -> Error {
    let argument = toolset.argument();
    Error::new(ErrorKind::InvalidArgument, format!("{argument}: {reason}")).field(argument)
}

/// The folders of the configured projects.
#[derive(Debug, Clone)]
pub(crate) struct ProjectFolders {
    /// Canonical folders of documents; includes the default project.
    paths: BTreeMap<ProjectKey, PathBuf>,
    /// Project keys by folder. A linear search would take each call a millisecond.
    keys_by_path: HashMap<PathBuf, ProjectKey>,
    /// The keys by the folders as they were configured, and canonicalized.
    keys_by_spelling: HashMap<PathBuf, ProjectKey>,
}

impl ProjectFolders {
    pub(crate) fn new(config: &Config) -> Self {
        let mut paths = config.projects.clone();
        paths.insert(ProjectKey::default(), config.documents.clone());
        let mut configured: Vec<_> = paths.clone().into_iter().collect();
        // Callers name the default project by its root, even if its documents are elsewhere.
        configured.push((ProjectKey::default(), config.root.clone()));
        let mut keys_by_spelling = HashMap::with_capacity(2 * configured.len());
        for (key, folder) in configured {
            let canonical = canonical_or_given(&folder);
            keys_by_spelling.insert(folder, key.clone());
            keys_by_spelling.insert(canonical, key);
        }
        let mut keys_by_path = HashMap::with_capacity(paths.len());
        for (key, folder) in &mut paths {
            *folder = canonical_or_given(folder);
            // Of two projects in one folder the first one answers.
            keys_by_path.entry(folder.clone()).or_insert_with(|| key.clone());
        }
        Self { paths, keys_by_path, keys_by_spelling }
    }

    pub(crate) fn path<'a>(&'a self, project: &'a ProjectKey) -> &'a Path {
        // A project that is not configured has its path as its key.
        self.paths.get(project).map_or_else(|| Path::new(project.as_str()), PathBuf::as_path)
    }

    /// The default project's folder of documents.
    pub(crate) fn default_path(&self) -> &Path {
        self.paths.get(&ProjectKey::default()).map_or(Path::new("."), PathBuf::as_path)
    }

    /// Returns the project with this key or folder. Only the text is compared: the result must not
    /// depend on which files exist, because a remote caller sees it.
    pub(crate) fn find_key(&self, name: &str) -> Option<&ProjectKey> {
        if let Some((key, _)) = self.paths.get_key_value(&ProjectKey::new(name)) {
            return Some(key);
        }
        let path = Path::new(name);
        if !is_absolute_without_parents(path) {
            return None;
        }
        self.keys_by_spelling.get(path)
    }

    /// Returns the configured projects, sorted by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ProjectKey, &Path)> {
        self.paths.iter().map(|(key, folder)| (key, folder.as_path()))
    }

    /// Returns the keys, the default project's first.
    pub(crate) fn keys(&self) -> Vec<ProjectKey> {
        let mut keys = vec![ProjectKey::default()];
        keys.extend(self.paths.keys().filter(|key| !key.is_default()).cloned());
        keys
    }

    pub(crate) fn has_key(&self, project: &ProjectKey) -> bool {
        self.paths.contains_key(project)
    }
}

pub(crate) fn canonical_or_given(path: &Path) -> PathBuf {
    dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
