//! Documents, their metadata and their links.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentFilter, MetadataPage, StoreResult};
use reqlore_domain::project_key::ProjectKey;

use super::read_one;
use crate::database::RowSource;
use crate::error::damaged;
use crate::records::{
    DocumentRow, PresentRow, document_key, join_parts, key_text, parse_kind, project_value,
};
use crate::row::{RowQuery, TableRow, Value};
use crate::tables::{BODIES, DOCUMENTS, LINKS};

/// After every text: no text begins with two of the last characters.
pub(crate) const AFTER_TEXTS: &str = "\u{10ffff}\u{10ffff}";

/// Positions of columns in a row of `links`.
const LINK_TARGET: usize = 1;
const LINK_KIND: usize = 2;

pub(crate) async fn documents(
    source: &dyn RowSource,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> StoreResult<Vec<Option<Document>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let queries = document_queries(project, ids);
    let mut results = source.read(queries.to_vec()).await?;
    let (bodies, rows) = (results.pop().unwrap_or_default(), results.pop().unwrap_or_default());
    let mut found = DocumentRows::new(rows, bodies)?;
    let mut documents = Vec::with_capacity(ids.len());
    for id in ids {
        documents.push(found.document(id)?);
    }
    Ok(documents)
}

/// The queries for documents and for their texts.
pub(crate) fn document_queries(project: &ProjectKey, ids: &[DocumentId]) -> [RowQuery; 2] {
    let mut keys = Vec::with_capacity(ids.len());
    keys.extend(ids.iter().map(|id| document_key(project, id)));
    keys.sort();
    keys.dedup();
    [RowQuery::keys(&DOCUMENTS, keys.clone()), RowQuery::keys(&BODIES, keys)]
}

/// Rows of documents with their texts.
struct DocumentRows {
    rows: HashMap<DocumentId, PresentRow>,
    bodies: HashMap<DocumentId, BTreeMap<Value, TableRow>>,
}

impl DocumentRows {
    fn new(rows: Vec<TableRow>, parts: Vec<TableRow>) -> StoreResult<Self> {
        let mut found = Self { rows: HashMap::new(), bodies: HashMap::new() };
        for row in rows {
            let id = document_id(&row)?;
            if let Some(present) = DocumentRow::decode(row)?.present {
                found.rows.insert(id, present);
            }
        }
        for row in parts {
            let (id, part) = (document_id(&row)?, row[DOCUMENTS.key_width].clone());
            found.bodies.entry(id).or_default().insert(part, row);
        }
        Ok(found)
    }

    fn document(&mut self, id: &DocumentId) -> StoreResult<Option<Document>> {
        let Some(row) = self.rows.get(id) else { return Ok(None) };
        let parts = self.bodies.get(id).cloned().unwrap_or_default();
        let body = join_parts(parts.into_values().collect())?;
        let body = verified_body(id, row.version, body)?;
        Ok(Some(Document { id: id.clone(), version: row.version, body }))
    }
}

/// Checks a text against the version of its document.
pub(crate) fn verified_body(id: &DocumentId, version: Version, body: Bytes) -> StoreResult<Bytes> {
    if Version::of_bytes(&body) == version { Ok(body) } else { Err(damaged(&id.to_string())) }
}

/// The document of a row whose key begins with project, kind and name.
pub(crate) fn document_id(row: &[Value]) -> StoreResult<DocumentId> {
    match row {
        [_, Value::Text(kind), Value::Text(name), ..] => {
            Ok(DocumentId { kind: parse_kind(kind)?, name: name.clone() })
        }
        _ => Err(damaged("a document's row")),
    }
}

pub(crate) async fn versions(
    source: &dyn RowSource,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> StoreResult<Vec<Option<Version>>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let [query, _] = document_queries(project, ids);
    let mut found = HashMap::new();
    for row in read_one(source, query).await? {
        let id = document_id(&row)?;
        found.insert(id, version_of(&row)?);
    }
    Ok(ids.iter().map(|id| found.get(id).copied().flatten()).collect())
}

/// The version in a row of `documents`, without the rest.
fn version_of(row: &[Value]) -> StoreResult<Option<Version>> {
    const VERSION: usize = 5;
    match &row[VERSION] {
        Value::Null => Ok(None),
        Value::Text(version) => match Version::parse(version) {
            Some(version) => Ok(Some(version)),
            None => Err(damaged("a document's version")),
        },
        _ => Err(damaged("a document's version")),
    }
}

