//! `update_epic`: updates the given fields of an epic.

use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{EpicRef, ItemFields, PriorityArgument, WorkStatusArgument};
use super::write_item::{ItemUpdate, update_tool};
use crate::tools::tool::decode_arguments;
use crate::writes::change::{Change, LocalNames, WriteTool};

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
    /// Current version.
    if_version: Option<VersionPrefix>,
}

impl WriteTool for UpdateEpic {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_epic",
            "Change an epic",
            "Sets only the given fields of an epic, such as its status.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        _: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
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
        ItemUpdate::fields(spec, item, None, fields.into(), arguments.if_version)
    }
}
