//! The writer: a group of changes is a transaction, and each change is a savepoint in it.
//!
//! After some errors (a full disk) SQLite rolls the whole transaction back by itself. Then every
//! change of the group gets that error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::ports::documents::{
    CommitDecision, CommitRequest, CommitResult, DocumentChange, DocumentFilter, ReadSet, Revision,
    Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::catch_panic;
use reqlore_sqlite_team::error::{RESTORE, refused, unavailable};
use reqlore_sqlite_team::{audit, idempotency};
use rusqlite::Connection;

use crate::database_file::DatabaseFile;
use crate::error::{DATABASE_NAME, QueryError, call_error};
use crate::read;

#[derive(Debug)]
pub(crate) struct SqliteEngine {
    pub(crate) connection: Connection,
    pub(crate) file: Arc<DatabaseFile>,
    /// Set by the background check.
    pub(crate) is_damaged: Arc<AtomicBool>,
    pub(crate) schema: usize,
    /// The error with which SQLite rolled the current group back.
    pub(crate) group_error: Option<StoreError>,
}

impl reqlore_group_commit::GroupEngine for SqliteEngine {
    fn begin_group(&mut self) -> StoreResult<()> {
        if self.is_damaged.load(Ordering::Relaxed) {
            let reason = format!("is damaged, so nothing is written to it any more; {RESTORE}");
            return Err(refused(DATABASE_NAME, reason));
        }
        self.file.check_all_identities()?;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(call_error)?;
        let checked = self.check_format().map_err(call_error);
        if checked.is_err() {
            self.roll_back();
        }
        checked
    }

    fn finish_group(&mut self) -> StoreResult<()> {
        if let Some(lost) = self.group_error.take() {
            return Err(lost);
        }
        let ended = self
            .file
            .check_all_identities()
            .and_then(|()| self.connection.execute_batch("COMMIT").map_err(call_error));
        if ended.is_err() {
            self.roll_back();
            return ended;
        }
        self.file.check_all_identities().map_err(|_| {
            let reason = "its file went away while it was written; the change is in the file that \
                          went, if anywhere. Start reqlore again and look";
            unavailable(DATABASE_NAME, reason)
        })
    }

    fn abort_group(&mut self) {
        self.group_error = None;
        self.roll_back();
    }
}

impl SqliteEngine {
    /// Applies a commit with its audit row and its idempotency key.
    pub(crate) fn apply_commit(
        &mut self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        self.run_step(|connection| commit_changes(connection, project, commit))
    }

    /// Runs `act` whole or not at all; the other changes of the group stay.
    pub(crate) fn run_step<T>(
        &mut self,
        act: impl FnOnce(&Connection) -> Result<T, QueryError>,
    ) -> StoreResult<T> {
        if let Some(lost) = &self.group_error {
            return Err(lost.clone_for_group());
        }
        let done = self.within_savepoint(act).map_err(call_error);
        if !self.connection.is_autocommit() {
            return done;
        }
        let lost = done.err().unwrap_or_else(|| StoreError::Internal("it was undone".to_owned()));
        self.group_error = Some(lost.clone_for_group());
        Err(lost)
    }

    /// Another process may have begun to fill the database, or migrated it.
    fn check_format(&self) -> Result<(), QueryError> {
        read::check_complete(DATABASE_NAME, &self.connection)?;
        if read::is_current(&self.connection, self.schema)? {
            return Ok(());
        }
        let reason = "was brought to another version by another reqlore. Nothing was written; \
                      start this one again";
        Err(refused(DATABASE_NAME, reason).into())
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction was not rolled back");
        }
    }

    fn within_savepoint<T>(
        &self,
        act: impl FnOnce(&Connection) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let execute = |statement| self.connection.prepare_cached(statement)?.execute([]);
        execute("SAVEPOINT one")?;
        let done = catch_panic(|| act(&self.connection));
        let undone = if done.is_ok() { Ok(0) } else { execute("ROLLBACK TO one") };
        if undone.and_then(|_| execute("RELEASE one")).is_err() {
            self.roll_back();
        }
        done
    }
}

