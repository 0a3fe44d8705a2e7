//! Lists of items, from the columns and rows that derive from the metadata.

use std::collections::HashMap;
use std::ops::Range;

use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::item_list::{
    DiagnosticList, ItemFilter, ItemPage, ItemQuery, NAME_OFFSET, StatusCounts,
};
use reqlore_domain::project_key::ProjectKey;

use super::documents::{decode_metas, metas_of_values};
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::derived::{DIAGNOSTICS, field_key};
use crate::error::damaged;
use crate::records::{RowReader, project_key};
use crate::row::{RowKey, RowQuery, TableRow};
use crate::tables::{CHILDREN, COUNTS, DOCUMENTS, FIELD_VALUES, ITEM_COUNTS};

/// How an error names a damaged row of `children`.
const CHILD: &str = "a row of table children";
/// The column `position` in a row of `documents`.
const POSITION: usize = 10;

/// A row of `children`.
struct ChildRow<'a> {
    parent: &'a str,
    position: &'a [u8],
    status: &'a str,
    requirement_type: &'a str,
}

impl<'a> ChildRow<'a> {
    fn decode(row: &'a TableRow) -> StoreResult<Self> {
        let mut reader = RowReader::new(row, CHILD).after(2);
        let parent = reader.text()?;
        let position = reader.optional_binary()?.ok_or_else(|| damaged(CHILD))?;
        Ok(Self { parent, position, status: reader.text()?, requirement_type: reader.text()? })
    }

    /// All conditions of the filter except status and parent.
    fn is_selected(&self, filter: &ItemFilter) -> bool {
        let priority = filter.priority.map(Priority::number);
        filter.requirement_type.is_none_or(|one| one.name() == self.requirement_type)
            && priority.is_none_or(|one| self.position.first() == Some(&one))
    }
}

pub(crate) async fn items(
    source: &dyn RowSource,
    project: &ProjectKey,
    query: &ItemQuery,
) -> StoreResult<ItemPage> {
    let mut page = ItemPage::default();
    let (mut rows, has_more);
    if let Some(parents) = &query.filter.parents {
        let children = read_one(source, children(project, query.kind, parents)).await?;
        let mut keys = page_of_children(&mut page, project, query, &children)?;
        has_more = keys.len() > query.limit;
        keys.truncate(query.limit);
        rows = read_one(source, RowQuery::keys(&DOCUMENTS, keys)).await?;
    } else {
        let mut results = read_all(source, group_queries(project, query)).await?.into_iter();
        for row in results.next().unwrap_or_default() {
            count_group(&mut page, &row, query)?;
        }
        rows = results.flatten().collect();
        has_more = rows.len() > query.limit;
    }
    rows.sort_by(|a, b| a.value(POSITION).cmp(&b.value(POSITION)));
    rows.truncate(query.limit);
    page.metadata = decode_metas(&rows)?;
    page.next = match page.metadata.last() {
        Some(meta) if has_more => ItemPage::position(meta),
        _ => None,
    };
    Ok(page)
}

fn kind_key(project: &ProjectKey, kind: ItemKind) -> RowKey {
    project_key(project).with(&[DocumentKind::Item(kind).name().into()])
}

/// The query for the counts of all groups, and one for the first items of each group that the
/// filter selects, each in the order of an index.
fn group_queries(project: &ProjectKey, query: &ItemQuery) -> Vec<RowQuery> {
    let ItemFilter { status, requirement_type, .. } = query.filter;
    let key = kind_key(project, query.kind);
    let mut queries = vec![RowQuery::keys(&ITEM_COUNTS, vec![key.clone()])];
    if query.limit == 0 {
        return queries;
    }
    let Range { start, end } = query.position_keys();
    let first = |columns: &[&'static str], values| {
        RowQuery::any_of(&DOCUMENTS, columns, vec![values])
            .within("position", start[..].into()..end[..].into())
            .sorted_by(&["position"])
            // One more, to find out whether there are more.
            .limited_to(query.limit.saturating_add(1))
    };
    if status.is_none() && requirement_type.is_none() {
        queries.push(first(&["project", "kind"], key));
        return queries;
    }
    // Only requirements have a type, and their statuses are built in.
    for status in names(status.as_ref(), &Status::ALL, Status::name) {
        for requirement_type in
            names(requirement_type.as_ref(), &RequirementType::ALL, |one| one.name())
        {
            let values = key.with(&[status.into(), requirement_type.into()]);
            queries.push(first(&["project", "kind", "status", "type"], values));
        }
    }
    queries
}

/// The name of a value, or those of all values and of none.
fn names<'v, T>(value: Option<&'v T>, all: &'v [T], name: fn(&T) -> &str) -> Vec<&'v str> {
    match value {
        Some(value) => vec![name(value)],
        None => all.iter().map(name).chain([""]).collect(),
    }
}

