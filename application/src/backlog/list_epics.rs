//! `list_epics`: returns the summaries of epics in pages.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::item_list::ItemQuery;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::WorkStatusArgument;
use super::item_lookup::BacklogReader;
use super::item_view::ItemSummary;
use crate::ToolContext;
use crate::answer::{ToolAnswer, reply};
use crate::empty_answer::add_reason;
use crate::pagination::{PageCursor, PageLimit, PageReader, page_limit};
use crate::tool::{Tool, decode_arguments, read_tool};

pub(crate) struct ListEpics;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    status: Option<WorkStatusArgument>,
    /// 1 to 100, default 50.
    limit: Option<PageLimit>,
    /// From the previous page.
    cursor: Option<PageCursor>,
}

#[derive(Serialize, JsonSchema)]
struct EpicPage {
    epics: Vec<ItemSummary>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[async_trait]
impl Tool for ListEpics {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, EpicPage>(
            "list_epics",
            "List epics",
            "Lists the epics of the backlog.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let status = arguments.status.map(|status| status.0);
        let pages = PageReader::new(&call.caller.project, &(spec.name, status));
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        let (cursor, limit) = (arguments.cursor.as_ref(), page_limit(arguments.limit));
        let mut query = ItemQuery::of_kind(ItemKind::Epic, limit);
        query.filter.status = status;
        query.after = pages.position(cursor)?;
        let (page, warnings) = backlog.list_items(&query).await?;
        let total = page.total;
        // Summaries need only metadata, so no document is read.
        let epics = ItemSummary::from_metas(&page.metadata);
        let next_cursor = page.next.map(|next| pages.cursor(&next));
        let page = EpicPage { epics, total, next_cursor };
        let mut reply = reply(render_text(&page), &page)?;
        reply.add_notes(warnings.into_list());
        if total == 0 {
            let all = ItemQuery::of_kind(ItemKind::Epic, 0);
            let all = backlog.list_items(&all).await?.0.total;
            let excluded = format!("No epic has this status; the total of all statuses is {all}.");
            let (ports, kinds) = (&context.ports, [DocumentKind::Item(ItemKind::Epic)]);
            let (caller, project) = (&call.caller, backlog.project);
            add_reason(&mut reply, ports, caller, project, &kinds, &excluded).await?;
        }
        Ok(reply)
    }
}

fn render_text(page: &EpicPage) -> String {
    let EpicPage { epics, total, next_cursor } = page;
    let epics_word = if *total == 1 { "epic" } else { "epics" };
    let mut text = format!("{total} {epics_word}");
    if epics.len() < *total {
        // Writing to a string does not fail.
        let _ = write!(text, ", showing {}", epics.len());
    }
    for epic in epics {
        let status = epic.status.unwrap_or_default();
        let priority = epic.priority.unwrap_or_default();
        let _ = write!(
            text,
            "\n- {}: {} (Priority: {priority}, Status: {status})",
            encode_id(&epic.reference_id),
            encode_line(&epic.title)
        );
    }
    if let Some(cursor) = next_cursor {
        let _ = write!(text, "\nNext page: cursor {cursor}");
    }
    text
}