fn commit_changes(
    connection: &Connection,
    project: &ProjectKey,
    mut commit: CommitRequest,
) -> Result<CommitResult, QueryError> {
    if let Some(once) = &commit.context.idempotency_key {
        commit.context.check_idempotency(idempotency::find(connection, &once.key)?)?;
    }
    let snapshot = read_snapshot(connection, project, &commit.reads)?;
    let CommitDecision { changes, audit, idempotency: once } = commit.decide(project, &snapshot)?;
    if changes.is_empty() {
        let revision = read::project_row(connection, project)?.unwrap_or_default().revision;
        return Ok(CommitResult { revision, versions: Vec::new() });
    }
    let revision = write_changes(connection, project, &changes, commit.context.at)?;
    audit::append(connection, audit)?;
    if let Some((key, earlier)) = once {
        idempotency::insert(connection, &key, &earlier)?;
    }
    Ok(CommitResult { revision, versions: changes.iter().map(DocumentChange::version).collect() })
}

fn read_snapshot(
    connection: &Connection,
    project: &ProjectKey,
    ReadSet { documents, metadata_of: heads, backlinks: links, sequences: numbers }: &ReadSet,
) -> Result<Snapshot, QueryError> {
    let all = |kind| {
        Ok::<_, QueryError>(
            read::metadata_page(connection, project, &DocumentFilter::all(kind))?.metadata,
        )
    };
    Ok(Snapshot {
        documents: read::documents(connection, project, documents)?,
        metadata: heads.map(all).transpose()?.unwrap_or_default(),
        backlinks: read::backlinks(connection, project, links, usize::MAX)?.unwrap_or_default(),
        next_numbers: read::next_numbers(connection, project, numbers)?,
    })
}

fn write_changes(
    connection: &Connection,
    project: &ProjectKey,
    changes: &[DocumentChange],
    at: Timestamp,
) -> Result<Revision, QueryError> {
    let (project, revision) = next_revision(connection, project)?;
    for change in changes {
        raise_mark_to(connection, project, change.id())?;
        match change {
            DocumentChange::Put { document } => {
                put_document(connection, (project, revision), document, at, None)?;
            }
            DocumentChange::Delete { id } => delete_document(connection, project, revision, id)?,
        }
    }
    Ok(revision)
}

/// Increments the project's revision, and adds a row for a new project.
pub(crate) fn next_revision(
    connection: &Connection,
    project: &ProjectKey,
) -> Result<(i64, Revision), QueryError> {
    let mut increment = connection.prepare_cached(
        "INSERT INTO projects (key, revision) VALUES (?1, 1) \
         ON CONFLICT (key) DO UPDATE SET revision = revision + 1 RETURNING id, revision",
    )?;
    Ok(increment.query_one([project.as_str()], |row| Ok((row.get(0)?, Revision(row.get(1)?))))?)
}

/// Inserts or replaces a document. A document that is there keeps its place.
pub(crate) fn put_document(
    connection: &Connection,
    (project, revision): (i64, Revision),
    document: &Document,
    modified: Timestamp,
    place: Option<&str>,
) -> Result<(), QueryError> {
    let DocumentId { kind, name } = &document.id;
    let version = document.version.to_string();
    let head = DocumentMeta::of(document, modified);
    let mut upsert = connection.prepare_cached(
        "INSERT INTO documents \
         (project, kind, name, version, revision, modified, place, reference, head) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (project, kind, name) DO UPDATE SET \
         version = excluded.version, revision = excluded.revision, modified = excluded.modified, \
         reference = excluded.reference, head = excluded.head RETURNING id",
    )?;
    let (kind, reference, bytes) = (kind.name(), head.reference(), encode_metadata(&head)?);
    let row = (project, kind, name, version, revision.0, modified.0, place, reference, bytes);
    let id: i64 = upsert.query_one(row, |row| row.get(0))?;
    let mut body = connection.prepare_cached(
        "INSERT INTO bodies (document, body) VALUES (?1, ?2) \
         ON CONFLICT (document) DO UPDATE SET body = excluded.body",
    )?;
    body.execute((id, &document.body[..]))?;
    replace_links(connection, (id, project), &head)?;
    forget_deletion(connection, project, &document.id)
}

