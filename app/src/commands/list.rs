//! `reqlore list`: lists items of one kind as a table, JSON or CSV.

use clap::ValueEnum;
use reqlore_domain::backlog::Priority;
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use reqlore_domain::records::answers::sections::Instructions;
use reqlore_domain::records::kinds::find_kind;
use reqlore_domain::sections::instructions;
use reqlore_web::csv::{BYTE_ORDER_MARK, items_csv};
use serde_json::{Value, json};

use super::output::{OutputScreen, TextStyle, TextTable, clean_line, write_stdout};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::print_json;
use crate::config::AppConfig;
use crate::exit::CommandError;

/// The largest page of `list_items`.
const PAGE_ITEMS: u32 = 1_000;
const COLUMNS: [&str; 11] = [
    "ID", "KIND", "STATUS", "PRIORITY", "TYPE", "DONE", "PARENT", "ASSIGNEE", "TAGS", "UPDATED",
    "TITLE",
];
/// The columns that a narrow terminal leaves out, the first one first.
const OPTIONAL: [&str; 8] =
    ["UPDATED", "TAGS", "TYPE", "KIND", "ASSIGNEE", "PARENT", "PRIORITY", "DONE"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListKind {
    #[value(alias = "epic")]
    Epics,
    #[value(aliases = ["story", "user-stories", "user_story"])]
    Stories,
    #[value(alias = "requirement")]
    Requirements,
    #[value(aliases = ["criterion", "acceptance-criteria", "acceptance_criteria"])]
    Criteria,
    #[value(alias = "decision")]
    Decisions,
    #[value(alias = "issue")]
    Issues,
    #[value(alias = "idea")]
    Ideas,
    #[value(alias = "report")]
    Reports,
    #[value(alias = "source")]
    Sources,
    #[value(alias = "citation")]
    Citations,
    /// All of the knowledge graph
    #[value(aliases = ["entity", "knowledge"])]
    Entities,
    #[value(alias = "section")]
    Sections,
}

impl ListKind {
    /// The kind as `list_items` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Epics => "epic",
            Self::Stories => "user_story",
            Self::Requirements => "requirement",
            Self::Criteria => "acceptance_criteria",
            Self::Decisions => "decision",
            Self::Issues => "issue",
            Self::Ideas => "idea",
            Self::Reports => "report",
            Self::Sources => "source",
            Self::Citations => "citation",
            Self::Entities => "entity",
            Self::Sections => "section",
        }
    }

    fn noun(self, count: usize) -> &'static str {
        let words = match self {
            Self::Entities => ["entity", "entities"],
            Self::Sections => ["section", "sections"],
            kind => find_kind(kind.name()).map_or([kind.name(); 2], |kind| kind.words),
        };
        words[usize::from(count != 1)]
    }
}

/// Filters of items, as `list_items` has them.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterOptions {
    /// Only items of this epic
    #[arg(long, value_name = "ID", add = super::complete::epics())]
    pub(crate) epic: Option<String>,
    /// Only items of this user story
    #[arg(long, value_name = "ID", add = super::complete::stories())]
    pub(crate) story: Option<String>,
    /// Only items of this user; `none` for items without an assignee
    #[arg(long, value_name = "NAME")]
    pub(crate) assignee: Option<String>,
    /// Only items with this tag; repeat it for items with all of them
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Only this priority: critical, high, medium, low or 1 to 4
    #[arg(long, value_name = "PRIORITY")]
    pub(crate) priority: Option<String>,
    /// Only this type of requirements, such as functional
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) requirement_type: Option<String>,
    /// Only items with this text in the title or the ID
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only items changed since this date or time (UTC), such as 2026-11-22
    #[arg(long, value_name = "TIME")]
    pub(crate) updated_since: Option<String>,
}

