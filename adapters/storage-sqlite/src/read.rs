//! Reads from the database, on any connection.
//!
//! Most functions run several statements: callers hold a transaction to read one snapshot.

use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, ChangeSet, DocumentFilter, MetadataPage, Revision,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_sqlite_team::error::refused;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::error::QueryError;

/// A batch of documents ends at this number, or after this many bytes.
pub(crate) const BATCH_RECORDS: usize = 1_000;
pub(crate) const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// The maximum of changed documents that are listed, and of removed ones that are remembered.
pub(crate) const MAX_CHANGES: usize = 10_000;

/// A project's row.
#[derive(Debug, Default)]
pub(crate) struct ProjectRow {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
    /// Removals before this revision are forgotten.
    history_start: Revision,
}

pub(crate) fn project_row(
    connection: &Connection,
    key: &ProjectKey,
) -> Result<Option<ProjectRow>, QueryError> {
    let mut select =
        connection.prepare_cached("SELECT id, revision, history FROM projects WHERE key = ?1")?;
    let row = select.query_one([key.as_str()], |row| {
        Ok(ProjectRow {
            id: row.get(0)?,
            revision: Revision(row.get(1)?),
            history_start: Revision(row.get(2)?),
        })
    });
    Ok(row.optional()?)
}

/// Refuses a database whose import did not finish.
pub(crate) fn check_complete(place: &str, connection: &Connection) -> Result<(), QueryError> {
    let mut state = connection.prepare_cached("SELECT state = 'complete' FROM store")?;
    if state.query_one([], |row| row.get(0))? {
        return Ok(());
    }
    let reason = "is incomplete: what filled it did not finish. Remove it and copy again";
    Err(refused(place, reason).into())
}

/// False after another version of reqlore changed the schema or the format of the metadata.
pub(crate) fn is_current(connection: &Connection, schema: usize) -> rusqlite::Result<bool> {
    let mut select = connection.prepare_cached(
        "SELECT heads = ?1 AND (SELECT user_version FROM pragma_user_version) = ?2 FROM store",
    )?;
    select.query_one((DocumentMeta::FORMAT, schema), |row| row.get(0))
}

pub(crate) fn documents(
    connection: &Connection,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Document>>, QueryError> {
    let mut select = connection.prepare_cached(
        "SELECT d.kind, d.name, d.version, b.body \
         FROM documents d JOIN bodies b ON b.document = d.id \
         WHERE d.project = (SELECT id FROM projects WHERE key = ?1) \
         AND d.kind = ?2 AND d.name = ?3",
    )?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = select.query((project.as_str(), id.kind.name(), &id.name))?;
        found.push(rows.next()?.map(decode_document).transpose()?);
    }
    Ok(found)
}

pub(crate) fn versions(
    connection: &Connection,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Version>>, QueryError> {
    let mut select = connection.prepare_cached(
        "SELECT version FROM documents \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2 AND name = ?3",
    )?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = select.query((project.as_str(), id.kind.name(), &id.name))?;
        found.push(rows.next()?.map(|row| decode_version(row, 0)).transpose()?);
    }
    Ok(found)
}

pub(crate) fn metadata_page(
    connection: &Connection,
    project: &ProjectKey,
    filter: &DocumentFilter,
) -> Result<MetadataPage, QueryError> {
    let (project, kind) = (project.as_str(), filter.kind.name());
    let limit = filter.limit.unwrap_or(usize::MAX);
    let first = filter.after.as_deref().map_or_else(String::new, next_name);
    let mut select = connection.prepare_cached(
        "SELECT head FROM documents \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2 AND name >= ?3 \
         ORDER BY name LIMIT ?4",
    )?;
    // One more than wanted shows whether there is another page.
    let mut heads = decode_metadata(select.query((project, kind, first, sql_limit(limit, 1)))?)?;
    let has_more = heads.len() > limit;
    let total = if filter.after.is_none() && !has_more {
        heads.len()
    } else {
        let count = "SELECT count(*) FROM documents \
                     WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2";
        connection.prepare_cached(count)?.query_one((project, kind), |row| row.get(0))?
    };
    heads.truncate(limit);
    let next = heads.last().filter(|_| has_more).map(|head| head.id.name.clone());
    Ok(MetadataPage { metadata: heads, total, next })
}

/// A `LIMIT` of this many rows and some more; a negative one has no limit.
fn sql_limit(count: usize, more: i64) -> i64 {
    i64::try_from(count).map_or(-1, |count| count.saturating_add(more))
}

/// The smallest name after this one, by bytes.
pub(crate) fn next_name(name: &str) -> String {
    format!("{name}\0")
}

