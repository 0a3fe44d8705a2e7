//! The tables of lists: items in their order, numbers of items by group, diagnostics.
//!
//! They are derived from the metadata, in the same commit. A list shows the metadata itself, and
//! refuses a row that disagrees with it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use reqlore_domain::backlog::{ItemMeta, Priority};
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::ports::item_list::{DiagnosticList, ItemFilter, ItemPage, ItemQuery};
use reqlore_domain::project_key::ProjectKey;
use rusqlite::Connection;

use crate::error::QueryError;
use crate::read;
use crate::tables::{DIAGNOSTICS, DOCUMENTS, ITEM_COUNTS, ITEMS};

/// The columns of an item that lists select and sort by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ItemRow {
    kind: &'static str,
    position: Vec<u8>,
    /// Empty if the item has none, as are the fields below.
    status: &'static str,
    requirement_type: &'static str,
    parent: String,
}

impl ItemRow {
    /// `None` for a document that no list shows.
    fn new(meta: &DocumentMeta) -> Option<Self> {
        let DocumentKind::Item(_) = meta.id.kind else { return None };
        let item: &ItemMeta = meta.item.as_deref()?;
        Some(Self {
            kind: meta.id.kind.name(),
            position: ItemPage::position_key(&ItemPage::position(meta)?),
            status: item.status.map_or("", |status| status.name()),
            requirement_type: item.requirement_type.map_or("", |one| one.name()),
            parent: item.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        })
    }

    fn priority(&self) -> u8 {
        self.position[0]
    }
}

/// Replaces the rows of a document. `old` is its stored metadata, `new` the row and the metadata
/// that replace it.
pub(crate) fn replace(
    connection: &Connection,
    project: i64,
    old: Option<&DocumentMeta>,
    new: Option<(i64, &DocumentMeta)>,
) -> Result<(), QueryError> {
    let old_item = old.and_then(ItemRow::new);
    let new_item = new.and_then(|(document, meta)| Some((document, ItemRow::new(meta)?)));
    // Most changes of a text move the item nowhere.
    if old_item.as_ref() != new_item.as_ref().map(|(_, item)| item) {
        if let Some(item) = old_item {
            let delete = "DELETE FROM items WHERE project = ?1 AND kind = ?2 AND position = ?3";
            let key = (project, item.kind, &item.position);
            if connection.prepare_cached(delete)?.execute(key)? == 0 {
                return Err(QueryError::damaged("the list of items"));
            }
            count_item(connection, project, &item, -1)?;
        }
        if let Some((document, item)) = new_item {
            static INSERT: LazyLock<String> = LazyLock::new(|| ITEMS.insert());
            let ItemRow { kind, position, status, requirement_type, parent } = &item;
            let row = (document, project, kind, position, status, requirement_type, parent);
            connection.prepare_cached(&INSERT)?.execute(row)?;
            count_item(connection, project, &item, 1)?;
        }
    }
    replace_diagnostic(connection, project, old, new)
}

fn count_item(
    connection: &Connection,
    project: i64,
    item: &ItemRow,
    change: i64,
) -> Result<(), QueryError> {
    static COUNT: LazyLock<String> = LazyLock::new(|| {
        ITEM_COUNTS.update(
            &[("number", "number + ?6")],
            "project = ?1 AND kind = ?2 AND status = ?3 AND type = ?4 AND priority = ?5",
        )
    });
    static INSERT: LazyLock<String> = LazyLock::new(|| ITEM_COUNTS.insert());
    let ItemRow { kind, status, requirement_type, .. } = item;
    let row = (project, kind, status, requirement_type, item.priority(), change);
    if connection.prepare_cached(&COUNT)?.execute(row)? == 0 {
        let row = (kind, project, status, requirement_type, item.priority(), change);
        connection.prepare_cached(&INSERT)?.execute(row)?;
    }
    Ok(())
}

