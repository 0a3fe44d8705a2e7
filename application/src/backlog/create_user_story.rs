//! `create_user_story`: creates a user story of an epic.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{EpicRef, ItemFields, PriorityArgument, WorkStatusArgument};
use super::write_item::{ItemCreation, WriteOutcome};
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Change, LocalNames, WriteTool};

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

impl WriteTool for CreateUserStory {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_user_story",
            "Add a user story",
            "Creates a user story of an epic: a user's need and its reason. Several: \
             apply_changes.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        names: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        let epic = arguments.epic.resolve("epic", names)?;
        let fields = ItemFields {
            title: Some(arguments.title),
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: Some(arguments.priority),
            assignee: arguments.assignee,
            tags: arguments.tags,
            ..ItemFields::default()
        };
        Ok(Box::new(ItemCreation {
            kind: ItemKind::UserStory,
            parent: Some(epic),
            fields: fields.into(),
        }))
    }
}
