//! `list_epics`: returns the summaries of epics in pages.

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::record_list::{RecordQuery, list_position};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::items::ItemSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::WorkStatusArgument;
use super::item_lookup::{self, BacklogReader};
use super::item_view::SummaryKeys;
use crate::answers::answer::{ToolAnswer, serialization_error};
use crate::answers::empty_answer::add_reason;
use crate::answers::show_keys::ShowKeys;
use crate::tools::pagination::{
    PageAnswer, PageCursor, PageLimit, PageReader, page_limit, showing,
};
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct ListEpics;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    status: Option<WorkStatusArgument>,
    show: Option<ShowKeys<SummaryKeys>>,
    /// 1 to 100, default 50.
    limit: Option<PageLimit>,
    // From the previous page.
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

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, spec, call } = request;
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        let schema = context.ports.schema(backlog.project).await?;
        let find = |status: WorkStatusArgument| {
            item_lookup::find_status(&schema, ItemKind::Epic, status.0.name())
        };
        let status = arguments.status.map(find).transpose()?;
        let pages = PageReader::new(&call.caller.project, &(spec.name, status));
        let (cursor, limit) = (arguments.cursor.as_ref(), page_limit(arguments.limit));
        let mut query = RecordQuery::of_items(ItemKind::Epic, limit);
        query.filter.status = status;
        query.after = pages.position(cursor)?;
        let (page, warnings) = backlog.list_items(&query).await?;
        let total = page.total;
        // Summaries need only metadata, so no document is read.
        let epics = ItemSummary::from_metas(&page.metadata, &schema);
        let show = arguments.show.unwrap_or_default();
        let lines = epics.iter().map(|epic| epic.line(|key| show.has(key))).collect();
        let next_cursor = page.next.map(|next| pages.cursor(&next));
        let data = EpicPage { epics, total, next_cursor };
        let mut data = serde_json::to_value(&data).map_err(serialization_error)?;
        show.filter_list(&mut data["epics"]);
        let mut answer = ToolAnswer::new(PageAnswer {
            heading: Box::new(move |shown| {
                let epics = if total == 1 { "epic" } else { "epics" };
                format!("{total} {epics}{}", showing(shown, total))
            }),
            lines,
            data: data.into(),
            key: "epics",
            cursor_after: Box::new(move |shown| {
                Some(pages.cursor(&list_position(page.metadata.get(shown - 1)?)?))
            }),
        });
        answer.add_notes(warnings.into_list());
        if total == 0 {
            let all = RecordQuery::of_items(ItemKind::Epic, 0);
            let all = backlog.list_items(&all).await?.0.total;
            let excluded = format!("No epic has this status; the total of all statuses is {all}.");
            let (ports, kinds) = (&context.ports, [DocumentKind::Item(ItemKind::Epic)]);
            let (caller, project) = (&call.caller, backlog.project);
            add_reason(&mut answer, ports, caller, project, &kinds, &excluded).await?;
        }
        Ok(answer)
    }
}
