//! Changes in the order of commits, and the writers that made them.
//!
//! A deletion is a row of `removed` until the document exists again. Above a limit the oldest rows
//! are pruned, and earlier positions become unknown.

use std::sync::LazyLock;

use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::Revision;
use reqlore_domain::project_key::ProjectKey;
use rusqlite::{Connection, OptionalExtension};

use crate::error::QueryError;
use crate::tables::{DOCUMENTS, PROJECTS, REMOVED, WRITERS};

/// Maximum number of deletions of a project that are kept.
const MAX_DELETIONS: usize = if cfg!(test) { 1_000 } else { 100_000 };
/// Maximum number of rows of a project in `writers`, which may grow by another tenth.
const MAX_WRITERS: u64 = if cfg!(test) { 20 } else { 10_000 };

/// The state of a project at a poll.
#[derive(Default)]
struct ProjectState {
    id: i64,
    revision: Revision,
    /// Changes and writers before this revision may be pruned.
    history_start: Revision,
    /// The writer of `revision`.
    writer_id: u64,
    /// The writer of the revision since which changes are requested.
    since_writer_id: u64,
}

/// Merges documents and deletions, each read in index order.
pub(crate) static SELECT_CHANGES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT revision, kind, name, {} FROM documents WHERE project = ?1 AND revision > ?2 \
         UNION ALL \
         SELECT revision, kind, name, {} FROM removed WHERE project = ?1 AND revision > ?2 \
         ORDER BY 1",
        DOCUMENTS.verify_with("", &[("project", "?1")]),
        REMOVED.verify_with("", &[("project", "?1")])
    )
});

/// True if the position is that of the last change, according to rows with a verified checksum.
/// False if a row is missing.
pub(crate) fn is_latest(
    connection: &Connection,
    store_id: u128,
    key: &ProjectKey,
    position: ChangePosition,
) -> Result<bool, QueryError> {
    let state = project_state(connection, key, position.revision)?;
    Ok(position.store_id == store_id
        && position.revision == state.revision
        && position.revision >= state.history_start
        && position.writer_id == state.writer_id)
}

/// Returns a page of changes. The caller reads in a transaction.
pub(crate) fn changes_since(
    connection: &Connection,
    store_id: u128,
    key: &ProjectKey,
    since: Option<ChangePosition>,
    limit: usize,
) -> Result<ChangePage, QueryError> {
    let known = since.filter(|since| since.store_id == store_id);
    let first = known.map_or(Revision::default(), |since| since.revision);
    let state = project_state(connection, key, first)?;
    let position =
        ChangePosition { store_id, writer_id: state.writer_id, revision: state.revision };
    let Some(since) = known else { return Ok(ChangePage::Reset { position }) };
    if since.revision > state.revision
        || since.revision < state.history_start
        || since.writer_id != state.since_writer_id
    {
        return Ok(ChangePage::Reset { position });
    }
    let mut select = connection.prepare_cached(&SELECT_CHANGES)?;
    let changes = select.query_and_then((state.id, since.revision.0), |row| {
        let Some(kind) = DocumentKind::from_name(row.get_ref(1)?.as_str()?) else {
            return Err(QueryError::damaged("a document's kind"));
        };
        Ok((Revision(row.get(0)?), DocumentId { kind, name: row.get(2)? }))
    })?;
    ChangePage::select(changes, limit, position, |last| {
        Ok(project_state(connection, key, last)?.since_writer_id)
    })
}

fn project_state(
    connection: &Connection,
    key: &ProjectKey,
    since: Revision,
) -> Result<ProjectState, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT id, revision, history, ({}), ({}), {} FROM projects WHERE key = ?1",
            select_writer("projects.revision", "writer"),
            select_writer("?2", "writer"),
            PROJECTS.verify_with("", &[("key", "?1")])
        )
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    // A larger revision is in the future as well.
    let since = i64::try_from(since.0).unwrap_or(i64::MAX);
    let state = select.query_one((key.as_str(), since), |row| {
        Ok(ProjectState {
            id: row.get(0)?,
            revision: Revision(row.get(1)?),
            history_start: Revision(row.get(2)?),
            writer_id: row.get::<_, Option<u64>>(3)?.unwrap_or_default(),
            since_writer_id: row.get::<_, Option<u64>>(4)?.unwrap_or_default(),
        })
    });
    Ok(state.optional()?.unwrap_or_default())
}

/// A query for a column of the row in `writers` that covers a revision; NULL without one.
fn select_writer(revision: &str, column: &str) -> String {
    let verify = WRITERS.verify_with("", &[("project", "projects.id")]);
    format!(
        "SELECT CASE WHEN {verify} THEN {column} END FROM writers \
         WHERE project = projects.id AND first <= {revision} ORDER BY first DESC LIMIT 1"
    )
}

