//! Tests of the forms of items and entities.

use std::sync::{Arc, Mutex};

use proptest::proptest;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use serde_json::{Map, Value, json};

use crate::test_support::{PageClient, schema_answer, untouched_form};

type Calls = Arc<Mutex<Vec<(String, Value)>>>;

const HOSTILE: &str = "\"><script>alert(1)</script>";

fn stored() -> Value {
    json!({
        "item": {
            "reference_id": "EP-001", "version": "00112233aabbccdd", "title": "Checkout",
            "description": "Guests pay by invoice.", "status": "Draft", "priority": 2,
            "creator_username": "ada", "assignee_username": null,
            "created_at": "2026-11-23T10:00:00Z", "updated_at": "2026-11-24T11:30:59Z",
            "tags": ["shop", "pay"]
        },
        "children": [],
        "links": { "outgoing": [], "incoming": [], "incoming_total": 0 }
    })
}

/// Pages over an epic, whose write tools answer with `write`; and the calls of write tools.
fn pages(write: impl Fn() -> Result<Value> + Send + Sync + 'static) -> (PageClient, Calls) {
    let calls = Calls::default();
    let known = Arc::clone(&calls);
    let tools = ["get_item", "update_epic", "create_requirement", "delete_item"];
    let client = PageClient::new(&tools, move |tool: &str, arguments: &Map<String, Value>| {
        if tool == "get_item" {
            return Ok(stored());
        }
        known.lock().unwrap().push((tool.to_owned(), Value::Object(arguments.clone())));
        write()
    });
    (client, calls)
}

/// The digests of the form's fields, as a browser sends them.
async fn base_fields(client: &PageClient) -> String {
    let body = client.get("/p/default/item/EP-001/edit").await.body;
    let mut form = String::new();
    for field in body.split("name=\"base-").skip(1) {
        let (name, rest) = field.split_once("\" value=\"").unwrap();
        form.extend(["&base-", name, "=", rest.split_once('"').unwrap().0]);
    }
    form
}

const UNCHANGED: &str = "description=Guests+pay+by+invoice.&status=Draft&priority=2&assignee=\
                         &tags=shop%2C+pay&version=00112233aabbccdd";

