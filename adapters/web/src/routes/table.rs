//! The table: items of a kind with filters and a sort order in the URL, also as CSV.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use reqlore_domain::records::answers::csv::{BYTE_ORDER_MARK, items_csv};
use reqlore_domain::records::answers::lists::ListPage;
use reqlore_domain::records::custom_field::FieldView;
use reqlore_domain::untrusted_text::encode_line;
use serde_json::json;

use crate::config::WebConfig;
use crate::item_lists::{FirstItem, ItemFilters};
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, PageResult};
use crate::session::PageSession;

/// About a full window of rows. A browser needs about a millisecond for each one.
const PAGE_LIMIT: usize = 25;
/// Rows of a CSV file, read in pages of [`CSV_PAGE_LIMIT`].
const MAX_CSV_ROWS: usize = 20_000;
const CSV_PAGE_LIMIT: usize = 1_000;

const PROGRESS: &str = "Progress";
/// The columns with the order that their first click selects; empty for those without an order.
const COLUMNS: [(&str, &str); 9] = [
    ("ID", "reference"),
    ("Title", "title"),
    ("Status", "status"),
    ("Priority", "priority"),
    ("Assignee", "assignee"),
    ("Parent", ""),
    ("Tags", ""),
    (PROGRESS, ""),
    ("Updated", "-updated"),
];

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/table", get(show_table))
        .route("/p/{project}/table.csv", get(export_csv))
}

#[derive(Template)]
#[template(path = "table.html")]
struct TablePage {
    frame: PageFrame,
    filters: ItemFilters,
    epic_titles: HashMap<String, String>,
    columns: Vec<TableColumn>,
    page: ListPage,
    /// The item to create first; `None` if the table has items.
    first_item: Option<FirstItem>,
    /// The query of the file with the same rows.
    csv: String,
    /// The query of the next page, and of the first; empty if there is none.
    next: String,
    first: String,
}

struct TableColumn {
    label: String,
    /// The query that sorts by this column; empty if it has no order.
    link: String,
    /// The value of `aria-sort`; empty if the rows are not sorted by this column.
    sort: &'static str,
}

async fn show_table(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    let query = &session.query;
    let mut filters = ItemFilters::parse(&session).await?;
    let mut page = list_page(&session, &filters, PAGE_LIMIT, query.filled("cursor")).await?;
    while page.total == 0
        && let Some(next) = filters.next_default(&session)
    {
        filters = next;
        page = list_page(&session, &filters, PAGE_LIMIT, None).await?;
    }
    let is_empty = page.total == 0 && !filters.is_active();
    let first_item = if is_empty { Some(session.first_item(filters.kind).await?) } else { None };
    let sort = query.filled("sort").unwrap_or("priority");
    let first = query.with("cursor", "");
    let mut orders = COLUMNS.to_vec();
    orders.retain(|(label, _)| *label != PROGRESS || filters.has_progress());
    for field in filters.fields_in(FieldView::Column) {
        let order = if field.views.contains(&FieldView::Sort) { &*field.name } else { "" };
        // The time of the last change stays the last column.
        orders.insert(orders.len() - 1, (&field.label, order));
    }
    let mut columns = Vec::new();
    for (label, field) in orders {
        let opposite = match field.strip_prefix('-') {
            Some(ascending) => ascending.to_owned(),
            None => format!("-{field}"),
        };
        let is_sorted = !field.is_empty() && (sort == field || sort == opposite);
        let next_sort = if sort == field { &opposite } else { field };
        columns.push(TableColumn {
            label: label.to_owned(),
            link: if field.is_empty() { String::new() } else { query.sorted_by(next_sort) },
            sort: match (is_sorted, sort.starts_with('-')) {
                (false, _) => "",
                (true, false) => "ascending",
                (true, true) => "descending",
            },
        });
    }
    let next = page.next_cursor.as_ref().map(|cursor| query.with("cursor", cursor));
    let epic_titles = session.epic_titles(filters.kind).await.unwrap_or_default();
    render(&TablePage {
        frame: PageFrame::new(&session, PageSection::Table, "Table")
            .with_creation(filters.creation("")),
        filters,
        first_item,
        epic_titles,
        columns,
        page,
        next: next.unwrap_or_default(),
        csv: first.clone(),
        first: if query.filled("cursor").is_some() { first } else { String::new() },
    })
}

async fn list_page(
    session: &PageSession,
    filters: &ItemFilters,
    limit: usize,
    cursor: Option<&str>,
) -> Result<ListPage, PageError> {
    let mut additions = vec![("limit", json!(limit))];
    additions.extend(cursor.map(|cursor| ("cursor", json!(cursor))));
    additions.extend(session.query.filled("sort").map(|sort| ("sort", json!(sort))));
    Ok(session.list_items(filters.arguments(), &additions).await?)
}

async fn export_csv(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    let filters = ItemFilters::parse(&session).await?;
    let schema = &session.schema.records;
    let fields: Vec<&str> = schema.item_fields(filters.kind).map(|one| &*one.name).collect();
    let (mut items, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_CSV_ROWS / CSV_PAGE_LIMIT {
        let page = list_page(&session, &filters, CSV_PAGE_LIMIT, cursor.as_deref()).await?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let csv = items_csv(&items, &fields, |text| encode_line(text).into_owned());
    let name = format!("attachment; filename=\"{}.csv\"", filters.kind.name());
    let headers =
        [(CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, BYTE_ORDER_MARK.to_owned() + &csv).into_response())
}
