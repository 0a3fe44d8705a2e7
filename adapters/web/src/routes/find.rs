//! The options of the command palette: records, pages and actions for the text that a user types.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::routing::get;
use reqlore_domain::backlog::Reference;
use reqlore_domain::error::{ErrorKind, Result};
use reqlore_domain::name_form::fold_name;
use reqlore_domain::records::answers::search::{SearchAnswer, SearchResult};
use reqlore_domain::records::kinds::KINDS;
use serde_json::json;

use crate::config::WebConfig;
use crate::page::{PageFrame, PageSection, new_page, render};
use crate::page_error::PageResult;
use crate::session::PageSession;
use crate::snippet::{has_words, query_words};

/// Records of the palette, the best of [`SEARCHED_HITS`].
const MAX_HITS: usize = 8;
const SEARCHED_HITS: usize = 50;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/find", get(find))
}

#[derive(Template)]
#[template(path = "find.html")]
struct FoundOptions<'a> {
    frame: PageFrame,
    text: &'a str,
    /// The folded text.
    words: String,
    /// The words to mark.
    marked: Vec<String>,
    hits: Vec<SearchResult>,
    links: Vec<PaletteLink>,
    /// True if the server can search for the text.
    has_search: bool,
}

/// A page, or an action that begins on one.
struct PaletteLink {
    icon: &'static str,
    label: String,
    word: &'static str,
    url: String,
}

async fn find(session: PageSession) -> PageResult {
    // As a live refresh, the text of each key press is not recorded.
    session.take_audited();
    let session = session.with_schema().await?;
    let text = session.query.filled("q").unwrap_or_default();
    let mut hits = session.suggest_records(text, &[]).await?;
    hits.truncate(MAX_HITS);
    let frame = PageFrame::new(&session, PageSection::Other, "");
    let (mut links, words) = (links(&session, &frame), fold_name(text));
    links.retain(|link| has_words(&link.label, &words));
    let has_search = !text.is_empty() && session.has_tool("search_global");
    let marked = query_words(text);
    render(&FoundOptions { frame, text, words, marked, hits, links, has_search })
}

fn links(session: &PageSession, frame: &PageFrame) -> Vec<PaletteLink> {
    let mut links = Vec::new();
    for entry in frame.navigation.iter().copied().chain(frame.administration) {
        let (icon, label) = (entry.icon, entry.label.to_owned());
        links.push(PaletteLink { icon, label, word: "page", url: frame.url(entry.page) });
    }
    for (name, query) in session.schema.views() {
        let url = frame.url(&format!("board?{query}"));
        links.push(PaletteLink { icon: "board", label: name.to_owned(), word: "view", url });
    }
    if frame.creation.is_none() {
        return links;
    }
    for kind in KINDS.iter().filter(|kind| session.has_tool(kind.create_tool)) {
        let label = format!("Create {} …", kind.words[0]);
        let url = frame.url(&new_page([("kind", kind.name)]));
        links.push(PaletteLink { icon: "plus", label, word: "action", url });
    }
    links
}

impl PageSession {
    /// The records of these kinds, or of all, for a text that a user types: the one with this ID,
    /// those whose title begins with the text, those with its words in the title, then other items,
    /// rules and entities with its words, and last what has ended.
    pub(super) async fn suggest_records(
        &self,
        text: &str,
        kinds: &[&str],
    ) -> Result<Vec<SearchResult>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let arguments = json!({ "query": text, "entity_types": kinds, "limit": SEARCHED_HITS });
        let mut hits = match self.call_tool::<SearchAnswer>("suggest_records", arguments).await {
            Ok(answer) => answer.results,
            // The toolset is turned off.
            Err(error) if error.kind == ErrorKind::UnknownTool => Vec::new(),
            Err(error) => return Err(error),
        };
        hits.retain(|hit| !hit.uncertain);
        let text = fold_name(text);
        hits.sort_by_key(|hit| match &*hit.entity_type {
            _ if is_id(hit, &text) => 0,
            _ if hit.stale.is_some() => 6,
            _ if fold_name(&hit.title).starts_with(&text) => 1,
            _ if is_named(hit, &text) => 2,
            "section" => 4,
            "knowledge" => 5,
            _ => 3,
        });
        Ok(hits)
    }
}

