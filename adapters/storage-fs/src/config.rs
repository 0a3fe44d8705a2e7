//! Settings of the file storage.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reqlore_domain::project_key::ProjectKey;
use reqlore_git_runner::GitEnvironment;

use crate::folder_names::check_relative;

#[derive(Debug, Clone)]
pub struct Config {
    /// The root of the default project, as callers name it: an existing directory, absolute.
    pub root: PathBuf,
    /// The folder of the default project's documents: the root, unless `fs:DIR` names another.
    pub documents: PathBuf,
    /// `REQLIX_REQ_REL_PATH`: the first folder to search for AGENTS.md, relative to the root.
    pub requirements_directory: Option<String>,
    /// More projects, which callers name by key or by folder.
    pub projects: BTreeMap<ProjectKey, PathBuf>,
    /// When not empty, only these directories and those below them can be projects.
    pub roots: Vec<PathBuf>,
    /// The user's home folder, which can't be a project.
    pub home: Option<PathBuf>,
    /// The cache folder. Without one each process reads all documents when it starts.
    pub cache: Option<PathBuf>,
    /// Git, for the history of documents. Without a program there is none.
    pub git: GitEnvironment,
}

impl Config {
    /// Validates the settings. The error names the setting.
    pub fn check(&self) -> Result<(), String> {
        match &self.requirements_directory {
            Some(path) => check_relative(path),
            None => Ok(()),
        }
    }
}
