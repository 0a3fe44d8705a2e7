//! The tab of an item's versions, with the difference of two of them, and a deleted item's page.

use askama::Template;
use axum::extract::Path;
use reqlore_domain::records::answers::history::{HistoryAnswer, VersionRecord};
use reqlore_domain::timestamp::Timestamp;
use serde_json::json;

use crate::markdown::render_markdown;
use crate::page::{PageFrame, PageSection, capitalize, name_words, render};
use crate::page_error::{PageError, PageResult};
use crate::routes::item::frame::{ItemHeader, ItemTab, checked_text, read_item};
use crate::routes::item::version::{VersionDifference, VersionText};
use crate::session::PageSession;

pub(super) const PAGE_VERSIONS: usize = 50;

#[derive(Template)]
#[template(path = "item_history.html")]
struct HistoryPage {
    frame: PageFrame,
    header: ItemHeader,
    rows: Vec<VersionRow>,
    /// The versions to compare, as in the query.
    from: String,
    to: String,
    /// `None` without a choice in the query.
    difference: Option<VersionDifference>,
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
    /// The newest version on the page, or one with its text.
    is_present: bool,
}

/// The name of the tool that wrote a version, as words.
fn tool_words(record: &VersionRecord) -> String {
    capitalize(&name_words(record.tool.as_deref().unwrap_or_default()))
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
        let is_present = rows.first().is_none_or(|first| first.record.version == record.version);
        rows.push(VersionRow { record, previous: String::new(), is_from, is_to, is_present });
    }
    rows
}

pub(super) async fn show_history(
    session: PageSession,
    Path((_, id)): Path<(String, String)>,
) -> PageResult {
    let session = session.with_schema().await?;
    let (mut from, to) = (session.query.text("from").to_owned(), session.query.text("to"));
    let cursor = session.query.text("cursor");
    let list = json!({
        "reference": id,
        "limit": PAGE_VERSIONS,
        "cursor": session.query.filled("cursor"),
    });
    let mut history: HistoryAnswer = session.call_tool("get_history", list).await?;
    let shown = history.versions.len();
    if let Some(cursor) = &history.next_cursor {
        // The version that the last one on the page replaced.
        let list = json!({ "reference": id, "limit": 1, "cursor": cursor });
        let earlier: HistoryAnswer = session.call_tool("get_history", list).await?;
        history.versions.extend(earlier.versions);
    }
    let mut difference = None;
    let mut texts = history.versions.iter().filter(|record| !record.purged);
    let newest = texts.find_map(|record| record.version.as_deref());
    if session.is_static() && cursor.is_empty() {
        from = texts.find_map(|record| record.version.clone()).unwrap_or_default();
    }
    if let (false, Some(to)) = (from.is_empty(), session.query.filled("to").or(newest)) {
        let old = read_version(&session, &id, &from).await;
        // The page of a site was not asked for this comparison.
        if !session.is_static() || old.is_ok() {
            let new = read_version(&session, &id, to).await?;
            difference = Some(VersionDifference::new(old?, new));
        }
    }
    // A deleted item has only its history.
    let header = match read_item(&session, &id).await.map_err(PageError::from) {
        Ok(answer) => {
            let frame = crate::routes::item::frame::item_frame(&session, &answer.item);
            ItemHeader::new(&frame, &answer, ItemTab::History)
        }
        Err(PageError::NotFound) => ItemHeader::of_deleted(id, ItemTab::History),
        Err(error) => return Err(error),
    };
    let title = format!("History of {}", header.id);
    let mut rows = version_rows(history.versions, &from, to);
    rows.truncate(shown);
    render(&HistoryPage {
        frame: PageFrame::new(&session, PageSection::Board, title),
        header,
        rows,
        from,
        to: to.to_owned(),
        difference,
        notes: history.notes,
        cursor: cursor.to_owned(),
        next_cursor: history.next_cursor.unwrap_or_default(),
    })
}

async fn read_version(
    session: &PageSession,
    id: &str,
    version: &str,
) -> Result<VersionText, PageError> {
    let text = read_text(session, id, version).await?;
    Ok(VersionText::parse(id, &text, &session.schema.records))
}

#[derive(Template)]
#[template(path = "item_deleted.html")]
struct DeletedPage {
    frame: PageFrame,
    header: ItemHeader,
    deletion: VersionRecord,
    /// The time of the deletion in nanoseconds.
    change: i64,
    fields: Vec<(String, String)>,
    /// Sanitized.
    text: String,
}

/// The page of an item that has only a history, with its last text.
pub(super) async fn show_deleted(session: &PageSession, id: String) -> PageResult {
    let arguments = json!({ "reference": id, "limit": 2 });
    let history: HistoryAnswer = session.call_tool("get_history", arguments).await?;
    let mut versions = history.versions.into_iter();
    // The history of a rule is that of its section, which may exist.
    let Some(deletion) = versions.next().filter(|record| record.version.is_none()) else {
        return Err(PageError::NotFound);
    };
    let last = versions.next().filter(|record| !record.purged).and_then(|record| record.version);
    let mut last = match last {
        Some(version) => read_version(session, &id, &version).await?,
        None => VersionText::default(),
    };
    let text = render_markdown(&last.body, 2, &checked_text(session, &id, &last.body).await);
    let mut header = ItemHeader::of_deleted(id, ItemTab::Text);
    if let Some(title) = last.fields.iter().position(|(label, _)| label == "Title") {
        header.title = last.fields.remove(title).1;
    }
    render(&DeletedPage {
        frame: PageFrame::new(session, PageSection::Board, format!("{} (deleted)", header.id)),
        header,
        change: Timestamp::parse(&deletion.at).unwrap_or_default().0,
        deletion,
        fields: last.fields,
        text,
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
