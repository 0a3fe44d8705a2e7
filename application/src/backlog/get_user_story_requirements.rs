//! `get_user_story_requirements`.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::arguments::UserStoryRef;
use super::get_item::fault_text;
use super::item_lookup::{self, BacklogReader};
use super::item_view::{self, ItemRecord};
use crate::ToolContext;
use crate::tool::{Tool, decode, read_tool, reply};

pub(crate) struct GetUserStoryRequirements;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    user_story: UserStoryRef,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    user_story: String,
    /// By priority, then newest first.
    requirements: Vec<ItemRecord>,
}

/// The specification fixes these words and allows no other keys.
fn input_schema() -> Map<String, Value> {
    let schema = json!({
        "type": "object",
        "properties": {
            "user_story": {
                "type": "string",
                "description": "User story reference ID (e.g., 'US-047')",
                "pattern": r"^US-\d+$"
            }
        },
        "required": ["user_story"]
    });
    schema.as_object().cloned().unwrap_or_default()
}

#[async_trait]
impl Tool for GetUserStoryRequirements {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            input_schema: input_schema(),
            ..read_tool::<Map<String, Value>, Answer>(
                "get_user_story_requirements",
                "Read a story's requirements",
                "Get all requirements linked to a specific user story",
            )
        }
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let given: Arguments = decode(&mut call, spec)?;
        let story = given.user_story.reference("user_story")?;
        let backlog = BacklogReader::of(&context.ports, &call.caller);
        backlog.find(story, "user_story").await?;
        let heads = backlog.children(story, ItemKind::Requirement).await?;
        let (mut requirements, mut faults) = (Vec::new(), Vec::new());
        for (head, found) in heads.iter().zip(item_view::all(backlog, &heads).await?) {
            faults.extend(item_lookup::fault(head));
            // A faulty file affects no other. One may have been removed in between.
            match found {
                Some(Ok(record)) => requirements.push(record),
                Some(Err(error)) => faults.push(error.message),
                None => {}
            }
        }
        let text = text(story, &requirements);
        let mut answer = reply(text, &Answer { user_story: story.to_string(), requirements })?;
        answer.text.extend(faults.iter().map(|fault| fault_text(fault)));
        Ok(answer)
    }
}

/// The text that the specification fixes.
fn text(story: Reference, requirements: &[ItemRecord]) -> String {
    let mut text = format!("Found {} requirements for user story {story}", requirements.len());
    if requirements.is_empty() {
        text.push_str(". No requirements are currently linked to this user story.");
        return text;
    }
    text.push(':');
    for requirement in requirements {
        let assignee = requirement.assignee_username.as_ref();
        let assignee = assignee.map(|name| format!(", Assignee: {name}")).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n\n{}: {} (Priority: {}, Status: {}, Type: {}, Creator: {}{assignee})\n{}\n\
             Created: {}",
            requirement.reference_id,
            requirement.title,
            requirement.priority.unwrap_or_default(),
            requirement.status.unwrap_or_default(),
            requirement.type_name.unwrap_or_default(),
            requirement.creator_username,
            requirement.description,
            requirement.created_at,
        );
    }
    text
}
