//! Lists of records: the query of a list, and the page that answers it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

pub use super::record_filter::{AssigneeFilter, DetailFilter, RecordFilter, custom_values};
use super::record_filter::{field_keys, status_of};
use crate::backlog::{self, ItemKind, ItemSortKey, Reference, Status};
use crate::bounded_types::named_enum;
use crate::document::{DocumentKind, DocumentMeta};
use crate::knowledge::entity_words::{entity_words, exact_word, similar_prefix};
use crate::name_form::fold_name;
use crate::records::schema::StatusCategory;
use crate::search::truncate_text;
use crate::timestamp::Timestamp;

/// Maximum number of records or documents in one page.
pub const MAX_PAGE_ITEMS: usize = 1_000;

/// Number of records beyond two pages after which a selection forgets those of later pages.
const PRUNING_ITEMS: usize = 1_000;

/// The records of one kind of documents that meet all conditions, from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordQuery {
    pub kind: DocumentKind,
    pub selection: RecordSelection,
    pub filter: RecordFilter,
    pub order: RecordOrder,
    /// The [`RecordPage::next`] of the previous page, which had the same order.
    pub after: Option<RecordPosition>,
    /// Maximum number of records in the page, at most [`MAX_PAGE_ITEMS`]; 0 for the counts only.
    pub limit: usize,
    pub counts: RecordCounts,
}

impl RecordQuery {
    /// The first page of all items of a kind, in the order of all lists.
    pub fn of_items(kind: ItemKind, limit: usize) -> Self {
        Self::select(DocumentKind::Item(kind), RecordSelection::Listed, limit)
    }

    /// The first page of all entities of a kind or of all kinds, sorted by ID.
    pub fn of_entities(kind: Option<String>, limit: usize) -> Self {
        let filter = RecordFilter { entity_kind: kind, ..RecordFilter::default() };
        Self { filter, ..Self::select(DocumentKind::Entity, RecordSelection::Listed, limit) }
    }

    /// The first records of a selection.
    pub fn select(kind: DocumentKind, selection: RecordSelection, limit: usize) -> Self {
        let (filter, order) = (RecordFilter::default(), RecordOrder::default());
        Self { kind, selection, filter, order, after: None, limit, counts: RecordCounts::Status }
    }

    /// Counts without records.
    #[must_use]
    pub fn count_by(self, counts: RecordCounts) -> Self {
        Self { counts, limit: 0, ..self }
    }

    /// True if the query has no condition except the kind of entities, and no position or order of
    /// its own.
    pub fn is_plain(&self) -> bool {
        let RecordFilter { entity_kind, .. } = &self.filter;
        let plain = RecordFilter { entity_kind: entity_kind.clone(), ..RecordFilter::default() };
        self.filter == plain && self.after.is_none() && self.order == RecordOrder::default()
    }

    /// The order of the list. A field that the filter compares has one value, which sorts nothing.
    pub fn list_order(&self) -> &RecordOrder {
        match &self.order.field {
            OrderField::Custom(order)
                if self.filter.fields.iter().any(|(name, _)| *name == order.name) =>
            {
                &RecordOrder::ALL_LISTS
            }
            _ => &self.order,
        }
    }

    /// The position of a record in the list; `None` for a document that no list shows.
    pub fn position(&self, meta: &DocumentMeta) -> Option<RecordPosition> {
        let (_, key, id, name) = list_position(meta)?;
        Some((self.list_order().value(meta), key, id, name))
    }

    /// The [`position_key`] of all items of the page and the pages after it that have the filter's
    /// priority, in the order of all lists.
    pub fn position_keys(&self) -> Range<Vec<u8>> {
        self.filter.position_keys(self.after.as_ref().map(position_key))
    }

    /// The text by which a document is sorted first; `None` if it is not in the selection.
    fn sort_value(&self, meta: &DocumentMeta) -> Option<String> {
        let entity = meta.entity.as_deref().filter(|_| self.kind == DocumentKind::Entity);
        match &self.selection {
            RecordSelection::Listed => {
                rank(meta)?;
                Some(self.list_order().value(meta))
            }
            RecordSelection::WithDiagnostic => meta.diagnostic.as_ref().map(|_| String::new()),
            RecordSelection::Untagged => {
                Some(entity.filter(|entity| entity.tags.is_empty())?.kind.clone())
            }
            RecordSelection::Spelled(text) => {
                entity_words(meta).contains(&exact_word(text)).then(String::new)
            }
            RecordSelection::Similar(text) => {
                let prefix = similar_prefix(text)?;
                entity_words(meta).into_iter().find(|word| word.starts_with(&prefix))
            }
        }
    }
}

