//! `epic_hierarchy`.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arguments::{EpicRef, not_found};
use super::item_lookup::{self, BacklogReader};
use super::item_view::ItemSummary;
use crate::ToolContext;
use crate::tool::{Tool, decode, read_tool, reply};

pub(crate) struct EpicHierarchy;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: EpicRef,
}

#[async_trait]
impl Tool for EpicHierarchy {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, HierarchyView>(
            "epic_hierarchy",
            "Show an epic's hierarchy",
            "Returns an epic with its user stories, requirements and acceptance criteria: titles \
             and statuses only.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let given: Arguments = decode(&mut call, spec)?;
        let epic = given.epic.reference("epic")?;
        let backlog = BacklogReader::of(&context.ports, &call.caller);
        let head = backlog.find(epic, "epic").await?;
        let found = hierarchy(backlog, epic, &head).await?;
        reply(text(&found), &found)
    }
}

fn text(found: &HierarchyView) -> String {
    let HierarchyView { epic, user_stories, counts, left_out } = found;
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
            let ItemSummary { reference_id, title, status, .. } = below;
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

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HierarchyView {
    #[schemars(with = "Map<String, Value>")]
    epic: ItemSummary,
    user_stories: Vec<Story>,
    counts: Counts,
    /// Names the omitted part.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Story {
    reference_id: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assignee_username: Option<String>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    requirements: Vec<ItemSummary>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    acceptance_criteria: Vec<ItemSummary>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct Counts {
    user_stories: usize,
    requirements: usize,
    acceptance_criteria: usize,
}

pub(super) async fn hierarchy(
    backlog: BacklogReader<'_>,
    reference: Reference,
    head: &DocumentMeta,
) -> Result<HierarchyView> {
    let Some(epic) = ItemSummary::of(head) else {
        return Err(not_found(reference.kind, &reference.to_string()));
    };
    let stories = backlog.children(reference, ItemKind::UserStory).await?;
    let known = stories
        .iter()
        .filter_map(|head| item_lookup::item(head)?.reference.zip(ItemSummary::of(head)));
    let (references, briefs): (Vec<Reference>, Vec<ItemSummary>) = known.unzip();
    let requirements = backlog.children_of(&references, ItemKind::Requirement).await?;
    let criteria = backlog.children_of(&references, ItemKind::AcceptanceCriteria).await?;
    let mut counts = Counts { user_stories: briefs.len(), ..Counts::default() };
    let below = requirements.iter().zip(&criteria);
    let user_stories = briefs.into_iter().zip(below).map(|(story, (requirements, criteria))| {
        counts.requirements += requirements.len();
        counts.acceptance_criteria += criteria.len();
        Story {
            reference_id: story.reference_id,
            title: story.title,
            status: story.status,
            priority: story.priority,
            assignee_username: story.assignee_username,
            requirements: ItemSummary::all(requirements),
            acceptance_criteria: ItemSummary::all(criteria),
        }
    });
    let mut user_stories: Vec<Story> = user_stories.collect();
    let left_out = cut(&mut user_stories);
    Ok(HierarchyView { epic, user_stories, counts, left_out })
}

/// Approximate limit of a result, in bytes.
const MAX_BYTES: usize = 1024 * 1024;
/// Bytes of an item beside its title.
const FRAME: usize = 120;

/// Leaves out the last stories of a result that is too large; the text says so.
fn cut(stories: &mut Vec<Story>) -> Option<String> {
    let size = |item: &ItemSummary| item.title.len() + FRAME;
    let mut bytes = 0;
    let fitting = stories.iter().take_while(|story| {
        let below = story.requirements.iter().chain(&story.acceptance_criteria);
        bytes += story.title.len() + FRAME + below.map(size).sum::<usize>();
        bytes <= MAX_BYTES
    });
    let (fitting, all) = (fitting.count(), stories.len());
    if fitting == all {
        return None;
    }
    stories.truncate(fitting);
    Some(format!(
        "the first {fitting} of {all} user stories are here; search_requirements with \
                  the epic lists the others' requirements"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_too_large_is_cut_and_says_so() {
        let story = |_| Story {
            reference_id: "US-001".to_owned(),
            title: "t".repeat(500),
            status: None,
            priority: None,
            assignee_username: None,
            requirements: Vec::new(),
            acceptance_criteria: Vec::new(),
        };
        let mut few: Vec<Story> = (0..1_000).map(story).collect();
        assert_eq!((cut(&mut few), few.len()), (None, 1_000));
        let mut many: Vec<Story> = (0..7_000).map(story).collect();
        let told = cut(&mut many).unwrap();
        assert!(told.starts_with(&format!("the first {} of 7000", many.len())), "{told}");
        assert!(many.len() * 620 <= MAX_BYTES && many.len() > 1_500);
    }
}
