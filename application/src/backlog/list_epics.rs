//! `list_epics`.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::WorkStatusArgument;
use super::item_lookup::{self, BacklogReader};
use super::item_view::ItemSummary;
use crate::ToolContext;
use crate::pagination::{PageCursor, PageLimit, PageReader, limit};
use crate::tool::{Tool, decode, read_tool, reply};

pub(crate) struct ListEpics;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    status: Option<WorkStatusArgument>,
    /// Default 50.
    limit: Option<PageLimit>,
    /// next_cursor of the previous page.
    cursor: Option<PageCursor>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    epics: Vec<ItemSummary>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[async_trait]
impl Tool for ListEpics {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, Answer>("list_epics", "List epics", "Lists epics by priority.")
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let given: Arguments = decode(&mut call, spec)?;
        let status = given.status.map(|status| status.0);
        let pages = PageReader::of(&call.caller.project, &(spec.name, status));
        let offset = pages.offset(given.cursor.as_ref())?;
        let backlog = BacklogReader::of(&context.ports, &call.caller);
        let mut heads = backlog.all(ItemKind::Epic).await?;
        if status.is_some() {
            heads.retain(|head| item_lookup::item(head).is_some_and(|item| item.status == status));
        }
        let total = heads.len();
        let end = (offset + limit(given.limit)).min(total);
        let epics = ItemSummary::all(heads.get(offset..end).unwrap_or_default());
        let answer = Answer { epics, total, next_cursor: pages.next(end, total) };
        reply(text(&answer), &answer)
    }
}

fn text(answer: &Answer) -> String {
    let Answer { epics, total, next_cursor } = answer;
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
