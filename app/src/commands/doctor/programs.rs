//! Programs by their names, as far as what they are called can be believed.
//!
//! The trap: a project may hold a `git` or a `reqlore` of its own, and a path may lead there by a
//! relative folder, by `direnv` or by npm. What lies in the project, or in the repository around
//! it, is never started, unless it is the very program that the person started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::own;
use crate::config::variable;
use crate::surroundings::{is_program, repository_around};

/// Where programs are looked for.
#[derive(Debug)]
pub(super) struct Programs {
    folders: Vec<PathBuf>,
    project: Option<PathBuf>,
    /// This program, by its whole path.
    pub(super) own: Option<PathBuf>,
}

impl Programs {
    pub(super) fn find(project: Option<&Path>) -> Self {
        let folders = std::env::split_paths(&variable("PATH").unwrap_or_default()).collect();
        let around =
            |project: &Path| repository_around(project).unwrap_or_else(|| project.to_owned());
        Self { folders, project: project.map(around), own: own() }
    }

    /// The program that a shell would start by this name.
    pub(super) fn named(&self, name: &str) -> Option<PathBuf> {
        let folders = self.folders.iter().filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|path| is_program(path) && self.is_safe(path))
    }

    /// The PATH for what is started: what it starts in turn does not lie in the project either.
    pub(super) fn path(&self) -> OsString {
        let is_outside = |folder: &&PathBuf| {
            folder.is_absolute() && folder.canonicalize().is_ok_and(|folder| !self.holds(&folder))
        };
        std::env::join_paths(self.folders.iter().filter(is_outside)).unwrap_or_default()
    }

    /// Does it lie outside of the project, or is it this one?
    pub(super) fn is_safe(&self, path: &Path) -> bool {
        let Ok(resolved) = path.canonicalize() else { return false };
        self.is_own(&resolved) || !self.holds(&resolved) && !self.holds(path)
    }

    fn holds(&self, place: &Path) -> bool {
        self.project.as_ref().is_some_and(|project| place.starts_with(project))
    }

    /// Is it this very program?
    pub(super) fn is_own(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|path| Some(path) == self.own)
    }
}
