//! Items as answers name them: full records, summaries, and relations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::claims::ClaimView;
use super::entry_line::EntryLine;
use super::links::{MAX_INCOMING, MISSING};
use crate::backlog::{ItemKind, ItemMeta, Priority};
use crate::document::{DocumentMeta, Version};
use crate::project_key::ProjectKey;
use crate::records::schema::RecordSchema;
use crate::untrusted_text::encode_line;

const UNKNOWN_CREATOR: &str = "unknown";

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ItemRecord {
    pub project: String,
    /// Permanent ID.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub uid: Option<String>,
    pub reference_id: String,
    /// For if_version.
    pub version: String,
    pub title: String,
    /// Stored text: data, not instructions.
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_name: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_story: Option<String>,
    pub creator_username: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub assignee_username: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub tags: Vec<String>,
    /// Values of the project's custom fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub fields: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub claim: Option<ClaimView>,
}

impl ItemRecord {
    pub fn new(
        project: &ProjectKey,
        item: &ItemMeta,
        name: &str,
        version: Version,
        description: &str,
        schema: &RecordSchema,
    ) -> Self {
        let parent = item.parent.map(|parent| parent.to_string());
        let (epic, user_story) =
            if item.kind == ItemKind::UserStory { (parent, None) } else { (None, parent) };
        Self {
            project: project.to_string(),
            uid: item.uid.clone(),
            reference_id: item.display_name(name).into_owned(),
            version: version.to_string(),
            title: item.title.clone(),
            // A file with CRLF line ends has the same description as any other.
            description: description.replace("\r\n", "\n"),
            status: status_name(item),
            priority: item.priority.map(Priority::number),
            rank: item.rank.clone(),
            type_name: item.requirement_type.map(|one| one.name().into()),
            epic,
            user_story,
            creator_username: item.creator.clone().unwrap_or_else(|| UNKNOWN_CREATOR.to_owned()),
            assignee_username: item.assignee.clone(),
            created_at: item.created_at.to_rfc3339(),
            updated_at: item.updated_at.to_rfc3339(),
            tags: item.tags.clone(),
            fields: schema.answers(item),
            claim: None,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ItemSummary {
    pub reference_id: String,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_name: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee_username: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The whole text of an acceptance criterion, if it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Values of the project's custom fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub fields: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub claim: Option<ClaimView>,
}

impl ItemSummary {
    /// `None` for a document that is not an item.
    pub fn from_meta(meta: &DocumentMeta, schema: &RecordSchema) -> Option<Self> {
        let item = meta.item.as_deref()?;
        Some(Self {
            reference_id: item.display_name(&meta.id.name).into_owned(),
            title: item.title.clone(),
            status: status_name(item),
            priority: item.priority.map(Priority::number),
            type_name: item.requirement_type.map(|one| one.name().into()),
            assignee_username: item.assignee.clone(),
            tags: item.tags.clone(),
            description: None,
            fields: schema.answers(item),
            claim: None,
        })
    }

    pub fn from_metas(metas: &[Arc<DocumentMeta>], schema: &RecordSchema) -> Vec<Self> {
        metas.iter().filter_map(|meta| Self::from_meta(meta, schema)).collect()
    }

    /// The line of the item; that of a criterion has its whole text, with indented further lines.
    pub fn line(&self, has: impl Fn(&str) -> bool) -> String {
        let line = EntryLine {
            id: &self.reference_id,
            status: self.status.as_deref(),
            priority: self.priority,
            type_name: self.type_name.as_deref(),
            title: Some(&self.title),
            tags: &self.tags,
            assignee: self.assignee_username.as_deref(),
            details: self.claim.iter().map(ClaimView::text).collect(),
            ..EntryLine::default()
        };
        let mut line = line.keep(&has);
        let mut rest = "";
        if let Some(text) = self.description.as_deref().filter(|_| has("description")) {
            let text = text.trim();
            let (first, further) = text.split_once('\n').unwrap_or((text, ""));
            let title = self.title.strip_suffix('…').unwrap_or(&self.title);
            if !first.is_empty() && first.starts_with(title) {
                (line.title, rest) = (Some(first), further);
            } else {
                rest = text;
            }
        }
        let mut line = line.render();
        for further in rest.lines().filter(|line| !line.trim().is_empty()) {
            line.extend(["\n    ", &encode_line(further.trim_end())]);
        }
        line
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ItemRelationships {
    pub outgoing: Vec<RelatedItem>,
    /// At most 50.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub incoming: Vec<RelatedItem>,
    pub incoming_total: usize,
}

impl ItemRelationships {
    /// Shortens the list for a view of the item; `…/relationships` has all.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.incoming.truncate(MAX_INCOMING);
        self
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RelatedItem {
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    pub reference_id: String,
    /// Absent if the target is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl RelatedItem {
    pub fn new(kind: &'static str, reference_id: String, item: Option<&ItemMeta>) -> Self {
        let title = item.map(|item| item.title.clone());
        let status = item.and_then(status_name);
        let tags = item.map(|item| item.tags.clone()).unwrap_or_default();
        Self { kind: kind.into(), reference_id, title, status, tags }
    }

    /// The line with the relation in the direction of the link.
    pub fn line(&self, relation: &str) -> String {
        let line = EntryLine {
            id: &self.reference_id,
            status: self.status.as_deref(),
            title: Some(self.title.as_deref().unwrap_or(MISSING)),
            tags: &self.tags,
            ..EntryLine::default()
        };
        format!("{relation} {}", line.render())
    }
}

fn status_name(item: &ItemMeta) -> Option<String> {
    item.status.map(|status| status.name().to_owned())
}
