//! Tests of the page of fields and statuses.

use std::sync::{Arc, Mutex};

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::schema::RecordSchema;
use serde_json::{Map, Value, json};

use crate::test_support::{PageClient, schema_answer};

type Calls = Arc<Mutex<Vec<Map<String, Value>>>>;

const SCHEMA: &str = "# Our process\n[fields.risk]\nkinds = [\"user_story\"]\ntype = \"choice\"\n\
                      values = [\"Low\", \"High\"] # three were too many\ncard = true\n\n\
                      [statuses.user_story]\n# in the order of work\n\
                      order = [\"Backlog\", \"Done\"]\n";
const PAGE: &str = "/p/default/schema";
const HOSTILE: &str = "%22%3E%3Cscript%3E%0A%5Bx%5D";

/// Pages of a project with this schema, and the texts that they save.
fn pages(
    text: &'static str,
    write: impl Fn() -> Result<Value> + Send + Sync + 'static,
) -> (PageClient, Calls) {
    let calls = Calls::default();
    let known = Arc::clone(&calls);
    let tools = ["get_record_schema", "set_record_schema"];
    let client = PageClient::new(&tools, move |tool, arguments| {
        if tool == "get_record_schema" {
            return Ok(schema_answer(text));
        }
        known.lock().unwrap().push(arguments.clone());
        write()
    });
    (client, calls)
}

fn invalid() -> Result<Value> {
    Err(Error::new(ErrorKind::InvalidArgument, "text: line 1: wrong").field("text"))
}

#[tokio::test]
async fn schema_page_lists_fields_and_statuses() {
    let (client, _) = pages(SCHEMA, || Ok(json!({})));
    let body = client.get(PAGE).await.body;
    for expected in [
        "<td>Risk</td><td><code>risk</code></td>\n<td>choice: Low, High</td>\n\
         <td>user story</td>\n<td><span class=\"tag\">card</span> </td>",
        "<td>Requirement</td>",
        "<span class=\"muted\">dropped</span>",
        "# Our process\n",
        "aria-current=\"page\" title=\"Fields and statuses\"",
    ] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
}

#[tokio::test]
async fn added_field_keeps_the_rest_of_the_text() {
    let (client, calls) = pages(SCHEMA, || Ok(json!({})));
    let form = "action=add-field&name=effort&label=Effort+%22net%22&type=number&values=\
                &kind=requirement&kind=entity&option=column&option=required";
    let response = client.post(PAGE, form).await;
    assert_eq!(
        response.header("location"),
        "/p/default/schema?done=saved-7-.reqlore%2Fproject.toml",
        "{}",
        response.body
    );
    let sent = calls.lock().unwrap().pop().unwrap();
    assert_eq!(sent["if_version"], schema_answer(SCHEMA)["version"]);
    let text = sent["text"].as_str().unwrap();
    assert!(text.contains("# three were too many\ncard = true\n"), "{text}");
    assert!(text.contains("# in the order of work\n"), "{text}");
    let schema = RecordSchema::parse(text);
    assert_eq!(schema.diagnostics, [], "{text}");
    let field = schema.field("effort").unwrap();
    assert_eq!((field.label.as_str(), field.is_required), ("Effort \"net\"", true));
    assert_eq!(field.kinds, ["requirement", "entity"]);
    // An empty text is a start as well.
    let (client, calls) = pages("", || Ok(json!({})));
    let form = "action=add-field&name=risk&type=choice&values=Low,+%22a,b%22&kind=epic";
    client.post(PAGE, form).await;
    let expected = "[fields.risk]\nkinds = [\"epic\"]\ntype = \"choice\"\nvalues = [\"Low\", \
                    \"a,b\"]\n";
    let sent = calls.lock().unwrap().pop().unwrap();
    assert_eq!((&sent["text"], &sent["if_version"]), (&json!(expected), &json!("")));
}

#[tokio::test]
async fn added_status_has_its_position_and_category() {
    for (kind, position, expected) in [
        ("user_story", "2", vec!["Backlog", "Review", "Done"]),
        ("user_story", "", vec!["Backlog", "Done", "Review"]),
        ("epic", "1", vec!["Review", "Backlog", "Draft", "In Progress", "Done", "Cancelled"]),
    ] {
        let (client, calls) = pages(SCHEMA, || Ok(json!({})));
        let form = format!("action=add-status&kind={kind}&name=Review&category=active");
        client.post(PAGE, &format!("{form}&position={position}")).await;
        let sent = calls.lock().unwrap().pop().unwrap();
        let text = sent["text"].as_str().unwrap();
        let schema = RecordSchema::parse(text);
        assert_eq!(schema.diagnostics, [], "{text}");
        let kind = reqlore_domain::backlog::ItemKind::from_name(kind).unwrap();
        let names: Vec<String> =
            schema.statuses(kind).iter().map(|status| status.name().to_owned()).collect();
        assert_eq!(names, expected, "{text}");
        assert_eq!(schema.named_category(kind.name(), "Review").unwrap().name(), "active");
        assert!(text.contains("# in the order of work\n"), "{text}");
    }
}

