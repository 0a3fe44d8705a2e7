//! Export and import of the whole database.
//!
//! sled has no snapshots, so an export holds the gate until its reader is dropped. A commit that
//! waits too long for it fails with "busy".

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentKind};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, IdentityRecords, RecordReader,
    RecordWriter,
};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use tokio::sync::OwnedRwLockReadGuard;

use crate::database::{AUDIT, Batch, DOCUMENTS, Database, FILLING, META, TOKENS, USERS};
use crate::error::{INCOMPLETE, damaged_document, of_sled, refused};
use crate::records::{DocumentRow, decode, seal};
use crate::team::put_row;
use crate::{SledStore, blocking, write};

/// The size of a batch that is read, in records and in bytes.
const BATCH_RECORDS: usize = 1000;
const BATCH_BYTES: usize = 2_000_000;
/// An import writes a transaction when it has this many changes of trees.
const IMPORT_CHANGES: usize = 1000;

#[async_trait]
impl Archive for SledStore {
    async fn read(&self) -> StoreResult<Box<dyn RecordReader>> {
        let database = Arc::clone(&self.opened()?.database);
        let guard = Arc::clone(&database.copies).read_owned().await;
        let reader = blocking(move || {
            database.check_complete()?;
            let mut total = 0;
            for (_, project) in database.projects()? {
                total += project.counts.values().sum::<u64>();
            }
            let records = Some(Box::new(database.records()?) as Records);
            Ok(SledReader { records, total: usize::try_from(total).ok(), _guard: guard })
        });
        Ok(Box::new(reader.await?))
    }

    async fn fill(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let database = Arc::clone(&self.opened()?.database);
        let guard = Arc::clone(&database.copies).read_owned().await;
        let writer = blocking(move || {
            database.check_complete()?;
            database.check_writable()?;
            let is_empty = |tree: &usize| database.tree(*tree).is_empty();
            if ![DOCUMENTS, USERS, TOKENS, AUDIT].iter().all(is_empty) {
                return Err(refused("is not empty; name a new folder"));
            }
            if database.is_incomplete.swap(true, Ordering::Relaxed) {
                return Err(refused(INCOMPLETE));
            }
            let mut batch = Batch::default();
            batch.put(META, FILLING, seal(FILLING, &[]));
            database.write(batch)?;
            database.sync()?;
            Ok(SledWriter { database, _guard: guard })
        });
        Ok(Box::new(writer.await?))
    }
}

type Records = Box<dyn Iterator<Item = StoreResult<ArchiveRecord>> + Send>;

struct SledReader {
    /// `None` after an error.
    records: Option<Records>,
    total: Option<usize>,
    _guard: OwnedRwLockReadGuard<()>,
}

#[async_trait]
impl RecordReader for SledReader {
    fn total(&self) -> Option<usize> {
        self.total
    }

    async fn next(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let Some(mut records) = self.records.take() else {
            return Err(StoreError::Internal("a copy is read on after an error".to_owned()));
        };
        let read = blocking(move || {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
                let Some(record) = records.next().transpose()? else { break };
                bytes += match &record {
                    ArchiveRecord::Document(record) => record.document.body.len(),
                    ArchiveRecord::AuditRow(row) => row.text.len(),
                    _ => 0,
                };
                batch.push(record);
            }
            Ok((batch, records))
        });
        let (batch, records) = read.await?;
        self.records = Some(records);
        Ok(batch)
    }
}

impl Database {
    /// All records in the order of an archive.
    fn records(
        self: &Arc<Self>,
    ) -> StoreResult<impl Iterator<Item = StoreResult<ArchiveRecord>> + use<>> {
        let (mut marks, mut parts) = (Vec::new(), Vec::new());
        for (project, row) in self.projects()? {
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
            parts.extend(DocumentKind::ALL.map(|kind| (project.clone(), row.id, kind)));
        }
        let identities = IdentityRecords { users: self.users()?, tokens: self.tokens()? };
        let before_audit = marks.into_iter().chain(identities.into_records());
        let database = Arc::clone(self);
        let documents = parts.into_iter().flat_map(move |(project, id, kind)| {
            let database = Arc::clone(&database);
            let entries = database.entries(id, kind, None);
            entries.map(move |entry| {
                let (id, key, value) = entry?;
                let row: Option<DocumentRow> = decode(&key, &value);
                let row = row.ok_or_else(|| damaged_document(&id))?;
                let body = database.body(&key, &row, &id)?;
                Ok(ArchiveRecord::Document(DocumentRecord {
                    project: project.clone(),
                    document: Document { id, body, version: row.version },
                    modified: row.modified,
                    place: row.place,
                }))
            })
        });
        let database = Arc::clone(self);
        let rows = self.tree(AUDIT).iter().map(move |entry| {
            let (key, row) = entry.map_err(of_sled)?;
            database.audit_row(&key, &row).map(ArchiveRecord::AuditRow)
        });
        Ok(documents.chain(before_audit.map(Ok)).chain(rows))
    }

    fn import_document(&self, record: DocumentRecord) -> StoreResult<()> {
        let DocumentRecord { project, document, modified, place } = record;
        let mut row = self.project(&project)?;
        self.begin_revision(&project, &mut row)?;
        let old = self.old_document(row.id, &document.id)?;
        let mut batch = Batch::default();
        write::put(&mut batch, &mut row, old, &document, modified, place)?;
        write::put_project(&mut batch, &project, &row);
        self.write(batch)
    }

    fn import_mark(&self, mark: &HighWaterMark) -> StoreResult<()> {
        let mut row = self.project(&mark.project)?;
        self.begin_revision(&mark.project, &mut row)?;
        row.raise_mark(mark.kind, mark.number);
        let mut batch = Batch::default();
        write::put_project(&mut batch, &mark.project, &row);
        self.write(batch)
    }

    fn import(&self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        self.check_writable()?;
        let mut batch = Batch::default();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => self.import_document(record)?,
                ArchiveRecord::HighWaterMark(mark) => self.import_mark(&mark)?,
                ArchiveRecord::User(user) => self.put_user(&mut batch, &user)?,
                ArchiveRecord::Token(token) => self.put_token(&mut batch, &token)?,
                // The writer reads the newest row from the tree, because it has not appended any.
                ArchiveRecord::AuditRow(row) => put_row(&mut batch, &row),
            }
            if batch.len() >= IMPORT_CHANGES {
                self.write(std::mem::take(&mut batch))?;
            }
        }
        self.write(batch)?;
        self.flush()
    }
}

/// Commits wait while this lives, and no other process can open the database.
struct SledWriter {
    database: Arc<Database>,
    _guard: OwnedRwLockReadGuard<()>,
}

#[async_trait]
impl RecordWriter for SledWriter {
    async fn put(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let database = Arc::clone(&self.database);
        blocking(move || database.import(records)).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        blocking(move || {
            let database = &self.database;
            database.check_writable()?;
            database.sync()?;
            let mut batch = Batch::default();
            batch.remove(META, FILLING);
            let epoch = database.put_next_epoch(&mut batch);
            database.write(batch)?;
            database.sync()?;
            database.epoch.store(epoch, Ordering::Release);
            database.is_incomplete.store(false, Ordering::Relaxed);
            drop(self);
            Ok(())
        })
        .await
    }
}
