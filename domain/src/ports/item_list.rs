//! Selections and pages of lists of items.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use super::documents::UnreadFile;
use crate::backlog::{
    self, ItemKind, ItemMeta, ItemSortKey, Priority, Reference, RequirementType, Status,
};
use crate::bounded_types::named_enum;
use crate::document::DocumentMeta;
use crate::name_form::fold_name;
use crate::records::schema::StatusCategory;
use crate::timestamp::Timestamp;

/// Maximum number of items or documents in one page.
pub const MAX_PAGE_ITEMS: usize = 1_000;

/// Number of items beyond two pages after which a selection forgets those of later pages.
const PRUNING_ITEMS: usize = 1_000;

/// Number of bytes before the name of the document in an [`ItemPage::position_key`].
pub const NAME_OFFSET: usize = 13;

/// The items of one kind that match a filter, from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemQuery {
    pub kind: ItemKind,
    pub filter: ItemFilter,
    pub order: ItemOrder,
    /// The [`ItemPage::next`] of the previous page, which had the same order.
    pub after: Option<ItemPosition>,
    /// Maximum number of items in the page, at most [`MAX_PAGE_ITEMS`]; 0 for the total only.
    pub limit: usize,
}

impl ItemQuery {
    /// The first page of all items of a kind, in the order of all lists.
    pub fn of_kind(kind: ItemKind, limit: usize) -> Self {
        let (filter, order) = (ItemFilter::default(), ItemOrder::default());
        Self { kind, filter, order, after: None, limit }
    }

    /// True if the tables of a storage do not suffice: the metadata of all items is read.
    pub fn needs_scan(&self) -> bool {
        self.order != ItemOrder::default() || self.filter.details != DetailFilter::default()
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
        // No position begins with two such bytes: the second is that of a time far in the future.
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
    pub details: DetailFilter,
}

impl ItemFilter {
    pub fn matches(&self, meta: &DocumentMeta) -> bool {
        self.matches_any_status(meta) && (self.status.is_none() || status_of(meta) == self.status)
    }

    /// All conditions except the status.
    fn matches_any_status(&self, meta: &DocumentMeta) -> bool {
        let Some(item) = &meta.item else { return false };
        if self.priority.is_some() && item.priority != self.priority
            || self.requirement_type.is_some() && item.requirement_type != self.requirement_type
        {
            return false;
        }
        let has_parent = match (&self.parents, item.parent) {
            (None, _) => true,
            (Some(parents), Some(parent)) => parents.contains(&parent),
            (Some(_), None) => false,
        };
        let has_details = || self.details.matches(&ListedTexts::of_item(meta, item));
        // Most lists need no texts.
        has_parent && (self.details == DetailFilter::default() || has_details())
    }
}

fn status_of(meta: &DocumentMeta) -> Option<Status> {
    meta.item.as_ref().and_then(|item| item.status)
}

/// Conditions on values that no table of a storage has. All texts are compared in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DetailFilter {
    pub assignee: Option<AssigneeFilter>,
    /// The item must have all of these.
    pub tags: Vec<String>,
    /// Part of the title or of the ID.
    pub text: Option<String>,
    pub updated_since: Option<Timestamp>,
}

/// The assignee that an item must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum AssigneeFilter {
    Unassigned,
    /// In lower case.
    User(String),
}

/// The values of a document that [`DetailFilter`] compares.
#[derive(Debug, Clone)]
pub struct ListedTexts<'a> {
    pub id: Cow<'a, str>,
    pub title: &'a str,
    pub assignee: Option<&'a str>,
    pub tags: &'a [String],
    pub updated_at: Option<Timestamp>,
}

impl<'a> ListedTexts<'a> {
    fn of_item(meta: &'a DocumentMeta, item: &'a ItemMeta) -> Self {
        Self {
            id: item.display_name(&meta.id.name),
            title: &item.title,
            assignee: item.assignee.as_deref(),
            tags: &item.tags,
            updated_at: Some(item.updated_at),
        }
    }
}

