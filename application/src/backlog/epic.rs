//! `create_epic`, `update_epic` and `list_epics`.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::{EpicRef, ItemFields, PriorityArgument, WorkStatusArgument};
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
        reply(text(&answer), &answer)
    }
}

fn text(answer: &EpicList) -> String {
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