/// The documents that a list is made from. Only [`Self::Listed`] has an order and pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordSelection {
    /// The items that have a reference, or the entities.
    Listed,
    /// Documents of any kind with a diagnostic, sorted by name.
    WithDiagnostic,
    /// Entities without tags, sorted by kind and name.
    Untagged,
    /// Entities whose ID or name differs from the text only in its case, sorted by name. The total
    /// is that of the page.
    Spelled(String),
    /// Entities with an ID of which a part begins with the last part of the text, in the order of
    /// these parts. The total is that of the page.
    Similar(String),
}

/// The values of which a page of [`RecordSelection::Listed`] has the number of records, without the
/// condition on the status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordCounts {
    #[default]
    Status,
    /// Of entities.
    Kind,
    /// Of entities.
    Tag,
    /// The status of items, by their parent.
    ChildStatus,
}

/// The order of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecordOrder {
    pub field: OrderField,
    pub is_reversed: bool,
}

/// The value that a list is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum OrderField {
    Builtin(SortField),
    Custom(FieldOrder),
}

impl Default for OrderField {
    fn default() -> Self {
        Self::Builtin(SortField::default())
    }
}

/// The order by a custom field or the status: the choices, then other values by their key, then
/// records without a value. A reversed list reverses the choices and the other values, but
/// not these three groups. Records with the same value keep the default order of lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FieldOrder {
    pub name: String,
    /// The `value_key` of each choice; empty for a field that is not a choice.
    pub choices: Vec<String>,
}

impl FieldOrder {
    /// The name of the status. No custom field can have it.
    pub const STATUS: &'static str = super::record_filter::STATUS;
    /// The first byte of the [`Self::sort_text`] of choices, of other values, and without a value.
    pub const CLASSES: [char; 3] = ['0', '1', '2'];

    /// Text that sorts like the value with this key.
    pub fn sort_text(&self, key: Option<&str>) -> String {
        let [choice, other, none] = Self::CLASSES;
        let Some(key) = key else { return none.into() };
        match self.choices.iter().position(|one| one == key) {
            Some(number) => format!("{choice}{number:05}"),
            None => format!("{other}{key}"),
        }
    }
}

named_enum! {
    /// A value besides the status that every list can be sorted by. Records with the same value
    /// have the order of all lists.
    #[derive(Default, Serialize)]
    SortField {
        /// The order of all lists: by priority, then by rank, then the oldest first.
        #[default]
        Priority = "priority",
        /// The last change first.
        Updated = "updated",
        /// By number.
        Reference = "reference",
        /// In lower case.
        Title = "title",
        /// In lower case, unassigned items last.
        Assignee = "assignee",
    }
}

impl RecordOrder {
    /// The order of all lists.
    pub const ALL_LISTS: Self =
        Self { field: OrderField::Builtin(SortField::Priority), is_reversed: false };

    /// Compares the places of two records: their sort texts, then their positions in the order of
    /// all lists.
    pub fn compare<P: Ord>(&self, a: &(&str, P), b: &(&str, P)) -> Ordering {
        let reverse = |order: Ordering| if self.is_reversed { order.reverse() } else { order };
        match self.field {
            OrderField::Builtin(_) => reverse(a.cmp(b)),
            OrderField::Custom(_) => {
                let class = |text: &str| text.as_bytes().first().copied();
                let values = class(a.0).cmp(&class(b.0)).then_with(|| reverse(a.0.cmp(b.0)));
                values.then_with(|| a.1.cmp(&b.1))
            }
        }
    }

    /// The text by which a record is sorted first; empty for the order of all lists.
    fn value(&self, meta: &DocumentMeta) -> String {
        match &self.field {
            OrderField::Builtin(field) => field.value(meta),
            OrderField::Custom(order) => {
                order.sort_text(field_keys(meta, &order.name).next().as_deref())
            }
        }
    }

    /// Removes all but the first candidates, without sorting. Returns the next one.
    fn keep_first(&self, found: &mut Vec<Candidate>, count: usize) -> Option<Candidate> {
        if found.len() <= count {
            return None;
        }
        found.select_nth_unstable_by(count, |a, b| self.compare(&a.place(), &b.place()));
        found.drain(count..).next()
    }
}

