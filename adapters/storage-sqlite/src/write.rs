//! The writer: each group is a transaction, and each commit is a savepoint in it.
//!
//! After some errors, such as a full disk, SQLite rolls back the whole transaction itself. Then all
//! commits of the group fail with that error.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::ports::documents::{
    CommitDecision, CommitRequest, CommitResult, DocumentChange, DocumentFilter, ReadSet, Revision,
    Snapshot, StoreError, StoreResult,
};
use reqlore_domain::ports::history::{ChangeOrigin, PastContent, PastEntry, PresentEntry};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::{GroupEngine, GroupOutcome, catch_panic};
use reqlore_sqlite_team::error::unavailable;
use reqlore_sqlite_team::{audit, idempotency};
use rusqlite::Connection;

use crate::changes;
use crate::commit_count::{CommitCount, count_commit};
use crate::damage::DamageState;
use crate::database_file::DatabaseFile;
use crate::error::{DATABASE_NAME, QueryError};
use crate::history;
use crate::read;
use crate::schema::FORMAT;
use crate::tables::{DOCUMENTS, LINKS, MARKS};

/// Moves the log into the database, if no other process reads it, and empties it.
pub(crate) const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

#[derive(Debug)]
pub(crate) struct SqliteEngine {
    pub(crate) connection: Connection,
    pub(crate) file: Arc<DatabaseFile>,
    pub(crate) damage: Arc<DamageState>,
    /// The error after which SQLite rolled back the current group.
    pub(crate) group_error: Option<StoreError>,
    /// The number of changed rows at the start of the current group.
    pub(crate) changes: u64,
    /// True after a step of the current group succeeded.
    pub(crate) has_steps: bool,
}

impl GroupEngine for SqliteEngine {
    type ReadPlan = ();

    fn begin_group(&mut self, _: &[&()]) -> StoreResult<()> {
        self.damage.permit_write()?;
        self.file.check_all_identities()?;
        // IMMEDIATE takes the write lock now; a later upgrade of a read lock could fail as busy.
        self.execute("BEGIN IMMEDIATE")?;
        self.changes = self.connection.total_changes();
        self.has_steps = false;
        let result = self.check_format().map_err(|error| self.damage.note(error));
        if result.is_err() {
            self.roll_back();
        }
        result
    }

    fn finish_group(&mut self) -> StoreResult<GroupOutcome> {
        if let Some(error) = self.group_error.take() {
            return Err(error);
        }
        let count = self.commit_transaction().inspect_err(|_| self.roll_back())?;
        // A commit to a file that lost its name is not durable under this name.
        self.file.check_all_identities().map_err(|_| {
            let reason = "its file was moved or replaced during a write, so the change may be \
                          lost; restart the server and check";
            unavailable(DATABASE_NAME, reason)
        })?;
        // After the sync of the commit, so that the side file is never ahead of the database.
        if let Some(count) = count {
            self.file.record_commit(count);
        }
        Ok(GroupOutcome::Durable)
    }

    fn abort_group(&mut self) {
        self.group_error = None;
        self.roll_back();
    }
}

impl Drop for SqliteEngine {
    /// Moves the log into the database. The empty log stays, because a missing one is a loss.
    fn drop(&mut self) {
        if self.file.check_all_identities().is_err() {
            return;
        }
        // Another process that reads the log may keep it, and moves it when it ends.
        let checkpointed = self
            .connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| self.connection.query_one(CHECKPOINT, [], |_| Ok(())));
        if let Err(error) = checkpointed {
            tracing::debug!(%error, "the log was not moved into the database");
        }
        self.file.sync_commits();
    }
}

impl SqliteEngine {
    /// Applies a commit with its audit row and its idempotency record.
    pub(crate) fn apply_commit(
        &mut self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let writer_id = self.file.writer_id;
        self.run_step(|connection| commit_changes(connection, writer_id, project, commit))
    }

