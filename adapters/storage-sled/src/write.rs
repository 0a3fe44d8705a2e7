//! Commits of documents, decided and written by one thread.
//!
//! Nothing is read between a transaction and the sync that makes it durable, so no reader sees what
//! a power cut takes back. sled can't undo a transaction. If a sync fails, its group was not
//! acknowledged and may still be stored, so nothing is written after it until a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqlore_domain::audit_log::ChainHead;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::ports::documents::{
    CommitDecision, CommitRequest, CommitResult, DocumentChange, Revision, Snapshot, StoreError,
    StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::{Engine, catch_panic};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::timeout;

use crate::database::{
    BODIES, DELETIONS, DOCUMENTS, HISTORY, LINKS, PROJECTS, REFERENCES, SledDatabase, TreeBatch,
};
use crate::error::{damaged_database, from_sled};
use crate::read::MAX_CHANGES;
use crate::records::{
    DocumentRow, MAX_NAME_BYTES, PIECE_BYTES, ProjectRow, decode, deletion_key, document_key,
    encode, history_key, link_keys, parse_deletion_key, piece_key, seal_value,
};

/// A group with this many changes of trees writes them before it goes on.
const MAX_PENDING_CHANGES: usize = 2000;

/// The database as its writer sees it. A transaction costs sled two waits for the operating system,
/// so commits that do not touch the same documents share one.
#[derive(Debug)]
pub(crate) struct CommitGroup {
    pub(crate) database: Arc<SledDatabase>,
    /// Decided and not written yet.
    pub(crate) pending: TreeBatch,
    /// Something was written since the group began.
    is_dirty: bool,
    /// The newest audit row, also a pending one; `None` to read it from the tree.
    pub(crate) newest: Option<ChainHead>,
    /// Keeps copies and readers out while a group is written.
    gate: Option<[OwnedRwLockWriteGuard<()>; 2]>,
    /// How long a group waits for a copy of the database to end.
    copy_timeout: Duration,
    /// Waits for the gate.
    runtime: Runtime,
}

impl CommitGroup {
    pub(crate) fn new(database: Arc<SledDatabase>, copy_timeout: Duration) -> io::Result<Self> {
        Ok(Self {
            database,
            pending: TreeBatch::default(),
            is_dirty: false,
            newest: None,
            gate: None,
            copy_timeout,
            runtime: Builder::new_current_thread().enable_time().build()?,
        })
    }

    pub(crate) fn commit(
        &mut self,
        project: &ProjectKey,
        mut commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        self.check_idempotency(&commit.context)?;
        let row = self.project_row(project)?;
        let reads = &commit.reads;
        let is_pending = |id| self.pending.get(DOCUMENTS, &document_key(row.id, id)).is_some();
        let reads_lists = reads.metadata_of.is_some() || !reads.backlinks.targets.is_empty();
        if reads_lists || reads.documents.iter().any(is_pending) {
            self.write_pending()?;
        }
        let mut heads = Vec::new();
        if let Some(kind) = reads.metadata_of {
            heads = self.database.list_metadata(row.id, kind, None, usize::MAX)?;
        }
        let snapshot = Snapshot {
            documents: self.database.read_documents(row.id, &reads.documents)?,
            metadata: heads,
            backlinks: self.database.backlinks(row.id, &reads.backlinks)?,
            next_numbers: reads.sequences.iter().map(|kind| row.free_number(*kind)).collect(),
        };
        let decision = catch_panic(|| commit.decide(project, &snapshot))?;
        let versions = decision.changes.iter().map(DocumentChange::version).collect();
        let mut revision = Revision(row.revision);
        if !decision.changes.is_empty() {
            revision = self.stage_decision(project, row, decision, commit.context.at)?;
        }
        Ok(CommitResult { revision, versions })
    }

    fn project_row(&self, project: &ProjectKey) -> StoreResult<ProjectRow> {
        let key = project.as_str().as_bytes();
        let pending = self.pending.get(PROJECTS, key).and_then(Option::as_ref);
        match pending.and_then(|value| decode(key, value)) {
            Some(row) => Ok(row),
            None => self.database.project_row(project),
        }
    }

    fn stage_decision(
        &mut self,
        project: &ProjectKey,
        mut row: ProjectRow,
        decision: CommitDecision,
        at: Timestamp,
    ) -> StoreResult<Revision> {
        let CommitDecision { changes, audit, idempotency: once } = decision;
        // The id of a new project and the oldest deletions are read from the trees.
        if row.id == 0 || row.deletions >= MAX_CHANGES as u64 {
            self.write_pending()?;
        }
        self.write_if_full()?;
        let mut batch = TreeBatch::default();
        self.database.stage_changes(&mut batch, project, &mut row, changes, at)?;
        if let Some((key, record)) = &once {
            self.database.put_record(&mut batch, key, record)?;
        }
        let newest = self.append_events(&mut batch, audit)?;
        // Nothing fails from here on: all of the commit is pending, or nothing.
        self.add_pending(batch, newest);
        Ok(Revision(row.revision))
    }

