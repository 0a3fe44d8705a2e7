//! `list_ready`: returns the user stories that can be begun, the most important first.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::fields::Assignee;
use reqlore_domain::backlog::story_waits::StoryWaits;
use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference, Status, sort_key};
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::documents::read_all;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::entry_line::EntryLine;
use reqlore_domain::records::answers::lists::ListedItem;
use reqlore_domain::records::answers::ready::{ReadyPage, StoryWait};
use reqlore_domain::records::schema::{RecordSchema, StatusCategory};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::EpicRef;
use super::claims::LiveClaims;
use super::item_lookup::{BacklogReader, item_meta};
use crate::answers::answer::{ToolAnswer, serialization_error};
use crate::tools::pagination::{
    PageAnswer, PageCursor, PageLimit, PageReader, page_limit, showing,
};
use crate::tools::tool::{Tool, ToolRequest, read_tool};

/// Maximum number of waiting stories, cycles and dropped dependencies that an answer names.
const MAX_NAMED: usize = 5;
/// Maximum number of stories of a cycle that an answer names.
const MAX_CYCLE: usize = 20;

pub(crate) struct ListReady;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Default you.
    assignee: Option<Assignee>,
    epic: Option<EpicRef>,
    /// 1 to 100, default 50.
    limit: Option<PageLimit>,
    // From the previous page.
    cursor: Option<PageCursor>,
}

/// The order of the list: priority, the number of stories that wait, and the order of all lists.
type Position = (u8, Reverse<usize>, String, u32);

struct ReadyStory {
    position: Position,
    meta: Arc<DocumentMeta>,
}

#[async_trait]
impl Tool for ListReady {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, ReadyPage>(
            "list_ready",
            "List the stories to work on next",
            "Lists stories ready to start: not blocked, not claimed, unassigned or yours.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, spec } = request;
        let ports = &context.ports;
        let backlog = BacklogReader::for_caller(ports, &call.caller);
        let schema = ports.schema(backlog.project).await?;
        let epic = arguments.epic.as_ref().map(|epic| epic.parse_folded("epic")).transpose()?;
        if let Some(epic) = epic {
            backlog.find_argument(epic, "epic").await?;
        }
        let assignee = match &arguments.assignee {
            None => Some(fold_name(&call.caller.name)),
            Some(assignee) => assignee.name().map(fold_name),
        };
        let documents = &*ports.documents;
        let read = |kind| read_all(documents, backlog.project, DocumentKind::Item(kind));
        let (stories, _) = read(ItemKind::UserStory).await?;
        let (requirements, _) = read(ItemKind::Requirement).await?;
        let items = stories.iter().chain(&requirements).filter_map(|meta| item_meta(meta));
        let waits = StoryWaits::of_items(items, &schema);
        let claims = LiveClaims::read(ports, backlog.project).await;
        let (mut ready, mut waiting) = (Vec::new(), Vec::new());
        for meta in stories {
            let Some(item) = item_meta(&meta) else { continue };
            let Some(story) = item.reference else { continue };
            let is_wanted = epic.is_none_or(|epic| item.parent == Some(epic))
                && is_free(item, assignee.as_deref())
                && is_open(item, &schema)
                && claims.find(&meta, &schema).is_none();
            if !is_wanted {
                continue;
            }
            let (priority, rank) = sort_key(item);
            let is_waiting = waits.waits_for(story).next().is_some();
            let count = if is_waiting { 0 } else { waits.waiting_count(story) };
            let position = (priority, Reverse(count), rank, story.number);
            let list = if is_waiting { &mut waiting } else { &mut ready };
            list.push(ReadyStory { position, meta });
        }
        for list in [&mut ready, &mut waiting] {
            list.sort_by(|a, b| (&a.position, &a.meta.id).cmp(&(&b.position, &b.meta.id)));
        }
        let pages = PageReader::new(backlog.project, &(spec.name, &assignee, epic));
        let after: Option<Position> = pages.position(arguments.cursor.as_ref())?;
        let total = ready.len();
        ready.retain(|story| after.as_ref().is_none_or(|after| story.position > *after));
        let has_more = ready.len() > page_limit(arguments.limit);
        ready.truncate(page_limit(arguments.limit));
        let last = ready.last().filter(|_| has_more);
        let cycles = waits.cycles();
        let page = ReadyPage {
            items: ready
                .iter()
                .filter_map(|story| ListedItem::of_record(&story.meta, &schema))
                .collect(),
            total,
            waiting: waiting.len(),
            waits: waiting.iter().take(MAX_NAMED).filter_map(|one| wait(one, &waits)).collect(),
            cycles: cycles.iter().map(|cycle| cycle_names(cycle)).collect(),
            next_cursor: last.map(|story| pages.cursor(&story.position)),
            notes: Vec::new(),
        };
        let mut answer = page_answer(&page, ready, pages)?;
        answer.add_notes(notes(&page, &waits, &cycles));
        answer.add_notes(
            backlog.list_warnings(DocumentKind::Item(ItemKind::UserStory)).await?.into_list(),
        );
        Ok(answer)
    }
}

