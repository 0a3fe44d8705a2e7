//! Rows of the records of a list, from the columns and rows that derive from the metadata.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use reqlore_domain::backlog::{Priority, Reference, RequirementType, Status};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::record_list::{
    FieldOrder, OrderField, RecordCounts, RecordFilter, RecordOrder, RecordPage, RecordQuery,
    position_key, position_name,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::values::value_key;

use super::documents::{AFTER_TEXTS, decode_metas, metas_of_keys};
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::derived::PARENT;
use crate::error::damaged;
use crate::records::{RowReader, project_key};
use crate::row::{RowKey, RowQuery, TableRow, Value};
use crate::tables::{DOCUMENTS, ITEM_COUNTS, ITEM_FIELDS, Table};

/// How an error names a damaged row of `item_fields`.
const FIELD_ROW: &str = "a row of table item_fields";
/// The sort text of an item, and its position in the order of all lists.
pub(super) type Place = (String, Vec<u8>);

/// A row of `item_fields`.
pub(super) struct FieldRow<'a> {
    parent: &'a str,
    pub(super) value: &'a str,
    status: &'a str,
    group_type: &'a str,
    pub(super) position: &'a [u8],
    custom: Vec<(&'a str, &'a str)>,
}

impl<'a> FieldRow<'a> {
    pub(super) fn decode(row: &'a TableRow) -> StoreResult<Self> {
        let mut reader = RowReader::new(row, FIELD_ROW).after(2);
        let (field, value) = (reader.text()?, reader.text()?);
        let (status, group_type) = (reader.text()?, reader.text()?);
        let position = reader.optional_binary()?.ok_or_else(|| damaged(FIELD_ROW))?;
        let custom = match reader.optional_binary()? {
            Some(custom) => postcard::from_bytes(custom).map_err(|_| damaged(FIELD_ROW))?,
            None => Vec::new(),
        };
        let parent = if field == PARENT { value } else { "" };
        Ok(Self { parent, value, status, group_type, position, custom })
    }

    /// All conditions except status and parent.
    fn is_selected(&self, filter: &RecordFilter) -> bool {
        let priority = filter.priority.map(Priority::number);
        is_type_selected(filter, self.group_type)
            && priority.is_none_or(|one| self.position.first() == Some(&one))
            && filter.fields.iter().all(|(name, key)| self.custom.contains(&(name, key)))
    }

    /// All conditions except the parent.
    pub(super) fn is_listed(&self, filter: &RecordFilter) -> bool {
        self.is_selected(filter) && is_status_selected(filter, self.status)
    }

    /// The key of the value by which the item is sorted.
    pub(super) fn sort_value(&self, field: &str) -> Option<Cow<'a, str>> {
        if field == FieldOrder::STATUS {
            return (!self.status.is_empty()).then(|| value_key(self.status).into());
        }
        self.custom.iter().find(|(name, _)| *name == field).map(|(_, value)| (*value).into())
    }
}

/// A list of items or entities.
pub(super) struct ItemReader<'a> {
    pub(super) source: &'a dyn RowSource,
    pub(super) project: &'a ProjectKey,
    pub(super) query: &'a RecordQuery,
}

/// The items of a list, or those with a value of a custom field.
pub(super) type Base<'a> = Option<(&'a str, &'a str)>;