    /// Makes a batch pending, and the newest audit row in it the newest of all.
    pub(crate) fn add_pending(&mut self, batch: TreeBatch, newest: Option<ChainHead>) {
        self.pending.append(batch);
        self.newest = newest.or(self.newest);
    }

    /// Writes the pending changes if there are many.
    pub(crate) fn write_if_full(&mut self) -> StoreResult<()> {
        if self.pending.len() >= MAX_PENDING_CHANGES { self.write_pending() } else { Ok(()) }
    }

    /// Writes the pending changes in one transaction.
    pub(crate) fn write_pending(&mut self) -> StoreResult<()> {
        if self.pending.len() == 0 {
            return Ok(());
        }
        self.is_dirty = true;
        self.database.write_batch(std::mem::take(&mut self.pending))
    }
}

impl Engine for CommitGroup {
    fn begin(&mut self) -> StoreResult<()> {
        self.database.check_writable()?;
        let copies = Arc::clone(&self.database.copy_lock).write_owned();
        let ended = self.runtime.block_on(async { timeout(self.copy_timeout, copies).await });
        let Ok(copies) = ended else {
            let reason = "the database is being copied; nothing was written, try again later";
            return Err(StoreError::Busy { reason: reason.to_owned() });
        };
        self.database.check_complete()?;
        let gate = self.runtime.block_on(Arc::clone(&self.database.gate).write_owned());
        self.gate = Some([gate, copies]);
        Ok(())
    }

    fn end(&mut self) -> StoreResult<()> {
        let mut ended = self.write_pending();
        if ended.is_ok() && self.is_dirty {
            ended = self.database.sync();
        }
        self.is_dirty = false;
        self.gate = None;
        ended
    }

    fn abort(&mut self) {
        self.pending = TreeBatch::default();
        self.newest = None;
        if std::mem::take(&mut self.is_dirty) {
            self.database.is_write_disabled.store(true, Ordering::Relaxed);
        }
        self.gate = None;
    }
}

impl SledDatabase {
    /// Adds one revision of a project. The last change of a document takes effect.
    fn stage_changes(
        &self,
        batch: &mut TreeBatch,
        project: &ProjectKey,
        row: &mut ProjectRow,
        changes: Vec<DocumentChange>,
        at: Timestamp,
    ) -> StoreResult<()> {
        self.begin_revision(project, row)?;
        let last: BTreeMap<DocumentId, DocumentChange> =
            changes.into_iter().map(|change| (change.id().clone(), change)).collect();
        for (id, change) in last {
            let old = self.old_document(row.id, &id)?;
            match change {
                DocumentChange::Put { document } => {
                    let place = old.as_ref().and_then(|old| old.row.place.clone());
                    put_document(batch, row, old, &document, at, place)?;
                }
                DocumentChange::Delete { .. } => delete_document(batch, row, old, &id),
            }
        }
        self.forget_deletions(batch, row)?;
        put_project(batch, project, row);
        Ok(())
    }

    pub(crate) fn old_document(
        &self,
        project: u32,
        id: &DocumentId,
    ) -> StoreResult<Option<OldDocument>> {
        let key = document_key(project, id);
        let Some(row) = self.document_row(&key, id)? else { return Ok(None) };
        let meta = self.row_meta(id, &key, &row);
        let links = meta.map(|meta| link_keys(project, &meta)).unwrap_or_default();
        Ok(Some(OldDocument { row, links }))
    }

    /// Increases the revision, and gives a new project its id.
    pub(crate) fn begin_revision(
        &self,
        project: &ProjectKey,
        row: &mut ProjectRow,
    ) -> StoreResult<()> {
        check_length("the project", "key", project.as_str().len(), MAX_NAME_BYTES)?;
        row.revision += 1;
        if row.id == 0 {
            let ids = self.list_projects()?.into_iter().map(|(_, row)| row.id);
            row.id = ids.max().unwrap_or_default() + 1;
        }
        Ok(())
    }

    /// All projects by key.
    pub(crate) fn list_projects(&self) -> StoreResult<Vec<(ProjectKey, ProjectRow)>> {
        let mut projects = Vec::new();
        for entry in self.tree(PROJECTS) {
            let (key, value) = entry.map_err(from_sled)?;
            let name = std::str::from_utf8(&key).ok().map(ProjectKey::new);
            let project = name.zip(decode(&key, &value));
            projects.push(project.ok_or_else(|| damaged_database("a project's row"))?);
        }
        Ok(projects)
    }

