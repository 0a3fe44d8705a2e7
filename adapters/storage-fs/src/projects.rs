//! Which directories can be projects (rulings 1): any existing one with an absolute path, unless
//! roots are configured, and never the file system's root, its special folders or a home folder.

use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::projects::{Projects, Slice};
use reqlore_domain::project::ProjectKey;

use crate::Config;

const SPECIAL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Resolves `project_root` on the file system.
#[derive(Debug, Clone)]
pub struct FsProjects {
    root: PathBuf,
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl FsProjects {
    /// Resolves the configured places once, so that comparing is by resolved path.
    pub fn new(config: &Config) -> Self {
        let resolved = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            root: resolved(&config.root),
            roots: config.roots.iter().map(resolved).collect(),
            home: config.home.as_ref().map(resolved),
        }
    }

    fn check(&self, named: &str) -> Result<ProjectKey> {
        let path = Path::new(named);
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err(unusable(format!(
                "{named:?} must be an absolute path without \"..\", such as \"/home/me/project\""
            )));
        }
        let resolved = path.canonicalize().map_err(|error| {
            let reason = match error.kind() {
                std::io::ErrorKind::NotFound => "there is no such directory; create it first",
                std::io::ErrorKind::PermissionDenied => "permission denied on the way to it",
                _ => "it can't be opened",
            };
            unusable(format!("{named:?}: {reason}")).caused_by(error)
        })?;
        if !resolved.is_dir() {
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
        if resolved == self.root {
            return Ok(ProjectKey::default());
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
impl Projects for FsProjects {
    async fn resolve<'a>(&self, named: Option<&'a str>, slice: Slice) -> Result<ProjectKey> {
        let _ = slice;
        named.map_or_else(|| Ok(ProjectKey::default()), |named| self.check(named))
    }

    async fn folder(&self, project: &ProjectKey) -> Result<String> {
        let root = self.root.to_string_lossy();
        Ok(if project.is_default() { root.into_owned() } else { project.as_str().to_owned() })
    }

    async fn has_folder(&self, path: &str) -> bool {
        Path::new(path).is_dir()
    }
}

fn unusable(reason: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("project_root: {reason}")).field("project_root")
}
