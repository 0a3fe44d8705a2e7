//! Group commits of documents, decided and written by one thread.
//!
//! No read happens between a transaction and its sync, so readers never see data that a power cut
//! could undo. sled cannot undo a transaction: a group whose sync failed was not acknowledged but
//! may be stored, so writes are disabled until a restart.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqlore_domain::audit_log::ChainHead;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::ports::documents::{
    CommitDecision, CommitRequest, CommitResult, DocumentChange, Revision, Snapshot, StoreError,
    StoreResult,
};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::{GroupEngine, GroupOutcome, catch_panic};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::timeout;

use crate::database::{
    BODIES, DELETIONS, DOCUMENTS, HISTORY, LINKS, PROJECTS, REFERENCES, SledDatabase, TreeBatch,
    WRITERS, WriteStop,
};
use crate::error::{damaged_database, damaged_document, from_sled};
use crate::item_list;
use crate::records::{
    DocumentRow, MAX_NAME_BYTES, PIECE_BYTES, ProjectRow, change_key, document_key, encode,
    link_keys, origin_row, parse_change_key, piece_key, reference_key, revision_prefix, seal_value,
};

/// A group writes its pending changes of trees when it has this number of them.
const MAX_PENDING_CHANGES: usize = 2000;
/// Maximum number of deletions of a project that are kept.
pub(crate) const MAX_DELETIONS: usize = if cfg!(test) { 50 } else { 100_000 };
/// Maximum number of rows of a project in [`WRITERS`].
pub(crate) const MAX_WRITERS: usize = if cfg!(test) { 5 } else { 10_000 };

/// The writer's view of the database. A transaction costs sled two blocking system calls, so
/// commits of independent documents share one.
#[derive(Debug)]
pub(crate) struct CommitGroup {
    pub(crate) database: Arc<SledDatabase>,
    /// Decided changes that are not written yet.
    pub(crate) pending: TreeBatch,
    /// The group wrote a transaction, so it needs a sync.
    is_dirty: bool,
    /// The newest audit row, which may be pending; `None` to read it from the tree.
    pub(crate) newest: Option<ChainHead>,
    /// Excludes readers and copies while a group is written.
    gate: Option<[OwnedRwLockWriteGuard<()>; 2]>,
    /// How long a group waits for the end of a copy.
    copy_timeout: Duration,
    /// Waits for the locks, which are asynchronous.
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
        let reads = &commit.read_set;
        // Lists and pending documents are read from the trees.
        let mut needs_write = reads.titles_of.is_some() || !reads.backlinks.targets.is_empty();
        for id in &reads.documents {
            needs_write |= self.pending.get(DOCUMENTS, &document_key(row.id, id)).is_some();
        }
        if needs_write {
            self.write_pending()?;
        }
        let mut titles = BTreeMap::new();
        if let Some(kind) = reads.titles_of {
            for meta in self.database.list_metadata(row.id, kind, None, usize::MAX)? {
                titles.insert(meta.id.name.clone(), meta.title.clone());
            }
        }
        let snapshot = Snapshot {
            documents: self.database.read_documents(row.id, &reads.documents)?,
            titles,
            backlinks: self.database.backlinks(row.id, &reads.backlinks)?,
            next_numbers: reads.sequences.iter().map(|kind| row.free_number(*kind)).collect(),
        };
        let decision = catch_panic(|| commit.decide(project, &snapshot))?;
        let versions = decision.changes.iter().map(DocumentChange::version).collect();
        let mut revision = Revision(row.revision);
        if !decision.changes.is_empty() {
            revision = self.stage_decision(project, row, decision, &commit.context)?;
        }
        Ok(CommitResult { revision, versions })
    }

    fn project_row(&self, project: &ProjectKey) -> StoreResult<ProjectRow> {
        let key = project.as_str().as_bytes();
        if let Some(Some(value)) = self.pending.get(PROJECTS, key)
            && let Some(row) = ProjectRow::decode(key, value)
        {
            return Ok(row);
        }
        self.database.project_row(project)
    }

    fn stage_decision(
        &mut self,
        project: &ProjectKey,
        mut row: ProjectRow,
        decision: CommitDecision,
        context: &WriteContext,
    ) -> StoreResult<Revision> {
        let CommitDecision { changes, audit, idempotency } = decision;
        // The next project id and the oldest deletions are read from the trees.
        if row.id == 0 || row.deletions >= MAX_DELETIONS as u64 {
            self.write_pending()?;
        }
        self.write_if_full()?;
        let mut batch = TreeBatch::default();
        self.database.stage_changes(&mut batch, project, &mut row, &changes, context)?;
        if let Some((key, record)) = &idempotency {
            self.database.put_record(&mut batch, key, record)?;
        }
        let newest = self.append_events(&mut batch, audit)?;
        // Nothing fails from here on, so a commit is pending as a whole or not at all.
        self.add_pending(batch, newest);
        Ok(Revision(row.revision))
    }

    /// Adds a batch to the pending changes. `newest` is the newest audit row in it.
    pub(crate) fn add_pending(&mut self, batch: TreeBatch, newest: Option<ChainHead>) {
        self.pending.append(batch);
        self.newest = newest.or(self.newest);
    }

    /// Writes the pending changes if there are [`MAX_PENDING_CHANGES`] or more.
    pub(crate) fn write_if_full(&mut self) -> StoreResult<()> {
        if self.pending.len() >= MAX_PENDING_CHANGES { self.write_pending() } else { Ok(()) }
    }

    /// Writes the pending changes in one transaction.
    pub(crate) fn write_pending(&mut self) -> StoreResult<()> {
        if self.pending.len() == 0 {
            return Ok(());
        }
        // Before the write: after an error it is unknown how much was written.
        self.is_dirty = true;
        self.database.write_batch(std::mem::take(&mut self.pending))
    }
}

