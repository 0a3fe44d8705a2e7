//! `epic_hierarchy`: an epic with everything below it.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::identity::Access;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::brief::Brief;
use super::find::Backlog;
use super::given::{Epic, Given};
use super::hierarchy::{Hierarchy, hierarchy};
use crate::Context;
use crate::arguments::decode;
use crate::tool::{Tool, answer_schema, reply, schema};

pub(crate) struct EpicHierarchy;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: Given<Epic>,
}

#[async_trait]
impl Tool for EpicHierarchy {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "epic_hierarchy",
            title: "See all of an epic",
            description: "Reads an epic with its user stories, each with its requirements and \
                          acceptance criteria: references, titles, states.",
            input_schema: schema::<Arguments>(),
            output_schema: answer_schema::<Hierarchy>(),
            access: Access::Read,
            may_change: false,
            destructive: false,
            idempotent: true,
        }
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(std::mem::take(&mut call.arguments), spec)?;
        let epic = given.epic.reference("epic")?;
        let backlog = Backlog::of(&context.ports, &call.caller);
        let found = hierarchy(backlog, epic).await.map_err(|error| error.field("epic"))?;
        reply(text(&found), &found)
    }
}

/// An indented list.
fn text(found: &Hierarchy) -> String {
    let Hierarchy { epic, user_stories, counts, left_out } = found;
    let mut text = format!(
        "{}: {} ({}, {}, acceptance criteria: {})",
        epic.reference_id,
        epic.title,
        counted(counts.user_stories, "user story", "user stories"),
        counted(counts.requirements, "requirement", "requirements"),
        counts.acceptance_criteria
    );
    for story in user_stories {
        line(&mut text, "", &story.reference_id, &story.title, story.status);
        for below in story.requirements.iter().chain(&story.acceptance_criteria) {
            let Brief { reference_id, title, status, .. } = below;
            line(&mut text, "  ", reference_id, title, *status);
        }
    }
    if let Some(left_out) = left_out {
        // Writing to a string does not fail.
        let _ = write!(text, "\nLeft out: {left_out}.");
    }
    text
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn line(text: &mut String, indent: &str, reference: &str, title: &str, status: Option<&str>) {
    // Writing to a string does not fail.
    let _ = write!(text, "\n{indent}- {reference}: {title}");
    let _ = status.map(|status| write!(text, " ({status})"));
}
