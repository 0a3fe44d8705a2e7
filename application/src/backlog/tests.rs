//! The backlog tools through the application service.

mod check;
mod claims;
mod criteria_status;
mod custom_answers;
mod custom_fields;
mod delete_item;
mod hand_made_files;
mod list_items;
mod project_scope;
mod rank;
mod repair;
mod size_limits;

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::Access;
use serde_json::{Value, json};

use crate::test_support::{TestApplication, item_id};

const GET: &str = "get_user_story_requirements";

/// A project with an epic and a story.
async fn story() -> TestApplication {
    let testing = TestApplication::new();
    testing.data("create_epic", json!({ "title": "Accounts", "priority": 1 })).await;
    let story = json!({ "epic": "EP-001", "title": "Log in", "priority": 2 });
    testing.data("create_user_story", story).await;
    testing
}

async fn requirement(testing: &TestApplication, title: &str, priority: u8) -> Value {
    let arguments = json!({
        "user_story": "US-001", "title": title, "priority": priority, "type": "Functional",
    });
    testing.data("create_requirement", arguments).await
}

#[tokio::test]
async fn write_at_a_stale_version_returns_the_current_text() {
    let testing = story().await;
    let created = requirement(&testing, "First", 1).await;
    let version = created["version"].clone();
    let arguments = json!({ "requirement": "REQ-001", "title": "Second", "if_version": version });
    testing.data("update_requirement", arguments.clone()).await;
    for (tool, arguments) in [
        ("update_requirement", arguments),
        ("delete_item", json!({ "reference": "REQ-001", "if_version": version })),
    ] {
        let error = testing.error(tool, arguments).await;
        assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::Conflict, Some("if_version")));
        assert!(error.message.contains("title: Second"), "{error}");
    }
}

fn relate(source: &str, target: &str, kind: &str) -> Value {
    json!({ "source": source, "target": target, "type": kind })
}

// S5: 7.6
#[tokio::test]
async fn relationship_duplicate_or_to_itself_is_refused() {
    let testing = story().await;
    requirement(&testing, "A", 1).await;
    requirement(&testing, "B", 1).await;
    testing.data("create_relationship", relate("REQ-001", "REQ-002", "depends_on")).await;
    testing.data("create_relationship", relate("REQ-001", "REQ-002", "relates_to")).await;
    testing.data("create_relationship", relate("REQ-002", "REQ-001", "depends_on")).await;
    for (arguments, message) in [
        (relate("REQ-001", "REQ-002", "depends_on"), "This relationship already exists"),
        (relate("REQ-002", "REQ-001", "relates_to"), "This relationship already exists"),
        (relate("REQ-001", "REQ-001", "blocks"), "with itself"),
        (relate("REQ-001", "REQ-009", "blocks"), "Requirement not found: REQ-009"),
        (relate("US-001", "REQ-001", "blocks"), "a user story relates to another one"),
        (relate("REQ-001", "REQ-002", "hates"), "is not one of depends_on, blocks"),
    ] {
        let error = testing.error("create_relationship", arguments).await;
        assert!(error.message.contains(message), "{error}");
    }
    let answer = testing.call("get_item", json!({ "reference": "REQ-001" })).await.unwrap();
    let kinds = |direction: &str| -> Vec<String> {
        let related = answer.data["relationships"][direction].as_array().unwrap();
        related.iter().map(|to| format!("{} {}", to["type"], to["reference_id"])).collect()
    };
    assert_eq!(kinds("outgoing"), ["\"depends_on\" \"REQ-002\"", "\"relates_to\" \"REQ-002\""]);
    assert_eq!(kinds("incoming"), ["\"depends_on\" \"REQ-002\""]);
    let ended = relate("REQ-001", "REQ-002", "depends_on");
    testing.data("delete_relationship", ended.clone()).await;
    let error = testing.error("delete_relationship", ended).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
}

// S2: 1.9, 4.1
#[tokio::test]
async fn requirement_types_match_the_types_resource() {
    let testing = story().await;
    let types = testing.read("requirements://requirements-types").await.unwrap();
    let types: Value = serde_json::from_str(&types.text).unwrap();
    let texts = |list: &Value, key: &str| -> Vec<String> {
        let all = list.as_array().unwrap().iter();
        all.map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
    };
    let names = texts(&types["requirement_types"], "name");
    for name in &names {
        let arguments =
            json!({ "user_story": "US-001", "title": name, "priority": 1, "type": name });
        testing.data("create_requirement", arguments).await;
    }
    let answer = testing.call(GET, json!({ "user_story": "US-001" })).await.unwrap();
    let mut returned = texts(&answer.data["requirements"], "type_name");
    returned.reverse();
    assert_eq!(returned, names);
    assert!(names.iter().all(|name| answer.text.contains(&format!("Type: {name},"))));
}

#[tokio::test]
async fn description_of_a_crlf_file_keeps_one_kind_of_line_end() {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\r\ntitle: A\r\n---\r\n\r\none\r\ntwo\r\n").await;
    let record = testing.data("get_item", json!({ "reference": "EP-001" })).await;
    assert_eq!(record["item"]["description"], "one\ntwo");
    let version = record["item"]["version"].clone();
    let same = json!({ "epic": "EP-001", "description": "one\ntwo" });
    assert_eq!(testing.data("update_epic", same).await["version"], version);
    let arguments = json!({ "epic": "EP-001", "description": "three\nfour" });
    assert_eq!(testing.data("update_epic", arguments).await["description"], "three\nfour");
    let body = testing.body(item_id("EP-001")).await.unwrap();
    assert!(body.ends_with("---\r\n\r\nthree\r\nfour\r\n"), "{body:?}");
    assert_eq!(body.matches('\n').count(), body.matches("\r\n").count(), "{body:?}");
}
