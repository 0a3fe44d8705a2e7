//! Tests of the pages with lists: board, table, tree, search and events.

use std::sync::{Arc, Mutex};

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use serde_json::{Map, Value, json};

use crate::test_support::{PageClient, check_names, schema_answer, with_hidden};

/// Markup and a URL of a script, as a title of a hostile document.
const HOSTILE: &str = "<script>alert(1)</script>\"' onmouseover=x javascript:y {{ 7 }} \u{202e}";

type ToolCalls = Arc<Mutex<Vec<(String, Map<String, Value>)>>>;

fn listed_item(reference: &str, title: &str) -> Value {
    json!({
        "reference_id": reference, "kind": "user_story", "title": title, "status": "Draft",
        "priority": 1, "assignee_username": "ada.l", "parent": "EP-001", "tags": [title],
        "updated_at": "2026-01-31T23:59:59.5Z", "version": "0123456789abcdef",
        "progress": { "done": 3, "total": 7 },
    })
}

/// Pages whose tools find hostile items. Also returns the list of the calls.
fn hostile_client() -> (PageClient, ToolCalls) {
    let calls = ToolCalls::default();
    let recorded = calls.clone();
    let tools = ["list_items", "search_global", "update_user_story"];
    let client = PageClient::new(&tools, move |name, arguments| {
        recorded.lock().unwrap().push((name.to_owned(), arguments.clone()));
        answer(name, arguments)
    });
    (client, calls)
}

fn answer(name: &str, arguments: &Map<String, Value>) -> Result<Value> {
    match name {
        "list_items" => {
            let items = match arguments.get("status") {
                None => json!([listed_item("US-001", HOSTILE)]),
                Some(status) if status == "Draft" => json!([listed_item("US-001", HOSTILE)]),
                Some(_) => json!([]),
            };
            let cursor = if items == json!([]) { json!(null) } else { json!("next") };
            Ok(json!({
                "items": items, "total": 60, "by_status": { "Draft": 60 }, "next_cursor": cursor,
            }))
        }
        "search_global" => Ok(json!({
            "total": 2, "pending": 0, "signals": [], "results": [
                { "reference_id": "US-001", "type": "user_story", "title": HOSTILE,
                  "status": HOSTILE, "score": 1, "snippet": HOSTILE },
                { "reference_id": "general:2.1", "type": "section", "title": "T",
                  "status": null, "score": 0.1, "uncertain": true, "snippet": "" },
            ],
        })),
        _ if arguments["if_version"] == "0123456789abcdef" => Ok(json!({ "version": "1" })),
        _ => Err(Error::new(ErrorKind::Conflict, "US-001: changed")),
    }
}

#[tokio::test]
async fn hostile_text_on_every_page_is_escaped() {
    let (client, _) = hostile_client();
    for path in ["board", "table", "tree", "search?q=%3Cscript%3Ealert(1)", "move?item=US-001"] {
        let page = client.get(&format!("/p/default/{path}")).await;
        assert_eq!(page.status(), 200, "{path}");
        assert!(!page.body.contains("<script>"), "{path}: {}", page.body);
        assert!(!page.body.contains("\"' onmouseover"), "{path}: {}", page.body);
        // The policy of the pages forbids both.
        assert!(!page.body.contains(" style=") && !page.body.contains("<style"), "{path}");
    }
    let hostile =
        "/p/default/board?kind=requirement&q=%22%3E%3Cscript%3E&tag=%3Cb%3E&done=moved-1-%3Ci%3E";
    let page = client.get(hostile).await;
    for markup in ["<script>", "<b>", "<i>"] {
        assert!(!page.body.contains(markup), "{markup}: {}", page.body);
    }
}

#[tokio::test]
async fn lists_encode_names_with_hidden_characters() {
    let tools = ["list_items", "search_global"];
    let client =
        PageClient::new(&tools, |name, arguments| Ok(with_hidden(&answer(name, arguments)?)));
    for path in ["board", "table", "tree", "search?q=a", "pictures", "table.csv"] {
        let page = client.get(&format!("/p/default/{path}")).await;
        check_names(path, page.body.trim_start_matches('\u{feff}'));
    }
}

