//! `reqlore list`: lists items of one kind as a table, JSON or CSV.

use std::collections::BTreeMap;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use reqlore_domain::backlog::{ItemKind, Priority};
use reqlore_domain::records::answers::claims::ClaimView;
use reqlore_domain::records::answers::csv::{BYTE_ORDER_MARK, items_csv};
use reqlore_domain::records::answers::entry_line::{custom_text, custom_value};
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use reqlore_domain::records::answers::sections::Instructions;
use reqlore_domain::records::custom_field::{CustomField, FieldView};
use reqlore_domain::records::kinds::{KINDS, RecordKind};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::sections::instructions;
use serde::Serialize;
use serde_json::{Value, json};

use super::item_fields::parse_assignment;
use super::output::{OutputScreen, TextStyle, TextTable, clean_line, write_stdout};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::print_json;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

/// The tools that list items, with their largest pages.
pub(crate) const LIST_ITEMS: (&str, u32) = ("list_items", 1_000);
const LIST_READY: (&str, u32) = ("list_ready", 100);
/// A column of the table: its heading, and the text of a cell.
type Column = (&'static str, fn(&ListedItem) -> String);
const COLUMNS: [Column; 12] = [
    ("ID", |item| item.reference_id.clone()),
    ("KIND", |item| item.kind.clone()),
    ("STATUS", |item| item.status.clone().unwrap_or_default()),
    ("PRIORITY", |item| priority_name(item.priority).to_owned()),
    ("TYPE", |item| item.type_name.clone().unwrap_or_default().into_owned()),
    ("DONE", progress_text),
    ("PARENT", |item| item.parent.clone().unwrap_or_default()),
    ("ASSIGNEE", |item| item.assignee_username.clone().unwrap_or_default()),
    ("CLAIM", |item| item.claim.as_ref().map(ClaimView::text).unwrap_or_default()),
    ("TAGS", |item| item.tags.join(", ")),
    ("UPDATED", |item| item.updated_at.iter().flat_map(|time| time.split('T')).take(1).collect()),
    ("TITLE", |item| item.title.clone()),
];
/// The index of the first column of a custom field.
const CUSTOM_COLUMN: usize = 10;
/// The columns that a narrow terminal leaves out, the first one first.
const OPTIONAL: [&str; 9] =
    ["UPDATED", "TAGS", "CLAIM", "TYPE", "KIND", "ASSIGNEE", "PARENT", "PRIORITY", "DONE"];

/// A kind that commands list: one of [`KINDS`], all entities, or sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListKind {
    /// The kind as `list_items` names it.
    pub(crate) name: &'static str,
    /// Singular and plural in sentences.
    words: [&'static str; 2],
}

const ENTITIES: ListKind = ListKind { name: "entity", words: ["entity", "entities"] };
const SECTIONS: ListKind = ListKind { name: "section", words: ["section", "sections"] };

impl ListKind {
    fn of_item(kind: ItemKind) -> Self {
        Self { name: kind.name(), words: kind.row().words }
    }

    fn has_field(self, field: &CustomField) -> bool {
        let is_of_item = |kind: &str| ItemKind::from_name(kind).is_some();
        field.has_kind(self.name, !is_of_item(self.name))
            || self == ENTITIES && !field.kinds.iter().all(|kind| is_of_item(kind))
    }

    /// Parses names and synonyms. Help and completion show the plurals.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        let mut kinds: Vec<(PossibleValue, Self)> = Vec::new();
        for RecordKind { name, folder, words, synonyms, .. } in KINDS.iter() {
            let aliases = [name].into_iter().chain(*synonyms).copied();
            kinds
                .push((PossibleValue::new(*folder).aliases(aliases), Self { name, words: *words }));
        }
        let entities = PossibleValue::new("entities").help("All entities of the knowledge graph");
        kinds.push((entities.aliases(["entity", "knowledge"]), ENTITIES));
        kinds.push((PossibleValue::new("sections").alias("section"), SECTIONS));
        let values: Vec<PossibleValue> = kinds.iter().map(|(value, _)| value.clone()).collect();
        PossibleValuesParser::new(values).map(move |word| {
            let found = kinds.iter().find(|(value, _)| value.matches(&word, false));
            found.map_or(SECTIONS, |(_, kind)| *kind)
        })
    }
}

