//! `update_epic`: updates the given fields of an epic.

use async_trait::async_trait;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{EpicRef, ItemFields, PriorityArgument, WorkStatusArgument};
use super::write_item::{update_fields, update_tool};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments};

pub(crate) struct UpdateEpic;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: EpicRef,
    title: Option<Title>,
    /// Markdown.
    description: Option<Description>,
    status: Option<WorkStatusArgument>,
    /// 1 Critical to 4 Low.
    priority: Option<PriorityArgument>,
    /// User name; empty to unassign.
    assignee: Option<Assignee>,
    /// Replaces all tags.
    tags: Option<Tags>,
    /// Expected current version.
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateEpic {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_epic",
            "Update an epic",
            "Updates the given fields of an epic; other fields stay unchanged. Returns the record \
             and its new version.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let item = arguments.epic.parse("epic")?;
        let fields = ItemFields {
            title: arguments.title,
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: arguments.priority,
            assignee: arguments.assignee,
            tags: arguments.tags,
            ..ItemFields::default()
        };
        let version = arguments.if_version;
        update_fields(context, &call, spec, item, None, fields.into(), version).await
    }
}
