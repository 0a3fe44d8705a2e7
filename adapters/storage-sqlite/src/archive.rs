//! Export of a snapshot, and import into an empty database.
//!
//! An import syncs only in its last transaction, which makes the whole log durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, HistoryRecord, IdentityRecords,
    RecordReader, RecordWriter,
};
use reqlore_domain::ports::documents::{Revision, StoreError, StoreResult};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_sqlite_team::error::refused;
use reqlore_sqlite_team::{audit, identity};
use rusqlite::{Connection, TransactionBehavior};

use crate::commit_count::count_commit;
use crate::connection::{ConnectionUse, Connector, run_blocking};
use crate::damage::{CheckStage, DamageState};
use crate::error::{DATABASE_NAME, QueryError};
use crate::tables::{DOCUMENTS, MARKS, PROJECTS, STORE};
use crate::{SqliteStore, changes, history, read, write};

/// Size of the log, in pages, at which an import checkpoints.
const CHECKPOINT_PAGES: u32 = 8_000;

#[async_trait]
impl Archive for SqliteStore {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        self.damage.wait_for_stage(CheckStage::WholeFile).await?;
        let (connector, damage) = (self.connector.clone(), Arc::clone(&self.damage));
        let snapshot =
            run_blocking(move || begin_export(&connector).map_err(|error| damage.note(error)));
        Ok(Box::new(SnapshotReader::new(snapshot.await?, Arc::clone(&self.damage))))
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        let (connector, damage) = (self.connector.clone(), Arc::clone(&self.damage));
        let connection = run_blocking(move || {
            damage.permit_write()?;
            begin_import(&connector)
        })
        .await?;
        Ok(Box::new(ImportWriter {
            connector: self.connector.clone(),
            connection: Some(connection),
        }))
    }

    fn keeps_history(&self) -> bool {
        true
    }
}

fn used_after_error() -> StoreError {
    StoreError::Internal("the copy was continued after an error".to_owned())
}

pub(crate) struct SnapshotReader {
    /// `None` after an error.
    snapshot: Option<ArchiveSnapshot>,
    damage: Arc<DamageState>,
}

impl SnapshotReader {
    pub(crate) fn new(snapshot: ArchiveSnapshot, damage: Arc<DamageState>) -> Self {
        Self { snapshot: Some(snapshot), damage }
    }
}

#[async_trait]
impl RecordReader for SnapshotReader {
    fn total_documents(&self) -> Option<usize> {
        self.snapshot.as_ref().map(|snapshot| snapshot.total)
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let mut snapshot = self.snapshot.take().ok_or_else(used_after_error)?;
        let damage = Arc::clone(&self.damage);
        let (records, snapshot) = run_blocking(move || {
            let records = snapshot.next_records().map_err(|error| damage.note(error))?;
            Ok::<_, QueryError>((records, snapshot))
        })
        .await?;
        self.snapshot = Some(snapshot);
        Ok(records)
    }
}

pub(crate) fn begin_export(connector: &Connector) -> Result<ArchiveSnapshot, QueryError> {
    connector.file.check_identity()?;
    ArchiveSnapshot::begin(connector.open(ConnectionUse::Read)?)
}

/// A transaction with the state of the database at the start of the export.
pub(crate) struct ArchiveSnapshot {
    pub(crate) connection: Connection,
    total: usize,
    /// Projects and kinds that are not read yet, the next one last.
    remaining_lists: Vec<(i64, ProjectKey, DocumentKind)>,
    /// The next name in the current project and kind.
    next_name: String,
    phase: ExportPhase,
    /// Name and number of the last history entry in the current project and kind.
    last_entry: (String, u64),
    /// Number of the next audit row.
    next_row: u64,
}

impl ArchiveSnapshot {
    pub(crate) fn begin(connection: Connection) -> Result<Self, QueryError> {
        // The snapshot starts with the first read.
        connection.execute_batch("BEGIN")?;
        read::check_complete(DATABASE_NAME, &connection)?;
        let count = "SELECT count(*) FROM documents";
        let total = connection.query_one(count, [], |row| row.get(0))?;
        Ok(Self {
            remaining_lists: project_kinds(&connection)?,
            connection,
            total,
            next_name: String::new(),
            phase: ExportPhase::Documents,
            last_entry: Default::default(),
            next_row: 1,
        })
    }

