//! The tab of an item's versions, with the word difference of two of them.

use std::time::Instant;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use reqlore_domain::records::answers::history::{HistoryAnswer, VersionRecord};
use reqlore_domain::word_diff::{DiffPart, TIME_LIMIT, compare_texts};
use serde_json::json;

use crate::page::{PageFrame, PageSection, render};
use crate::page_error::PageError;
use crate::routes::item::frame::{ItemHeader, ItemTab, read_item};
use crate::session::PageSession;

const PAGE_VERSIONS: usize = 50;

#[derive(Template)]
#[template(path = "item_history.html")]
struct HistoryPage {
    frame: PageFrame,
    header: ItemHeader,
    rows: Vec<VersionRow>,
    /// The versions to compare, as in the query.
    from: String,
    to: String,
    difference: Vec<DiffPart>,
    notes: Vec<String>,
    /// The cursors of this page, empty for the first, and of the next page.
    cursor: String,
    next_cursor: String,
}

/// A row of the table of versions.
struct VersionRow {
    record: VersionRecord,
    /// The version that this one replaced, empty if it is not on the page.
    previous: String,
    is_from: bool,
    is_to: bool,
}

/// Builds the rows. Without a choice in the query, the newest two are selected.
fn version_rows(records: Vec<VersionRecord>, from: &str, to: &str) -> Vec<VersionRow> {
    let mut rows: Vec<VersionRow> = Vec::with_capacity(records.len());
    for (number, record) in records.into_iter().enumerate() {
        let version = record.version.as_deref().unwrap_or_default();
        // A version without a text can't be compared.
        if !version.is_empty() && !record.purged {
            for newer in rows.iter_mut().rev().take_while(|newer| newer.previous.is_empty()) {
                version.clone_into(&mut newer.previous);
            }
        }
        let is_from = if from.is_empty() { number == 1 } else { version.starts_with(from) };
        let is_to = if to.is_empty() { number == 0 } else { version.starts_with(to) };
        rows.push(VersionRow { record, previous: String::new(), is_from, is_to });
    }
    rows
}

pub(super) async fn show_history(
    session: PageSession,
    Path((_, id)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let (from, to) = (session.query.text("from"), session.query.text("to"));
    let cursor = session.query.text("cursor");
    let list = json!({
        "reference": id,
        "limit": PAGE_VERSIONS,
        "cursor": session.query.filled("cursor"),
    });
    let history: HistoryAnswer = session.call_tool("get_history", list).await?;
    let mut difference = Vec::new();
    let newest = history.versions.iter().find_map(|record| record.version.as_deref());
    if let (false, Some(to)) = (from.is_empty(), session.query.filled("to").or(newest)) {
        let (old, new) =
            (read_text(&session, &id, from).await?, read_text(&session, &id, to).await?);
        difference = compare_texts(&old, &new, Instant::now() + TIME_LIMIT);
    }
    // A deleted item has only its history.
    let header = match read_item(&session, &id).await {
        Ok((answer, parents)) => {
            let frame = crate::routes::item::frame::item_frame(&session, &answer.item);
            ItemHeader::new(&frame, &answer, parents, ItemTab::History)
        }
        Err(PageError::NotFound) => ItemHeader::of_deleted(id),
        Err(error) => return Err(error),
    };
    let title = format!("History of {}", header.id);
    render(&HistoryPage {
        frame: PageFrame::new(&session, PageSection::Board, title),
        header,
        rows: version_rows(history.versions, from, to),
        from: from.to_owned(),
        to: to.to_owned(),
        difference,
        notes: history.notes,
        cursor: cursor.to_owned(),
        next_cursor: history.next_cursor.unwrap_or_default(),
    })
}

/// The text of one version.
pub(super) async fn read_text(
    session: &PageSession,
    id: &str,
    version: &str,
) -> Result<String, PageError> {
    let arguments = json!({ "reference": id, "version": version });
    let answer: HistoryAnswer = session.call_tool("get_history", arguments).await?;
    Ok(answer.text.unwrap_or_default())
}
