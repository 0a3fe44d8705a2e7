//! Tests of the order by hand: positions next to other items, their priorities, and lists.

use serde_json::{Value, json};

use crate::test_support::{TestApplication, item_id};

/// Stories of priority 2, created in the same second, and one of priority 4.
async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: Shop\n---\n").await;
    for number in 1..=5 {
        let priority = if number == 5 { 4 } else { 2 };
        let text = format!(
            "---\ntitle: S{number}\nepic: EP-001\npriority: {priority}\n\
             created_at: 2026-01-01\n---\n"
        );
        testing.write_item(&format!("US-00{number}"), text).await;
    }
    testing
}

async fn order(testing: &TestApplication) -> String {
    let page = testing.data("list_items", json!({ "kind": "user_story" })).await;
    let ids = page["items"].as_array().unwrap().iter().map(|item| &item["reference_id"]);
    ids.map(|id| id.as_str().unwrap().trim_start_matches("US-00")).collect()
}

async fn move_to(testing: &TestApplication, number: u32, rank: &str) -> Value {
    let arguments = json!({ "user_story": format!("US-00{number}"), "rank": rank });
    testing.data("update_user_story", arguments).await
}

#[tokio::test]
async fn item_is_moved_before_or_after_another_one() {
    let testing = project().await;
    assert_eq!(order(&testing).await, "12345");
    let before = testing.body(item_id("US-002")).await;
    for (number, rank, expected) in [
        (4, "after US-001", "14235"),
        (3, "before us-4", "13425"),
        (1, "after US-002", "34215"),
        (1, "before US-003", "13425"),
        // Its own position.
        (3, "after US-001", "13425"),
        (3, "z", "14235"),
        (3, "", "14235"),
    ] {
        let answer = move_to(&testing, number, rank).await;
        assert_eq!(order(&testing).await, expected, "US-00{number} {rank}: {answer}");
    }
    // A move writes one item.
    assert_eq!(testing.body(item_id("US-002")).await, before);
    let epic = testing.text("epic_hierarchy", json!({ "epic": "EP-001" })).await;
    let positions: Vec<_> =
        [1, 4, 2, 3, 5].iter().map(|number| epic.find(&format!("US-00{number}"))).collect();
    assert!(positions.is_sorted(), "{epic}");
}

#[tokio::test]
async fn move_among_items_of_another_priority_changes_the_priority() {
    let testing = project().await;
    let answer = move_to(&testing, 5, "before US-002").await;
    assert_eq!((&answer["priority"], order(&testing).await.as_str()), (&json!(2), "15234"));
    assert_eq!(answer["notes"][0], "priority is now 2, like that of US-002");
    let shown = testing.data("get_item", json!({ "reference": "US-005" })).await;
    assert!(shown["item"]["rank"].is_string(), "{shown}");
}

#[tokio::test]
async fn positions_of_one_call_depend_on_each_other() {
    let testing = project().await;
    let changes = json!({ "changes": [
        { "update": "US-003", "rank": "before US-001" },
        { "update": "US-002", "rank": "after US-003" },
        { "update": "US-005", "rank": "after US-002" },
        { "update": "US-001", "rank": "after US-004" },
    ] });
    testing.data("apply_changes", changes).await;
    assert_eq!(order(&testing).await, "32541");
    let list = json!({ "kind": "user_story", "show": ["rank"] });
    let text = testing.text("list_items", list).await;
    assert_eq!(text.matches("rank ").count(), 4, "{text}");
}

#[tokio::test]
async fn invalid_position_is_refused_with_the_form_to_send() {
    let testing = project().await;
    for (rank, problem) in [
        ("up US-001", "\"up US-001\" is not a rank; send before or after and an ID"),
        ("before US-009", "not found: US-009"),
        ("after REQ-001", "REQ-001"),
        ("a-b", "ASCII letters and digits"),
    ] {
        let arguments = json!({ "user_story": "US-003", "rank": rank });
        let error = testing.error("update_user_story", arguments).await;
        assert_eq!(error.field.as_deref(), Some("rank"), "{error}");
        assert!(error.message.contains(problem), "{rank}: {error}");
    }
    for name in ["US-001", "US-002"] {
        let text = "---\ntitle: A\nepic: EP-001\npriority: 2\nrank: same\n---\n";
        testing.write_item(name, text).await;
    }
    let arguments = json!({ "user_story": "US-004", "rank": "after US-001" });
    let error = testing.error("update_user_story", arguments).await;
    assert_eq!(error.message, "rank: there is no room after US-001; move US-001 first");
}

#[tokio::test]
async fn criteria_are_ordered_too() {
    let testing = project().await;
    for number in 1..=3 {
        let text = "---\nuser_story: US-001\ncreated_at: 2026-01-01\n---\nGiven\n";
        testing.write_item(&format!("AC-00{number}"), text).await;
    }
    let arguments = json!({ "acceptance_criteria": "AC-003", "rank": "before AC-001" });
    let answer = testing.data("update_acceptance_criteria", arguments).await;
    assert!(answer["notes"].is_null() && answer["priority"].is_null(), "{answer}");
    let story = testing.text("get_item", json!({ "reference": "US-001" })).await;
    let positions = ["AC-003", "AC-001", "AC-002"].map(|name| story.find(name));
    assert!(positions.is_sorted(), "{story}");
}
