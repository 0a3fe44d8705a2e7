//! `create_epic`: creates an epic.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{ItemFields, PriorityArgument, WorkStatusArgument};
use super::write_item::{ItemCreation, WriteOutcome};
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Change, LocalNames, WriteTool};

pub(crate) struct CreateEpic;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
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

impl WriteTool for CreateEpic {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_epic",
            "Add an epic",
            "Creates an epic: a large goal that groups user stories. With its items: \
             apply_changes.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        _: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        let fields = ItemFields {
            title: Some(arguments.title),
            description: arguments.description,
            status: arguments.status.map(|status| status.0),
            priority: Some(arguments.priority),
            assignee: arguments.assignee,
            tags: arguments.tags,
            ..ItemFields::default()
        };
        Ok(Box::new(ItemCreation { kind: ItemKind::Epic, parent: None, fields: fields.into() }))
    }
}