impl ItemReader<'_> {
    pub(super) fn kind_key(&self) -> RowKey {
        project_key(self.project).with(&[self.query.kind.name().into()])
    }

    /// True if the records have the order of all lists, or if only their numbers are wanted.
    pub(super) fn is_in_default_order(&self) -> bool {
        *self.query.list_order() == RecordOrder::ALL_LISTS || self.query.limit == 0
    }

    /// Number of items to find: one more than the page has shows whether there are more.
    pub(super) fn wanted(&self) -> usize {
        self.query.limit.saturating_add(1)
    }

    /// The beginnings of the keys of a range of `item_fields` that has all items of the list;
    /// `None` if one condition selects a range in the order of lists.
    pub(super) async fn narrow_keys(&self) -> StoreResult<Option<Vec<RowKey>>> {
        let (kind_key, filter) = (self.kind_key(), &self.query.filter);
        if let Some(parents) = &filter.parents {
            let key =
                |parent: &Reference| kind_key.with(&[PARENT.into(), (&parent.to_string()).into()]);
            return Ok(Some(parents.iter().map(key).collect()));
        }
        let [_, _, ..] = &*filter.fields else { return Ok(None) };
        let queries = filter.fields.iter().map(|(name, key)| self.counts_query((name, key)));
        let mut smallest: Option<(usize, RowKey)> = None;
        for (rows, (name, key)) in
            read_all(self.source, queries.collect()).await?.iter().zip(&filter.fields)
        {
            let number = super::entities::sum_counts(&ITEM_COUNTS, rows)?;
            if smallest.as_ref().is_none_or(|(least, _)| number < *least) {
                smallest = Some((number, kind_key.with(&[name.into(), key.into()])));
            }
        }
        Ok(smallest.map(|(_, key)| vec![key]))
    }

    pub(super) fn counts_query(&self, (field, value): (&str, &str)) -> RowQuery {
        let key = [field.into(), value.into(), self.query.kind.name().into()];
        RowQuery::keys(&ITEM_COUNTS, vec![project_key(self.project).with(&key)])
    }

    /// Status and type of each group that has items of the list, from rows of `item_counts`. Adds
    /// their numbers to a page.
    pub(super) fn groups(
        &self,
        counts: &[TableRow],
        mut page: Option<&mut RecordPage>,
    ) -> StoreResult<Vec<TableRow>> {
        let (mut groups, filter) = (Vec::new(), &self.query.filter);
        for row in counts {
            let mut reader = RowReader::new(row, "a count of items").after(4);
            let (status, group_type) = (reader.text()?, reader.text()?);
            let (priority, number): (u8, usize) = (reader.number()?, reader.number()?);
            if !is_type_selected(filter, group_type)
                || filter.priority.is_some_and(|one| one.number() != priority)
            {
                continue;
            }
            let is_listed = is_status_selected(filter, status);
            if let Some(page) = &mut page {
                self.count_status(page, status, number);
                page.total += if is_listed { number } else { 0 };
            }
            if is_listed {
                groups.push(TableRow::of(&[status.into(), group_type.into()]));
            }
        }
        groups.sort_unstable();
        groups.dedup();
        Ok(groups)
    }

    fn group_columns(&self, base: Base<'_>) -> (&'static Table, &'static [&'static str], RowKey) {
        match base {
            Some((field, value)) => (
                &ITEM_FIELDS,
                &["project", "kind", "field", "value", "status", "type"],
                self.kind_key().with(&[field.into(), value.into()]),
            ),
            None => (&DOCUMENTS, &["project", "kind", "status", "type"], self.kind_key()),
        }
    }

    /// The first rows of a group, or of all groups without values of one.
    pub(super) fn first_query(
        &self,
        base: Base<'_>,
        group: &TableRow,
        range: &Range<Vec<u8>>,
        limit: usize,
    ) -> RowQuery {
        let (table, columns, key) = self.group_columns(base);
        let group: Vec<Value<'_>> = group.values().collect();
        let columns = &columns[..columns.len() - 2 + group.len()];
        RowQuery::any_of(table, columns, vec![key.with(&group)])
            .within("position", range.start[..].into()..range.end[..].into())
            .sorted_by(&["position"])
            .limited_to(limit)
    }

    /// The first rows of groups in the order of all lists: at least `limit`, if there are as many.
    pub(super) async fn first_rows(
        &self,
        base: Base<'_>,
        groups: &[TableRow],
        range: &Range<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Vec<TableRow>> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let queries = groups.iter().map(|group| self.first_query(base, group, range, limit));
        let found = read_all(self.source, queries.collect()).await?;
        let position = self.group_columns(base).0.index_of("position").unwrap_or_default();
        // After the last row of a group that has more, rows of that group may be missing.
        let full = found.iter().filter(|rows| rows.len() >= limit).filter_map(|rows| rows.last());
        let end = full.min_by(|a, b| a.value(position).cmp(&b.value(position))).cloned();
        let mut rows: Vec<_> = found.into_iter().flatten().collect();
        if let Some(end) = end {
            rows.retain(|row| row.value(position) <= end.value(position));
        }
        rows.sort_by(|a, b| a.value(position).cmp(&b.value(position)));
        Ok(rows)
    }

    /// The first places of a list sorted by status. All items of a group have the same status.
    pub(super) async fn places_by_status(
        &self,
        order: &FieldOrder,
        base: Base<'_>,
        groups: &[TableRow],
    ) -> StoreResult<Vec<Place>> {
        let (list_order, filter) = (self.query.list_order(), &self.query.filter);
        let mut sorted = Vec::with_capacity(groups.len());
        for group in groups {
            let status = RowReader::new(group, "a group of items").text()?;
            let key = (!status.is_empty()).then(|| value_key(status));
            sorted.push((order.sort_text(key.as_deref()), group.clone()));
        }
        sorted.sort_by(|a, b| list_order.compare(&(&a.0, ()), &(&b.0, ())));
        let mut places = Vec::new();
        for groups in sorted.chunk_by(|a, b| a.0 == b.0) {
            let (text, mut range) = (&groups[0].0, filter.position_keys(None));
            if let Some(after) = &self.query.after {
                match list_order.compare(&(text, ()), &(&after.0, ())) {
                    Ordering::Less => continue,
                    Ordering::Equal => range = filter.position_keys(Some(position_key(after))),
                    Ordering::Greater => {}
                }
            }
            let groups: Vec<TableRow> = groups.iter().map(|(_, group)| group.clone()).collect();
            for row in self.first_rows(base, &groups, &range, self.wanted()).await? {
                places.push((text.clone(), self.position_of(base, &row)?.to_vec()));
            }
            if places.len() >= self.wanted() {
                break;
            }
        }
        Ok(places)
    }

    /// The position column of a row of a group.
    pub(super) fn position_of<'r>(
        &self,
        base: Base<'_>,
        row: &'r TableRow,
    ) -> StoreResult<&'r [u8]> {
        let column = self.group_columns(base).0.index_of("position");
        match column.map(|column| row.value(column)) {
            Some(Value::Binary(position)) => Ok(position),
            _ => Err(damaged("a row of an item")),
        }
    }

    /// Completes a page in the order of the last change. Reads more items until it is full.
    pub(super) async fn page_by_time(&self, page: RecordPage) -> StoreResult<RecordPage> {
        let (mut start, mut end) = (String::new(), AFTER_TEXTS.to_owned());
        let is_reversed = self.query.order.is_reversed;
        if let Some((after, ..)) = &self.query.after {
            // Items with the same time may be on this page.
            if is_reversed {
                end = format!("{after}\0");
            } else {
                after.clone_into(&mut start);
            }
        }
        let mut limit = self.wanted() + 1;
        loop {
            let query = RowQuery::any_of(&DOCUMENTS, &["project", "kind"], vec![self.kind_key()])
                .within("updated", Value::Text(&start)..Value::Text(&end))
                .sorted_by(&["updated", "position"])
                .limited_to(limit);
            let query = if is_reversed { query.descending() } else { query };
            let rows = read_one(self.source, query).await?;
            let found = RecordPage::select(decode_metas(&rows)?, self.query);
            if found.next.is_some() || rows.len() < limit {
                return Ok(RecordPage { metadata: found.metadata, next: found.next, ..page });
            }
            limit *= 4;
        }
    }

    /// A page of the items of rows of `item_fields`, with its counts.
    pub(super) async fn page_of_rows(&self, rows: &[TableRow]) -> StoreResult<RecordPage> {
        let (mut page, filter) = (RecordPage::default(), &self.query.filter);
        let places = self.places(rows, |row| {
            if !row.is_selected(filter) {
                return false;
            }
            if self.query.counts != RecordCounts::ChildStatus {
                self.count_status(&mut page, row.status, 1);
            } else if let Some(parent) = Reference::parse(row.parent)
                && let Some(status) = Status::parse(row.status)
            {
                *page.by_parent.entry(parent).or_default().entry(status).or_default() += 1;
            }
            let is_listed = row.is_listed(filter);
            page.total += usize::from(is_listed);
            is_listed
        })?;
        self.finish(page, places).await
    }

    /// The places of the selected rows that are on this page or after it.
    pub(super) fn places(
        &self,
        rows: &[TableRow],
        mut is_selected: impl FnMut(&FieldRow<'_>) -> bool,
    ) -> StoreResult<Vec<Place>> {
        let (order, mut places) = (self.query.list_order(), Vec::new());
        let after = self.query.after.as_ref().map(|after| (&*after.0, position_key(after)));
        for row in rows {
            let row = FieldRow::decode(row)?;
            if !is_selected(&row) {
                continue;
            }
            let text = match &order.field {
                OrderField::Custom(order) => {
                    order.sort_text(row.sort_value(&order.name).as_deref())
                }
                OrderField::Builtin(_) => String::new(),
            };
            let is_after = |(value, key): &(&str, Vec<u8>)| {
                order.compare(&(&text, row.position), &(value, &**key)).is_gt()
            };
            if after.as_ref().is_none_or(is_after) {
                places.push((text, row.position.to_vec()));
            }
        }
        Ok(places)
    }

    /// Completes a page with the documents of the first places.
    pub(super) async fn finish(
        &self,
        mut page: RecordPage,
        mut places: Vec<Place>,
    ) -> StoreResult<RecordPage> {
        let order = self.query.list_order();
        places.sort_by(|a, b| order.compare(&(&a.0, &a.1), &(&b.0, &b.1)));
        let has_more = places.len() > self.query.limit;
        places.truncate(self.query.limit);
        let mut keys = Vec::with_capacity(places.len());
        for (_, position) in &places {
            keys.push(self.key_of(position)?);
        }
        page.metadata = metas_of_keys(self.source, &keys).await?;
        Ok(page.finish(self.query, has_more))
    }

    fn count_status(&self, page: &mut RecordPage, name: &str, number: usize) {
        if self.query.kind != DocumentKind::Entity {
            if let Some(status) = Status::parse(name) {
                *page.by_status.entry(status).or_default() += number;
            }
        } else if !name.is_empty() {
            *page.by_text.entry(name.to_owned()).or_default() += number;
        }
    }

    /// The key of the document of an item.
    pub(super) fn key_of(&self, position: &[u8]) -> StoreResult<RowKey> {
        let name = position_name(position).ok_or_else(|| damaged(FIELD_ROW))?;
        Ok(self.kind_key().with(&[name.into()]))
    }
}

/// True for the type of an item or the kind of an entity that the filter selects.
fn is_type_selected(filter: &RecordFilter, name: &str) -> bool {
    let requirement_type = filter.requirement_type.map(RequirementType::name);
    requirement_type.or(filter.entity_kind.as_deref()).is_none_or(|one| one == name)
}

fn is_status_selected(filter: &RecordFilter, name: &str) -> bool {
    filter.status.as_ref().is_none_or(|one| one.name() == name)
        && filter.entity_status.as_ref().is_none_or(|one| fold_name(name) == *one)
}