    /// Returns the next records; empty at the end.
    pub(crate) fn next_records(&mut self) -> Result<Vec<ArchiveRecord>, QueryError> {
        loop {
            let (records, next_phase) = match self.phase {
                ExportPhase::Documents => (self.next_documents()?, ExportPhase::Marks),
                ExportPhase::Marks => {
                    self.phase = ExportPhase::History;
                    self.remaining_lists = project_kinds(&self.connection)?;
                    (self.high_water_marks()?, ExportPhase::History)
                }
                ExportPhase::History => (self.next_entries()?, ExportPhase::Identities),
                ExportPhase::Identities => {
                    self.phase = ExportPhase::AuditRows;
                    let identities = identity::all_identities(&self.connection)?;
                    (identities.into_records().collect(), ExportPhase::AuditRows)
                }
                ExportPhase::AuditRows => return self.next_rows(),
            };
            if !records.is_empty() {
                return Ok(records);
            }
            self.phase = next_phase;
        }
    }

    fn next_rows(&mut self) -> Result<Vec<ArchiveRecord>, QueryError> {
        let rows =
            audit::rows(&self.connection, self.next_row, read::BATCH_RECORDS, read::BATCH_BYTES)?;
        self.next_row = rows.last().map_or(self.next_row, |row| row.number + 1);
        Ok(rows.into_iter().map(ArchiveRecord::AuditRow).collect())
    }

    fn next_documents(&mut self) -> Result<Vec<ArchiveRecord>, QueryError> {
        let mut select = self.connection.prepare_cached(&format!(
            "SELECT d.kind, d.name, d.version, b.body, d.modified, d.place, d.number, d.user, \
             d.tool, d.reason, {} \
             FROM documents d LEFT JOIN bodies b ON b.document = d.id \
             WHERE d.project = ?1 AND d.kind = ?2 AND d.name >= ?3 \
             ORDER BY d.name",
            DOCUMENTS.verify("d.")
        ))?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some((id, project, kind)) = self.remaining_lists.last() {
            let mut rows = select.query((id, kind.name(), &self.next_name))?;
            while let Some(row) = rows.next()? {
                let document = read::decode_document(row)?;
                bytes += document.body.len();
                self.next_name = read::next_name(&document.id.name);
                let place: Option<String> = row.get(5)?;
                records.push(ArchiveRecord::Document(DocumentRecord {
                    project: project.clone(),
                    document,
                    modified: Timestamp(row.get(4)?),
                    path: place.map(Into::into),
                    entry: PresentEntry {
                        number: row.get(6)?,
                        origin: history::decode_origin(row, 7)?,
                    },
                }));
                if records.len() >= read::BATCH_RECORDS || bytes > read::BATCH_BYTES {
                    return Ok(records);
                }
            }
            drop(rows);
            self.remaining_lists.pop();
            self.next_name.clear();
        }
        Ok(records)
    }

    fn next_entries(&mut self) -> Result<Vec<ArchiveRecord>, QueryError> {
        while let Some((id, project, kind)) = self.remaining_lists.last() {
            let list = (*id, project);
            let entries =
                history::archive_entries(&self.connection, list, *kind, &self.last_entry)?;
            if let Some(last) = entries.last() {
                self.last_entry = (last.document.name.clone(), last.entry.number);
                return Ok(entries.into_iter().map(ArchiveRecord::History).collect());
            }
            self.remaining_lists.pop();
            self.last_entry = Default::default();
        }
        Ok(Vec::new())
    }

    fn high_water_marks(&self) -> Result<Vec<ArchiveRecord>, QueryError> {
        // A mark without its project must not be lost.
        let mut select = self.connection.prepare(&format!(
            "SELECT p.key, m.kind, m.number, {}, iif(p.id IS NULL, NULL, {}) FROM marks m \
             LEFT JOIN projects p ON p.id = m.project",
            MARKS.verify("m."),
            PROJECTS.verify("p.")
        ))?;
        let mut rows = select.query([])?;
        let mut marks = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, kind): (String, String) = (row.get(0)?, row.get(1)?);
            let Some(kind) = ItemKind::ALL.into_iter().find(|known| known.name() == kind) else {
                return Err(QueryError::damaged("the kind of a high-water mark"));
            };
            marks.push(HighWaterMark { project: ProjectKey::new(key), kind, number: row.get(2)? });
        }
        marks.sort_unstable();
        Ok(marks.into_iter().map(ArchiveRecord::HighWaterMark).collect())
    }
}

/// The records that an export reads next, in the order of an archive.
#[derive(Debug, Clone, Copy)]
enum ExportPhase {
    Documents,
    Marks,
    History,
    Identities,
    AuditRows,
}

/// Returns the kinds of all projects in the order of an archive, the first one last.
fn project_kinds(
    connection: &Connection,
) -> Result<Vec<(i64, ProjectKey, DocumentKind)>, QueryError> {
    let mut lists = Vec::new();
    let select = format!("SELECT id, key, {} FROM projects ORDER BY key DESC", PROJECTS.verify(""));
    let mut projects = connection.prepare(&select)?;
    let mut rows = projects.query([])?;
    while let Some(row) = rows.next()? {
        let (id, key) = (row.get(0)?, ProjectKey::new(row.get::<_, String>(1)?));
        lists.extend(DocumentKind::ALL.into_iter().rev().map(|kind| (id, key.clone(), kind)));
    }
    Ok(lists)
}