#[tokio::test]
async fn board_shows_a_column_for_each_status_with_its_filters() {
    let (client, calls) = hostile_client();
    let page = client.get("/p/default/board?epic=EP-001&assignee=none&tag=ui&priority=2").await;
    assert_eq!(page.body.matches("class=\"column\"").count(), 5, "{}", page.body);
    assert!(page.body.contains("<span class=\"count\">60</span>"), "{}", page.body);
    assert!(page.body.contains("show-Draft=100"), "{}", page.body);
    assert!(page.body.contains("</progress>3/7"), "{}", page.body);
    let calls = calls.lock().unwrap();
    let (name, arguments) = &calls[1];
    assert_eq!(name, "list_items");
    let expected = json!({
        "kind": "user_story", "assignee": "none", "epic": "EP-001", "tags": ["ui"], "priority": 2,
        "status": "Draft", "limit": 50,
    });
    assert_eq!(Value::Object(arguments.clone()), expected);
}

#[tokio::test]
async fn moved_item_returns_to_the_board_with_a_message() {
    let (client, calls) = hostile_client();
    let form = "item=US-001&status=Done&version=0123456789abcdef&next=/p/default/board?q=a";
    let page = client.post("/p/default/move", form).await;
    assert_eq!(page.status(), 303, "{}", page.body);
    assert_eq!(page.header("location"), "/p/default/board?q=a&done=moved-7-US-001");
    let (name, arguments) = calls.lock().unwrap().pop().unwrap();
    assert_eq!((name.as_str(), &arguments["status"]), ("update_user_story", &json!("Done")));
}

/// Three stories in one column, of which the second one gets another priority.
fn ranking_client() -> (PageClient, ToolCalls) {
    let calls = ToolCalls::default();
    let recorded = calls.clone();
    let client = PageClient::new(&["list_items", "update_user_story"], move |name, arguments| {
        recorded.lock().unwrap().push((name.to_owned(), arguments.clone()));
        let items = [1, 2, 3].map(|number| listed_item(&format!("US-00{number}"), "A"));
        match name {
            "list_items" => Ok(json!({ "items": items, "total": 3, "by_status": { "Draft": 3 } })),
            _ => Ok(json!({ "version": "1", "notes": ["priority is now 1"] })),
        }
    });
    (client, calls)
}

#[tokio::test]
async fn card_moves_up_and_down_and_names_its_new_priority() {
    let (client, calls) = ranking_client();
    let board = client.get("/p/default/board").await;
    for (item, neighbours) in [
        ("US-001", "&amp;below=US-002\""),
        ("US-002", "&amp;above=US-001&amp;below=US-003\""),
        ("US-003", "&amp;above=US-002\""),
    ] {
        let link = format!("move?item={item}&amp;version=0123456789abcdef{neighbours}");
        assert!(board.body.contains(&link), "{link}: {}", board.body);
    }
    let page = client.get("/p/default/move?item=US-001&below=%22US-002").await;
    assert!(page.body.contains("value=\"after &#34;US-002\">Down"), "{}", page.body);
    assert!(!page.body.contains(">Up<"), "{}", page.body);
    let form =
        "item=US-002&rank=before+US-001&status=&version=0123456789abcdef&next=/p/default/board";
    let page = client.post("/p/default/move", form).await;
    let notice = page.header("location").split_once('?').unwrap().1.to_owned();
    let (_, arguments) = calls.lock().unwrap().pop().unwrap();
    let expected = json!({
        "user_story": "US-002", "rank": "before US-001", "if_version": "0123456789abcdef",
    });
    assert_eq!(Value::Object(arguments), expected);
    let page = client.get(&format!("/p/default/board?{notice}")).await;
    assert!(page.body.contains("US-002 (priority is now 1) was moved."), "{}", page.body);
}

#[tokio::test]
async fn move_of_a_changed_item_explains_the_conflict() {
    let (client, _) = hostile_client();
    let page = client.post("/p/default/move", "item=US-001&status=Done&version=f").await;
    assert_eq!(page.status(), 409);
    assert!(page.body.contains("US-001 was changed in the meantime"), "{}", page.body);
    for item in ["AC-1x", "x", "../US-1"] {
        let page = client.post("/p/default/move", &format!("item={item}&status=Done")).await;
        assert_eq!(page.status(), 404, "{item}");
    }
}

