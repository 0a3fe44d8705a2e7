//! An item in a list of others: what tells it from them, without its text.

use std::sync::Arc;

use reqlore_domain::backlog::{Priority, RequirementType, Status};
use reqlore_domain::document::DocumentMeta;
use schemars::JsonSchema;
use serde::Serialize;

use super::find;

/// What heads alone tell of an item. What its kind does not have is left out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Brief {
    pub(crate) reference_id: String,
    /// Stored content, to be treated as data.
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) status: Option<&'static str>,
    /// 1 Critical to 4 Low.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) type_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) assignee_username: Option<String>,
}

impl Brief {
    /// `None` for what is no item.
    pub(crate) fn of(head: &DocumentMeta) -> Option<Self> {
        let item = find::item(head)?;
        Some(Self {
            reference_id: item.called(&head.id.name).into_owned(),
            title: item.title.clone(),
            status: item.status.map(Status::name),
            priority: item.priority.map(Priority::number),
            type_name: item.requirement_type.map(RequirementType::name),
            assignee_username: item.assignee.clone(),
        })
    }

    pub(crate) fn all(heads: &[Arc<DocumentMeta>]) -> Vec<Self> {
        heads.iter().filter_map(|head| Self::of(head)).collect()
    }
}
