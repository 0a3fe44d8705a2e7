//! Export and import of the whole database.
//!
//! sled has no snapshots, so an export holds the read guard until its reader is dropped. A commit
//! that waits too long for it fails with "busy".

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, Kind};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, Identities, RecordReader, RecordWriter,
};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project::ProjectKey;

use crate::audit::put_row;
use crate::base::{AUDIT, Base, Batch, EPOCH, FILLING, META, PROJECTS, TOKENS, USERS};
use crate::error::{INCOMPLETE, damaged, damaged_document, of_sled, refused};
use crate::gate::Looking;
use crate::values::{ProjectRow, Row, decode, encode, seal};
use crate::{SledStore, blocking, keys, read, write};

/// The size of a batch, in records and in bytes.
const BATCH_RECORDS: usize = 1000;
const BATCH_BYTES: usize = 2_000_000;
/// The most users, tokens or audit rows that one transaction imports.
const IMPORT_CHUNK: usize = 500;

#[async_trait]
impl Archive for SledStore {
    async fn read(&self) -> StoreResult<Box<dyn RecordReader>> {
        let open = self.opened()?;
        blocking(move || {
            let base = Arc::clone(&open.base);
            let looking = base.gate.copy();
            base.check_complete()?;
            let projects = base.projects()?;
            let total: u64 = projects.iter().map(|(_, row)| row.total()).sum();
            let total = usize::try_from(total).ok();
            let next = Place { project: 0, kind: 0, after: None };
            let reader: Box<dyn RecordReader> = Box::new(SledReader {
                base,
                _looking: looking,
                projects,
                total,
                next,
                is_past_tokens: false,
                row: 0,
            });
            Ok(reader)
        })
        .await
    }

    async fn fill(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let open = self.opened()?;
        blocking(move || {
            let base = Arc::clone(&open.base);
            let looking = base.gate.copy();
            base.check_complete()?;
            base.check_writable()?;
            let has_documents = base.projects()?.iter().any(|(_, row)| row.total() > 0);
            let has_others = [USERS, TOKENS, AUDIT].iter().any(|tree| !base.tree(*tree).is_empty());
            if has_documents || has_others {
                return Err(refused("is not empty; name a new folder"));
            }
            if base.incomplete.swap(true, Ordering::Relaxed) {
                return Err(refused(INCOMPLETE));
            }
            let mut batch = Batch::default();
            batch.put(META, FILLING, seal(FILLING, &[]));
            base.write(batch)?;
            base.settle()?;
            let writer: Box<dyn RecordWriter> = Box::new(SledWriter { base, looking });
            Ok(writer)
        })
        .await
    }
}

struct SledReader {
    base: Arc<Base>,
    _looking: Looking,
    projects: Vec<(ProjectKey, ProjectRow)>,
    total: Option<usize>,
    next: Place,
    /// Marks, users and tokens were read.
    is_past_tokens: bool,
    /// The next audit row.
    row: u64,
}

/// The position of the next document.
#[derive(Clone)]
struct Place {
    project: usize,
    kind: usize,
    after: Option<String>,
}

#[async_trait]
impl RecordReader for SledReader {
    fn total(&self) -> Option<usize> {
        self.total
    }

    async fn next(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let documents = self.documents().await?;
        if !documents.is_empty() {
            return Ok(documents);
        }
        let base = Arc::clone(&self.base);
        if !std::mem::replace(&mut self.is_past_tokens, true) {
            let mut records = self.marks();
            let load = move || Ok(Identities { users: base.users()?, tokens: base.tokens()? });
            records.extend(blocking(load).await?.into_records());
            if !records.is_empty() {
                return Ok(records);
            }
        }
        self.audit().await
    }
}

impl SledReader {
    async fn documents(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let (base, projects) = (Arc::clone(&self.base), self.projects.clone());
        let mut next = self.next.clone();
        let (records, next) = blocking(move || {
            let mut records = Vec::new();
            let mut bytes = 0;
            while let Some((project, row)) = projects.get(next.project) {
                if records.len() >= BATCH_RECORDS || bytes >= BATCH_BYTES {
                    break;
                }
                let Some(kind) = Kind::ALL.get(next.kind) else {
                    next = Place { project: next.project + 1, kind: 0, after: None };
                    continue;
                };
                let name = next.after.as_deref();
                let Some(entry) = base.entries(row.id, *kind, name).next() else {
                    next = Place { kind: next.kind + 1, after: None, ..next };
                    continue;
                };
                let (key, value) = entry.map_err(of_sled)?;
                let record = base.record(project, row.id, *kind, &key, &value)?;
                bytes += record.document.body.len();
                next.after = Some(record.document.id.name.clone());
                records.push(ArchiveRecord::Document(record));
            }
            Ok((records, next))
        })
        .await?;
        self.next = next;
        Ok(records)
    }

    fn marks(&self) -> Vec<ArchiveRecord> {
        let mut marks = Vec::new();
        for (project, row) in &self.projects {
            for kind in ItemKind::ALL {
                if let Some(number) = row.mark(kind) {
                    let project = project.clone();
                    marks.push(ArchiveRecord::HighWaterMark(HighWaterMark {
                        project,
                        kind,
                        number,
                    }));
                }
            }
        }
        marks
    }