impl DetailFilter {
    pub fn matches(&self, listed: &ListedTexts<'_>) -> bool {
        if let Some(since) = self.updated_since
            && listed.updated_at.is_none_or(|updated_at| updated_at < since)
        {
            return false;
        }
        let is_assigned = match (&self.assignee, listed.assignee) {
            (None, _) | (Some(AssigneeFilter::Unassigned), None) => true,
            (Some(AssigneeFilter::User(user)), Some(assignee)) => fold_name(assignee) == *user,
            _ => false,
        };
        if !is_assigned {
            return false;
        }
        for tag in &self.tags {
            if !listed.tags.iter().any(|other| fold_name(other) == *tag) {
                return false;
            }
        }
        let Some(text) = &self.text else { return true };
        fold_name(listed.title).contains(text) || fold_name(&listed.id).contains(text)
    }
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ItemOrder {
    pub field: SortField,
    pub is_reversed: bool,
}

named_enum! {
    /// The value that a list is sorted by; items with the same value have the order of all lists.
    #[derive(Default, Serialize)]
    SortField {
        /// The order of all lists: by priority, then the oldest first.
        #[default]
        Priority = "priority",
        /// The last change first.
        Updated = "updated",
        /// By number.
        Reference = "reference",
        /// In lower case.
        Title = "title",
        /// From the first status of work to the last.
        Status = "status",
        /// In lower case, unassigned items last.
        Assignee = "assignee",
    }
}

impl ItemOrder {
    pub fn compare<P: Ord>(self, position: &P, other: &P) -> Ordering {
        let ordering = position.cmp(other);
        if self.is_reversed { ordering.reverse() } else { ordering }
    }

    /// True if a position is on the pages after another.
    pub fn is_after<P: Ord>(self, position: &P, other: &P) -> bool {
        self.compare(position, other).is_gt()
    }

    /// The position of a listed item; `None` for a document without a reference.
    pub fn position(self, meta: &DocumentMeta) -> Option<ItemPosition> {
        let (_, key, name) = ItemPage::position(meta)?;
        let value = meta.item.as_ref().map(|item| self.field.value(item));
        Some((value.unwrap_or_default(), key, name))
    }

    /// Removes all but the first candidates, without sorting.
    fn keep_first(self, found: &mut Vec<Candidate>, count: usize) {
        if found.len() > count {
            found.select_nth_unstable_by(count, |a, b| self.compare(&a.place(), &b.place()));
            found.truncate(count);
        }
    }
}

impl SortField {
    /// The text by which an item is sorted first; empty for the order of all lists.
    fn value(self, item: &ItemMeta) -> String {
        match self {
            Self::Priority => String::new(),
            Self::Updated => updated_rank(Some(item.updated_at)),
            Self::Reference => {
                item.reference.map(|one| format!("{:010}", one.number)).unwrap_or_default()
            }
            Self::Title => fold_name(&item.title),
            Self::Status => {
                let rank = Status::ALL.iter().position(|status| Some(*status) == item.status);
                rank.map(|rank| rank.to_string()).unwrap_or_default()
            }
            // After all names.
            Self::Assignee => {
                item.assignee.as_ref().map_or("\u{10ffff}".to_owned(), |one| fold_name(one))
            }
        }
    }
}

/// Text that sorts the last change first, and documents without a time last.
pub fn updated_rank(updated_at: Option<Timestamp>) -> String {
    format!("{:016x}", updated_at.map_or(u64::MAX, |time| !(time.0 ^ i64::MIN).cast_unsigned()))
}

/// An item that a list may show.
struct Candidate {
    value: String,
    key: ItemSortKey,
    meta: Arc<DocumentMeta>,
}

impl Candidate {
    /// `None` for a document without a reference or with other values than the filter's, except
    /// for the status.
    fn new(meta: Arc<DocumentMeta>, filter: &ItemFilter) -> Option<Self> {
        let item = meta.item.as_ref().filter(|item| item.reference.is_some())?;
        let key = backlog::sort_key(item);
        filter.matches_any_status(&meta).then_some(Self { value: String::new(), key, meta })
    }

    fn with_value(self, field: SortField) -> Self {
        let value = self.meta.item.as_ref().map(|item| field.value(item)).unwrap_or_default();
        Self { value, ..self }
    }

    fn place(&self) -> (&String, &ItemSortKey, &String) {
        (&self.value, &self.key, &self.meta.id.name)
    }

