//! `update_user_story`: updates the given fields of a user story or moves it.

use async_trait::async_trait;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{EpicRef, ItemFields, PriorityArgument, UserStoryRef, WorkStatusArgument};
use super::write_item::{update_fields, update_tool};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments};

pub(crate) struct UpdateUserStory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    user_story: UserStoryRef,
    title: Option<Title>,
    /// Markdown.
    description: Option<Description>,
    status: Option<WorkStatusArgument>,
    /// 1 Critical to 4 Low.
    priority: Option<PriorityArgument>,
    epic: Option<EpicRef>,
    /// User name; empty to unassign.
    assignee: Option<Assignee>,
    /// Replaces all tags.
    tags: Option<Tags>,
    /// Expected current version.
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateUserStory {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_user_story",
            "Update a user story",
            "Updates the given fields of a user story; other fields stay unchanged. Returns the \
             record and its new version.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let item = arguments.user_story.parse("user_story")?;
        let parent = arguments.epic.map(|epic| epic.parse("epic")).transpose()?;
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
        update_fields(context, &call, spec, item, parent, fields.into(), version).await
    }
}
