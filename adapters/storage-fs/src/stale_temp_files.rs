//! Removes temporary files of killed processes, and remembers the folders that have none.
//!
//! Under a project's lock no other Reqlore process writes its documents, so every temporary file in
//! their folders is stale. All folders are searched, because a killed process may have written to
//! any of them, and Git tracks most.

use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::fs::Dir;
use lru::LruCache;
use reqlore_domain::document::{DocumentId, TEMPLATE_FOLDER};
use reqlore_domain::ports::documents::DocumentChange;
use reqlore_durable_fs::folder::{
    LOCK_FILE, LOCKS_ARE_FILES, open_folder, remove_file, try_lock_folder,
};
use reqlore_local_state as local;

use crate::file_stamp::FileStamp;
use crate::folder_names::{DOCSETS_FOLDER, OWN_FOLDER};
use crate::layout::{DocumentArea, MAX_AREA_DEPTH, ProjectTree, same_folder};
use crate::stage_and_swap::is_temp;
use crate::system::{EntryKind, entries, identify_folder};

/// Folders that one search inspects. Further ones are searched when a change is in them.
const MAX_SEARCHED_FOLDERS: usize = 500;
/// Folders that are remembered. A forgotten one is only searched again.
const MAX_CLEAN_FOLDERS: NonZeroUsize = NonZeroUsize::new(10 * MAX_SEARCHED_FOLDERS).unwrap();
/// The folders of the kinds are below the backlog's top folder.
const SEARCH_DEPTH: usize = MAX_AREA_DEPTH + 1;

#[derive(Debug)]
pub(crate) struct StaleTempFiles {
    /// By device and inode.
    clean_folders: Mutex<LruCache<(u64, u64), CleanFolder>>,
}

/// A folder without temporary files, as long as its stamp stays the same.
#[derive(Debug, Clone)]
struct CleanFolder {
    stamp: FileStamp,
    subfolders: Arc<[String]>,
}

impl Default for StaleTempFiles {
    fn default() -> Self {
        Self { clean_folders: Mutex::new(LruCache::new(MAX_CLEAN_FOLDERS)) }
    }
}