    /// Runs work atomically, without affecting the other commits of the group.
    pub(crate) fn run_step<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, QueryError>,
    ) -> StoreResult<T> {
        if let Some(error) = &self.group_error {
            return Err(error.clone_for_group());
        }
        // Most groups have one step. Without a savepoint no page is copied before its change.
        let is_first = !self.has_steps;
        let result = if is_first {
            catch_panic(|| work(&self.connection))
        } else {
            self.within_savepoint(work)
        };
        let result = result.map_err(|error| self.damage.note(error));
        if !self.connection.is_autocommit() {
            self.has_steps |= result.is_ok();
            if is_first && result.is_err() {
                self.restart_group();
            }
            return result;
        }
        // SQLite rolled back the transaction, so this step is lost even if it succeeded.
        let error = match result {
            Err(error) => error,
            Ok(_) => StoreError::Internal("the transaction was rolled back".to_owned()),
        };
        self.group_error = Some(error.clone_for_group());
        Err(error)
    }

    /// Undoes the first step. The group continues with its next one.
    fn restart_group(&mut self) {
        self.roll_back();
        // Another process may have written in between.
        if let Err(error) = self.begin_group(&[]) {
            self.group_error = Some(error);
        }
    }

    /// Returns the count of the commit; `None` if the group changed nothing.
    fn commit_transaction(&self) -> StoreResult<Option<CommitCount>> {
        let has_changes = self.connection.total_changes() != self.changes;
        // Counting would make a commit without changes wait for a sync.
        let count = has_changes.then(|| count_commit(&self.connection)).transpose();
        let count = count.map_err(|error| self.damage.note(error))?;
        self.file.check_all_identities()?;
        self.execute("COMMIT")?;
        Ok(count)
    }

    fn execute(&self, statement: &str) -> StoreResult<()> {
        let executed = self.execute_cached(statement);
        executed.map_err(|error| self.damage.note(error.into()))
    }

    /// Fails if another process started an import or changed the format.
    fn check_format(&self) -> Result<(), QueryError> {
        FORMAT.check(&self.connection, DATABASE_NAME)?;
        read::check_complete(DATABASE_NAME, &self.connection)
    }

    fn roll_back(&self) {
        // SQLite may have rolled back the transaction itself.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back a transaction");
        }
    }

    fn within_savepoint<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.execute_cached("SAVEPOINT one")?;
        let result = catch_panic(|| work(&self.connection));
        // Without its savepoint a step cannot be separated from the group.
        if self.end_savepoint(result.is_ok()).is_err() {
            self.roll_back();
        }
        result
    }

    fn end_savepoint(&self, keep: bool) -> rusqlite::Result<()> {
        if !keep {
            self.execute_cached("ROLLBACK TO one")?;
        }
        // A rollback keeps the savepoint itself.
        self.execute_cached("RELEASE one")
    }

    fn execute_cached(&self, statement: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(statement)?.execute([])?;
        Ok(())
    }
}

fn commit_changes(
    connection: &Connection,
    writer_id: u64,
    project: &ProjectKey,
    mut commit: CommitRequest,
) -> Result<CommitResult, QueryError> {
    // A repeated key must not run the decision again.
    if let Some(key) = &commit.context.idempotency_key {
        commit.context.check_idempotency(idempotency::find(connection, &key.key)?)?;
    }
    let row = read::project_row(connection, project)?.unwrap_or_default();
    let snapshot = read_snapshot(connection, (row.id, project), &commit.read_set)?;
    let decision = commit.decide(project, &snapshot)?;
    let CommitDecision { changes, audit, idempotency: record } = decision;
    if changes.is_empty() {
        return Ok(CommitResult { revision: row.revision, versions: Vec::new() });
    }
    let row = changes::next_revision(connection, writer_id, project)?;
    write_changes(connection, row, &changes, &commit.context)?;
    audit::append_events(connection, audit)?;
    if let Some((key, record)) = record {
        idempotency::insert(connection, &key, &record)?;
    }
    let (_, revision) = row;
    Ok(CommitResult { revision, versions: changes.iter().map(DocumentChange::version).collect() })
}

