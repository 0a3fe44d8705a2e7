//! Read queries, on any connection.
//!
//! Most functions run several statements. Callers hold a transaction to read one snapshot.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentFilter, MetadataPage, Revision, SharedMetadata,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_sqlite_team::error::refused;
use rusqlite::{Connection, OptionalExtension, Row};

pub(crate) use reqlore_sqlite_metadata::sql_limit;

use crate::error::QueryError;
use crate::tables::{DOCUMENTS, LINKS, MARKS, PROJECTS, STORE};

/// A batch of records ends when it reaches one of these sizes.
pub(crate) const BATCH_RECORDS: usize = 1_000;
pub(crate) const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// The columns of `documents` that a search by name determines, as parameters.
pub(crate) const FOUND_BY_NAME: [(&str, &str); 3] =
    [("project", "?1"), ("kind", "?2"), ("name", "?3")];

const FOUND_BY_REFERENCE: [(&str, &str); 3] =
    [("project", "?1"), ("kind", "?2"), ("reference", "?3")];

#[derive(Debug, Default)]
pub(crate) struct ProjectRow {
    pub(crate) id: i64,
    pub(crate) revision: Revision,
}

pub(crate) fn project_row(
    connection: &Connection,
    key: &ProjectKey,
) -> Result<Option<ProjectRow>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        let verify = PROJECTS.verify_with("", &[("key", "?1")]);
        format!("SELECT id, revision, {verify} FROM projects WHERE key = ?1")
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let row = select.query_one([key.as_str()], |row| {
        Ok(ProjectRow { id: row.get(0)?, revision: Revision(row.get(1)?) })
    });
    Ok(row.optional()?)
}

/// The id of a project; 0, which no project has, if it has never been written to.
pub(crate) fn project_id(connection: &Connection, key: &ProjectKey) -> Result<i64, QueryError> {
    Ok(project_row(connection, key)?.unwrap_or_default().id)
}

/// Refuses a database whose import did not finish.
pub(crate) fn check_complete(place: &str, connection: &Connection) -> Result<(), QueryError> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT state = 'complete', {} FROM store", STORE.verify("")));
    let state = connection.prepare_cached(&SELECT)?.query_one([], |row| row.get(0)).optional()?;
    match state {
        Some(true) => return Ok(()),
        Some(false) => {}
        None => return Err(QueryError::damaged("its state")),
    }
    let reason =
        "is incomplete: a copy or restore into it did not finish; remove it and copy again";
    Err(refused(place, reason).into())
}

pub(crate) fn documents(
    connection: &Connection,
    project: i64,
    ids: &[DocumentId],
) -> Result<Vec<Option<Document>>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT d.kind, d.name, d.version, b.body, {} \
             FROM documents d LEFT JOIN bodies b ON b.document = d.id \
             WHERE d.project = ?1 AND d.kind = ?2 AND d.name = ?3",
            DOCUMENTS.verify_with("d.", &FOUND_BY_NAME)
        )
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let mut documents = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = select.query((project, id.kind.name(), &id.name))?;
        documents.push(rows.next()?.map(decode_document).transpose()?);
    }
    Ok(documents)
}

/// Names the documents whose bodies are missing or changed.
pub(crate) fn damaged_bodies(connection: &Connection) -> Result<Vec<String>, QueryError> {
    let mut select = connection.prepare(
        "SELECT d.kind, d.name, d.version, b.body \
         FROM documents d LEFT JOIN bodies b ON b.document = d.id",
    )?;
    let mut rows = select.query([])?;
    let mut damage = Vec::new();
    while let Some(row) = rows.next()? {
        match decode_document(row) {
            Ok(_) => {}
            Err(QueryError::Damaged(object)) => damage.push(format!("{object} is damaged")),
            Err(error) => return Err(error),
        }
    }
    Ok(damage)
}