/// Durably marks an empty database as incomplete. Refuses a database with contents.
fn begin_import(connector: &Connector) -> Result<Connection, QueryError> {
    connector.file.check_all_identities()?;
    let mut connection = connector.open(ConnectionUse::Write)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    read::check_complete(DATABASE_NAME, &transaction)?;
    let has_contents = "SELECT EXISTS (SELECT 1 FROM documents) OR EXISTS (SELECT 1 FROM users) \
                 OR EXISTS (SELECT 1 FROM tokens) OR EXISTS (SELECT 1 FROM audit) \
                 OR EXISTS (SELECT 1 FROM history)";
    if transaction.query_one(has_contents, [], |row| row.get(0))? {
        let reason = "is not empty; copy into a new one";
        return Err(refused(DATABASE_NAME, reason).into());
    }
    transaction.execute(&STORE.update(&[("state", "'filling'")], "one = 1"), [])?;
    // Durable before the first record, so that a partial import is recognized.
    transaction.commit()?;
    // Batches need no sync: an interrupted import is repeated from the start.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(connection)
}

struct ImportWriter {
    connector: Connector,
    /// `None` after an error.
    connection: Option<Connection>,
}

#[async_trait]
impl RecordWriter for ImportWriter {
    /// Runs one transaction.
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        let mut connection = self.connection.take().ok_or_else(used_after_error)?;
        let writer_id = self.connector.file.writer_id;
        let put = run_blocking(move || {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            put_records(&transaction, writer_id, records)?;
            transaction.commit()?;
            Ok::<_, QueryError>(connection)
        });
        self.connection = Some(put.await?);
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let connection = self.connection.take().ok_or_else(used_after_error)?;
        let connector = self.connector.clone();
        run_blocking(move || finish_import(&connector, connection)).await
    }
}

fn put_records(
    connection: &Connection,
    writer_id: u64,
    records: Vec<ArchiveRecord>,
) -> Result<(), QueryError> {
    let mut current: Option<(ProjectKey, (i64, Revision))> = None;
    let mut identities = IdentityRecords::default();
    // One change of a mark for the batch instead of one for each item.
    let mut marks = BTreeMap::new();
    for record in records {
        match record {
            ArchiveRecord::Document(DocumentRecord {
                project,
                document,
                modified,
                path: place,
                entry,
            }) => {
                // Records are ordered by project, so each batch has one revision per project.
                let row = match &current {
                    Some((key, row)) if *key == project => *row,
                    _ => changes::next_revision(connection, writer_id, &project)?,
                };
                current = Some((project, row));
                if let Some(Reference { kind, number }) = Reference::from_document(&document.id) {
                    let mark = marks.entry((row.0, kind.name())).or_insert((kind, number));
                    mark.1 = mark.1.max(number);
                }
                let place = (modified, place.as_deref());
                write::put_document(connection, row, &document, None, place, &entry)?;
            }
            ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }) => {
                let (project, _) = changes::next_revision(connection, writer_id, &project)?;
                write::raise_high_water_mark(connection, project, kind, number)?;
            }
            ArchiveRecord::History(HistoryRecord { project, document, entry }) => {
                let row = match &current {
                    Some((key, row)) if *key == project => *row,
                    _ => changes::next_revision(connection, writer_id, &project)?,
                };
                current = Some((project, row));
                history::insert_entry(connection, row.0, &document, &entry)?;
            }
            ArchiveRecord::User(user) => identities.users.push(user),
            ArchiveRecord::Token(token) => identities.tokens.push(token),
            ArchiveRecord::AuditRow(row) => audit::insert_row(connection, &row)?,
        }
    }
    for ((project, _), (kind, number)) in marks {
        write::raise_high_water_mark(connection, project, kind, number)?;
    }
    if identities == IdentityRecords::default() {
        return Ok(());
    }
    identity::insert_all(connection, &identities)
}

fn finish_import(connector: &Connector, mut connection: Connection) -> Result<(), QueryError> {
    connector.file.check_all_identities()?;
    history::check_numbers(&connection)?;
    // With FULL the next commit syncs the log and all records in it.
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(&STORE.update(&[("state", "'complete'")], "one = 1"), [])?;
    let count = count_commit(&transaction)?;
    transaction.commit()?;
    // A file that was replaced in the meantime did not get the records.
    connector.file.check_all_identities()?;
    connector.file.record_commit(count);
    Ok(())
}