fn read_snapshot(
    connection: &Connection,
    (id, project): (i64, &ProjectKey),
    reads: &ReadSet,
) -> Result<Snapshot, QueryError> {
    let mut titles = BTreeMap::new();
    let mut filter = reads.titles_of.map(DocumentFilter::of_kind);
    while let Some(page_filter) = &mut filter {
        let page = read::metadata_page(connection, project, page_filter)?;
        titles.extend(page.metadata.iter().map(|meta| (meta.id.name.clone(), meta.title.clone())));
        page_filter.after_name = page.next_name;
        if page_filter.after_name.is_none() {
            filter = None;
        }
    }
    let backlinks = read::backlinks(connection, id, &reads.backlinks, usize::MAX)?;
    Ok(Snapshot {
        documents: read::documents(connection, id, &reads.documents)?,
        titles,
        backlinks: backlinks.unwrap_or_default(),
        next_numbers: read::next_numbers(connection, id, &reads.sequences)?,
    })
}

fn write_changes(
    connection: &Connection,
    (project, revision): (i64, Revision),
    changes: &[DocumentChange],
    context: &WriteContext,
) -> Result<(), QueryError> {
    for change in DocumentChange::last_of_each(changes) {
        raise_mark_to(connection, project, change.id())?;
        let old = history::present_version(connection, project, change.id(), context.at)?;
        let row = (project, revision);
        // A new document is in no list.
        let listed = match &old {
            Some(_) => read::metadata(connection, project, change.id())?,
            None => None,
        };
        match change {
            DocumentChange::Put { document } => {
                replace_document(connection, row, document, (old, listed), context)?;
            }
            DocumentChange::Delete { id } => {
                if let Some(old) = &old {
                    record_deletion(connection, project, id, old, context)?;
                }
                reqlore_sqlite_metadata::replace_rows(
                    connection,
                    project,
                    listed.as_deref(),
                    None,
                )?;
                delete_document(connection, project, revision, id)?;
            }
        }
    }
    Ok(())
}

/// Stores a new version of a document. The same text is no new version.
fn replace_document(
    connection: &Connection,
    (project, revision): (i64, Revision),
    document: &Document,
    (old, listed): (Option<PastEntry>, Option<Arc<DocumentMeta>>),
    context: &WriteContext,
) -> Result<(), QueryError> {
    let id = &document.id;
    let number = match old {
        Some(old) if old.content == PastContent::Text(document.body.clone()) => {
            static TOUCH: LazyLock<String> = LazyLock::new(|| {
                let found = "project = ?1 AND kind = ?2 AND name = ?3";
                DOCUMENTS.update(&[("revision", "?4")], found)
            });
            let mut touch = connection.prepare_cached(&TOUCH)?;
            touch.execute((project, id.kind.name(), &id.name, revision.0))?;
            return Ok(());
        }
        Some(old) => {
            history::insert_entry(connection, project, id, &old)?;
            old.number + 1
        }
        None => history::next_number(connection, project, id)?,
    };
    let entry = PresentEntry { number, origin: context.origin() };
    let row = (project, revision);
    put_document(connection, row, document, listed.as_deref(), (context.at, None), &entry)
}

fn record_deletion(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
    old: &PastEntry,
    context: &WriteContext,
) -> Result<(), QueryError> {
    history::insert_entry(connection, project, id, old)?;
    let deletion = PastEntry {
        number: old.number + 1,
        at: context.at,
        ended: context.at,
        origin: context.origin(),
        content: PastContent::Deleted,
    };
    history::insert_entry(connection, project, id, &deletion)
}

static INSERT_DOCUMENT: LazyLock<String> = LazyLock::new(|| DOCUMENTS.insert());

// `RETURNING` makes SQLite copy each page that it changes, so only the rarer replacement has it.
static REPLACE_DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    // All columns but the place are replaced.
    let replaced = DOCUMENTS.arguments_with("excluded.", &[("place", "documents.place")]);
    let verify = DOCUMENTS.verify("documents.");
    format!(
        "{} ON CONFLICT (project, kind, name) DO UPDATE SET \
         version = excluded.version, revision = excluded.revision, modified = excluded.modified, \
         reference = excluded.reference, head = excluded.head, number = excluded.number, \
         user = excluded.user, tool = excluded.tool, reason = excluded.reason, \
         checksum = iif({verify}, row_checksum({replaced}), NULL) RETURNING id",
        DOCUMENTS.insert()
    )
});