#[tokio::test]
async fn rejected_change_names_its_lines_and_keeps_the_form() {
    let (client, _) = pages(SCHEMA, invalid);
    let form = "text=%5Bfields.Risk%5D%0D%0Atype=1%0D%0A%5Bother%5D&version=0011";
    let response = client.post(PAGE, form).await;
    assert_eq!(response.status(), 422);
    for expected in [
        "Line 1: field &#34;Risk&#34;: the name is invalid",
        "\nLine 3: &#34;other&#34; is unknown",
        "\n[fields.Risk]\ntype=1\n[other]</textarea>",
    ] {
        assert!(response.body.contains(expected), "{expected}: {}", response.body);
    }
    let form = format!(
        "action=add-field&name={HOSTILE}&label={HOSTILE}&type=text&kind=epic&option={HOSTILE}"
    );
    let response = client.post(PAGE, &form).await;
    assert_eq!(response.status(), 422);
    let body = &response.body;
    assert!(!body.contains("<script>") && body.contains("value=\"epic\" checked"), "{body}");
    assert!(body.contains("<details class=\"add\" id=\"add-field\" open>"), "{body}");
    let (client, calls) = pages(SCHEMA, invalid);
    let response = client.post(PAGE, "action=add-field&name=risk&type=text&kind=epic").await;
    assert!(response.body.contains("The project already has a field risk"), "{}", response.body);
    let (broken, _) = pages("[fields", invalid);
    for form in ["action=add-field&name=a", "action=add-status&kind=epic&name=a"] {
        let response = broken.post(PAGE, form).await;
        assert_eq!(response.status(), 422);
        assert!(response.body.contains("The text is not valid TOML"), "{}", response.body);
    }
    assert!(calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn conflict_shows_stored_and_typed_text() {
    let conflict = || Err(Error::new(ErrorKind::Conflict, "changed").field("if_version"));
    let (client, calls) = pages(SCHEMA, conflict);
    let response = client.post(PAGE, "text=typed&version=0011").await;
    assert_eq!(response.status(), 409);
    assert_eq!(calls.lock().unwrap()[0]["if_version"], "0011");
    for expected in [
        "The text changed while you edited it. Nothing was saved.",
        "Stored now",
        "\ntyped</textarea>",
        "name=\"version\" value=\"",
    ] {
        assert!(response.body.contains(expected), "{expected}: {}", response.body);
    }
}

#[tokio::test]
async fn schema_page_of_a_reader_has_no_forms() {
    let client = PageClient::new(&["get_record_schema"], |_, _| {
        let mut answer = schema_answer(SCHEMA);
        answer["can_edit"] = json!(false);
        Ok(answer)
    });
    let body = client.get(PAGE).await.body;
    assert!(body.contains("<code>risk</code>"), "{body}");
    assert!(!body.contains("action=\"/p/default/schema\""), "{body}");
    assert!(!body.contains("<textarea"), "{body}");
}

const VIEWS: &str = "# Ours\n[views.\"High <b>\"]\nquery = \"kind=requirement&status=draft\"\n\
                     [views.mine]\nquery = \"assignee=ada&sort=-updated\"\n";

#[tokio::test]
async fn view_is_saved_replaced_and_deleted_and_the_rest_stays() {
    let form = "action=set-view&next=%2Fp%2Fdefault%2Ftable%3Fkind%3Depic";
    for (fields, expected) in [
        ("&name=+new+&query=q%3D%2522", "sort=-updated\"\n\n[views.new]\nquery = \"q=%22\"\n"),
        ("&name=mine&query=q%3D1", "[views.mine]\nquery = \"q=1\"\n"),
        ("&name=mine&query=", "status=draft\"\n"),
    ] {
        let (client, calls) = pages(VIEWS, || Ok(json!({})));
        let response = client.post(PAGE, &format!("{form}{fields}")).await;
        let target = response.header("location");
        assert!(target.starts_with("/p/default/table?kind=epic&done=saved-7"), "{target}");
        let sent = calls.lock().unwrap().pop().unwrap();
        let text = sent["text"].as_str().unwrap();
        assert!(
            text.starts_with("# Ours\n[views.\"High <b>\"]\n") && text.ends_with(expected),
            "{text}"
        );
        assert_eq!(RecordSchema::parse(text).diagnostics, [], "{text}");
    }
    let (client, _) = pages(VIEWS, invalid);
    let response = client.post(PAGE, &format!("{form}&name=MINE&query=q%3D1")).await;
    assert_eq!(response.status(), 422);
    assert!(response.body.contains("the name stands twice"), "{}", response.body);
}

/// The part of the page with the views.
async fn view_bar(client: &PageClient, page: &str) -> String {
    let body = client.get(&format!("/p/default/{page}")).await.body;
    let bar = body.split_once("aria-label=\"Views\">").map_or("", |(_, rest)| rest);
    bar.split_once("<form class=\"filters\"").map_or("", |(bar, _)| bar).to_owned()
}

fn lists(can_edit: bool) -> PageClient {
    PageClient::new(&["get_record_schema", "list_items"], move |tool, _| {
        let mut answer = schema_answer(VIEWS);
        answer["can_edit"] = json!(can_edit);
        Ok(if tool == "list_items" { json!({ "items": [], "total": 0 }) } else { answer })
    })
}

#[tokio::test]
async fn views_are_links_and_only_editors_save_and_delete_them() {
    let bar = view_bar(&lists(true), "table?status=Draft&kind=requirement").await;
    for expected in [
        "table?kind=requirement&#38;status=Draft\" aria-current=\"true\">High &#60;b&#62;</a>",
        "table?kind=user_story&#38;assignee=ada&#38;sort=-updated\">mine</a>",
        "aria-label=\"Delete the view High &#60;b&#62;\"",
    ] {
        assert!(bar.contains(expected), "{expected}: {bar}");
    }
    assert_eq!(bar.matches("<form").count(), 1, "{bar}");
    let bar = view_bar(&lists(true), "board?kind=epic&tag=%22%3E%3Cscript%3E").await;
    assert!(bar.contains("value=\"kind=epic&#38;tag=%22%3E%3Cscript%3E\""), "{bar}");
    for (page, can_edit) in [("board?kind=epic", true), ("board?tag=a", false)] {
        let bar = view_bar(&lists(can_edit), page).await;
        assert!(bar.contains("mine</a>") && !bar.contains("<form"), "{page}: {bar}");
    }
}
