//! Lists of entities by kind, tag and word.

use reqlore_domain::document::DocumentKind;
use reqlore_domain::knowledge::entity_graph::{EntityCounts, similar_prefix};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::entity_list::{SimilarEntities, UntaggedList, exact_word, push_id};
use reqlore_domain::ports::item_list::MAX_PAGE_ITEMS;
use reqlore_domain::project_key::ProjectKey;

use super::documents::{AFTER_TEXTS, metas_of_values};
use super::items::sum_counts;
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::derived::{ENTITIES, TAG_PREFIX, UNTAGGED, WORDS, field_key};
use crate::records::{RowReader, key_text, project_key};
use crate::row::{RowKey, RowQuery, Value};
use crate::tables::{COUNTS, FIELD_VALUES};

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
    let key = of_kind(field_key(project, DocumentKind::Entity, UNTAGGED), kind);
    let queries = vec![
        counts_query(project, UNTAGGED, kind),
        RowQuery::keys(&FIELD_VALUES, vec![key]).sorted_by(&["value", "name"]).limited_to(limit),
    ];
    let mut results = read_all(source, queries).await?;
    let rows = results.pop().unwrap_or_default();
    let total = sum_counts(&results.pop().unwrap_or_default())?;
    Ok(UntaggedList { metadata: metas_of_values(source, &rows).await?, total })
}

pub(crate) async fn similar_entities(
    source: &dyn RowSource,
    project: &ProjectKey,
    text: &str,
) -> StoreResult<SimilarEntities> {
    let words = field_key(project, DocumentKind::Entity, WORDS);
    let exact = words.with(&[Value::Text(&key_text(&exact_word(text)))]);
    let query =
        RowQuery::keys(&FIELD_VALUES, vec![exact]).sorted_by(&["name"]).limited_to(MAX_PAGE_ITEMS);
    let rows = read_one(source, query).await?;
    let mut similar =
        SimilarEntities { same: metas_of_values(source, &rows).await?, ids: Vec::new() };
    let Some(prefix) = similar_prefix(text) else { return Ok(similar) };
    let end = format!("{prefix}{AFTER_TEXTS}");
    let mut first = prefix;
    loop {
        let query = RowQuery::keys(&FIELD_VALUES, vec![words.clone()])
            .within("value", Value::Text(&first)..Value::Text(&end))
            .sorted_by(&["value", "name"])
            .limited_to(WORD_PAGE);
        let rows = read_one(source, query).await?;
        let mut is_full = false;
        for meta in metas_of_values(source, &rows).await? {
            let entity = meta.entity.as_ref();
            is_full |= entity.is_some_and(|entity| !push_id(&mut similar.ids, &entity.id));
        }
        match rows.last().map(|row| row.value(words.values().count())) {
            Some(Value::Text(word)) if rows.len() == WORD_PAGE && !is_full => {
                first = format!("{word}\0");
            }
            _ => return Ok(similar),
        }
    }
}
