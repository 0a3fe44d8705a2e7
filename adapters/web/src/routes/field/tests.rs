//! Tests of the menu of a field, and of changes of several items.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE, COOKIE};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use serde_json::{Map, Value, json};

use crate::session::derived_token;
use crate::test_support::{PageClient, SECRET, schema_answer};

const HOSTILE: &str = "\"><script>alert(1)</script>";

type Calls = Arc<Mutex<Vec<(String, Map<String, Value>)>>>;

const SCHEMA: &str = "[fields.risk]\ntype = \"choice\"\nvalues = [\"Low\", \"High\"]\n\
                      kinds = [\"requirement\"]\ncolumn = true\n";

/// Pages of requirements and stories, whose write tools answer with `write`.
fn pages(write: impl Fn() -> Result<Value> + Send + Sync + 'static) -> (PageClient, Calls) {
    let calls = Calls::default();
    let known = Arc::clone(&calls);
    let tools = ["get_record_schema", "list_items", "get_item", "apply_changes"];
    let client = PageClient::new(&tools, move |tool, arguments| {
        let reference = arguments.get("reference").and_then(Value::as_str).unwrap_or("REQ-001");
        let item = json!({
            "reference_id": reference, "kind": "requirement", "title": HOSTILE, "priority": 2,
            "status": "Draft", "assignee_username": HOSTILE, "user_story": "US-001",
            "tags": [HOSTILE, "old"], "version": "00112233aabbccdd",
        });
        match tool {
            "get_record_schema" => return Ok(schema_answer(SCHEMA)),
            "get_item" => return Ok(json!({ "item": item })),
            "list_items" => return Ok(json!({ "items": [item], "by_status": { "Draft": 1 } })),
            _ => {}
        }
        known.lock().unwrap().push((tool.to_owned(), arguments.clone()));
        write()
    });
    (client, calls)
}

/// The fields of a form for these items.
fn selected(count: usize) -> String {
    let mut form = String::new();
    for number in 1..=count {
        let _ = write!(form, "&item=REQ-{number:03}+00112233");
    }
    form
}

/// Sends a form as the script does, and returns the status and the answer.
async fn send(client: &PageClient, path: &str, form: &str) -> (u16, Value) {
    let form = format!("{form}&csrf={}", derived_token("csrf", SECRET));
    let request = Request::post(path)
        .header(COOKIE, format!("reqlore={SECRET}"))
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json");
    let page = client.send(request.body(Body::from(form)).unwrap()).await;
    (page.status(), serde_json::from_str(&page.body).unwrap())
}

#[tokio::test]
async fn field_menu_escapes_hostile_values_and_marks_the_stored_one() {
    let (client, _) = pages(|| Ok(json!({})));
    let page = |name: &str| format!("/p/default/field?name={name}&item=REQ-001");
    for name in ["status", "priority", "assignee", "tags", "user_story", "fields.risk", "type"] {
        let body = client.get(&page(name)).await.body;
        assert!(body.contains("action=\"/p/default/item/REQ-001/edit\""), "{name}: {body}");
        assert!(body.contains(&format!("name=\"base-{name}\"")), "{name}: {body}");
        assert!(!body.contains("<script>"), "{name}: {body}");
    }
    let body = client.get(&page("status")).await.body;
    assert!(body.contains("value=\"Draft\" aria-current=\"true\">"), "{body}");
    assert!(body.contains("value=\"Active\" autofocus>"), "{body}");
    assert_eq!(client.get(&page("nothing")).await.status(), 404);
    for path in
        ["field?name=status&item=REQ-001+0+%3Cscript%3E", "field?name=%3Cscript%3E&item=REQ-1+0"]
    {
        let body = client.get(&format!("/p/default/{path}")).await.body;
        assert!(!body.contains("<script>"), "{body}");
    }
}

