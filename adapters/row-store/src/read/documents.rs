//! Documents, their metadata and their links.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentFilter, MetadataPage, StoreResult};
use reqlore_domain::project_key::ProjectKey;

use super::{read_all, read_one};
use crate::database::RowSource;
use crate::error::damaged;
use crate::records::{
    DocumentRow, RowReader, document_key, join_parts, key_text, project_key, rows_of,
};
use crate::row::{RowKey, RowQuery, TableRow, Value};
use crate::stored_meta::decode_meta;
use crate::tables::{BODIES, DOCUMENTS, LINKS};

/// After every text: no text begins with two of the last characters.
pub(crate) const AFTER_TEXTS: &str = "\u{10ffff}\u{10ffff}";

/// The position of the target in a row of `links`.
const LINK_TARGET: usize = 1;

pub(crate) async fn documents(
    source: &dyn RowSource,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> StoreResult<Vec<Option<Document>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let keys = document_keys(project, ids);
    let rows = RowQuery::keys(&DOCUMENTS, keys.clone()).narrow();
    let mut results = read_all(source, vec![rows, RowQuery::keys(&BODIES, keys.clone())]).await?;
    for rows in &mut results {
        rows.sort_unstable();
    }
    let bodies = results.pop().unwrap_or_default();
    let rows = results.pop().unwrap_or_default();
    let mut documents = Vec::with_capacity(ids.len());
    for (id, key) in ids.iter().zip(keys) {
        let version = rows_of(&rows, &key).first().map(DocumentRow::decode_version).transpose()?;
        let Some(version) = version.flatten() else {
            documents.push(None);
            continue;
        };
        let body = verified_body(id, version, rows_of(&bodies, &key))?;
        documents.push(Some(Document { id: id.clone(), version, body }));
    }
    Ok(documents)
}

pub(crate) fn document_keys(project: &ProjectKey, ids: &[DocumentId]) -> Vec<RowKey> {
    ids.iter().map(|id| document_key(project, id)).collect()
}

/// Joins the parts of a text, and checks it against the version of its document.
pub(crate) fn verified_body(
    id: &DocumentId,
    version: Version,
    parts: &[TableRow],
) -> StoreResult<Bytes> {
    let body = join_parts(parts).filter(|body| Version::of_bytes(body) == version);
    body.ok_or_else(|| damaged(&id.to_string()))
}

/// The document of a row whose key begins with project, kind and name.
pub(crate) fn document_id(row: &TableRow) -> StoreResult<DocumentId> {
    RowReader::new(row, "a document's row").after(1).document_id()
}

pub(crate) async fn versions(
    source: &dyn RowSource,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> StoreResult<Vec<Option<Version>>> {
    let keys = document_keys(project, ids);
    let mut rows = read_one(source, RowQuery::keys(&DOCUMENTS, keys.clone()).narrow()).await?;
    rows.sort_unstable();
    let mut versions = Vec::with_capacity(ids.len());
    for key in keys {
        let row = rows_of(&rows, &key).first();
        versions.push(row.map(DocumentRow::decode_version).transpose()?.flatten());
    }
    Ok(versions)
}

/// The metadata in rows of `documents`, without deleted documents.
pub(crate) fn decode_metas<'a>(
    rows: impl IntoIterator<Item = &'a TableRow>,
) -> StoreResult<Vec<Arc<DocumentMeta>>> {
    let mut metadata = Vec::new();
    for row in rows {
        if let Some((version, meta)) = DocumentRow::decode_meta(row)? {
            metadata.push(Arc::new(decode_meta(meta, document_id(row)?, version)?));
        }
    }
    Ok(metadata)
}

/// The metadata of documents, in the order of their keys.
pub(crate) async fn metas_of_keys(
    source: &dyn RowSource,
    keys: &[RowKey],
) -> StoreResult<Vec<Arc<DocumentMeta>>> {
    let rows = read_one(source, RowQuery::keys(&DOCUMENTS, keys.to_vec())).await?;
    let found = decode_by_key(&rows)?;
    Ok(keys.iter().filter_map(|key| found.get(key.as_bytes()).cloned()).collect())
}

/// The metadata in rows of `documents`, by the encoded key.
fn decode_by_key(rows: &[TableRow]) -> StoreResult<HashMap<&[u8], Arc<DocumentMeta>>> {
    let mut found = HashMap::with_capacity(rows.len());
    for row in rows {
        let meta = decode_metas([row])?.pop();
        found.extend(meta.map(|meta| (row.prefix_bytes(DOCUMENTS.key_width), meta)));
    }
    Ok(found)
}

/// All present documents of a kind.
pub(crate) fn metas_of_kind(project: &ProjectKey, kind: DocumentKind) -> RowQuery {
    let key = project_key(project).with(&[kind.name().into()]);
    RowQuery { not_null: Some("version"), ..RowQuery::keys(&DOCUMENTS, vec![key]) }
}

