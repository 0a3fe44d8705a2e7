//! `update_requirement`: updates the given fields of a requirement or moves it.

use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{
    ItemFields, PriorityArgument, RequirementRef, RequirementStatusArgument,
    RequirementTypeArgument, UserStoryRef,
};
use super::write_item::{ItemUpdate, update_tool};
use crate::tools::tool::decode_arguments;
use crate::writes::change::{Change, LocalNames, WriteTool};

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
    /// Current version.
    if_version: Option<VersionPrefix>,
}

impl WriteTool for UpdateRequirement {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_requirement",
            "Change a requirement",
            "Sets only the given fields of a requirement, such as its status.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        names: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        let item = arguments.requirement.parse("requirement")?;
        let parent =
            arguments.user_story.map(|story| story.resolve("user_story", names)).transpose()?;
        let fields = ItemFields {
            title: arguments.title,
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: arguments.priority,
            requirement_type: arguments.requirement_type.map(|argument| argument.0),
            assignee: arguments.assignee,
            tags: arguments.tags,
        };
        ItemUpdate::fields(spec, item, parent, fields.into(), arguments.if_version)
    }
}
