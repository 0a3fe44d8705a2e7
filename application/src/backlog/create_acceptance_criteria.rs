//! `create_acceptance_criteria`: creates an acceptance criterion of a user story.

use reqlore_domain::backlog::fields::MAX_DESCRIPTION_CHARS;
use reqlore_domain::backlog::{ItemEdit, ItemKind};
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::UserStoryRef;
use super::write_item::{ItemCreation, WriteOutcome};
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Change, LocalNames, WriteTool};

pub(crate) struct CreateAcceptanceCriteria;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    user_story: UserStoryRef,
    /// Markdown.
    description: BoundedString<MAX_DESCRIPTION_CHARS>,
}

impl WriteTool for CreateAcceptanceCriteria {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_acceptance_criteria",
            "Add an acceptance criterion",
            "Creates an acceptance criterion of a user story: one testable condition, such as \
             Given-When-Then.",
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
        let fields = ItemEdit {
            description: Some(arguments.description.into_string()),
            ..ItemEdit::default()
        };
        let kind = ItemKind::AcceptanceCriteria;
        Ok(Box::new(ItemCreation { kind, parent: Some(story), fields }))
    }
}
