//! Custom fields and statuses of a project, through its tools.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use serde_json::{Value, json};

use crate::test_support::{TestApplication, item_id, references};

const SCHEMA: &str = r#"
[fields.risk]
kinds = ["requirement", "user_story"]
type = "choice"
values = ["Low", "Medium", "High"]
[fields.effort]
kinds = ["requirement"]
type = "number"
required = true

[statuses.user_story]
order = ["Backlog", "Ready", "Review", "Done"]
category = { Ready = "open", Review = "active" }
"#;

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write(DocumentId::schema(), SCHEMA).await;
    testing.data("create_epic", json!({ "title": "Shop", "priority": 1 })).await;
    let story = json!({ "epic": "EP-001", "title": "Pay", "priority": 2, "status": "ready" });
    testing.data("create_user_story", story).await;
    for (risk, effort) in [("high", 10), ("Low", 9), ("Medium", 2), ("High", 1)] {
        let fields = json!({ "risk": risk, "effort": effort });
        testing.data("create_requirement", requirement(&fields)).await;
    }
    testing
}

fn requirement(fields: &Value) -> Value {
    json!({
        "user_story": "US-001", "title": "A", "priority": 3, "type": "Data", "fields": fields,
    })
}

#[tokio::test]
async fn custom_values_are_written_filtered_and_sorted() {
    let testing = project().await;
    for (arguments, expected) in [
        (json!({ "fields": { "risk": "HIGH" } }), vec!["REQ-001", "REQ-004"]),
        (json!({ "fields": { "effort": 9 } }), vec!["REQ-002"]),
        (json!({ "fields": { "risk": "High", "effort": "1" } }), vec!["REQ-004"]),
        (json!({ "sort": "effort" }), vec!["REQ-004", "REQ-003", "REQ-002", "REQ-001"]),
        (json!({ "sort": "-risk" }), vec!["REQ-001", "REQ-004", "REQ-003", "REQ-002"]),
        (json!({ "sort": "risk", "fields": "{\"risk\": \"Low\"}" }), vec!["REQ-002"]),
    ] {
        let mut arguments = arguments;
        arguments["kind"] = json!("requirement");
        let page = testing.data("list_items", arguments.clone()).await;
        assert_eq!(references(&page["items"]), expected, "{arguments}");
        assert_eq!(page["total"], expected.len(), "{arguments}");
    }
}

#[tokio::test]
async fn custom_values_are_in_the_answer_of_an_item() {
    let testing = project().await;
    let item = testing.data("get_item", json!({ "reference": "REQ-001" })).await;
    assert_eq!(item["item"]["fields"], json!({ "risk": "High", "effort": 10 }));
    assert!(
        testing
            .text("get_item", json!({ "reference": "REQ-001" }))
            .await
            .contains("\neffort: 10, risk: High")
    );
    let text = "---\ntitle: A\nrisk: Huge\nstatus: Draft\neffort: 1\n---\n";
    testing.write_item("REQ-009", text).await;
    let item = testing.data("get_item", json!({ "reference": "REQ-009" })).await;
    assert_eq!(item["item"]["fields"], json!({ "risk": "Huge", "effort": 1 }));
    let problem = item["diagnostic"].as_str().unwrap();
    assert!(
        problem.contains("risk: \"Huge\" is invalid; use one of Low, Medium, High"),
        "{problem}"
    );
}

#[tokio::test]
async fn custom_values_that_do_not_fit_are_rejected() {
    let testing = project().await;
    for (fields, expected) in [
        (
            json!({ "risk": "Huge", "effort": 1 }),
            "fields.risk: \"Huge\" is invalid; use one of Low",
        ),
        (json!({ "effort": "many" }), "fields.effort: \"many\" is not a number"),
        (json!({ "risk": "Low" }), "fields.effort: is required; send a number"),
        (json!({ "colour": "red", "effort": 1 }), "fields.colour: requirements have no such field"),
        (json!("risk"), "fields: send an object"),
    ] {
        let error = testing.error("create_requirement", requirement(&fields)).await;
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.message.contains(expected), "{error}");
    }
    let arguments = json!({ "kind": "epic", "fields": { "risk": "Low" } });
    let error = testing.error("list_items", arguments).await;
    let expected = "fields.risk: epics have no custom fields in this project; omit it";
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn update_changes_and_removes_custom_values_alone() {
    let testing = project().await;
    let text = "---\ntitle: A\nrisk: high # why\neffort: 3\nuser_story: US-001\n---\n\nText\n";
    testing.write_item("REQ-009", text).await;
    let update = |fields| json!({ "requirement": "REQ-009", "fields": fields });
    testing.data("update_requirement", update(json!({ "effort": 5 }))).await;
    testing.data("update_requirement", update(json!({ "risk": null }))).await;
    for empty in [json!(null), json!(" ")] {
        let emptied = update(json!({ "effort": empty }));
        let error = testing.error("update_requirement", emptied).await;
        assert!(error.message.starts_with("fields.effort: is required; send a number"), "{error}");
    }
    let stored = testing.body(item_id("REQ-009")).await.unwrap();
    assert!(stored.contains("effort: 5\n") && !stored.contains("risk"), "{stored}");
    assert!(stored.starts_with("---\ntitle: A\n") && stored.ends_with("---\n\nText\n"), "{stored}");
}

