//! Export of a snapshot, and import in batches.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, HistoryRecord, IdentityRecords,
    RecordReader, RecordWriter,
};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::history::{PastContent, PastEntry, PresentEntry};
use reqlore_domain::project_key::ProjectKey;

use crate::RowStore;
use crate::content_check::ContentCheck;
use crate::damage::KnownDamage;
use crate::database::RowSource;
use crate::error::{damaged, refused};
use crate::read::documents::{
    AFTER_TEXTS, document_id, documents_after, names_after, verified_body,
};
use crate::read::history::{text_key, verified_text};
use crate::read::{read_all, read_one, team};
use crate::records::{
    DocumentRow, EntryRow, PART_BYTES, RowReader, StoreRow, check_name, document_key,
    encode_audit_row, encode_token, encode_user, integer, project_key, rows_of,
};
use crate::row::{RowAddress, RowKey, RowQuery, TableRow, Value};
use crate::tables::{
    AUDIT, BODIES, DOCUMENTS, HISTORY, PROJECTS, SEQUENCES, STORE, TEXTS, TOKENS, Table, USERS,
};
use crate::writer::{GroupWriterEngine, ReadPlan};

/// A batch of records ends when it reaches one of these sizes.
const BATCH_RECORDS: usize = 200;
const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// Maximum number of rows that one read counts, to bound the memory.
const COUNT_ROWS: usize = 2_000;
/// Maximum number of parts in a batch, besides the first parts of its texts. Parts are read before
/// their sizes are known, and only a first one is usually small.
const BATCH_PARTS: usize = BATCH_BYTES / PART_BYTES;

#[async_trait]
impl Archive for RowStore {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        let mut reader = SnapshotReader::begin(self).await?;
        reader.total = Some(self.recorded(reader.count_documents().await)?);
        Ok(Box::new(reader))
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        self.run(ReadPlan::default(), begin_import).await?;
        Ok(Box::new(ImportWriter { store: self.clone() }))
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

/// The records that an export reads next, in the order of an archive.
#[derive(Debug, Clone)]
enum ExportPhase {
    Documents,
    Marks,
    History,
    Identities,
    AuditRows,
}

pub(crate) struct SnapshotReader {
    pub(crate) snapshot: Box<dyn RowSource>,
    damage: Arc<KnownDamage>,
    pub(crate) projects: Vec<ProjectKey>,
    phase: ExportPhase,
    /// Project and kind of the current list, as positions.
    list: (usize, usize),
    total: Option<usize>,
    /// The key of the last row of the current list.
    last_key: Option<RowKey>,
    pub(crate) next_row: u64,
    /// In a search for damage, which skips damaged documents.
    pub(crate) check: Option<ContentCheck>,
    /// The records after an error would be an incomplete copy.
    has_failed: bool,
}

impl SnapshotReader {
    pub(crate) async fn begin(store: &RowStore) -> StoreResult<Self> {
        let snapshot = store.database.begin_snapshot().await?;
        Self::of(snapshot, Arc::clone(&store.damage)).await
    }

    /// Reads one state.
    pub(crate) async fn of(
        snapshot: Box<dyn RowSource>,
        damage: Arc<KnownDamage>,
    ) -> StoreResult<Self> {
        let queries = vec![
            RowQuery::keys(&STORE, vec![StoreRow::key()]),
            RowQuery::all(&PROJECTS).sorted_by(&["project"]),
        ];
        let mut results = read_all(&*snapshot, queries).await?;
        let mut projects = Vec::new();
        for row in results.pop().unwrap_or_default() {
            projects.push(ProjectKey::new(RowReader::new(&row, "a project").text()?));
        }
        StoreRow::decode(&results.pop().unwrap_or_default())?.check_complete()?;
        Ok(Self {
            snapshot,
            damage,
            projects,
            phase: ExportPhase::Documents,
            list: (0, 0),
            total: None,
            last_key: None,
            next_row: 1,
            check: None,
            has_failed: false,
        })
    }