#[tokio::test]
async fn lists_of_a_reader_have_no_editors_and_no_selection() {
    let (client, calls) = pages(|| Err(Error::new(ErrorKind::Forbidden, "you may only read")));
    let pages = ["board?kind=requirement", "table?kind=requirement", "tree", "item/REQ-001"];
    for (access, is_shown) in [(Access::Write, true), (Access::Read, false)] {
        let (client, _) = self::pages(|| Ok(json!({})));
        let client = client.with_access(access);
        for path in pages {
            let body = client.get(&format!("/p/default/{path}")).await.body;
            assert_eq!(body.contains("class=\"edit\""), is_shown, "{path}: {body}");
            let has_selection = is_shown && path != "item/REQ-001";
            assert_eq!(body.contains("name=\"item\""), has_selection, "{path}: {body}");
            assert_eq!(body.contains("id=\"bulk\""), has_selection, "{path}: {body}");
        }
    }
    let client = client.with_access(Access::Read);
    assert_eq!(client.get("/p/default/field?name=status&item=REQ-001").await.status(), 404);
    let form = format!("name=status&status=Active{}", selected(2));
    assert_eq!(client.post("/p/default/field", &form).await.status(), 403);
    // The tool refused.
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn selected_items_are_changed_by_one_call() {
    let (client, calls) = pages(|| Ok(json!({})));
    let form = format!("name=fields.risk&fields.risk=High&next=/p/default/table{}", selected(100));
    let page = client.post("/p/default/field", &form).await;
    let target = "/p/default/table?done=saved-7-100+items";
    assert_eq!((page.status(), page.header("location")), (303, target));
    let notice = client.get(target).await.body;
    assert!(notice.contains("100 items were saved."), "{notice}");
    let (tool, arguments) = calls.lock().unwrap().pop().unwrap();
    let changes = arguments["changes"].as_array().unwrap();
    let last = json!({
        "update": "REQ-100", "fields": { "risk": "High" }, "if_version": "00112233"
    });
    assert_eq!((&*tool, changes.len(), &changes[99]), ("apply_changes", 100, &last));
    let form = format!("name=status&status=Active{}", selected(200));
    let (status, answer) = send(&client, "/p/default/field", &form).await;
    let message = "item: 200 are selected; select at most 100 for one change";
    assert_eq!((status, &answer["message"]), (400, &json!(message)));
    assert!(calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn selected_items_get_and_lose_tags_and_are_deleted() {
    let (client, calls) = pages(|| Ok(json!({})));
    for (form, expected) in [
        ("name=add-tags&tags=old,+new", json!([HOSTILE, "old", "new"])),
        ("name=remove-tags&tags=old,+none", json!([HOSTILE])),
    ] {
        let (_, answer) =
            send(&client, "/p/default/field", &(form.to_owned() + &selected(2))).await;
        assert_eq!(answer, json!({ "notice": "2 items were saved.", "change": "7" }));
        let (_, arguments) = calls.lock().unwrap().pop().unwrap();
        assert_eq!(arguments["changes"][1]["tags"], expected);
    }
    let form = format!("name=remove-tags&tags=none{}", selected(2));
    let (_, answer) = send(&client, "/p/default/field", &form).await;
    assert_eq!(answer, json!({ "notice": "Nothing was changed.", "change": "" }));
    assert!(calls.lock().unwrap().is_empty());
    let form = format!("name=delete&delete=yes{}", selected(2));
    let (_, answer) = send(&client, "/p/default/field", &form).await;
    assert_eq!(answer["notice"], "2 items were deleted.");
    let (_, arguments) = calls.lock().unwrap().pop().unwrap();
    // Children follow their parents in lists.
    assert_eq!(arguments["changes"][0], json!({ "delete": "REQ-002", "if_version": "00112233" }));
}

#[tokio::test]
async fn kinds_of_selected_items_share_their_fields() {
    let (client, calls) = pages(|| Ok(json!({})));
    let both = "item=REQ-001+0011&item=US-001+0011";
    let body = client.get(&format!("/p/default/field?name=priority&{both}")).await.body;
    assert!(body.contains("<h1 class=\"hint\">2 items: Priority</h1>"), "{body}");
    let page = client.get(&format!("/p/default/field?name=user_story&{both}")).await;
    assert!(page.body.contains("user_story: US-001 has no such field"), "{}", page.body);
    let body = client.get(&format!("/p/default/field?name=status&{both}")).await.body;
    assert!(body.contains("value=\"Draft\"") && !body.contains("value=\"Active\""), "{body}");
    let page = client.get("/p/default/field?name=status").await;
    assert!(page.body.contains("item: none is selected"), "{}", page.body);
    assert!(calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn refused_change_of_selected_items_names_the_item() {
    let conflict = || {
        let error = Error::new(ErrorKind::Conflict, "Entry 2: Conflict. Current text: secret");
        Err(error.reference("REQ-002"))
    };
    let (client, _) = pages(conflict);
    let form = format!("name=assignee&assignee=%22%3E%3Cb%3E{}", selected(2));
    let (status, answer) = send(&client, "/p/default/field", &form).await;
    let message = "REQ-002 was changed in the meantime. Nothing was saved.";
    assert_eq!((status, &answer["message"]), (409, &json!(message)));
    // Without scripts the form keeps the text.
    let page = client.post("/p/default/field", &form).await;
    assert_eq!(page.status(), 409);
    assert!(page.body.contains(message), "{}", page.body);
    assert!(page.body.contains("value=\"&#34;&#62;&#60;b&#62;\""), "{}", page.body);
    let form = "version=ffff&status=Active&base-status=1";
    let (status, answer) = send(&client, "/p/default/item/REQ-001/edit", form).await;
    let message = "REQ-001 changed while you edited it. Nothing was saved.";
    assert_eq!((status, &answer["message"]), (409, &json!(message)));
    let (client, calls) = pages(|| Ok(json!({})));
    let (_, answer) = send(&client, "/p/default/item/REQ-001/edit", form).await;
    assert_eq!(answer, json!({ "notice": "REQ-001 was saved.", "change": "7" }));
    assert_eq!(calls.lock().unwrap()[0].1["if_version"], "ffff");
}
