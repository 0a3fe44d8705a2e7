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

use crate::error::{DATABASE, Failed, call_failed};
use crate::place::Place;
use crate::read;

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) connection: Connection,
    pub(crate) place: Arc<Place>,
    /// Set by the background check.
    pub(crate) damaged: Arc<AtomicBool>,
    pub(crate) schema: usize,
    /// The error with which SQLite rolled the current group back.
    pub(crate) lost: Option<StoreError>,
}

impl reqlore_group_commit::GroupEngine for Engine {
    fn begin_group(&mut self) -> StoreResult<()> {
        if self.damaged.load(Ordering::Relaxed) {
            let reason = format!("is damaged, so nothing is written to it any more; {RESTORE}");
            return Err(refused(DATABASE, reason));
        }
        self.place.check_all()?;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(call_failed)?;
        let checked = self.check_format().map_err(call_failed);
        if checked.is_err() {
            self.roll_back();
        }
        checked
    }

    fn finish_group(&mut self) -> StoreResult<()> {
        if let Some(lost) = self.lost.take() {
            return Err(lost);
        }
        let ended = self
            .place
            .check_all()
            .and_then(|()| self.connection.execute_batch("COMMIT").map_err(call_failed));
        if ended.is_err() {
            self.roll_back();
            return ended;
        }
        self.place.check_all().map_err(|_| {
            let reason = "its file went away while it was written; the change is in the file that \
                          went, if anywhere. Start reqlore again and look";
            unavailable(DATABASE, reason)
        })
    }

    fn abort_group(&mut self) {
        self.lost = None;
        self.roll_back();
    }
}

impl Engine {
    /// Applies a commit with its audit row and its idempotency key.
    pub(crate) fn apply(
        &mut self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        self.step(|connection| apply(connection, project, commit))
    }