    /// Returns `None` for a damaged text in a search for damage.
    fn skip_damaged<T>(&mut self, read: StoreResult<T>) -> StoreResult<Option<T>> {
        match &mut self.check {
            Some(check) => check.skip_damaged(read),
            None => read.map(Some),
        }
    }

    async fn read_one(&mut self, query: RowQuery) -> StoreResult<Vec<TableRow>> {
        read_one(&*self.snapshot, query).await
    }

    /// The project and kind of the current list; `None` after the last one.
    fn current_list(&self) -> Option<(ProjectKey, DocumentKind)> {
        let (project, kind) = self.list;
        Some((self.projects.get(project)?.clone(), *DocumentKind::ALL.get(kind)?))
    }

    /// The name of the last document.
    fn last_name(&self) -> Option<&str> {
        match self.last_key.as_ref()?.value(DOCUMENTS.key_width - 1) {
            Value::Text(name) => Some(name),
            _ => None,
        }
    }

    fn next_list(&mut self) {
        self.last_key = None;
        self.list.1 += 1;
        if self.list.1 == DocumentKind::ALL.len() {
            self.list = (self.list.0 + 1, 0);
        }
    }

    /// Counts the documents of all lists, before the first one is exported.
    async fn count_documents(&mut self) -> StoreResult<usize> {
        let mut total = 0;
        while let Some((project, kind)) = self.current_list() {
            let query = documents_after(&project, kind, self.last_name()).limited_to(COUNT_ROWS);
            let rows = self.read_one(query.narrow()).await?;
            total += rows.len();
            match rows.last().filter(|_| rows.len() == COUNT_ROWS) {
                Some(last) => self.last_key = Some(last.prefix(DOCUMENTS.key_width)),
                None => self.next_list(),
            }
        }
        self.list = (0, 0);
        Ok(total)
    }

