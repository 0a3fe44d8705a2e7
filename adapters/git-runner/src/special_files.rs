//! Pipes and devices in place of the files that Git reads in a repository. Git would wait for them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files that Git reads for the queries of this crate, relative to the repository's root.
const GIT_FILES: [&str; 12] = [
    ".gitattributes",
    ".gitignore",
    ".git/HEAD",
    ".git/commondir",
    ".git/config",
    ".git/config.worktree",
    ".git/index",
    ".git/info/attributes",
    ".git/info/exclude",
    ".git/objects/info/alternates",
    ".git/packed-refs",
    ".git/shallow",
];
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Git follows as many levels of included files.
const MAX_INCLUDE_DEPTH: usize = 10;
/// A configuration can name the same files repeatedly.
const MAX_INCLUDED_FILES: usize = 100;

/// Returns the first file that is a pipe, a device or a socket.
pub(crate) fn find_special_file(repository: &Path) -> Option<PathBuf> {
    for name in GIT_FILES {
        let file = repository.join(name);
        if is_special(&file) {
            return Some(file);
        }
    }
    let mut waiting = vec![(repository.join(".git/config"), 0)];
    let mut included = 0;
    while let Some((config, depth)) = waiting.pop() {
        for path in included_paths(&config) {
            // Git resolves the path relative to the file that includes it.
            let path = config.parent()?.join(path);
            if is_special(&path) {
                return Some(path);
            }
            included += 1;
            if depth < MAX_INCLUDE_DEPTH && included < MAX_INCLUDED_FILES {
                waiting.push((path, depth + 1));
            }
        }
    }
    None
}

pub(crate) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// The paths of `[include]` and `[includeIf "…"]`. Other spellings than those that Git writes are
/// left to the time limit of a query.
fn included_paths(config: &Path) -> Vec<String> {
    let mut text = String::new();
    let read = File::open(config).and_then(|file| {
        // A folder has no text, and its error is not important here.
        file.take(MAX_CONFIG_BYTES).read_to_string(&mut text)
    });
    if read.is_err() {
        return Vec::new();
    }
    let mut paths = Vec::new();
    let mut is_include = false;
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            is_include = header.to_lowercase().starts_with("include");
            // A value may follow in the same line.
            line = header.rsplit(']').next().unwrap_or_default().trim();
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        if is_include && key.trim().eq_ignore_ascii_case("path") {
            paths.push(value.trim().trim_matches('"').to_owned());
        }
    }
    paths
}
