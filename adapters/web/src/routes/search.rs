//! The search over items, requirement sections and knowledge.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::routing::get;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::records::answers::search::{SearchAnswer, SearchResult};
use serde_json::json;

use crate::config::WebConfig;
use crate::form_fields::{encode_component, encode_query};
use crate::item_lists::plural;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::PageResult;
use crate::session::PageSession;
use crate::snippet::{mark_words, plain_text, query_words};

const HIT_LIMIT: usize = 30;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/search", get(show_search))
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage<'a> {
    frame: PageFrame,
    text: &'a str,
    words: Vec<String>,
    answer: SearchAnswer,
    /// Kinds of results to choose from: label, query, and true for the selected one.
    kinds: Vec<(String, String, bool)>,
    /// The query of the next page; empty if there is none.
    next: String,
}

impl SearchPage<'_> {
    /// The passage of a hit, if it has a word of the query, or if the title has none.
    fn passage(&self, hit: &SearchResult) -> Option<String> {
        let has_word =
            |text: &str| mark_words(text, &self.words).iter().any(|(is_word, _)| *is_word);
        let passage = plain_text(&hit.snippet);
        let is_shown = passage != hit.title
            && !passage.is_empty()
            && (has_word(&passage) || !has_word(&hit.title));
        is_shown.then_some(passage)
    }

    /// The total of certain results, and the number of uncertain ones on the page, if any.
    fn counts(&self) -> String {
        let uncertain = self.answer.results.iter().filter(|hit| hit.uncertain).count();
        let mut counts = Vec::new();
        for (count, word) in [(self.answer.total, ""), (uncertain, "uncertain ")] {
            let noun = if count == 1 { "result" } else { "results" };
            counts.extend((count > 0).then(|| format!("{count} {word}{noun}")));
        }
        counts.join(" and ")
    }
}

pub(super) fn kind_name(hit: &SearchResult) -> &str {
    match (hit.kind.as_deref(), &*hit.entity_type) {
        (Some(kind), _) => kind,
        (None, "section") => "rule",
        (None, name) => ItemKind::from_name(name).map_or(name, |kind| kind.row().words[0]),
    }
}

/// The title, or the text of a rule, which has no title of its own.
pub(super) fn hit_title(hit: &SearchResult) -> String {
    if hit.entity_type == "section" { plain_text(&hit.snippet) } else { hit.title.clone() }
}

/// The page with the hit. The reference of a section is its key and the index in it.
pub(super) fn hit_page(hit: &SearchResult, frame: &PageFrame) -> String {
    match hit.reference_id.split_once(':') {
        Some((key, index)) if hit.entity_type == "section" => {
            let page = frame.url(&format!("sections/{}", encode_component(key)));
            format!("{page}#{}", encode_component(index))
        }
        _ => frame.item(&hit.reference_id),
    }
}

/// The types of `search_global` with their labels.
fn kind_choices() -> Vec<(&'static str, String)> {
    let items = ItemKind::ALL.iter().map(|kind| (kind.name(), plural(kind)));
    let others = [("section", "Rules".to_owned()), ("knowledge", "Knowledge".to_owned())];
    [("", "All".to_owned())].into_iter().chain(items).chain(others).collect()
}

async fn show_search(session: PageSession) -> PageResult {
    let session = session.with_schema().await?;
    let text = session.query.filled("q").unwrap_or_default();
    let kind = session.query.filled("kind");
    let mut answer = SearchAnswer::default();
    if !text.is_empty() {
        let cursor = session.query.filled("cursor");
        let arguments = json!({
            "query": text, "entity_types": kind.as_slice(), "limit": HIT_LIMIT, "cursor": cursor
        });
        answer = session.call_tool("search_global", arguments).await?;
    }
    let next = answer.next_cursor.as_ref().map(|cursor| session.query.with("cursor", cursor));
    let mut frame = PageFrame::new(&session, PageSection::Other, "Search");
    text.clone_into(&mut frame.search_text);
    let words = query_words(text);
    let kinds = kind_choices().into_iter().map(|(name, label)| {
        let query = encode_query([("q", text), ("kind", name)]);
        (label, query, kind.unwrap_or_default() == name)
    });
    let kinds = kinds.collect();
    render(&SearchPage { frame, text, words, answer, kinds, next: next.unwrap_or_default() })
}
