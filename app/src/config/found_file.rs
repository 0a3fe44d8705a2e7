//! Limits of a settings file that was found in a project and not named by the user.
//!
//! It may have come with a cloned repository, so it must neither lead the server out of the project
//! nor extend the access to it. The table of settings holds the rule of each setting.

use std::path::Path;

use reqlore_domain::identity::redact_echo;

use super::file::{ConfigFile, PROJECTS};
use super::http::TRANSPORTS;
use super::paths::is_inside;
use crate::config::paths::resolve_links;
use crate::config::values::{SettingValue, SettingValues};
use crate::exit::{CommandError, Result};
use crate::settings::FoundFileRule;
use crate::storage_spec::StorageSpec;

/// Rejects each value that a found file may not set. A file that the user named is the user's own.
/// A relative `root` is relative to `base`.
pub(super) fn check_values(values: &SettingValues, file: &ConfigFile, base: &Path) -> Result<()> {
    if file.is_explicit {
        return Ok(());
    }
    let is_http = values.parse_choice("transport", TRANSPORTS)?;
    let project = resolve_links(file.base_folder());
    let root = values.require_value("root")?;
    let root = if root.is_from_file() { base.join(&root.text) } else { project.clone() };
    for value in &values.0 {
        if !value.is_from_file() {
            continue;
        }
        let base = if value.setting.key == "root" { base } else { &root };
        let rule = value.setting.found_file;
        let is_operators = matches!(
            rule,
            FoundFileRule::InsideOnStdio | FoundFileRule::OnStdio | FoundFileRule::OwnStorage
        );
        if rule == FoundFileRule::Never {
            return Err(value.refused_in_found_file(""));
        }
        if is_http && is_operators {
            return Err(value.refused_in_found_file(" over http"));
        }
        let names_path = matches!(rule, FoundFileRule::Inside | FoundFileRule::InsideOnStdio);
        if names_path && !names_inside(value, base, &project) {
            return Err(value.refused("must be inside the project"));
        }
    }
    check_projects(file, &project, is_http)
}

/// True if all paths of a value are inside the project.
fn names_inside(value: &SettingValue, base: &Path, project: &Path) -> bool {
    for text in value.text.lines() {
        let path = match value.setting.key {
            // A storage without a path is at its default path, which is checked for all sources.
            "storage" => text.split_once(':').map_or("", |(_, path)| path),
            _ => text,
        };
        // A URL would send the project to another machine.
        if text.contains("://") || !is_inside(&base.join(path), project) {
            return false;
        }
    }
    true
}

fn check_projects(file: &ConfigFile, project: &Path, is_http: bool) -> Result<()> {
    let path = file.path.display();
    for (name, folder) in file.project_roots()? {
        let rule = if is_http {
            "may not be set by a project's own file over http"
        } else if is_inside(&file.base_folder().join(&folder), project) {
            continue;
        } else {
            "must be inside the project"
        };
        let shown = redact_echo(&folder);
        return Err(CommandError::usage_error(format!(
            "{PROJECTS}.{name}.root: {shown:?} (file {path}) {rule}; pass the file with --config"
        )));
    }
    Ok(())
}

/// Rejects settings of a found file that would shorten the audit or the history of a storage that
/// is not the project's.
pub(super) fn check_storage_settings(
    values: &SettingValues,
    file: &ConfigFile,
    storage: &StorageSpec,
) -> Result<()> {
    let project = resolve_links(file.base_folder());
    let is_own = storage.path().is_some_and(|path| is_inside(path, &project));
    if file.is_explicit || is_own {
        return Ok(());
    }
    for value in &values.0 {
        if value.is_from_file() && value.setting.found_file == FoundFileRule::OwnStorage {
            return Err(value.refused_in_found_file(" for a storage outside the project"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn found_file_places_are_resolved_before_comparison() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        symlink("sub", folder.join("down")).unwrap();
        symlink("../missing", folder.join("dangling")).unwrap();
        for inside in ["", ".", "sub", "new/deep", "down/new", "sub/../sub"] {
            assert!(is_inside(&folder.join(inside), &folder), "{inside}");
        }
        for outside in
            ["..", "/", "up", "up/new", "dangling", "dangling/x", "new/../../x", "../project2"]
        {
            assert!(!is_inside(&folder.join(outside), &folder), "{outside}");
        }
    }
}
