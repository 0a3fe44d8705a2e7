//! The project around a folder, and the limits of the search for it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use tempfile::TempDir;

use crate::RootSearch;

struct Folders {
    outside: TempDir,
}

impl Folders {
    fn new(folders: &str) -> Self {
        let folders_made = Self { outside: tempfile::tempdir().unwrap() };
        for folder in folders.split_whitespace() {
            fs::create_dir_all(folders_made.at(folder)).unwrap();
        }
        folders_made
    }

    fn at(&self, path: &str) -> PathBuf {
        self.outside.path().canonicalize().unwrap().join(path)
    }

    /// The root around a folder, relative to the place, and the reason.
    fn find(&self, start: &str, requirements: Option<&str>) -> String {
        let search = RootSearch {
            home: Some(self.at("home")),
            temporary: Some(self.at("tmp")),
            requirements_directory: requirements.map(str::to_owned),
        };
        match search.find(&self.at(start)) {
            Ok(found) => {
                let root = found.folder.strip_prefix(self.at("")).unwrap().display().to_string();
                let reason = found.reason.unwrap_or("start".to_owned());
                let reason = reason.replace("found, contains ", "");
                format!("{root} {}", reason.replace("found, root of the Git repository", "git"))
            }
            Err(error) => {
                error.split(';').next().unwrap().replace(&*self.at("").to_string_lossy(), "")
            }
        }
    }
}

#[test]
fn root_is_the_nearest_folder_with_an_entry() {
    for entry in [
        ".reqlore",
        ".ixchel",
        ".knowledge",
        "reqlore.toml",
        "docs/development/requirements",
        "docs/dev/req",
        "my/rules",
    ] {
        let folders = Folders::new(&format!("a/b/c/d a/{entry} a/b/{entry}"));
        for start in ["a/b/c/d", "a/b/c", "a/b"] {
            assert_eq!(folders.find(start, Some("my/rules")), format!("a/b {entry}"));
        }
        assert_eq!(folders.find("a", Some("my/rules")), format!("a {entry}"));
    }
    let folders = Folders::new("a/b a/my/rules a/.git");
    assert_eq!(folders.find("a/b", None), "a git");
    for setting in [".", ""] {
        assert_eq!(folders.find("a/b", Some(setting)), "a git", "the folder itself is no entry");
    }
    // An entry that cannot be read is found, so that it is reported.
    let folders = Folders::new("a/.reqlore a/b/c");
    std::os::unix::fs::symlink("missing", folders.at("a/b/.ixchel")).unwrap();
    assert_eq!(folders.find("a/b/c", None), "a/b .ixchel");
}

#[test]
fn search_ends_at_the_repository_and_at_shared_folders() {
    const ALL: &str = "top/.reqlore top/git/.git top/git/src home/.reqlore home/x/y home/.git \
                       tmp/.reqlore tmp/x open/.reqlore open/x sticky/.reqlore sticky/x/y \
                       sticky/.git home/p/.reqlore home/p/src";
    let folders = Folders::new(ALL);
    for (folder, mode) in [("open", 0o777), ("sticky", 0o1777)] {
        fs::set_permissions(folders.at(folder), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (start, root) in [
        ("top/git/src", "top/git git"),
        ("home/x/y", "home/x/y start"),
        ("home", "home .reqlore"),
        ("home/p/src", "home/p .reqlore"),
        ("tmp/x", "tmp/x start"),
        ("sticky/x/y", "sticky/x/y start"),
        ("open/x", "open .reqlore"),
    ] {
        assert_eq!(folders.find(start, None), root, "{start}");
    }
    if rustix::process::geteuid().is_root() {
        for start in ["top/git", "home/p"] {
            chown(folders.at(start), Some(4_242), None).unwrap();
        }
        assert_eq!(folders.find("top/git/src", None), "top/git/src start");
        assert_eq!(folders.find("home/p/src", None), "home/p/src start");
    }
}

#[test]
fn folders_of_git_and_reqlore_are_no_projects() {
    const BARE: &str = "bare/HEAD bare/objects bare/refs/heads bare/tree/.git bare/tree/src";
    const CLONE: &str =
        "a/.git/HEAD a/.git/objects a/.git/refs a/.git/worktrees/w a/.reqlore/local";
    let folders = Folders::new(&format!("{BARE} {CLONE} home/.reqlore/backlog/epics"));
    for (start, found) in [
        ("bare", "root: bare is a folder of Git"),
        ("bare/refs/heads", "root: bare is a folder of Git"),
        ("bare/tree/src", "bare/tree git"),
        ("a/.git", "root: a/.git is a folder of Git"),
        ("a/.git/worktrees/w", "root: a/.git is a folder of Git"),
        ("a/.reqlore/local", "a .reqlore"),
        ("home/.reqlore/backlog/epics", "root: home/.reqlore/backlog/epics is a folder of Reqlore"),
    ] {
        assert_eq!(folders.find(start, None), found, "{start}");
    }
}