fn replace_diagnostic(
    connection: &Connection,
    project: i64,
    old: Option<&DocumentMeta>,
    new: Option<(i64, &DocumentMeta)>,
) -> Result<(), QueryError> {
    let old = old.filter(|meta| meta.diagnostic.is_some());
    let new = new.filter(|(_, meta)| meta.diagnostic.is_some());
    if old.is_some() == new.is_some() {
        return Ok(());
    }
    if let Some(meta) = old {
        let delete = "DELETE FROM diagnostics WHERE project = ?1 AND kind = ?2 AND name = ?3";
        let key = (project, meta.id.kind.name(), &meta.id.name);
        connection.prepare_cached(delete)?.execute(key)?;
    }
    if let Some((document, meta)) = new {
        static INSERT: LazyLock<String> = LazyLock::new(|| DIAGNOSTICS.insert());
        let row = (&meta.id.name, project, meta.id.kind.name(), document);
        connection.prepare_cached(&INSERT)?.execute(row)?;
    }
    Ok(())
}

/// Removes all rows, before the metadata of all documents is derived again.
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM items; DELETE FROM item_counts; DELETE FROM diagnostics")
}

/// A row of the index: position and document.
type FoundItem = (Vec<u8>, i64);

pub(crate) fn items(
    connection: &Connection,
    project: &ProjectKey,
    query: &ItemQuery,
) -> Result<ItemPage, QueryError> {
    let project = read::project_id(connection, project)?;
    let kind = DocumentKind::Item(query.kind).name();
    let list = ItemList { connection, project, kind, query };
    let (mut found, total) = list.find()?;
    let has_more = found.len() > query.limit;
    found.truncate(query.limit);
    let mut metadata = Vec::with_capacity(found.len());
    for (position, document) in &found {
        let meta = read_metadata(connection, *document)?;
        let is_listed = |item: &Arc<ItemMeta>| query.filter.matches(item);
        // The row may select the item wrongly, but never show it wrongly.
        if ItemRow::new(&meta).is_none_or(|row| row.position != *position)
            || !meta.item.as_ref().is_some_and(is_listed)
        {
            return Err(QueryError::damaged("the list of items"));
        }
        metadata.push(meta);
    }
    let next = match metadata.last() {
        Some(meta) if has_more => ItemPage::position(meta),
        _ => None,
    };
    Ok(ItemPage { metadata, total, next })
}

struct ItemList<'a> {
    connection: &'a Connection,
    project: i64,
    kind: &'static str,
    query: &'a ItemQuery,
}