impl GroupEngine for CommitGroup {
    type ReadPlan = ();

    fn begin_group(&mut self, _: &[&()]) -> StoreResult<()> {
        self.database.check_writable()?;
        let lock = Arc::clone(&self.database.copy_lock).write_owned();
        let locked = self.runtime.block_on(async { timeout(self.copy_timeout, lock).await });
        let Ok(copy_guard) = locked else {
            let reason = "the database is being copied; nothing was written, try again later";
            return Err(StoreError::Busy { reason: reason.to_owned() });
        };
        self.database.check_complete()?;
        let gate_guard = self.runtime.block_on(Arc::clone(&self.database.gate).write_owned());
        self.gate = Some([gate_guard, copy_guard]);
        Ok(())
    }

    fn finish_group(&mut self) -> StoreResult<GroupOutcome> {
        let mut result = self.write_pending();
        if result.is_ok() && self.is_dirty {
            result = self.database.sync();
        }
        self.is_dirty = false;
        // Readers continue only after the sync.
        self.gate = None;
        result.map(|()| GroupOutcome::Durable)
    }

    fn abort_group(&mut self) {
        self.pending = TreeBatch::default();
        self.newest = None;
        // A written transaction cannot be undone and was not synced.
        if std::mem::take(&mut self.is_dirty) {
            let error = StoreError::Internal("the writer panicked".to_owned());
            self.database.stop_writes(WriteStop::NotDurable, &error);
        }
        self.gate = None;
    }
}

impl SledDatabase {
    /// Adds one revision of a project to the batch. The last change of each document wins.
    fn stage_changes(
        &self,
        batch: &mut TreeBatch,
        project: &ProjectKey,
        row: &mut ProjectRow,
        changes: &[DocumentChange],
        context: &WriteContext,
    ) -> StoreResult<()> {
        self.begin_revision(batch, project, row)?;
        for change in DocumentChange::last_of_each(changes) {
            let id = change.id();
            let old = self.old_document(row.id, id)?;
            match change {
                DocumentChange::Put { document } => {
                    self.replace_document(batch, row, old, document, context)?;
                }
                DocumentChange::Delete { .. } => {
                    if let Some(old) = &old {
                        self.record_deletion(batch, row.id, id, &old.row, context)?;
                    }
                    delete_document(batch, row, old, id);
                }
            }
        }
        self.forget_deletions(batch, row)?;
        put_project(batch, project, row);
        Ok(())
    }