    /// Removes the oldest deletions beyond the limit.
    fn forget_deletions(&self, batch: &mut TreeBatch, row: &mut ProjectRow) -> StoreResult<()> {
        let deletions = usize::try_from(row.deletions).unwrap_or(usize::MAX);
        let oldest = self.tree(DELETIONS).scan_prefix(row.id.to_be_bytes()).keys();
        for key in oldest.take(deletions.saturating_sub(MAX_CHANGES)) {
            let key = key.map_err(from_sled)?;
            let revision = parse_deletion_key(&key).map(|(revision, _)| revision);
            row.complete_from = row.complete_from.max(revision.unwrap_or(row.revision));
            row.deletions -= 1;
            batch.remove(DELETIONS, key);
        }
        Ok(())
    }
}

/// A stored document and its keys in [`LINKS`]. Those of a damaged document stay behind, which is
/// harmless: readers check the metadata.
pub(crate) struct OldDocument {
    row: DocumentRow,
    links: BTreeSet<Vec<u8>>,
}

/// Puts a document in the place of `old`.
pub(crate) fn put_document(
    batch: &mut TreeBatch,
    project: &mut ProjectRow,
    old: Option<OldDocument>,
    document: &Document,
    modified: Timestamp,
    place: Option<Arc<str>>,
) -> StoreResult<()> {
    let id = &document.id;
    check_length(&id.to_string(), "name", id.name.len(), MAX_NAME_BYTES)?;
    let place_bytes = place.as_ref().map_or(0, |place| place.len());
    check_length(&id.to_string(), "place", place_bytes, PIECE_BYTES)?;
    let mut row = DocumentRow {
        version: document.version,
        revision: project.revision,
        modified,
        place,
        length: document.body.len() as u64,
        reference: None,
        meta: Vec::new(),
    };
    let meta = DocumentMeta::of(document, modified);
    row.set_meta(&meta);
    project.raise_mark_to(id);
    match old {
        Some(old) => remove_parts(batch, project.id, id, &old),
        None => *project.counts.entry(id.kind.name().to_owned()).or_default() += 1,
    }
    let key = document_key(project.id, id);
    for (number, bytes) in (0..).zip(document.body.chunks(PIECE_BYTES)) {
        let key = piece_key(&key, number);
        let value = seal_value(&key, bytes);
        batch.put(BODIES, key, value);
    }
    put_references(batch, project.id, &row, &meta);
    batch.put(HISTORY, history_key(project.id, id, row.revision), &[][..]);
    let value = encode(&key, &row);
    batch.put(DOCUMENTS, key, value);
    Ok(())
}

/// Puts the keys by which a document is found: its links and its reference.
pub(crate) fn put_references(
    batch: &mut TreeBatch,
    project: u32,
    row: &DocumentRow,
    meta: &DocumentMeta,
) {
    for link in link_keys(project, meta) {
        batch.put(LINKS, link, &[][..]);
    }
    if let Some(reference) = row.reference_key(project, &meta.id) {
        batch.put(REFERENCES, reference, &[][..]);
    }
}

pub(crate) fn put_project(batch: &mut TreeBatch, project: &ProjectKey, row: &ProjectRow) {
    let key = project.as_str().as_bytes();
    batch.put(PROJECTS, key, encode(key, row));
}

/// A longer key or value might become a file of its own, which nothing syncs.
fn check_length(object: &str, part: &str, bytes: usize, limit: usize) -> StoreResult<()> {
    if bytes <= limit {
        return Ok(());
    }
    let reason = format!("its {part} is longer than {limit} bytes; choose a shorter one");
    Err(StoreError::Refused { place: object.to_owned(), reason })
}

fn delete_document(
    batch: &mut TreeBatch,
    project: &mut ProjectRow,
    old: Option<OldDocument>,
    id: &DocumentId,
) {
    project.raise_mark_to(id);
    if let Some(old) = old {
        remove_parts(batch, project.id, id, &old);
        batch.remove(DOCUMENTS, document_key(project.id, id));
        let count = project.counts.entry(id.kind.name().to_owned()).or_default();
        *count = count.saturating_sub(1);
    }
    batch.put(DELETIONS, deletion_key(project.id, project.revision, id), &[][..]);
    project.deletions += 1;
}

/// Removes everything of a document but its row. A later put into the batch prevails.
fn remove_parts(batch: &mut TreeBatch, project: u32, id: &DocumentId, old: &OldDocument) {
    for link in &old.links {
        batch.remove(LINKS, &link[..]);
    }
    let key = document_key(project, id);
    for piece in 0..old.row.body_pieces() {
        batch.remove(BODIES, piece_key(&key, piece));
    }
    batch.remove(HISTORY, history_key(project, id, old.row.revision));
    if let Some(reference) = old.row.reference_key(project, id) {
        batch.remove(REFERENCES, reference);
    }
}
