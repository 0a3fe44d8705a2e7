//! One commit on files: all changes or none, on disk before the answer.
//!
//! Under the lock: read, decide, stage every new file completely, then exchange each with its
//! target and look at what came out. If that is not what was read, an editor saved in between: all
//! is put back and decided anew. The first document of a commit is the truth and later ones are
//! derived from it, so a process killed between two exchanges leaves a stale list, which the next
//! commit heals, and never a half document.

use cap_std::fs::MetadataExt;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;

use crate::Shared;
use crate::error::{not_written, refused};
use crate::failpoint::{Step, reached, synced};
use crate::layout::{Requirements, Root, as_file, same_folder};
use crate::lock::{self, Lock};
use crate::replace::{Failed, Replacement, is_temp};
use crate::scan::Base;

/// How often a commit starts over because somebody without the lock wrote in between.
const ATTEMPTS: usize = 3;

/// Runs a commit under the lock of the project's folder.
pub(crate) fn run(
    shared: &Shared,
    project: &ProjectKey,
    root: &Root,
    mut commit: Commit,
    _lock: &Lock,
) -> StoreResult<Committed> {
    let step = |step, place: &Requirements<'_>| {
        reached(step).map_err(|error| not_written(&place.shown(""), "commit", error))
    };
    for _ in 0..ATTEMPTS {
        let mut requirements = shared.layout.find(root)?;
        // Another root may lead to the same directory.
        let _shared =
            requirements.dir().map(|dir| lock::folder_of_several(root, dir)).transpose()?;
        step(Step::Locked, &requirements)?;
        let base = shared.heads.read_all(project, &requirements, &commit.reads.documents)?;
        let heads = match commit.reads.heads {
            Some(kind) => shared.heads.of_kind(project, &requirements, kind, &base)?,
            None => Vec::new(),
        };
        step(Step::Read, &requirements)?;
        let documents =
            commit.reads.documents.iter().map(|id| {
                base.get(id).and_then(Option::as_ref).map(|found| found.document.clone())
            });
        let mut snapshot = Snapshot { documents: documents.collect(), heads };
        snapshot.heads.sort_by(|a, b| a.id.cmp(&b.id));
        let changes = (commit.decide)(&snapshot).map_err(StoreError::Decided)?;
        drop(snapshot);
        step(Step::Decided, &requirements)?;
        if let Some(change) = changes.iter().find(|change| !base.contains_key(change.id())) {
            return Err(StoreError::Fault(format!("{} was changed and not read", change.id())));
        }
        if changes.is_empty() {
            let revision = shared.histories.record(project, &[]);
            return Ok(Committed { revision, versions: Vec::new() });
        }
        // Only in a folder that we hold the lock of; one that is made now has none.
        remove_leftovers(&requirements);
        requirements.create()?;
        match apply(&requirements, &base, &changes) {
            Ok(()) => return Ok(record(shared, project, &changes)),
            Err(Failed::ChangedSince) => {}
            Err(Failed::Store(error)) => return Err(error),
        }
    }
    Err(StoreError::Busy {
        reason: "Another program kept saving the same file. Nothing was written; try again.".into(),
    })
}

fn record(shared: &Shared, project: &ProjectKey, changes: &[Change]) -> Committed {
    let written: Vec<(DocumentId, Option<Version>)> =
        changes.iter().map(|change| (change.id().clone(), change.version())).collect();
    let revision = shared.histories.record(project, &written);
    Committed { revision, versions: written.into_iter().map(|(_, version)| version).collect() }
}

fn apply(requirements: &Requirements<'_>, base: &Base, changes: &[Change]) -> Result<(), Failed> {
    let mut staged = Vec::with_capacity(changes.len());
    let mut exchanged = 0;
    let outcome = stage_all(requirements, base, changes, &mut staged)
        .map_err(Failed::from)
        .and_then(|()| exchange_all(&staged, &mut exchanged));
    if outcome.is_err() {
        for replacement in staged[..exchanged].iter().rev() {
            replacement.put_back();
        }
    }
    for replacement in &staged {
        replacement.remove_temp();
    }
    outcome
}

/// Puts every new file in place and makes that durable; `begun` counts how far it came.
fn exchange_all(staged: &[Replacement<'_>], begun: &mut usize) -> Result<(), Failed> {
    for replacement in staged {
        *begun += 1;
        replacement.exchange()?;
    }
    sync_folders(staged)?;
    let stands = staged.iter().all(Replacement::stands);
    if stands { Ok(()) } else { Err(Failed::ChangedSince) }
}

fn stage_all<'a>(
    requirements: &Requirements<'_>,
    base: &'a Base,
    changes: &'a [Change],
    staged: &mut Vec<Replacement<'a>>,
) -> StoreResult<()> {
    for change in changes {
        let found = base.get(change.id()).and_then(Option::as_ref);
        let Some(place) = requirements.place(change.id())? else {
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

fn sync_folders(staged: &[Replacement<'_>]) -> Result<(), Failed> {
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

/// What a killed process left: under the lock nobody else of ours can be writing, so all of it is
/// stale. Failing to remove it harms nobody.
fn remove_leftovers(requirements: &Requirements<'_>) {
    let Some(dir) = requirements.dir() else {
        return;
    };
    let Ok(entries) = dir.entries() else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(is_temp);
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            tracing::info!(name = ?name, "removing what an interrupted write left");
            let _ = dir.remove_file(&name);
        }
    }
}