/// True if the text is the ID of the hit, such as `REQ-048` or `req-48`. `text` is folded.
fn is_id(hit: &SearchResult, text: &str) -> bool {
    let id = Reference::from_document_name(&text.to_uppercase()).map(|id| id.to_string());
    hit.reference_id == id.unwrap_or_default() || fold_name(&hit.reference_id) == text
}

/// True if each word of the text begins a word of the ID or the title. `text` is folded.
pub(super) fn is_named(hit: &SearchResult, text: &str) -> bool {
    has_words(&format!("{} {}", hit.reference_id, hit.title), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{PageClient, check_names, with_hidden};

    const HOSTILE: &str = "<script>pay</script>";

    /// The labels of the options of the palette, in their order.
    async fn options(client: &PageClient, text: &str) -> Vec<String> {
        let page = client.get(&format!("/p/default/find?q={text}")).await;
        assert_eq!(page.status(), 200, "{}", page.body);
        assert!(!page.body.contains("<script>"), "{}", page.body);
        let labels = page.body.split("<bdi>").skip(1).map(|rest| {
            let label = rest.split_once("</bdi>").unwrap().0;
            label.replace("<mark>", "[").replace("</mark>", "]")
        });
        labels.collect()
    }

    fn client(tools: &[&'static str]) -> PageClient {
        PageClient::new(tools, |tool, arguments| {
            assert_eq!((tool, &arguments["limit"]), ("suggest_records", &json!(SEARCHED_HITS)));
            let hit = |id: &str, kind: &str, title: &str, snippet: &str| {
                json!({ "reference_id": id, "type": kind, "title": title, "status": null,
                        "score": 1, "uncertain": title == "Unsure", "snippet": snippet })
            };
            let results = [
                hit("dec-1", "knowledge", "On cards", "pay"),
                hit("general:1", "section", "general", "## Rule **pay** `now`"),
                hit("REQ-002", "requirement", "Cards", "to pay"),
                hit("US-009", "user_story", "Unsure", ""),
                hit("US-004", "user_story", "Guests who pay", ""),
                hit("US-003", "user_story", HOSTILE, ""),
                hit("US-002", "user_story", "Pay as a guest", ""),
                hit("US-001", "user_story", "Other", ""),
            ];
            Ok(json!({ "total": 7, "pending": 0, "signals": [], "results": results }))
        })
    }

    #[tokio::test]
    async fn palette_lists_titles_then_texts_rules_and_entities() {
        let client = client(&["suggest_records", "search_global"]);
        let expected = [
            "[Pay] as a guest",
            "Guests who [pay]",
            "&#60;script&#62;[pay]&#60;/script&#62;",
            "Cards",
            "Other",
            "Rule [pay] now",
            "On cards",
            "Search everything for “pay”",
        ];
        assert_eq!(options(&client, "pay").await, expected);
        for id in ["US-001", "us-1"] {
            assert_eq!(options(&client, id).await[0], "Other", "{id}");
        }
        let body = client.get("/p/default/find?q=pay").await.body;
        assert!(body.contains("href=\"/p/default/sections/general#1\""), "{body}");
        assert!(body.contains("tabindex=\"-1\" href=\"/p/default/item/US-002\""), "{body}");
    }

    #[tokio::test]
    async fn palette_lists_pages_and_actions_of_the_caller() {
        let tools = ["list_items", "create_epic", "create_user_story", "suggest_records"];
        let all = options(&client(&tools), "").await;
        let pages = ["Board", "Tree", "Table", "Create epic …"];
        assert_eq!(all[..4], pages, "{all:?}");
        assert_eq!(all[all.len() - 2..], ["Dark theme", "Sign out"]);
        let found = options(&client(&tools), "cr+st").await;
        assert_eq!(found.last().unwrap(), "Create user story …");
        let reader = client(&tools).with_access(reqlore_domain::identity::Access::Read);
        assert!(!options(&reader, "").await.contains(&"Create epic …".to_owned()));
    }

    #[tokio::test]
    async fn palette_encodes_hidden_characters_of_titles() {
        let client = PageClient::new(&["suggest_records"], |_, _| {
            let hit = json!({ "reference_id": "US-001", "type": "user_story", "title": HOSTILE,
                              "status": null, "score": 1, "snippet": "" });
            Ok(with_hidden(&json!({ "total": 1, "results": [hit] })))
        });
        check_names("find", &client.get("/p/default/find?q=a").await.body);
    }
}