/// The present documents of a kind in the order of their names, after the last one of a page.
pub(crate) fn documents_after(
    project: &ProjectKey,
    kind: DocumentKind,
    last: Option<&str>,
) -> RowQuery {
    names_after(metas_of_kind(project, kind), last).sorted_by(&["name"])
}

/// Selects the rows with names after the last one of a page.
pub(crate) fn names_after(query: RowQuery, last: Option<&str>) -> RowQuery {
    // The next name in the order of bytes.
    let first = last.map(|name| format!("{name}\0")).unwrap_or_default();
    query.within("name", Value::Text(&first)..AFTER_TEXTS.into())
}

pub(crate) async fn metadata_page(
    source: &dyn RowSource,
    project: &ProjectKey,
    filter: &DocumentFilter,
) -> StoreResult<MetadataPage> {
    let query = documents_after(project, filter.kind, filter.after_name.as_deref())
        // One row beyond the limit shows whether there is another page.
        .limited_to(filter.limit.saturating_add(1));
    let mut metadata = decode_metas(&read_one(source, query).await?)?;
    let has_more = metadata.len() > filter.limit;
    metadata.truncate(filter.limit);
    let next_name = match metadata.last() {
        Some(last) if has_more => Some(last.id.name.clone()),
        _ => None,
    };
    Ok(MetadataPage { metadata, next_name, unread: Vec::new() })
}

pub(crate) async fn lookup(
    source: &dyn RowSource,
    project: &ProjectKey,
    kind: DocumentKind,
    words: &[String],
) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let of_kind = project_key(project).with(&[kind.name().into()]);
    let by = |column: &'static str, word: fn(&str) -> Cow<'_, str>| {
        let columns = &["project", "kind", column];
        let tuple = |text: &String| of_kind.with(&[Value::Text(&word(text))]);
        RowQuery::any_of(&DOCUMENTS, columns, words.iter().map(tuple).collect())
    };
    let queries = vec![by("name", |text| text.into()), by("reference", key_text)];
    let found = decode_metas(read_all(source, queries).await?.iter().flatten())?;
    let mut matches = Vec::with_capacity(words.len());
    for word in words {
        let mut metadata = Vec::new();
        for meta in &found {
            if meta.id.name == *word || meta.reference().is_some_and(|one| one == **word) {
                metadata.push(Arc::clone(meta));
            }
        }
        matches.push(sort_by_id(metadata));
    }
    Ok(matches)
}

pub(crate) async fn backlinks(
    source: &dyn RowSource,
    project: &ProjectKey,
    links: &BacklinkQuery,
) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    if links.targets.is_empty() {
        return Ok(Vec::new());
    }
    let found = read_one(source, links_query(project, &links.targets)).await?;
    let rows = read_one(source, documents_of(&found, links)).await?;
    decode_backlinks(&found, &rows, links)
}

/// The links to these targets.
pub(crate) fn links_query(project: &ProjectKey, targets: &[String]) -> RowQuery {
    let key = |target: &String| project_key(project).with(&[Value::Text(&key_text(target))]);
    RowQuery::keys(&LINKS, targets.iter().map(key).collect())
}

/// The key of the document that contains a link.
fn linking_document(link: &TableRow) -> RowKey {
    link.select(&[0, LINK_TARGET + 1, LINK_TARGET + 2])
}

/// The query for the documents of these links.
pub(crate) fn documents_of(found: &[TableRow], links: &BacklinkQuery) -> RowQuery {
    let mut keys = Vec::with_capacity(found.len());
    for row in found {
        let kind = row.value(LINK_TARGET + 1);
        if links.kinds.iter().any(|one| Value::Text(one.name()) == kind) {
            keys.push(linking_document(row));
        }
    }
    RowQuery::keys(&DOCUMENTS, keys)
}

/// Returns for each target the documents that link to it.
pub(crate) fn decode_backlinks(
    found: &[TableRow],
    rows: &[TableRow],
    links: &BacklinkQuery,
) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    let sources = decode_by_key(rows)?;
    let mut by_target: HashMap<Value<'_>, Vec<Arc<DocumentMeta>>> = HashMap::new();
    for row in found {
        // A document of another kind, or one that was deleted since the links were read.
        if let Some(meta) = sources.get(linking_document(row).as_bytes()) {
            by_target.entry(row.value(LINK_TARGET)).or_default().push(Arc::clone(meta));
        }
    }
    let mut backlinks = Vec::with_capacity(links.targets.len());
    for target in &links.targets {
        let target = key_text(target);
        let metadata = by_target.get(&Value::Text(&target)).cloned().unwrap_or_default();
        backlinks.push(sort_by_id(metadata));
    }
    Ok(backlinks)
}

/// Sorts and removes duplicates: a document may be found by two relations, or by its name that is
/// also its reference.
fn sort_by_id(mut metadata: Vec<Arc<DocumentMeta>>) -> Vec<Arc<DocumentMeta>> {
    metadata.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    metadata.dedup_by(|a, b| a.id == b.id);
    metadata
}
