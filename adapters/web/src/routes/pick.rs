//! Suggestions for fields that name items, users or tags, and the lookup of an item by its title.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::routing::get;
use reqlore_domain::backlog::reference::ParsedReference;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::name_form::fold_name;
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use reqlore_domain::records::answers::search::SearchResult;
use serde_json::json;

use crate::config::WebConfig;
use crate::form_fields::join_list;
use crate::page::render;
use crate::page_error::PageResult;
use crate::routes::find::is_named;
use crate::session::PageSession;

const MAX_CHOICES: usize = 10;
/// Items that are read to find those with all words of a text.
const MAX_FOUND: usize = 100;
/// Items of each kind that are read for the users and tags in use.
const MAX_USES: usize = 200;
/// Candidates that an error names.
const MAX_CANDIDATES: usize = 5;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/pick", get(suggest_values))
}

#[derive(Template)]
#[template(path = "pick.html")]
struct Suggestions {
    choices: Vec<Choice>,
}

/// A suggestion: the text for the field, and what users see.
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
async fn suggest_values(session: PageSession) -> PageResult {
    // As a live refresh, the text of each key press is not recorded.
    session.take_audited();
    let text = session.query.filled("q").unwrap_or_default();
    let choices = match session.query.text("kind") {
        "user" => {
            let assignees = session.used_values(|item| item.assignee_username).await;
            let users = session.user_names().await.into_iter().map(|name| (name, 0));
            value_choices(text, users.chain(assignees))
        }
        "tag" if text.is_empty() => {
            value_choices(text, session.used_values(|item| item.tags).await)
        }
        "tag" => {
            let hits = session.suggest_records(text, &[]).await?;
            value_choices(text, hits.into_iter().flat_map(|hit| hit.tags).map(|tag| (tag, 1)))
        }
        "any" => {
            let mut hits = session.suggest_records(text, &[]).await?;
            hits.retain(|hit| hit.entity_type != "section");
            let choice = |hit: &SearchResult| Choice {
                value: hit.reference_id.clone(),
                ..Choice::of_item(&hit.reference_id, &hit.title)
            };
            hits.iter().take(MAX_CHOICES).map(choice).collect()
        }
        kind if text.is_empty() => {
            let arguments = json!({ "kind": kind, "limit": MAX_CHOICES });
            let page: ListPage = session.call_tool("list_items", arguments).await?;
            let choice = |item: &ListedItem| Choice::of_item(&item.reference_id, &item.title);
            page.items.iter().map(choice).collect()
        }
        kind => {
            let (mut hits, text) = (session.suggest_records(text, &[kind]).await?, fold_name(text));
            hits.retain(|hit| is_named(hit, &text));
            let choice = |hit: &SearchResult| Choice::of_item(&hit.reference_id, &hit.title);
            hits.iter().take(MAX_CHOICES).map(choice).collect()
        }
    };
    render(&Suggestions { choices })
}

/// The values that contain a text: those that begin with it first, then by the number of uses.
fn value_choices(text: &str, values: impl IntoIterator<Item = (String, usize)>) -> Vec<Choice> {
    let mut uses = BTreeMap::<String, usize>::new();
    for (value, count) in values {
        *uses.entry(value).or_default() += count;
    }
    let text = fold_name(text);
    let mut found: Vec<_> =
        uses.into_iter().filter(|(value, _)| fold_name(value).contains(&text)).collect();
    found.sort_by_key(|(value, count)| (!fold_name(value).starts_with(&text), Reverse(*count)));
    let choice = |(value, count): (String, usize)| Choice {
        value: join_list(&[&value]),
        title: value,
        id: count.to_string(),
    };
    found.into_iter().take(MAX_CHOICES).map(choice).collect()
}

impl PageSession {
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

    /// The values of the items that changed last, each with one use.
    async fn used_values<Values: IntoIterator<Item = String>>(
        &self,
        values_of: fn(ListedItem) -> Values,
    ) -> Vec<(String, usize)> {
        let mut values = Vec::new();
        for kind in ["epic", "user_story", "requirement", "entity"] {
            let arguments = json!({ "kind": kind, "limit": MAX_USES });
            // A server may have no backlog or no knowledge.
            let page: ListPage = self.call_tool("list_items", arguments).await.unwrap_or_default();
            values.extend(page.items.into_iter().flat_map(values_of).map(|value| (value, 1)));
        }
        values
    }

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
        PageClient::new(
            &["list_items", "suggest_records", "create_user_story"],
            |tool, arguments| {
                if tool == "suggest_records" {
                    let hit = |id: &str, kind: &str, title: &str, tag: &str| {
                        json!({ "reference_id": id, "type": kind, "title": title, "status": null,
                            "score": 1, "snippet": "", "tags": [tag] })
                    };
                    let results = [
                        hit("EP-001", "epic", "Ship the order", "pay"),
                        hit("EP-002", "epic", "Order history", "shop"),
                        hit("EP-003", "epic", "Only its text has the word", "shop"),
                        hit("core:1", "section", "core", "rules"),
                    ];
                    return Ok(
                        json!({ "total": 2, "pending": 0, "signals": [], "results": results }),
                    );
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
            },
        )
    }

    async fn picked(query: &str) -> Vec<String> {
        let page = client().get(&format!("/p/default/pick?{query}")).await;
        let values = page.body.split("data-value=\"").skip(1);
        values.map(|part| part.split('"').next().unwrap().replace("&#34;", "\"")).collect()
    }

    #[tokio::test]
    async fn pick_finds_words_in_any_order_and_beginnings_first() {
        let expected = ["EP-002 Order history", "EP-001 Ship the order"];
        assert_eq!(picked("kind=epic&q=order").await, expected);
        assert_eq!(picked("kind=epic&q=ORDER+ship").await, ["EP-001 Ship the order"]);
        assert_eq!(picked("kind=epic&q=").await.len(), 5);
        assert_eq!(picked("kind=tag&q=").await, ["\"a, b\"", "shop", "pay"]);
        assert_eq!(picked("kind=tag&q=S").await, ["shop", "rules"]);
        assert_eq!(picked("kind=user&q=ad").await, ["ada"]);
        assert_eq!(picked("kind=any&q=x").await, ["EP-001", "EP-002", "EP-003"]);
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