impl StaleTempFiles {
    /// Removes stale files from all folders of a locked project, those of these documents first. A
    /// failure does no harm. `requirements_lock` is that of the requirements directory, if the
    /// caller has it.
    pub(crate) fn remove_all<'a>(
        &self,
        tree: &ProjectTree<'_>,
        documents: impl IntoIterator<Item = &'a DocumentId>,
        requirements_lock: Option<&File>,
    ) {
        let mut budget = MAX_SEARCHED_FOLDERS;
        for folder in folders_of(tree, documents) {
            self.search(&folder, 0, &mut budget);
        }
        for area in DocumentArea::ALL {
            if let Some(top) = open_below(tree, area.top_folder()) {
                self.search(&top, SEARCH_DEPTH, &mut budget);
            }
        }
        for folder in [DOCSETS_FOLDER, OWN_FOLDER, TEMPLATE_FOLDER] {
            if let Some(folder) = open_below(tree, folder) {
                self.search(&folder, 0, &mut budget);
            }
        }
        if let Ok(requirements) = tree.requirements()
            && let Some(dir) = requirements.dir()
        {
            let is_root = !LOCKS_ARE_FILES && same_folder(&tree.root.dir, dir);
            let is_locked = requirements_lock.is_some() || is_root;
            self.search_requirements(dir, is_locked, &mut budget);
        }
    }

    /// Projects with different locks may share the directory, so it has a lock of its own.
    fn search_requirements(&self, dir: &Dir, is_locked: bool, budget: &mut usize) {
        // A lock that is a file would change the folder, so a write with the lock searches it.
        if self.clean_folder(dir).is_some() || (LOCKS_ARE_FILES && !is_locked) {
            return;
        }
        // Does not wait for the lock, because the next write tries again.
        let lock = if is_locked { Ok(None) } else { try_lock_folder(dir, LOCK_FILE) };
        if is_locked || matches!(lock, Ok(Some(_))) {
            self.search(dir, 0, budget);
        }
    }

    /// Remembers the folders of these changes. The commit has removed its own files.
    pub(crate) fn mark_clean(&self, tree: &ProjectTree<'_>, changes: &[DocumentChange]) {
        for folder in folders_of(tree, changes.iter().map(DocumentChange::id)) {
            let Ok((id, stamp)) = identify_folder(&folder) else { continue };
            // A folder that was not searched may have subfolders that are unknown.
            if let Some(clean) = self.lock_folders().get_mut(&id) {
                clean.stamp = stamp;
            }
        }
    }

    /// Removes the stale files of a folder, unless it is unchanged since it had none, then those of
    /// its subfolders to this depth.
    fn search(&self, folder: &Dir, depth: usize, budget: &mut usize) {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        let subfolders = match self.clean_folder(folder) {
            Some(clean) => clean.subfolders,
            None => self.clean(folder),
        };
        if depth == 0 {
            return;
        }
        for name in &*subfolders {
            // Fails for a link, which may lead out of the project.
            if let Ok(subfolder) = open_folder(folder, name) {
                self.search(&subfolder, depth - 1, budget);
            }
        }
    }

    /// Removes the stale files of a folder. Returns its subfolders that may hold documents.
    fn clean(&self, folder: &Dir) -> Arc<[String]> {
        // Before the listing, so that a later change is not missed.
        let inspected = identify_folder(folder);
        let (mut subfolders, mut has_stale) = (Vec::new(), false);
        let Ok(entries) = entries(folder) else { return Arc::default() };
        for entry in entries.flatten() {
            // No folder of documents and no temporary file has another name.
            let Ok(name) = entry.name.into_string() else { continue };
            if is_temp(&name) {
                // A folder or a link with such a name is not ours.
                if entry.kind == EntryKind::File {
                    has_stale = true;
                    remove_stale(folder, &name);
                }
            } else if !name.starts_with('.') && entry.kind == EntryKind::Folder {
                subfolders.push(name);
            }
        }
        let subfolders: Arc<[String]> = subfolders.into();
        // A removal changes the stamp, and after a failed one the next search tries again.
        if let Ok((id, stamp)) = inspected
            && !has_stale
        {
            let subfolders = Arc::clone(&subfolders);
            self.lock_folders().put(id, CleanFolder { stamp, subfolders });
        }
        subfolders
    }

    /// Returns the clean state of a folder; `None` if it may have new files.
    fn clean_folder(&self, folder: &Dir) -> Option<CleanFolder> {
        let (id, stamp) = identify_folder(folder).ok()?;
        self.lock_folders().get(&id).filter(|clean| clean.stamp == stamp).cloned()
    }

    fn lock_folders(&self) -> MutexGuard<'_, LruCache<(u64, u64), CleanFolder>> {
        self.clean_folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a folder below the root. As in a listing, the name may be a link to one beneath the root.
fn open_below(tree: &ProjectTree<'_>, path: &str) -> Option<Dir> {
    tree.root.dir.open_dir(path).ok()
}

/// The folders of these documents, and that of most temporary files.
fn folders_of<'a>(
    tree: &ProjectTree<'_>,
    documents: impl IntoIterator<Item = &'a DocumentId>,
) -> Vec<Arc<Dir>> {
    let mut folders = Vec::new();
    for id in documents {
        if let Ok(Some(location)) = tree.locate(id) {
            folders.push(location.dir);
        }
    }
    if let Ok(Some(local)) = local::open_existing(&tree.root.dir) {
        folders.push(Arc::new(local));
    }
    folders
}

fn remove_stale(folder: &Dir, name: &str) {
    tracing::info!(name, "removing a file of an interrupted write");
    if let Err(error) = remove_file(folder, name) {
        tracing::warn!(name, %error, "a file of an interrupted write could not be removed");
    }
}
