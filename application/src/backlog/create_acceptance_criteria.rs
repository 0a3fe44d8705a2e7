//! `create_acceptance_criteria`: creates an acceptance criterion of a user story.

use async_trait::async_trait;
use reqlore_domain::backlog::fields::MAX_DESCRIPTION_CHARS;
use reqlore_domain::backlog::{ItemEdit, ItemKind};
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::UserStoryRef;
use super::write_item::{WriteOutcome, create_item};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments, write_tool};

pub(crate) struct CreateAcceptanceCriteria;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    user_story: UserStoryRef,
    /// Markdown.
    description: BoundedString<MAX_DESCRIPTION_CHARS>,
}

#[async_trait]
impl Tool for CreateAcceptanceCriteria {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_acceptance_criteria",
            "Create acceptance criteria",
            "Creates an acceptance criterion of a user story: one testable condition, such as \
             Given-When-Then.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let story = arguments.user_story.parse("user_story")?;
        let fields = ItemEdit {
            description: Some(arguments.description.into_string()),
            ..ItemEdit::default()
        };
        let kind = ItemKind::AcceptanceCriteria;
        create_item(context, &call, spec, kind, Some(story), fields).await
    }
}
