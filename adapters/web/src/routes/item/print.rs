//! The page to print: an epic or user story with all of its parts.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use askama::Template;
use axum::extract::Path;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use serde_json::json;

use crate::markdown::{TextContext, render_markdown};
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, PageResult};
use crate::routes::files::image_url;
use crate::routes::item::frame::read_item;
use crate::session::PageSession;

/// The kinds of parts, in their order on the page of the item above.
const PART_KINDS: [ItemKind; 3] =
    [ItemKind::UserStory, ItemKind::AcceptanceCriteria, ItemKind::Requirement];
/// Maximum parts of each kind.
const PART_LIMIT: usize = 500;
/// Maximum length of all texts.
const MAX_TEXT_BYTES: usize = 2 << 20;

#[derive(Template)]
#[template(path = "item_print.html")]
struct PrintPage {
    frame: PageFrame,
    /// The item, then its parts, each after the item above it. The texts are sanitized.
    items: Vec<ListedItem>,
    /// Parts that the limits leave out.
    left_out: usize,
}

pub(super) async fn show_print(
    session: PageSession,
    Path((_, id)): Path<(String, String)>,
) -> PageResult {
    let session = session.with_schema().await?;
    let item = read_item(&session, &id).await?.item;
    let Some(kind) = item.item_kind() else { return Err(PageError::NotFound) };
    let part_kinds = match kind {
        ItemKind::Epic => &PART_KINDS[..],
        ItemKind::UserStory => &PART_KINDS[1..],
        _ => &[],
    };
    let (mut parts, mut total) = (HashMap::<_, Vec<_>>::new(), 0);
    for part_kind in part_kinds {
        let arguments = json!({
            "kind": part_kind.name(),
            kind.name(): item.id(),
            "show": [
                "title", "kind", "status", "priority", "assignee_username", "parent",
                "description", "tags", "version"
            ],
            "limit": PART_LIMIT,
        });
        let list: ListPage = session.call_tool("list_items", arguments).await?;
        total += list.total;
        for part in list.items {
            parts.entry(part.parent.clone().unwrap_or_default()).or_default().push(part);
        }
    }
    let mut items = vec![ListedItem {
        reference_id: item.id().to_owned(),
        kind: kind.name().to_owned(),
        title: item.title().to_owned(),
        status: item.status().map(str::to_owned),
        priority: item.priority(),
        assignee_username: item.assignee().map(str::to_owned),
        description: Some(item.text().to_owned()),
        ..ListedItem::default()
    }];
    add_parts(&mut items, &mut parts, item.id());
    let mut free_bytes = MAX_TEXT_BYTES;
    let fits = items.iter().take_while(|item| {
        let text = item.description.as_deref().unwrap_or_default();
        free_bytes.checked_sub(text.len()).inspect(|rest| free_bytes = *rest).is_some()
    });
    items.truncate(fits.count().max(1));
    let left_out = total.saturating_sub(items.len() - 1);
    render_texts(&session, &mut items);
    let title = format!("{} {}", item.id(), item.title());
    let frame = PageFrame::new(&session, PageSection::Board, title);
    render(&PrintPage { frame, items, left_out })
}

/// Adds the parts of an item, each with its own parts after it.
fn add_parts(
    items: &mut Vec<ListedItem>,
    parts: &mut HashMap<String, Vec<ListedItem>>,
    parent: &str,
) {
    for part in parts.remove(parent).unwrap_or_default() {
        let id = part.reference_id.clone();
        items.push(part);
        add_parts(items, parts, &id);
    }
}

