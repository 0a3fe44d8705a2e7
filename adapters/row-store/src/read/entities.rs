//! Lists of entities by kind, tag and word.

use std::collections::HashMap;
use std::sync::Arc;

use reqlore_domain::document::{DocumentId, DocumentMeta};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::entity_list::{
    EntityCounts, SimilarEntities, UntaggedList, exact_word, push_id, similar_prefix,
};
use reqlore_domain::ports::item_list::MAX_PAGE_ITEMS;
use reqlore_domain::project_key::ProjectKey;

use super::documents::{AFTER_TEXTS, decode_metas, document_queries};
use super::items::sum_counts;
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::derived::{ENTITIES, TAG_PREFIX, UNTAGGED_ENTITIES};
use crate::records::{RowReader, key_text, project_key};
use crate::row::{RowKey, RowQuery, TableRow, Value};
use crate::tables::{COUNTS, ENTITY_WORDS, UNTAGGED};

/// Number of words that one query reads. A few distinct IDs are enough.
const WORD_PAGE: usize = 100;

pub(crate) async fn entity_kinds(
    source: &dyn RowSource,
    project: &ProjectKey,
) -> StoreResult<EntityCounts> {
    let mut kinds = EntityCounts::new();
    for row in read_one(source, counts_query(project, ENTITIES, None)).await? {
        let mut reader = RowReader::new(&row, "a count of entities").after(2);
        kinds.insert(reader.text()?.to_owned(), reader.number()?);
    }
    Ok(kinds)
}

fn counts_query(project: &ProjectKey, counter: &str, kind: Option<&str>) -> RowQuery {
    let key = project_key(project).with(&[counter.into()]);
    RowQuery::keys(&COUNTS, vec![of_kind(key, kind)])
}

/// Continues a key with the kind of an entity.
fn of_kind(key: RowKey, kind: Option<&str>) -> RowKey {
    match kind {
        Some(kind) => key.with(&[Value::Text(&key_text(kind))]),
        None => key,
    }
}

pub(crate) async fn tag_counts(
    source: &dyn RowSource,
    project: &ProjectKey,
    kind: Option<&str>,
) -> StoreResult<EntityCounts> {
    let end = format!("{TAG_PREFIX}{AFTER_TEXTS}");
    let query = RowQuery::keys(&COUNTS, vec![project_key(project)])
        .within("counter", TAG_PREFIX.into()..Value::Text(&end));
    let mut tags = EntityCounts::new();
    for row in read_one(source, query).await? {
        let mut reader = RowReader::new(&row, "a count of tags").after(1);
        let (counter, counted_kind) = (reader.text()?, reader.text()?);
        if kind.is_none_or(|kind| kind == counted_kind) {
            let tag = counter.strip_prefix(TAG_PREFIX).unwrap_or_default().to_owned();
            *tags.entry(tag).or_default() += reader.number::<usize>()?;
        }
    }
    Ok(tags)
}

pub(crate) async fn untagged(
    source: &dyn RowSource,
    project: &ProjectKey,
    kind: Option<&str>,
    limit: usize,
) -> StoreResult<UntaggedList> {
    let key = of_kind(project_key(project), kind);
    let queries = vec![
        counts_query(project, UNTAGGED_ENTITIES, kind),
        RowQuery::keys(&UNTAGGED, vec![key]).sorted_by(&["kind", "name"]).limited_to(limit),
    ];
    let mut results = read_all(source, queries).await?;
    let rows = results.pop().unwrap_or_default();
    let total = sum_counts(&results.pop().unwrap_or_default())?;
    Ok(UntaggedList { metadata: entities(source, project, &rows).await?, total })
}

pub(crate) async fn similar_entities(
    source: &dyn RowSource,
    project: &ProjectKey,
    text: &str,
) -> StoreResult<SimilarEntities> {
    let exact = project_key(project).with(&[Value::Text(&key_text(&exact_word(text)))]);
    let query =
        RowQuery::keys(&ENTITY_WORDS, vec![exact]).sorted_by(&["name"]).limited_to(MAX_PAGE_ITEMS);
    let rows = read_one(source, query).await?;
    let mut similar =
        SimilarEntities { same: entities(source, project, &rows).await?, ids: Vec::new() };
    let Some(prefix) = similar_prefix(text) else { return Ok(similar) };
    let end = format!("{prefix}{AFTER_TEXTS}");
    let mut first = prefix;
    loop {
        let query = RowQuery::keys(&ENTITY_WORDS, vec![project_key(project)])
            .within("word", Value::Text(&first)..Value::Text(&end))
            .sorted_by(&["word", "name"])
            .limited_to(WORD_PAGE);
        let rows = read_one(source, query).await?;
        let mut is_full = false;
        for meta in entities(source, project, &rows).await? {
            let entity = meta.entity.as_ref();
            is_full |= entity.is_some_and(|entity| !push_id(&mut similar.ids, &entity.id));
        }
        match rows.last().map(|row| row.value(1)) {
            Some(Value::Text(word)) if rows.len() == WORD_PAGE && !is_full => {
                first = format!("{word}\0");
            }
            _ => return Ok(similar),
        }
    }
}

/// Reads the entities of rows that end with their name, in this order.
async fn entities(
    source: &dyn RowSource,
    project: &ProjectKey,
    rows: &[TableRow],
) -> StoreResult<Vec<Arc<DocumentMeta>>> {
    let mut ids = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(Value::Text(name)) = row.values().last() {
            ids.push(DocumentId::entity(name));
        }
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let [query, _] = document_queries(project, &ids);
    let mut found = HashMap::new();
    for meta in decode_metas(&read_one(source, query).await?)? {
        found.insert(meta.id.clone(), meta);
    }
    Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
}