/// True if no other user has the story.
fn is_free(item: &ItemMeta, assignee: Option<&str>) -> bool {
    item.assignee.as_ref().is_none_or(|name| Some(&*fold_name(name)) == assignee)
}

fn is_open(item: &ItemMeta, schema: &RecordSchema) -> bool {
    let status = item.status.unwrap_or(Status::Backlog);
    let category = schema.category(item.kind, status);
    // A draft is not agreed yet.
    status != Status::Draft && matches!(category, StatusCategory::Open | StatusCategory::Active)
}

fn wait(story: &ReadyStory, waits: &StoryWaits) -> Option<StoryWait> {
    let reference = item_meta(&story.meta)?.reference?;
    let waits_for = waits.waits_for(reference).map(|other| other.to_string()).collect();
    Some(StoryWait { reference_id: reference.to_string(), waits_for })
}

fn cycle_names(cycle: &[Reference]) -> Vec<String> {
    cycle.iter().map(Reference::to_string).collect()
}

/// Such as `US-001 → US-002 → US-001 wait for each other`.
pub(super) fn cycle_problem(cycle: &[Reference]) -> String {
    let mut names = cycle_names(&cycle[..cycle.len().min(MAX_CYCLE)]);
    if cycle.len() > MAX_CYCLE {
        names.push("…".to_owned());
    }
    names.extend(cycle.first().map(Reference::to_string));
    format!("{} wait for each other; remove a dependency", names.join(" → "))
}

pub(super) fn dropped_problem(story: Reference, other: Reference) -> String {
    format!("{story} depends on {other}, which was dropped; change it")
}

fn notes(page: &ReadyPage, waits: &StoryWaits, cycles: &[Vec<Reference>]) -> Vec<String> {
    let mut notes = Vec::new();
    let named: Vec<String> = page
        .waits
        .iter()
        .map(|wait| format!("{} for {}", wait.reference_id, wait.waits_for.join(", ")))
        .collect();
    if !named.is_empty() {
        let rest = page.waiting - named.len();
        let more = if rest > 0 { format!("; {rest} more wait") } else { String::new() };
        notes.push(format!("waiting: {}{more}", named.join("; ")));
    }
    notes.extend(cycles.iter().take(MAX_NAMED).map(|cycle| cycle_problem(cycle)));
    if cycles.len() > MAX_NAMED {
        notes.push("`reqlore check` lists all cycles".to_owned());
    }
    let dropped = waits.dropped().take(MAX_NAMED);
    notes.extend(dropped.map(|(story, other)| dropped_problem(story, other)));
    notes
}

fn page_answer(page: &ReadyPage, ready: Vec<ReadyStory>, pages: PageReader) -> Result<ToolAnswer> {
    let lines = page.items.iter().zip(&ready).map(|(item, story)| line(item, story)).collect();
    let data = Arc::new(serde_json::to_value(page).map_err(serialization_error)?);
    let (total, waiting) = (page.total, page.waiting);
    let heading = Box::new(move |shown| {
        let (noun, verb) = if total == 1 { ("story", "is") } else { ("stories", "are") };
        format!("{total} {noun} {verb} ready{}; waiting: {waiting}", showing(shown, total))
    });
    let cursor_after =
        Box::new(move |shown: usize| Some(pages.cursor(&ready.get(shown - 1)?.position)));
    Ok(ToolAnswer::new(PageAnswer { heading, lines, data, key: "items", cursor_after }))
}

fn line(item: &ListedItem, story: &ReadyStory) -> String {
    let mut details: Vec<String> = Vec::new();
    details.extend(item.parent.as_ref().map(|parent| format!("parent {parent}")));
    let count = story.position.1.0;
    details.extend((count > 0).then(|| format!("needed by {count}")));
    let line = EntryLine {
        id: &item.reference_id,
        status: item.status.as_deref(),
        priority: item.priority,
        title: Some(&item.title),
        tags: &item.tags,
        assignee: item.assignee_username.as_deref(),
        details,
        ..EntryLine::default()
    };
    line.render()
}
