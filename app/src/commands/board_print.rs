//! `reqlore board --print`: prints a board with one column per status.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use reqlore_domain::records::custom_field::FieldView;
use reqlore_domain::records::schema::RecordSchema;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::list::{FilterOptions, ListKind, custom_texts, priority_name, progress_text};
use super::output::{OutputScreen, TextStyle, clean_line, pad, truncate};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient, configured_project};
use crate::commands::output::wrap_line;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

/// Outside of terminals.
const DEFAULT_WIDTH: usize = 120;
/// On a narrower screen, the columns are below each other.
const MIN_COLUMN: usize = 18;
const GAP: &str = "  ";
/// Before each line of a title, so that no title looks like another card.
const MARK: &str = "│ ";
const TITLE_LINES: usize = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct BoardPrintOptions {
    /// The kind of items: epics, stories or requirements
    #[arg(
        value_parser = ListKind::parser(),
        value_name = "KIND",
        default_value = "stories",
        hide_possible_values = true
    )]
    kind: ListKind,
    /// Maximum number of items per status
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    limit: u32,
    #[command(flatten)]
    filters: FilterOptions,
    #[command(flatten)]
    pub(super) project: ProjectOptions,
}

/// The items of one status, and the number of all with it.
struct BoardColumn<'s> {
    status: String,
    count: usize,
    cards: Vec<ListedItem>,
    schema: &'s RecordSchema,
}

impl BoardPrintOptions {
    fn item_kind(&self) -> Result<ItemKind> {
        let kind = ItemKind::from_name(self.kind.name).filter(|kind| kind.is_planned());
        kind.ok_or_else(|| {
            let message = "board: this kind has no board; use epics, stories or requirements";
            CommandError::usage_error(message)
        })
    }

    /// The path of the same board in a browser.
    pub(super) fn page(&self, config: &AppConfig) -> Result<String> {
        let kind = self.item_kind()?;
        if self.filters.arguments(kind.name()).as_object().is_some_and(|given| given.len() > 1) {
            let message = "board: filters need --print; without it, set them on the page";
            return Err(CommandError::usage_error(message));
        }
        let project = self.project.project.as_deref().unwrap_or(ProjectKey::DEFAULT);
        let project = configured_project(config, project)?;
        // The page has the same default.
        let query = match kind {
            ItemKind::UserStory => String::new(),
            kind => format!("?kind={}", kind.name()),
        };
        Ok(format!("/p/{project}/board{query}"))
    }
}

pub(crate) fn run(config: &AppConfig, options: &BoardPrintOptions) -> Result<u8> {
    let kind = options.item_kind()?;
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let mut columns = Vec::new();
    let schema = client.record_schema()?;
    let mut statuses = Vec::new();
    statuses.extend(schema.statuses(kind).iter().map(|status| status.name().to_owned()));
    while let Some(status) = statuses.get(columns.len()).cloned() {
        let mut arguments = options.filters.arguments(kind.name());
        arguments["status"] = json!(status);
        arguments["limit"] = json!(options.limit);
        let page: ListPage = client.call("list_items", arguments)?;
        // Items keep a status that the project no longer lists.
        for (name, _) in page.by_status {
            if !statuses.contains(&name) {
                statuses.push(name);
            }
        }
        columns.push(BoardColumn::new(&status, page.total, page.items, &schema));
    }
    drop(client);
    let screen = OutputScreen::of_stdout();
    let width = screen.width.unwrap_or(DEFAULT_WIDTH);
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    let column_width = width.saturating_sub(gaps) / columns.len().max(1);
    let text = if column_width < MIN_COLUMN {
        stacked_board(&columns, width, &screen)
    } else {
        board_rows(&columns, column_width, &screen)
    };
    screen.print(&format!("{}\n", text.trim_end()))
}

/// The columns below each other, without the empty ones.
fn stacked_board(columns: &[BoardColumn<'_>], width: usize, screen: &OutputScreen) -> String {
    let mut text = String::new();
    for column in columns {
        if column.count == 0 {
            continue;
        }
        for (line, style) in column.lines(width) {
            text += &screen.paint(style, &line);
            text += "\n";
        }
        text += "\n";
    }
    if text.is_empty() { "The board is empty.\n".to_owned() } else { text }
}

/// The columns next to each other.
fn board_rows(columns: &[BoardColumn<'_>], width: usize, screen: &OutputScreen) -> String {
    let columns: Vec<_> = columns.iter().map(|column| column.lines(width)).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or_default();
    let mut text = String::new();
    for row in 0..height {
        let mut line = String::new();
        let mut is_first = true;
        let mut spaces = String::new();
        for column in &columns {
            let empty = (String::new(), TextStyle::Plain);
            let (cell, style) = column.get(row).unwrap_or(&empty);
            if !is_first {
                spaces += GAP;
            }
            is_first = false;
            let padded = pad(cell, width);
            if !cell.is_empty() {
                line += &std::mem::take(&mut spaces);
                line += &screen.paint(*style, cell);
            }
            spaces += &padded[cell.len()..];
        }
        text += &line;
        text += "\n";
    }
    text
}

impl<'s> BoardColumn<'s> {
    fn new(status: &str, count: usize, cards: Vec<ListedItem>, schema: &'s RecordSchema) -> Self {
        Self { status: clean_line(status), count, cards, schema }
    }

    /// The heading, and each card with its facts and title.
    fn lines(&self, width: usize) -> Vec<(String, TextStyle)> {
        let heading = truncate(&format!("{} ({})", self.status, self.count), width);
        let mut lines = vec![(heading, TextStyle::Bold), ("─".repeat(width), TextStyle::Dim)];
        for card in &self.cards {
            let mut facts = vec![
                clean_line(&card.reference_id),
                priority_name(card.priority).to_owned(),
                progress_text(card),
                clean_line(card.assignee_username.as_deref().unwrap_or_default()),
            ];
            let custom = self.schema.fields.iter();
            let custom = custom.filter(|field| field.views.contains(&FieldView::Card));
            facts.extend(custom_texts(custom, &card.fields).iter().map(|text| clean_line(text)));
            facts.retain(|fact| !fact.is_empty());
            lines.push((truncate(&facts.join(" "), width), TextStyle::Cyan));
            let mut title = wrap_line(&clean_line(&card.title), width.saturating_sub(MARK.width()));
            if title.len() > TITLE_LINES {
                title.truncate(TITLE_LINES);
                if let Some(last) = title.last_mut() {
                    *last += " …";
                }
            }
            for line in title {
                lines.push((truncate(&format!("{MARK}{line}"), width), TextStyle::Plain));
            }
            lines.push((String::new(), TextStyle::Plain));
        }
        let more = self.count.saturating_sub(self.cards.len());
        if more > 0 {
            lines.push((truncate(&format!("and {more} more"), width), TextStyle::Dim));
        }
        lines
    }
}
