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
use crate::failpoint::{FailPoint, reached};
use crate::journal;
use crate::layout::{DocumentArea, ProjectTree};
use crate::lock::ProjectLock;
use crate::read_file::FileStamp;
use crate::sequence::HighWaterMarks;
use crate::stage_and_swap::{
    ApplyError, LoadedDocument, LoadedDocuments, exchange_all, lock_requirements, put_back,
    stage_all,
};
use crate::store_inner::{StoreInner, linkable_kinds_only, lock_index};
use crate::team::pending_audit::{self, AuditedCommit};

/// The most attempts at a commit while programs without the lock write in between.
const MAX_ATTEMPTS: usize = 3;

/// Runs a commit under the lock of the project's folder.
pub(crate) fn run_commit(
    shared: &StoreInner,
    project: &ProjectKey,
    mut commit: CommitRequest,
    lock: &ProjectLock,
) -> StoreResult<CommitResult> {
    let root = &lock.root;
    let step =
        |step| reached(step).map_err(|error| not_written("the project's folder", "commit", error));
    journal::recover(&shared.layout, lock)?;
    let needed = commit.context.audited.is_some() || commit.context.idempotency_key.is_some();
    let tree = ProjectTree::new(root, &shared.layout);
    pending_audit::recover(shared, project, &tree, commit.context.at, (needed, lock))?;
    shared.check_idempotency(&commit.context)?;
    for _ in 0..MAX_ATTEMPTS {
        let mut tree = ProjectTree::new(root, &shared.layout);
        let reads = &commit.reads;
        let kinds = reads.documents.iter().map(|id| id.kind).chain(reads.metadata_of);
        let _shared = lock_requirements(root, &tree, kinds)?;
        step(FailPoint::Locked)?;
        let base = load_documents(&tree, &reads.documents)?;
        let snapshot = read_snapshot(shared, project, &tree, reads, &base)?;
        step(FailPoint::Read)?;
        let CommitDecision { changes, audit, idempotency: once } =
            commit.decide(project, &snapshot)?;
        drop(snapshot);
        step(FailPoint::Decided)?;
        let catalog = shared.indexes.get(project);
        let record = |changes: &[DocumentChange]| {
            let revision = lock_index(&catalog).record_commit(changes, commit.context.at);
            HighWaterMarks::save_committed(root, changes);
            CommitResult {
                revision,
                versions: changes.iter().map(DocumentChange::version).collect(),
            }
        };
        if changes.is_empty() {
            return Ok(record(&[]));
        }
        shared.stale_temp_files.remove_all(&tree, &changes);
        for change in &changes {
            tree.create_folder(change.id())?;
        }
        let mut written = AuditedCommit {
            store: shared,
            project,
            event: audit,
            record: once,
            at: commit.context.at,
            intent: None,
        };
        let applied = apply_changes(&tree, &base, &changes, || written.prepare(lock));
        match applied {
            ApplyOutcome::Committed => {
                written.confirm();
                shared.stale_temp_files.mark_clean(&tree, &changes);
                return Ok(record(&changes));
            }
            ApplyOutcome::RolledBack(failed) => {
                let rolled_back = written.roll_back();
                if let ApplyError::Store(error) = failed {
                    return Err(error);
                }
                rolled_back?;
            }
            // The next writer sees how far it came.
            ApplyOutcome::Partial(error) => return Err(error),
        }
    }
    Err(StoreError::Busy {
        reason: "Another program kept saving the same file. Nothing was written; try again.".into(),
    })
}

/// The state on which a commit is decided.
fn read_snapshot(
    shared: &StoreInner,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    reads: &ReadSet,
    base: &LoadedDocuments,
) -> StoreResult<Snapshot> {
    let document = |id| base.get(id).and_then(Option::as_ref).map(|found| found.document.clone());
    let mut snapshot = Snapshot {
        documents: reads.documents.iter().map(document).collect(),
        ..Snapshot::default()
    };
    if let Some(kind) = reads.metadata_of {
        snapshot.metadata = read_metadata(shared, project, tree, kind, base)?;
    }
    if !reads.backlinks.targets.is_empty() {
        let links = linkable_kinds_only(&reads.backlinks);
        snapshot.backlinks =
            shared.query_refreshed(project, tree, &links.kinds, Refresh::Incremental, |known| {
                known.backlinks(&links)
            })?;
    }
    if !reads.sequences.is_empty() {
        let mut marks = HighWaterMarks::load(tree.root).without_exhausted();
        shared.query_refreshed(
            project,
            tree,
            DocumentArea::Backlog.kinds(),
            Refresh::Incremental,
            |known| {
                marks.merge(&known.high_water_marks());
            },
        )?;
        snapshot.next_numbers =
            reads.sequences.iter().map(|kind| marks.next_number(*kind)).collect();
    }
    Ok(snapshot)
}

/// Reads the documents of a commit. A file that looks half saved must not be replaced.
fn load_documents(tree: &ProjectTree<'_>, ids: &[DocumentId]) -> StoreResult<LoadedDocuments> {
    let mut base = LoadedDocuments::new();
    for id in ids {
        let found = LoadedDocument::read(tree, id)?;
        if found.as_ref().is_some_and(|found| found.is_partial) {
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
fn read_metadata(
    shared: &StoreInner,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    kind: DocumentKind,
    base: &LoadedDocuments,
) -> StoreResult<Vec<Arc<DocumentMeta>>> {
    let mut heads =
        shared.query_refreshed(project, tree, &[kind], Refresh::Incremental, |catalog| {
            catalog.all_of_kind(kind)
        })?;
    let read = |id: &DocumentId| base.get(id);
    heads.retain(|head| !matches!(read(&head.id), Some(None)));
    for head in &mut heads {
        if let Some(Some(found)) = read(&head.id)
            && found.document.version != head.version
        {
            let modified = FileStamp::from_metadata(&found.metadata).modified_at();
            *head = Arc::new(DocumentMeta::of(&found.document, modified));
        }
    }
    Ok(heads)
}

/// How far a commit came.
enum ApplyOutcome {
    Committed,
    RolledBack(ApplyError),
    /// Some of it may be there.
    Partial(StoreError),
}

/// Puts the changes in place. Calls `prepare` right before the first of them becomes visible.
fn apply_changes(
    tree: &ProjectTree<'_>,
    base: &LoadedDocuments,
    changes: &[DocumentChange],
    prepare: impl FnOnce() -> StoreResult<()>,
) -> ApplyOutcome {
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
        .map_err(ApplyError::from)
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
        (Ok(()), _) => ApplyOutcome::Committed,
        (Err(failed), Ok(())) => ApplyOutcome::RolledBack(failed),
        (Err(_), Err(error)) if journaled => {
            ApplyOutcome::Partial(journal::commit_left_open(&error))
        }
        (Err(ApplyError::Store(error)), Err(_))
        | (Err(ApplyError::ConcurrentWrite), Err(error)) => ApplyOutcome::Partial(error),
    }
}

/// True if at least two documents change besides AGENTS.md, which is derived.
fn needs_journal(base: &LoadedDocuments, changes: &[DocumentChange]) -> bool {
    let is_there = |change: &DocumentChange| {
        change.version().is_some() || base.get(change.id()).is_some_and(Option::is_some)
    };
    let own = |change: &&DocumentChange| {
        change.id().kind != DocumentKind::Instructions && is_there(change)
    };
    changes.iter().filter(own).nth(1).is_some()
}