    /// Runs `act` whole or not at all; the other changes of the group stay.
    pub(crate) fn step<T>(
        &mut self,
        act: impl FnOnce(&Connection) -> Result<T, Failed>,
    ) -> StoreResult<T> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone_for_group());
        }
        let done = self.within_savepoint(act).map_err(call_failed);
        if !self.connection.is_autocommit() {
            return done;
        }
        let lost = done.err().unwrap_or_else(|| StoreError::Internal("it was undone".to_owned()));
        self.lost = Some(lost.clone_for_group());
        Err(lost)
    }

    /// Another process may have begun to fill the database, or migrated it.
    fn check_format(&self) -> Result<(), Failed> {
        read::check_complete(DATABASE, &self.connection)?;
        if read::is_current(&self.connection, self.schema)? {
            return Ok(());
        }
        let reason = "was brought to another version by another reqlore. Nothing was written; \
                      start this one again";
        Err(refused(DATABASE, reason).into())
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
        act: impl FnOnce(&Connection) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
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

fn apply(
    connection: &Connection,
    project: &ProjectKey,
    mut commit: CommitRequest,
) -> Result<CommitResult, Failed> {
    if let Some(once) = &commit.context.idempotency_key {
        commit.context.check_idempotency(idempotency::find(connection, &once.key)?)?;
    }
    let snapshot = snapshot(connection, project, &commit.reads)?;
    let CommitDecision { changes, audit, idempotency: once } = commit.decide(project, &snapshot)?;
    if changes.is_empty() {
        let revision = read::project(connection, project)?.unwrap_or_default().revision;
        return Ok(CommitResult { revision, versions: Vec::new() });
    }
    let revision = write(connection, project, &changes, commit.context.at)?;
    audit::append(connection, audit)?;
    if let Some((key, earlier)) = once {
        idempotency::insert(connection, &key, &earlier)?;
    }
    Ok(CommitResult { revision, versions: changes.iter().map(DocumentChange::version).collect() })
}

fn snapshot(
    connection: &Connection,
    project: &ProjectKey,
    ReadSet { documents, metadata_of: heads, backlinks: links, sequences: numbers }: &ReadSet,
) -> Result<Snapshot, Failed> {
    let all = |kind| {
        Ok::<_, Failed>(read::page(connection, project, &DocumentFilter::all(kind))?.metadata)
    };
    Ok(Snapshot {
        documents: read::documents(connection, project, documents)?,
        metadata: heads.map(all).transpose()?.unwrap_or_default(),
        backlinks: read::backlinks(connection, project, links, usize::MAX)?.unwrap_or_default(),
        next_numbers: read::next_numbers(connection, project, numbers)?,
    })
}

fn write(
    connection: &Connection,
    project: &ProjectKey,
    changes: &[DocumentChange],
    at: Timestamp,
) -> Result<Revision, Failed> {
    let (project, revision) = next_revision(connection, project)?;
    for change in changes {
        count_number(connection, project, change.id())?;
        match change {
            DocumentChange::Put { document } => {
                put(connection, (project, revision), document, at, None)?;
            }
            DocumentChange::Delete { id } => delete(connection, project, revision, id)?,
        }
    }
    Ok(revision)
}

/// Increments the project's revision, and adds a row for a new project.
pub(crate) fn next_revision(
    connection: &Connection,
    project: &ProjectKey,
) -> Result<(i64, Revision), Failed> {
    let mut increment = connection.prepare_cached(
        "INSERT INTO projects (key, revision) VALUES (?1, 1) \
         ON CONFLICT (key) DO UPDATE SET revision = revision + 1 RETURNING id, revision",
    )?;
    Ok(increment.query_one([project.as_str()], |row| Ok((row.get(0)?, Revision(row.get(1)?))))?)
}

/// Inserts or replaces a document. A document that is there keeps its place.
pub(crate) fn put(
    connection: &Connection,
    (project, revision): (i64, Revision),
    document: &Document,
    modified: Timestamp,
    place: Option<&str>,
) -> Result<(), Failed> {
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
    let (kind, reference, bytes) = (kind.name(), head.reference(), encoded(&head)?);
    let row = (project, kind, name, version, revision.0, modified.0, place, reference, bytes);
    let id: i64 = upsert.query_one(row, |row| row.get(0))?;
    let mut body = connection.prepare_cached(
        "INSERT INTO bodies (document, body) VALUES (?1, ?2) \
         ON CONFLICT (document) DO UPDATE SET body = excluded.body",
    )?;
    body.execute((id, &document.body[..]))?;
    replace_links(connection, (id, project), &head)?;
    forget_removed(connection, project, &document.id)
}

/// Derives the metadata and the links of a document's row again.
pub(crate) fn derive(
    connection: &Connection,
    (id, project): (i64, i64),
    head: &DocumentMeta,
) -> Result<(), Failed> {
    connection
        .prepare_cached("UPDATE documents SET reference = ?2, head = ?3 WHERE id = ?1")?
        .execute((id, head.reference(), encoded(head)?))?;
    replace_links(connection, (id, project), head)
}

fn encoded(head: &DocumentMeta) -> Result<Vec<u8>, Failed> {
    let bytes = postcard::to_allocvec(head);
    Ok(bytes.map_err(|error| StoreError::Internal(error.to_string()))?)
}

fn replace_links(
    connection: &Connection,
    (id, project): (i64, i64),
    head: &DocumentMeta,
) -> Result<(), Failed> {
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
pub(crate) fn count_number(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
) -> Result<(), Failed> {
    let Some(Reference { kind, number }) = Reference::of_document(id) else { return Ok(()) };
    raise_mark(connection, project, kind, number)
}

pub(crate) fn raise_mark(
    connection: &Connection,
    project: i64,
    kind: ItemKind,
    number: u32,
) -> Result<(), Failed> {
    let mut raise = connection.prepare_cached(
        "INSERT INTO marks (project, kind, number) VALUES (?1, ?2, ?3) \
         ON CONFLICT (project, kind) DO UPDATE SET number = excluded.number \
         WHERE excluded.number > number",
    )?;
    raise.execute((project, kind.name(), number))?;
    Ok(())
}

fn delete(
    connection: &Connection,
    project: i64,
    revision: Revision,
    id: &DocumentId,
) -> Result<(), Failed> {
    let mut delete = connection
        .prepare_cached("DELETE FROM documents WHERE project = ?1 AND kind = ?2 AND name = ?3")?;
    // Body and links go with it. The deletion of a missing document is a change too.
    if delete.execute((project, id.kind.name(), &id.name))? == 0 {
        forget_removed(connection, project, id)?;
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
    if removed > read::HISTORY {
        shorten(connection, project)?;
    }
    Ok(())
}

fn forget_removed(connection: &Connection, project: i64, id: &DocumentId) -> Result<(), Failed> {
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
fn shorten(connection: &Connection, project: i64) -> Result<(), Failed> {
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
