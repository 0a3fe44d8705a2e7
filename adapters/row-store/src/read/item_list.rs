//! Chooses how to read a list of items or entities with the fewest rows.

use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::record_list::{
    DetailFilter, OrderField, RecordCounts, RecordFilter, RecordPage, RecordQuery, SortField,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::values::MAX_KEY_BYTES;

use super::documents::{decode_metas, metas_of_keys};
use super::field_order::first_places;
use super::items::{FieldRow, ItemReader};
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::row::{RowKey, RowQuery, TableRow, Value};
use crate::tables::ITEM_FIELDS;

/// Maximum numbers of rows and of documents that a list sorts, instead of following an order. Tests
/// have few items and do both.
const MAX_SORTED_ROWS: usize = if cfg!(debug_assertions) { 3 } else { 2_000 };
const MAX_SORTED_DOCUMENTS: usize = if cfg!(debug_assertions) { 2 } else { 500 };
/// Maximum number of groups that a list reads, each with a query, and of their rows. Files may have
/// any status.
const MAX_GROUPS: usize = 200;
const MAX_GROUP_ROWS: usize = 20_000;

/// Returns `None` if all metadata must be read.
pub(crate) async fn list(
    source: &dyn RowSource,
    project: &ProjectKey,
    query: &RecordQuery,
) -> StoreResult<Option<RecordPage>> {
    let reader = ItemReader { source, project, query };
    let (filter, order) = (&query.filter, query.list_order());
    let is_default = reader.is_in_default_order();
    if let Some(keys) = reader.narrow_keys().await? {
        return list_range(&reader, keys).await;
    }
    if filter.details != DetailFilter::default() || query.counts != RecordCounts::Status {
        return Ok(None);
    }
    let base = filter.fields.first().map(|(name, key)| (&**name, &**key));
    let mut queries = vec![reader.counts_query(base.unwrap_or_default())];
    let is_whole = *filter == RecordFilter { priority: filter.priority, ..RecordFilter::default() };
    if is_whole && is_default && query.limit > 0 {
        let range = query.position_keys();
        queries.push(reader.first_query(None, &TableRow::of(&[]), &range, reader.wanted()));
    }
    let mut results = read_all(source, queries).await?.into_iter();
    let mut page = RecordPage::default();
    let counts = results.next().unwrap_or_default();
    if !has_whole_groups(&counts) {
        return Ok(None);
    }
    let groups = reader.groups(&counts, Some(&mut page))?;
    if query.limit == 0 {
        return Ok(Some(page));
    }
    let has_many = groups.len() > MAX_GROUPS || groups.len() * reader.wanted() > MAX_GROUP_ROWS;
    if has_many && !(is_whole && is_default) {
        return Ok(None);
    }
    let whole = filter.position_keys(None);
    let places = match (&order.field, base) {
        _ if is_default => {
            let mut rows = results.next().unwrap_or_default();
            if !is_whole {
                let range = query.position_keys();
                rows = reader.first_rows(base, &groups, &range, reader.wanted()).await?;
            }
            if base.is_none() {
                let has_more = rows.len() > query.limit;
                rows.truncate(query.limit);
                page.metadata = decode_metas(&rows)?;
                return Ok(Some(page.finish(query, has_more)));
            }
            reader.places(&rows, |_| true)?
        }
        (OrderField::Custom(_), Some(_)) if page.total <= MAX_SORTED_ROWS => {
            let rows = reader.first_rows(base, &groups, &whole, MAX_SORTED_ROWS).await?;
            reader.places(&rows, |row| row.is_listed(filter))?
        }
        (_, None) if page.total <= MAX_SORTED_DOCUMENTS => {
            let rows = reader.first_rows(base, &groups, &whole, MAX_SORTED_ROWS).await?;
            let RecordPage { metadata, next, .. } = RecordPage::select(decode_metas(&rows)?, query);
            return Ok(Some(RecordPage { metadata, next, ..page }));
        }
        (OrderField::Custom(order), _) => first_places(&reader, order, base, &groups).await?,
        (OrderField::Builtin(SortField::Updated), _) => {
            return reader.page_by_time(page).await.map(Some);
        }
        (OrderField::Builtin(_), _) => return Ok(None),
    };
    reader.finish(page, places).await.map(Some)
}

/// Lists records of a range of `item_fields`.
async fn list_range(reader: &ItemReader<'_>, keys: Vec<RowKey>) -> StoreResult<Option<RecordPage>> {
    let ItemReader { source, query, .. } = *reader;
    let rows = read_one(source, RowQuery::keys(&ITEM_FIELDS, keys)).await?;
    if !has_whole_groups(&rows) {
        return Ok(None);
    }
    let is_in_rows =
        reader.is_in_default_order() || matches!(query.list_order().field, OrderField::Custom(_));
    if query.filter.details == DetailFilter::default() && is_in_rows {
        return reader.page_of_rows(&rows).await.map(Some);
    }
    if rows.len() > MAX_SORTED_DOCUMENTS {
        return Ok(None);
    }
    let mut keys = Vec::with_capacity(rows.len());
    for row in &rows {
        keys.push(reader.key_of(FieldRow::decode(row)?.position)?);
    }
    Ok(Some(RecordPage::select(metas_of_keys(source, &keys).await?, query)))
}

/// False if a status or a kind may be shortened, so that it cannot be compared or shown.
fn has_whole_groups(rows: &[TableRow]) -> bool {
    // Status and type in `item_fields` and in `item_counts`.
    let columns = [4, 5];
    // A shortened text has at least `MAX_KEY_BYTES - 3` bytes: it is cut between two characters.
    let is_whole = |text| matches!(text, Value::Text(text) if text.len() + 4 <= MAX_KEY_BYTES);
    rows.iter().all(|row| columns.iter().all(|column| is_whole(row.value(*column))))
}
