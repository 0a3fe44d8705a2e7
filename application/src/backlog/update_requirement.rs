//! `update_requirement`: updates the given fields of a requirement or moves it.

use async_trait::async_trait;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{
    ItemFields, PriorityArgument, RequirementRef, RequirementStatusArgument,
    RequirementTypeArgument, UserStoryRef,
};
use super::write_item::{update_fields, update_tool};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments};

pub(crate) struct UpdateRequirement;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    requirement: RequirementRef,
    title: Option<Title>,
    /// Markdown.
    description: Option<Description>,
    status: Option<RequirementStatusArgument>,
    /// 1 Critical to 4 Low.
    priority: Option<PriorityArgument>,
    #[serde(rename = "type")]
    requirement_type: Option<RequirementTypeArgument>,
    user_story: Option<UserStoryRef>,
    /// User name; empty to unassign.
    assignee: Option<Assignee>,
    /// Replaces all tags.
    tags: Option<Tags>,
    /// Expected current version.
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateRequirement {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_requirement",
            "Update a requirement",
            "Updates the given fields of a requirement; other fields stay unchanged. Returns the \
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
        let item = arguments.requirement.parse("requirement")?;
        let parent = arguments.user_story.map(|story| story.parse("user_story")).transpose()?;
        let fields = ItemFields {
            title: arguments.title,
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: arguments.priority,
            requirement_type: arguments.requirement_type.map(|argument| argument.0),
            assignee: arguments.assignee,
            tags: arguments.tags,
        };
        let version = arguments.if_version;
        update_fields(context, &call, spec, item, parent, fields.into(), version).await
    }
}
