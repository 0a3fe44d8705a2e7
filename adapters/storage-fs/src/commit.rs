//! Commits changes of documents atomically and durably.
//!
//! Under the lock: read, decide, stage each new file completely, exchange it with its target, and
//! check the old file. If an editor saved in between, everything is rolled back and decided again.
//! Several documents go through the journal, so that the next process finishes a commit that was
//! killed between two exchanges. AGENTS.md is derived from the sections and is not journaled: a
//! killed process may leave a stale list, which the next commit corrects.

use std::sync::{Arc, Mutex};

use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::{
    CommitDecision, CommitRequest, CommitResult, DocumentChange, ReadSet, Refresh, Snapshot,
    StoreError, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_local_state::error::not_written;

use crate::clone_numbers::CloneNumbers;
use crate::failpoint::{FailPoint, hit_failpoint};
use crate::history::local_history;
use crate::journal;
use crate::layout::{DocumentArea, ProjectRoot, ProjectTree};
use crate::lock::ProjectLock;
use crate::metadata_index::MetadataIndex;
use crate::open_indexes::lock_index;
use crate::sequence::HighWaterMarks;
use crate::stage_and_swap::{
    ApplyError, LoadedDocument, LoadedDocuments, exchange_all, lock_requirements, put_back,
    stage_all,
};
use crate::store_inner::{StoreInner, linkable_kinds_only};
use crate::team::pending_audit::{self, AuditedCommit};

/// The number of attempts at a commit while programs without the lock write the same files.
const MAX_ATTEMPTS: usize = 3;

/// Runs a commit under the lock of the project's folder.
pub(crate) fn run_commit(
    store: &StoreInner,
    project: &ProjectKey,
    mut commit: CommitRequest,
    lock: &ProjectLock,
) -> StoreResult<CommitResult> {
    let root = &lock.root;
    // First, because the commit must not be decided on partially applied documents.
    journal::recover(&store.layout, lock)?;
    let is_recorded = commit.context.audited.is_some() || commit.context.idempotency_key.is_some();
    let tree = ProjectTree::new(root, &store.layout);
    pending_audit::recover(store, project, &tree, commit.context.at, is_recorded)?;
    // After the recovery, which may confirm the record of this very key.
    store.check_idempotency(&commit.context)?;
    let reads = &commit.read_set;
    let new = reads.sequences.iter().map(|kind| DocumentKind::Item(*kind));
    let kinds = reads.documents.iter().map(|id| id.kind).chain(new);
    store.check_checked_out(project, kinds.chain(reads.backlinks.kinds.iter().copied()))?;
    let mut clone = None;
    if !reads.sequences.is_empty() {
        clone = CloneNumbers::lock(root, store.git.home())?;
    }
    for _ in 0..MAX_ATTEMPTS {
        // Located again for each attempt: an editor may have moved a folder.
        let mut tree = ProjectTree::new(root, &store.layout);
        let reads = &commit.read_set;
        let kinds = reads.documents.iter().map(|id| id.kind).chain(reads.titles_of);
        let requirements_lock = lock_requirements(root, &tree, kinds)?;
        failpoint(FailPoint::Locked)?;
        let mut base = load_documents(&tree, &reads.documents)?;
        if base.values().flatten().any(|loaded| loaded.stamp.has_hard_links()) {
            // The second hard link may be a temporary file of a killed process.
            let documents = &reads.documents;
            store.stale_temp_files.remove_all(&tree, documents, requirements_lock.as_ref());
            base = load_documents(&tree, &reads.documents)?;
        }
        let snapshot = read_snapshot(store, project, &tree, reads, &base, clone.as_ref())?;
        failpoint(FailPoint::Read)?;
        let CommitDecision { changes, audit, idempotency } = commit.decide(project, &snapshot)?;
        // Frees the documents before new ones are staged.
        drop(snapshot);
        failpoint(FailPoint::Decided)?;
        let time = commit.context.at;
        // Held, so that it is not dropped before the commit is recorded.
        let index = store.indexes.get(project);
        if changes.is_empty() {
            return Ok(record_commit(&index, root, clone.as_ref(), &changes, time));
        }
        for change in &changes {
            tree.create_folder(change.id())?;
        }
        // Before staging: until then every temporary file belongs to a killed process.
        let changed = changes.iter().map(DocumentChange::id);
        store.stale_temp_files.remove_all(&tree, changed, requirements_lock.as_ref());
        let mut audited =
            AuditedCommit { store, project, event: audit, record: idempotency, time, intent: None };
        match apply_changes(&tree, &base, &changes, || audited.prepare()) {
            ApplyOutcome::Committed => {
                audited.confirm();
                store.stale_temp_files.mark_clean(&tree, &changes);
                local_history::record_commit(root, &commit.context, &base, &changes);
                return Ok(record_commit(&index, root, clone.as_ref(), &changes, time));
            }
            ApplyOutcome::RolledBack(error) => {
                // Also after a concurrent write: the next attempt prepares a new row.
                let rolled_back = audited.roll_back();
                if let ApplyError::Store(error) = error {
                    return Err(error);
                }
                rolled_back?;
            }
            // The next writer recovers: it compares the documents with the intent.
            ApplyOutcome::Partial(error) => return Err(error),
        }
    }
    Err(StoreError::Busy {
        reason: "Another program kept saving the same file. Nothing was written; try again.".into(),
    })
}

fn failpoint(step: FailPoint) -> StoreResult<()> {
    hit_failpoint(step).map_err(|error| not_written("the project's folder", "commit", error))
}

/// Updates the metadata index and the sequences after a commit.
fn record_commit(
    index: &Mutex<MetadataIndex>,
    root: &ProjectRoot,
    clone: Option<&CloneNumbers>,
    changes: &[DocumentChange],
    time: Timestamp,
) -> CommitResult {
    let revision = lock_index(index).record_commit(changes, time);
    let shared = clone.map(|clone| (&clone.common_folder, &*clone.file_name));
    HighWaterMarks::save_committed(root, shared, changes);
    let versions = changes.iter().map(DocumentChange::version).collect();
    CommitResult { revision, versions }
}

/// Reads the state on which a commit decides.
fn read_snapshot(
    store: &StoreInner,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    reads: &ReadSet,
    base: &LoadedDocuments,
    clone: Option<&CloneNumbers>,
) -> StoreResult<Snapshot> {
    let mut snapshot = Snapshot::default();
    for id in &reads.documents {
        // Cloning shares the bytes.
        let loaded = base.get(id).and_then(Option::as_ref);
        snapshot.documents.push(loaded.map(|loaded| loaded.document.clone()));
    }
    if let Some(kind) = reads.titles_of {
        for meta in read_metadata(store, project, tree, kind, base)? {
            snapshot.titles.insert(meta.id.name.clone(), meta.title.clone());
        }
    }
    if !reads.backlinks.targets.is_empty() {
        let query = linkable_kinds_only(&reads.backlinks);
        snapshot.backlinks =
            store.query_refreshed(project, tree, &query.kinds, Refresh::Incremental, |index| {
                index.backlinks(&query)
            })?;
    }
    if !reads.sequences.is_empty() {
        let mut marks = HighWaterMarks::load(tree.root).without_exhausted();
        if let Some(clone) = clone {
            marks.merge(&clone.high_water_marks(store));
        }
        let kinds = DocumentArea::Backlog.kinds();
        store.query_refreshed(project, tree, kinds, Refresh::Incremental, |index| {
            marks.merge(&index.high_water_marks());
        })?;
        snapshot.next_numbers =
            reads.sequences.iter().map(|kind| marks.next_number(*kind)).collect();
    }
    Ok(snapshot)
}

/// Reads the documents of a commit. Rejects a file that looks partially saved: it must not be
/// replaced.
fn load_documents(tree: &ProjectTree<'_>, ids: &[DocumentId]) -> StoreResult<LoadedDocuments> {
    let mut base = LoadedDocuments::new();
    for id in ids {
        let loaded = LoadedDocument::read(tree, id)?;
        if loaded.as_ref().is_some_and(|loaded| loaded.is_partial) {
            let reason = format!(
                "{id} is empty or partially written, as if another program were saving it. \
                 Nothing was written; try again in a moment."
            );
            return Err(StoreError::Busy { reason });
        }
        base.insert(id.clone(), loaded);
    }
    Ok(base)
}

/// Reads the metadata of a kind, and replaces that of documents which the commit has read itself.
fn read_metadata(
    store: &StoreInner,
    project: &ProjectKey,
    tree: &ProjectTree<'_>,
    kind: DocumentKind,
    base: &LoadedDocuments,
) -> StoreResult<Vec<Arc<DocumentMeta>>> {
    let mut all = store.query_refreshed(project, tree, &[kind], Refresh::Incremental, |index| {
        index.all_of_kind(kind)
    })?;
    // The index may be older or newer than the documents that the decision is based on.
    all.retain(|metadata| !matches!(base.get(&metadata.id), Some(None)));
    for metadata in &mut all {
        if let Some(Some(loaded)) = base.get(&metadata.id)
            && loaded.document.version != metadata.version
        {
            let modified_at = loaded.stamp.modified_at();
            *metadata = Arc::new(DocumentMeta::from_document(&loaded.document, modified_at));
        }
    }
    Ok(all)
}

enum ApplyOutcome {
    Committed,
    RolledBack(ApplyError),
    /// Some of the changes may be in place.
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
    let mut is_journaled = false;
    let outcome = stage_all(tree, base, changes, &mut staged)
        // Before the journal: a commit that another process finishes must have its row.
        .and_then(|()| prepare())
        .and_then(|()| {
            if needs_journal(base, changes) {
                journal::write(tree.root, base, changes)?;
                is_journaled = true;
            }
            Ok(())
        })
        .map_err(ApplyError::from)
        .and_then(|()| exchange_all(&staged, &mut exchanged));
    let restored = match outcome {
        Ok(()) => Ok(()),
        Err(_) => put_back(&staged[..exchanged], is_journaled),
    };
    // A partial commit needs its journal. So it is removed only when all files are durably new, or
    // all durably old.
    if is_journaled && restored.is_ok() {
        journal::remove(tree.root);
    }
    // After a commit, too: the temporary names then hold the old files.
    for replacement in &staged {
        replacement.remove_temp();
    }
    match (outcome, restored) {
        (Ok(()), _) => ApplyOutcome::Committed,
        (Err(error), Ok(())) => ApplyOutcome::RolledBack(error),
        (Err(_), Err(error)) if is_journaled => {
            ApplyOutcome::Partial(journal::commit_left_open(&error))
        }
        (Err(_), Err(error)) => ApplyOutcome::Partial(state_unknown(&error)),
    }
}

/// The error of a change that failed and could not be undone.
fn state_unknown(error: &StoreError) -> StoreError {
    let reason = format!(
        "{error}. It is unknown whether the change was written: read the document before you try \
         again"
    );
    StoreError::Unavailable { subject: "the project's folder".to_owned(), reason, source: None }
}

/// True if at least two documents change besides AGENTS.md, which is derived.
fn needs_journal(base: &LoadedDocuments, changes: &[DocumentChange]) -> bool {
    let mut count = 0;
    for change in changes {
        // Deleting a document that does not exist changes nothing.
        let existed = base.get(change.id()).is_some_and(Option::is_some);
        let is_effective = change.version().is_some() || existed;
        if is_effective && change.id().kind != DocumentKind::Instructions {
            count += 1;
        }
    }
    count >= 2
}
