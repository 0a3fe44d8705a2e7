//! What is asked of the database, on any connection.
//!
//! The trap: each of these is several statements, so callers hold a transaction around them, or
//! they would see several moments.

use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, Changes, Filter, Page, Revision};
use reqlore_domain::project::ProjectKey;
use reqlore_sqlite_team::error::refused;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::Failed;

/// Of what is read in parts, a part has at most so many documents, and ends when it has so many
/// bytes.
pub(crate) const BATCH: usize = 1_000;
pub(crate) const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// More changed documents than this are not listed, and so many removed ones are remembered.
pub(crate) const HISTORY: usize = 10_000;

/// A project's row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Project {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// From which revision on it is known what was removed.
    history: Revision,
}

pub(crate) fn project(
    connection: &Connection,
    key: &ProjectKey,
) -> Result<Option<Project>, Failed> {
    let mut select =
        connection.prepare_cached("SELECT id, revision, history FROM projects WHERE key = ?1")?;
    let row = select.query_one([key.as_str()], |row| {
        Ok(Project {
            id: row.get(0)?,
            revision: Revision(row.get(1)?),
            history: Revision(row.get(2)?),
        })
    });
    Ok(row.optional()?)
}

/// Refuses what a copy began to fill and did not finish.
pub(crate) fn check_complete(place: &str, connection: &Connection) -> Result<(), Failed> {
    let mut state = connection.prepare_cached("SELECT state = 'complete' FROM store")?;
    if state.query_one([], |row| row.get(0))? {
        return Ok(());
    }
    let reason = "is incomplete: what filled it did not finish. Remove it and copy again";
    Err(refused(place, reason).into())
}

pub(crate) fn documents(
    connection: &Connection,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Document>>, Failed> {
    let mut select = connection.prepare_cached(
        "SELECT d.version, b.body FROM documents d JOIN bodies b ON b.document = d.id \
         WHERE d.project = (SELECT id FROM projects WHERE key = ?1) \
         AND d.kind = ?2 AND d.name = ?3",
    )?;
    let mut document = |id: &DocumentId| -> Result<_, Failed> {
        let mut rows = select.query((project.as_str(), id.kind.name(), &id.name))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let body = Bytes::copy_from_slice(row.get_ref(1)?.as_blob()?);
        sound(id.clone(), body, version(row, 0)?).map(Some)
    };
    ids.iter().map(&mut document).collect()
}

pub(crate) fn versions(
    connection: &Connection,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Version>>, Failed> {
    let mut select = connection.prepare_cached(
        "SELECT version FROM documents \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2 AND name = ?3",
    )?;
    let mut of = |id: &DocumentId| -> Result<_, Failed> {
        let mut rows = select.query((project.as_str(), id.kind.name(), &id.name))?;
        rows.next()?.map(|row| version(row, 0)).transpose()
    };
    ids.iter().map(&mut of).collect()
}

/// All heads of a kind, by name.
pub(crate) fn heads(
    connection: &Connection,
    project: &ProjectKey,
    kind: Kind,
) -> Result<Vec<Arc<DocumentMeta>>, Failed> {
    Ok(page(connection, project, &Filter::all(kind))?.heads)
}

pub(crate) fn page(
    connection: &Connection,
    project: &ProjectKey,
    filter: &Filter,
) -> Result<Page, Failed> {
    let (project, kind) = (project.as_str(), filter.kind.name());
    // One more than asked tells whether there is more.
    let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).map_or(-1, |limit| limit + 1));
    let first = filter.after.as_deref().map_or_else(String::new, beyond);
    let mut select = connection.prepare_cached(
        "SELECT head FROM documents \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2 AND name >= ?3 \
         ORDER BY name LIMIT ?4",
    )?;
    let mut heads = all_heads(select.query((project, kind, first, limit))?)?;
    let is_all = filter.after.is_none() && filter.limit.is_none_or(|limit| heads.len() <= limit);
    let total = if is_all {
        heads.len()
    } else {
        let count = "SELECT count(*) FROM documents \
                     WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2";
        connection.prepare_cached(count)?.query_one((project, kind), |row| row.get(0))?
    };
    let limit = filter.limit.unwrap_or(usize::MAX);
    let more = heads.len() > limit;
    heads.truncate(limit);
    let next = heads.last().filter(|_| more).map(|head| head.id.name.clone());
    Ok(Page { heads, total, next })
}

/// The first name that may come after this one, by bytes.
pub(crate) fn beyond(name: &str) -> String {
    format!("{name}\0")
}

pub(crate) fn lookup(
    connection: &Connection,
    project: &ProjectKey,
    kind: Kind,
    words: &[String],
) -> Result<Vec<Vec<Arc<DocumentMeta>>>, Failed> {
    let mut select = connection.prepare_cached(
        "WITH home (id) AS (SELECT id FROM projects WHERE key = ?1) \
         SELECT head FROM documents WHERE id IN ( \
         SELECT id FROM documents \
         WHERE project = (SELECT id FROM home) AND kind = ?2 AND name = ?3 UNION ALL \
         SELECT id FROM documents \
         WHERE project = (SELECT id FROM home) AND kind = ?2 AND reference = ?3)",
    )?;
    let mut of = |word: &String| {
        let rows = select.query((project.as_str(), kind.name(), word))?;
        all_heads(rows).map(sorted)
    };
    words.iter().map(&mut of).collect()
}

