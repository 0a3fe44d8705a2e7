//! Suggestions for fields that name items, users or tags, and the lookup of an item by its title.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use reqlore_domain::backlog::reference::ParsedReference;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use reqlore_domain::records::answers::search::SearchAnswer;
use serde::Serialize;
use serde_json::json;

use crate::config::WebConfig;
use crate::form_fields::join_list;
use crate::page_error::PageError;
use crate::session::PageSession;

const MAX_CHOICES: usize = 10;
/// Items that are read to find those with all words of a text.
const MAX_FOUND: usize = 100;
/// Items of each kind that are read for the users and tags in use.
const MAX_USES: usize = 1_000;
/// Candidates that an error names.
const MAX_CANDIDATES: usize = 5;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/pick", get(suggest_values))
}

/// A suggestion: the text for the field, and what users see.
#[derive(Serialize)]
struct Choice {
    value: String,
    id: String,
    title: String,
}

impl Choice {
    fn of_item(id: &str, title: &str) -> Self {
        Self { value: format!("{id} {title}"), id: id.to_owned(), title: title.to_owned() }
    }
}

/// The values that a text begins, for a field of this kind: `user`, `tag`, `any` or that of items.
async fn suggest_values(session: PageSession) -> Result<Response, PageError> {
    let text = session.query.filled("q").unwrap_or_default();
    let choices = match session.query.text("kind") {
        "user" => {
            let assignees = |item: ListedItem| item.assignee_username.into_iter().collect();
            session.used_values(text, session.user_names().await, assignees)
        }
        "tag" => session.used_values(text, Vec::new(), |item| item.tags),
        "any" => return Ok(Json(session.search_choices(text).await?).into_response()),
        kind => {
            let found = session.find_by_words(kind, text).await?;
            let choice = |item: &ListedItem| Choice::of_item(&item.reference_id, &item.title);
            let choices: Vec<_> = found.iter().take(MAX_CHOICES).map(choice).collect();
            return Ok(Json(choices).into_response());
        }
    };
    Ok(Json(choices.await).into_response())
}

impl PageSession {
    /// The items of a kind whose IDs and titles have all words, those that begin so first.
    async fn find_by_words(&self, kind: &str, text: &str) -> Result<Vec<ListedItem>> {
        let text = text.to_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let longest = words.iter().max_by_key(|word| word.len());
        let arguments = json!({ "kind": kind, "text": longest, "limit": MAX_FOUND });
        let mut items = self.call_tool::<ListPage>("list_items", arguments).await?.items;
        let names =
            |item: &ListedItem| format!("{} {}", item.reference_id, item.title).to_lowercase();
        items.retain(|item| words.iter().all(|word| names(item).contains(word)));
        items.sort_by_key(|item| {
            !names(item).starts_with(&text) && !item.title.to_lowercase().starts_with(&text)
        });
        Ok(items)
    }