/// Inserts a document, or replaces one with the metadata `old`, which keeps its place.
pub(crate) fn put_document(
    connection: &Connection,
    (project, revision): (i64, Revision),
    document: &Document,
    old: Option<&DocumentMeta>,
    (modified, place): (Timestamp, Option<&str>),
    entry: &PresentEntry,
) -> Result<(), QueryError> {
    let DocumentId { kind, name } = &document.id;
    let version = document.version.to_string();
    let meta = DocumentMeta::from_document(document, modified);
    let (kind, reference, bytes) = (kind.name(), meta.reference(), encode_metadata(&meta)?);
    let PresentEntry { number, origin } = entry;
    let ChangeOrigin { user, tool, reason } = origin;
    let row = rusqlite::params![
        name, kind, project, version, revision.0, modified.0, place, reference, bytes, number,
        user, tool, reason
    ];
    let id = if old.is_some() {
        let mut replace = connection.prepare_cached(&REPLACE_DOCUMENT)?;
        let id = replace.query_one(row, |row| row.get(0))?;
        let update = "UPDATE bodies SET body = ?2 WHERE document = ?1";
        connection.prepare_cached(update)?.execute((id, &document.body[..]))?;
        id
    } else {
        connection.prepare_cached(&INSERT_DOCUMENT)?.execute(row)?;
        let id = connection.last_insert_rowid();
        let insert = "INSERT INTO bodies (document, body) VALUES (?1, ?2)";
        connection.prepare_cached(insert)?.execute((id, &document.body[..]))?;
        id
    };
    let links = meta.links();
    // Most documents are new, and most changes of a text keep its links.
    if old.map(DocumentMeta::links).as_ref() != Some(&links) {
        if old.is_some() {
            delete_links(connection, id)?;
        }
        insert_links(connection, (id, project), &meta)?;
    }
    // The document exists again, so its deletion is no longer a change to report.
    changes::forget_deletion(connection, project, &document.id)?;
    reqlore_sqlite_metadata::replace_rows(connection, project, old, Some((id, &meta)))
}

fn encode_metadata(meta: &DocumentMeta) -> Result<Vec<u8>, QueryError> {
    let bytes = postcard::to_allocvec(meta);
    Ok(bytes.map_err(|error| StoreError::Internal(error.to_string()))?)
}

fn delete_links(connection: &Connection, id: i64) -> Result<(), QueryError> {
    connection.prepare_cached("DELETE FROM links WHERE document = ?1")?.execute([id])?;
    Ok(())
}

fn insert_links(
    connection: &Connection,
    (id, project): (i64, i64),
    meta: &DocumentMeta,
) -> Result<(), QueryError> {
    static INSERT: LazyLock<String> =
        LazyLock::new(|| format!("{} ON CONFLICT DO NOTHING", LINKS.insert()));
    let mut insert = connection.prepare_cached(&INSERT)?;
    for (relation, target) in meta.links() {
        insert.execute((target, id, relation, project, meta.id.kind.name()))?;
    }
    Ok(())
}

/// Raises the high-water mark to the document's number, so that no later item gets that number.
pub(crate) fn raise_mark_to(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
) -> Result<(), QueryError> {
    let Some(Reference { kind, number }) = Reference::from_document(id) else { return Ok(()) };
    raise_high_water_mark(connection, project, kind, number)
}

pub(crate) fn raise_high_water_mark(
    connection: &Connection,
    project: i64,
    kind: ItemKind,
    number: u32,
) -> Result<(), QueryError> {
    static RAISE: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{} ON CONFLICT (project, kind) DO UPDATE \
             SET number = excluded.number, checksum = iif({}, excluded.checksum, NULL) \
             WHERE excluded.number > marks.number",
            MARKS.insert(),
            MARKS.verify("marks.")
        )
    });
    connection.prepare_cached(&RAISE)?.execute((kind.name(), project, number))?;
    Ok(())
}

fn delete_document(
    connection: &Connection,
    project: i64,
    revision: Revision,
    id: &DocumentId,
) -> Result<(), QueryError> {
    let mut delete = connection
        .prepare_cached("DELETE FROM documents WHERE project = ?1 AND kind = ?2 AND name = ?3")?;
    // Foreign keys delete the body and the links. Deleting a missing document is a change too, and
    // only a missing document has an earlier deletion in the history.
    if delete.execute((project, id.kind.name(), &id.name))? == 0 {
        changes::forget_deletion(connection, project, id)?;
    }
    changes::record_deletion(connection, project, revision, id)
}
