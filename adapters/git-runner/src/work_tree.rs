//! The work trees of a repository, found without running Git.
//!
//! <https://git-scm.com/docs/gitrepository-layout> describes the files that are read.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::special_files;

/// The files name one path or one branch.
const MAX_BYTES: u64 = 4 << 10;

/// A work tree and the folders in which Git keeps its state. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTree {
    pub root: PathBuf,
    /// The state of this work tree: its branch and its index.
    pub git_folder: PathBuf,
    /// The state that all work trees of the clone share; without linked ones, `git_folder`.
    pub common_folder: PathBuf,
}

impl WorkTree {
    /// Returns the work tree around a folder without links in its path. The home folder is ignored.
    ///
    /// A repository is untrusted: a linked work tree is accepted only if the clone names it too.
    pub fn around(folder: &Path, home: Option<&Path>) -> Option<Self> {
        let root = repository_around(folder, home)?;
        let entry = root.join(".git");
        if entry.is_dir() {
            return Some(Self { root, common_folder: entry.clone(), git_folder: entry });
        }
        let named = read_line(&entry)?;
        let git_folder =
            dunce::canonicalize(root.join(named.strip_prefix("gitdir:")?.trim())).ok()?;
        // A submodule has no such file, and nothing to share.
        let Some(shared) = read_line(&git_folder.join("commondir")) else {
            return Some(Self { root, common_folder: git_folder.clone(), git_folder });
        };
        let common_folder = dunce::canonicalize(git_folder.join(shared)).ok()?;
        let is_named_back = linked_work_tree(&git_folder).is_some_and(|named| named == root);
        let is_linked = is_named_back && git_folder.starts_with(common_folder.join("worktrees"));
        is_linked.then_some(Self { root, git_folder, common_folder })
    }

    /// The checked-out branch; `None` if a commit is checked out.
    pub fn branch(&self) -> Option<String> {
        let head = read_line(&self.git_folder.join("HEAD"))?;
        Some(head.strip_prefix("ref: refs/heads/")?.to_owned())
    }

    /// The other work trees of the clone that exist.
    pub fn others(&self) -> Vec<PathBuf> {
        let mut work_trees = Vec::new();
        // A bare repository has no work tree of its own.
        if self.common_folder.file_name().is_some_and(|name| name == ".git") {
            work_trees.extend(self.common_folder.parent().map(Path::to_owned));
        }
        for entry in fs::read_dir(self.common_folder.join("worktrees")).into_iter().flatten() {
            work_trees.extend(entry.ok().and_then(|entry| linked_work_tree(&entry.path())));
        }
        work_trees.retain(|work_tree| *work_tree != self.root);
        work_trees
    }
}

/// The root of the work tree whose state is in this folder; `None` if it is missing.
fn linked_work_tree(git_folder: &Path) -> Option<PathBuf> {
    // Git can write the path relative to the folder.
    let entry = git_folder.join(read_line(&git_folder.join("gitdir"))?);
    dunce::canonicalize(entry.parent()?).ok().filter(|work_tree| work_tree.join(".git").is_file())
}

/// The only line of a small file.
fn read_line(path: &Path) -> Option<String> {
    if special_files::is_special(path) {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let line = text.trim_end_matches(['\n', '\r']);
    (!line.contains('\n')).then(|| line.to_owned())
}

/// The root of the Git repository that contains `folder`. The home folder is ignored, because as a
/// repository it would contain every project.
pub fn repository_around(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let home = home.and_then(|home| dunce::canonicalize(home).ok());
    for folder in folder.ancestors() {
        // Dotfiles are often kept in Git, with the home folder as their root.
        if home.as_deref() == Some(folder) {
            return None;
        }
        // A folder, or a file in a worktree or a submodule.
        if folder.join(".git").symlink_metadata().is_ok() {
            return Some(folder.to_owned());
        }
    }
    None
}