/// Derives the metadata and the links of a document's row again.
pub(crate) fn update_metadata(
    connection: &Connection,
    (id, project): (i64, i64),
    head: &DocumentMeta,
) -> Result<(), QueryError> {
    connection
        .prepare_cached("UPDATE documents SET reference = ?2, head = ?3 WHERE id = ?1")?
        .execute((id, head.reference(), encode_metadata(head)?))?;
    replace_links(connection, (id, project), head)
}

fn encode_metadata(head: &DocumentMeta) -> Result<Vec<u8>, QueryError> {
    let bytes = postcard::to_allocvec(head);
    Ok(bytes.map_err(|error| StoreError::Internal(error.to_string()))?)
}

fn replace_links(
    connection: &Connection,
    (id, project): (i64, i64),
    head: &DocumentMeta,
) -> Result<(), QueryError> {
    connection.prepare_cached("DELETE FROM links WHERE document = ?1")?.execute([id])?;
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO links (document, relation, target, project, kind) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (relation, target) in head.links() {
        insert.execute((id, relation, target, project, head.id.kind.name()))?;
    }
    Ok(())
}

/// Raises the high-water mark of the document's kind, so that no later item gets its number.
pub(crate) fn raise_mark_to(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
) -> Result<(), QueryError> {
    let Some(Reference { kind, number }) = Reference::of_document(id) else { return Ok(()) };
    raise_high_water_mark(connection, project, kind, number)
}

pub(crate) fn raise_high_water_mark(
    connection: &Connection,
    project: i64,
    kind: ItemKind,
    number: u32,
) -> Result<(), QueryError> {
    let mut raise = connection.prepare_cached(
        "INSERT INTO marks (project, kind, number) VALUES (?1, ?2, ?3) \
         ON CONFLICT (project, kind) DO UPDATE SET number = excluded.number \
         WHERE excluded.number > number",
    )?;
    raise.execute((project, kind.name(), number))?;
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
    // Body and links go with it. The deletion of a missing document is a change too.
    if delete.execute((project, id.kind.name(), &id.name))? == 0 {
        forget_deletion(connection, project, id)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO removed (project, kind, name, revision) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((project, id.kind.name(), &id.name, revision.0))?;
    let mut count = connection.prepare_cached(
        "UPDATE projects SET removed = removed + 1 WHERE id = ?1 RETURNING removed",
    )?;
    let removed: usize = count.query_one([project], |row| row.get(0))?;
    if removed > read::MAX_CHANGES {
        prune_history(connection, project)?;
    }
    Ok(())
}

fn forget_deletion(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
) -> Result<(), QueryError> {
    let mut delete = connection
        .prepare_cached("DELETE FROM removed WHERE project = ?1 AND kind = ?2 AND name = ?3")?;
    if delete.execute((project, id.kind.name(), &id.name))? > 0 {
        connection
            .prepare_cached("UPDATE projects SET removed = removed - 1 WHERE id = ?1")?
            .execute([project])?;
    }
    Ok(())
}

/// Forgets the oldest removals, and records since which revision the history is complete.
fn prune_history(connection: &Connection, project: i64) -> Result<(), QueryError> {
    let oldest = "SELECT revision FROM removed WHERE project = ?1 ORDER BY revision LIMIT 1";
    let mut oldest = connection.prepare_cached(oldest)?;
    let oldest: u64 = oldest.query_one([project], |row| row.get(0))?;
    let gone = connection
        .prepare_cached("DELETE FROM removed WHERE project = ?1 AND revision = ?2")?
        .execute((project, oldest))?;
    connection
        .prepare_cached("UPDATE projects SET removed = removed - ?2, history = ?3 WHERE id = ?1")?
        .execute((project, gone, oldest))?;
    Ok(())
}
