//! Lists of items, from the columns that derive from the metadata.

use std::collections::HashMap;
use std::ops::Range;

use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::item_list::{
    DiagnosticList, ItemFilter, ItemPage, ItemQuery, StatusCounts,
};
use reqlore_domain::project_key::ProjectKey;

use super::documents::{decode_metas, metas_of_values};
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::derived::{DIAGNOSTICS, field_key};
use crate::error::damaged;
use crate::records::{RowReader, project_key};
use crate::row::{RowKey, RowQuery, TableRow};
use crate::tables::{COUNTS, DOCUMENTS, FIELD_VALUES, ITEM_COUNTS};

/// Maximum number of parents whose children are usually on one page.
const FEW_PARENTS: usize = 8;

/// The columns of a row of `documents` that lists use.
struct ListedItem<'a> {
    position: &'a [u8],
    status: &'a str,
    requirement_type: &'a str,
    parent: &'a str,
    row: &'a TableRow,
}

impl<'a> ListedItem<'a> {
    const FIRST_COLUMN: usize = 10;

    fn new(row: &'a TableRow) -> StoreResult<Self> {
        let mut reader = RowReader::new(row, "an item's row").after(Self::FIRST_COLUMN);
        let position = reader.optional_binary()?.ok_or_else(|| damaged("an item's row"))?;
        let (status, requirement_type) = (reader.text()?, reader.text()?);
        Ok(Self { position, status, requirement_type, parent: reader.text()?, row })
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
    let (rows, mut found);
    let mut is_narrow = false;
    if let Some(parents) = &query.filter.parents {
        let parents: Vec<Reference> = parents.iter().copied().collect();
        let children = children(project, query.kind, &parents);
        // The metadata of few is read at once.
        is_narrow = parents.len() > FEW_PARENTS;
        rows = read_one(source, if is_narrow { children.narrow() } else { children }).await?;
        found = Vec::with_capacity(rows.len());
        for item in rows.iter().map(ListedItem::new) {
            let item = item?;
            if item.is_selected(&query.filter) && count_item(&mut page, item.status, 1, query) {
                found.push(item);
            }
        }
        let Range { start, end } = query.position_keys();
        found.retain(|item| *item.position >= *start && *item.position < *end);
    } else {
        let mut results = read_all(source, group_queries(project, query)).await?.into_iter();
        for row in results.next().unwrap_or_default() {
            count_group(&mut page, &row, query)?;
        }
        rows = results.flatten().collect();
        found = rows.iter().map(ListedItem::new).collect::<StoreResult<Vec<_>>>()?;
    }
    found.sort_unstable_by_key(|item| item.position);
    let has_more = found.len() > query.limit;
    found.truncate(query.limit);
    page.metadata = if is_narrow {
        let mut keys = Vec::with_capacity(found.len());
        keys.extend(found.iter().map(|item| item.row.prefix(DOCUMENTS.key_width)));
        let mut listed = decode_metas(&read_one(source, RowQuery::keys(&DOCUMENTS, keys)).await?)?;
        listed.sort_by_cached_key(|meta| ItemPage::position(meta));
        listed
    } else {
        decode_metas(found.into_iter().map(|item| item.row))?
    };
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
    for status in names(status, &Status::ALL, Status::name) {
        for requirement_type in
            names(requirement_type, &RequirementType::ALL, RequirementType::name)
        {
            let values = key.with(&[status.into(), requirement_type.into()]);
            queries.push(first(&["project", "kind", "status", "type"], values));
        }
    }
    queries
}

/// The name of a value, or those of all values and of none.
fn names<T: Copy>(value: Option<T>, all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    match value {
        Some(value) => vec![name(value)],
        None => all.iter().copied().map(name).chain([""]).collect(),
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
    let status = Status::ALL.into_iter().find(|one| one.name() == status);
    if let Some(status) = status {
        *page.by_status.entry(status).or_default() += number;
    }
    let is_listed = query.filter.status.is_none() || query.filter.status == status;
    if is_listed {
        page.total += number;
    }
    is_listed
}

fn children(project: &ProjectKey, kind: ItemKind, parents: &[Reference]) -> RowQuery {
    let mut tuples = Vec::with_capacity(parents.len());
    for parent in parents {
        tuples.push(kind_key(project, kind).with(&[(&parent.to_string()).into()]));
    }
    RowQuery::any_of(&DOCUMENTS, &["project", "kind", "parent"], tuples)
}

pub(crate) async fn child_statuses(
    source: &dyn RowSource,
    project: &ProjectKey,
    kind: ItemKind,
    parents: &[Reference],
) -> StoreResult<Vec<StatusCounts>> {
    let rows = read_one(source, children(project, kind, parents).narrow()).await?;
    let mut by_parent: HashMap<&str, StatusCounts> = HashMap::new();
    for row in &rows {
        let child = ListedItem::new(row)?;
        if let Some(status) = Status::ALL.into_iter().find(|one| one.name() == child.status) {
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