/// Filters of items, as `list_items` has them.
#[derive(Debug, Clone, Default, clap::Args, Serialize)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterOptions {
    /// Only items of this epic
    #[arg(long, value_name = "ID", add = super::complete::epics())]
    pub(crate) epic: Option<String>,
    /// Only items of this user story
    #[arg(long, value_name = "ID", add = super::complete::stories())]
    #[serde(rename = "user_story")]
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
    #[serde(rename = "type")]
    pub(crate) requirement_type: Option<String>,
    /// Only items with this text in the title or the ID
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only items changed since this date or time (UTC), such as 2026-11-22
    #[arg(long, value_name = "TIME")]
    pub(crate) updated_since: Option<String>,
    /// Only items with this value of a custom field, such as risk=High; repeatable
    #[arg(
        long = "field",
        value_name = "FIELD=VALUE",
        value_parser = parse_assignment,
        add = super::complete::assignments(false)
    )]
    #[serde(skip)]
    pub(crate) fields: Vec<(String, String)>,
}

impl FilterOptions {
    /// The arguments of `list_items`.
    pub(crate) fn arguments(&self, kind: &str) -> Value {
        let mut arguments = json!(self);
        if let Value::Object(given) = &mut arguments {
            given.retain(|_, value| !value.is_null() && *value != json!([]));
        }
        arguments["kind"] = json!(kind);
        for (name, text) in &self.fields {
            let value = &mut arguments["fields"][name];
            *value = match value.take() {
                Value::Null => json!(text),
                Value::Array(values) => values.into_iter().chain([json!(text)]).collect(),
                // Several values of one field, which only tags can have.
                first => json!([first, text]),
            };
        }
        arguments
    }
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
pub(crate) struct ListOptions {
    /// The kind of items [default: epics; with --epic stories, with --story requirements]
    #[arg(value_parser = ListKind::parser(), value_name = "KIND")]
    kind: Option<ListKind>,
    /// The kind of items, as an alternative to KIND
    #[arg(
        long = "kind",
        value_parser = ListKind::parser(),
        value_name = "KIND",
        hide_possible_values = true
    )]
    named_kind: Option<ListKind>,
    /// Only stories that can be begun: they wait for no other one, and no other user has them
    #[arg(long, conflicts_with_all = [
        "kind", "named_kind", "sort", "status", "story", "tags", "priority", "requirement_type",
        "text", "updated_since", "fields",
    ])]
    ready: bool,
    /// Order: priority, updated, reference, title, status, assignee or a custom field; -updated:
    /// newest first
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
    #[arg(
        long,
        value_name = "STATUS",
        help_heading = "Filters",
        add = super::complete::statuses()
    )]
    status: Option<String>,
    #[command(flatten)]
    filters: FilterOptions,
    #[command(flatten)]
    project: ProjectOptions,
}

impl ListOptions {
    /// The named kind; without one, the items directly below the epic or user story of a filter.
    fn kind(&self) -> ListKind {
        let FilterOptions { epic, story, .. } = &self.filters;
        self.named_kind.or(self.kind).unwrap_or(ListKind::of_item(match (story, epic) {
            _ if self.ready => ItemKind::UserStory,
            (Some(_), _) => ItemKind::Requirement,
            (None, Some(_)) => ItemKind::UserStory,
            (None, None) => ItemKind::Epic,
        }))
    }
}

