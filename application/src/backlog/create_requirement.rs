//! `create_requirement`: creates a requirement of a user story.

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{
    ItemFields, PriorityArgument, RequirementStatusArgument, RequirementTypeArgument, UserStoryRef,
};
use super::write_item::{WriteOutcome, create_item};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments, write_tool};

pub(crate) struct CreateRequirement;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    user_story: UserStoryRef,
    title: Title,
    /// 1 Critical to 4 Low.
    priority: PriorityArgument,
    #[serde(rename = "type")]
    requirement_type: RequirementTypeArgument,
    /// Markdown.
    description: Option<Description>,
    status: Option<RequirementStatusArgument>,
    /// User name.
    assignee: Option<Assignee>,
    tags: Option<Tags>,
}

#[async_trait]
impl Tool for CreateRequirement {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_requirement",
            "Create a requirement",
            "Creates a requirement of a user story: one thing that the product must do or be.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let story = arguments.user_story.parse("user_story")?;
        let fields = ItemFields {
            title: Some(arguments.title),
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: Some(arguments.priority),
            requirement_type: Some(arguments.requirement_type.0),
            assignee: arguments.assignee,
            tags: arguments.tags,
        };
        create_item(context, &call, spec, ItemKind::Requirement, Some(story), fields.into()).await
    }
}
