//! What a killed process left beside documents: temporary files of writes that never ended.
//!
//! Finding them takes a listing, which in a folder of thousands costs more than the write itself.
//! So a folder that still looks as our last commit left it is not listed again: by its own times
//! nothing came into it since. Another process that begins and is killed within the same tick of
//! the file system's clock is not noticed until the folder changes again, which harms nobody.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cap_std::fs::MetadataExt;
use reqlore_domain::ports::documents::Change;

use crate::layout::{Place, Tree};
use crate::replace::is_temp;

/// Which folders had none, and how they looked then.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    none_in: Mutex<HashMap<Folder, Times>>,
}

/// A folder by its device and number.
type Folder = (u64, u64);
/// When it was modified and changed, in seconds and nanoseconds.
type Times = [(i64, i64); 2];

impl Leftovers {
    /// Removes them from the folders of what is changed: under the lock nobody else of ours can be
    /// writing there, so all of it is stale. Failing to remove it harms nobody.
    pub(crate) fn remove(&self, tree: &Tree<'_>, changes: &[Change]) {
        for (place, folder, times) in folders(tree, changes) {
            let known = self.none_in.lock().unwrap_or_else(PoisonError::into_inner);
            let has_none = known.get(&folder) == Some(&times);
            drop(known);
            if !has_none {
                sweep(&place);
            }
        }
    }

    /// A commit of ours put these changes in place and took its own temporary files away.
    pub(crate) fn none(&self, tree: &Tree<'_>, changes: &[Change]) {
        for (_, folder, times) in folders(tree, changes) {
            let mut known = self.none_in.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= FOLDERS {
                known.clear();
            }
            known.insert(folder, times);
        }
    }
}

/// Of so many folders it is remembered.
const FOLDERS: usize = 1_000;

/// The folders of what is changed, each once.
fn folders(tree: &Tree<'_>, changes: &[Change]) -> Vec<(Place, Folder, Times)> {
    let mut folders: Vec<(Place, Folder, Times)> = Vec::new();
    for place in changes.iter().filter_map(|change| tree.place(change.id()).ok().flatten()) {
        let Ok(found) = place.dir.dir_metadata() else { continue };
        let (folder, modified) = ((found.dev(), found.ino()), (found.mtime(), found.mtime_nsec()));
        if folders.iter().all(|(_, known, _)| *known != folder) {
            folders.push((place, folder, [modified, (found.ctime(), found.ctime_nsec())]));
        }
    }
    folders
}

fn sweep(place: &Place) {
    let entries = place.dir.entries().into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(is_temp);
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            tracing::info!(name = ?name, "removing what an interrupted write left");
            let _ = place.dir.remove_file(&name);
        }
    }
}
