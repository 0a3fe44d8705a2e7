//! Tests of the pages of items and entities.

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use serde_json::{Map, Value, json};

use crate::test_support::{PageClient, check_names, schema_answer, with_hidden};

const HOSTILE: &str = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
const TOOLS: [&str; 4] = ["get_item", "get_history", "list_items", "update_epic"];

fn story(id: &str) -> Value {
    json!({
        "item": {
            "project": "default", "uid": "1", "reference_id": id, "version": "00112233aabbccdd",
            "title": HOSTILE, "description": format!("# Why\n\nSee REQ-7 and dec-1d2c8f. {HOSTILE}"),
            "status": "In Progress", "priority": 2, "epic": "EP-001",
            "creator_username": HOSTILE, "assignee_username": HOSTILE,
            "created_at": "2026-11-23T10:00:00Z", "updated_at": "2026-11-24T11:30:59Z",
            "tags": [HOSTILE]
        },
        "children": [
            { "reference_id": "AC-001", "title": HOSTILE, "status": "Met" },
            { "reference_id": "AC-002", "title": "When", "status": "Open" },
            { "reference_id": "REQ-001", "title": HOSTILE, "status": "Active", "priority": 1 },
            { "reference_id": "REQ-002", "title": "Pay", "status": "Draft", "priority": 1 },
            { "reference_id": "REQ-003", "title": "Old", "status": "Obsolete", "priority": 1 }
        ],
        "relationships": { "outgoing": [], "incoming": [], "incoming_total": 0 },
        "links": {
            "outgoing": [
                { "relation": "mentions", "id": "REQ-007", "kind": "requirement", "title": HOSTILE },
                { "relation": "mentions", "id": "dec-1d2c8f" }
            ],
            "incoming": [{ "relation": "affects", "id": HOSTILE, "kind": "decision", "title": "D" }],
            "incoming_total": 51
        },
        "parents": [{ "reference_id": "EP-001", "title": HOSTILE }],
        "diagnostic": HOSTILE,
        "other_ids": [HOSTILE]
    })
}

fn epic() -> Value {
    let mut answer = story("EP-001");
    answer["item"]["epic"] = json!(null);
    answer["parents"] = json!([]);
    answer["children"] = json!([{ "reference_id": "US-001", "title": "Pay", "status": "Done" }]);
    answer
}

fn entity() -> Value {
    json!({
        "item": {
            "kind": "decision", "id": "dec-1d2c8f", "title": HOSTILE, "text": format!("{HOSTILE}\n\nSee EP-001, not EP-404."),
            "version": "00112233aabbccdd", "status": HOSTILE, "tags": ["a"]
        },
        "links": { "outgoing": [], "incoming": [], "incoming_total": 0 }
    })
}

fn history(arguments: &Map<String, Value>) -> Value {
    if arguments["reference"] == "US-010" {
        if arguments.contains_key("version") {
            let text = "---\ntitle: Pay\nstatus: Draft\nuid: 7\n---\nGuests **pay** by EP-001, not EP-404.\n";
            return json!({ "reference": "US-010", "versions": [], "text": text });
        }
        let versions = json!([
            { "version": null, "at": "2026-11-24T11:30:59Z", "user": HOSTILE,
              "tool": "delete_item", "reason": HOSTILE },
            { "version": "00112233aabbccdd", "at": "2026-11-23T10:00:00Z", "user": null,
              "tool": null, "reason": null }
        ]);
        return json!({ "reference": "US-010", "versions": versions });
    }
    let mut answer = json!({
        "reference": "US-001",
        "versions": [
            { "version": "00112233aabbccdd", "at": "2026-11-24T11:30:59Z", "user": HOSTILE,
              "tool": "update_user_story", "reason": HOSTILE },
            { "version": "ffeeddccbbaa9988", "at": "2026-11-23T10:00:00Z", "user": null,
              "tool": null, "reason": null }
        ],
        "notes": [HOSTILE]
    });
    if let Some(version) = arguments.get("version") {
        let title = if *version == "ffeeddccbbaa9988" { HOSTILE } else { "new" };
        answer["text"] = json!(format!("---\ntitle: {title}\n[-kept-] {HOSTILE}\n"));
    }
    answer
}

