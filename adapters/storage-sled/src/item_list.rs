//! The trees of lists: items in their order, children by parent, diagnostics.
//!
//! Their keys are derived from the metadata in the same transaction. The project's row contains the
//! item counts by group. A list returns the metadata itself, and rejects a key that differs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, ItemMeta, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::item_list::{
    DiagnosticList, ItemFilter, ItemPage, ItemQuery, NAME_OFFSET, StatusCounts,
};

use crate::database::{CHILDREN, DIAGNOSTICS, ITEMS, SledDatabase, TREE_NAMES, TreeBatch};
use crate::error::{damaged_database, damaged_document, from_sled};
use crate::records::{ProjectRow, document_key, kind_prefix, parse_name};

/// Numbers of items by kind, status, type and priority. All are numbers in the order of their
/// `ALL`, status and type plus one; 0 for none.
pub(crate) type ItemCounts = BTreeMap<[u8; 4], u64>;

const DAMAGED_LIST: &str = "the list of items";

/// The status and the type of an item, which each have one byte in keys.
type StatusAndType = [u8; 2];

/// The place of an item in the trees.
struct ItemKeys {
    group: [u8; 4],
    /// The keys in [`ITEMS`] and [`CHILDREN`].
    item: Vec<u8>,
    child: Option<Vec<u8>>,
}

impl ItemKeys {
    /// `None` for a document that no list shows.
    fn new(project: u32, meta: &DocumentMeta) -> Option<Self> {
        let DocumentKind::Item(kind) = meta.id.kind else { return None };
        let item = meta.item.as_deref()?;
        let position = ItemPage::position_key(&ItemPage::position(meta)?);
        let group = status_and_type(item);
        let [status, requirement_type] = group;
        let child = item
            .parent
            .map(|parent| [&child_prefix(project, kind, parent)[..], &group, &position].concat());
        Some(Self {
            group: [kind_number(kind), status, requirement_type, position[0]],
            item: [&item_prefix(project, kind, group)[..], &position].concat(),
            child,
        })
    }
}

fn status_and_type(item: &ItemMeta) -> StatusAndType {
    [
        value_ordinal(&Status::ALL, item.status),
        value_ordinal(&RequirementType::ALL, item.requirement_type),
    ]
}

/// The number of a value in the list, from 1; 0 for `None`.
fn value_ordinal<T: PartialEq>(all: &[T], value: Option<T>) -> u8 {
    let position = value.and_then(|value| all.iter().position(|one| *one == value));
    position.and_then(|position| u8::try_from(position + 1).ok()).unwrap_or_default()
}

fn kind_number(kind: ItemKind) -> u8 {
    value_ordinal(&ItemKind::ALL, Some(kind))
}

fn item_prefix(project: u32, kind: ItemKind, group: StatusAndType) -> Vec<u8> {
    [&kind_prefix(project, DocumentKind::Item(kind))[..], &group].concat()
}

fn child_prefix(project: u32, kind: ItemKind, parent: Reference) -> Vec<u8> {
    let prefix = kind_prefix(project, DocumentKind::Item(kind));
    [&prefix[..], parent.to_string().as_bytes(), b"\0"].concat()
}

fn diagnostic_key(project: u32, meta: &DocumentMeta) -> Option<Vec<u8>> {
    meta.diagnostic.as_ref().map(|_| document_key(project, &meta.id))
}

/// Adds a document to the lists.
pub(crate) fn add(batch: &mut TreeBatch, project: &mut ProjectRow, meta: &DocumentMeta) {
    if let Some(keys) = ItemKeys::new(project.id, meta) {
        batch.put(ITEMS, keys.item, &[][..]);
        if let Some(child) = keys.child {
            batch.put(CHILDREN, child, &[][..]);
        }
        *project.item_counts.entry(keys.group).or_default() += 1;
    }
    if let Some(key) = diagnostic_key(project.id, meta) {
        batch.put(DIAGNOSTICS, key, &[][..]);
    }
}

/// Removes a document from the lists.
pub(crate) fn remove(batch: &mut TreeBatch, project: &mut ProjectRow, meta: &DocumentMeta) {
    if let Some(keys) = ItemKeys::new(project.id, meta) {
        batch.remove(ITEMS, keys.item);
        if let Some(child) = keys.child {
            batch.remove(CHILDREN, child);
        }
        // Groups without items are removed, so that the row stays short.
        let count = project.item_counts.remove(&keys.group).unwrap_or_default();
        if count > 1 {
            project.item_counts.insert(keys.group, count - 1);
        }
    }
    if let Some(key) = diagnostic_key(project.id, meta) {
        batch.remove(DIAGNOSTICS, key);
    }
}

