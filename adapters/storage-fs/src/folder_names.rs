//! Names of the folders that make a project.

use std::path::{Component, Path};

/// The docsets' configuration: its folder, and its name there.
pub(crate) const DOCSETS_FOLDER: &str = ".knowledge";
pub(crate) const DOCSETS_FILE: &str = "config.yaml";
/// The folder of Reqlore.
pub(crate) const OWN_FOLDER: &str = ".reqlore";
pub(crate) const KNOWLEDGE_FOLDER: &str = ".ixchel";
/// The directories to search for AGENTS.md after the configured one.
const DEFAULT_DIRECTORIES: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];

/// The directories that may hold AGENTS.md, in search order.
#[derive(Debug)]
pub(crate) struct RequirementsLayout {
    pub(crate) candidates: Vec<String>,
}

impl RequirementsLayout {
    pub(crate) fn new(configured: Option<&str>) -> Self {
        let mut candidates = Vec::new();
        candidates.extend(configured.map(|path| path.trim_end_matches('/').to_owned()));
        candidates.extend(DEFAULT_DIRECTORIES.map(str::to_owned));
        Self { candidates }
    }
}

/// Validates that a path is relative and stays beneath the root. The error names the variable.
pub(crate) fn check_relative(path: &str) -> Result<(), String> {
    let is_beneath = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if path.contains('\0') || !is_beneath {
        return Err(format!(
            "REQLIX_REQ_REL_PATH: {path:?} must be a path relative to the project's root that \
             stays inside it, such as \"docs/requirements\""
        ));
    }
    Ok(())
}