#[tokio::test]
async fn custom_statuses_are_used_and_others_are_named() {
    let testing = project().await;
    let page = testing.data("list_items", json!({ "kind": "user_story" })).await;
    assert_eq!(page["by_status"], json!({ "Ready": 1 }));
    let update = |status: &str| json!({ "user_story": "US-001", "status": status });
    testing.data("update_user_story", update("review")).await;
    let page = json!({ "kind": "user_story", "status": "REVIEW" });
    assert_eq!(testing.data("list_items", page).await["total"], 1);
    for hidden in ["In Progress", "Active", "Waiting"] {
        let error = testing.error("update_user_story", update(hidden)).await;
        let expected = "is not one of Backlog, Ready, Review, Done";
        assert!(error.message.contains(expected), "{error}");
    }
    let epics = testing.data("list_items", json!({ "kind": "epic" })).await;
    assert_eq!(epics["items"][0]["progress"], json!({ "done": 0, "total": 1 }));
    let changed = SCHEMA.replace("\"Review\", ", "").replace(", Review = \"active\"", "");
    testing.write(DocumentId::schema(), changed.replace("type = \"number\"", "type = \"x\"")).await;
    let findings = testing.check().await.join("\n");
    assert!(
        findings.contains("status \"Review\" is invalid; use one of Backlog, Ready"),
        "{findings}"
    );
    assert!(
        findings.contains(".reqlore/project.toml:6: field \"effort\": type \"x\""),
        "{findings}"
    );
    let kept = testing.data("list_items", json!({ "kind": "user_story" })).await;
    assert_eq!(kept["by_status"], json!({ "Review": 1 }));
    let with_status = |status: &str| json!({ "kind": "user_story", "status": status });
    assert_eq!(testing.data("list_items", with_status("Review")).await["total"], 1);
    let error = testing.error("list_items", with_status("Waiting")).await;
    assert!(error.message.contains("\"Waiting\" is not one of Backlog"), "{error}");
}

const REQUIREMENT: &str =
    "---\ntitle: A\nrisk: High\neffort: 10\nuser_story: US-001\ncreated_at: 2026-01-04\n---\n";

/// Writes SCHEMA with these texts replaced, as another process would.
async fn change_schema(testing: &TestApplication, changes: &[(&str, &str)]) {
    let replace = |schema: String, (from, to): &(&str, &str)| schema.replace(from, to);
    let schema = changes.iter().fold(SCHEMA.to_owned(), replace);
    testing.write(DocumentId::schema(), schema).await;
}

#[tokio::test]
async fn values_outlive_a_change_of_their_field_or_status() {
    let testing = project().await;
    testing.write_item("REQ-009", REQUIREMENT).await;
    let application = testing.application();
    let call = |tool, arguments| testing.call_on(&application, tool, arguments);
    let update = json!({ "user_story": "US-001", "status": "Review", "fields": { "risk": "Low" } });
    call("update_user_story", update).await.unwrap();
    change_schema(
        &testing,
        &[
            ("\"Review\", ", ""),
            (", Review = \"active\"", ""),
            ("values = [\"Low\", \"Medium\", \"High\"]", "values = [\"Tiny\"]"),
            ("type = \"number\"", "type = \"date\""),
        ],
    )
    .await;
    // Edits of other fields keep them, and a call that names them again is refused.
    let update = json!({ "user_story": "US-001", "title": "Buy" });
    call("update_user_story", update).await.unwrap();
    let update = json!({ "requirement": "REQ-009", "fields": { "risk": "Tiny" } });
    let updated = call("update_requirement", update).await.unwrap();
    assert_eq!(updated.data["fields"], json!({ "risk": "Tiny", "effort": "10" }));
    let shown = testing.text("get_item", json!({ "reference": "US-001" })).await;
    assert!(shown.contains("Status: Review") && shown.contains("risk: Low"), "{shown}");
    let shown = testing.text("get_item", json!({ "reference": "REQ-009" })).await;
    assert!(shown.contains("effort: \"10\" is not a date"), "{shown}");
    for fields in [json!({ "status": "Review" }), json!({ "fields": { "risk": "Low" } })] {
        let mut arguments = json!({ "user_story": "US-001" });
        arguments.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let error = call("update_user_story", arguments).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
    // Without the field, its values stay in the files.
    testing.write(DocumentId::schema(), "").await;
    let update = json!({ "requirement": "REQ-009", "title": "B" });
    let updated = call("update_requirement", update).await.unwrap();
    assert!(updated.data.get("fields").is_none(), "{}", updated.data);
    let stored = testing.body(item_id("REQ-009")).await.unwrap();
    assert!(stored.contains("\nrisk: Tiny\neffort: 10\n"), "{stored}");
}

#[tokio::test]
async fn writes_with_an_invalid_schema_name_its_problem() {
    let testing = project().await;
    testing.write_item("REQ-009", REQUIREMENT).await;
    change_schema(&testing, &[("type = \"number\"", "<<<<<<< HEAD\ntype = \"number\"")]).await;
    let update = json!({ "requirement": "REQ-009", "fields": { "risk": "Tiny" } });
    let error = testing.error("update_requirement", update).await;
    assert!(error.message.contains(".reqlore/project.toml:8: invalid TOML: "), "{error}");
    let update = json!({ "requirement": "REQ-009", "title": "B" });
    testing.data("update_requirement", update).await;
    let stored = testing.body(item_id("REQ-009")).await.unwrap();
    assert!(stored.contains("\nrisk: High\neffort: 10\n"), "{stored}");
    let field = |number| format!("[fields.f{number}]\nkinds = [\"epic\"]\ntype = \"text\"\n");
    let many: String = (0..1_000).map(field).collect();
    testing.write(DocumentId::schema(), many).await;
    let epic = |field: &str| json!({ "title": "A", "priority": 1, "fields": { field: "x" } });
    testing.data("create_epic", epic("f39")).await;
    let error = testing.error("create_epic", epic("f40")).await;
    assert!(error.message.contains("a project has at most 40 fields"), "{error}");
}