#[tokio::test]
async fn edit_sends_only_the_changed_fields() {
    let (client, calls) = pages(|| Ok(json!({})));
    let base = base_fields(&client).await;
    let form = format!("title=Pay&{UNCHANGED}{base}");
    let response = client.post("/p/default/item/EP-001/edit", &form).await;
    assert_eq!(
        (response.status(), response.header("location")),
        (303, "/p/default/item/EP-001?done=saved-7-EP-001")
    );
    let expected = json!({ "title": "Pay", "epic": "EP-001", "if_version": "00112233aabbccdd" });
    assert_eq!(*calls.lock().unwrap(), [("update_epic".to_owned(), expected)]);
    let form = format!("title=Checkout&{UNCHANGED}{base}");
    let response = client.post("/p/default/item/EP-001/edit", &form).await;
    assert_eq!(response.header("location"), "/p/default/item/EP-001?done=same--EP-001");
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn form_returns_to_the_page_that_it_names() {
    let (client, calls) = pages(|| Ok(json!({ "reference_id": "REQ-001" })));
    let form = "kind=requirement&title=Pay&user_story=US-001&next=";
    let next = "/p/default/item/US-001#add-requirement";
    let escaped = format!("{form}{}", next.replace('#', "%23"));
    let response = client.post("/p/default/new", &escaped).await;
    let done = "/p/default/item/US-001?done=created-7-REQ-001#add-requirement";
    assert_eq!(response.header("location"), done);
    let (_, arguments) = calls.lock().unwrap().pop().unwrap();
    // Fields that a short form does not have get their defaults.
    assert_eq!([&arguments["priority"], &arguments["type"]], ["3", "Functional"]);
    let foreign = format!("{form}https://example.org");
    let response = client.post("/p/default/new", &foreign).await;
    assert_eq!(response.header("location"), "/?done=created-7-REQ-001");
    let page = client.get("/p/default/item/EP-001/edit?next=/p/default/tree").await.body;
    assert!(page.contains("name=\"next\" value=\"/p/default/tree\""), "{page}");
    assert!(page.contains("<a class=\"button\" href=\"/p/default/tree\">Cancel"), "{page}");
}

#[tokio::test]
async fn edit_conflict_shows_stored_and_typed_text() {
    let conflict = || Err(Error::new(ErrorKind::Conflict, "changed").field("if_version"));
    let (client, _) = pages(conflict);
    let base = base_fields(&client).await.replace("base-description=", "base-description=0");
    let form = format!("title=Checkout&{UNCHANGED}{base}").replace("invoice", "card");
    let form = form.replace("version=0011", "version=ffff");
    let response = client.post("/p/default/item/EP-001/edit", &form).await;
    assert_eq!(response.status(), 409);
    for expected in [
        "EP-001 changed while you edited it. Nothing was saved.",
        "<pre tabindex=\"0\">Guests pay by invoice.</pre>",
        "Guests pay by <del>invoice.</del><ins>card.</ins>",
        "\nGuests pay by card.</textarea>",
        "name=\"version\" value=\"00112233aabbccdd\"",
        "Save over version 00112233",
    ] {
        assert!(response.body.contains(expected), "{expected}: {}", response.body);
    }
    // Only the changed field has the stored text next to it.
    assert_eq!(response.body.matches("Stored now").count(), 1);
}

#[tokio::test]
async fn edit_error_keeps_the_typed_text_at_its_field() {
    let error = || Err(Error::new(ErrorKind::InvalidArgument, HOSTILE).field("title"));
    let (client, _) = pages(error);
    let base = base_fields(&client).await;
    let title = "%22%3E%3Cscript%3E";
    let form = format!("title={title}&{UNCHANGED}{base}");
    let response = client.post("/p/default/item/EP-001/edit", &form).await;
    assert_eq!(response.status(), 422);
    assert!(!response.body.contains("<script>"), "{}", response.body);
    assert!(
        response.body.contains("id=\"title-error\">&#34;&#62;&#60;script"),
        "{}",
        response.body
    );
    assert!(response.body.contains("value=\"&#34;&#62;&#60;script&#62;\""), "{}", response.body);
    assert!(response.body.contains("<a href=\"#title\">"), "{}", response.body);
}

#[tokio::test]
async fn create_reports_all_missing_fields_and_keeps_the_rest() {
    let (client, calls) = pages(|| Ok(json!({ "reference_id": "REQ-001" })));
    let form = "kind=requirement&title=&description=Why&priority=1&type=Data&user_story=+";
    let response = client.post("/p/default/new", form).await;
    assert_eq!(response.status(), 422);
    assert!(calls.lock().unwrap().is_empty());
    assert!(
        response.body.contains("id=\"title-error\"") && response.body.contains("user_story-error")
    );
    assert!(response.body.contains("\nWhy</textarea>"), "{}", response.body);
    let form = form.replace("title=", "title=Pay").replace("user_story=+", "user_story=us-1");
    let response = client.post("/p/default/new", &form).await;
    assert_eq!(response.header("location"), "/p/default/item/REQ-001?done=created-7-REQ-001");
    let sent = calls.lock().unwrap().pop().unwrap();
    let expected = json!({
        "title": "Pay", "description": "Why", "status": "Draft", "priority": "1", "type": "Data",
        "user_story": "us-1"
    });
    assert_eq!(sent, ("create_requirement".to_owned(), expected));
}

#[tokio::test]
async fn form_forged_by_a_reader_is_refused_by_the_tool() {
    let refuse = || Err(Error::new(ErrorKind::Forbidden, "update_epic: your role may only read"));
    let (client, calls) = pages(refuse);
    let client = client.with_access(Access::Read);
    let form = format!("title=x&{UNCHANGED}&base-title=1");
    let response = client.post("/p/default/item/EP-001/edit", &form).await;
    assert_eq!(response.status(), 403);
    assert_eq!(client.post("/p/default/item/EP-001/delete", "").await.status(), 403);
    assert_eq!(calls.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn deletion_has_a_notice_and_names_a_history_that_exists() {
    for (versions, is_said) in [(json!([]), false), (json!([{ "at": "" }]), true)] {
        let client = PageClient::new(&["get_item"], move |tool: &str, _| match tool {
            "get_item" => Ok(stored()),
            "get_history" => Ok(json!({ "versions": versions, "total": 1, "notes": [] })),
            _ => Ok(json!({ "results": [] })),
        });
        let page = client.get("/p/default/item/EP-001/delete").await;
        assert_eq!(page.status(), 200, "{}", page.body);
        assert_eq!(page.body.contains("Its history stays."), is_said, "{}", page.body);
        let page = client.post("/p/default/item/EP-001/delete", "").await;
        assert_eq!(page.header("location"), "/p/default/board?kind=epic&done=deleted-7-EP-001");
    }
    let notice = "<p role=\"status\">EP-001 was deleted.</p>";
    let client = PageClient::new(&["list_items"], |_, _| Ok(json!({ "items": [] })));
    let board = client.get("/p/default/board?kind=epic&done=deleted-7-EP-001").await.body;
    assert!(board.contains(notice), "{board}");
}

#[tokio::test]
async fn edit_of_an_entity_removes_missing_relations() {
    let calls = Calls::default();
    let known = Arc::clone(&calls);
    let client = PageClient::new(&["get_item"], move |tool: &str, arguments| {
        known.lock().unwrap().push((tool.to_owned(), Value::Object(arguments.clone())));
        Ok(json!({
            "item": { "kind": "decision", "id": "dec-1d2c8f", "title": "T", "text": "",
                      "version": "00112233aabbccdd" },
            "links": {
                "outgoing": [{ "relation": "related", "id": "EP-001" },
                             { "relation": "mentions", "id": "EP-002" }],
                "incoming": [{ "relation": "affects", "id": "dec-b28160" }],
                "incoming_total": 1
            }
        }))
    });
    let form = "links=affects:+REQ-1,US-1%0D%0A&base-links=1&version=0011";
    client.post("/p/default/item/dec-1d2c8f/edit", form).await;
    let (tool, arguments) = calls.lock().unwrap().pop().unwrap();
    assert_eq!(tool, "ixchel_update");
    let expected = json!({ "affects": ["REQ-1", "US-1"], "related": [] });
    assert_eq!(arguments["links"], expected);
}

/// Opens the forms of an item, a criterion and an entity with these texts, and saves them at once.
async fn save_untouched(title: &str, text: &str, list: &[String]) {
    let calls = Calls::default();
    let (known, item) = (Arc::clone(&calls), stored());
    let (title, text, list) = (title.to_owned(), text.to_owned(), list.to_vec());
    let client = PageClient::new(&["get_item"], move |tool: &str, arguments| {
        if tool != "get_item" {
            known.lock().unwrap().push((tool.to_owned(), Value::Object(arguments.clone())));
            return Ok(json!({}));
        }
        let mut answer = item.clone();
        let fields = [
            ("title", json!(title)),
            ("description", json!(text)),
            ("status", json!(title)),
            ("assignee_username", json!(title)),
            ("tags", json!(list)),
        ];
        for (name, value) in fields {
            answer["item"][name] = value;
        }
        let mut links = Vec::new();
        for id in &list {
            links.push(json!({ "relation": "related", "id": id }));
        }
        answer["links"]["outgoing"] = json!(links);
        Ok(answer)
    });
    for id in ["EP-001", "US-001", "REQ-001", "AC-001", "dec-1d2c8f"] {
        let target = format!("/p/default/item/{id}/edit");
        // The stub's item is an epic, which has the fields of its own form only.
        let page = client.get(&target).await.body;
        let form_id = page.split_once("<h1>Edit ").unwrap().1.split_once('<').unwrap().0;
        let action = format!("/p/default/item/{form_id}/edit");
        let response = client.post(&target, &untouched_form(&page, &action)).await;
        let location = format!("/p/default/item/{id}?done=same--{id}");
        assert_eq!(response.header("location"), location, "{:?}", calls.lock().unwrap());
    }
    assert!(calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn form_saved_untouched_changes_nothing() {
    for (title, text) in [
        ("T", "a\rb\nc\r\nd"),
        ("T", "\r\r\n\n"),
        ("T", "\n\nblank lines above"),
        ("T", "no line end"),
        ("T", "trailing spaces  \n\ttab\t\n\n\n"),
        (" T ", "  "),
        ("two\nlines", ""),
        ("cr\rtitle\r\n", "\r"),
        ("a \"quote\", <b> & 'x'", "</textarea><script>&amp;&#13;"),
        ("\u{202e}\u{feff}\u{85}", "\u{2028}\u{c}\u{85}\u{7f}\u{200b}"),
        ("e\u{301} é \u{1f468}\u{200d}\u{1f469}", "\u{fffe}\u{10ffff}\u{fffd}"),
    ] {
        for list in [vec!["a, b", "c"], vec![" d ", "\"", "e\"f", "\"g\", h"], vec!["a\nb", ""]] {
            let list: Vec<String> = list.into_iter().map(str::to_owned).collect();
            save_untouched(title, text, &list).await;
        }
    }
}

proptest! {
    #[test]
    fn any_form_saved_untouched_changes_nothing(
        title in "([^\0]|[\r\n\t ,\"<&])*",
        text in "([^\0]|[\r\n\t ,\"<&]|\r\n)*",
        list in proptest::collection::vec("([^\0]|[\r\n\t ,\"])*", 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(save_untouched(&title, &text, &list));
    }
}

#[tokio::test]
async fn added_tag_keeps_tags_with_commas() {
    let (client, calls) = pages(|| Ok(json!({})));
    let form = "tags=%22a%2C+b%22%2C+c%2C+new%2C+5%22+disk%2C+%22say+%22%22x%22%22%22&base-tags=1";
    client.post("/p/default/item/EP-001/edit", form).await;
    let (_, arguments) = calls.lock().unwrap().pop().unwrap();
    assert_eq!(arguments["tags"], json!(["a, b", "c", "new", "5\" disk", "say \"x\""]));
}

const SCHEMA: &str = r#"
[fields.risk]
kinds = ["user_story"]
type = "choice"
values = ["Low", "High"]
required = true
[fields.effort]
kinds = ["user_story"]
label = "Effort in days"
type = "number"
[fields.due]
kinds = ["user_story"]
type = "date"
[fields.areas]
kinds = ["user_story"]
type = "tags"
[fields.sponsor]
kinds = ["epic"]
type = "user"

[statuses.user_story]
order = ["Ready", "Review", "Done"]
category = { Ready = "open", Review = "active" }
"#;

/// Pages over a user story of a project with custom fields, whose write tools answer with `write`.
fn custom_pages(write: impl Fn() -> Result<Value> + Send + Sync + 'static) -> (PageClient, Calls) {
    let calls = Calls::default();
    let known = Arc::clone(&calls);
    let tools = ["get_record_schema", "get_item", "update_user_story", "create_user_story"];
    let client = PageClient::new(&tools, move |tool, arguments| match tool {
        "get_record_schema" => Ok(schema_answer(SCHEMA)),
        "get_item" => Ok(json!({
            "item": {
                "reference_id": "US-001", "version": "00112233aabbccdd", "title": "Pay",
                "description": "", "status": "Waiting", "priority": 2, "epic": "EP-001",
                "fields": { "risk": "High", "effort": "many", "areas": ["a, b", "c"] }
            },
            "children": [],
        })),
        _ => {
            known.lock().unwrap().push((tool.to_owned(), Value::Object(arguments.clone())));
            write()
        }
    });
    (client, calls)
}

#[tokio::test]
async fn form_has_a_control_for_each_custom_field() {
    let (client, _) = custom_pages(|| Ok(json!({})));
    let body = client.get("/p/default/new?kind=user_story").await.body;
    for expected in [
        "<option value=\"Ready\" selected>Ready</option><option value=\"Review\">Review</option>\
         <option value=\"Done\">Done</option></select>",
        "<select id=\"fields.risk\" name=\"fields.risk\" required",
        "<option value=\"\" selected>None</option><option value=\"Low\">Low</option>",
        "<label for=\"fields.effort\">Effort in days</label>",
        "aria-describedby=\"fields.effort-hint\" type=number step=any value=\"\"",
        "aria-describedby=\"fields.due-hint\" type=date value=\"\"",
    ] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    assert!(!body.contains("sponsor") && !body.contains("Backlog"), "{body}");
    // Values that do not fit are shown as written.
    let body = client.get("/p/default/item/US-001/edit").await.body;
    for expected in [
        "<option value=\"Waiting\" selected>Waiting</option>",
        "<option value=\"High\" selected>High</option>",
        "aria-describedby=\"fields.effort-hint\" value=\"many\"",
        "\"many&#34; is not a number; write one such as 3 or 2.5",
        "value=\"&#34;a, b&#34;, c\"",
    ] {
        let expected = expected.replace("\"many&", "&#34;many&");
        assert!(body.contains(&expected), "{expected}: {body}");
    }
}

#[tokio::test]
async fn form_sends_only_changed_custom_fields() {
    let (client, calls) = custom_pages(|| Ok(json!({})));
    let action = "/p/default/item/US-001/edit";
    let untouched = untouched_form(&client.get(action).await.body, action);
    let response = client.post(action, &untouched).await;
    assert_eq!(response.header("location"), "/p/default/item/US-001?done=same--US-001");
    let form = untouched
        .replace("fields.risk=High", "fields.risk=")
        .replace("fields.due=", "fields.due=2026-11-27")
        .replace("&fields.areas=", "&fields.areas=new%2C+");
    client.post(action, &form).await;
    let expected = json!({
        "fields": { "risk": "", "due": "2026-11-27", "areas": ["new", "a, b", "c"] },
        "user_story": "US-001", "if_version": "00112233aabbccdd"
    });
    assert_eq!(*calls.lock().unwrap(), [("update_user_story".to_owned(), expected)]);
}

#[tokio::test]
async fn form_shows_errors_and_conflicts_of_custom_fields() {
    let error = || {
        let message = "fields.due: \"soon\" is not a date";
        Err(Error::new(ErrorKind::InvalidArgument, message).field("fields.due"))
    };
    let (client, calls) = custom_pages(error);
    let form = "kind=user_story&title=T&priority=1&epic=EP-001&status=Ready&fields.due=soon";
    let body = client.post("/p/default/new", form).await.body;
    assert!(body.contains("<p class=\"field-error\" id=\"fields.risk-error\">Risk: it is empty"));
    assert!(calls.lock().unwrap().is_empty());
    let body = client.post("/p/default/new", &format!("{form}&fields.risk=Low")).await.body;
    assert!(body.contains("<p class=\"field-error\" id=\"fields.due-error\">"), "{body}");
    assert!(body.contains("<a href=\"#fields.due\">"), "{body}");
    assert!(body.contains("<option value=\"Low\" selected>"), "{body}");
    let sent = calls.lock().unwrap().pop().unwrap().1;
    assert_eq!(sent["fields"], json!({ "risk": "Low", "due": "soon" }));

    let conflict = || Err(Error::new(ErrorKind::Conflict, "changed").field("if_version"));
    let (client, _) = custom_pages(conflict);
    let action = "/p/default/item/US-001/edit";
    let form = untouched_form(&client.get(action).await.body, action);
    let form = form.replace("fields.risk=High", "fields.risk=Low");
    let response = client.post(action, &form).await;
    assert_eq!(response.status(), 409);
    assert!(response.body.contains("<pre tabindex=\"0\">High</pre>"), "{}", response.body);
    assert_eq!(response.body.matches("Stored now").count(), 1);
}

#[tokio::test]
async fn form_of_a_new_item_is_filled_from_its_url() {
    let (client, _) = pages(|| Ok(json!({})));
    let url = "/p/default/new?kind=requirement&parent=US-001&priority=1&tags=a&status=Active";
    let body = client.get(url).await.body;
    for expected in [
        "name=\"user_story\" required data-pick=\"user_story\" aria-describedby=\"user_story-hint\" value=\"US-001\"",
        "<option value=\"1\" selected>",
        "<option value=\"Active\" selected>",
        "id=\"title\" name=\"title\" required autofocus",
        "href=\"/p/default/new?kind=acceptance_criteria&#38;parent=US-001\"",
        "href=\"/p/default/new?kind=epic\"",
        "name=\"another\" value=\"yes\"",
    ] {
        assert!(body.contains(expected), "{expected}\n{body}");
    }
    let page = client.get("/p/default/item/EP-001").await;
    let button = "data-new href=\"/p/default/new?kind=user_story&#38;parent=EP-001\"";
    assert!(!page.body.contains("data-new"), "no tool that creates epics: {}", page.body);
    let tools = ["get_item", "create_epic"];
    let page = PageClient::new(&tools, |_, _| Ok(stored())).get("/p/default/item/EP-001").await;
    assert!(page.body.contains(button), "{}", page.body);
}

#[tokio::test]
async fn create_another_keeps_kind_and_parent() {
    let (client, _) = pages(|| Ok(json!({ "reference_id": "REQ-007" })));
    let form = "kind=requirement&title=A&priority=1&type=Functional&user_story=US-001&another=yes";
    let response = client.post("/p/default/new?kind=requirement", form).await;
    let url = "/p/default/new?kind=requirement&parent=US-001&done=created-7-REQ-007";
    assert_eq!((response.status(), response.header("location")), (303, url));
    let body = client.get(url).await.body;
    assert!(body.contains(">REQ-007 was created.</p>"), "{body}");
    assert!(body.contains("value=\"US-001\""), "{body}");
    assert!(
        body.contains("action=\"/p/default/new?kind=requirement&#38;parent=US-001\""),
        "{body}"
    );
    let hostile =
        client.get("/p/default/new?kind=epic&done=created-7-%3Cb%3E&title=%22%3E%3Cb%3E").await;
    assert!(!hostile.body.contains("<b>"), "{}", hostile.body);
}

#[tokio::test]
async fn new_form_has_the_values_of_a_template() {
    let schema = "[fields.risk]\nkinds = [\"epic\"]\ntype = \"choice\"\nvalues = [\"High\"]\n";
    let tools = ["get_record_schema", "list_record_templates", "create_epic"];
    let client = PageClient::new(&tools, move |tool, _| match tool {
        "get_record_schema" => Ok(schema_answer(schema)),
        "list_record_templates" => Ok(json!({ "templates": [
            { "kind": "epic", "name": "", "values": { "description": "Why?", "risk": "High" } },
            { "kind": "epic", "name": "<b>", "values": { "title": "<b>", "tags": ["a", "b, c"] } },
            { "kind": "requirement", "name": "login", "values": {} },
        ] })),
        _ => Err(Error::new(ErrorKind::NotFound, "missing")),
    });
    let body = client.get("/p/default/new?kind=epic&priority=1").await.body;
    let other = "href=\"/p/default/new?kind=epic&#38;priority=1&#38;template=%3Cb%3E\">";
    for expected in ["Why?</textarea>", "<option value=\"High\" selected>", other, "Default</a>"] {
        assert!(body.contains(expected), "{expected}\n{body}");
    }
    assert!(!body.contains("<b>") && !body.contains("login"), "{body}");
    let body = client.get("/p/default/new?kind=epic&template=%3Cb%3E&title=Mine").await.body;
    for expected in
        ["value=\"Mine\"", "value=\"a, &#34;b, c&#34;\"", "aria-current=\"page\">&#60;b"]
    {
        assert!(body.contains(expected), "{expected}\n{body}");
    }
    assert!(!body.contains("Why?"), "{body}");
    let plain = client.get("/p/default/new?kind=user_story").await.body;
    assert!(!plain.contains("aria-label=\"Template\""), "{plain}");
}
