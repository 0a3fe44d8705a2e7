//! `update_acceptance_criteria`: replaces the text of an acceptance criterion.

use async_trait::async_trait;
use reqlore_domain::backlog::ItemEdit;
use reqlore_domain::backlog::fields::MAX_DESCRIPTION_CHARS;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::AcceptanceCriteriaRef;
use super::write_item::{update_fields, update_tool};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments};

pub(crate) struct UpdateAcceptanceCriteria;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    acceptance_criteria: AcceptanceCriteriaRef,
    description: BoundedString<MAX_DESCRIPTION_CHARS>,
    /// Expected current version.
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateAcceptanceCriteria {
    fn spec(&self) -> ToolSpec {
        update_tool::<Arguments>(
            "update_acceptance_criteria",
            "Update acceptance criteria",
            "Replaces the text of an acceptance criterion. Returns the record and its new version.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let fields = ItemEdit {
            description: Some(arguments.description.into_string()),
            ..ItemEdit::default()
        };
        let item = arguments.acceptance_criteria.parse("acceptance_criteria")?;
        update_fields(context, &call, spec, item, None, fields, arguments.if_version).await
    }
}
