//! `update_user_story`: updates the given fields of a user story or moves it.

use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{EpicRef, ItemFields, PriorityArgument, UserStoryRef, WorkStatusArgument};
use super::write_item::{ItemUpdate, update_tool};
use crate::tools::tool::decode_arguments;
use crate::writes::change::{Change, LocalNames, WriteTool};

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
    /// Current version.
    if_version: Option<VersionPrefix>,
}

impl WriteTool for UpdateUserStory {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_user_story",
            "Change a user story",
            "Sets only the given fields of a user story, such as status or assignee.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        names: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        let item = arguments.user_story.parse("user_story")?;
        let parent = arguments.epic.map(|epic| epic.resolve("epic", names)).transpose()?;
        let fields = ItemFields {
            title: arguments.title,
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: arguments.priority,
            assignee: arguments.assignee,
            tags: arguments.tags,
            ..ItemFields::default()
        };
        ItemUpdate::fields(spec, item, parent, fields.into(), arguments.if_version)
    }
}