    async fn search_choices(&self, text: &str) -> Result<Vec<Choice>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let arguments = json!({ "query": text, "limit": MAX_CHOICES });
        let answer: SearchAnswer = self.call_tool("search_global", arguments).await?;
        let hits = answer.results.iter().filter(|hit| hit.entity_type != "section");
        let choice =
            |id: &str, title: &str| Choice { value: id.to_owned(), ..Choice::of_item(id, title) };
        Ok(hits.map(|hit| choice(&hit.reference_id, &hit.title)).collect())
    }

    /// The caller, and for administrators all users.
    async fn user_names(&self) -> Vec<String> {
        let mut names = vec![self.caller.name.to_string()];
        if self.is_administrator()
            && let Ok((admin, request)) = self.administration().await
        {
            let users = admin.users(request).await.unwrap_or_default();
            names.extend(users.iter().map(|user| user.name.to_string()));
        }
        names
    }

    /// Known values and those of the items that changed last, the most frequent first.
    async fn used_values(
        &self,
        text: &str,
        known: Vec<String>,
        values_of: fn(ListedItem) -> Vec<String>,
    ) -> Vec<Choice> {
        let mut uses: BTreeMap<String, usize> = known.into_iter().map(|value| (value, 0)).collect();
        for kind in ["epic", "user_story", "requirement", "entity"] {
            let arguments = json!({ "kind": kind, "sort": "-updated", "limit": MAX_USES });
            // A server may have no backlog or no knowledge.
            let page: ListPage = self.call_tool("list_items", arguments).await.unwrap_or_default();
            for value in page.items.into_iter().flat_map(values_of) {
                *uses.entry(value).or_default() += 1;
            }
        }
        let text = text.to_lowercase();
        let mut found: Vec<_> =
            uses.into_iter().filter(|(value, _)| value.to_lowercase().contains(&text)).collect();
        found.sort_by_key(|(value, count)| {
            (!value.to_lowercase().starts_with(&text), usize::MAX - count)
        });
        let choice = |(value, count): (String, usize)| Choice {
            value: join_list(&[&value]),
            title: value,
            id: count.to_string(),
        };
        found.into_iter().take(MAX_CHOICES).map(choice).collect()
    }

    /// The ID of the item that a user names by its ID, its ID and title, or its title. A text that
    /// names none stays for the tool, whose error says the form of an ID.
    pub(crate) async fn find_id(&self, kind: ItemKind, field: &str, text: &str) -> Result<String> {
        let text = text.trim();
        let first = text.split_whitespace().next().unwrap_or_default();
        if Reference::parse_any_case(kind, first) != ParsedReference::Malformed {
            return Ok(first.to_owned());
        }
        if text.is_empty() {
            return Ok(String::new());
        }
        let found = self.find_by_words(kind.name(), text).await.unwrap_or_default();
        let is_same = |item: &&ListedItem| item.title.to_lowercase() == text.to_lowercase();
        let mut candidates: Vec<&ListedItem> = found.iter().filter(is_same).collect();
        match &candidates[..] {
            [only] => return Ok(only.reference_id.clone()),
            [] if found.is_empty() => return Ok(text.to_owned()),
            [] => candidates = found.iter().collect(),
            _ => {}
        }
        candidates.truncate(MAX_CANDIDATES);
        let name = |item: &&ListedItem| format!("{} {}", item.reference_id, item.title);
        let names: Vec<String> = candidates.iter().map(name).collect();
        let message = format!(
            "{field}: {:?} is not the title of exactly one {}; use an ID, such as of {}",
            truncate_echo(text),
            kind.row().words[0],
            names.join(", ")
        );
        Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::test_support::PageClient;

    fn client() -> PageClient {
        PageClient::new(&["list_items", "search_global", "create_user_story"], |tool, arguments| {
            if tool == "search_global" {
                let hit = |id: &str, kind: &str| {
                    json!({ "reference_id": id, "type": kind, "title": "T", "status": null,
                            "score": 1, "snippet": "" })
                };
                let results = [hit("US-001", "user_story"), hit("core:1", "section")];
                return Ok(json!({ "total": 2, "pending": 0, "signals": [], "results": results }));
            }
            if tool != "list_items" {
                assert_eq!(arguments["epic"], "EP-003");
                return Ok(json!({ "reference_id": "US-001" }));
            }
            let item = |id: &str, title: &str, tag: &str| {
                json!({ "reference_id": id, "kind": "epic", "title": title, "version": "0",
                        "tags": [tag, "a, b"], "assignee_username": "ada" })
            };
            let items = [
                item("EP-001", "Ship the order", "pay"),
                item("EP-002", "Order history", "shop"),
                item("EP-003", "Checkout", "shop"),
                item("EP-004", "Checkout of guests <b>", "shop"),
                item("EP-005", "Order history", "shop"),
            ];
            let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default();
            let found = items
                .into_iter()
                .filter(|item| item["title"].as_str().unwrap().to_lowercase().contains(text));
            Ok(json!({ "items": found.collect::<Vec<_>>(), "total": 1 }))
        })
    }

    async fn picked(query: &str) -> Vec<String> {
        let page = client().get(&format!("/p/default/pick?{query}")).await;
        let choices: Vec<Value> = serde_json::from_str(&page.body).unwrap();
        choices.iter().map(|choice| choice["value"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test]
    async fn pick_finds_words_in_any_order_and_beginnings_first() {
        let expected = ["EP-002 Order history", "EP-005 Order history", "EP-001 Ship the order"];
        assert_eq!(picked("kind=epic&q=order").await, expected);
        assert_eq!(picked("kind=epic&q=ORDER+ship").await, ["EP-001 Ship the order"]);
        assert_eq!(picked("kind=tag&q=").await, ["\"a, b\"", "shop", "pay"]);
        assert_eq!(picked("kind=user&q=ad").await, ["ada"]);
        assert_eq!(picked("kind=any&q=x").await, ["US-001"]);
        assert_eq!(picked("kind=any").await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn form_accepts_the_title_of_one_item() {
        for epic in ["checkout", "EP-003", "EP-003+Checkout+of+old"] {
            let form = format!("kind=user_story&title=Pay&epic={epic}");
            let created = client().post("/p/default/new", &form).await;
            assert_eq!(created.status(), 303, "{epic}: {}", created.body);
        }
        for (epic, candidates) in
            [("order+history", "EP-002 Order history, EP-005"), ("guests", "EP-004 Checkout")]
        {
            let form = format!("kind=user_story&title=Pay&epic={epic}");
            let refused = client().post("/p/default/new", &form).await;
            assert_eq!(refused.status(), 422, "{epic}");
            let error = refused.body.split_once("id=\"epic-error\">").unwrap().1;
            assert!(error.contains(candidates) && !error.contains("<b>"), "{error}");
        }
    }
}