fn answer(tool: &str, arguments: &Map<String, Value>) -> Result<Value> {
    let reference = arguments.get("reference").and_then(Value::as_str).unwrap_or_default();
    match (tool, reference) {
        ("get_item", "EP-001") => Ok(epic()),
        ("get_item", "dec-1d2c8f") => Ok(entity()),
        ("get_item", "US-001" | "REQ-001") => Ok(story(reference)),
        ("get_history", "US-001" | "US-009" | "US-010" | "dec-1d2c8f") => Ok(history(arguments)),
        ("list_items", _) => Ok(json!({
            "items": [{ "reference_id": "US-001", "title": "Pay", "status": "Done",
                        "progress": { "done": 3, "total": 7 } }],
            "total": 1
        })),
        _ => Err(Error::new(ErrorKind::NotFound, "no such item")),
    }
}

fn client() -> PageClient {
    PageClient::new(&TOOLS, answer)
}

#[tokio::test]
async fn entity_shows_that_it_has_ended_or_that_its_review_is_overdue() {
    for (key, value, expected) in [
        ("stale", json!("superseded by dec-9c01aa"), "superseded by dec-9c01aa</span>"),
        ("review_overdue", json!(true), "2026-01-31 <span class=\"status draft\">"),
    ] {
        let client = PageClient::new(&TOOLS, move |_, _| {
            let mut answer = entity();
            answer["item"]["fields"] = json!({ "review_by": "2026-01-31" });
            answer["item"][key] = value.clone();
            Ok(answer)
        });
        let page = client.get("/p/default/item/dec-1d2c8f").await.body;
        assert!(page.contains(expected), "{expected}: {page}");
        assert_eq!(page.contains("review overdue</span>"), key == "review_overdue", "{page}");
    }
}

const TASKS: &str = "- [ ] Pay\n- [x] Ship\n";

#[expect(clippy::unnecessary_wraps, reason = "the signature of answers")]
fn tasks(tool: &str, arguments: &Map<String, Value>) -> Result<Value> {
    if tool == "update_user_story" {
        assert_eq!(arguments["description"], TASKS.replace("[ ]", "[x]"));
        assert_eq!(arguments["if_version"], "00112233aabbccdd");
        return Ok(json!({}));
    }
    let mut answer = story("US-001");
    answer["item"]["description"] = json!(TASKS);
    Ok(answer)
}

#[tokio::test]
async fn box_of_a_task_is_toggled_in_the_version_that_was_shown() {
    let client = PageClient::new(&["get_item", "update_user_story"], tasks);
    let page = client.get("/p/default/item/US-001").await.body;
    assert!(page.contains("action=\"/p/default/item/US-001/task\""), "{page}");
    assert!(page.contains("value=\"1\" aria-checked=\"true\""), "{page}");
    let toggled =
        client.post("/p/default/item/US-001/task", "version=00112233aabbccdd&task=0").await;
    assert_eq!(toggled.status(), 303);
    assert_eq!(toggled.header("location"), "/p/default/item/US-001?done=saved-7-US-001");
    for form in ["version=00112233aabbccdd&task=2", "version=ffee&task=0", "task=0"] {
        let response = client.post("/p/default/item/US-001/task", form).await;
        assert_eq!(response.status(), 409, "{form}");
        assert!(response.body.contains("reload the page"), "{}", response.body);
    }
}

#[tokio::test]
async fn reader_sees_boxes_without_buttons() {
    let client = PageClient::new(&["get_item"], tasks).with_access(Access::Read);
    let page = client.get("/p/default/item/US-001").await.body;
    assert!(page.contains("<li>☐ Pay</li>") && !page.contains("class=\"check\" id"), "{page}");
}