    fn position(&self) -> ItemPosition {
        (self.value.clone(), self.key, self.meta.id.name.clone())
    }
}

/// The place of an item in a list: the value of the [`SortField`], empty for the order of all
/// lists; its sort key in the order of all lists; its document's name.
pub type ItemPosition = (String, ItemSortKey, String);

/// Number of items by status, without those that have none.
pub type StatusCounts = BTreeMap<Status, usize>;

/// Counts the children of a parent among documents that link to it.
pub(super) fn count_children(sources: &[Arc<DocumentMeta>], parent: Reference) -> StatusCounts {
    let mut counts = StatusCounts::new();
    for meta in sources {
        // A document may only mention the parent, and lists show no item without a reference.
        if let Some(item) = &meta.item
            && item.parent == Some(parent)
            && item.reference.is_some()
            && let Some(status) = item.status
        {
            *counts.entry(status).or_default() += 1;
        }
    }
    counts
}

/// Work on the children of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildProgress {
    /// Number of children that are done.
    pub done: usize,
    /// Number of children, without those that are dropped.
    pub total: usize,
}

impl ChildProgress {
    /// `None` without children.
    pub fn of_counts(
        counts: &StatusCounts,
        category: impl Fn(Status) -> StatusCategory,
    ) -> Option<Self> {
        let mut progress = Self { done: 0, total: 0 };
        for (status, number) in counts {
            match category(*status) {
                StatusCategory::Done => progress.done += number,
                StatusCategory::Open | StatusCategory::Active => {}
                StatusCategory::Dropped => continue,
            }
            progress.total += number;
        }
        (progress.total > 0).then_some(progress)
    }
}

/// A page of items in the order of the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemPage {
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// Number of items on all pages.
    pub total: usize,
    /// Number of items that meet all conditions except the status.
    pub by_status: StatusCounts,
    /// The position of the last item of this page; `None` on the last page.
    pub next: Option<ItemPosition>,
}

impl ItemPage {
    /// Selects a page from the metadata of all documents of the query's kind, for storages without
    /// an index in the order of lists.
    pub fn select(all: impl IntoIterator<Item = Arc<DocumentMeta>>, query: &ItemQuery) -> Self {
        let (filter, order) = (&query.filter, query.order);
        let (mut page, mut found) = (Self::default(), Vec::new());
        for meta in all {
            let Some(candidate) = Candidate::new(meta, filter) else { continue };
            let status = status_of(&candidate.meta);
            if let Some(status) = status {
                *page.by_status.entry(status).or_default() += 1;
            }
            if filter.status.is_some() && status != filter.status {
                continue;
            }
            page.total += 1;
            let candidate = candidate.with_value(order.field);
            let is_listed = query.after.as_ref().is_none_or(|(value, key, name)| {
                order.is_after(&candidate.place(), &(value, key, name))
            });
            if is_listed {
                found.push(candidate);
                // Bounds the memory, seldom enough to cost nothing.
                if found.len() == 2 * query.limit + PRUNING_ITEMS {
                    order.keep_first(&mut found, query.limit + 1);
                }
            }
        }
        // One more, to find out whether there are more.
        order.keep_first(&mut found, query.limit + 1);
        found.sort_unstable_by(|a, b| order.compare(&a.place(), &b.place()));
        let has_more = found.len() > query.limit;
        found.truncate(query.limit);
        page.next = found.last().filter(|_| has_more).map(Candidate::position);
        page.metadata = found.into_iter().map(|candidate| candidate.meta).collect();
        page
    }

    /// The position of a document in the order of all lists; `None` if it is not an item or has no
    /// reference.
    pub fn position(meta: &DocumentMeta) -> Option<ItemPosition> {
        let item = meta.item.as_ref().filter(|item| item.reference.is_some())?;
        Some((String::new(), backlog::sort_key(item), meta.id.name.clone()))
    }

    /// Returns bytes that sort like the position in the order of all lists. The name begins at
    /// [`NAME_OFFSET`].
    pub fn position_key((_, (priority, created, number), name): &ItemPosition) -> Vec<u8> {
        let mut bytes = vec![*priority];
        // With the sign bit inverted, times before 1970 are the oldest.
        bytes.extend((created.0 ^ i64::MIN).to_be_bytes());
        // Items of lists have a number.
        bytes.extend(number.unwrap_or_default().to_be_bytes());
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
