//! One commit on files: all changes or none, on disk before the answer.
//!
//! Under the lock: read, decide, stage every new file completely, then exchange each with its
//! target and check the file that came out. If that is not the one that was read, an editor saved
//! in between: all is put back and decided again. Several documents go through the journal, so the
//! next process finishes a commit that was killed between two exchanges. AGENTS.md is derived from
//! the sections: without a journal a killed process may leave a stale list, which the next commit
//! corrects.

use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::{
    CommitDecision, CommitRequest, CommitResult, DocumentChange, ReadSet, Refresh, Snapshot,
    StoreError, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;

use crate::error::not_written;
use crate::failpoint::{Step, reached};
use crate::journal;
use crate::layout::{Area, Tree};
use crate::lock::Lock;
use crate::marks::Marks;
use crate::read::Stamp;
use crate::shared::{Shared, locked, watched};
use crate::stage_and_swap::{
    Base, Failed, Found, exchange_all, lock_requirements, put_back, stage_all,
};
use crate::team::pending_audit::{self, AuditedCommit};

/// The most attempts at a commit while programs without the lock write in between.
const ATTEMPTS: usize = 3;

/// Runs a commit under the lock of the project's folder.
pub(crate) fn run(
    shared: &Shared,
    project: &ProjectKey,
    mut commit: CommitRequest,
    lock: &Lock,
) -> StoreResult<CommitResult> {
    let root = &lock.root;
    let step =
        |step| reached(step).map_err(|error| not_written("the project's folder", "commit", error));
    journal::settle(&shared.layout, lock)?;
    let needed = commit.context.audited.is_some() || commit.context.idempotency_key.is_some();
    let tree = Tree::new(root, &shared.layout);
    pending_audit::recover(shared, project, &tree, commit.context.at, (needed, lock))?;
    shared.check_idempotency(&commit.context)?;
    for _ in 0..ATTEMPTS {
        let mut tree = Tree::new(root, &shared.layout);
        let reads = &commit.reads;
        let kinds = reads.documents.iter().map(|id| id.kind).chain(reads.metadata_of);
        let _shared = lock_requirements(root, &tree, kinds)?;
        step(Step::Locked)?;
        let base = read_all(&tree, &reads.documents)?;
        let snapshot = snapshot(shared, project, &tree, reads, &base)?;
        step(Step::Read)?;
        let CommitDecision { changes, audit, idempotency: once } =
            commit.decide(project, &snapshot)?;
        drop(snapshot);
        step(Step::Decided)?;
        let catalog = shared.catalogs.of(project);
        let record = |changes: &[DocumentChange]| {
            let revision = locked(&catalog).record(changes, commit.context.at);
            Marks::keep(root, changes);
            CommitResult {
                revision,
                versions: changes.iter().map(DocumentChange::version).collect(),
            }
        };
        if changes.is_empty() {
            return Ok(record(&[]));
        }
        shared.leftovers.remove(&tree, &changes);
        for change in &changes {
            tree.create_folder(change.id())?;
        }
        let mut written = AuditedCommit {
            shared,
            project,
            event: audit,
            record: once,
            at: commit.context.at,
            intent: None,
        };
        let applied = apply(&tree, &base, &changes, || written.prepare(lock));
        match applied {
            Applied::Done => {
                written.confirm();
                shared.leftovers.none(&tree, &changes);
                return Ok(record(&changes));
            }
            Applied::Undone(failed) => {
                let rolled_back = written.roll_back();
                if let Failed::Store(error) = failed {
                    return Err(error);
                }
                rolled_back?;
            }
            // The next writer sees how far it came.
            Applied::Half(error) => return Err(error),
        }
    }
    Err(StoreError::Busy {
        reason: "Another program kept saving the same file. Nothing was written; try again.".into(),
    })
}

/// The state on which a commit is decided.
fn snapshot(
    shared: &Shared,
    project: &ProjectKey,
    tree: &Tree<'_>,
    reads: &ReadSet,
    base: &Base,
) -> StoreResult<Snapshot> {
    let document = |id| base.get(id).and_then(Option::as_ref).map(|found| found.document.clone());
    let mut snapshot = Snapshot {
        documents: reads.documents.iter().map(document).collect(),
        ..Snapshot::default()
    };
    if let Some(kind) = reads.metadata_of {
        snapshot.metadata = heads(shared, project, tree, kind, base)?;
    }
    if !reads.backlinks.targets.is_empty() {
        let links = watched(&reads.backlinks);
        snapshot.backlinks =
            shared.refreshed(project, tree, &links.kinds, Refresh::Incremental, |known| {
                known.backlinks(&links)
            })?;
    }
    if !reads.sequences.is_empty() {
        let mut marks = Marks::load(tree.root).believed();
        shared.refreshed(project, tree, Area::Backlog.kinds(), Refresh::Incremental, |known| {
            marks.merge(&known.marks());
        })?;
        snapshot.next_numbers = reads.sequences.iter().map(|kind| marks.free(*kind)).collect();
    }
    Ok(snapshot)
}

/// Reads the documents of a commit. A file that looks half saved must not be replaced.
fn read_all(tree: &Tree<'_>, ids: &[DocumentId]) -> StoreResult<Base> {
    let mut base = Base::new();
    for id in ids {
        let found = Found::read(tree, id)?;
        if found.as_ref().is_some_and(|found| found.is_torn) {
            let reason = format!(
                "{id} is empty or half written, as if another program were saving it. Nothing \
                 was written; try again in a moment."
            );
            return Err(StoreError::Busy { reason });
        }
        base.insert(id.clone(), found);
    }
    Ok(base)
}

/// The metadata of a kind, with that of the documents that were read.
fn heads(
    shared: &Shared,
    project: &ProjectKey,
    tree: &Tree<'_>,
    kind: DocumentKind,
    base: &Base,
) -> StoreResult<Vec<Arc<DocumentMeta>>> {
    let mut heads = shared
        .refreshed(project, tree, &[kind], Refresh::Incremental, |catalog| catalog.heads(kind))?;
    let read = |id: &DocumentId| base.get(id);
    heads.retain(|head| !matches!(read(&head.id), Some(None)));
    for head in &mut heads {
        if let Some(Some(found)) = read(&head.id)
            && found.document.version != head.version
        {
            let modified = Stamp::of(&found.metadata).modified();
            *head = Arc::new(DocumentMeta::of(&found.document, modified));
        }
    }
    Ok(heads)
}

/// How far a commit came.
enum Applied {
    Done,
    Undone(Failed),
    /// Some of it may be there.
    Half(StoreError),
}

/// Puts the changes in place. Calls `prepare` right before the first of them becomes visible.
fn apply(
    tree: &Tree<'_>,
    base: &Base,
    changes: &[DocumentChange],
    prepare: impl FnOnce() -> StoreResult<()>,
) -> Applied {
    let mut staged = Vec::with_capacity(changes.len());
    let mut exchanged = 0;
    let mut journaled = false;
    let outcome = stage_all(tree, base, changes, &mut staged)
        // Before the journal: a commit that another process finishes must have its row.
        .and_then(|()| prepare())
        .and_then(|()| {
            if needs_journal(base, changes) {
                journal::write(tree.root, base, changes)?;
                journaled = true;
            }
            Ok(())
        })
        .map_err(Failed::from)
        .and_then(|()| exchange_all(&staged, &mut exchanged));
    let whole = if outcome.is_err() { put_back(&staged[..exchanged], journaled) } else { Ok(()) };
    // Not before all is new or all is old, durably: a commit that is half done needs it.
    if journaled && whole.is_ok() {
        journal::remove(tree.root);
    }
    for replacement in &staged {
        replacement.remove_temp();
    }
    match (outcome, whole) {
        (Ok(()), _) => Applied::Done,
        (Err(failed), Ok(())) => Applied::Undone(failed),
        (Err(_), Err(error)) if journaled => Applied::Half(journal::kept(&error)),
        (Err(Failed::Store(error)), Err(_)) | (Err(Failed::ChangedSince), Err(error)) => {
            Applied::Half(error)
        }
    }
}

/// True if at least two documents change besides AGENTS.md, which is derived.
fn needs_journal(base: &Base, changes: &[DocumentChange]) -> bool {
    let is_there = |change: &DocumentChange| {
        change.version().is_some() || base.get(change.id()).is_some_and(Option::is_some)
    };
    let own = |change: &&DocumentChange| {
        change.id().kind != DocumentKind::Instructions && is_there(change)
    };
    changes.iter().filter(own).nth(1).is_some()
}
