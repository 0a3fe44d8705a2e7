//! `delete_item`: cascades, tombstones and refused deletions.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::DocumentKind;

use super::*;

#[tokio::test]
async fn delete_of_a_referenced_item_requires_cascade() {
    let testing = story().await;
    requirement(&testing, "A", 1).await;
    let story = json!({ "epic": "EP-001", "title": "Other", "priority": 2 });
    testing.data("create_user_story", story).await;
    let second_requirement =
        json!({ "user_story": "US-002", "title": "B", "priority": 1, "type": "Data" });
    testing.data("create_requirement", second_requirement).await;
    let relationship = json!({ "source": "REQ-002", "target": "REQ-001", "type": "derives_from" });
    testing.data("create_relationship", relationship).await;
    for (reference, message) in [
        ("EP-001", "US-001"),
        ("US-001", "REQ-001"),
        ("REQ-001", "REQ-002"),
        ("REQ-002", "REQ-001"),
    ] {
        let error = testing.error("delete_item", json!({ "reference": reference })).await;
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains(message) && error.message.contains("cascade"), "{error}");
    }
    let arguments = json!({ "reference": "US-001", "cascade": true });
    let answer = testing.call("delete_item", arguments).await.unwrap();
    assert_eq!(answer.data["deleted"], json!(["US-001", "REQ-001"]));
    assert_eq!(answer.data["unlinked"], json!(["REQ-002"]));
    assert!(answer.text.starts_with("Deleted user story US-001: Log in (version "), "{answer:?}");
    let error = testing.error("get_item", json!({ "reference": "REQ-001" })).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.starts_with("Requirement not found: REQ-001 (it was deleted on "));
    assert!(error.message.ends_with(" by tester)"), "{error}");
    let again = requirement_of(&testing, "US-002").await;
    assert_eq!(again["reference_id"], "REQ-003", "a deleted reference is never issued again");
    let epic = json!({ "reference": "EP-001", "cascade": true });
    let answer = testing.call("delete_item", epic).await.unwrap();
    assert_eq!(answer.data["deleted"], json!(["EP-001", "US-002", "REQ-002", "REQ-003"]));
}

async fn requirement_of(testing: &TestApplication, story: &str) -> Value {
    let arguments =
        json!({ "user_story": story, "title": "C", "priority": 1, "type": "Interface" });
    testing.data("create_requirement", arguments).await
}

#[tokio::test]
async fn cascade_over_a_file_without_reference_names_the_file() {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: A\n---\n").await;
    testing.write_item("US-001", "---\ntitle: S\nepic: EP-001\n---\n").await;
    testing.write_item("REQ-001", "---\ntitle: R\nuser_story: US-001\n---\n").await;
    let id = DocumentId { kind: DocumentKind::Item(ItemKind::Requirement), name: "idea".into() };
    testing.write(id, "---\ntitle: I\nblocks: [REQ-001]\nuser_story: US-001\n---\n").await;
    for reference in ["REQ-001", "US-001", "EP-001"] {
        let arguments = json!({ "reference": reference, "cascade": true });
        let error = testing.error("delete_item", arguments).await;
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.message.contains("requirements/idea.md links to it"), "{error}");
    }
}

#[tokio::test]
async fn cascade_with_a_duplicate_reference_is_refused() {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: A\n---\n").await;
    testing.write_item("EP-002", "---\ntitle: B\n---\n").await;
    testing.write_item("US-001-aaaaaa", "---\ntitle: Of A\nepic: EP-001\n---\n").await;
    testing.write_item("US-001-bbbbbb", "---\ntitle: Of B\nepic: EP-002\n---\n").await;
    let child = "---\ntitle: C\nuser_story: US-001\nlinked: {US-001: bbbbbb}\n---\n";
    testing.write_item("REQ-001", child).await;
    let arguments = json!({ "reference": "EP-001", "cascade": true });
    let error = testing.error("delete_item", arguments).await;
    assert!(error.message.contains("reqlore check --fix"), "{error}");
    let answer = testing.call("get_item", json!({ "reference": "REQ-001" })).await;
    assert!(answer.is_ok(), "nothing was deleted");
}

#[tokio::test]
async fn story_with_an_unreadable_child_still_lists_the_others() {
    let testing = story().await;
    requirement(&testing, "Good", 1).await;
    testing.write_item("REQ-002", "---\ntitle: A: b\nuser_story: US-001\n---\n").await;
    let answer = testing.call(GET, json!({ "user_story": "US-001" })).await.unwrap();
    assert!(answer.text.starts_with("Found 2 requirements"), "{answer:?}");
    assert!(answer.text.contains("REQ-002.md:2"), "{answer:?}");
    let error = testing.error("delete_item", json!({ "reference": "US-001" })).await;
    assert!(error.message.contains("REQ-002 belongs to it"), "{error}");
}
