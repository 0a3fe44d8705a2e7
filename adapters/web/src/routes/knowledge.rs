//! The lists of knowledge entities and of docsets.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::routing::get;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::records::answers::docsets::{DocsetItem, DocsetList, ListedDocset};
use reqlore_domain::records::answers::lists::ListPage;
use reqlore_domain::records::answers::tags::{TagCount, TagReport};
use serde_json::json;

use crate::config::WebConfig;
use crate::page::{PageFrame, PageSection, new_page, render};
use crate::page_error::PageResult;
use crate::session::PageSession;

const PAGE_LIMIT: usize = 100;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/knowledge", get(list_entities))
        .route("/p/{project}/docsets", get(list_docsets))
}

#[derive(Template)]
#[template(path = "knowledge.html")]
struct KnowledgePage {
    frame: PageFrame,
    kinds: Vec<EntityKind>,
    kind: String,
    tag: String,
    text: String,
    tags: Vec<TagCount>,
    page: ListPage,
    /// The query of the next page; empty if there is none.
    next: String,
}

async fn list_entities(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    let query = &session.query;
    let kind = query.filled("kind");
    let list = json!({
        "kind": kind.unwrap_or("entity"),
        "tags": query.filled("tag").map(|tag| vec![tag]),
        "text": query.filled("q"),
        "sort": "-updated",
        "limit": PAGE_LIMIT,
        "cursor": query.filled("cursor"),
    });
    let page: ListPage = session.call_tool("list_items", list).await?;
    let tags: TagReport = session.call_tool("ixchel_tags", json!({ "kind": kind })).await?;
    let next = page.next_cursor.as_ref().map(|cursor| query.with("cursor", cursor));
    let mut frame = PageFrame::new(&session, PageSection::Knowledge, "Knowledge");
    if let Some(kind) = kind {
        frame = frame.with_creation(new_page([("kind", kind), ("tags", query.text("tag"))]));
    }
    render(&KnowledgePage {
        frame,
        kinds: EntityKind::all(),
        kind: kind.unwrap_or_default().to_owned(),
        tag: query.text("tag").to_owned(),
        text: query.text("q").to_owned(),
        tags: tags.tags.unwrap_or_default(),
        next: next.unwrap_or_default(),
        page,
    })
}

#[derive(Template)]
#[template(path = "docsets.html")]
struct DocsetPage {
    frame: PageFrame,
    docsets: Vec<DocsetItem>,
    notes: Vec<String>,
}

async fn list_docsets(session: PageSession) -> PageResult {
    let answer = match session.call_tool("list_docsets", json!({})).await {
        Ok(answer) => answer,
        // A project without a configuration has no docsets.
        Err(error) if error.kind == ErrorKind::NotFound => DocsetList::default(),
        Err(error) => return Err(error.into()),
    };
    let frame = PageFrame::new(&session, PageSection::Docsets, "Docsets");
    let (mut docsets, mut notes) = (Vec::new(), Vec::new());
    for docset in answer.docsets {
        match docset {
            ListedDocset::Usable(docset) => docsets.push(docset),
            ListedDocset::Faulty(docset) => notes.push(docset.error),
        }
    }
    render(&DocsetPage { frame, docsets, notes })
}