#[tokio::test]
async fn board_of_a_reader_has_no_controls_that_write() {
    let (client, _) = hostile_client();
    let page = client.with_access(Access::Read).get("/p/default/board").await;
    assert!(page.body.contains("US-001"), "{}", page.body);
    for control in ["data-move", "move?item", "data-csrf"] {
        assert!(!page.body.contains(control), "{control}: {}", page.body);
    }
}

#[tokio::test]
async fn table_links_keep_the_filters_and_reverse_the_order() {
    let (client, calls) = hostile_client();
    let path = "/p/default/table?kind=user_story&sort=title&cursor=c";
    let page = client.get(path).await;
    assert!(page.body.contains("?kind=user_story&#38;sort=-title"), "{}", page.body);
    assert!(page.body.contains("aria-sort=\"ascending\""), "{}", page.body);
    assert!(page.body.contains("sort=title&#38;cursor=next"), "{}", page.body);
    assert!(page.body.contains("2026-01-31 23:59 UTC"), "{}", page.body);
    let (_, arguments) = &calls.lock().unwrap()[0];
    assert_eq!((&arguments["sort"], &arguments["cursor"]), (&json!("title"), &json!("c")));
}

#[tokio::test]
async fn kind_without_a_board_is_an_error_that_names_the_kinds() {
    let (client, calls) = hostile_client();
    for page in ["board", "table", "table.csv"] {
        let page = client.get(&format!("/p/default/{page}?kind=decision")).await;
        assert_eq!(page.status(), 400);
        assert!(page.body.contains("use epic, user_story or requirement"), "{}", page.body);
    }
    assert!(calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn pictures_of_more_items_than_they_read_say_so() {
    for (total, is_said) in [(1, false), (301, true)] {
        let client = PageClient::new(&["list_items"], move |_, _| {
            Ok(json!({ "items": [listed_item("US-001", "T")], "total": total }))
        });
        let page = client.get("/p/default/pictures").await;
        assert_eq!(page.status(), 200, "{}", page.body);
        assert_eq!(page.body.contains("the first 300 items"), is_said, "{}", page.body);
    }
}

#[tokio::test]
async fn csv_with_a_formula_is_harmless() {
    let client = PageClient::new(&["list_items"], |_, _| {
        Ok(json!({ "items": [listed_item("US-001", "=cmd|' /C calc'!A0\"")], "total": 1 }))
    });
    let page = client.get("/p/default/table.csv").await;
    assert_eq!(page.header("content-type"), "text/csv; charset=utf-8");
    assert!(page.body.starts_with("\u{feff}id,kind,title,"), "{}", page.body);
    let row = page.body.lines().nth(1).unwrap();
    assert!(row.starts_with("US-001,user_story,\"'=cmd|' /C calc'!A0\"\"\",Draft,"), "{row}");
}

#[tokio::test]
async fn search_marks_uncertain_hits_and_links_sections() {
    let (client, _) = hostile_client();
    let page = client.get("/p/default/search?q=words").await;
    assert!(page.body.contains("href=\"/p/default/sections/general#2.1\""), "{}", page.body);
    assert_eq!(page.body.matches("uncertain</span>").count(), 1, "{}", page.body);
}

#[tokio::test]
async fn search_shows_the_results_of_one_kind() {
    let client = PageClient::new(&["search_global"], |_, arguments| {
        let kind = arguments["entity_types"].as_array().and_then(|kinds| kinds.first()?.as_str());
        let title = if kind == Some("epic") { "One kind" } else { "All kinds" };
        let hit = json!({ "reference_id": "EP-001", "type": "epic", "title": title,
                          "status": "Done", "score": 1, "snippet": "" });
        Ok(json!({ "total": 1, "results": [hit], "signals": [], "pending": 0 }))
    });
    let all = client.get("/p/default/search?q=a+b&cursor=x").await.body;
    assert!(all.contains("All kinds"), "{all}");
    assert!(all.contains("<a href=\"?q=a+b&#38;kind=epic\">Epics</a>"), "{all}");
    let epics = client.get("/p/default/search?q=a+b&kind=epic").await.body;
    assert!(epics.contains("One kind"), "{epics}");
    assert!(epics.contains(r#"kind=epic" aria-current="page">Epics</a>"#), "{epics}");
}

#[tokio::test]
async fn search_and_palette_mark_what_has_ended() {
    let client = PageClient::new(&["search_global", "suggest_records"], |_, _| {
        let hit = |id: &str, title: &str| {
            json!({ "reference_id": id, "type": "knowledge", "kind": "decision", "title": title,
                    "status": "accepted", "score": 1, "snippet": "" })
        };
        let mut old = hit("dec-1", "Pay");
        old["stale"] = json!("superseded by dec-2");
        old["superseded_by"] = json!("dec-2");
        let mut overdue = hit("dec-2", "We pay later");
        overdue["review_overdue"] = json!(true);
        Ok(json!({ "total": 2, "results": [old, overdue] }))
    });
    let body = client.get("/p/default/search?q=pay").await.body;
    for expected in ["superseded by dec-2</span>", "review overdue</span>"] {
        assert_eq!(body.matches(expected).count(), 1, "{expected}: {body}");
    }
    let body = client.get("/p/default/find?q=pay").await.body;
    assert!(body.contains("<span class=\"muted\">decision, superseded by dec-2</span>"), "{body}");
    assert!(body.find("item/dec-2") < body.find("item/dec-1"), "ended ones last: {body}");
}

#[tokio::test]
async fn search_counts_uncertain_results_and_marks_words() {
    for (total, expected) in [(2, "2 results and 1 uncertain result"), (0, "1 uncertain result")] {
        let client = PageClient::new(&["search_global"], move |_, _| {
            let snippet = "## Goal **Paying** `now`, see [the <plan>](x.md)";
            let hit = |is_uncertain: bool| {
                json!({ "reference_id": "US-001", "type": "user_story", "title": "Pay | *now*",
                        "status": null, "score": 1, "uncertain": is_uncertain, "snippet": snippet })
            };
            Ok(json!({ "total": total, "results": [hit(false), hit(true)] }))
        });
        let body = client.get("/p/default/search?q=how+to+pay").await.body;
        for expected in [
            &format!("<p class=\"muted\">{expected} for “how to pay”</p>"),
            "<bdi><mark>Pay</mark> | *now*</bdi>",
            ">Goal <mark>Paying</mark> now, see the &#60;plan&#62;</p>",
        ] {
            assert!(body.contains(expected), "{expected}: {body}");
        }
    }
}

#[tokio::test]
async fn filters_stay_for_another_kind_unless_its_items_lack_them() {
    let schema = "[fields.risk]\nkinds = [\"user_story\", \"epic\"]\ntype = \"text\"\n\
                  filter = true\nsort = true\n";
    let client = PageClient::new(&["list_items", "get_record_schema"], move |tool, _| {
        let list = json!({ "items": [], "total": 0 });
        Ok(if tool == "list_items" { list } else { schema_answer(schema) })
    });
    let tab = async |page: &str, kind: &str| {
        let body = client.get(&format!("/p/default/{page}")).await.body;
        let tabs = body.split_once("aria-label=\"Kind\"").unwrap().1;
        let target = tabs.split_once(&format!("?kind={kind}")).unwrap().1;
        target.split_once('"').unwrap().0.replace("&#38;", "&")
    };
    let rest = "&priority=2&assignee=ada&tag=ui&q=a%26b";
    for page in ["board", "table"] {
        let page = format!("{page}?kind=user_story&epic=EP-001&field.risk=High&cursor=x{rest}");
        assert_eq!(tab(&page, "requirement").await, format!("&epic=EP-001{rest}"));
        assert_eq!(tab(&page, "epic").await, format!("{rest}&field.risk=High"));
        assert_eq!(tab(&page, "user_story").await, format!("&epic=EP-001{rest}&field.risk=High"));
    }
    for (kind, sort, expected) in [
        ("epic", "-risk", "&status=Done&sort=-risk"),
        ("requirement", "-risk", ""),
        ("requirement", "title", "&sort=title"),
    ] {
        let page = format!("table?status=done&sort={sort}");
        assert_eq!(tab(&page, kind).await, expected, "{page}");
    }
}

#[tokio::test]
async fn counts_of_the_board_are_those_of_its_filters_in_any_spelling() {
    let (client, calls) = hostile_client();
    let page = client.get("/p/default/board?status=draft").await;
    assert_eq!(page.body.matches("class=\"column\"").count(), 1, "{}", page.body);
    assert!(page.body.contains("60 in total</span>"), "{}", page.body);
    let called = calls.lock().unwrap();
    let mut lists =
        called.iter().filter(|(name, list)| name == "list_items" && list["kind"] != "epic");
    assert!(lists.all(|(_, list)| list["status"] == "Draft"), "{called:?}");
}

const SCHEMA: &str = r#"
[fields.risk]
kinds = ["user_story"]
type = "choice"
values = ["Low", "High"]
column = true
card = true
filter = true
sort = true
[fields.areas]
kinds = ["user_story"]
label = "Areas <b>"
type = "tags"
column = true
[fields.link]
kinds = ["user_story"]
type = "url"
filter = true
column = true

[statuses.user_story]
order = ["Ready", "Review", "Done"]
category = { Ready = "open", Review = "active" }
"#;

/// Pages of a project with custom fields and statuses, where one story has a hidden status.
fn custom_client() -> (PageClient, ToolCalls) {
    let calls = ToolCalls::default();
    let recorded = calls.clone();
    let client = PageClient::new(&["get_record_schema", "list_items"], move |name, arguments| {
        if name == "get_record_schema" {
            return Ok(schema_answer(SCHEMA));
        }
        recorded.lock().unwrap().push((name.to_owned(), arguments.clone()));
        let mut item = listed_item("US-001", "Pay");
        item["status"] = json!("Review");
        item["fields"] = json!({
            "risk": "High", "areas": ["a, b", "c"], "link": "javascript:alert(1)"
        });
        let counts = json!({ "Review": 2, "Draft": 1, "Waiting": 0 });
        Ok(json!({ "items": [item], "total": 3, "by_status": counts }))
    });
    (client, calls)
}

#[tokio::test]
async fn board_has_the_statuses_and_fields_of_the_project() {
    let (client, calls) = custom_client();
    let body = client.get("/p/default/board?field.risk=High").await.body;
    let columns: Vec<&str> = body
        .split("data-status=\"")
        .skip(1)
        .map(|column| column.split_once('"').unwrap().0)
        .collect();
    // Draft is hidden, but an item has it.
    assert_eq!(columns, ["Ready", "Review", "Done", "Draft"]);
    for expected in [
        "<span class=\"status progress\">",
        "<span class=\"tag\">Risk: High</span>",
        "<option value=\"High\" selected>High</option>",
        "name=\"field.link\"",
    ] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    assert!(!body.contains("Areas") && !body.contains("javascript"), "{body}");
    let first = Value::Object(calls.lock().unwrap()[0].1.clone());
    let expected = json!({
        "kind": "user_story", "fields": { "risk": "High" }, "status": "Ready", "limit": 50
    });
    assert_eq!(first, expected);
    let tree = client.get("/p/default/tree").await.body;
    assert!(tree.contains("<span class=\"status progress\">"), "{tree}");
    let pictures = client.get("/p/default/pictures").await.body;
    assert!(pictures.contains("class=\"mark s-in-progress\""), "{pictures}");
}

#[tokio::test]
async fn table_and_csv_have_the_fields_of_the_project() {
    let (client, calls) = custom_client();
    let body = client.get("/p/default/table?sort=-risk&field.link=x").await.body;
    for expected in [
        "aria-sort=\"descending\"><a href=\"?field.link=x&#38;sort=risk\">Risk ↓</a>",
        "<th scope=\"col\">Areas &#60;b&#62;</th>",
        "title=\"Risk of US-001\"><bdi>High</bdi></a></td>",
        "<span class=\"tag\">a, b</span> <span class=\"tag\">c</span>",
        // Not a link.
        "<bdi>javascript:alert(1)</bdi>",
    ] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    let (_, sent) = calls.lock().unwrap()[0].clone();
    assert_eq!((&sent["sort"], &sent["fields"]), (&json!("-risk"), &json!({ "link": "x" })));
    let csv = client.get("/p/default/table.csv").await.body;
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().ends_with(",updated_at,risk,areas,link"), "{csv}");
    let row = lines.next().unwrap();
    assert!(row.ends_with(",High,\"\"\"a, b\"\", c\",javascript:alert(1)"), "{row}");
}

/// Lists of a project with items of these kinds, one each.
fn project_of(kinds: &'static [&'static str]) -> PageClient {
    PageClient::new(&["list_items", "create_epic"], move |_, arguments| {
        let kind = arguments["kind"].as_str().unwrap();
        let reference = if kind == "epic" { "EP-007" } else { "US-009" };
        let has_items = kinds.contains(&kind) && arguments.get("text").is_none();
        let items = if has_items { json!([listed_item(reference, "A")]) } else { json!([]) };
        let total = items.as_array().unwrap().len();
        Ok(json!({ "items": items, "total": total, "by_status": { "Backlog": total } }))
    })
}

#[tokio::test]
async fn empty_project_offers_its_first_epic() {
    for path in ["board", "table", "tree", "board?kind=requirement"] {
        let page = project_of(&[]).get(&format!("/p/default/{path}")).await;
        let button = "primary\" href=\"/p/default/new?kind=epic\"";
        assert!(page.body.contains(button), "{path}: {}", page.body);
        assert!(page.body.contains("reqlore add epic \"Its title\"</code>"), "{path}");
        assert!(page.body.contains("No epics yet") || path.contains('?'), "{path}");
    }
    let reader = project_of(&[]).with_access(Access::Read);
    let page = reader.get("/p/default/board").await;
    assert!(!page.body.contains("/new?") && page.body.contains("No epics yet"), "{}", page.body);
}

#[tokio::test]
async fn lists_without_a_kind_show_one_that_has_items() {
    for (kinds, shown) in [
        (&["epic"][..], "kind=epic\" aria-current"),
        (&["epic", "requirement"], "kind=requirement\" aria-current"),
        (&["epic", "user_story", "requirement"], "kind=user_story\" aria-current"),
        (&[], "kind=epic\" aria-current"),
    ] {
        for path in ["board", "table"] {
            let page = project_of(kinds).get(&format!("/p/default/{path}")).await;
            assert!(page.body.contains(shown), "{path} {kinds:?}: {}", page.body);
        }
    }
}

#[tokio::test]
async fn new_items_have_kind_parent_and_filters_of_the_page() {
    let parts = project_of(&["epic"]).get("/p/default/board?kind=user_story").await;
    let button = "primary\" href=\"/p/default/new?kind=user_story&#38;parent=EP-007\"";
    assert!(parts.body.contains(button), "{}", parts.body);
    assert!(parts.body.contains("add story \"Its title\" --in EP-007<"), "{}", parts.body);
    let client = project_of(&["epic", "user_story"]);
    let query = "kind=user_story&#38;parent=EP-007&#38;assignee=ada&#38;tags=ui";
    for (path, expected) in [
        ("board?epic=EP-007&assignee=ada&tag=ui", query),
        ("table?epic=EP-007&assignee=ada&tag=ui&kind=user_story", query),
        ("board?q=nothing&assignee=none", "kind=user_story\""),
        ("tree", "kind=epic\""),
        ("tree?epic=EP-007", "kind=user_story&#38;parent=EP-007\""),
    ] {
        let page = client.get(&format!("/p/default/{path}")).await;
        let button = format!("data-new href=\"/p/default/new?{expected}");
        assert!(page.body.contains(&button), "{path}: {}", page.body);
    }
    let page = client.get("/p/default/board").await;
    let column = "new?kind=user_story&#38;status=In+Progress\" aria-label=\"New user story in In";
    assert!(page.body.contains(column), "{}", page.body);
    let page = client.with_access(Access::Read).get("/p/default/board").await;
    assert!(!page.body.contains("/new?"), "{}", page.body);
}
