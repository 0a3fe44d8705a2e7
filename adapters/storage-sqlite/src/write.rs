//! The one writer: a group of changes is a transaction, each of them a savepoint in it.
//!
//! The trap: after some failures (a full disk) SQLite undoes the whole transaction by itself; then
//! nothing of the group is there, and all of it is told so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::ports::archive::HighWaterMark;
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, Decision, ReadSet, Revision, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
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
    /// A check found the database damaged.
    pub(crate) damaged: Arc<AtomicBool>,
    pub(crate) schema: usize,
    /// SQLite undid the group that was begun, because of this.
    pub(crate) lost: Option<StoreError>,
}

impl reqlore_group_commit::Engine for Engine {
    fn begin(&mut self) -> StoreResult<()> {
        if self.damaged.load(Ordering::Relaxed) {
            let reason = format!("is damaged, so nothing is written to it any more; {RESTORE}");
            return Err(refused(DATABASE, reason));
        }
        self.place.check_all()?;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(call_failed)?;
        let fit = self.check_fit().map_err(call_failed);
        if fit.is_err() {
            self.undo();
        }
        fit
    }

    fn end(&mut self) -> StoreResult<()> {
        if let Some(lost) = self.lost.take() {
            return Err(lost);
        }
        let ended = self
            .place
            .check_all()
            .and_then(|()| self.connection.execute_batch("COMMIT").map_err(call_failed));
        if ended.is_err() {
            self.undo();
            return ended;
        }
        self.place.check_all().map_err(|_| {
            let reason = "its file went away while it was written; the change is in the file that \
                          went, if anywhere. Start reqlore again and look";
            unavailable(DATABASE, reason)
        })
    }

    fn abort(&mut self) {
        self.lost = None;
        self.undo();
    }
}

impl Engine {
    /// Applies a commit, with its row of the audit and the key under which it happens.
    pub(crate) fn apply(&mut self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        self.step(|connection| apply(connection, project, commit))
    }

    /// Does something whole or not at all; the rest of the group stands.
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

