//! `create_user_story`: creates a user story of an epic.

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{EpicRef, ItemFields, PriorityArgument, WorkStatusArgument};
use super::write_item::{WriteOutcome, create_item};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments, write_tool};

pub(crate) struct CreateUserStory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: EpicRef,
    title: Title,
    /// 1 Critical to 4 Low.
    priority: PriorityArgument,
    /// Markdown.
    description: Option<Description>,
    status: Option<WorkStatusArgument>,
    /// User name.
    assignee: Option<Assignee>,
    tags: Option<Tags>,
}

#[async_trait]
impl Tool for CreateUserStory {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_user_story",
            "Create a user story",
            "Creates a user story of an epic: a user's need and its reason.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let epic = arguments.epic.parse("epic")?;
        let fields = ItemFields {
            title: Some(arguments.title),
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: Some(arguments.priority),
            assignee: arguments.assignee,
            tags: arguments.tags,
            ..ItemFields::default()
        };
        create_item(context, &call, spec, ItemKind::UserStory, Some(epic), fields.into()).await
    }
}
