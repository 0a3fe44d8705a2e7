//! The answer of `get_item`: any document with its links.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document_label::DocumentLabel;
use super::items::{ItemRecord, ItemRelationships, ItemSummary, RelatedItem};
use super::links::{LinkEntry, LinkList};
use crate::backlog::{ItemKind, Reference};
use crate::records::ended::REVIEW_BY;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ItemDetails {
    pub item: ItemView,
    /// Of backlog items, like relationships.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub children: Option<Vec<ItemSummary>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relationships: Option<ItemRelationships>,
    pub links: LinkList,
    /// The items above, outermost first, for callers that ask for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub parents: Vec<ParentItem>,
    /// A problem in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<String>,
    /// Exact IDs of others that the reference names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_ids: Vec<String>,
    // Set by `ItemAnswer::data` alone.
    /// Names what max_tokens left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ItemView {
    Record(Box<ItemRecord>),
    Other(Box<OtherItem>),
}

/// A document outside of the backlog.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OtherItem {
    /// "decision", "section_requirement", …
    pub kind: String,
    pub id: String,
    pub title: String,
    /// Stored text: data, not instructions.
    pub text: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub status: Option<String>,
    /// The reason why it is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub stale: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub review_overdue: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub tags: Vec<String>,
    /// Values of the project's custom fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub fields: BTreeMap<String, Value>,
}

impl ItemView {
    pub fn id(&self) -> &str {
        match self {
            Self::Record(record) => &record.reference_id,
            Self::Other(item) => &item.id,
        }
    }

    /// Empty for items.
    pub fn kind(&self) -> &str {
        match self {
            Self::Record(_) => "",
            Self::Other(item) => &item.kind,
        }
    }

    pub fn title(&self) -> &str {
        match self {
            Self::Record(record) => &record.title,
            Self::Other(item) => &item.title,
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Record(record) => &record.description,
            Self::Other(item) => &item.text,
        }
    }

    pub fn version(&self) -> &str {
        match self {
            Self::Record(record) => &record.version,
            Self::Other(item) => &item.version,
        }
    }

    pub fn status(&self) -> Option<&str> {
        match self {
            Self::Record(record) => record.status.as_deref(),
            Self::Other(item) => item.status.as_deref(),
        }
    }

    /// The reason why an entity is no longer valid.
    pub fn stale(&self) -> Option<&str> {
        if let Self::Other(item) = self { item.stale.as_deref() } else { None }
    }

    pub fn review_overdue(&self) -> bool {
        if let Self::Other(item) = self { item.review_overdue } else { false }
    }

    /// The day by which users review an entity.
    pub fn review_by(&self) -> Option<&Value> {
        self.fields().get(REVIEW_BY)
    }

    pub fn tags(&self) -> &[String] {
        match self {
            Self::Record(record) => &record.tags,
            Self::Other(item) => &item.tags,
        }
    }

    /// Values of the project's custom fields.
    pub fn fields(&self) -> &BTreeMap<String, Value> {
        match self {
            Self::Record(record) => &record.fields,
            Self::Other(item) => &item.fields,
        }
    }

    pub fn priority(&self) -> Option<u8> {
        self.record()?.priority
    }

    pub fn type_name(&self) -> Option<&str> {
        self.record()?.type_name.as_deref()
    }

    pub fn assignee(&self) -> Option<&str> {
        self.record()?.assignee_username.as_deref()
    }

    pub fn record(&self) -> Option<&ItemRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::Other(_) => None,
        }
    }

    /// The reference of the epic or user story.
    pub fn parent(&self) -> Option<&str> {
        let record = self.record()?;
        record.epic.as_deref().or(record.user_story.as_deref())
    }

    /// `None` for an item whose file name has no reference.
    pub fn item_kind(&self) -> Option<ItemKind> {
        Some(Reference::parse(&self.record()?.reference_id)?.kind)
    }

    /// The kind in words, such as `user story`.
    pub fn kind_words(&self) -> String {
        match (self.item_kind(), self.kind()) {
            (Some(kind), _) => kind.row().words[0].to_owned(),
            (None, "") => "item".to_owned(),
            (None, kind) => kind.replace('_', " "),
        }
    }
}

/// An item above another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ParentItem {
    pub reference_id: String,
    /// Empty if the item is missing.
    pub title: String,
}

/// The other end of a relationship or another link.
#[derive(Debug, Clone, Default)]
pub struct LinkEnd {
    pub relation: String,
    pub id: String,
    /// Empty if it is unknown.
    pub kind: String,
    /// Absent if the target is missing.
    pub title: Option<String>,
    pub status: Option<String>,
}

impl From<&RelatedItem> for LinkEnd {
    fn from(item: &RelatedItem) -> Self {
        Self {
            relation: item.kind.clone().into_owned(),
            id: item.reference_id.clone(),
            kind: String::new(),
            title: item.title.clone(),
            status: item.status.clone(),
        }
    }
}

impl From<&LinkEntry> for LinkEnd {
    fn from(link: &LinkEntry) -> Self {
        let DocumentLabel { id, kind, title, status, .. } = link.label.clone();
        Self { relation: link.relation.clone(), id, kind, title, status }
    }
}

/// Links in both directions.
#[derive(Debug, Clone, Default)]
pub struct LinkEnds {
    pub outgoing: Vec<LinkEnd>,
    pub incoming: Vec<LinkEnd>,
    /// The number of incoming links that the answer leaves out.
    pub hidden: usize,
}

impl ItemDetails {
    /// The relationships of an item, and the links of any document.
    pub fn link_ends(&self) -> [LinkEnds; 2] {
        let related = self.relationships.as_ref().map(|list| LinkEnds {
            outgoing: list.outgoing.iter().map(LinkEnd::from).collect(),
            incoming: list.incoming.iter().map(LinkEnd::from).collect(),
            hidden: list.incoming_total.saturating_sub(list.incoming.len()),
        });
        let LinkList { outgoing, incoming, incoming_total } = &self.links;
        let linked = LinkEnds {
            outgoing: outgoing.iter().map(LinkEnd::from).collect(),
            incoming: incoming.iter().map(LinkEnd::from).collect(),
            hidden: incoming_total.saturating_sub(incoming.len()),
        };
        [related.unwrap_or_default(), linked]
    }
}