/// `None` when there are more than `most` in all.
pub(crate) fn backlinks(
    connection: &Connection,
    project: &ProjectKey,
    links: &BacklinkQuery,
    most: usize,
) -> Result<Option<Vec<Vec<Arc<DocumentMeta>>>>, Failed> {
    let kinds: Vec<&str> = links.kinds.iter().map(|kind| kind.name()).collect();
    // As JSON; the names of kinds need no escaping.
    let kinds = format!("[\"{}\"]", kinds.join("\",\""));
    let mut select = connection.prepare_cached(
        "SELECT head FROM documents WHERE id IN ( \
         SELECT document FROM links \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND target = ?2 \
         AND kind IN (SELECT value FROM json_each(?3))) LIMIT ?4",
    )?;
    let (mut all, mut left) = (Vec::with_capacity(links.targets.len()), most);
    for target in &links.targets {
        let limit = i64::try_from(left).map_or(-1, |left| left.saturating_add(1));
        let heads = all_heads(select.query((project.as_str(), target, &kinds, limit))?)?;
        let Some(rest) = left.checked_sub(heads.len()) else { return Ok(None) };
        left = rest;
        all.push(sorted(heads));
    }
    Ok(Some(all))
}

fn sorted(mut heads: Vec<Arc<DocumentMeta>>) -> Vec<Arc<DocumentMeta>> {
    heads.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    heads
}

/// For each kind the lowest number that no item ever had.
pub(crate) fn numbers(
    connection: &Connection,
    project: &ProjectKey,
    kinds: &[ItemKind],
) -> Result<Vec<u32>, Failed> {
    let mut select = connection.prepare_cached(
        "SELECT number + 1 FROM marks \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2",
    )?;
    let mut free = |kind: &ItemKind| -> Result<u32, Failed> {
        let found = select.query_one((project.as_str(), kind.name()), |row| row.get(0));
        Ok(found.optional()?.unwrap_or(1))
    };
    kinds.iter().map(&mut free).collect()
}

pub(crate) fn changes(
    connection: &Connection,
    key: &ProjectKey,
    kind: Kind,
    since: Revision,
) -> Result<Changes, Failed> {
    let Some(Project { id, revision, history, .. }) = project(connection, key)? else {
        let revision = Revision::default();
        let none = Changes::Since { revision, ids: Vec::new() };
        return Ok(if since == revision { none } else { Changes::Reset { revision } });
    };
    if since > revision || since < history {
        return Ok(Changes::Reset { revision });
    }
    if since == revision {
        return Ok(Changes::Since { revision, ids: Vec::new() });
    }
    let mut select = connection.prepare_cached(
        "SELECT name FROM documents WHERE project = ?1 AND kind = ?2 AND revision > ?3 UNION ALL \
         SELECT name FROM removed WHERE project = ?1 AND kind = ?2 AND revision > ?3 LIMIT ?4",
    )?;
    let name = |row: &Row<'_>| Ok(DocumentId { kind, name: row.get(0)? });
    let ids: Vec<DocumentId> = select
        .query_map((id, kind.name(), since.0, HISTORY + 1), name)?
        .collect::<Result<_, _>>()?;
    let too_many = ids.len() > HISTORY;
    Ok(if too_many { Changes::Reset { revision } } else { Changes::Since { revision, ids } })
}

fn all_heads(mut rows: rusqlite::Rows<'_>) -> Result<Vec<Arc<DocumentMeta>>, Failed> {
    let mut heads = Vec::new();
    while let Some(row) = rows.next()? {
        let head = row.get_ref(0)?.as_blob()?;
        let head = postcard::from_bytes(head).map_err(|_| Failed::damaged("document metadata"))?;
        heads.push(Arc::new(head));
    }
    Ok(heads)
}

/// The document of a row of kind, name, version and body.
pub(crate) fn whole(row: &Row<'_>) -> Result<Document, Failed> {
    let kind = Kind::named(row.get_ref(0)?.as_str()?);
    let kind = kind.ok_or_else(|| Failed::damaged("a document's kind"))?;
    let body = Bytes::copy_from_slice(row.get_ref(3)?.as_blob()?);
    let id = DocumentId { kind, name: row.get(1)? };
    sound(id, body, version(row, 2)?)
}

/// SQLite keeps no checksums, but a version is one: of what somebody or a disk changed nothing is
/// served.
fn sound(id: DocumentId, body: Bytes, version: Version) -> Result<Document, Failed> {
    let document = Document::new(id, body);
    if document.version != version {
        return Err(Failed::damaged(&document.id.to_string()));
    }
    Ok(document)
}

fn version(row: &Row<'_>, column: usize) -> Result<Version, Failed> {
    let version = Version::parse(row.get_ref(column)?.as_str()?);
    version.ok_or_else(|| Failed::damaged("a document's version"))
}