pub(crate) fn lookup(
    connection: &Connection,
    project: &ProjectKey,
    kind: DocumentKind,
    words: &[String],
) -> Result<Vec<Vec<Arc<DocumentMeta>>>, QueryError> {
    let mut select = connection.prepare_cached(
        "WITH home (id) AS (SELECT id FROM projects WHERE key = ?1) \
         SELECT head FROM documents WHERE id IN ( \
         SELECT id FROM documents \
         WHERE project = (SELECT id FROM home) AND kind = ?2 AND name = ?3 UNION ALL \
         SELECT id FROM documents \
         WHERE project = (SELECT id FROM home) AND kind = ?2 AND reference = ?3)",
    )?;
    let mut found = Vec::with_capacity(words.len());
    for word in words {
        found.push(sort_by_id(decode_metadata(select.query((
            project.as_str(),
            kind.name(),
            word,
        ))?)?));
    }
    Ok(found)
}

/// `None` if there are more than `max` in all.
pub(crate) fn backlinks(
    connection: &Connection,
    project: &ProjectKey,
    links: &BacklinkQuery,
    max: usize,
) -> Result<Option<Vec<Vec<Arc<DocumentMeta>>>>, QueryError> {
    let kinds: Vec<&str> = links.kinds.iter().map(|kind| kind.name()).collect();
    // The names of kinds need no escaping.
    let kinds = format!("[\"{}\"]", kinds.join("\",\""));
    let mut select = connection.prepare_cached(
        "SELECT head FROM documents WHERE id IN ( \
         SELECT document FROM links \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND target = ?2 \
         AND kind IN (SELECT value FROM json_each(?3))) LIMIT ?4",
    )?;
    let (mut found, mut left) = (Vec::with_capacity(links.targets.len()), max);
    for target in &links.targets {
        let row = (project.as_str(), target, &kinds, sql_limit(left, 1));
        let heads = decode_metadata(select.query(row)?)?;
        let Some(rest) = left.checked_sub(heads.len()) else { return Ok(None) };
        left = rest;
        found.push(sort_by_id(heads));
    }
    Ok(Some(found))
}

fn sort_by_id(mut heads: Vec<Arc<DocumentMeta>>) -> Vec<Arc<DocumentMeta>> {
    heads.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    heads
}

/// For each kind the lowest number that no item ever had.
pub(crate) fn next_numbers(
    connection: &Connection,
    project: &ProjectKey,
    kinds: &[ItemKind],
) -> Result<Vec<u32>, QueryError> {
    let mut select = connection.prepare_cached(
        "SELECT number + 1 FROM marks \
         WHERE project = (SELECT id FROM projects WHERE key = ?1) AND kind = ?2",
    )?;
    let mut numbers = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let found = select.query_one((project.as_str(), kind.name()), |row| row.get(0));
        numbers.push(found.optional()?.unwrap_or(1));
    }
    Ok(numbers)
}

pub(crate) fn changes(
    connection: &Connection,
    key: &ProjectKey,
    kind: DocumentKind,
    since: Revision,
) -> Result<ChangeSet, QueryError> {
    // No row has the id 0.
    let ProjectRow { id, revision, history_start: history } =
        project_row(connection, key)?.unwrap_or_default();
    if since > revision || since < history {
        return Ok(ChangeSet::Reset { revision });
    }
    if since == revision {
        return Ok(ChangeSet::Since { revision, ids: Vec::new() });
    }
    let mut select = connection.prepare_cached(
        "SELECT name FROM documents WHERE project = ?1 AND kind = ?2 AND revision > ?3 UNION ALL \
         SELECT name FROM removed WHERE project = ?1 AND kind = ?2 AND revision > ?3 LIMIT ?4",
    )?;
    let name = |row: &Row<'_>| Ok(DocumentId { kind, name: row.get(0)? });
    let ids: Vec<DocumentId> = select
        .query_map((id, kind.name(), since.0, MAX_CHANGES + 1), name)?
        .collect::<Result<_, _>>()?;
    let too_many = ids.len() > MAX_CHANGES;
    Ok(if too_many { ChangeSet::Reset { revision } } else { ChangeSet::Since { revision, ids } })
}

fn decode_metadata(mut rows: rusqlite::Rows<'_>) -> Result<Vec<Arc<DocumentMeta>>, QueryError> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let head = postcard::from_bytes(row.get_ref(0)?.as_blob()?);
        found.push(Arc::new(head.map_err(|_| QueryError::damaged("document metadata"))?));
    }
    Ok(found)
}

/// The document of a row that begins with kind, name, version and body. SQLite keeps no checksums,
/// but the version is one: changed bytes are never served.
pub(crate) fn decode_document(row: &Row<'_>) -> Result<Document, QueryError> {
    let kind = DocumentKind::from_name(row.get_ref(0)?.as_str()?);
    let kind = kind.ok_or_else(|| QueryError::damaged("a document's kind"))?;
    let body = Bytes::copy_from_slice(row.get_ref(3)?.as_blob()?);
    let document = Document::new(DocumentId { kind, name: row.get(1)? }, body);
    if document.version != decode_version(row, 2)? {
        return Err(QueryError::damaged(&document.id.to_string()));
    }
    Ok(document)
}

fn decode_version(row: &Row<'_>, column: usize) -> Result<Version, QueryError> {
    let version = Version::parse(row.get_ref(column)?.as_str()?);
    version.ok_or_else(|| QueryError::damaged("a document's version"))
}