#[tokio::test]
async fn preview_shows_the_typed_text_and_saves_nothing() {
    let client = PageClient::new(&["get_item", "update_user_story"], tasks);
    let form = "version=aa&title=Typed&description=%7Ca%7C%0A%7C--%3A%7C%0A%0A<script>x</script>";
    let page = client.post("/p/default/item/US-001/edit", &format!("{form}&preview=yes")).await;
    assert_eq!(page.status(), 200);
    let body = page.body;
    assert!(
        body.contains("<div class=\"prose\"><table><thead><tr><th class=\"right\">a"),
        "{body}"
    );
    assert!(body.contains("value=\"Typed\"") && body.contains("|a|"), "{body}");
    assert!(
        body.contains("name=\"version\" value=\"aa\"") && body.contains("data-unsaved"),
        "{body}"
    );
    assert!(!body.contains("<script>x"), "{body}");
    let new = "kind=epic&title=Typed&description=**bold**&preview=yes";
    let body = client.post("/p/default/new?kind=epic", new).await.body;
    assert!(body.contains("<p><strong>bold</strong></p>"), "{body}");
}

#[tokio::test]
async fn item_pages_with_hostile_content_are_escaped() {
    let client = client();
    for page in [
        "US-001",
        "EP-001",
        "REQ-001",
        "dec-1d2c8f",
        "US-001/links",
        "US-010",
        "US-001/history",
        "US-001/history?from=ffeeddccbbaa9988&to=00112233aabbccdd",
        "US-001/history?from=%22%3E%3Cscript%3E&cursor=%22%3E%3Cscript%3E",
        "US-001/raw",
        "US-001/edit",
        "dec-1d2c8f/edit",
    ] {
        let page = format!("/p/default/item/{page}");
        let response = client.get(&page).await;
        assert_eq!(response.status(), 200, "{page}: {}", response.body);
        assert!(!response.body.contains("<script>"), "{page}: {}", response.body);
        assert!(!response.body.contains("<img"), "{page}");
        assert_eq!(response.body.matches("<h1>").count(), 1, "{page}");
    }
}

#[tokio::test]
async fn item_pages_encode_names_with_hidden_characters() {
    let client = PageClient::new(&TOOLS, |tool, arguments| {
        let mut answer = with_hidden(&answer(tool, arguments)?);
        // The text of a document keeps its characters.
        for name in ["description", "text"] {
            if let Some(text) = answer["item"].get_mut(name) {
                *text = json!("Text");
            }
        }
        Ok(answer)
    });
    let pages = ["US-001", "EP-001", "US-001/links", "US-001/history", "US-001/raw", "dec-1d2c8f"];
    for page in pages {
        let response = client.get(&format!("/p/default/item/{page}")).await;
        check_names(page, &response.body);
    }
    let page = client.get("/p/default/item/US-001").await.body;
    let prompt = page.split_once("<pre id=\"prompt\"").unwrap().1.split_once("</pre>").unwrap().0;
    assert!(!prompt.contains('\u{202e}') && prompt.contains(r"\u{202e}"), "{prompt}");
    // The text of the file, and the values of a form.
    for page in ["US-001/raw", "US-001/edit"] {
        let response = client.get(&format!("/p/default/item/{page}")).await;
        assert!(response.body.contains('\u{202e}'), "{page}: {}", response.body);
    }
}

