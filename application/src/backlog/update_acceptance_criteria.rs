//! `update_acceptance_criteria`: replaces the text of an acceptance criterion.

use reqlore_domain::backlog::ItemEdit;
use reqlore_domain::backlog::fields::MAX_DESCRIPTION_CHARS;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::AcceptanceCriteriaRef;
use super::write_item::{ItemUpdate, update_tool};
use crate::tools::tool::decode_arguments;
use crate::writes::change::{Change, LocalNames, WriteTool};

pub(crate) struct UpdateAcceptanceCriteria;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    acceptance_criteria: AcceptanceCriteriaRef,
    description: BoundedString<MAX_DESCRIPTION_CHARS>,
    /// Current version.
    if_version: Option<VersionPrefix>,
}

impl WriteTool for UpdateAcceptanceCriteria {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_acceptance_criteria",
            "Change an acceptance criterion",
            "Sets the given fields of an acceptance criterion.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        _: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        let fields = ItemEdit {
            description: Some(arguments.description.into_string()),
            ..ItemEdit::default()
        };
        let item = arguments.acceptance_criteria.parse("acceptance_criteria")?;
        ItemUpdate::fields(spec, item, None, fields, arguments.if_version)
    }
}
