//! Changes of files, put in place: staged whole, exchanged, looked at, and undone where one failed.
//!
//! What happens to several of them when the process dies in between is not decided here.

use std::collections::HashMap;
use std::fs::File;

use cap_std::fs::MetadataExt;
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::documents::{Change, StoreResult};

use crate::error::refused;
use crate::failpoint::{Step, synced};
use crate::layout::{Root, Tree, as_file, same_folder};
use crate::lock;
use crate::replace::{Failed, Found, Replacement};

/// What a commit read; `None` where there was nothing.
pub(crate) type Base = HashMap<DocumentId, Option<Found>>;

/// Another root may lead to the same requirements directory.
pub(crate) fn lock_requirements(
    root: &Root,
    tree: &Tree<'_>,
    mut kinds: impl Iterator<Item = Kind>,
) -> StoreResult<Option<File>> {
    if !kinds.any(|kind| matches!(kind, Kind::Instructions | Kind::Section)) {
        return Ok(None);
    }
    let dir = tree.requirements()?.dir();
    Ok(dir.map(|dir| lock::folder_of_several(root, dir)).transpose()?.flatten())
}

/// One change by itself: whoever is killed in it leaves the old file or the new one.
pub(crate) fn one(tree: &Tree<'_>, base: &Base, change: &Change) -> Result<(), Failed> {
    let changes = std::slice::from_ref(change);
    let (mut staged, mut exchanged) = (Vec::new(), 0);
    let outcome = stage_all(tree, base, changes, &mut staged)
        .map_err(Failed::from)
        .and_then(|()| exchange_all(&staged, &mut exchanged));
    if outcome.is_err() {
        // What could not be put back is in the log; the caller is told what failed first.
        let _ = put_back(&staged[..exchanged], false);
    }
    for replacement in &staged {
        replacement.remove_temp();
    }
    outcome
}

/// Undoes what was exchanged; with a journal that is made durable before the journal goes.
pub(crate) fn put_back(exchanged: &[Replacement<'_>], journaled: bool) -> StoreResult<()> {
    let mut undone = Ok(());
    for replacement in exchanged.iter().rev() {
        undone = undone.and(replacement.put_back());
    }
    if journaled { undone.and_then(|()| sync_folders(exchanged)) } else { undone }
}

/// Puts every new file in place and makes that durable; `begun` counts how far it came.
pub(crate) fn exchange_all(staged: &[Replacement<'_>], begun: &mut usize) -> Result<(), Failed> {
    for replacement in staged {
        *begun += 1;
        replacement.exchange()?;
    }
    sync_folders(staged)?;
    let stands = staged.iter().all(Replacement::stands);
    if stands { Ok(()) } else { Err(Failed::ChangedSince) }
}

pub(crate) fn stage_all<'a>(
    tree: &Tree<'_>,
    base: &'a Base,
    changes: &'a [Change],
    staged: &mut Vec<Replacement<'a>>,
) -> StoreResult<()> {
    for change in changes {
        let found = base.get(change.id()).and_then(Option::as_ref);
        let Some(place) = tree.place(change.id())? else {
            continue;
        };
        if found.is_some_and(|found| found.metadata.nlink() > 1) {
            return Err(refused(
                &place.shown,
                "has more than one hard link, and writing would part them; copy the file over \
                 itself to end that. Nothing was written",
            ));
        }
        let old = found.map(|found| &found.document.body);
        let new = match change {
            Change::Put { document } => Some(&document.body),
            Change::Delete { .. } => None,
        };
        if old.is_none() && new.is_none() {
            continue;
        }
        staged.push(Replacement::new(place, old, new));
        if let (Some(replacement), Some(body)) = (staged.last(), new) {
            replacement.stage(body, found)?;
        }
    }
    Ok(())
}

fn sync_folders(staged: &[Replacement<'_>]) -> StoreResult<()> {
    for (at, replacement) in staged.iter().enumerate() {
        let dir = &replacement.place.dir;
        let is_same = |other: &Replacement<'_>| same_folder(&other.place.dir, dir);
        if !staged[..at].iter().any(is_same) {
            let done = as_file(dir).and_then(|folder| synced(Step::FolderSynced, &folder));
            done.map_err(|error| replacement.not_written("sync its folder", error))?;
        }
    }
    Ok(())
}
