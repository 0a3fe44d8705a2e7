//! Export and import of the whole database.
//!
//! sled has no snapshots, so an export blocks commits until its reader is dropped. A commit that
//! waits longer than the timeout fails as busy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, HistoryRecord, IdentityRecords,
    RecordReader, RecordWriter,
};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use sled::IVec;
use tokio::sync::OwnedRwLockReadGuard;

use crate::database::{
    AUDIT, DOCUMENTS, IMPORT_KEY, META, SledDatabase, TOKENS, TreeBatch, USERS, VERSIONS,
};
use crate::error::{INCOMPLETE, catch_sled_panic, damaged_document, database_refused, from_sled};
use crate::records::{DocumentRow, seal_value};
use crate::team::put_row;
use crate::{SledStore, run_blocking, write};

/// An export returns a batch when it has one of these sizes.
const BATCH_RECORDS: usize = 1000;
const BATCH_BYTES: usize = 2_000_000;
/// An import writes a transaction after this number of changes of trees.
const IMPORT_CHANGES: usize = 1000;

#[async_trait]
impl Archive for SledStore {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        export(Arc::clone(&self.open_store()?.database)).await
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let database = Arc::clone(&self.open_store()?.database);
        let guard = Arc::clone(&database.copy_lock).read_owned().await;
        let writer = run_blocking(move || {
            database.check_complete()?;
            database.check_writable()?;
            for tree in [DOCUMENTS, VERSIONS, USERS, TOKENS, AUDIT] {
                if !database.tree(tree).is_empty() {
                    return Err(database_refused("is not empty; name a new folder"));
                }
            }
            // Imports share the lock, so this flag decides between two of them.
            if database.is_incomplete.swap(true, Ordering::Relaxed) {
                return Err(database_refused(INCOMPLETE));
            }
            // Durable before the first record, so that a partial import is recognized.
            let mut batch = TreeBatch::default();
            batch.put(META, IMPORT_KEY, seal_value(IMPORT_KEY, &[]));
            database.write_batch(batch)?;
            database.sync()?;
            Ok(SledWriter { database, _guard: guard })
        });
        Ok(Box::new(writer.await?))
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

async fn export(database: Arc<SledDatabase>) -> StoreResult<Box<dyn RecordReader>> {
    // Commits wait for this lock, so the export reads one state.
    let guard = Arc::clone(&database.copy_lock).read_owned().await;
    let reader = run_blocking(move || {
        database.check_complete()?;
        let mut total = 0;
        for (_, project) in database.list_projects()? {
            total += project.counts.values().sum::<u64>();
        }
        let records = Some(Box::new(database.archive_records()?) as RecordIterator);
        let total = usize::try_from(total).ok();
        Ok(SledReader { records, database, total, _guard: guard })
    });
    Ok(Box::new(reader.await?))
}

type RecordIterator = Box<dyn Iterator<Item = StoreResult<ArchiveRecord>> + Send>;

struct SledReader {
    /// `None` after an error.
    records: Option<RecordIterator>,
    database: Arc<SledDatabase>,
    total: Option<usize>,
    _guard: OwnedRwLockReadGuard<()>,
}

#[async_trait]
impl RecordReader for SledReader {
    fn total_documents(&self) -> Option<usize> {
        self.total
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let Some(mut records) = self.records.take() else {
            return Err(StoreError::Internal("the export was read after an error".to_owned()));
        };
        let database = Arc::clone(&self.database);
        let read = run_blocking(move || {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while batch.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
                let next = catch_sled_panic(|| records.next().transpose());
                let Some(record) = database.watch_damage(next)? else { break };
                bytes += match &record {
                    ArchiveRecord::Document(record) => record.document.body.len(),
                    ArchiveRecord::History(record) => record.entry.content.text_bytes(),
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

impl SledDatabase {
    /// Iterates over all records in the order of an archive.
    pub(crate) fn archive_records(
        self: &Arc<Self>,
    ) -> StoreResult<impl Iterator<Item = StoreResult<ArchiveRecord>> + use<>> {
        let mut marks = Vec::new();
        let mut lists = Vec::new();
        for (project, row) in self.list_projects()? {
            for kind in ItemKind::ALL {
                if let Some(number) = row.high_water_mark(kind) {
                    let project = project.clone();
                    let mark = HighWaterMark { project, kind, number };
                    marks.push(ArchiveRecord::HighWaterMark(mark));
                }
            }
            lists.extend(DocumentKind::ALL.map(|kind| (project.clone(), row.id, kind)));
        }
        let identities = IdentityRecords { users: self.list_users()?, tokens: self.list_tokens()? };
        // Documents and audit rows are read lazily, because they may not fit into memory.
        let database = Arc::clone(self);
        let history = lists.clone().into_iter().flat_map(move |(project, id, kind)| {
            let entries = database.version_entries(id, kind);
            let database = Arc::clone(&database);
            entries.map(move |entry| {
                let (document, number, row) = entry?;
                let entry = database.past_entry(id, &document, number, row)?;
                let project = project.clone();
                Ok(ArchiveRecord::History(HistoryRecord { project, document, entry }))
            })
        });
        let database = Arc::clone(self);
        let documents = lists.into_iter().flat_map(move |(project, id, kind)| {
            let entries = database.document_entries(id, kind, None);
            let database = Arc::clone(&database);
            entries.map(move |entry| database.document_record(&project, entry?))
        });
        let database = Arc::clone(self);
        let rows = self.tree(AUDIT).iter().map(move |entry| {
            let (key, row) = entry.map_err(from_sled)?;
            Ok(ArchiveRecord::AuditRow(database.audit_row(&key, &row)?))
        });
        let identities = identities.into_records().map(Ok);
        let documents = documents.chain(marks.into_iter().map(Ok));
        Ok(documents.chain(history).chain(identities).chain(rows))
    }

    fn document_record(
        &self,
        project: &ProjectKey,
        (id, key, value): (DocumentId, IVec, IVec),
    ) -> StoreResult<ArchiveRecord> {
        let Some(row) = DocumentRow::decode(&key, &value) else {
            return Err(damaged_document(&id));
        };
        let body = self.read_body(&key, &row, &id)?;
        Ok(ArchiveRecord::Document(DocumentRecord {
            project: project.clone(),
            document: Document { id, body, version: row.version },
            modified: row.modified,
            entry: row.entry(),
            path: row.place,
        }))
    }

    fn import_document(&self, record: DocumentRecord) -> StoreResult<()> {
        let DocumentRecord { project, document, modified, path: place, entry } = record;
        let mut row = self.project_row(&project)?;
        let mut batch = TreeBatch::default();
        self.begin_revision(&mut batch, &project, &mut row)?;
        let old = self.old_document(row.id, &document.id)?;
        write::put_document(&mut batch, &mut row, old, &document, modified, place, entry)?;
        write::put_project(&mut batch, &project, &row);
        self.write_batch(batch)
    }

    fn import_mark(&self, mark: &HighWaterMark) -> StoreResult<()> {
        let mut row = self.project_row(&mark.project)?;
        let mut batch = TreeBatch::default();
        self.begin_revision(&mut batch, &mark.project, &mut row)?;
        row.raise_high_water_mark(mark.kind, mark.number);
        write::put_project(&mut batch, &mark.project, &row);
        self.write_batch(batch)
    }

    fn import_records(&self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        self.check_writable()?;
        let mut batch = TreeBatch::default();
        for record in records {
            match record {
                ArchiveRecord::Document(record) => self.import_document(record)?,
                ArchiveRecord::HighWaterMark(mark) => self.import_mark(&mark)?,
                ArchiveRecord::History(record) => self.import_entry(&mut batch, &record)?,
                ArchiveRecord::User(user) => self.put_user(&mut batch, &user)?,
                ArchiveRecord::Token(token) => self.put_token(&mut batch, &token)?,
                // The commit group has not cached a newest row, because the database was empty.
                ArchiveRecord::AuditRow(row) => put_row(&mut batch, &row),
            }
            if batch.len() >= IMPORT_CHANGES {
                self.write_batch(std::mem::take(&mut batch))?;
            }
        }
        self.write_batch(batch)?;
        // Bounds the unwritten pages; `finish` makes them durable.
        self.flush()
    }
}

/// Blocks commits until it is dropped.
struct SledWriter {
    database: Arc<SledDatabase>,
    _guard: OwnedRwLockReadGuard<()>,
}

#[async_trait]
impl RecordWriter for SledWriter {
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let database = Arc::clone(&self.database);
        run_blocking(move || database.import_records(records)).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        run_blocking(move || {
            let database = &self.database;
            database.check_writable()?;
            // All records are durable before the database is marked complete.
            database.sync()?;
            let mut batch = TreeBatch::default();
            batch.remove(META, IMPORT_KEY);
            let epoch = database.put_next_epoch(&mut batch);
            database.write_batch(batch)?;
            database.sync()?;
            // After the sync, so that a caller with the new epoch reads durable users.
            database.epoch.store(epoch, Ordering::Release);
            database.is_incomplete.store(false, Ordering::Relaxed);
            drop(self);
            Ok(())
        })
        .await
    }
}
