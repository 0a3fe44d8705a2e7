//! Finds projects below another one, which `--root` with a subfolder creates.

use std::fs;

use crate::config::AppConfig;

pub(crate) const NESTED_PROBLEM: &str =
    "a second project below this one; its items are not shown here";
pub(crate) const NESTED_NEXT: &str =
    "see them with --root; move them here and remove its .reqlore, or configure [projects.KEY]";
/// Folders that one search inspects.
const MAX_FOLDERS: usize = 20_000;

/// The folders below the root that have a `.reqlore` of their own, relative to it. Configured
/// projects, dependencies and other Git repositories are not searched.
pub(crate) fn find_nested_projects(config: &AppConfig) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![config.root.clone()]);
    let mut inspected = 0;
    while let Some(folder) = folders.pop().filter(|_| inspected < MAX_FOLDERS) {
        inspected += 1;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            // A link is not followed.
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if name == ".reqlore" && folder != config.root {
                let relative = folder.strip_prefix(&config.root).unwrap_or(&folder);
                found.push(relative.to_string_lossy().into_owned());
            }
            let is_skipped = name.as_encoded_bytes().starts_with(b".")
                || name == "node_modules"
                || name == "target"
                || path.join(".git").symlink_metadata().is_ok()
                || config.projects.values().any(|project| *project == path);
            if !is_skipped {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}
