//! The search over items, requirement sections and knowledge.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use reqlore_domain::backlog::ItemKind;
use serde::Deserialize;
use serde_json::json;

use crate::config::WebConfig;
use crate::form_fields::encode_component;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::PageError;
use crate::session::PageSession;

const HIT_LIMIT: usize = 30;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/search", get(show_search))
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage<'a> {
    frame: PageFrame,
    text: &'a str,
    answer: SearchAnswer,
    /// The query of the next page; empty if there is none.
    next: String,
}

#[derive(Default, Deserialize)]
struct SearchAnswer {
    total: usize,
    results: Vec<SearchResult>,
    next_cursor: Option<String>,
    /// Texts that are not indexed yet.
    #[serde(default)]
    pending: usize,
}

#[derive(Deserialize)]
struct SearchResult {
    reference_id: String,
    #[serde(rename = "type")]
    entity_type: String,
    kind: Option<String>,
    title: String,
    status: Option<String>,
    #[serde(default)]
    uncertain: bool,
    snippet: String,
}

impl SearchResult {
    fn kind_name(&self) -> &str {
        match (self.kind.as_deref(), self.entity_type.as_str()) {
            (Some(kind), _) => kind,
            (None, name) => ItemKind::from_name(name).map_or(name, |kind| kind.row().words[0]),
        }
    }

    /// The snippet without the marks of Markdown that disturb in a line.
    fn plain_snippet(&self) -> String {
        self.snippet.replace("**", "").replace('`', "")
    }

    /// The page with the hit. The reference of a section is its key and the index in it.
    fn page(&self, frame: &PageFrame) -> String {
        match self.reference_id.split_once(':') {
            Some((key, index)) if self.entity_type == "section" => {
                let page = frame.url(&format!("sections/{}", encode_component(key)));
                format!("{page}#{}", encode_component(index))
            }
            _ => frame.item(&self.reference_id),
        }
    }
}

async fn show_search(session: PageSession) -> Result<Response, PageError> {
    let text = session.query.filled("q").unwrap_or_default();
    let mut answer = SearchAnswer::default();
    if !text.is_empty() {
        let cursor = session.query.filled("cursor");
        let arguments = json!({ "query": text, "limit": HIT_LIMIT, "cursor": cursor });
        answer = session.call_tool("search_global", arguments).await?;
    }
    let next = answer.next_cursor.as_ref().map(|cursor| session.query.with("cursor", cursor));
    let mut frame = PageFrame::new(&session, PageSection::Other, "Search");
    text.clone_into(&mut frame.search_text);
    render(&SearchPage { frame, text, answer, next: next.unwrap_or_default() })
}