impl FilterOptions {
    /// The arguments of `list_items`.
    pub(crate) fn arguments(&self, kind: &str) -> Value {
        let mut arguments = json!({ "kind": kind });
        for (name, value) in [
            ("epic", &self.epic),
            ("user_story", &self.story),
            ("assignee", &self.assignee),
            ("priority", &self.priority),
            ("type", &self.requirement_type),
            ("text", &self.text),
            ("updated_since", &self.updated_since),
        ] {
            if let Some(value) = value {
                arguments[name] = json!(value);
            }
        }
        if !self.tags.is_empty() {
            arguments["tags"] = json!(self.tags);
        }
        arguments
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListOptions {
    /// The kind of items [default: epics; with --epic stories, with --story requirements]
    #[arg(value_enum, value_name = "KIND")]
    kind: Option<ListKind>,
    /// The kind of items, as an alternative to KIND
    #[arg(long = "kind", value_enum, value_name = "KIND", hide_possible_values = true)]
    named_kind: Option<ListKind>,
    /// Order: priority, updated, reference, title, status or assignee; -updated: newest first
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    sort: Option<String>,
    /// Maximum number of items [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print the result as JSON
    #[arg(long, conflicts_with_all = ["csv", "csv_bom"])]
    json: bool,
    /// Print the result as CSV, with all columns
    #[arg(long)]
    csv: bool,
    /// As --csv, after a byte order mark, which some spreadsheets need for UTF-8
    #[arg(long)]
    csv_bom: bool,
    /// Only items with this status, in any case
    #[arg(long, value_name = "STATUS", help_heading = "Filters")]
    status: Option<String>,
    #[command(flatten)]
    filters: FilterOptions,
    #[command(flatten)]
    project: ProjectOptions,
}

impl ListOptions {
    /// The named kind; without one, the items directly below the epic or user story of a filter.
    fn kind(&self) -> ListKind {
        self.named_kind.or(self.kind).unwrap_or({
            if self.filters.story.is_some() {
                ListKind::Requirements
            } else if self.filters.epic.is_some() {
                ListKind::Stories
            } else {
                ListKind::Epics
            }
        })
    }
}

pub(crate) fn run(config: &AppConfig, options: &ListOptions) -> Result<u8, CommandError> {
    let kind = options.kind();
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let mut arguments = options.filters.arguments(kind.name());
    for (name, value) in [("status", &options.status), ("sort", &options.sort)] {
        if let Some(value) = value {
            arguments[name] = json!(value);
        }
    }
    let has_filters = arguments.as_object().is_some_and(|given| given.len() > 1);
    let listed = match kind {
        ListKind::Sections if has_filters => {
            let message = "list sections: sections have no filters and no order; omit them";
            return Err(CommandError::usage_error(message));
        }
        ListKind::Sections => list_sections(&client, options.limit)?,
        _ => fetch_items(&client, arguments, options.limit)?,
    };
    // The connection ends before the output is read, which may take long.
    drop(client);
    if options.json {
        return match kind {
            ListKind::Sections => print_json(&sections_json(&listed)),
            _ => print_json(&listed),
        };
    }
    if options.csv || options.csv_bom {
        let mark = if options.csv_bom { BYTE_ORDER_MARK } else { "" };
        return write_stdout(&(mark.to_owned() + &items_csv(&listed.items, &[], clean_line)));
    }
    let screen = OutputScreen::of_stdout();
    let mut text = String::new();
    if !listed.items.is_empty() {
        text = items_table(&listed, kind).format(&screen) + "\n";
    }
    for line in summary(&listed, kind, has_filters, options.status.is_some()) {
        text += &screen.wrapped(&line, TextStyle::Plain);
    }
    screen.print(&text)
}

/// Reads pages of `list_items` until the end, or until `limit` items. The answer is that of one
/// page.
pub(crate) fn fetch_items(
    client: &ToolClient,
    mut arguments: Value,
    limit: Option<u32>,
) -> Result<ListPage, CommandError> {
    let limit = limit.unwrap_or(u32::MAX);
    let mut items = Vec::new();
    loop {
        let missing = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        arguments["limit"] = json!(missing.min(PAGE_ITEMS));
        let mut page: ListPage = client.call("list_items", arguments.clone())?;
        items.append(&mut page.items);
        match page.next_cursor.take() {
            Some(cursor) if items.len() < limit as usize => arguments["cursor"] = json!(cursor),
            _ => return Ok(ListPage { items, ..page }),
        }
    }
}

/// The sections in the list of AGENTS.md, as items.
fn list_sections(client: &ToolClient, limit: Option<u32>) -> Result<ListPage, CommandError> {
    let agents: Instructions = client.call("reqlix_get_instructions", json!({}))?;
    let mut titles: Vec<(String, String)> =
        instructions::listed(&agents.text).into_iter().collect();
    titles.sort();
    let total = titles.len();
    titles.truncate(limit.unwrap_or(u32::MAX) as usize);
    let mut items = Vec::new();
    for (reference_id, title) in titles {
        let kind = "section".to_owned();
        items.push(ListedItem { reference_id, kind, title, ..ListedItem::default() });
    }
    Ok(ListPage { items, total, ..ListPage::default() })
}

/// Sections have no other fields.
fn sections_json(listed: &ListPage) -> Value {
    let mut items = Vec::new();
    for ListedItem { reference_id, kind, title, .. } in &listed.items {
        items.push(json!({ "reference_id": reference_id, "kind": kind, "title": title }));
    }
    json!({ "items": items, "total": listed.total })
}

fn cells(item: &ListedItem) -> [String; COLUMNS.len()] {
    let date = item.updated_at.as_deref().unwrap_or_default();
    [
        item.reference_id.clone(),
        item.kind.clone(),
        item.status.clone().unwrap_or_default(),
        priority_name(item.priority).to_owned(),
        item.type_name.clone().unwrap_or_default().into_owned(),
        progress_text(item),
        item.parent.clone().unwrap_or_default(),
        item.assignee_username.clone().unwrap_or_default(),
        item.tags.join(", "),
        date.split('T').next().unwrap_or_default().to_owned(),
        item.title.clone(),
    ]
}

fn items_table(listed: &ListPage, kind: ListKind) -> TextTable {
    let mut table = TextTable::new(&COLUMNS).with_optional(&OPTIONAL).with_status("STATUS");
    for item in &listed.items {
        let mut cells = cells(item);
        if kind != ListKind::Entities {
            cells[1].clear();
        }
        table.push(cells);
    }
    table.drop_empty_columns();
    table
}

/// Empty for an item without a priority.
pub(crate) fn priority_name(number: Option<u8>) -> &'static str {
    number.and_then(|number| Priority::new(number.into())).map_or("", Priority::name)
}

/// `3/7`: done stories or active requirements of all; empty without children.
pub(crate) fn progress_text(item: &ListedItem) -> String {
    let progress = item.progress.map(|counts| format!("{}/{}", counts.count(), counts.total));
    progress.unwrap_or_default()
}

/// `12 epics: 3 Draft, 9 Done`, and the notes of the tool.
fn summary(listed: &ListPage, kind: ListKind, has_filters: bool, has_status: bool) -> Vec<String> {
    let total = listed.total;
    let mut lines: Vec<String> = listed.notes.iter().map(|note| clean_line(note)).collect();
    if total == 0 {
        if lines.is_empty() {
            let suffix = if has_filters { "match these filters" } else { "exist yet" };
            lines.push(format!("No {} {suffix}.", kind.noun(0)));
        }
        return lines;
    }
    let count = listed.items.len();
    let mut text = if count < total { format!("{count} of ") } else { String::new() };
    text += &format!("{total} {}", kind.noun(total));
    let mut separator = ": ";
    // The counts of all statuses would contradict a list of one.
    for (status, count) in listed.by_status.iter().filter(|_| !has_status) {
        text += &format!("{separator}{count} {}", clean_line(status));
        separator = ", ";
    }
    lines.insert(0, text);
    lines
}
