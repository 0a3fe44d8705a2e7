//! Custom fields and statuses in the answers of tools that read, and of those that write items.

use reqlore_domain::document::DocumentId;
use serde_json::json;

use crate::test_support::{TestApplication, references};

const SCHEMA: &str = r#"
[fields.risk]
kinds = ["epic", "user_story", "requirement", "entity"]
type = "choice"
values = ["Low", "High"]
card = true
[fields.effort]
kinds = ["requirement", "user_story"]
type = "number"
[fields.note]
kinds = ["user_story"]
type = "text"
column = true

[statuses.user_story]
order = ["Ready", "Backlog", "Review", "Done"]
category = { Ready = "open", Review = "active" }
[statuses.decision]
order = ["Proposed", "Trial", "Accepted"]
"#;

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write(DocumentId::schema(), SCHEMA).await;
    testing.write_item("EP-001", "---\ntitle: Shop\nrisk: Low\n---\n").await;
    let story = "---\ntitle: Pay\nepic: EP-001\nrisk: High\neffort: 3\nmood: odd\n---\n";
    testing.write_item("US-001", story).await;
    let requirement = "---\ntitle: Card\nuser_story: US-001\neffort: 2.5\n---\n";
    testing.write_item("REQ-001", requirement).await;
    let decision = "---\nid: dec-000001\ntitle: Cash\nstatus: open\nrisk: Huge\n---\n";
    testing.write(DocumentId::entity("decisions/dec-000001"), decision).await;
    testing
}

#[tokio::test]
async fn lists_answer_custom_values_and_show_those_of_columns() {
    let testing = project().await;
    let stories = json!({ "kind": "user_story" });
    let page = testing.data("list_items", stories.clone()).await;
    assert_eq!(page["items"][0]["fields"], json!({ "effort": 3, "risk": "High" }));
    let text = testing.text("list_items", stories.clone()).await;
    assert!(text.contains("risk: High") && !text.contains("effort"), "{text}");
    let text = testing.text("list_items", json!({ "kind": "user_story", "show": "fields" })).await;
    assert!(text.ends_with("; effort: 3; risk: High"), "{text}");
    let titles = json!({ "kind": "user_story", "show": ["title"] });
    assert_eq!(testing.data("list_items", titles.clone()).await["items"][0]["fields"], json!(null));
    assert!(!testing.text("list_items", titles).await.contains("risk"));
    let decisions = testing.data("list_items", json!({ "kind": "decision" })).await;
    assert_eq!(decisions["items"][0]["fields"], json!({ "risk": "Huge" }));
    let long = format!("---\ntitle: Long\nnote: {}\n---\n", "n".repeat(200));
    testing.write_item("US-002", long).await;
    let text = testing.text("list_items", stories).await;
    assert!(text.contains(&format!("; note: {}…", "n".repeat(74))), "{text}");
}

#[tokio::test]
async fn other_answers_have_custom_values() {
    let testing = project().await;
    let (story, requirement) = (json!({ "effort": 3, "risk": "High" }), json!({ "effort": 2.5 }));
    for (tool, arguments, pointer, expected) in [
        ("get_item", json!({ "reference": "EP-001" }), "/children/0", &story),
        ("get_item", json!({ "reference": "US-001" }), "/children/0", &requirement),
        ("list_epics", json!({}), "/epics/0", &json!({ "risk": "Low" })),
        ("epic_hierarchy", json!({ "epic": "EP-001" }), "/user_stories/0", &story),
        (
            "epic_hierarchy",
            json!({ "epic": "EP-001" }),
            "/user_stories/0/requirements/0",
            &requirement,
        ),
        (
            "get_user_story_requirements",
            json!({ "user_story": "US-001" }),
            "/requirements/0",
            &requirement,
        ),
        ("update_user_story", json!({ "user_story": "US-001", "title": "Pay now" }), "", &story),
        (
            "create_requirement",
            json!({
                "user_story": "US-001", "title": "A", "priority": 1, "type": "Data",
                "fields": { "effort": 2.5 },
            }),
            "",
            &requirement,
        ),
        (
            "create_relationship",
            json!({ "source": "REQ-001", "target": "REQ-002", "type": "blocks" }),
            "",
            &requirement,
        ),
    ] {
        let data = testing.data(tool, arguments).await;
        assert_eq!(&data.pointer(pointer).unwrap()["fields"], expected, "{tool}: {data}");
    }
}

#[tokio::test]
async fn entity_values_that_do_not_fit_are_named() {
    let testing = project().await;
    let id = json!({ "id": "dec-000001" });
    let shown = testing.data("ixchel_show", id.clone()).await;
    assert_eq!(shown["fields"], json!({ "risk": "Huge" }));
    let problem = "decisions/dec-000001.md: risk: \"Huge\" is invalid; use one of Low, High";
    let diagnostic = shown["diagnostic"].as_str().unwrap();
    assert!(diagnostic.ends_with(problem), "{diagnostic}");
    let text = testing.text("ixchel_show", id.clone()).await;
    assert!(text.contains("\nNote: Problem in the file: ") && text.contains(problem), "{text}");
    let decision = "---\nid: dec-000001\ntitle: Cash\nstatus: open\nrisk: Low\n---\n";
    testing.write(DocumentId::entity("decisions/dec-000001"), decision).await;
    let shown = testing.data("ixchel_show", id).await;
    let problem = "status \"open\" is invalid; use one of Proposed, Trial, Accepted";
    assert!(shown["diagnostic"].as_str().unwrap().ends_with(problem), "{shown}");
}

#[tokio::test]
async fn lists_have_the_order_of_the_statuses_of_the_project() {
    let testing = project().await;
    for (name, status) in [
        ("US-002", "Done"),
        ("US-003", "Review"),
        ("US-004", "In Progress"),
        ("US-005", "ready"),
        ("US-006", "Waiting"),
    ] {
        let story = format!("---\ntitle: {name}\nstatus: {status}\ncreated_at: 2026-01-01\n---\n");
        testing.write_item(name, story).await;
    }
    for (sort, expected) in [
        ("status", ["US-005", "US-001", "US-003", "US-002", "US-004", "US-006"]),
        ("-Status", ["US-002", "US-003", "US-001", "US-005", "US-006", "US-004"]),
    ] {
        let mut arguments = json!({ "kind": "user_story", "sort": sort, "limit": 4 });
        let page = testing.data("list_items", arguments.clone()).await;
        assert_eq!(references(&page["items"]), expected[..4], "{sort}");
        let counts: Vec<&str> =
            page["by_status"].as_object().unwrap().keys().map(|key| &**key).collect();
        let order = ["ready", "Backlog", "Review", "Done", "In Progress", "Waiting"];
        assert_eq!(counts, order, "{sort}");
        arguments["cursor"] = page["next_cursor"].clone();
        let page = testing.data("list_items", arguments).await;
        assert_eq!(references(&page["items"]), expected[4..], "{sort}");
    }
    for (id, status) in [("dec-000002", "Proposed"), ("dec-000003", "accepted")] {
        let decision = format!("---\nid: {id}\ntitle: A\nstatus: {status}\n---\n");
        testing.write(DocumentId::entity(format!("decisions/{id}")), decision).await;
    }
    let decisions = json!({ "kind": "decision", "sort": "status" });
    let page = testing.data("list_items", decisions.clone()).await;
    assert_eq!(references(&page["items"]), ["dec-000002", "dec-000003", "dec-000001"]);
    let text = testing.text("list_items", decisions).await;
    assert!(text.starts_with("3 entities (by status: Proposed 1, accepted 1, open 1)\n"), "{text}");
}
