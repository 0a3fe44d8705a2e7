//! `create_requirement`: creates a requirement of a user story.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{
    ItemFields, PriorityArgument, RequirementStatusArgument, RequirementTypeArgument, UserStoryRef,
};
use super::write_item::{ItemCreation, WriteOutcome};
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Change, LocalNames, WriteTool};

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

impl WriteTool for CreateRequirement {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_requirement",
            "Add a requirement to a story",
            "Creates a requirement of a user story: one thing that the product must do or be. \
             Several: apply_changes.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        names: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        let story = arguments.user_story.resolve("user_story", names)?;
        let fields = ItemFields {
            title: Some(arguments.title),
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: Some(arguments.priority),
            requirement_type: Some(arguments.requirement_type.0),
            assignee: arguments.assignee,
            tags: arguments.tags,
        };
        Ok(Box::new(ItemCreation {
            kind: ItemKind::Requirement,
            parent: Some(story),
            fields: fields.into(),
        }))
    }
}