pub(crate) fn versions(
    connection: &Connection,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Version>>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT version, {} FROM documents WHERE project = ?1 AND kind = ?2 AND name = ?3",
            DOCUMENTS.verify_with("", &FOUND_BY_NAME)
        )
    });
    let project = project_id(connection, project)?;
    let mut select = connection.prepare_cached(&SELECT)?;
    let mut versions = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = select.query((project, id.kind.name(), &id.name))?;
        versions.push(rows.next()?.map(|row| decode_version(row, 0)).transpose()?);
    }
    Ok(versions)
}

/// Returns the metadata of one document.
pub(crate) fn metadata(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
) -> Result<Option<Arc<DocumentMeta>>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT head, {} FROM documents WHERE project = ?1 AND kind = ?2 AND name = ?3",
            DOCUMENTS.verify_with("", &FOUND_BY_NAME)
        )
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let found = decode_metadata(select.query((project, id.kind.name(), &id.name))?)?;
    Ok(found.into_iter().next())
}

/// Returns the metadata of a row of `documents`.
pub(crate) fn metadata_by_row(
    connection: &Connection,
    row: i64,
) -> Result<Option<Arc<DocumentMeta>>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT head, {} FROM documents WHERE id = ?1", DOCUMENTS.verify(""))
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let found = decode_metadata(select.query([row])?)?;
    Ok(found.into_iter().next())
}

pub(crate) fn metadata_page(
    connection: &Connection,
    project: &ProjectKey,
    filter: &DocumentFilter,
) -> Result<MetadataPage, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT head, {} FROM documents WHERE project = ?1 AND kind = ?2 AND name >= ?3 \
             ORDER BY name LIMIT ?4",
            DOCUMENTS.verify("")
        )
    });
    let (project, kind) = (project_id(connection, project)?, filter.kind.name());
    let limit = filter.limit;
    // An empty lower bound lets one statement serve the first page, too.
    let first = match &filter.after_name {
        Some(name) => next_name(name),
        None => String::new(),
    };
    let mut select = connection.prepare_cached(&SELECT)?;
    // One row beyond the limit shows whether there is another page.
    let mut metadata =
        decode_metadata(select.query((project, kind, first, sql_limit(limit, 1)))?)?;
    // Swapped pages of the index would repeat or omit documents.
    if !metadata.is_sorted_by(|a, b| a.id.name < b.id.name) {
        return Err(QueryError::damaged("the order of documents"));
    }
    let has_more = metadata.len() > limit;
    metadata.truncate(limit);
    let next = match metadata.last() {
        Some(last) if has_more => Some(last.id.name.clone()),
        _ => None,
    };
    Ok(MetadataPage { metadata, next_name: next, unread: Vec::new() })
}

/// Returns the smallest name after this one, in the order of bytes.
pub(crate) fn next_name(name: &str) -> String {
    format!("{name}\0")
}

pub(crate) fn lookup(
    connection: &Connection,
    project: &ProjectKey,
    kind: DocumentKind,
    words: &[String],
) -> Result<Vec<Vec<Arc<DocumentMeta>>>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT head, {} FROM documents WHERE project = ?1 AND kind = ?2 AND name = ?3 \
             UNION ALL \
             SELECT head, {} FROM documents WHERE project = ?1 AND kind = ?2 AND reference = ?3",
            DOCUMENTS.verify_with("", &FOUND_BY_NAME),
            DOCUMENTS.verify_with("", &FOUND_BY_REFERENCE)
        )
    });
    let project = project_id(connection, project)?;
    let mut select = connection.prepare_cached(&SELECT)?;
    let mut matches = Vec::with_capacity(words.len());
    for word in words {
        let rows = select.query((project, kind.name(), word))?;
        matches.push(sort_by_id(decode_metadata(rows)?));
    }
    Ok(matches)
}