    /// Stages a new version of a document. The same text is no new version.
    fn replace_document(
        &self,
        batch: &mut TreeBatch,
        project: &mut ProjectRow,
        old: Option<OldDocument>,
        document: &Document,
        context: &WriteContext,
    ) -> StoreResult<()> {
        let id = &document.id;
        let (mut modified, mut place) = (context.at, None);
        let mut entry = PresentEntry { number: 0, origin: context.origin() };
        match &old {
            Some(OldDocument { row, .. }) => {
                place.clone_from(&row.place);
                let body = self.read_body(&document_key(project.id, id), row, id)?;
                if body == document.body {
                    (modified, entry) = (row.modified, row.entry());
                } else {
                    entry.number = row.number + 1;
                    self.end_version(batch, project.id, id, row, &body, context.at)?;
                }
            }
            None => entry.number = self.next_number(project.id, id)?,
        }
        put_document(batch, project, old, document, modified, place, entry)
    }

    pub(crate) fn old_document(
        &self,
        project: u32,
        id: &DocumentId,
    ) -> StoreResult<Option<OldDocument>> {
        let key = document_key(project, id);
        let Some(row) = self.document_row(&key, id)? else { return Ok(None) };
        // Without its metadata its keys in other trees are unknown.
        let Some(meta) = self.row_meta(id, &key, &row) else { return Err(damaged_document(id)) };
        Ok(Some(OldDocument { row, meta }))
    }

    /// Increases the revision as this writer and assigns an id to a new project.
    pub(crate) fn begin_revision(
        &self,
        batch: &mut TreeBatch,
        project: &ProjectKey,
        row: &mut ProjectRow,
    ) -> StoreResult<()> {
        check_length("the project", "key", project.as_str().len(), MAX_NAME_BYTES)?;
        row.revision += 1;
        if row.id == 0 {
            let mut last_id = 0;
            for (_, project) in self.list_projects()? {
                last_id = last_id.max(project.id);
            }
            row.id = last_id + 1;
        }
        if row.writer_id != self.writer_id {
            row.writer_id = self.writer_id;
            let key = revision_prefix(row.id, row.revision);
            let value = encode(&key, &self.writer_id);
            batch.put(WRITERS, key, value);
            self.forget_writers(batch, row)?;
        }
        Ok(())
    }

    /// Removes the oldest writers beyond [`MAX_WRITERS`]. Positions of theirs are unknown from now
    /// on.
    fn forget_writers(&self, batch: &mut TreeBatch, row: &mut ProjectRow) -> StoreResult<()> {
        let keys = self.tree(WRITERS).scan_prefix(row.id.to_be_bytes()).keys();
        // The batch contains one more row.
        let mut keys = keys.rev().skip(MAX_WRITERS - 2);
        let Some(first_kept) = keys.next() else { return Ok(()) };
        for key in keys {
            batch.remove(WRITERS, key.map_err(from_sled)?);
            // A project and a revision.
            let first = first_kept.as_ref().ok().and_then(|key| key.get(4..)?.first_chunk());
            let first = first.map_or(row.revision, |first| u64::from_be_bytes(*first));
            row.complete_from = row.complete_from.max(first);
        }
        Ok(())
    }

    /// Returns all projects, sorted by key.
    pub(crate) fn list_projects(&self) -> StoreResult<Vec<(ProjectKey, ProjectRow)>> {
        let mut projects = Vec::new();
        for entry in self.tree(PROJECTS) {
            let (key, value) = entry.map_err(from_sled)?;
            let (Ok(name), Some(row)) =
                (std::str::from_utf8(&key), ProjectRow::decode(&key, &value))
            else {
                return Err(damaged_database("a project's row"));
            };
            projects.push((ProjectKey::new(name), row));
        }
        Ok(projects)
    }