/// Replaces the texts by their HTML. IDs of other items on the page lead to them.
fn render_texts(session: &PageSession, items: &mut [ListedItem]) {
    let printed: HashSet<String> = items.iter().map(|item| item.reference_id.clone()).collect();
    let mut context = TextContext {
        item_url: Arc::new(move |id| printed.contains(id).then(|| format!("#{id}"))),
        image_url: Arc::new(|_| None),
        has_buttons: false,
        anchors: RefCell::default(),
    };
    let is_story = items[0].kind == ItemKind::UserStory.name();
    for (index, item) in items.iter_mut().enumerate() {
        // Below the heading of the part.
        let top_level = match index {
            0 => 2,
            _ if is_story || item.kind == ItemKind::UserStory.name() => 3,
            _ => 4,
        };
        context.image_url = image_url(session, &item.reference_id);
        let text = item.description.take().unwrap_or_default();
        item.description = Some(render_markdown(&text, top_level, &context));
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::error::{Error, ErrorKind};
    use serde_json::{Map, Value};

    use super::*;
    use crate::test_support::PageClient;

    fn client() -> PageClient {
        let answer = |tool: &str, arguments: &Map<String, Value>| {
            let part = |id: &str, kind: &str, parent: &str| {
                json!({
                    "reference_id": id, "kind": kind, "parent": parent, "status": "Draft",
                    "title": format!("<i>{id}</i>"),
                    "description": "Text *of* it. See AC-002, US-009."
                })
            };
            let items = match (tool, arguments.get("kind").and_then(Value::as_str)) {
                ("get_item", None) if arguments["reference"] == "EP-001" => {
                    let epic =
                        json!({ "reference_id": "EP-001", "title": "Pay", "description": "# Why" });
                    return Ok(json!({ "item": epic }));
                }
                ("get_item", None) if arguments["reference"] == "US-002" => {
                    return Ok(json!({ "item": part("US-002", "user_story", "EP-001") }));
                }
                ("get_item", None) => {
                    let decision = json!({ "kind": "decision", "id": "dec-1", "title": "D",
                                           "text": "", "version": "00112233aabbccdd" });
                    return Ok(json!({ "item": decision }));
                }
                ("list_items", Some("user_story")) if arguments["epic"] == "EP-001" => vec![
                    part("US-002", "user_story", "EP-001"),
                    part("US-001", "user_story", "EP-001"),
                ],
                ("list_items", Some("requirement")) => vec![
                    part("REQ-001", "requirement", "US-001"),
                    part("REQ-002", "requirement", "US-002"),
                    // Its story is not on the page.
                    part("REQ-003", "requirement", "US-003"),
                ],
                ("list_items", Some("acceptance_criteria")) => {
                    vec![part("AC-002", "acceptance_criteria", "US-002")]
                }
                _ => return Err(Error::new(ErrorKind::NotFound, "not found")),
            };
            let total = if items.len() == 3 { 600 } else { items.len() };
            Ok(json!({ "items": items, "total": total }))
        };
        PageClient::new(&["get_item", "list_items"], answer)
    }

    #[tokio::test]
    async fn print_page_has_all_parts_in_their_order() {
        let page = client().get("/p/default/item/EP-001/print").await;
        assert_eq!(page.status(), 200);
        let articles: Vec<&str> =
            page.body.split("<article class=\"part\" id=\"").skip(1).collect();
        let ids = articles.iter().map(|article| article.split('"').next().unwrap_or_default());
        let ids: Vec<&str> = ids.collect();
        assert_eq!(ids, ["EP-001", "US-002", "AC-002", "REQ-002", "US-001", "REQ-001"]);
        assert!(articles[0].contains("<h1><bdi>Pay</bdi></h1>"), "{}", articles[0]);
        assert!(articles[0].contains("<h2 id=\"text-why\">"), "{}", articles[0]);
        for part in [
            "User story <span class=\"id\">US-002</span>",
            "Draft</span>",
            "<h2><bdi>&#60;i&#62;US-002&#60;/i&#62;</bdi></h2>",
            "<p>Text <em>of</em> it. See <a href=\"#AC-002\"",
            ", US-009.</p>",
        ] {
            assert!(articles[1].contains(part), "{part} is missing in {}", articles[1]);
        }
        assert!(!articles[2].contains("<h3>") && articles[3].contains("<h3>"), "{}", page.body);
        assert!(page.body.contains("598 more parts are not shown."), "{}", page.body);
        assert!(!page.body.contains("<i>") && !page.body.contains("style="), "{}", page.body);
        assert_eq!(client().get("/p/default/item/dec-1/print").await.status(), 404);
    }

    #[tokio::test]
    async fn print_page_of_a_story_has_its_parts_below_it() {
        let page = client().get("/p/default/item/US-002/print").await;
        assert!(page.body.contains("<h2><bdi>&#60;i&#62;REQ-002"), "{}", page.body);
        assert!(!page.body.contains("<h3"), "{}", page.body);
    }
}
