//! Writing: what a commit changes in the trees, and the one thread that does it.
//!
//! Nobody looks between a transaction and the sync that makes it durable: what is read is never
//! taken back by a power cut. The trap: sled can't undo a transaction. When a sync fails, its group
//! was not acknowledged and may still be there, so nothing is written after it until a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqlore_domain::audit;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, Decision, ReadSet, Revision, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use reqlore_group_commit::{Engine, decide};

use crate::base::{
    BODIES, Base, Batch, DELETIONS, DOCUMENTS, HISTORY, LINKS, PROJECTS, REFERENCES,
};
use crate::error::{busy, damaged, of_sled};
use crate::keys;
use crate::read::MOST_CHANGES;
use crate::values::{PIECE_BYTES, ProjectRow, Row, decode, encode, seal};

/// A transaction is written when it has this many changes of trees; bodies come in pieces.
const MOST_AT_ONCE: usize = 2000;

/// The database as its one writer sees it. Each transaction costs sled two writes that it waits
/// for, so commits that don't touch each other share one.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) base: Arc<Base>,
    /// Something was written since the group began.
    dirty: bool,
    /// What was decided and not written yet, with the documents and the keys of writes that it is
    /// about.
    pending: Batch,
    rows: BTreeMap<ProjectKey, ProjectRow>,
    touched: BTreeSet<(ProjectKey, DocumentId)>,
    pub(crate) keys: BTreeSet<String>,
    /// The newest row of the audit, also a pending one; `None` while the trees tell.
    pub(crate) newest: Option<audit::ChainHead>,
    /// It was said that the audit can't be pruned any further.
    pub(crate) told_of_row: bool,
}

impl Group {
    pub(crate) fn new(base: Arc<Base>) -> Self {
        let (pending, rows, touched, keys) = Default::default();
        Self { base, dirty: false, pending, rows, touched, keys, newest: None, told_of_row: false }
    }

    pub(crate) fn commit(
        &mut self,
        project: &ProjectKey,
        mut commit: Commit,
    ) -> StoreResult<Committed> {
        self.check_idempotency(&commit.act)?;
        let ReadSet { documents, heads, links, numbers } = &commit.reads;
        let touched = |id: &DocumentId| self.touched.contains(&(project.clone(), id.clone()));
        let lists = heads.is_some() || !links.targets.is_empty();
        if lists || documents.iter().any(touched) {
            self.write()?;
        }
        let known = match self.rows.get(project) {
            Some(row) => Some(row.clone()),
            None => self.base.project(project)?,
        };
        let heads = match (&known, heads) {
            (Some(row), Some(kind)) => self.base.heads(row.id, *kind, None, usize::MAX)?,
            _ => Vec::new(),
        };
        let documents = self.base.get(project, documents)?;
        let links = self.base.backlinks(project, links, usize::MAX)?.unwrap_or_default();
        let free = |kind: &ItemKind| known.as_ref().map_or(1, |row| row.free(*kind));
        let numbers = numbers.iter().map(free).collect();
        let snapshot = Snapshot { documents, heads, links, numbers };
        let decided = decide(&mut commit, project, &snapshot)?;
        let versions = decided.changes.iter().map(Change::version).collect();
        let revision = if decided.changes.is_empty() {
            known.map_or(0, |row| row.revision)
        } else {
            self.stage(project, known, decided, commit.act.at)?
        };
        Ok(Committed { revision: Revision(revision), versions })
    }

    fn stage(
        &mut self,
        project: &ProjectKey,
        known: Option<ProjectRow>,
        decided: Decision,
        at: Timestamp,
    ) -> StoreResult<u64> {
        let Decision { changes, audit, once } = decided;
        // A new project's number and the oldest deletions are looked up in the trees.
        let looks_up = known.as_ref().is_none_or(|row| row.deletions >= MOST_CHANGES as u64);
        if looks_up {
            self.write()?;
        }
        self.make_room()?;
        let mut row = known.unwrap_or_default();
        let mut batch = Batch::default();
        let ids = changes.iter().map(|change| (project.clone(), change.id().clone()));
        let ids: Vec<_> = ids.collect();
        self.base.stage(&mut batch, project, &mut row, changes, at)?;
        if let Some((key, earlier)) = &once {
            self.base.put_earlier(&mut batch, key, earlier)?;
        }
        let newest = self.chained(&mut batch, audit)?;
        // Nothing fails from here on: all of it is pending, or nothing.
        self.take(batch, newest);
        self.keys.extend(once.map(|(key, _)| key));
        self.touched.extend(ids);
        let revision = row.revision;
        self.rows.insert(project.clone(), row);
        Ok(revision)
    }

