//! The answer of `list_items`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::claims::ClaimView;
use crate::backlog::{Priority, Reference};
use crate::document::DocumentMeta;
use crate::records::fields::IMPORTED_FROM;
use crate::records::schema::RecordSchema;
use crate::timestamp::Timestamp;

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPage {
    pub items: Vec<ListedItem>,
    pub total: usize,
    /// Without the status filter.
    #[serde(default)]
    pub by_status: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

/// The keys of [`ListedItem`] that a caller may choose.
pub const LISTED_KEYS: [&str; 16] = [
    "title",
    "status",
    "priority",
    "rank",
    "type_name",
    "assignee_username",
    "parent",
    "tags",
    "updated_at",
    "version",
    "progress",
    "kind",
    "fields",
    "description",
    "links",
    "extra",
];

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListedItem {
    pub reference_id: String,
    pub kind: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub rank: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub type_name: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub assignee_username: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub parent: Option<String>,
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub updated_at: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub review_overdue: bool,
    /// For if_version.
    pub version: String,
    /// Of children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ProgressView")]
    pub progress: Option<ProgressView>,
    /// Values of the project's custom fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub fields: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub claim: Option<ClaimView>,
    // Only on request, like the following.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub description: Option<String>,
    /// Relations and their targets, without the parent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub links: BTreeMap<String, Vec<String>>,
    /// Keys that are neither fields nor links.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(skip)]
    pub extra: Map<String, Value>,
}

/// The stories of an epic that are done, or the criteria of a story that are met.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProgressView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub done: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub met: Option<usize>,
    /// Without those that are cancelled.
    pub total: usize,
}

impl ListedItem {
    pub fn of_record(meta: &DocumentMeta, schema: &RecordSchema) -> Option<Self> {
        let Some(item) = meta.item.as_deref() else { return Self::of_entity(meta, schema) };
        Some(Self {
            reference_id: item.display_name(&meta.id.name).into_owned(),
            kind: item.kind.name().to_owned(),
            title: item.title.clone(),
            status: item.status.map(|status| status.name().to_owned()),
            priority: item.priority.map(Priority::number),
            rank: item.rank.clone(),
            type_name: item.requirement_type.map(|one| one.name().into()),
            assignee_username: item.assignee.clone(),
            parent: item.parent.as_ref().map(Reference::to_string),
            tags: item.tags.clone(),
            updated_at: Some(item.updated_at.to_rfc3339()),
            review_overdue: false,
            version: meta.version.to_string(),
            progress: None,
            fields: schema.answers(item),
            ..Self::default()
        })
    }

    fn of_entity(meta: &DocumentMeta, schema: &RecordSchema) -> Option<Self> {
        let entity = meta.entity.as_deref()?;
        Some(Self {
            reference_id: entity.id.clone(),
            kind: entity.kind.clone(),
            title: entity.title.clone(),
            status: entity.status.clone(),
            tags: entity.tags.clone(),
            updated_at: entity.updated_at.map(Timestamp::to_rfc3339),
            version: meta.version.to_string(),
            fields: schema.answers(entity),
            ..Self::default()
        })
    }
}

impl ListedItem {
    /// The values of built-in fields that are not empty, without the title.
    pub fn built_in_values(&self) -> impl Iterator<Item = (&'static str, Value)> + use<> {
        let values = [
            ("status", json!(self.status)),
            ("priority", json!(self.priority)),
            ("type", json!(self.type_name)),
            ("assignee", json!(self.assignee_username)),
            ("rank", json!(self.rank)),
            ("tags", json!(self.tags)),
        ];
        let is_empty = |value: &Value| value.is_null() || *value == json!([]);
        values.into_iter().filter(move |(_, value)| !is_empty(value))
    }

    /// The values of custom fields and extra keys, without the source of an import.
    pub fn other_values(&self) -> impl Iterator<Item = (&String, &Value)> {
        let extra = self.extra.iter().filter(|(name, _)| *name != IMPORTED_FROM);
        self.fields.iter().chain(extra)
    }
}

impl ListPage {
    /// The number of items with this status.
    pub fn count(&self, status: &str) -> u64 {
        self.by_status.get(status).and_then(Value::as_u64).unwrap_or_default()
    }
}

impl ProgressView {
    /// The children that are done or met.
    pub fn count(&self) -> usize {
        self.done.or(self.met).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        let Self { done, met, total } = self;
        match (done, met) {
            (Some(done), _) => format!("Stories: {done} of {total} done"),
            (None, met) => format!("Criteria: {} of {total} met", met.unwrap_or_default()),
        }
    }
}