impl SortField {
    /// The text by which a list sorts a document.
    pub fn value(self, meta: &DocumentMeta) -> String {
        let Some(item) = meta.item.as_deref() else {
            let Some(entity) = &meta.entity else { return String::new() };
            return match self {
                Self::Updated => updated_rank(entity.updated_at),
                Self::Title => fold_name(&entity.title),
                Self::Priority | Self::Reference | Self::Assignee => String::new(),
            };
        };
        match self {
            Self::Priority => String::new(),
            Self::Updated => updated_rank(Some(item.updated_at)),
            Self::Reference => {
                item.reference.map(|one| format!("{:010}", one.number)).unwrap_or_default()
            }
            Self::Title => fold_name(&item.title),
            // After all names.
            Self::Assignee => {
                item.assignee.as_ref().map_or("\u{10ffff}".to_owned(), |one| fold_name(one))
            }
        }
    }
}

/// Text that sorts the last change first, and documents without a time last.
fn updated_rank(updated_at: Option<Timestamp>) -> String {
    format!("{:016x}", updated_at.map_or(u64::MAX, |time| !(time.0 ^ i64::MIN).cast_unsigned()))
}

/// The place of a record in a list: the text by which it is sorted first, empty in the order of all
/// lists; the place of an item in that order, the same for all entities; the beginning of the ID of
/// an entity, empty for an item; its document's name.
pub type RecordPosition = (String, ItemSortKey, String, String);

/// Maximum length of the part of an ID that lists sort by. Equal parts are sorted by document name.
const MAX_SORTED_ID_BYTES: usize = 64;

/// The place in the order of all lists; `None` for a document that no list shows.
fn rank(meta: &DocumentMeta) -> Option<(ItemSortKey, &str)> {
    if let Some(item) = &meta.item {
        return item.reference.map(|_| (backlog::sort_key(item), ""));
    }
    let entity = meta.entity.as_deref().filter(|_| meta.id.kind == DocumentKind::Entity)?;
    // Indexes limit the length of a position.
    Some((ItemSortKey::default(), truncate_text(&entity.id, MAX_SORTED_ID_BYTES)))
}

/// The position in the order of all lists; `None` for a document that no list shows.
pub fn list_position(meta: &DocumentMeta) -> Option<RecordPosition> {
    let (key, id) = rank(meta)?;
    Some((String::new(), key, id.to_owned(), meta.id.name.clone()))
}

/// Returns bytes that sort like the position of a record in the order of all lists.
pub fn position_key((_, (priority, rank), id, name): &RecordPosition) -> Vec<u8> {
    // No part but the priority has a zero byte.
    let id = if id.is_empty() { String::new() } else { format!("{id}\0") };
    [&[*priority], rank.as_bytes(), b"\0", id.as_bytes(), name.as_bytes()].concat()
}

/// The name of the document in a [`position_key`].
pub fn position_name(key: &[u8]) -> Option<&str> {
    let end = key.iter().rposition(|byte| *byte == 0)?;
    str::from_utf8(&key[end + 1..]).ok()
}

/// A record that a list may show.
struct Candidate {
    value: String,
    key: ItemSortKey,
    id: String,
    meta: Arc<DocumentMeta>,
}

impl Candidate {
    fn place(&self) -> (&str, (&ItemSortKey, &str, &str)) {
        (&self.value, (&self.key, &self.id, &self.meta.id.name))
    }
}

/// Number of items by status, without those that have none.
pub type StatusCounts = BTreeMap<Status, usize>;

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

/// A page of records in the order of the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordPage {
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// Number of records on all pages.
    pub total: usize,
    pub by_status: StatusCounts,
    /// By the status of entities, their kind or tag.
    pub by_text: BTreeMap<String, usize>,
    pub by_parent: BTreeMap<Reference, StatusCounts>,
    /// The position of the last record of this page; `None` on the last page.
    pub next: Option<RecordPosition>,
    /// Files that look like documents of the kind but are not read.
    pub unread: Vec<UnreadFile>,
}