/// The positions of the items of a page and one more, with the counts of all pages.
#[derive(Default)]
struct ListedItems {
    found: Vec<Vec<u8>>,
    total: usize,
    by_status: StatusCounts,
}

impl ListedItems {
    /// Counts items of a status that meet all other conditions. Returns true if the list has them.
    fn count(&mut self, status: u8, number: u64, filter: &ItemFilter) -> bool {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let status = usize::from(status).checked_sub(1).and_then(|at| Status::ALL.get(at).copied());
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

impl SledDatabase {
    pub(crate) fn list_items(
        &self,
        project: &ProjectRow,
        query: &ItemQuery,
    ) -> StoreResult<ItemPage> {
        let ListedItems { mut found, total, by_status } = match &query.filter.parents {
            Some(parents) => self.find_children(project.id, query, parents)?,
            None => self.find_items(project, query)?,
        };
        // Each group is in the order of lists, so the first items of all are among these.
        found.sort_unstable();
        let has_more = found.len() > query.limit;
        found.truncate(query.limit);
        let mut metadata = Vec::with_capacity(found.len());
        for position in &found {
            metadata.push(self.listed_meta(project.id, query, position)?);
        }
        let next = match metadata.last() {
            Some(meta) if has_more => ItemPage::position(meta),
            _ => None,
        };
        Ok(ItemPage { metadata, total, by_status, next })
    }

    fn find_items(&self, project: &ProjectRow, query: &ItemQuery) -> StoreResult<ListedItems> {
        let (mut groups, mut listed) = (BTreeSet::new(), ListedItems::default());
        for (group, count) in &project.item_counts {
            if selects_group(query, *group) && listed.count(group[1], *count, &query.filter) {
                groups.insert([group[1], group[2]]);
            }
        }
        if query.limit > 0 {
            let positions = query.position_keys();
            for group in groups {
                let prefix = item_prefix(project.id, query.kind, group);
                let keys =
                    [&positions.start, &positions.end].map(|end| [&prefix, &end[..]].concat());
                let [first, end] = keys;
                for key in self.tree(ITEMS).range(first..end).keys().take(query.limit + 1) {
                    listed.found.push(key.map_err(from_sled)?[prefix.len()..].to_vec());
                }
            }
        }
        Ok(listed)
    }

    /// Parents have few children, so all are read and counted.
    fn find_children(
        &self,
        project: u32,
        query: &ItemQuery,
        parents: &BTreeSet<Reference>,
    ) -> StoreResult<ListedItems> {
        let mut listed = ListedItems::default();
        let positions = query.position_keys();
        for parent in parents {
            let prefix = child_prefix(project, query.kind, *parent);
            for key in self.tree(CHILDREN).scan_prefix(&prefix).keys() {
                let key = key.map_err(from_sled)?;
                let [status, requirement_type, position @ ..] = &key[prefix.len()..] else {
                    return Err(damaged_database(DAMAGED_LIST));
                };
                let priority = position.first().copied().unwrap_or_default();
                let group = [kind_number(query.kind), *status, *requirement_type, priority];
                if !selects_group(query, group) || !listed.count(*status, 1, &query.filter) {
                    continue;
                }
                let position = position.to_vec();
                if positions.contains(&position) {
                    listed.found.push(position);
                }
            }
        }
        Ok(listed)
    }

    /// Counts the children of each parent, which needs only their keys.
    pub(crate) fn child_statuses(
        &self,
        project: u32,
        kind: ItemKind,
        parents: &[Reference],
    ) -> StoreResult<Vec<StatusCounts>> {
        let mut counts = Vec::with_capacity(parents.len());
        for parent in parents {
            let mut listed = ListedItems::default();
            let prefix = child_prefix(project, kind, *parent);
            for key in self.tree(CHILDREN).scan_prefix(&prefix).keys() {
                let key = key.map_err(from_sled)?;
                let Some(status) = key.get(prefix.len()) else {
                    return Err(damaged_database(DAMAGED_LIST));
                };
                listed.count(*status, 1, &ItemFilter::default());
            }
            counts.push(listed.by_status);
        }
        Ok(counts)
    }

    fn listed_meta(
        &self,
        project: u32,
        query: &ItemQuery,
        position: &[u8],
    ) -> StoreResult<Arc<DocumentMeta>> {
        let kind = DocumentKind::Item(query.kind);
        let name = position.get(NAME_OFFSET..).and_then(parse_name);
        let Some(name) = name else { return Err(damaged_database(DAMAGED_LIST)) };
        let meta = self.intact_meta(project, &DocumentId { kind, name })?;
        let found = ItemPage::position(&meta).map(|position| ItemPage::position_key(&position));
        // A wrong key may select the item, but the answer always shows the metadata.
        if found.as_deref() != Some(position) || !query.filter.matches(&meta) {
            return Err(damaged_database(DAMAGED_LIST));
        }
        Ok(meta)
    }

    /// Returns the metadata of a document that a list contains.
    fn intact_meta(&self, project: u32, id: &DocumentId) -> StoreResult<Arc<DocumentMeta>> {
        let key = document_key(project, id);
        let Some(row) = self.document_row(&key, id)? else {
            return Err(damaged_database(DAMAGED_LIST));
        };
        match self.row_meta(id, &key, &row) {
            Some(meta) => Ok(Arc::new(meta)),
            None => Err(damaged_document(id)),
        }
    }

    pub(crate) fn list_diagnostics(
        &self,
        project: u32,
        kind: DocumentKind,
        limit: usize,
    ) -> StoreResult<DiagnosticList> {
        let prefix = kind_prefix(project, kind);
        let (mut metadata, mut total) = (Vec::new(), 0);
        for key in self.tree(DIAGNOSTICS).scan_prefix(&prefix).keys() {
            let key = key.map_err(from_sled)?;
            total += 1;
            if metadata.len() == limit {
                continue;
            }
            let Some(name) = parse_name(&key[prefix.len()..]) else {
                return Err(damaged_database("the list of diagnostics"));
            };
            let meta = self.intact_meta(project, &DocumentId { kind, name })?;
            if meta.diagnostic.is_none() {
                return Err(damaged_database("the list of diagnostics"));
            }
            metadata.push(meta);
        }
        Ok(DiagnosticList { metadata, total, unread: Vec::new() })
    }

    /// Compares the trees and the counts with the metadata of all documents. Returns a description
    /// of each difference.
    pub(crate) fn list_differences(&self) -> StoreResult<Vec<String>> {
        let mut expected = TreeBatch::default();
        let mut differences = Vec::new();
        let mut rows = BTreeMap::from([ITEMS, CHILDREN, DIAGNOSTICS].map(|tree| (tree, 0)));
        for (key, stored) in self.list_projects()? {
            let mut project = ProjectRow { item_counts: ItemCounts::new(), ..stored.clone() };
            for kind in DocumentKind::ALL {
                for entry in self.document_entries(project.id, kind, None) {
                    let (id, _, _) = entry?;
                    let meta = self.intact_meta(project.id, &id)?;
                    add(&mut expected, &mut project, &meta);
                    for (tree, key) in std::mem::take(&mut expected).keys() {
                        *rows.entry(*tree).or_default() += 1;
                        if self.get(*tree, key)?.is_none() {
                            differences
                                .push(format!("{} in the tree {}", meta.id, TREE_NAMES[*tree]));
                        }
                    }
                }
            }
            if project.item_counts != stored.item_counts {
                differences.push(format!("the item counts of project {}", key.as_str()));
            }
        }
        for (tree, expected) in rows {
            let found = self.tree(tree).len();
            if found != expected && differences.is_empty() {
                differences.push(format!(
                    "{found} keys in the tree {} instead of {expected}",
                    TREE_NAMES[tree]
                ));
            }
        }
        Ok(differences)
    }
}

/// True if the query's kind, type and priority select the group.
fn selects_group(query: &ItemQuery, [kind, _, requirement_type, priority]: [u8; 4]) -> bool {
    let ItemFilter { priority: wanted_priority, requirement_type: wanted_type, .. } = query.filter;
    kind == kind_number(query.kind)
        && wanted_type.is_none_or(|wanted| {
            value_ordinal(&RequirementType::ALL, Some(wanted)) == requirement_type
        })
        && wanted_priority.map(Priority::number).is_none_or(|wanted| wanted == priority)
}