/// Increments the project's revision as this writer. Inserts a row for a new project.
pub(crate) fn next_revision(
    connection: &Connection,
    writer_id: u64,
    project: &ProjectKey,
) -> Result<(i64, Revision), QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT id, revision + 1, ({}), {} FROM projects WHERE key = ?1",
            select_writer("projects.revision", "writer"),
            PROJECTS.verify_with("", &[("key", "?1")])
        )
    });
    static UPDATE: LazyLock<String> =
        LazyLock::new(|| PROJECTS.update(&[("revision", "?2")], "id = ?1"));
    static INSERT: LazyLock<String> = LazyLock::new(|| PROJECTS.insert());
    let mut select = connection.prepare_cached(&SELECT)?;
    let found = select
        .query_one([project.as_str()], |row| Ok((row.get(0)?, Revision(row.get(1)?), row.get(2)?)));
    let (id, revision, last_writer) = if let Some((id, revision, last_writer)) = found.optional()? {
        connection.prepare_cached(&UPDATE)?.execute((id, revision.0))?;
        (id, revision, last_writer)
    } else {
        // The checksum covers the id, so it must be known before the row is inserted.
        let id = "SELECT coalesce(max(id), 0) + 1 FROM projects";
        let id: i64 = connection.query_one(id, [], |row| row.get(0))?;
        connection.prepare_cached(&INSERT)?.execute((project.as_str(), id, 1, 0, 0))?;
        (id, Revision(1), None)
    };
    if last_writer != Some(writer_id) {
        add_writer(connection, id, revision, writer_id)?;
    }
    Ok((id, revision))
}

/// Records that the revisions from this one on have another writer.
fn add_writer(
    connection: &Connection,
    project: i64,
    first: Revision,
    writer_id: u64,
) -> Result<(), QueryError> {
    static NUMBER: LazyLock<String> = LazyLock::new(|| {
        let last = select_writer("projects.revision", "number");
        format!("SELECT coalesce(({last}), 0) + 1 FROM projects WHERE id = ?1")
    });
    static INSERT: LazyLock<String> = LazyLock::new(|| WRITERS.insert());
    let mut number = connection.prepare_cached(&NUMBER)?;
    let number: u64 = number.query_one([project], |row| row.get(0))?;
    connection.prepare_cached(&INSERT)?.execute((first.0, project, writer_id, number))?;
    if number > MAX_WRITERS && number.is_multiple_of(MAX_WRITERS / 10) {
        prune_writers(connection, project, number - MAX_WRITERS)?;
    }
    Ok(())
}

/// Removes the rows up to this number. Earlier positions become unknown.
fn prune_writers(connection: &Connection, project: i64, last: u64) -> Result<(), QueryError> {
    connection
        .execute("DELETE FROM writers WHERE project = ?1 AND number <= ?2", (project, last))?;
    let oldest = "(SELECT min(first) FROM writers WHERE project = ?1)";
    let start = format!("max(history, {oldest})");
    connection.execute(&PROJECTS.update(&[("history", &start)], "id = ?1"), [project])?;
    Ok(())
}

/// Records a deletion as a change.
pub(crate) fn record_deletion(
    connection: &Connection,
    project: i64,
    revision: Revision,
    id: &DocumentId,
) -> Result<(), QueryError> {
    static INSERT: LazyLock<String> = LazyLock::new(|| REMOVED.insert());
    static COUNT: LazyLock<String> = LazyLock::new(|| {
        let count = PROJECTS.update(&[("removed", "removed + 1")], "id = ?1");
        format!("{count} RETURNING removed")
    });
    let row = (&id.name, id.kind.name(), project, revision.0);
    connection.prepare_cached(&INSERT)?.execute(row)?;
    let mut count = connection.prepare_cached(&COUNT)?;
    let removed: usize = count.query_one([project], |row| row.get(0))?;
    if removed > MAX_DELETIONS {
        prune_deletions(connection, project)?;
    }
    Ok(())
}

pub(crate) fn forget_deletion(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
) -> Result<(), QueryError> {
    static COUNT: LazyLock<String> =
        LazyLock::new(|| PROJECTS.update(&[("removed", "removed - 1")], "id = ?1"));
    let mut delete = connection
        .prepare_cached("DELETE FROM removed WHERE project = ?1 AND kind = ?2 AND name = ?3")?;
    if delete.execute((project, id.kind.name(), &id.name))? > 0 {
        connection.prepare_cached(&COUNT)?.execute([project])?;
    }
    Ok(())
}

/// Removes the oldest deletions and records the revision from which the history is complete.
fn prune_deletions(connection: &Connection, project: i64) -> Result<(), QueryError> {
    let verify = REMOVED.verify("");
    let mut oldest = connection.prepare_cached(&format!(
        "SELECT revision, {verify} FROM removed WHERE project = ?1 ORDER BY revision LIMIT 1"
    ))?;
    let oldest: u64 = oldest.query_one([project], |row| row.get(0))?;
    // The whole revision, because the history must start at a revision boundary.
    let count = connection
        .prepare_cached("DELETE FROM removed WHERE project = ?1 AND revision = ?2")?
        .execute((project, oldest))?;
    let start = [("removed", "removed - ?2"), ("history", "max(history, ?3)")];
    let update = PROJECTS.update(&start, "id = ?1");
    connection.prepare_cached(&update)?.execute((project, count, oldest))?;
    Ok(())
}