/// The metadata in rows of `documents`, without deleted documents.
pub(crate) fn decode_metas(rows: Vec<TableRow>) -> StoreResult<Vec<Arc<DocumentMeta>>> {
    let mut metadata = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(present) = DocumentRow::decode(row)?.present {
            metadata.push(Arc::new(present.meta()?));
        }
    }
    Ok(metadata)
}

/// All present documents of a kind.
pub(crate) fn metas_of_kind(project: &ProjectKey, kind: DocumentKind) -> RowQuery {
    let values = vec![project_value(project), kind.name().into()];
    let query = RowQuery::equal(&DOCUMENTS, &["project", "kind"], values);
    RowQuery { not_null: Some("version"), ..query }
}

/// The present documents of a kind in the order of their names, after the last one of a page.
pub(crate) fn documents_after(
    project: &ProjectKey,
    kind: DocumentKind,
    last: Option<&str>,
) -> RowQuery {
    // The next name in the order of bytes.
    let first = last.map(|name| format!("{name}\0")).unwrap_or_default();
    metas_of_kind(project, kind)
        .within("name", Value::Text(first)..AFTER_TEXTS.into())
        .sorted_by(&["name"])
}

pub(crate) async fn metadata_page(
    source: &dyn RowSource,
    project: &ProjectKey,
    filter: &DocumentFilter,
) -> StoreResult<MetadataPage> {
    let query = documents_after(project, filter.kind, filter.after_name.as_deref())
        // One row beyond the limit shows whether there is another page.
        .limited_to(filter.limit.saturating_add(1));
    let mut metadata = decode_metas(read_one(source, query).await?)?;
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
    let by = |column: &'static str, word: fn(&str) -> Value| {
        let columns = &["project", "kind", column];
        let tuple = |text: &String| vec![project_value(project), kind.name().into(), word(text)];
        let mut tuples: Vec<_> = words.iter().map(tuple).collect();
        tuples.sort();
        tuples.dedup();
        RowQuery { tuples, ..RowQuery::equal(&DOCUMENTS, columns, Vec::new()) }
    };
    let queries = vec![by("name", |text| text.into()), by("reference", key_text)];
    let rows = source.read(queries).await?.into_iter().flatten().collect();
    let found = decode_metas(rows)?;
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
    let mut rows = Vec::new();
    if let Some(query) = documents_of(project, &found, links)? {
        rows = read_one(source, query).await?;
    }
    decode_backlinks(&found, rows, links)
}

/// The links to these targets.
pub(crate) fn links_query(project: &ProjectKey, targets: &[String]) -> RowQuery {
    let mut keys = BTreeSet::new();
    for target in targets {
        keys.insert(vec![project_value(project), key_text(target)]);
    }
    RowQuery::keys(&LINKS, keys.into_iter().collect())
}

/// The query for the documents of these links; `None` if there are none.
pub(crate) fn documents_of(
    project: &ProjectKey,
    found: &[TableRow],
    links: &BacklinkQuery,
) -> StoreResult<Option<RowQuery>> {
    let mut ids = BTreeSet::new();
    for row in found {
        let id = document_id(&row[LINK_KIND - 1..])?;
        if links.kinds.contains(&id.kind) {
            ids.insert(id);
        }
    }
    let ids: Vec<DocumentId> = ids.into_iter().collect();
    let [query, _] = document_queries(project, &ids);
    Ok((!ids.is_empty()).then_some(query))
}

/// Returns for each target the documents that link to it.
pub(crate) fn decode_backlinks(
    found: &[TableRow],
    rows: Vec<TableRow>,
    links: &BacklinkQuery,
) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
    let mut sources = HashMap::new();
    for meta in decode_metas(rows)? {
        sources.insert(meta.id.clone(), meta);
    }
    let mut by_target: HashMap<&Value, Vec<Arc<DocumentMeta>>> = HashMap::new();
    for row in found {
        // A document of another kind, or one that was deleted since the links were read.
        if let Some(meta) = sources.get(&document_id(&row[LINK_KIND - 1..])?) {
            by_target.entry(&row[LINK_TARGET]).or_default().push(Arc::clone(meta));
        }
    }
    let mut backlinks = Vec::with_capacity(links.targets.len());
    for target in &links.targets {
        let metadata = by_target.get(&key_text(target)).cloned().unwrap_or_default();
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