/// Counts the items of a row of `item_counts`.
fn count_group(page: &mut ItemPage, row: &TableRow, query: &ItemQuery) -> StoreResult<()> {
    let mut reader = RowReader::new(row, "a count of items").after(2);
    let (status, requirement_type) = (reader.text()?, reader.text()?);
    let (priority, number): (u8, usize) = (reader.number()?, reader.number()?);
    let filter = &query.filter;
    if filter.requirement_type.is_none_or(|one| one.name() == requirement_type)
        && filter.priority.is_none_or(|one| one.number() == priority)
    {
        count_item(page, status, number, query);
    }
    Ok(())
}

/// Counts items of a status that meet all other conditions. Returns true if the list has them.
fn count_item(page: &mut ItemPage, status: &str, number: usize, query: &ItemQuery) -> bool {
    let status = Status::parse(status);
    if let Some(status) = status {
        *page.by_status.entry(status).or_default() += number;
    }
    let is_listed = query.filter.status.is_none() || query.filter.status == status;
    if is_listed {
        page.total += number;
    }
    is_listed
}

fn children<'a>(
    project: &ProjectKey,
    kind: ItemKind,
    parents: impl IntoIterator<Item = &'a Reference>,
) -> RowQuery {
    let key = kind_key(project, kind);
    let with_parent = |parent: &Reference| key.with(&[(&parent.to_string()).into()]);
    RowQuery::keys(&CHILDREN, parents.into_iter().map(with_parent).collect())
}

/// Counts children, and returns the keys of the documents on the page, in order, and of one more if
/// there are more.
fn page_of_children(
    page: &mut ItemPage,
    project: &ProjectKey,
    query: &ItemQuery,
    children: &[TableRow],
) -> StoreResult<Vec<RowKey>> {
    let (mut positions, Range { start, end }) = (Vec::new(), query.position_keys());
    for row in children {
        let child = ChildRow::decode(row)?;
        if child.is_selected(&query.filter)
            && count_item(page, child.status, 1, query)
            && (&*start..&*end).contains(&child.position)
        {
            positions.push(child.position);
        }
    }
    positions.sort_unstable();
    positions.truncate(query.limit.saturating_add(1));
    let (mut keys, of_kind) = (Vec::with_capacity(positions.len()), kind_key(project, query.kind));
    for position in positions {
        let name = position.get(NAME_OFFSET..).and_then(|name| str::from_utf8(name).ok());
        keys.push(of_kind.with(&[name.ok_or_else(|| damaged(CHILD))?.into()]));
    }
    Ok(keys)
}

pub(crate) async fn child_statuses(
    source: &dyn RowSource,
    project: &ProjectKey,
    kind: ItemKind,
    parents: &[Reference],
) -> StoreResult<Vec<StatusCounts>> {
    let rows = read_one(source, children(project, kind, parents)).await?;
    let mut by_parent: HashMap<&str, StatusCounts> = HashMap::new();
    for row in &rows {
        let child = ChildRow::decode(row)?;
        if let Some(status) = Status::parse(child.status) {
            *by_parent.entry(child.parent).or_default().entry(status).or_default() += 1;
        }
    }
    let counts_of =
        |parent: &Reference| by_parent.get(&*parent.to_string()).cloned().unwrap_or_default();
    Ok(parents.iter().map(counts_of).collect())
}

pub(crate) async fn diagnostics(
    source: &dyn RowSource,
    project: &ProjectKey,
    kind: DocumentKind,
    limit: usize,
) -> StoreResult<DiagnosticList> {
    let key = project_key(project).with(&[DIAGNOSTICS.into(), kind.name().into()]);
    // The only value, so that the names are in the order of the key.
    let names = field_key(project, kind, DIAGNOSTICS).with(&["".into()]);
    let queries = vec![
        RowQuery::keys(&COUNTS, vec![key]),
        RowQuery::keys(&FIELD_VALUES, vec![names]).sorted_by(&["name"]).limited_to(limit),
    ];
    let mut results = read_all(source, queries).await?;
    let rows = results.pop().unwrap_or_default();
    let total = sum_counts(&results.pop().unwrap_or_default())?;
    let metadata = metas_of_values(source, &rows).await?;
    Ok(DiagnosticList { metadata, total, unread: Vec::new() })
}

/// The sum of rows of `counts`.
pub(crate) fn sum_counts(rows: &[TableRow]) -> StoreResult<usize> {
    let mut total = 0;
    for row in rows {
        total += RowReader::new(row, "a count").after(COUNTS.key_width).number::<usize>()?;
    }
    Ok(total)
}