impl RecordPage {
    /// Selects a page from the metadata of all documents of the query's kind, sorted by name, for
    /// storages without an index in the order of lists.
    pub fn select(all: impl IntoIterator<Item = Arc<DocumentMeta>>, query: &RecordQuery) -> Self {
        let (filter, order) = (&query.filter, query.list_order());
        let (mut page, mut found) = (Self::default(), Vec::new());
        // The first candidate that is known to be after the page.
        let mut end: Option<Candidate> = None;
        for meta in all {
            if !filter.matches_any_status(&meta) {
                continue;
            }
            let Some(value) = query.sort_value(&meta) else { continue };
            if query.selection == RecordSelection::Listed {
                page.count(&meta, query.counts);
            }
            if !filter.has_status(&meta) {
                continue;
            }
            page.total += 1;
            // Other selections are sorted by name.
            let rank = rank(&meta).filter(|_| query.selection == RecordSelection::Listed);
            let (key, id) = rank.map(|(key, id)| (key, id.to_owned())).unwrap_or_default();
            let candidate = Candidate { value, key, id, meta };
            let is_after_start = query.after.as_ref().is_none_or(|(value, key, id, name)| {
                order.compare(&candidate.place(), &(value, (key, id, name))).is_gt()
            });
            let is_before_end = end
                .as_ref()
                .is_none_or(|end| order.compare(&candidate.place(), &end.place()).is_lt());
            if is_after_start && is_before_end {
                found.push(candidate);
                // Bounds the memory, seldom enough to cost nothing.
                if found.len() == 2 * query.limit + PRUNING_ITEMS {
                    end = order.keep_first(&mut found, query.limit + 1);
                }
            }
        }
        // One more, to find out whether there are more.
        order.keep_first(&mut found, query.limit + 1);
        found.sort_unstable_by(|a, b| order.compare(&a.place(), &b.place()));
        let has_more = found.len() > query.limit;
        found.truncate(query.limit);
        page.metadata = found.into_iter().map(|candidate| candidate.meta).collect();
        page.finish(query, has_more)
    }

    /// Completes the page of the query's records.
    #[must_use]
    pub fn finish(mut self, query: &RecordQuery, has_more: bool) -> Self {
        match query.selection {
            RecordSelection::Listed => {
                let last = self.metadata.last().filter(|_| has_more);
                self.next = last.and_then(|last| query.position(last));
            }
            RecordSelection::WithDiagnostic | RecordSelection::Untagged => {}
            RecordSelection::Spelled(_) | RecordSelection::Similar(_) => {
                self.total = self.metadata.len();
            }
        }
        self
    }

    fn count(&mut self, meta: &DocumentMeta, counts: RecordCounts) {
        let entity = meta.entity.as_deref();
        let texts = match counts {
            RecordCounts::Status => {
                if let Some(status) = status_of(meta) {
                    *self.by_status.entry(status).or_default() += 1;
                }
                entity.and_then(|entity| entity.status.as_ref()).map(std::slice::from_ref)
            }
            RecordCounts::Kind => entity.map(|entity| std::slice::from_ref(&entity.kind)),
            RecordCounts::Tag => entity.map(|entity| &*entity.tags),
            RecordCounts::ChildStatus => {
                let parent = meta.item.as_ref().and_then(|item| item.parent);
                if let (Some(parent), Some(status)) = (parent, status_of(meta)) {
                    let by_status = self.by_parent.entry(parent).or_default();
                    *by_status.entry(status).or_default() += 1;
                }
                None
            }
        };
        for text in texts.unwrap_or_default() {
            *self.by_text.entry(text.clone()).or_default() += 1;
        }
    }
}

/// A file that is not read as a document, though its name or its folder suggests one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    /// Relative to the project, printable.
    pub path: String,
    /// The reference that the file's name begins with.
    pub reference: Option<Reference>,
    /// The problem and how to fix it.
    pub reason: String,
}

impl UnreadFile {
    /// True if this is the file of the document with this name, or a folder that may contain it.
    pub fn may_contain(&self, name: &str) -> bool {
        let stem = self.path.strip_suffix(".md").unwrap_or(&self.path);
        self.path.ends_with('/')
            || stem.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Document, DocumentId};

    #[test]
    fn pages_of_many_records_are_those_of_a_sorted_list() {
        const RECORDS: usize = 3 * PRUNING_ITEMS;
        let mut all = Vec::new();
        for number in 0..RECORDS {
            // The names have another order than the IDs.
            let text = format!("---\nid: dec-{:04}\n---\n", number * 7 % RECORDS);
            let id = DocumentId::entity(format!("{number:04}"));
            let document = Document::new(id, text.into());
            all.push(Arc::new(DocumentMeta::from_document(&document, Timestamp::default())));
        }
        for is_reversed in [false, true] {
            let mut query = RecordQuery::of_entities(None, 100);
            query.order.is_reversed = is_reversed;
            let mut ids = Vec::new();
            loop {
                let page = RecordPage::select(all.iter().cloned(), &query);
                ids.extend(page.metadata.iter().map(|meta| meta.reference().unwrap().into_owned()));
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            let mut expected: Vec<_> =
                (0..RECORDS).map(|number| format!("dec-{number:04}")).collect();
            if is_reversed {
                expected.reverse();
            }
            assert_eq!(ids, expected);
        }
    }
}
