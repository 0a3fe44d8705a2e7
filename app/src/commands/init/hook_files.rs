//! The list of projects for which a hook in the user's files prints text: in a cloned project it
//! must not.

use std::path::{Path, PathBuf};

use reqlore_client_config::edit;
use serde_json::json;

use crate::commands::untrusted_text::read_file;
use crate::config::paths::home_folder;
use crate::config::state_folder;

/// In the state folder.
const LIST_FILE: &str = "hooks.json";
pub(super) const LIST_PATH: &[&str] = &["projects"];
const MAX_LIST_BYTES: u64 = 4 << 20;

/// True if init has added hooks for this project to the user's files.
pub(crate) fn is_hook_project(project: &Path) -> bool {
    let Some(home) = home_folder() else { return false };
    let file = list_file(&home);
    let text = read_file(&file, MAX_LIST_BYTES).ok().flatten().unwrap_or_default();
    edit::find_items(&text, LIST_PATH).is_ok_and(|listed| listed.contains(&json!(project)))
}

pub(super) fn list_file(home: &Path) -> PathBuf {
    state_folder(home).join(LIST_FILE)
}
