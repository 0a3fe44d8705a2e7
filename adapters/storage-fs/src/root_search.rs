//! Finds the project of a folder by searching upwards, as Git finds a repository.

use std::path::{Path, PathBuf};

use reqlore_git_runner::{WorkTree, repository_around};

use crate::folder_names::{DOCSETS_FOLDER, KNOWLEDGE_FOLDER, OWN_FOLDER, RequirementsLayout};
use crate::system::{mode, owner};

/// The folder of everything that Reqlore writes except entities, docsets and sections.
/// With a requirements directory, the files and folders of a project.
const ENTRIES: [&str; 4] = [OWN_FOLDER, "reqlore.toml", KNOWLEDGE_FOLDER, DOCSETS_FOLDER];
/// A Git folder or a bare repository contains all of these.
const GIT_ENTRIES: [&str; 3] = ["HEAD", "objects", "refs"];
pub(crate) const WORLD_WRITABLE: u32 = 0o002;
/// The mode of folders such as `/tmp`, which belong to no project.
const SHARED: u32 = 0o1000 | WORLD_WRITABLE;

/// The root of a project.
#[derive(Debug)]
pub struct FoundRoot {
    pub folder: PathBuf,
    /// `None` without a project and a repository: the search started in the folder.
    pub reason: Option<String>,
}

#[derive(Debug, Clone)]
pub struct RootSearch {
    /// These two are roots only of a search that starts in them. Canonical.
    pub home: Option<PathBuf>,
    pub temporary: Option<PathBuf>,
    pub requirements_directory: Option<String>,
}

impl RootSearch {
    /// Returns the nearest folder that has an entry of a project, up to the root of the Git
    /// repository. `start` is canonical. The error names a folder that cannot be a project.
    pub fn find(&self, start: &Path) -> Result<FoundRoot, String> {
        let layout = RequirementsLayout::new(self.requirements_directory.as_deref());
        let entries = ENTRIES.into_iter().chain(layout.candidates.iter().map(String::as_str));
        let repository = repository_around(start, self.home.as_deref());
        let owner = owner_uid(start);
        for folder in start.ancestors() {
            let is_limit = self.temporary.as_deref() == Some(folder)
                || refusal(folder, owner, self.home.as_deref(), SHARED).is_some();
            if is_limit && folder != start {
                break;
            }
            // Nothing there is versioned. Git itself refuses to work there.
            if GIT_ENTRIES.iter().all(|name| folder.join(name).symlink_metadata().is_ok()) {
                return Err(not_a_project(folder, "Git"));
            }
            // Without links resolved, so that a broken entry is reported. A setting may name the
            // folder itself.
            let has = |entry: &&str| {
                folder.join(entry) != folder && folder.join(entry).symlink_metadata().is_ok()
            };
            let reason = match entries.clone().find(has) {
                Some(entry) => format!("found, contains {entry}"),
                None if repository.as_deref() == Some(folder) => {
                    "found, root of the Git repository".to_owned()
                }
                None => continue,
            };
            return Ok(FoundRoot { folder: folder.to_owned(), reason: Some(reason) });
        }
        if start.components().any(|part| part.as_os_str() == OWN_FOLDER) {
            return Err(not_a_project(start, "Reqlore"));
        }
        Ok(FoundRoot { folder: start.to_owned(), reason: None })
    }

    /// Returns the project of an announced folder, if it belongs with the project at `root`: the
    /// folder contains that root or is inside it, or does so in another work tree of the clone.
    /// `None` if it belongs to neither. The error is the root of another project.
    pub(crate) fn fit(&self, folder: &Path, root: &Path) -> Result<Option<PathBuf>, PathBuf> {
        let around = |folder| WorkTree::around(folder, self.home.as_deref());
        let (mut root, mut is_same_clone) = (root.to_owned(), false);
        if let (Some(own), Some(other)) = (around(&root), around(folder)) {
            is_same_clone = own.common_folder == other.common_folder;
            if is_same_clone && own.root != other.root {
                let path = root.strip_prefix(&own.root).unwrap_or(Path::new(""));
                // Without the slash at the end that an empty path adds.
                let twin: PathBuf = other.root.join(path).components().collect();
                root = if twin.is_dir() { twin } else { other.root };
            }
        }
        if root.starts_with(folder) {
            return Ok(Some(root));
        }
        match self.find(folder).ok().filter(|found| found.reason.is_some()) {
            // A project inside the project.
            Some(found) if found.folder.starts_with(&root) => Ok(Some(found.folder)),
            _ if folder.starts_with(&root) => Ok(Some(root)),
            Some(found) if !is_same_clone => Err(found.folder),
            _ => Ok(None),
        }
    }
}

fn not_a_project(folder: &Path, owner: &str) -> String {
    let folder = folder.display();
    format!("root: {folder} is a folder of {owner}; change into the project, or pass --root")
}

/// Returns why documents in an ancestor of a folder of this owner, and above it, are not used. All
/// bits of `writable` together make a folder too open.
pub(crate) fn refusal(
    ancestor: &Path,
    expected_owner: Option<u32>,
    home: Option<&Path>,
    writable: u32,
) -> Option<String> {
    let shown = ancestor.display();
    Some(match ancestor.metadata() {
        _ if ancestor.parent().is_none() => {
            "is in the root of the file system; move it to the project".to_owned()
        }
        _ if home == Some(ancestor) => {
            format!("is not used below the home folder {shown}; move it to the project")
        }
        // Windows does not tell the owner of a folder.
        _ if cfg!(windows) && home.is_none_or(|home| !ancestor.starts_with(home)) => {
            format!("is not used, because {shown} is outside of the user profile; pass --root")
        }
        Err(_) => format!("is not used, because {shown} cannot be inspected"),
        // Another user's documents above a project must not become the project's.
        Ok(metadata) if Some(owner(&metadata)) != expected_owner => {
            format!(
                "is not used, because {shown} belongs to another user (uid {}); copy it to the \
                 project",
                owner(&metadata)
            )
        }
        Ok(metadata) if mode(&metadata) & writable == writable => {
            format!(
                "is not used, because every user may write to {shown}; copy it to the project, or \
                 run `chmod o-w {shown}`"
            )
        }
        Ok(_) => return None,
    })
}

pub(crate) fn owner_uid(folder: &Path) -> Option<u32> {
    folder.metadata().ok().map(|metadata| owner(&metadata))
}