    /// Another process may have begun to fill it, or brought it to a newer schema.
    fn check_fit(&self) -> Result<(), Failed> {
        read::check_complete(DATABASE, &self.connection)?;
        let mut select = self.connection.prepare_cached(
            "SELECT heads, (SELECT user_version FROM pragma_user_version) FROM store",
        )?;
        let now: (u32, usize) = select.query_one([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if now == (DocumentMeta::FORMAT, self.schema) {
            return Ok(());
        }
        let reason = "was brought to another version by another reqlore. Nothing was written; \
                      start this one again";
        Err(refused(DATABASE, reason).into())
    }

    fn undo(&self) {
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
        self.connection.prepare_cached("SAVEPOINT one")?.execute([])?;
        let done = catch_panic(|| act(&self.connection));
        if self.settle(done.is_ok()).is_err() {
            self.undo();
        }
        done
    }

    /// Keeps or undoes what was written since. Where neither works the group is lost.
    fn settle(&self, keep: bool) -> rusqlite::Result<()> {
        if !keep {
            self.connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
        }
        self.connection.prepare_cached("RELEASE one")?.execute([]).map(drop)
    }
}

fn apply(
    connection: &Connection,
    project: &ProjectKey,
    mut commit: Commit,
) -> Result<Committed, Failed> {
    if let Some(once) = &commit.act.once {
        commit.act.check_idempotency(idempotency::find(connection, &once.key)?)?;
    }
    let snapshot = snapshot(connection, project, &commit.reads)?;
    let Decision { changes, audit, once } = commit.decide(project, &snapshot)?;
    if changes.is_empty() {
        let row = read::project(connection, project)?;
        let revision = row.map(|row| row.revision).unwrap_or_default();
        return Ok(Committed { revision, versions: Vec::new() });
    }
    let revision = change(connection, project, &changes, commit.act.at)?;
    audit::append(connection, audit)?;
    if let Some((key, earlier)) = once {
        idempotency::insert(connection, &key, &earlier)?;
    }
    Ok(Committed { revision, versions: changes.iter().map(Change::version).collect() })
}

fn snapshot(
    connection: &Connection,
    project: &ProjectKey,
    ReadSet { documents, heads, links, numbers }: &ReadSet,
) -> Result<Snapshot, Failed> {
    let heads = heads.map(|kind| read::heads(connection, project, kind)).transpose()?;
    Ok(Snapshot {
        documents: read::documents(connection, project, documents)?,
        heads: heads.unwrap_or_default(),
        links: read::backlinks(connection, project, links, usize::MAX)?.unwrap_or_default(),
        numbers: read::numbers(connection, project, numbers)?,
    })
}

fn change(
    connection: &Connection,
    project: &ProjectKey,
    changes: &[Change],
    at: Timestamp,
) -> Result<Revision, Failed> {
    let (project, revision) = next_revision(connection, project)?;
    for change in changes {
        count(connection, project, change.id())?;
        match change {
            Change::Put { document } => {
                put(connection, (project, revision), document, at, None)?;
            }
            Change::Delete { id } => delete(connection, project, revision, id)?,
        }
    }
    Ok(revision)
}

/// Counts the project on, and gives it a row if it has none.
pub(crate) fn next_revision(
    connection: &Connection,
    project: &ProjectKey,
) -> Result<(i64, Revision), Failed> {
    let mut count = connection.prepare_cached(
        "INSERT INTO projects (key, revision) VALUES (?1, 1) \
         ON CONFLICT (key) DO UPDATE SET revision = revision + 1 RETURNING id, revision",
    )?;
    let row = count.query_one([project.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
    let (id, revision) = row?;
    Ok((id, Revision(revision)))
}

/// Writes a document. One that is there keeps its place.
pub(crate) fn put(
    connection: &Connection,
    (project, revision): (i64, Revision),
    document: &Document,
    modified: Timestamp,
    place: Option<&str>,
) -> Result<(), Failed> {
    let DocumentId { kind, name } = &document.id;
    let version = document.version.to_string();
    let (head, bytes) = head(document, modified)?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO documents \
         (project, kind, name, version, revision, modified, place, reference, head) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (project, kind, name) DO UPDATE SET \
         version = excluded.version, revision = excluded.revision, modified = excluded.modified, \
         reference = excluded.reference, head = excluded.head RETURNING id",
    )?;
    let (kind, reference) = (kind.name(), head.reference());
    let row = (project, kind, name, version, revision.0, modified.0, place, reference, bytes);
    let id: i64 = upsert.query_one(row, |row| row.get(0))?;
    let mut body = connection.prepare_cached(
        "INSERT INTO bodies (document, body) VALUES (?1, ?2) \
         ON CONFLICT (document) DO UPDATE SET body = excluded.body",
    )?;
    body.execute((id, &document.body[..]))?;
    links(connection, (id, project), &head)?;
    forget_removed(connection, project, &document.id)
}

/// A document with its row's number, its project's, and its time.
pub(crate) struct Kept {
    pub(crate) id: i64,
    pub(crate) project: i64,
    pub(crate) document: Document,
    pub(crate) modified: Timestamp,
}

/// Makes anew what is derived from a document's bytes.
pub(crate) fn derived(connection: &Connection, kept: &Kept) -> Result<(), Failed> {
    let (head, bytes) = head(&kept.document, kept.modified)?;
    connection
        .prepare_cached("UPDATE documents SET reference = ?2, head = ?3 WHERE id = ?1")?
        .execute((kept.id, head.reference(), bytes))?;
    links(connection, (kept.id, kept.project), &head)
}

fn head(document: &Document, modified: Timestamp) -> Result<(DocumentMeta, Vec<u8>), Failed> {
    let head = DocumentMeta::of(document, modified);
    let bytes = postcard::to_allocvec(&head).map_err(|e| StoreError::Internal(e.to_string()))?;
    Ok((head, bytes))
}

fn links(
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

/// No later item gets the number of this document, if it has one.
pub(crate) fn count(connection: &Connection, project: i64, id: &DocumentId) -> Result<(), Failed> {
    match Reference::of(id) {
        Some(reference) => raise(connection, project, reference),
        None => Ok(()),
    }
}

fn raise(
    connection: &Connection,
    project: i64,
    Reference { kind, number }: Reference,
) -> Result<(), Failed> {
    let mut raise = connection.prepare_cached(
        "INSERT INTO marks (project, kind, number) VALUES (?1, ?2, ?3) \
         ON CONFLICT (project, kind) DO UPDATE SET number = excluded.number \
         WHERE excluded.number > number",
    )?;
    raise.execute((project, kind.name(), number))?;
    Ok(())
}

/// Takes in a mark, also of a project that has nothing else.
pub(crate) fn mark(connection: &Connection, mark: &HighWaterMark) -> Result<(), Failed> {
    let (project, _) = next_revision(connection, &mark.project)?;
    raise(connection, project, Reference { kind: mark.kind, number: mark.number })
}

fn delete(
    connection: &Connection,
    project: i64,
    revision: Revision,
    id: &DocumentId,
) -> Result<(), Failed> {
    let mut delete = connection
        .prepare_cached("DELETE FROM documents WHERE project = ?1 AND kind = ?2 AND name = ?3")?;
    // Body and links go with it. Where there was none, the deletion is told all the same.
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

/// Forgets the oldest removals. The project remembers from where on nothing is missing.
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