    async fn audit(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let (base, mut from) = (Arc::clone(&self.base), self.row);
        let (records, next) = blocking(move || {
            let (mut records, mut bytes) = (Vec::new(), 0);
            for row in base.audit(from).take(BATCH_RECORDS) {
                let row = row?;
                bytes += row.text.len();
                from = row.number + 1;
                records.push(ArchiveRecord::AuditRow(row));
                if bytes >= BATCH_BYTES {
                    break;
                }
            }
            Ok((records, from))
        })
        .await?;
        self.row = next;
        Ok(records)
    }
}

impl Base {
    /// All projects by key.
    fn projects(&self) -> StoreResult<Vec<(ProjectKey, ProjectRow)>> {
        let project = |entry: sled::Result<_>| {
            let (key, value): (sled::IVec, sled::IVec) = entry.map_err(of_sled)?;
            let row = decode(&key, &value);
            let project = keys::name(&key).map(ProjectKey::new);
            project.zip(row).ok_or_else(|| damaged("a project's row"))
        };
        self.tree(PROJECTS).iter().map(project).collect()
    }

    fn record(
        &self,
        project: &ProjectKey,
        number: u32,
        kind: Kind,
        key: &[u8],
        value: &[u8],
    ) -> StoreResult<DocumentRecord> {
        let id = read::id(number, kind, key)?;
        let row: Row = decode(key, value).ok_or_else(|| damaged_document(&id))?;
        let body = self.body(key, &row, &id)?;
        let document = Document { id, body, version: row.version };
        let (modified, place) = (row.modified, row.place);
        Ok(DocumentRecord { project: project.clone(), document, modified, place })
    }

    fn import_document(&self, record: DocumentRecord) -> StoreResult<()> {
        let DocumentRecord { project, document, modified, place } = record;
        let mut row = self.project(&project)?.unwrap_or_default();
        self.next_revision(&project, &mut row)?;
        let old = self.old(row.id, &keys::document(row.id, &document.id), &document.id)?;
        let mut batch = Batch::default();
        write::put(&mut batch, &mut row, old, &document, modified, place)?;
        let key = project.as_str().as_bytes();
        batch.put(PROJECTS, key, encode(key, &row));
        self.write(batch)
    }

    fn import_mark(&self, mark: &HighWaterMark) -> StoreResult<()> {
        let mut row = self.project(&mark.project)?.unwrap_or_default();
        self.next_revision(&mark.project, &mut row)?;
        row.raise(mark.kind, mark.number);
        let mut batch = Batch::default();
        let key = mark.project.as_str().as_bytes();
        batch.put(PROJECTS, key, encode(key, &row));
        self.write(batch)
    }

    fn import_identities(&self, identities: &Identities) -> StoreResult<()> {
        for users in identities.users.chunks(IMPORT_CHUNK) {
            let mut batch = Batch::default();
            users.iter().try_for_each(|user| self.put_user(&mut batch, user))?;
            self.write(batch)?;
        }
        for tokens in identities.tokens.chunks(IMPORT_CHUNK) {
            let mut batch = Batch::default();
            tokens.iter().try_for_each(|token| self.put_token(&mut batch, token))?;
            self.write(batch)?;
        }
        let epoch = self.epoch.load(Ordering::Acquire) + 1;
        let mut batch = Batch::default();
        batch.put(META, EPOCH, encode(EPOCH, &epoch));
        self.write(batch)?;
        self.epoch.store(epoch, Ordering::Release);
        Ok(())
    }

    fn import(&self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        self.check_writable()?;
        let mut identities = Identities::default();
        let mut rows = Vec::new();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => self.import_document(record)?,
                ArchiveRecord::HighWaterMark(mark) => self.import_mark(&mark)?,
                ArchiveRecord::User(user) => identities.users.push(user),
                ArchiveRecord::Token(token) => identities.tokens.push(token),
                ArchiveRecord::AuditRow(row) => rows.push(row),
            }
        }
        if identities != Identities::default() {
            self.import_identities(&identities)?;
        }
        // The writer finds these rows by itself: it caches no newest row before the first append.
        for chunk in rows.chunks(IMPORT_CHUNK) {
            let mut batch = Batch::default();
            for row in chunk {
                put_row(&mut batch, row);
            }
            self.write(batch)?;
        }
        self.flush()
    }
}

/// Commits wait while this lives. No other process can open the database meanwhile.
struct SledWriter {
    base: Arc<Base>,
    looking: Looking,
}

#[async_trait]
impl RecordWriter for SledWriter {
    async fn put(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let base = Arc::clone(&self.base);
        blocking(move || base.import(records)).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        let Self { base, looking } = *self;
        blocking(move || {
            base.check_writable()?;
            base.settle()?;
            let mut batch = Batch::default();
            batch.remove(META, FILLING);
            base.write(batch)?;
            base.settle()?;
            base.incomplete.store(false, Ordering::Relaxed);
            drop(looking);
            Ok(())
        })
        .await
    }
}