    async fn next_documents(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        while let Some((project, kind)) = self.current_list() {
            let query = documents_after(&project, kind, self.last_name());
            let query = query.limited_to(BATCH_RECORDS);
            let after = self.last_name().map(|name| format!("{name}\0")).unwrap_or_default();
            let rows =
                self.read_one(if self.check.is_some() { query } else { query.narrow() }).await?;
            let (mut records, mut parts) = (Vec::new(), 0);
            let mut is_end = rows.len() < BATCH_RECORDS;
            for row in rows {
                let id = document_id(&row)?;
                let DocumentRow { revision, number, present } = DocumentRow::decode(&row)?;
                if let Some(check) = &mut self.check {
                    check.add_numbers(&project, &id, revision);
                }
                let Some(present) = present else { continue };
                parts += present.parts - present.parts.min(1);
                if parts > BATCH_PARTS && !records.is_empty() {
                    is_end = false;
                    break;
                }
                if let Some(check) = &mut self.check {
                    check.add_document(&project, &row, present.meta(id.clone()))?;
                }
                self.last_key = Some(row.prefix(DOCUMENTS.key_width));
                records.push((id, number, present));
            }
            if records.is_empty() && self.check.is_none() {
                self.next_list();
                continue;
            }
            let of_kind = project_key(&project).with(&[kind.name().into()]);
            let last = records.last().filter(|_| !is_end);
            let end = last.map(|(id, ..)| format!("{}\0", id.name));
            let end = Value::Text(end.as_deref().unwrap_or(AFTER_TEXTS));
            let bodies = RowQuery::keys(&BODIES, vec![of_kind]);
            let mut bodies = self.read_one(bodies.within("name", (&after).into()..end)).await?;
            bodies.sort_unstable();
            if let Some(check) = &mut self.check {
                check.add_bodies(&bodies, records.iter().map(|(id, ..)| id))?;
            }
            if records.is_empty() {
                self.next_list();
                continue;
            }
            let mut batch = Vec::with_capacity(records.len());
            for (id, number, present) in records {
                let parts = rows_of(&bodies, &document_key(&project, &id));
                let version = present.version;
                let body = verified_body(&id, version, parts);
                let Some(body) = self.skip_damaged(body)? else { continue };
                batch.push(ArchiveRecord::Document(DocumentRecord {
                    project: project.clone(),
                    document: reqlore_domain::document::Document { id, version, body },
                    modified: present.modified,
                    path: present.path,
                    entry: PresentEntry { number, origin: present.origin },
                }));
            }
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
        Ok(Vec::new())
    }

    async fn high_water_marks(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let mut marks = Vec::new();
        for row in self.read_one(RowQuery::all(&SEQUENCES)).await? {
            let mut reader = RowReader::new(&row, "a sequence");
            let (project, kind) = (ProjectKey::new(reader.text()?), reader.text()?);
            let Some(kind) = ItemKind::ALL.into_iter().find(|known| known.name() == kind) else {
                return Err(damaged("the kind of a sequence"));
            };
            marks.push(HighWaterMark { project, kind, number: reader.number()? });
        }
        marks.sort_unstable();
        Ok(marks.into_iter().map(ArchiveRecord::HighWaterMark).collect())
    }

    async fn next_entries(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        while let Some((project, kind)) = self.current_list() {
            let Some(rows) = self.next_entry_rows(&project, kind).await? else {
                self.next_list();
                continue;
            };
            let (mut entries, mut keys, mut parts) = (Vec::new(), Vec::new(), 0);
            for row in rows {
                let entry = EntryRow::decode(&row)?;
                parts += entry.parts - entry.parts.min(1);
                if parts > BATCH_PARTS && !entries.is_empty() {
                    break;
                }
                self.last_key = Some(row.prefix(HISTORY.key_width));
                if let Some(hash) = entry.hash.filter(|_| !entry.is_purged) {
                    keys.push(text_key(&project, &entry.id, hash));
                }
                entries.push(entry);
            }
            let mut texts = self.read_one(RowQuery::keys(&TEXTS, keys)).await?;
            texts.sort_unstable();
            let mut records = Vec::with_capacity(entries.len());
            for entry in entries {
                let EntryRow { id, number, hash, at, ended, origin, is_purged, .. } = entry;
                let content = match hash {
                    None => PastContent::Deleted,
                    Some(hash) if is_purged => PastContent::Purged(hash),
                    Some(hash) => {
                        let rows = rows_of(&texts, &text_key(&project, &id, hash));
                        let text = self.skip_damaged(verified_text(&id, hash, rows))?;
                        let Some(text) = text else { continue };
                        PastContent::Text(text)
                    }
                };
                let entry = PastEntry { number, at, ended, origin, content };
                let (project, document) = (project.clone(), id);
                records.push(ArchiveRecord::History(HistoryRecord { project, document, entry }));
            }
            if !records.is_empty() {
                return Ok(records);
            }
        }
        Ok(Vec::new())
    }

    /// The next entries of the current list in the order of name and number: the rest of the last
    /// document, else those of the documents after it.
    async fn next_entry_rows(
        &mut self,
        project: &ProjectKey,
        kind: DocumentKind,
    ) -> StoreResult<Option<Vec<TableRow>>> {
        if let Some(last) = &self.last_key {
            let document = last.prefix(DOCUMENTS.key_width);
            let number = RowReader::new(last, "a key").after(DOCUMENTS.key_width).integer()?;
            let query = RowQuery::keys(&HISTORY, vec![document])
                .within("number", integer(number.saturating_add(1))..Value::Integer(i64::MAX))
                .sorted_by(&["number"])
                .limited_to(BATCH_RECORDS);
            let rows = self.read_one(query).await?;
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
        let of_kind = project_key(project).with(&[kind.name().into()]);
        let query = names_after(RowQuery::keys(&HISTORY, vec![of_kind]), self.last_name())
            .sorted_by(&["name", "number"])
            .limited_to(BATCH_RECORDS);
        let rows = self.read_one(query).await?;
        Ok((!rows.is_empty()).then_some(rows))
    }

    async fn identities(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let all = IdentityRecords {
            users: team::users(&*self.snapshot).await?,
            tokens: team::tokens(&*self.snapshot).await?,
        };
        Ok(all.into_records().collect())
    }

    async fn next_rows(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let mut records = Vec::new();
        for row in team::audit_rows(&*self.snapshot, self.next_row, BATCH_RECORDS).await? {
            self.next_row = row.number + 1;
            records.push(ArchiveRecord::AuditRow(row));
        }
        Ok(records)
    }
}

#[async_trait]
impl RecordReader for SnapshotReader {
    fn total_documents(&self) -> Option<usize> {
        self.total
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        if self.has_failed {
            return Err(StoreError::Internal("the copy was continued after an error".to_owned()));
        }
        let records = match self.damage.missing_rows_error() {
            Some(error) if self.check.is_none() => Err(error),
            _ => self.next_records().await,
        };
        self.has_failed = records.is_err();
        records.map_err(|error| self.damage.record(error))
    }
}

impl SnapshotReader {
    async fn next_records(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        loop {
            let (records, next_phase) = match self.phase {
                ExportPhase::Documents => (self.next_documents().await?, ExportPhase::Marks),
                ExportPhase::Marks => {
                    self.phase = ExportPhase::History;
                    self.list = (0, 0);
                    self.last_key = None;
                    (self.high_water_marks().await?, ExportPhase::History)
                }
                ExportPhase::History => (self.next_entries().await?, ExportPhase::Identities),
                ExportPhase::Identities => {
                    self.phase = ExportPhase::AuditRows;
                    (self.identities().await?, ExportPhase::AuditRows)
                }
                ExportPhase::AuditRows => return self.next_rows().await,
            };
            if !records.is_empty() {
                return Ok(records);
            }
            self.phase = next_phase;
        }
    }
}

/// Marks an empty database as incomplete. Refuses a database with contents.
fn begin_import(engine: &mut GroupWriterEngine) -> StoreResult<()> {
    let mut queries = Vec::new();
    for table in [&DOCUMENTS, &USERS, &TOKENS, &AUDIT, &HISTORY] as [&'static Table; 5] {
        queries.push(RowQuery::all(table).limited_to(1));
    }
    for rows in engine.transaction.select(&queries)? {
        if !rows.is_empty() {
            return Err(refused("is not empty; copy into a new one"));
        }
    }
    let mut row = engine.store_row()?;
    row.check_complete()?;
    StoreRow::FILLING.clone_into(&mut row.state);
    engine.put_store_row(&row);
    Ok(())
}

struct ImportWriter {
    store: RowStore,
}

#[async_trait]
impl RecordWriter for ImportWriter {
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let records: Arc<[ArchiveRecord]> = records.into();
        // A transaction of some databases has at most 3,000 rows, and a document has some ten.
        let parts = if self.store.database.is_remote() {
            chunk_ranges(&records)
        } else {
            std::iter::once(0..records.len()).collect()
        };
        for part in parts {
            let records = Arc::clone(&records);
            let work =
                move |engine: &mut GroupWriterEngine| engine.put_records(&records[part.clone()]);
            // An incomplete database is refused after a power cut, so only the end is synced.
            self.store.run(ReadPlan::of_import().unsynced(), work).await?;
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.store.run(ReadPlan::of_import(), GroupWriterEngine::finish_import).await
    }
}

/// Splits records into transactions by number and size.
fn chunk_ranges(records: &[ArchiveRecord]) -> Vec<std::ops::Range<usize>> {
    let (mut ranges, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, record) in records.iter().enumerate() {
        if at - start >= BATCH_RECORDS || bytes > BATCH_BYTES {
            ranges.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes += match record {
            ArchiveRecord::Document(record) => record.document.body.len(),
            ArchiveRecord::History(record) => record.entry.content.text_bytes(),
            _ => 0,
        };
    }
    if start < records.len() {
        ranges.push(start..records.len());
    }
    ranges
}

impl GroupWriterEngine {
    pub(crate) fn put_records(&mut self, records: &[ArchiveRecord]) -> StoreResult<()> {
        let mut revisions = std::collections::HashMap::new();
        let mut rows: Vec<RowAddress> = Vec::new();
        for record in records {
            if let ArchiveRecord::Document(record) = record {
                rows.push((&DOCUMENTS, document_key(&record.project, &record.document.id)));
            }
        }
        self.transaction.load(rows)?;
        for record in records {
            match record {
                ArchiveRecord::Document(record) => {
                    let DocumentRecord { project, document, modified, path, entry } = record;
                    let revision = if let Some(revision) = revisions.get(project) {
                        *revision
                    } else {
                        let row = self.project_row(project)?;
                        let revision = self.begin_revision(project, row)?;
                        revisions.insert(project.clone(), revision);
                        revision
                    };
                    check_name(&document.id)?;
                    self.raise_sequence_to(project, &document.id)?;
                    let written = (revision, entry.number);
                    let file = (*modified, path.clone());
                    let origin = entry.origin.clone();
                    self.put_document(project, written, document, file, origin, None)?;
                }
                ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }) => {
                    self.raise_sequence(project, kind.name(), *number)?;
                    self.keep_project(project)?;
                }
                ArchiveRecord::History(HistoryRecord { project, document, entry }) => {
                    check_name(document)?;
                    self.keep_project(project)?;
                    self.check_number(project, document, entry)?;
                    self.put_entry(project, document, entry);
                }
                ArchiveRecord::User(user) => self.transaction.put(&USERS, encode_user(user)?),
                ArchiveRecord::Token(token) => {
                    self.transaction.put(&TOKENS, encode_token(token)?);
                }
                ArchiveRecord::AuditRow(row) => {
                    self.transaction.put(&AUDIT, encode_audit_row(row));
                    let mut store = self.store_row()?;
                    store.newest_audit = row.head();
                    self.put_store_row(&store);
                }
            }
        }
        Ok(())
    }

    /// Inserts the row of a project that has no documents.
    fn keep_project(&mut self, project: &ProjectKey) -> StoreResult<()> {
        let row = self.project_row(project)?;
        self.transaction.put(&PROJECTS, row.encode(project));
        Ok(())
    }

    /// Continues the numbers of a deleted document, and refuses an earlier version with a later
    /// number than the present one.
    fn check_number(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
        entry: &PastEntry,
    ) -> StoreResult<()> {
        let key = document_key(project, id);
        let row = self.transaction.row(&DOCUMENTS, &key)?;
        let row = row.as_ref().map(DocumentRow::decode).transpose()?;
        match row {
            Some(row) if row.present.is_some() && row.number <= entry.number => {
                let reason = format!(
                    "the history of {id} has a number above its current version; run \
                     `reqlore check` on it"
                );
                Err(StoreError::Refused { subject: "the source".to_owned(), reason })
            }
            Some(row) if row.present.is_some() => Ok(()),
            _ => {
                let revision = self.project_row(project)?.revision;
                let row = DocumentRow::encode_deleted(&key, revision, entry.number);
                self.transaction.put(&DOCUMENTS, row);
                Ok(())
            }
        }
    }

    fn finish_import(&mut self) -> StoreResult<()> {
        self.renew_epoch()?;
        let mut row = self.store_row()?;
        StoreRow::COMPLETE.clone_into(&mut row.state);
        self.put_store_row(&row);
        Ok(())
    }
}
