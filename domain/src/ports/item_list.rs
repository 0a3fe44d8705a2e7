//! Selections and pages of lists of items.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::documents::UnreadFile;
use crate::backlog::{
    self, ItemKind, ItemMeta, ItemSortKey, Priority, Reference, RequirementType, Status,
};
use crate::document::DocumentMeta;

/// Maximum number of items or documents in one page.
pub const MAX_PAGE_ITEMS: usize = 1_000;

/// Number of bytes before the name of the document in an [`ItemPage::position_key`].
pub const NAME_OFFSET: usize = 13;

/// The items of one kind that match a filter, from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemQuery {
    pub kind: ItemKind,
    pub filter: ItemFilter,
    /// The [`ItemPage::next`] of the previous page.
    pub after: Option<ItemPosition>,
    /// Maximum number of items in the page, at most [`MAX_PAGE_ITEMS`]; 0 for the total only.
    pub limit: usize,
}

impl ItemQuery {
    /// The first page of all items of a kind.
    pub fn of_kind(kind: ItemKind, limit: usize) -> Self {
        Self { kind, filter: ItemFilter::default(), after: None, limit }
    }

    /// The [`ItemPage::position_key`] of all items of the page and the pages after it that have the
    /// filter's priority.
    pub fn position_keys(&self) -> Range<Vec<u8>> {
        // The position begins with the priority, so a priority is one range.
        let priority = self.filter.priority.map(Priority::number);
        let first = match &self.after {
            // The next position in the order of bytes.
            Some(after) => [&ItemPage::position_key(after)[..], b"\0"].concat(),
            None => Vec::new(),
        };
        let start = first.max(priority.map(|number| vec![number]).unwrap_or_default());
        // No position begins with two such bytes: the second is that of a time far in the past.
        let end = priority.map_or(vec![u8::MAX; 64], |number| vec![number + 1]);
        start..end
    }
}

/// Conditions that an item must meet all. `None` accepts every value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemFilter {
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    pub requirement_type: Option<RequirementType>,
    /// The parent must be one of these; an empty set accepts no item.
    pub parents: Option<BTreeSet<Reference>>,
}

impl ItemFilter {
    pub fn matches(&self, item: &ItemMeta) -> bool {
        if self.status.is_some() && item.status != self.status
            || self.priority.is_some() && item.priority != self.priority
            || self.requirement_type.is_some() && item.requirement_type != self.requirement_type
        {
            return false;
        }
        match (&self.parents, item.parent) {
            (None, _) => true,
            (Some(parents), Some(parent)) => parents.contains(&parent),
            (Some(_), None) => false,
        }
    }
}

/// The place of an item in the order of all lists: its sort key, then its document's name.
pub type ItemPosition = (ItemSortKey, String);

/// A page of items in the order of all lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemPage {
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// Number of items on all pages.
    pub total: usize,
    /// The position of the last item of this page; `None` on the last page.
    pub next: Option<ItemPosition>,
}

impl ItemPage {
    /// Selects a page from the metadata of all documents of the query's kind, for storages without
    /// an index in the order of lists.
    pub fn select(all: impl IntoIterator<Item = Arc<DocumentMeta>>, query: &ItemQuery) -> Self {
        let (mut total, mut first) = (0, BTreeMap::new());
        for meta in all {
            let is_match = meta.item.as_ref().is_some_and(|item| query.filter.matches(item));
            let Some(position) = Self::position(&meta).filter(|_| is_match) else { continue };
            total += 1;
            if query.after.as_ref().is_none_or(|after| position > *after) {
                first.insert(position, meta);
                // One more, to find out below whether there are more.
                if first.len() > query.limit + 1 {
                    first.pop_last();
                }
            }
        }
        let has_more = first.len() > query.limit;
        if has_more {
            first.pop_last();
        }
        let next = first.last_key_value().filter(|_| has_more).map(|(last, _)| last.clone());
        Self { metadata: first.into_values().collect(), total, next }
    }

    /// The position of a document; `None` if it is not an item or has no reference.
    pub fn position(meta: &DocumentMeta) -> Option<ItemPosition> {
        let item = meta.item.as_ref().filter(|item| item.reference.is_some())?;
        Some((backlog::sort_key(item), meta.id.name.clone()))
    }

    /// Returns bytes that sort like the position. The name begins at [`NAME_OFFSET`].
    pub fn position_key(((priority, created, number), name): &ItemPosition) -> Vec<u8> {
        let mut bytes = vec![*priority];
        // The newest first. With the sign bit inverted, times before 1970 are the oldest.
        bytes.extend((!(created.0.0 ^ i64::MIN)).to_be_bytes());
        // The highest number first. Items of lists have one.
        bytes.extend((!number.0.unwrap_or_default()).to_be_bytes());
        bytes.extend(name.as_bytes());
        bytes
    }
}

/// The documents of one kind that have a problem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiagnosticList {
    /// Documents with a diagnostic, sorted by name: the first ones.
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// Number of documents with a diagnostic.
    pub total: usize,
    /// Files that look like documents of the kind but are not read.
    pub unread: Vec<UnreadFile>,
}

impl DiagnosticList {
    /// Selects from the metadata of all documents of a kind, sorted by name.
    pub fn select(
        all: impl IntoIterator<Item = Arc<DocumentMeta>>,
        limit: usize,
        unread: Vec<UnreadFile>,
    ) -> Self {
        let (mut metadata, mut total) = (Vec::new(), 0);
        for meta in all {
            if meta.diagnostic.is_some() {
                total += 1;
                if metadata.len() < limit {
                    metadata.push(meta);
                }
            }
        }
        Self { metadata, total, unread }
    }
}