/// Returns `None` if there are more than `max` backlinks of all targets together.
pub(crate) fn backlinks(
    connection: &Connection,
    project: i64,
    links: &BacklinkQuery,
    max: usize,
) -> Result<Option<Vec<Vec<Arc<DocumentMeta>>>>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT d.head, {}, iif(d.id IS NULL, NULL, {}) \
             FROM links l LEFT JOIN documents d ON d.id = l.document \
             WHERE l.project = ?1 AND l.target = ?2 \
             AND l.kind IN (SELECT value FROM json_each(?3)) LIMIT ?4",
            LINKS.verify("l."),
            DOCUMENTS.verify("d.")
        )
    });
    if links.targets.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let kinds: Vec<&str> = links.kinds.iter().map(|kind| kind.name()).collect();
    // The names of kinds need no escaping.
    let kinds = format!("[\"{}\"]", kinds.join("\",\""));
    // The kinds as one JSON value, so that one prepared statement serves any number of them.
    let mut select = connection.prepare_cached(&SELECT)?;
    let (mut backlinks, mut remaining) = (Vec::with_capacity(links.targets.len()), max);
    let mut shared = SharedMetadata::default();
    for target in &links.targets {
        // One row beyond the limit shows that there are more.
        let row = (project, target, &kinds, sql_limit(remaining, 1));
        let mut sources = decode_metadata(select.query(row)?)?;
        shared.share(&mut sources);
        let Some(left) = remaining.checked_sub(sources.len()) else { return Ok(None) };
        remaining = left;
        backlinks.push(sort_by_id(sources));
    }
    Ok(Some(backlinks))
}

/// Sorts and removes duplicates: a document may be found by two relations, or by its name that is
/// also its reference.
fn sort_by_id(mut metadata: Vec<Arc<DocumentMeta>>) -> Vec<Arc<DocumentMeta>> {
    metadata.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    metadata.dedup_by(|a, b| a.id == b.id);
    metadata
}

/// Returns for each kind the lowest number that no item ever had.
pub(crate) fn next_numbers(
    connection: &Connection,
    project: i64,
    kinds: &[ItemKind],
) -> Result<Vec<u32>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        let verify = MARKS.verify("");
        format!("SELECT number + 1, {verify} FROM marks WHERE project = ?1 AND kind = ?2")
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let mut numbers = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let number = select.query_one((project, kind.name()), |row| row.get(0));
        numbers.push(number.optional()?.unwrap_or(1));
    }
    Ok(numbers)
}

pub(crate) fn decode_metadata(
    mut rows: rusqlite::Rows<'_>,
) -> Result<Vec<Arc<DocumentMeta>>, QueryError> {
    let mut metadata = Vec::new();
    while let Some(row) = rows.next()? {
        // NULL is a document that only its link leads to.
        let Some(Ok(meta)) = row.get_ref(0)?.as_blob_or_null()?.map(postcard::from_bytes) else {
            return Err(QueryError::damaged("document metadata"));
        };
        metadata.push(Arc::new(meta));
    }
    Ok(metadata)
}

/// Decodes a row of kind, name, version and body. The version serves as a checksum, which SQLite
/// lacks, so changed bytes are never returned.
pub(crate) fn decode_document(row: &Row<'_>) -> Result<Document, QueryError> {
    let Some(kind) = DocumentKind::from_name(row.get_ref(0)?.as_str()?) else {
        return Err(QueryError::damaged("a document's kind"));
    };
    let id = DocumentId { kind, name: row.get(1)? };
    let Some(body) = row.get_ref(3)?.as_blob_or_null()? else {
        return Err(QueryError::damaged(&id.to_string()));
    };
    let document = Document::new(id, Bytes::copy_from_slice(body));
    if document.version != decode_version(row, 2)? {
        return Err(QueryError::damaged(&document.id.to_string()));
    }
    Ok(document)
}

pub(crate) fn decode_version(row: &Row<'_>, column: usize) -> Result<Version, QueryError> {
    let version = Version::parse(row.get_ref(column)?.as_str()?);
    version.ok_or_else(|| QueryError::damaged("a document's version"))
}
