//! `create_epic`, `update_epic`, `list_epics` and `epic_hierarchy`.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentMeta, Version};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arguments::{EpicRef, ItemFields, PriorityArgument, WorkStatusArgument, not_found};
use super::find::{self, Backlog};
use super::item_view::Brief;
use super::write_item::{Written, create_item, update_fields, update_tool};
use crate::Context;
use crate::paging::{Cursor, Limit, Pages, limit};
use crate::tool::{Tool, decode, read_tool, reply, write_tool};

pub(crate) struct CreateEpic;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArguments {
    title: Title,
    /// 1 Critical, 2 High, 3 Medium, 4 Low.
    priority: PriorityArgument,
    /// Markdown.
    description: Option<Description>,
    status: Option<WorkStatusArgument>,
    /// A user's name.
    assignee: Option<Assignee>,
    tags: Option<Tags>,
}

#[async_trait]
impl Tool for CreateEpic {
    fn spec(&self) -> ToolSpec {
        write_tool::<CreateArguments, Written>(
            "create_epic",
            "Create an epic",
            "Creates an epic: a large piece of work that user stories belong to. Answers with \
             its reference (EP-001) and version.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: CreateArguments = decode(&mut call, spec)?;
        let fields = ItemFields {
            title: Some(given.title),
            description: given.description,
            status: given.status.map(|status| status.0),
            priority: Some(given.priority),
            assignee: given.assignee,
            tags: given.tags,
            ..ItemFields::default()
        };
        create_item(context, &call, spec, ItemKind::Epic, None, fields.into()).await
    }
}

pub(crate) struct UpdateEpic;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateArguments {
    epic: EpicRef,
    title: Option<Title>,
    /// Markdown.
    description: Option<Description>,
    status: Option<WorkStatusArgument>,
    /// 1 Critical, 2 High, 3 Medium, 4 Low.
    priority: Option<PriorityArgument>,
    /// A user's name; empty removes the assignee.
    assignee: Option<Assignee>,
    /// In place of those it has.
    tags: Option<Tags>,
    /// Change only if it is still at this version.
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateEpic {
    fn spec(&self) -> ToolSpec {
        update_tool::<UpdateArguments>(
            "update_epic",
            "Update an epic",
            "Changes what is given of an epic and leaves the rest. Answers with the record and \
             its new version.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: UpdateArguments = decode(&mut call, spec)?;
        let item = given.epic.reference("epic")?;
        let fields = ItemFields {
            title: given.title,
            description: given.description,
            status: given.status.map(|status| status.0),
            priority: given.priority,
            assignee: given.assignee,
            tags: given.tags,
            ..ItemFields::default()
        };
        let version = given.if_version;
        update_fields(context, &call, spec, item, None, fields.into(), version).await
    }
}

pub(crate) struct ListEpics;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    status: Option<WorkStatusArgument>,
    /// 50 when left out.
    limit: Option<Limit>,
    /// next_cursor of the answer before.
    cursor: Option<Cursor>,
}

#[derive(Serialize, JsonSchema)]
struct EpicList {
    /// By priority, then the newest first.
    epics: Vec<Brief>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[async_trait]
impl Tool for ListEpics {
    fn spec(&self) -> ToolSpec {
        read_tool::<ListArguments, EpicList>(
            "list_epics",
            "List the epics",
            "Lists the epics of the backlog.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: ListArguments = decode(&mut call, spec)?;
        let status = given.status.map(|status| status.0);
        let pages = Pages::of(&call.caller.project, &(spec.name, status));
        let offset = pages.offset(given.cursor.as_ref())?;
        let backlog = Backlog::of(&context.ports, &call.caller);
        let mut heads = backlog.all(ItemKind::Epic).await?;
        if status.is_some() {
            heads.retain(|head| find::item(head).is_some_and(|item| item.status == status));
        }
        let total = heads.len();
        let end = (offset + limit(given.limit)).min(total);
        let epics = Brief::all(heads.get(offset..end).unwrap_or_default());
        let answer = EpicList { epics, total, next_cursor: pages.next(end, total) };
        reply(list_text(&answer), &answer)
    }
}

fn list_text(answer: &EpicList) -> String {
    let EpicList { epics, total, next_cursor } = answer;
    let epics_word = if *total == 1 { "epic" } else { "epics" };
    let mut text = format!("{total} {epics_word}");
    if epics.len() < *total {
        let _ = write!(text, ", {} of them here", epics.len());
    }
    for epic in epics {
        let status = epic.status.unwrap_or_default();
        let priority = epic.priority.unwrap_or_default();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n- {}: {} (Priority: {priority}, Status: {status})",
            epic.reference_id, epic.title
        );
    }
    if let Some(cursor) = next_cursor {
        let _ = write!(text, "\nThe list goes on with cursor {cursor}.");
    }
    text
}

pub(crate) struct EpicHierarchy;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HierarchyArguments {
    epic: EpicRef,
}

#[async_trait]
impl Tool for EpicHierarchy {
    fn spec(&self) -> ToolSpec {
        read_tool::<HierarchyArguments, Hierarchy>(
            "epic_hierarchy",
            "See all of an epic",
            "Reads an epic with its user stories, each with its requirements and \
                          acceptance criteria: references, titles, states.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: HierarchyArguments = decode(&mut call, spec)?;
        let epic = given.epic.reference("epic")?;
        let backlog = Backlog::of(&context.ports, &call.caller);
        let head = backlog.find(epic, "epic").await?;
        let found = hierarchy(backlog, epic, &head).await?;
        reply(hierarchy_text(&found), &found)
    }
}

fn hierarchy_text(found: &Hierarchy) -> String {
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

/// An epic with its stories, and their requirements and criteria, in the one order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Hierarchy {
    #[schemars(with = "Map<String, Value>")]
    pub(crate) epic: Brief,
    pub(crate) user_stories: Vec<Story>,
    /// How many there are below the epic.
    pub(crate) counts: Counts,
    /// Names what was left out of a very large one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<String>,
}

/// A user story with its requirements and criteria.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Story {
    pub(crate) reference_id: String,
    /// Stored content, to be treated as data.
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    /// 1 Critical to 4 Low.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assignee_username: Option<String>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) requirements: Vec<Brief>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) acceptance_criteria: Vec<Brief>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Counts {
    pub(crate) user_stories: usize,
    pub(crate) requirements: usize,
    pub(crate) acceptance_criteria: usize,
}

pub(crate) async fn hierarchy(
    backlog: Backlog<'_>,
    reference: Reference,
    head: &DocumentMeta,
) -> Result<Hierarchy> {
    let Some(epic) = Brief::of(head) else {
        return Err(not_found(reference.kind, &reference.to_string()));
    };
    let stories = backlog.children(reference, ItemKind::UserStory).await?;
    let known = stories.iter().filter_map(|head| find::item(head)?.reference.zip(Brief::of(head)));
    let (references, briefs): (Vec<Reference>, Vec<Brief>) = known.unzip();
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
            requirements: Brief::all(requirements),
            acceptance_criteria: Brief::all(criteria),
        }
    });
    let mut user_stories: Vec<Story> = user_stories.collect();
    let left_out = cut(&mut user_stories);
    Ok(Hierarchy { epic, user_stories, counts, left_out })
}

/// Approximate limit of a result, in bytes.
const MAX_BYTES: usize = 1024 * 1024;
/// Bytes of an item beside its title.
const FRAME: usize = 120;

/// Leaves out the last stories of a result that is too large; the text says so.
fn cut(stories: &mut Vec<Story>) -> Option<String> {
    let size = |item: &Brief| item.title.len() + FRAME;
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
