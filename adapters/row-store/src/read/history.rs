//! Earlier versions of documents.

use std::collections::BTreeSet;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, Version};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::{ChangedDocument, HistoryPage, RecentChange, TextHash};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use super::documents::{document_id, documents};
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::error::damaged;
use crate::records::{DocumentRow, EntryRow, document_key, integer, join_parts, project_key};
use crate::row::{RowKey, RowQuery, TableRow, Value};
use crate::tables::{DOCUMENTS, HISTORY, TEXTS};

pub(crate) async fn history_page(
    source: &dyn RowSource,
    project: &ProjectKey,
    id: &DocumentId,
    before: u64,
    limit: usize,
) -> StoreResult<HistoryPage> {
    let key = document_key(project, id);
    let past = RowQuery::keys(&HISTORY, vec![key.clone()])
        .within("number", Value::Integer(0)..integer(before))
        .sorted_by(&["number"])
        // One entry beyond the limit shows whether there is another page.
        .limited_to(limit.saturating_add(1))
        .descending();
    let present = RowQuery::keys(&DOCUMENTS, vec![key]).narrow();
    let mut results = read_all(source, vec![present, past]).await?;
    let past = results.pop().unwrap_or_default();
    let mut entries = Vec::new();
    for row in results.pop().unwrap_or_default() {
        let entry = DocumentRow::decode(&row)?.into_entry();
        entries.extend(entry.filter(|(number, _)| *number < before));
    }
    for row in past {
        let row = EntryRow::decode(&row)?;
        entries.push((row.number, row.into_entry()));
    }
    Ok(HistoryPage::from_numbered(entries, limit))
}

pub(crate) async fn recent_changes(
    source: &dyn RowSource,
    project: &ProjectKey,
    since: Timestamp,
    limit: usize,
) -> StoreResult<Vec<RecentChange>> {
    let mut queries = Vec::new();
    for (table, time) in [(&DOCUMENTS, "modified"), (&HISTORY, "at")] {
        let query = RowQuery::keys(table, vec![project_key(project)])
            .within(time, since.0.into()..i64::MAX.into())
            .sorted_by(&[time])
            .limited_to(limit)
            .descending()
            .narrow();
        queries.push(query);
    }
    let mut results = read_all(source, queries).await?;
    let mut changes = Vec::new();
    for row in results.pop().unwrap_or_default() {
        let row = EntryRow::decode(&row)?;
        changes.push((row.id.clone(), row.number, row.into_entry()));
    }
    for row in results.pop().unwrap_or_default() {
        let id = document_id(&row)?;
        if let Some((number, entry)) = DocumentRow::decode(&row)?.into_entry() {
            changes.push((id, number, entry));
        }
    }
    Ok(RecentChange::newest_first(changes, limit))
}

/// Maximum changes since a time. Above it, the oldest ones are left out.
const MAX_CHANGES: usize = 100_000;
/// Documents whose changes one round trip reads.
const CHANGED_BATCH: usize = 50;

pub(crate) async fn changed_documents(
    source: &dyn RowSource,
    project: &ProjectKey,
    since: Timestamp,
    ids: Option<Vec<DocumentId>>,
) -> StoreResult<Vec<ChangedDocument>> {
    let ids: BTreeSet<DocumentId> = if let Some(ids) = ids {
        ids.into_iter().collect()
    } else {
        let recent = recent_changes(source, project, since, MAX_CHANGES).await?;
        recent.into_iter().map(|change| change.id).collect()
    };
    let ids: Vec<DocumentId> = ids.into_iter().collect();
    let mut changed = Vec::with_capacity(ids.len());
    for batch in ids.chunks(CHANGED_BATCH) {
        let mut queries = Vec::with_capacity(3 * batch.len());
        for id in batch {
            let key = document_key(project, id);
            let past = RowQuery::keys(&HISTORY, vec![key.clone()]).sorted_by(&["number"]);
            let past = past.limited_to(1).descending();
            queries.push(RowQuery::keys(&DOCUMENTS, vec![key]).narrow());
            queries.push(past.clone());
            queries.push(past.within("at", Value::Integer(i64::MIN)..since.0.into()));
        }
        let results = read_all(source, queries).await?;
        for (id, rows) in batch.iter().zip(results.chunks(3)) {
            let present = rows[0].first().map(DocumentRow::decode).transpose()?;
            let present = present.and_then(DocumentRow::into_entry).map(|(_, entry)| entry);
            let past = |rows: &[TableRow]| rows.first().map(EntryRow::decode).transpose();
            let newest = past(&rows[1])?.map(EntryRow::into_entry);
            let Some(entry) = present.or(newest) else { continue };
            let existed = past(&rows[2])?.is_some_and(|before| before.hash.is_some());
            let is_new = entry.at >= since && !existed;
            changed.push(ChangedDocument { id: id.clone(), entry, is_new });
        }
    }
    Ok(changed)
}

pub(crate) async fn document_at(
    source: &dyn RowSource,
    project: &ProjectKey,
    id: &DocumentId,
    version: Version,
) -> StoreResult<Option<Document>> {
    let present = documents(source, project, std::slice::from_ref(id)).await?.pop().flatten();
    if present.as_ref().is_some_and(|document| document.version == version) {
        return Ok(present);
    }
    let values = document_key(project, id).with(&[(&version.to_string()).into(), integer(0)]);
    let columns = &["project", "kind", "name", "version", "purged"];
    let query = RowQuery::any_of(&HISTORY, columns, vec![values])
        .sorted_by(&["number"])
        // The newest entry wins if two texts share the version.
        .descending()
        .limited_to(1);
    let Some(row) = read_one(source, query.clone()).await?.pop() else { return Ok(None) };
    let Some(hash) = EntryRow::decode(&row)?.hash else { return Ok(None) };
    let text_query = RowQuery::keys(&TEXTS, vec![text_key(project, id, hash)]);
    let rows = read_one(source, text_query.sorted_by(&["part"])).await?;
    // A purge or pruning may have erased the text in between.
    if rows.is_empty() && read_one(source, query).await?.pop() != Some(row) {
        return Ok(None);
    }
    Ok(Some(Document::new(id.clone(), verified_text(id, hash, &rows)?)))
}

/// The beginning of the keys of an earlier text.
pub(crate) fn text_key(project: &ProjectKey, id: &DocumentId, hash: TextHash) -> RowKey {
    document_key(project, id).with(&[hash.0[..].into()])
}

/// Joins the parts of a text and checks it against its hash.
pub(crate) fn verified_text(
    id: &DocumentId,
    hash: TextHash,
    rows: &[TableRow],
) -> StoreResult<Bytes> {
    let body = join_parts(rows).filter(|body| TextHash::of_bytes(body) == hash);
    body.ok_or_else(|| damaged(&format!("an earlier version of {id}")))
}