    /// Takes in what was decided, and the row of the audit that is the newest with it.
    pub(crate) fn take(&mut self, batch: Batch, newest: Option<audit::ChainHead>) {
        self.pending.append(batch);
        self.newest = newest.or(self.newest);
    }

    /// Writes what is pending when it is much.
    pub(crate) fn make_room(&mut self) -> StoreResult<()> {
        if self.pending.len() >= MOST_AT_ONCE { self.write() } else { Ok(()) }
    }

    /// Writes what is pending, in one transaction.
    pub(crate) fn write(&mut self) -> StoreResult<()> {
        self.rows.clear();
        self.touched.clear();
        self.keys.clear();
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        self.dirty = true;
        // What was pending is gone with the error, and the newest row may have been among it.
        self.base.write(pending).inspect_err(|_| self.newest = None)
    }

    fn settle(&mut self) -> StoreResult<()> {
        self.write()?;
        if self.dirty { self.base.settle() } else { Ok(()) }
    }
}

impl Engine for Group {
    fn begin(&mut self) -> StoreResult<()> {
        self.base.check_writable()?;
        if !self.base.gate.write() {
            return Err(busy());
        }
        self.base.check_complete().inspect_err(|_| self.base.gate.written())
    }

    fn end(&mut self) -> StoreResult<()> {
        let ended = self.settle();
        self.dirty = false;
        self.base.gate.written();
        ended
    }

    fn abort(&mut self) {
        (self.pending, self.rows, self.touched, self.keys) = Default::default();
        self.newest = None;
        if std::mem::take(&mut self.dirty) {
            self.base.broken.store(true, Ordering::Relaxed);
        }
        self.base.gate.written();
    }
}

impl Base {
    /// One revision of a project. Of several changes of a document the last one counts.
    fn stage(
        &self,
        batch: &mut Batch,
        project: &ProjectKey,
        row: &mut ProjectRow,
        changes: Vec<Change>,
        at: Timestamp,
    ) -> StoreResult<()> {
        self.next_revision(project, row)?;
        let last: BTreeMap<DocumentId, Change> =
            changes.into_iter().map(|change| (change.id().clone(), change)).collect();
        for (id, change) in last {
            let key = keys::document(row.id, &id);
            let old = self.old(row.id, &key, &id)?;
            match change {
                Change::Put { document } => {
                    let place = old.as_ref().and_then(|old| old.row.place.clone());
                    put(batch, row, old, &document, at, place)?;
                }
                Change::Delete { .. } => delete(batch, row, old, &id),
            }
        }
        self.forget(batch, row)?;
        let key = project.as_str().as_bytes();
        batch.put(PROJECTS, key, encode(key, row));
        Ok(())
    }

    /// The document that is there.
    pub(crate) fn old(
        &self,
        project: u32,
        key: &[u8],
        id: &DocumentId,
    ) -> StoreResult<Option<Old>> {
        let Some(row) = self.row(key, id)? else { return Ok(None) };
        let head = self.head_of(id, key, &row);
        let links = head.map(|head| links(project, &head)).unwrap_or_default();
        Ok(Some(Old { row, links }))
    }

    /// Counts, and gives a new project its number.
    pub(crate) fn next_revision(
        &self,
        project: &ProjectKey,
        row: &mut ProjectRow,
    ) -> StoreResult<()> {
        check_length("the project", "key", project.as_str().len(), keys::MAX_NAME)?;
        row.revision += 1;
        if row.id == 0 {
            let ids = self.tree(PROJECTS).iter().map(|entry| {
                let (key, value) = entry.map_err(of_sled)?;
                let row = decode::<ProjectRow>(&key, &value);
                row.map(|row| row.id).ok_or_else(|| damaged("a project's row"))
            });
            let ids: Vec<u32> = ids.collect::<StoreResult<_>>()?;
            row.id = ids.into_iter().max().unwrap_or_default() + 1;
        }
        Ok(())
    }

