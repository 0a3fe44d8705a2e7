//! Programs by their names, as far as what they are called can be believed.
//!
//! The trap: a project may hold a `git` or a `reqlore` of its own, and a path may lead there by a
//! relative folder or by `direnv`. What lies in the project is never started, unless it is the very
//! program that the person started.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqlore_client_config::Surroundings;

use super::own;

/// Where programs are looked for.
#[derive(Debug)]
pub(super) struct Programs {
    folders: Vec<PathBuf>,
    project: Option<PathBuf>,
    /// This program, by its whole path.
    pub(super) own: Option<PathBuf>,
}

impl Programs {
    pub(super) fn find(around: Option<&Surroundings>, project: Option<&Path>) -> Self {
        let folders = around.map(|around| around.path.clone()).unwrap_or_default();
        Self { folders, project: project.map(Path::to_owned), own: own() }
    }

    /// The program that a shell would start by this name.
    pub(super) fn named(&self, name: &str) -> Option<PathBuf> {
        let folders = self.folders.iter().filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|path| is_program(path) && self.is_safe(path))
    }

    /// Does it lie outside of the project, or is it this one?
    pub(super) fn is_safe(&self, path: &Path) -> bool {
        let Ok(resolved) = path.canonicalize() else { return false };
        let is_inside =
            |place: &Path| self.project.as_ref().is_some_and(|project| place.starts_with(project));
        self.is_own(&resolved) || !is_inside(&resolved) && !is_inside(path)
    }

    /// Is it this very program?
    pub(super) fn is_own(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|path| Some(path) == self.own)
    }
}

pub(super) fn is_program(path: &Path) -> bool {
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