pub(crate) fn run(config: &AppConfig, options: &ListOptions) -> Result<u8> {
    let kind = options.kind();
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let mut arguments = options.filters.arguments(kind.name);
    for (name, value) in [("status", &options.status), ("sort", &options.sort)] {
        if let Some(value) = value {
            arguments[name] = json!(value);
        }
    }
    let has_filters = options.ready || arguments.as_object().is_some_and(|given| given.len() > 1);
    let listed = match kind {
        SECTIONS if has_filters => {
            let message = "list sections: sections have no filters and no order; omit them";
            return Err(CommandError::usage_error(message));
        }
        SECTIONS => list_sections(&client, options.limit)?,
        _ if options.ready => {
            let FilterOptions { epic, assignee, .. } = &options.filters;
            let mut arguments = json!({ "epic": epic, "assignee": assignee });
            // `none` lists the stories without an assignee only.
            if assignee.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("none")) {
                arguments["assignee"] = json!("");
            }
            fetch_items(&client, LIST_READY, arguments, options.limit)?
        }
        _ => fetch_items(&client, LIST_ITEMS, arguments, options.limit)?,
    };
    let schema = match kind {
        SECTIONS => RecordSchema::default(),
        _ if options.json => RecordSchema::default(),
        _ => client.record_schema()?,
    };
    // The connection ends before the output is read, which may take long.
    drop(client);
    if options.json {
        return match kind {
            SECTIONS => print_json(&sections_json(&listed)),
            _ => print_json(&listed),
        };
    }
    if options.csv || options.csv_bom {
        let fields = schema.fields.iter().filter(|field| kind.has_field(field));
        let names: Vec<&str> = fields.map(|field| &*field.name).collect();
        let mark = if options.csv_bom { BYTE_ORDER_MARK } else { "" };
        return write_stdout(&(mark.to_owned() + &items_csv(&listed.items, &names, clean_line)));
    }
    let screen = OutputScreen::of_stdout();
    let mut text = String::new();
    if !listed.items.is_empty() {
        text = items_table(&listed, kind, &schema).format(&screen) + "\n";
    }
    for line in summary(&listed, kind, has_filters, options.status.is_some()) {
        text += &screen.wrapped(&line, TextStyle::Plain);
    }
    screen.print(&text)
}

/// Reads pages of a tool until the end, or until `limit` items. The answer is that of one
/// page.
pub(crate) fn fetch_items(
    client: &ToolClient,
    (tool, page_items): (&str, u32),
    mut arguments: Value,
    limit: Option<u32>,
) -> Result<ListPage> {
    let limit = limit.unwrap_or(u32::MAX);
    let mut items = Vec::new();
    loop {
        let missing = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        arguments["limit"] = json!(missing.min(page_items));
        let mut page: ListPage = client.call(tool, arguments.clone())?;
        items.append(&mut page.items);
        match page.next_cursor.take() {
            Some(cursor) if items.len() < limit as usize => arguments["cursor"] = json!(cursor),
            _ => return Ok(ListPage { items, ..page }),
        }
    }
}

/// The sections in the list of AGENTS.md, as items.
fn list_sections(client: &ToolClient, limit: Option<u32>) -> Result<ListPage> {
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

fn items_table(listed: &ListPage, kind: ListKind, schema: &RecordSchema) -> TextTable {
    let custom = schema.fields.iter().filter(|field| field.views.contains(&FieldView::Column));
    let custom: Vec<(String, &str)> =
        custom.map(|field| (field.label.to_uppercase(), &*field.name)).collect();
    let labels: Vec<&str> = custom.iter().map(|(label, _)| &**label).collect();
    let mut headings = COLUMNS.map(|(heading, _)| heading).to_vec();
    headings.splice(CUSTOM_COLUMN..CUSTOM_COLUMN, labels.iter().copied());
    let optional = [&OPTIONAL[..], &labels].concat();
    let mut table = TextTable::new(&headings).with_optional(&optional).with_status("STATUS");
    for item in &listed.items {
        let mut cells = COLUMNS.map(|(_, text)| text(item)).to_vec();
        if kind != ENTITIES {
            cells[1].clear();
        }
        let values = custom.iter().map(|(_, name)| item.fields.get(*name));
        let values = values.map(|value| value.map(custom_value).unwrap_or_default());
        cells.splice(CUSTOM_COLUMN..CUSTOM_COLUMN, values);
        table.push(cells);
    }
    table.drop_empty_columns();
    table
}

/// The values of custom fields with their labels.
pub(crate) fn custom_texts<'s>(
    fields: impl IntoIterator<Item = &'s CustomField>,
    values: &BTreeMap<String, Value>,
) -> Vec<String> {
    let mut texts = Vec::new();
    for CustomField { name, label, .. } in fields {
        texts.extend(values.get(name).map(|value| custom_text(label, value)));
    }
    texts
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
            lines.push(format!("No {} {suffix}.", kind.words[1]));
        }
        return lines;
    }
    let count = listed.items.len();
    let mut text = if count < total { format!("{count} of ") } else { String::new() };
    text += &format!("{total} {}", kind.words[usize::from(total != 1)]);
    let mut separator = ": ";
    // The counts of all statuses would contradict a list of one.
    for (status, count) in listed.by_status.iter().filter(|_| !has_status) {
        text += &format!("{separator}{count} {}", clean_line(status));
        separator = ", ";
    }
    lines.insert(0, text);
    lines
}
