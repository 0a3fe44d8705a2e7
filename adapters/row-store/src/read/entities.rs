//! Lists of entities, and of documents by the values that index them.

use reqlore_domain::document::DocumentKind;
use reqlore_domain::knowledge::entity_words::{MAX_PARTS, exact_word, similar_prefix};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::record_list::{RecordCounts, RecordPage, RecordQuery, RecordSelection};
use reqlore_domain::project_key::ProjectKey;

use super::documents::{AFTER_TEXTS, metas_of_keys};
use super::read_all;
use crate::database::RowSource;
use crate::derived::{DIAGNOSTICS, ENTITIES, TAG_PREFIX, UNTAGGED, WORDS, field_key};
use crate::records::{RowReader, key_text, project_key};
use crate::row::{RowKey, RowQuery, TableRow, Value};
use crate::tables::{COUNTS, FIELD_VALUES, Table};

/// Returns `None` if all metadata must be read.
pub(crate) async fn list(
    source: &dyn RowSource,
    project: &ProjectKey,
    query: &RecordQuery,
) -> StoreResult<Option<RecordPage>> {
    let RecordQuery { selection, limit, .. } = query;
    if !query.is_plain() {
        return Ok(None);
    }
    let entity_kind = query.filter.entity_kind.as_deref();
    let counter = |name: &str| project_key(project).with(&[name.into()]);
    let field = |name| field_key(project, query.kind, name);
    let (counts, values) = match selection {
        RecordSelection::Listed if query.kind == DocumentKind::Entity && *limit == 0 => {
            return entity_counts(source, project, query).await;
        }
        RecordSelection::Listed => return Ok(None),
        RecordSelection::WithDiagnostic => (
            Some(counter(DIAGNOSTICS).with(&[query.kind.name().into()])),
            field(DIAGNOSTICS).with(&["".into()]),
        ),
        RecordSelection::Untagged => {
            (Some(of_kind(counter(UNTAGGED), entity_kind)), of_kind(field(UNTAGGED), entity_kind))
        }
        RecordSelection::Spelled(text) => {
            (None, field(WORDS).with(&[Value::Text(&key_text(&exact_word(text)))]))
        }
        RecordSelection::Similar(_) => (None, field(WORDS)),
    };
    let mut rows = RowQuery::keys(&FIELD_VALUES, vec![values])
        .sorted_by(&["value", "name"])
        .limited_to(*limit);
    if let RecordSelection::Similar(text) = selection {
        let Some(prefix) = similar_prefix(text) else { return Ok(Some(RecordPage::default())) };
        let end = format!("{prefix}{AFTER_TEXTS}");
        // Several parts of an ID may be similar.
        let limit = limit.saturating_mul(MAX_PARTS + 1);
        rows = rows.within("value", Value::Text(&prefix)..Value::Text(&end)).limited_to(limit);
    }
    let mut queries = vec![rows];
    queries.extend(counts.map(|key| RowQuery::keys(&COUNTS, vec![key])));
    let mut results = read_all(source, queries).await?.into_iter();
    let mut keys: Vec<RowKey> = Vec::new();
    for row in results.next().unwrap_or_default() {
        let key = row.select(&[0, 1, FIELD_VALUES.key_width - 1]);
        if keys.len() < *limit && !keys.contains(&key) {
            keys.push(key);
        }
    }
    let total = sum_counts(&COUNTS, &results.next().unwrap_or_default())?;
    let metadata = metas_of_keys(source, &keys).await?;
    Ok(Some(RecordPage { metadata, total, ..RecordPage::default() }.finish(query, false)))
}

/// Continues a key with the kind of an entity.
fn of_kind(key: RowKey, kind: Option<&str>) -> RowKey {
    match kind {
        Some(kind) => key.with(&[Value::Text(&key_text(kind))]),
        None => key,
    }
}

/// The numbers of entities by kind or by tag.
async fn entity_counts(
    source: &dyn RowSource,
    project: &ProjectKey,
    query: &RecordQuery,
) -> StoreResult<Option<RecordPage>> {
    let (mut page, kind) = (RecordPage::default(), query.filter.entity_kind.as_deref());
    let kinds = of_kind(project_key(project).with(&[ENTITIES.into()]), kind);
    let mut queries = vec![RowQuery::keys(&COUNTS, vec![kinds])];
    match query.counts {
        RecordCounts::Kind => {}
        RecordCounts::Tag => {
            let end = format!("{TAG_PREFIX}{AFTER_TEXTS}");
            let tags = RowQuery::keys(&COUNTS, vec![project_key(project)]);
            queries.push(tags.within("counter", TAG_PREFIX.into()..Value::Text(&end)));
        }
        RecordCounts::Status | RecordCounts::ChildStatus => return Ok(None),
    }
    let results = read_all(source, queries).await?;
    for row in results.iter().flatten() {
        let mut reader = RowReader::new(row, "a count of entities").after(1);
        let (counter, counted_kind) = (reader.text()?, reader.text()?);
        let number: usize = reader.number()?;
        let tag = counter.strip_prefix(TAG_PREFIX);
        if tag.is_none() {
            page.total += number;
        }
        let text = match query.counts {
            RecordCounts::Tag => tag.filter(|_| kind.is_none_or(|kind| kind == counted_kind)),
            _ => Some(counted_kind),
        };
        if let Some(text) = text {
            *page.by_text.entry(text.to_owned()).or_default() += number;
        }
    }
    Ok(Some(page))
}

/// The sum of rows of counts.
pub(super) fn sum_counts(table: &Table, rows: &[TableRow]) -> StoreResult<usize> {
    let mut total = 0;
    for row in rows {
        total += RowReader::new(row, "a count").after(table.key_width).number::<usize>()?;
    }
    Ok(total)
}
