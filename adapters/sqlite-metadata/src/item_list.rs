//! Items in list order, and item counts by group.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use reqlore_domain::backlog::{ItemKind, ItemMeta, Priority, Reference, Status};
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::ports::item_list::{ItemFilter, ItemPage, ItemQuery, StatusCounts};
use reqlore_sqlite_team::error::DatabaseError;
use rusqlite::Connection;

use crate::layouts::{ITEM_COUNTS, ITEMS};
use crate::{MetadataTables, sql_limit};

/// The columns of an item that lists select and sort by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemRow {
    pub(crate) kind: &'static str,
    pub(crate) position: Vec<u8>,
    /// Empty if the item has none, as are the fields below.
    pub(crate) status: &'static str,
    pub(crate) requirement_type: &'static str,
    pub(crate) parent: String,
}

impl ItemRow {
    /// `None` for a document that no list shows.
    pub(crate) fn new(meta: &DocumentMeta) -> Option<Self> {
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

    pub(crate) fn priority(&self) -> u8 {
        self.position[0]
    }
}

/// Replaces the rows of an item.
pub(crate) fn replace_item(
    connection: &Connection,
    project: i64,
    old: Option<&DocumentMeta>,
    new: Option<(i64, &DocumentMeta)>,
) -> Result<(), DatabaseError> {
    let old_item = old.and_then(ItemRow::new);
    let new_item = new.and_then(|(document, meta)| Some((document, ItemRow::new(meta)?)));
    // Most text changes do not move the item.
    if old_item.as_ref() != new_item.as_ref().map(|(_, item)| item) {
        if let Some(item) = old_item {
            let delete = "DELETE FROM items WHERE project = ?1 AND kind = ?2 AND position = ?3";
            let key = (project, item.kind, &item.position);
            if connection.prepare_cached(delete)?.execute(key)? == 0 {
                return Err(DatabaseError::damaged("the list of items"));
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
    Ok(())
}

fn count_item(
    connection: &Connection,
    project: i64,
    item: &ItemRow,
    change: i64,
) -> Result<(), DatabaseError> {
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

/// A row of the index: position and document.
type FoundItem = (Vec<u8>, i64);

impl MetadataTables<'_> {
    /// Implements [`DocumentRepository::items`].
    ///
    /// [`DocumentRepository::items`]: reqlore_domain::ports::documents::DocumentRepository::items
    pub fn items(&self, query: &ItemQuery) -> Result<ItemPage, DatabaseError> {
        let Self { connection, project, .. } = *self;
        let kind = DocumentKind::Item(query.kind).name();
        let list = ItemList { connection, project, kind, query };
        let ListedItems { mut found, total, by_status } = list.find()?;
        let has_more = found.len() > query.limit;
        found.truncate(query.limit);
        let mut metadata = Vec::with_capacity(found.len());
        for (position, document) in &found {
            let meta = self.metadata(*document, "the list of items")?;
            // A wrong row may select the item, but the answer always shows the metadata.
            if ItemRow::new(&meta).is_none_or(|row| row.position != *position)
                || !query.filter.matches(&meta)
            {
                return Err(DatabaseError::damaged("the list of items"));
            }
            metadata.push(meta);
        }
        let next = match metadata.last() {
            Some(meta) if has_more => ItemPage::position(meta),
            _ => None,
        };
        Ok(ItemPage { metadata, total, by_status, next })
    }
}

/// The rows of a page and one more, with the counts of all pages.
#[derive(Default)]
struct ListedItems {
    found: Vec<FoundItem>,
    total: usize,
    by_status: StatusCounts,
}

impl ListedItems {
    /// Counts items of a status that meet all other conditions. Returns true if the list has them.
    fn count(&mut self, status: &str, number: usize, filter: &ItemFilter) -> bool {
        let status = Status::ALL.into_iter().find(|one| one.name() == status);
        if let Some(status) = status {
            *self.by_status.entry(status).or_default() += number;
        }
        let is_listed = filter.status.is_none() || filter.status == status;
        if is_listed {
            self.total += number;
        }
        is_listed
    }
}

impl MetadataTables<'_> {
    /// Implements [`DocumentRepository::child_statuses`] with the rows of the list.
    ///
    /// [`DocumentRepository::child_statuses`]: reqlore_domain::ports::documents::DocumentRepository
    pub fn child_statuses(
        &self,
        kind: ItemKind,
        parents: &[Reference],
    ) -> Result<Vec<StatusCounts>, DatabaseError> {
        static SELECT: LazyLock<String> = LazyLock::new(|| {
            let known = [("project", "?1"), ("kind", "?2"), ("parent", "?3")];
            let verify = ITEMS.verify_with("", &known);
            format!(
                "SELECT status, {verify} FROM items INDEXED BY items_by_parent \
                 WHERE project = ?1 AND kind = ?2 AND parent = ?3"
            )
        });
        let mut select = self.connection.prepare_cached(&SELECT)?;
        let kind = DocumentKind::Item(kind).name();
        let mut counts = Vec::with_capacity(parents.len());
        for parent in parents {
            let mut listed = ListedItems::default();
            let mut rows = select.query((self.project, kind, parent.to_string()))?;
            while let Some(row) = rows.next()? {
                listed.count(row.get_ref(0)?.as_str()?, 1, &ItemFilter::default());
            }
            counts.push(listed.by_status);
        }
        Ok(counts)
    }
}

struct ItemList<'a> {
    connection: &'a Connection,
    project: i64,
    kind: &'static str,
    query: &'a ItemQuery,
}

impl ItemList<'_> {
    fn find(&self) -> Result<ListedItems, DatabaseError> {
        let filter = &self.query.filter;
        if let Some(parents) = &filter.parents {
            let parents = parents.iter().map(ToString::to_string);
            return self.find_children(parents);
        }
        let mut listed = ListedItems::default();
        let groups = self.matching_groups(filter, &mut listed)?;
        if listed.total == 0 || self.query.limit == 0 {
            return Ok(listed);
        }
        let found = &mut listed.found;
        if filter.status.is_none() && filter.requirement_type.is_none() {
            self.find_in("items", "", &[], found)?;
        } else {
            // Each group is in the order of lists, so its first items are enough. Without the name
            // of the index, SQLite would read all items in their order.
            let group = "items INDEXED BY items_by_group";
            for (status, requirement_type) in &groups {
                let values = [status.as_str(), requirement_type.as_str()];
                self.find_in(group, "AND status = ?6 AND type = ?7", &values, found)?;
            }
            found.sort_unstable();
            found.truncate(self.query.limit + 1);
        }
        Ok(listed)
    }

    /// Counts the items, and returns the statuses and types that the filter selects.
    fn matching_groups(
        &self,
        filter: &ItemFilter,
        listed: &mut ListedItems,
    ) -> Result<BTreeSet<(String, String)>, DatabaseError> {
        static SELECT: LazyLock<String> = LazyLock::new(|| {
            let verify = ITEM_COUNTS.verify_with("", &[("project", "?1"), ("kind", "?2")]);
            format!(
                "SELECT status, type, priority, number, {verify} FROM item_counts \
                 WHERE project = ?1 AND kind = ?2"
            )
        });
        let mut select = self.connection.prepare_cached(&SELECT)?;
        let mut rows = select.query((self.project, self.kind))?;
        let mut groups = BTreeSet::new();
        while let Some(row) = rows.next()? {
            let (status, requirement_type): (String, String) = (row.get(0)?, row.get(1)?);
            let priority: u8 = row.get(2)?;
            let is_selected =
                filter.requirement_type.is_none_or(|one| one.name() == requirement_type)
                    && filter.priority.is_none_or(|one| one.number() == priority);
            let number: usize = row.get(3)?;
            if is_selected && number > 0 && listed.count(&status, number, filter) {
                groups.insert((status, requirement_type));
            }
        }
        Ok(groups)
    }

    /// Adds the first items of the page that meet the condition, and one more.
    fn find_in(
        &self,
        table: &str,
        condition: &str,
        values: &[&str],
        found: &mut Vec<FoundItem>,
    ) -> Result<(), DatabaseError> {
        let mut select = self.connection.prepare_cached(&format!(
            "SELECT position, document FROM {table} \
             WHERE project = ?1 AND kind = ?2 AND position >= ?3 AND position < ?4 {condition} \
             ORDER BY position LIMIT ?5"
        ))?;
        let Range { start, end } = self.query.position_keys();
        let limit = sql_limit(self.query.limit, 1);
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
    ) -> Result<ListedItems, DatabaseError> {
        let filter = &self.query.filter;
        // Without the name of the index, SQLite would read all items of the kind.
        let mut select = self.connection.prepare_cached(
            "SELECT position, document, status, type FROM items INDEXED BY items_by_parent \
             WHERE project = ?1 AND kind = ?2 AND parent = ?3",
        )?;
        let mut listed = ListedItems::default();
        let positions = self.query.position_keys();
        for parent in parents {
            let mut rows = select.query((self.project, self.kind, parent))?;
            while let Some(row) = rows.next()? {
                let (status, requirement_type) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?);
                let position = row.get_ref(0)?.as_blob()?;
                let priority = filter.priority.map(Priority::number);
                if filter
                    .requirement_type
                    .is_some_and(|one| Ok(one.name()) != requirement_type.as_str())
                    || priority.is_some_and(|one| position.first() != Some(&one))
                    || !listed.count(status, 1, filter)
                {
                    continue;
                }
                let position = position.to_vec();
                if positions.contains(&position) {
                    listed.found.push((position, row.get(1)?));
                }
            }
        }
        listed.found.sort_unstable();
        listed.found.truncate(self.query.limit + 1);
        Ok(listed)
    }
}