impl ItemList<'_> {
    /// Returns the items of the page and one more, and the number of items on all pages.
    fn find(&self) -> Result<(Vec<FoundItem>, usize), QueryError> {
        let filter = &self.query.filter;
        if let Some(parents) = &filter.parents {
            let parents = parents.iter().map(ToString::to_string);
            return self.find_children(parents);
        }
        let groups = self.matching_groups(filter)?;
        let total = groups.values().sum();
        if total == 0 || self.query.limit == 0 {
            return Ok((Vec::new(), total));
        }
        let mut found = Vec::new();
        if filter.status.is_none() && filter.requirement_type.is_none() {
            self.find_in("", &[], &mut found)?;
        } else {
            // Each group is in the order of lists, so its first items are enough.
            for (status, requirement_type) in groups.keys() {
                let values = [status.as_str(), requirement_type.as_str()];
                self.find_in("AND status = ?6 AND type = ?7", &values, &mut found)?;
            }
            found.sort_unstable();
            found.truncate(self.query.limit + 1);
        }
        Ok((found, total))
    }

    /// The statuses and types that the filter selects, with their numbers of items.
    fn matching_groups(
        &self,
        filter: &ItemFilter,
    ) -> Result<BTreeMap<(String, String), usize>, QueryError> {
        static SELECT: LazyLock<String> = LazyLock::new(|| {
            let verify = ITEM_COUNTS.verify_with("", &[("project", "?1"), ("kind", "?2")]);
            format!(
                "SELECT status, type, priority, number, {verify} FROM item_counts \
                 WHERE project = ?1 AND kind = ?2"
            )
        });
        let mut select = self.connection.prepare_cached(&SELECT)?;
        let mut rows = select.query((self.project, self.kind))?;
        let mut groups = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (status, requirement_type): (String, String) = (row.get(0)?, row.get(1)?);
            let priority: u8 = row.get(2)?;
            let is_selected = filter.status.is_none_or(|one| one.name() == status)
                && filter.requirement_type.is_none_or(|one| one.name() == requirement_type)
                && filter.priority.is_none_or(|one| one.number() == priority);
            let number: usize = row.get(3)?;
            if is_selected && number > 0 {
                *groups.entry((status, requirement_type)).or_default() += number;
            }
        }
        Ok(groups)
    }

    /// Adds the first items of the page that meet the condition, and one more.
    fn find_in(
        &self,
        condition: &str,
        values: &[&str],
        found: &mut Vec<FoundItem>,
    ) -> Result<(), QueryError> {
        let mut select = self.connection.prepare_cached(&format!(
            "SELECT position, document FROM items \
             WHERE project = ?1 AND kind = ?2 AND position >= ?3 AND position < ?4 {condition} \
             ORDER BY position LIMIT ?5"
        ))?;
        let Range { start, end } = self.query.position_keys();
        let limit = read::sql_limit(self.query.limit, 1);
        let (project, kind) = (self.project, self.kind);
        let mut rows = match values {
            [status, requirement_type] => {
                select.query((project, kind, start, end, limit, status, requirement_type))?
            }
            _ => select.query((project, kind, start, end, limit))?,
        };
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, row.get(1)?));
        }
        Ok(())
    }

    /// Parents have few children, so all are read and counted.
    fn find_children(
        &self,
        parents: impl Iterator<Item = String>,
    ) -> Result<(Vec<FoundItem>, usize), QueryError> {
        let filter = &self.query.filter;
        let mut select = self.connection.prepare_cached(
            "SELECT position, document, status, type FROM items \
             WHERE project = ?1 AND kind = ?2 AND parent = ?3",
        )?;
        let (mut found, mut total) = (Vec::new(), 0);
        let positions = self.query.position_keys();
        for parent in parents {
            let mut rows = select.query((self.project, self.kind, parent))?;
            while let Some(row) = rows.next()? {
                let (status, requirement_type) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?);
                let position = row.get_ref(0)?.as_blob()?;
                let priority = filter.priority.map(Priority::number);
                if filter.status.is_some_and(|one| one.name() != status)
                    || filter
                        .requirement_type
                        .is_some_and(|one| Ok(one.name()) != requirement_type.as_str())
                    || priority.is_some_and(|one| position.first() != Some(&one))
                {
                    continue;
                }
                total += 1;
                let position = position.to_vec();
                if positions.contains(&position) {
                    found.push((position, row.get(1)?));
                }
            }
        }
        found.sort_unstable();
        found.truncate(self.query.limit + 1);
        Ok((found, total))
    }
}

fn read_metadata(connection: &Connection, document: i64) -> Result<Arc<DocumentMeta>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT head, {} FROM documents WHERE id = ?1", DOCUMENTS.verify(""))
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let found = read::decode_metadata(select.query([document])?)?;
    found.into_iter().next().ok_or_else(|| QueryError::damaged("the list of items"))
}

pub(crate) fn diagnostics(
    connection: &Connection,
    project: &ProjectKey,
    kind: DocumentKind,
    limit: usize,
) -> Result<DiagnosticList, QueryError> {
    let project = read::project_id(connection, project)?;
    let count = "SELECT count(*) FROM diagnostics WHERE project = ?1 AND kind = ?2";
    let total: usize =
        connection.prepare_cached(count)?.query_one((project, kind.name()), |row| row.get(0))?;
    let mut metadata = Vec::new();
    // Usually there is none, and the second statement is not needed.
    if total > 0 && limit > 0 {
        let select = "SELECT document FROM diagnostics WHERE project = ?1 AND kind = ?2 \
                      ORDER BY name LIMIT ?3";
        let mut select = connection.prepare_cached(select)?;
        let mut rows = select.query((project, kind.name(), read::sql_limit(limit, 0)))?;
        while let Some(row) = rows.next()? {
            let meta = read_metadata(connection, row.get(0)?)?;
            if meta.id.kind != kind || meta.diagnostic.is_none() {
                return Err(QueryError::damaged("the list of diagnostics"));
            }
            metadata.push(meta);
        }
    }
    Ok(DiagnosticList { metadata, total, unread: Vec::new() })
}