#[tokio::test]
async fn item_page_shows_fields_children_and_links() {
    let body = client().get("/p/default/item/US-001").await.body;
    for expected in [
        // The breadcrumb.
        r#"<li><a href="/p/default/item/EP-001"><span class="id">EP-001</span>"#,
        "<h2 id=\"text-why\">Why <a",
        r#"See <a href="/p/default/item/REQ-007""#,
        "and dec-1d2c8f.",
        "<h2>Acceptance criteria <span class=\"muted\">2</span></h2>",
        // One criterion of two is met; requirements do not count.
        r#"<progress max="2" value="1""#,
        "<h3>Mentions</h3>",
        "<h3>Affected by</h3>",
        r#"<span class="id">dec-1d2c8f</span> <span class="muted">does not exist</span>"#,
        "50 more incoming links are not shown.",
        "2026-11-24 11:30 UTC",
        "Work on user story US-001 of the project default in Reqlore (version 00112233).",
        "/p/default/new?kind=requirement&amp;parent=US-001",
    ] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    let epic = client().get("/p/default/item/EP-001").await.body;
    assert!(epic.contains(r#"<progress max="7" value="3""#), "{epic}");
}

#[tokio::test]
async fn story_page_ticks_and_adds_its_parts() {
    let body = client().get("/p/default/item/US-001").await.body;
    for (id, is_met, next) in [("AC-001", "true", "Open"), ("AC-002", "false", "Met")] {
        let button = format!(
            "id=\"tick-{id}\" role=\"checkbox\" aria-checked=\"{is_met}\" name=\"status\" \
             value=\"{next}\""
        );
        assert!(body.contains(&button), "{button}: {body}");
        let edit = format!("/p/default/item/{id}/edit?next=%2Fp%2Fdefault%2Fitem%2FUS-001\"");
        assert!(body.contains(&edit), "{edit}: {body}");
    }
    for part in [
        r#"<input type="hidden" name="next" value="/p/default/item/US-001">"#,
        r#"name="next" value="/p/default/item/US-001#add-requirement">"#,
        r#"id="add-requirement" name="title""#,
        r#"id="add-acceptance_criteria" name="description""#,
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert!(!client().get("/p/default/item/EP-001").await.body.contains("add-requirement"));
}

#[tokio::test]
async fn item_page_of_a_reader_has_no_edit_control() {
    let client = client().with_access(Access::Read);
    for page in ["US-001", "US-001/links", "REQ-001/links"] {
        let body = client.get(&format!("/p/default/item/{page}")).await.body;
        for control in ["/edit", "/delete", "/new", "relate", "id=\"tick-AC"] {
            assert!(!body.contains(control), "{page} has {control}");
        }
    }
    for page in ["item/US-001/edit", "item/US-001/delete", "new?kind=epic", "new"] {
        assert_eq!(client.get(&format!("/p/default/{page}")).await.status(), 404, "{page}");
    }
}

#[tokio::test]
async fn history_of_a_deleted_item_has_its_versions() {
    let response = client().get("/p/default/item/US-009/history").await;
    assert_eq!(response.status(), 200);
    assert!(response.body.contains("<h1><bdi>Deleted</bdi></h1>"), "{}", response.body);
    assert!(response.body.contains("?from=ffeeddccbbaa9988&amp;to=00112233aabbccdd"));
    assert_eq!(client().get("/p/default/item/US-404/history").await.status(), 404);
}

#[tokio::test]
async fn deleted_item_shows_its_last_text_and_restores_it() {
    let body = client().get("/p/default/item/US-010").await.body;
    for expected in [
        "US-010 was deleted by &#60;",
        "<dt>Status</dt><dd><bdi>Draft</bdi></dd>",
        "<p>Guests <strong>pay</strong> by <a href=\"/p/default/item/EP-001\"",
        ", not EP-404.</p>",
        "name=\"reference\" value=\"US-010\"",
        // The time of the deletion: another change is not undone.
        "name=\"change\" value=\"1795519859000000000\"",
        "Restore US-010</button>",
    ] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    for absent in ["/edit", "US-010/raw", "US-010/links", "---"] {
        assert!(!body.contains(absent), "{absent}: {body}");
    }
    let reader = client().with_access(Access::Read);
    let body = reader.get("/p/default/item/US-010").await.body;
    assert!(body.contains("was deleted by") && !body.contains("Restore"), "{body}");
    // Never existed, or is a rule whose section exists.
    for id in ["US-404", "US-009"] {
        assert_eq!(client().get(&format!("/p/default/item/{id}")).await.status(), 404, "{id}");
    }
}

#[tokio::test]
async fn entity_shows_its_first_and_last_change() {
    let body = client().get("/p/default/item/dec-1d2c8f").await.body;
    assert!(
        body.contains("<dt>Created</dt><dd><time datetime=\"2026-11-23T10:00:00Z\" "),
        "{body}"
    );
    assert!(body.contains("See <a href=\"/p/default/item/EP-001\""), "{body}");
    assert!(body.contains(", not EP-404."), "{body}");
    let updated = body.split_once("<dt>Updated</dt>").unwrap().1;
    assert!(updated.starts_with("<dd><time datetime=\"2026-11-24T11:30:59Z\" "), "{updated}");
    assert!(updated.contains("</time> by &#60;/title&#62;"), "{updated}");
}

#[tokio::test]
async fn history_of_several_pages_compares_across_them() {
    let client = PageClient::new(&TOOLS, |tool, arguments| {
        if tool != "get_history" || arguments.contains_key("version") {
            return answer(tool, arguments);
        }
        let record = |version: &str| json!({ "version": version, "at": "", "user": null, "tool": null, "reason": null });
        Ok(match arguments.get("cursor").and_then(Value::as_str) {
            None => json!({ "versions": [record("00112233aabbccdd")], "next_cursor": "a&b" }),
            Some("a&b") => json!({ "versions": [record("ffeeddccbbaa9988")] }),
            Some(other) => panic!("{other}"),
        })
    });
    let first = client.get("/p/default/item/US-001/history").await.body;
    assert!(first.contains("?from=ffeeddccbbaa9988&amp;to=00112233aabbccdd"), "{first}");
    assert!(!first.contains("value=\"ffeeddccbbaa9988\""), "{first}");
    let next = "/p/default/item/US-001/history?cursor=a%26b";
    assert!(first.contains(&format!("href=\"{next}\">Earlier versions")), "{first}");
    let second = client.get(next).await.body;
    assert!(second.contains("value=\"ffeeddccbbaa9988\""), "{second}");
    assert!(second.contains("href=\"/p/default/item/US-001/history\">Newest versions"), "{second}");
}

#[tokio::test]
async fn history_restores_only_versions_with_another_text() {
    let body = client().get("/p/default/item/US-001/history").await.body;
    let restore = |version: &str| format!("name=\"version\" value=\"{version}\"");
    assert!(body.contains(&restore("ffeeddccbbaa9988")), "{body}");
    assert!(!body.contains(&restore("00112233aabbccdd")), "{body}");
    let reader = client().with_access(Access::Read);
    let body = reader.get("/p/default/item/US-001/history").await.body;
    assert!(!body.contains("Restore"), "{body}");
}

#[tokio::test]
async fn history_marks_removed_and_added_words() {
    let page = "/p/default/item/US-001/history?from=ffeeddccbbaa9988&to=00112233aabbccdd";
    let body = client().get(page).await.body;
    assert!(body.contains("<span class=\"line changed\">title: <del>&#60;/title&#62;"), "{body}");
    assert!(
        body.contains("</del><ins>new</ins>\n</span><span class=\"line \">[-kept-] "),
        "{body}"
    );
}

const SCHEMA: &str = "[fields.docs]\nkinds = [\"epic\"]\nlabel = \"Docs <b>\"\ntype = \"url\"\n\
                      [fields.areas]\nkinds = [\"epic\"]\ntype = \"tags\"\n\
                      [statuses.user_story]\norder = [\"New\", \"Shipped\", \"Parked\"]\n\
                      category = { New = \"open\", Shipped = \"done\", Parked = \"dropped\" }\n";

#[tokio::test]
async fn item_page_shows_custom_fields_and_progress_by_category() {
    for (docs, is_link) in [
        ("https://example.org/?a=1&b=\"", true),
        ("MAILTO:a@example.org", true),
        ("javascript:alert(1)", false),
        ("data:text/html,x", false),
    ] {
        let client = PageClient::new(&["get_item", "get_record_schema"], move |tool, _| {
            if tool == "get_record_schema" {
                return Ok(schema_answer(SCHEMA));
            }
            let mut answer = epic();
            answer["item"]["fields"] = json!({ "docs": docs, "areas": [HOSTILE, "b"] });
            let child = |id: &str, status: &str| json!({ "reference_id": id, "title": "T", "status": status });
            let children = [child("US-001", "New"), child("US-002", "Shipped")];
            answer["children"] = json!([children[0], children[1], child("US-003", "Parked")]);
            Ok(answer)
        });
        let body = client.get("/p/default/item/EP-001").await.body;
        assert!(body.contains("<dt>Docs &#60;b&#62;</dt>"), "{body}");
        assert_eq!(body.contains("<dd><a href=\""), is_link, "{docs}: {body}");
        assert!(!body.contains("href=\"javascript") && !body.contains("href=\"data"), "{body}");
        assert!(body.contains("<span class=\"tag\">b</span>") && !body.contains("<img"), "{body}");
        assert!(body.contains("</progress>1/2"), "{body}");
        assert!(body.contains("<span class=\"status done\">"), "{body}");
    }
}
