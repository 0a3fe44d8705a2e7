//! The conditions of a list of records.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;

use crate::backlog::{Priority, Reference, RequirementType, Status};
use crate::document::DocumentMeta;
use crate::name_form::fold_name;
use crate::records::tombstone::RecordRef;
use crate::records::values::value_key;
use crate::timestamp::Timestamp;

/// The name of the status in sort orders. No custom field can have it.
pub(super) const STATUS: &str = "status";

/// Conditions that a record must meet all. `None` accepts every value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFilter {
    pub status: Option<Status>,
    pub priority: Option<Priority>,
    pub requirement_type: Option<RequirementType>,
    /// The parent must be one of these; an empty set accepts no item.
    pub parents: Option<BTreeSet<Reference>>,
    pub entity_kind: Option<String>,
    /// The status of entities, in lower case.
    pub entity_status: Option<String>,
    /// Names of custom fields, and the [`value_key`] of a value that the record must have.
    pub fields: Vec<(String, String)>,
    pub details: DetailFilter,
}

impl RecordFilter {
    pub fn has_status(&self, meta: &DocumentMeta) -> bool {
        let entity_status = || meta.entity.as_ref()?.status.as_deref().map(fold_name);
        (self.status.is_none() || status_of(meta) == self.status)
            && (self.entity_status.is_none() || entity_status() == self.entity_status)
    }

    /// All conditions except the status.
    pub fn matches_any_status(&self, meta: &DocumentMeta) -> bool {
        let item = meta.item.as_deref();
        let priority = || item?.priority;
        let requirement_type = || item?.requirement_type;
        if self.priority.is_some() && priority() != self.priority
            || self.requirement_type.is_some() && requirement_type() != self.requirement_type
        {
            return false;
        }
        let is_child = |parents: &BTreeSet<_>| {
            item.and_then(|item| item.parent).is_some_and(|parent| parents.contains(&parent))
        };
        let is_of_kind =
            |kind: &String| meta.entity.as_ref().is_some_and(|entity| entity.kind == *kind);
        let has_details = || ListedTexts::of(meta).is_some_and(|one| self.details.matches(&one));
        let mut fields = self.fields.iter();
        self.parents.as_ref().is_none_or(is_child)
            && self.entity_kind.as_ref().is_none_or(is_of_kind)
            && fields.all(|(name, key)| field_keys(meta, name).any(|one| one == *key))
            // Most lists need no texts.
            && (self.details == DetailFilter::default() || has_details())
    }

    /// The position keys of all items after a position that have the filter's priority.
    pub fn position_keys(&self, after: Option<Vec<u8>>) -> Range<Vec<u8>> {
        // The position begins with the priority, so a priority is one range.
        let priority = self.priority.map(Priority::number);
        // The next position in the order of bytes.
        let first = after.map(|after| [&after[..], b"\0"].concat()).unwrap_or_default();
        let start = first.max(priority.map(|number| vec![number]).unwrap_or_default());
        // No position begins with two such bytes: the second is that of a rank.
        let end = priority.map_or(vec![u8::MAX; 64], |number| vec![number + 1]);
        start..end
    }
}

pub(super) fn status_of(meta: &DocumentMeta) -> Option<Status> {
    meta.item.as_ref().and_then(|item| item.status)
}

/// The custom values of a record as they are written, with the names of their fields.
pub fn custom_values(meta: &DocumentMeta) -> impl Iterator<Item = (&str, &str)> {
    RecordRef::of_meta(meta).into_iter().flat_map(|record| record.custom().listed())
}

/// The keys of the values of a custom field or the status. Lists sort by the first one.
pub(super) fn field_keys(meta: &DocumentMeta, name: &str) -> impl Iterator<Item = String> {
    let item = || Some(meta.item.as_ref()?.status.as_ref()?.name());
    let entity = || meta.entity.as_ref()?.status.as_deref();
    let status = if name == STATUS { item().or_else(entity) } else { None };
    let custom = custom_values(meta).filter(move |(field, _)| *field == name);
    status.into_iter().chain(custom.map(|(_, text)| text)).map(value_key)
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
struct ListedTexts<'a> {
    id: Cow<'a, str>,
    title: &'a str,
    assignee: Option<&'a str>,
    tags: &'a [String],
    updated_at: Option<Timestamp>,
}

impl<'a> ListedTexts<'a> {
    fn of(meta: &'a DocumentMeta) -> Option<Self> {
        let Some(item) = meta.item.as_deref() else {
            let entity = meta.entity.as_deref()?;
            return Some(Self {
                id: entity.id.as_str().into(),
                title: &entity.title,
                assignee: None,
                tags: &entity.tags,
                updated_at: entity.updated_at,
            });
        };
        Some(Self {
            id: item.display_name(&meta.id.name),
            title: &item.title,
            assignee: item.assignee.as_deref(),
            tags: &item.tags,
            updated_at: Some(item.updated_at),
        })
    }
}

impl DetailFilter {
    fn matches(&self, listed: &ListedTexts<'_>) -> bool {
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