    /// Removes the oldest deletions beyond [`MAX_DELETIONS`].
    fn forget_deletions(&self, batch: &mut TreeBatch, row: &mut ProjectRow) -> StoreResult<()> {
        let deletions = usize::try_from(row.deletions).unwrap_or(usize::MAX);
        let oldest = self.tree(DELETIONS).scan_prefix(row.id.to_be_bytes()).keys();
        for key in oldest.take(deletions.saturating_sub(MAX_DELETIONS)) {
            let key = key.map_err(from_sled)?;
            // A damaged key has an unknown revision: the history is incomplete up to now.
            let revision = match parse_change_key(&key) {
                Some((revision, _)) => revision,
                None => row.revision,
            };
            row.complete_from = row.complete_from.max(revision);
            row.deletions -= 1;
            batch.remove(DELETIONS, key);
        }
        Ok(())
    }
}

/// A stored document without its body.
pub(crate) struct OldDocument {
    pub(crate) row: DocumentRow,
    meta: DocumentMeta,
}

/// Stores a document and removes the parts of its old version.
pub(crate) fn put_document(
    batch: &mut TreeBatch,
    project: &mut ProjectRow,
    old: Option<OldDocument>,
    document: &Document,
    modified: Timestamp,
    place: Option<Arc<str>>,
    entry: PresentEntry,
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
        meta: Vec::new(),
        number: entry.number,
        origin: origin_row(entry.origin),
    };
    let meta = DocumentMeta::from_document(document, modified);
    row.set_meta(&meta);
    project.raise_mark_to(id);
    match old {
        Some(old) => remove_parts(batch, project, &old),
        None => *project.counts.entry(id.kind.name().to_owned()).or_default() += 1,
    }
    let key = document_key(project.id, id);
    for (number, bytes) in (0..).zip(document.body.chunks(PIECE_BYTES)) {
        let key = piece_key(&key, number);
        let value = seal_value(&key, bytes);
        batch.put(BODIES, key, value);
    }
    for link in link_keys(project.id, &meta) {
        batch.put(LINKS, link, &[][..]);
    }
    if let Some(reference) = reference_key(project.id, &meta) {
        batch.put(REFERENCES, reference, &[][..]);
    }
    item_list::add(batch, project, &meta);
    batch.put(HISTORY, change_key(project.id, row.revision, id), &[][..]);
    let value = encode(&key, &row);
    batch.put(DOCUMENTS, key, value);
    Ok(())
}

pub(crate) fn put_project(batch: &mut TreeBatch, project: &ProjectKey, row: &ProjectRow) {
    let key = project.as_str().as_bytes();
    batch.put(PROJECTS, key, encode(key, row));
}

/// Rejects long keys and values: sled could move them to files of their own, which are not synced.
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
        remove_parts(batch, project, &old);
        batch.remove(DOCUMENTS, document_key(project.id, id));
        let count = project.counts.entry(id.kind.name().to_owned()).or_default();
        *count = count.saturating_sub(1);
    }
    batch.put(DELETIONS, change_key(project.id, project.revision, id), &[][..]);
    project.deletions += 1;
}

/// Removes all parts of a document except its row. A later put into the batch wins.
fn remove_parts(batch: &mut TreeBatch, project: &mut ProjectRow, old: &OldDocument) {
    let OldDocument { row, meta } = old;
    let id = &meta.id;
    for link in link_keys(project.id, meta) {
        batch.remove(LINKS, link);
    }
    let key = document_key(project.id, id);
    for piece in 0..row.body_pieces() {
        batch.remove(BODIES, piece_key(&key, piece));
    }
    batch.remove(HISTORY, change_key(project.id, row.revision, id));
    if let Some(reference) = reference_key(project.id, meta) {
        batch.remove(REFERENCES, reference);
    }
    item_list::remove(batch, project, meta);
}