    /// Forgets the oldest deletions.
    fn forget(&self, batch: &mut Batch, row: &mut ProjectRow) -> StoreResult<()> {
        let many = usize::try_from(row.deletions).unwrap_or(usize::MAX);
        let project = row.id.to_be_bytes();
        let oldest = self.tree(DELETIONS).scan_prefix(project).keys();
        for key in oldest.take(many.saturating_sub(MOST_CHANGES)) {
            let key = key.map_err(of_sled)?;
            let revision = keys::deleted(&key).map(|(revision, _)| revision);
            row.complete_from = row.complete_from.max(revision.unwrap_or(row.revision));
            row.deletions -= 1;
            batch.remove(DELETIONS, key);
        }
        Ok(())
    }
}

/// A document that is there, and where it stands among the links. What a damaged one left there is
/// no harm: whoever looks asks the heads.
pub(crate) struct Old {
    row: Row,
    links: BTreeSet<Vec<u8>>,
}

/// Puts a document in the place of `old`.
pub(crate) fn put(
    batch: &mut Batch,
    project: &mut ProjectRow,
    old: Option<Old>,
    document: &Document,
    modified: Timestamp,
    place: Option<Arc<str>>,
) -> StoreResult<()> {
    let id = &document.id;
    check_length(&id.to_string(), "name", id.name.len(), keys::MAX_NAME)?;
    let place_bytes = place.as_ref().map_or(0, |place| place.len());
    check_length(&id.to_string(), "place", place_bytes, PIECE_BYTES)?;
    let key = keys::document(project.id, id);
    let (length, revision) = (document.body.len() as u64, project.revision);
    let mut row = Row {
        version: document.version,
        revision,
        modified,
        place,
        length,
        reference: None,
        head: Vec::new(),
    };
    let head = DocumentMeta::of(document, modified);
    row.set_head(&head);
    project.count_number(id);
    match old {
        Some(old) => take_out(batch, project.id, id, &old),
        None => *project.counts.entry(id.kind.name().to_owned()).or_default() += 1,
    }
    for link in links(project.id, &head) {
        batch.put(LINKS, link, &[][..]);
    }
    for (number, bytes) in (0..).zip(document.body.chunks(PIECE_BYTES)) {
        let key = keys::piece(&key, number);
        let value = seal(&key, bytes);
        batch.put(BODIES, key, value);
    }
    if let Some(reference) = reference(project.id, id, &row) {
        batch.put(REFERENCES, reference, &[][..]);
    }
    batch.put(HISTORY, keys::change(project.id, id, revision), &[][..]);
    let value = encode(&key, &row);
    batch.put(DOCUMENTS, key, value);
    Ok(())
}

/// What is longer might become a file of its own, which nobody syncs.
fn check_length(of: &str, what: &str, bytes: usize, most: usize) -> StoreResult<()> {
    if bytes <= most {
        return Ok(());
    }
    let reason = format!("its {what} is longer than {most} bytes; choose a shorter one");
    Err(StoreError::Refused { place: of.to_owned(), reason })
}

fn delete(batch: &mut Batch, project: &mut ProjectRow, old: Option<Old>, id: &DocumentId) {
    project.count_number(id);
    if let Some(old) = old {
        take_out(batch, project.id, id, &old);
        batch.remove(DOCUMENTS, keys::document(project.id, id));
        let count = project.counts.entry(id.kind.name().to_owned()).or_default();
        *count = count.saturating_sub(1);
    }
    batch.put(DELETIONS, keys::deletion(project.id, project.revision, id), &[][..]);
    project.deletions += 1;
}

/// Everything of a document but its row; what is put afterwards stays.
fn take_out(batch: &mut Batch, project: u32, id: &DocumentId, Old { row: old, links }: &Old) {
    for link in links {
        batch.remove(LINKS, &link[..]);
    }
    let key = keys::document(project, id);
    (0..old.pieces()).for_each(|piece| batch.remove(BODIES, keys::piece(&key, piece)));
    batch.remove(HISTORY, keys::change(project, id, old.revision));
    if let Some(reference) = reference(project, id, old) {
        batch.remove(REFERENCES, reference);
    }
}

/// Where a document stands among the links.
pub(crate) fn links(project: u32, head: &DocumentMeta) -> BTreeSet<Vec<u8>> {
    let links = head.links();
    let key = |target: &str| {
        let target = keys::link(project, head.id.kind, target);
        [&target, head.id.name.as_bytes()].concat()
    };
    links.iter().map(|(_, target)| key(target)).collect()
}

/// Where a document stands among the references.
pub(crate) fn reference(project: u32, id: &DocumentId, row: &Row) -> Option<Vec<u8>> {
    let reference = keys::reference(project, id.kind, row.reference.as_ref()?);
    Some([&reference, id.name.as_bytes()].concat())
}