/// Compares the rows with the metadata of all documents. Returns a text for each difference.
pub(crate) fn find_differences(
    connection: &Connection,
    limit: usize,
) -> Result<Vec<String>, QueryError> {
    let mut differences = Vec::new();
    let (mut items, mut diagnostics) = (0_usize, 0_usize);
    let mut listed = connection.prepare(
        "SELECT status, type, parent FROM items \
         WHERE project = ?1 AND kind = ?2 AND position = ?3 AND document = ?4",
    )?;
    let mut has_diagnostic = connection.prepare(
        "SELECT EXISTS (SELECT 1 FROM diagnostics \
         WHERE project = ?1 AND kind = ?2 AND name = ?3 AND document = ?4)",
    )?;
    let mut documents = connection.prepare("SELECT head, project, id FROM documents")?;
    let mut rows = documents.query([])?;
    let mut counts: GroupCounts = BTreeMap::new();
    while let Some(row) = rows.next()?
        && differences.len() < limit
    {
        let (project, id): (i64, i64) = (row.get(1)?, row.get(2)?);
        // Other searches report damaged metadata.
        let Ok(meta) = postcard::from_bytes::<DocumentMeta>(row.get_ref(0)?.as_blob()?) else {
            continue;
        };
        if let Some(item) = ItemRow::new(&meta) {
            items += 1;
            let mut found = listed.query((project, item.kind, &item.position, id))?;
            let expected = [item.status, item.requirement_type, &item.parent];
            let is_right = match found.next()? {
                Some(row) => {
                    let mut is_right = true;
                    for (column, value) in expected.iter().enumerate() {
                        is_right &= row.get_ref(column)?.as_str()? == *value;
                    }
                    is_right
                }
                None => false,
            };
            if !is_right {
                differences.push(format!("{} in the list of items", meta.id));
            }
            let priority = item.priority();
            let [status, requirement_type] = [item.status, item.requirement_type].map(String::from);
            let group = (project, item.kind.to_owned(), status, requirement_type, priority);
            *counts.entry(group).or_default() += 1;
        }
        if meta.diagnostic.is_some() {
            diagnostics += 1;
            let key = (project, meta.id.kind.name(), &meta.id.name, id);
            if !has_diagnostic.query_one(key, |row| row.get(0))? {
                differences.push(format!("{} in the list of diagnostics", meta.id));
            }
        }
    }
    if differences.is_empty() {
        for (table, expected) in [("items", items), ("diagnostics", diagnostics)] {
            let count = format!("SELECT count(*) FROM {table}");
            let rows: usize = connection.query_one(&count, [], |row| row.get(0))?;
            if rows != expected {
                differences.push(format!("{rows} rows of table {table} instead of {expected}"));
            }
        }
        if stored_counts(connection)? != counts {
            differences.push("the numbers of items by status, type and priority".to_owned());
        }
    }
    Ok(differences)
}

/// Numbers of items by project, kind, status, type and priority.
type GroupCounts = BTreeMap<(i64, String, String, String, u8), usize>;

fn stored_counts(connection: &Connection) -> Result<GroupCounts, QueryError> {
    let mut select = connection.prepare(
        "SELECT project, kind, status, type, priority, number FROM item_counts WHERE number != 0",
    )?;
    let mut rows = select.query([])?;
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let group = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        counts.insert(group, row.get(5)?);
    }
    Ok(counts)
}
