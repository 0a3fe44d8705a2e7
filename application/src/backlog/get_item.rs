//! `get_item` and `get_user_story_requirements`.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::arguments::{ItemRef, UserStoryRef};
use super::find::{self, Backlog};
use super::item_view::{self, Brief, ItemRelations, Links, Record, Related, Relationships};
use crate::Context;
use crate::tool::{Tool, decode, read_tool, reply};

pub(crate) struct GetItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Such as "EP-001", "US-047", "REQ-048" or "AC-003".
    reference: ItemRef,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    item: Record,
    /// What belongs to it.
    #[schemars(with = "Vec<Map<String, Value>>")]
    children: Vec<Brief>,
    relationships: Relationships,
    links: Links,
    /// What a person should mend in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

#[async_trait]
impl Tool for GetItem {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, Answer>(
            "get_item",
            "Read an item",
            "Reads an epic, user story, requirement or acceptance criterion by its \
                          reference, with its children, its relationships, and who speaks of whom.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(&mut call, spec)?;
        let reference = given.reference.reference("reference")?;
        let backlog = Backlog::of(&context.ports, &call.caller);
        let head = backlog.find(reference, "reference").await?;
        let around = ItemRelations::of(backlog, reference, &head).await?;
        let answer = Answer {
            item: item_view::one(backlog, &head).await?,
            children: Brief::all(&around.children),
            relationships: around.relationships,
            links: around.links,
            fault: find::fault(&head),
        };
        reply(text(&answer), &answer)
    }
}

fn text(answer: &Answer) -> String {
    let Answer { item, children, relationships, fault, .. } = answer;
    let said = [
        item.status.map(|status| format!("Status: {status}")),
        item.priority.map(|priority| format!("Priority: {priority}")),
        item.type_name.map(|name| format!("Type: {name}")),
        item.epic.as_ref().map(|epic| format!("Epic: {epic}")),
        item.user_story.as_ref().map(|story| format!("User story: {story}")),
        item.assignee_username.as_ref().map(|name| format!("Assignee: {name}")),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    let mut parts = vec![
        format!("{}: {} (version {})", item.reference_id, item.title, &item.version[..8]),
        said.join(", "),
        item.description.clone(),
    ];
    parts.extend(children.iter().map(|child| format!("- {}: {}", child.reference_id, child.title)));
    parts.extend(relationships.outgoing.iter().map(|to| format!("- {} {}", to.kind, end(to))));
    parts.extend(
        relationships.incoming.iter().map(|from| format!("- {} {} it", end(from), from.kind)),
    );
    parts.extend(fault.iter().map(|fault| fault_text(fault)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn fault_text(fault: &str) -> String {
    format!("To be mended: {fault}")
}

fn end(related: &Related) -> String {
    format!("{}: {}", related.reference_id, related.title.as_deref().unwrap_or("not there"))
}

pub(crate) struct GetUserStoryRequirements;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoryArguments {
    user_story: UserStoryRef,
}

#[derive(Serialize, JsonSchema)]
struct StoryAnswer {
    user_story: String,
    /// By priority, then the newest first.
    requirements: Vec<Record>,
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
            ..read_tool::<Map<String, Value>, StoryAnswer>(
                "get_user_story_requirements",
                "Read a story's requirements",
                "Get all requirements linked to a specific user story",
            )
        }
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: StoryArguments = decode(&mut call, spec)?;
        let story = given.user_story.reference("user_story")?;
        let backlog = Backlog::of(&context.ports, &call.caller);
        backlog.find(story, "user_story").await?;
        let heads = backlog.children(story, ItemKind::Requirement).await?;
        let (mut requirements, mut faults) = (Vec::new(), Vec::new());
        for (head, found) in heads.iter().zip(item_view::all(backlog, &heads).await?) {
            faults.extend(find::fault(head));
            // A faulty file affects no other. One may have been removed in between.
            match found {
                Some(Ok(record)) => requirements.push(record),
                Some(Err(error)) => faults.push(error.message),
                None => {}
            }
        }
        let text = story_text(story, &requirements);
        let mut answer = reply(text, &StoryAnswer { user_story: story.to_string(), requirements })?;
        answer.text.extend(faults.iter().map(|fault| fault_text(fault)));
        Ok(answer)
    }
}

/// The text that the specification fixes.
fn story_text(story: Reference, requirements: &[Record]) -> String {
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
