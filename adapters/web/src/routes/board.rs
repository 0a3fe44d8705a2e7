//! The board: items in columns by status, and the move of an item to another column or position.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use reqlore_domain::backlog::{ItemKind, Reference, Status};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::lists::ListedItem;
use reqlore_domain::timestamp::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::{FormFields, accepts_json};
use crate::item_lists::{FirstItem, ItemFilters};
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageResult, error_status, public_message};
use crate::routes::undo::{change_text, with_notice};
use crate::session::{PageSession, local_target};

/// Cards of a column, and those that each "show more" adds.
const COLUMN_LIMIT: usize = 50;
const MAX_COLUMN_LIMIT: usize = 1_000;
/// Maximum number of columns of statuses that the project does not list. Each is a list of its own.
const MAX_OTHER_STATUSES: usize = 20;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/board", get(show_board))
        .route("/p/{project}/move", get(show_move).post(move_item))
}

#[derive(Template)]
#[template(path = "board.html")]
struct BoardPage {
    frame: PageFrame,
    filters: ItemFilters,
    epic_titles: HashMap<String, String>,
    columns: Vec<BoardColumn>,
    total: u64,
    /// The item to create first; `None` if the board has items.
    first: Option<FirstItem>,
}

struct BoardColumn {
    status: String,
    count: u64,
    items: Vec<ListedItem>,
    /// The query of the board with more cards in this column; empty if all are shown.
    more: String,
}

async fn show_board(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    let mut filters = ItemFilters::parse(&session).await?;
    let (mut columns, mut total) = read_columns(&session, &filters).await?;
    while total == 0
        && let Some(next) = filters.next_default(&session)
    {
        filters = next;
        (columns, total) = read_columns(&session, &filters).await?;
    }
    let is_empty = total == 0 && !filters.is_active();
    let first = if is_empty { Some(session.first_item(filters.kind).await?) } else { None };
    let epic_titles = session.epic_titles(filters.kind).await.unwrap_or_default();
    render(&BoardPage {
        frame: PageFrame::new(&session, PageSection::Board, "Board")
            .with_creation(filters.creation("")),
        filters,
        epic_titles,
        columns,
        total,
        first,
    })
}

/// The columns of a board and the number of their items.
async fn read_columns(
    session: &PageSession,
    filters: &ItemFilters,
) -> Result<(Vec<BoardColumn>, u64)> {
    let query = &session.query;
    let arguments = filters.arguments();
    let mut statuses = VecDeque::from(filters.statuses());
    if !filters.status.is_empty() {
        statuses = [filters.status.clone()].into();
    }
    let mut columns: Vec<BoardColumn> = Vec::new();
    let mut total = 0;
    while let Some(status) = statuses.pop_front() {
        let parameter = format!("show-{}", status.replace(' ', ""));
        let shown = query.text(&parameter).parse().unwrap_or(COLUMN_LIMIT);
        let limit = shown.clamp(1, MAX_COLUMN_LIMIT);
        let additions = [("status", json!(status)), ("limit", json!(limit))];
        let page = session.list_items(arguments.clone(), &additions).await?;
        if columns.is_empty() && filters.status.is_empty() {
            // Items may have statuses that the project does not list.
            let known = |name: &String| *name == status || statuses.contains(name);
            let mut others: Vec<String> = page.by_status.keys().cloned().collect();
            others.retain(|name| !known(name) && page.count(name) > 0);
            others.truncate(MAX_OTHER_STATUSES);
            statuses.extend(others);
        }
        let count = page.count(&status);
        total += count;
        let more = match page.next_cursor {
            Some(_) => query.with(&parameter, &(limit + COLUMN_LIMIT).to_string()),
            None => String::new(),
        };
        columns.push(BoardColumn { status, count, items: page.items, more });
    }
    Ok((columns, total))
}

#[derive(Template)]
#[template(path = "move.html")]
struct MovePage<'a> {
    frame: PageFrame,
    item: &'a str,
    version: &'a str,
    next: &'a str,
    /// The items before and after it in its column; empty if there is none.
    above: &'a str,
    below: &'a str,
    statuses: Vec<Status>,
    error: &'a str,
}

/// The menu of a card as a page, for browsers without scripts.
async fn show_move(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    move_page(&session, &session.query, "")
}

fn move_page(session: &PageSession, fields: &FormFields, error: &str) -> PageResult {
    let item = fields.text("item");
    let kind = item_kind(item)?;
    let board = format!("{}?kind={}", session.url("board"), kind.name());
    render(&MovePage {
        frame: PageFrame::new(session, PageSection::Board, format!("Move {item}")),
        item,
        version: fields.text("version"),
        next: fields.filled("next").map_or(&board, |next| local_target(&session.config, next)),
        above: fields.text("above"),
        below: fields.text("below"),
        statuses: session.schema.records.statuses(kind),
        error,
    })
}

async fn move_item(headers: HeaderMap, form: PostedForm) -> PageResult {
    let PostedForm { session, fields } = form;
    match update_item(&session, &fields).await {
        Ok((UpdateAnswer { version, notes }, change)) => {
            let item = fields.text("item");
            let notes = notes.join("; ");
            let name = if notes.is_empty() { item.to_owned() } else { format!("{item} ({notes})") };
            if accepts_json(&headers) {
                let change = change_text(change);
                let answer = json!({ "version": version, "notes": notes, "change": change });
                return Ok(axum::Json(answer).into_response());
            }
            let target = local_target(&session.config, fields.text("next"));
            let target = with_notice(target, "moved", &name, change);
            Ok(Redirect::to(&target).into_response())
        }
        Err(error) => {
            let (status, _) = error_status(error.kind);
            let message = explain_failure(&error, fields.text("item"));
            if accepts_json(&headers) {
                return Ok((status, axum::Json(json!({ "message": message }))).into_response());
            }
            let page = move_page(&session.with_schema().await?, &fields, &message)?;
            Ok((status, page).into_response())
        }
    }
}

fn explain_failure(error: &Error, item: &str) -> String {
    if error.kind == ErrorKind::Conflict {
        return format!("{item} was changed in the meantime and not moved; load the board again");
    }
    public_message(error).into_owned()
}

#[derive(Deserialize)]
struct UpdateAnswer {
    version: String,
    #[serde(default)]
    notes: Vec<String>,
}

/// Returns the new version, and the time of the change.
async fn update_item(
    session: &PageSession,
    fields: &FormFields,
) -> Result<(UpdateAnswer, Option<Timestamp>)> {
    let item = fields.text("item");
    let kind = item_kind(item)?;
    let mut arguments = Map::from_iter([(kind.name().to_owned(), json!(item))]);
    for (argument, field) in [("status", "status"), ("rank", "rank"), ("if_version", "version")] {
        arguments.insert(argument.to_owned(), json!(fields.filled(field)));
    }
    let tool = format!("update_{}", kind.name());
    session.change(&tool, Value::Object(arguments)).await
}

fn item_kind(reference: &str) -> Result<ItemKind> {
    match Reference::parse(reference) {
        Some(reference) if !reference.kind.statuses().is_empty() => Ok(reference.kind),
        _ => Err(Error::new(ErrorKind::NotFound, "Item not found")),
    }
}
