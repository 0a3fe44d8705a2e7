//! `get_user_story_requirements`: returns the full requirements of a user story.

use std::cmp::Reverse;
use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::items::ItemRecord;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::arguments::UserStoryRef;
use super::item_lookup::{self, BacklogReader, FileWarnings};
use super::item_view;
use crate::answers::answer::{ToolAnswer, body_answer};
use crate::tools::tool::{Tool, ToolRequest, whole_tool};

pub(crate) struct GetUserStoryRequirements;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    user_story: UserStoryRef,
}

#[derive(Serialize, JsonSchema)]
struct StoryRequirements {
    user_story: String,
    /// By priority, then newest first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    requirements: Vec<ItemRecord>,
}

/// Must match the specification word for word, without further keys.
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
            ..whole_tool::<Map<String, Value>, StoryRequirements>(
                "get_user_story_requirements",
                "Read a story's requirements",
                "Get all requirements linked to a specific user story",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let story = arguments.user_story.parse_exact("user_story")?;
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        backlog.find_argument(story, "user_story").await?;
        let (kind, mut warnings) = (ItemKind::Requirement, FileWarnings::default());
        let mut metas = backlog.children_by_parent(&[story], kind, &mut warnings).await?.concat();
        // The specification asks for the newest first; lists have the oldest first.
        metas.sort_by_key(|meta| {
            let item = item_lookup::item_meta(meta);
            item.map(|item| (item.priority, Reverse((item.created_at, item.reference))))
        });
        let (mut requirements, mut diagnostics) = (Vec::new(), Vec::new());
        let schema = context.ports.schema(backlog.project).await?;
        let records = item_view::read_records(backlog, &schema, &metas).await?;
        for (meta, record) in metas.iter().zip(records) {
            diagnostics.extend(item_lookup::diagnostic_with_path(meta));
            // A faulty file does not fail the call. A removed one is skipped.
            match record {
                Some(Ok(record)) => requirements.push(record),
                Some(Err(error)) => diagnostics.push(error.message),
                None => {}
            }
        }
        let text = render_text(story, &requirements);
        let updated = updated_note(&requirements);
        let mut answer =
            body_answer(text, &StoryRequirements { user_story: story.to_string(), requirements })?;
        answer.add_notes(updated);
        answer.add_notes(diagnostics.iter().map(|text| item_lookup::diagnostic_text(text)));
        warnings.add_unread(&backlog.unread_files(ItemKind::Requirement).await?);
        answer.add_notes(warnings.into_list());
        Ok(answer)
    }
}

/// The times of the last changes, for which the specified text has no place.
fn updated_note(requirements: &[ItemRecord]) -> Option<String> {
    let mut times = Vec::with_capacity(requirements.len());
    for ItemRecord { reference_id, updated_at, .. } in requirements {
        times.push(format!("{} {updated_at}", encode_id(reference_id)));
    }
    (!times.is_empty()).then(|| format!("updated {}", times.join(", ")))
}

/// Must match the specification word for word.
fn render_text(story: Reference, requirements: &[ItemRecord]) -> String {
    let count = requirements.len();
    let noun = if count == 1 { "requirement" } else { "requirements" };
    let mut text = format!("Found {count} {noun} for user story {story}");
    if requirements.is_empty() {
        text.push_str(". No requirements are currently linked to this user story.");
        return text;
    }
    text.push(':');
    for requirement in requirements {
        let assignee = match &requirement.assignee_username {
            Some(name) => format!(", Assignee: {}", encode_line(name)),
            None => String::new(),
        };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n\n{}: {} (Priority: {}, Status: {}, Type: {}, Creator: {}{assignee})\n{}\n\
             Created: {}",
            encode_id(&requirement.reference_id),
            encode_line(&requirement.title),
            requirement.priority.unwrap_or_default(),
            requirement.status.as_deref().unwrap_or_default(),
            requirement.type_name.as_deref().unwrap_or_default(),
            encode_line(&requirement.creator_username),
            requirement.description,
            requirement.created_at,
        );
    }
    text
}
