//! Tests of the status of acceptance criteria, and of their move to another story.

use reqlore_domain::error::ErrorKind;
use serde_json::json;

use crate::test_support::{TestApplication, item_id};

const TEXT: &str = "---\nuser_story: US-001\ncreated_at: 2026-01-01T00:00:00Z\n---\n\nGiven a\n";

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: Shop\n---\n").await;
    testing.write_item("US-001", "---\ntitle: Pay\nepic: EP-001\n---\n").await;
    testing.write_item("US-002", "---\ntitle: Ship\nepic: EP-001\n---\n").await;
    testing.write_item("AC-001", TEXT).await;
    testing
}

async fn stored(testing: &TestApplication) -> String {
    testing.body(item_id("AC-001")).await.unwrap()
}

#[tokio::test]
async fn criterion_is_open_until_its_status_is_written() {
    let testing = project().await;
    let item = testing.data("get_item", json!({ "reference": "AC-001" })).await["item"].clone();
    assert_eq!(item["status"], "Open");
    let open = json!({ "acceptance_criteria": "AC-001", "status": "Open" });
    testing.data("update_acceptance_criteria", open.clone()).await;
    assert_eq!(stored(&testing).await, TEXT);
    let met = json!({ "acceptance_criteria": "AC-001", "status": "met" });
    let answer = testing.data("update_acceptance_criteria", met).await;
    assert_eq!(answer["status"], "Met");
    let text = stored(&testing).await;
    assert!(text.contains("\nstatus: Met\n"), "{text}");
    testing.data("update_acceptance_criteria", open).await;
    assert!(stored(&testing).await.contains("\nstatus: Open\n"));
    let done = json!({ "acceptance_criteria": "AC-001", "status": "Done" });
    let error = testing.error("update_acceptance_criteria", done).await;
    assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::InvalidArgument, Some("status")));
    assert!(error.message.contains("Open, Met"), "{error}");
}

#[tokio::test]
async fn criterion_moves_to_another_story() {
    let testing = project().await;
    let moved = json!({ "acceptance_criteria": "AC-001", "user_story": "US-002" });
    testing.data("update_acceptance_criteria", moved).await;
    let text = stored(&testing).await;
    assert!(text.contains("user_story: US-002") && !text.contains("status"), "{text}");
    let story = testing.text("get_item", json!({ "reference": "US-002" })).await;
    assert!(story.contains("- AC-001 (Open): Given a"), "{story}");
    let missing = json!({ "acceptance_criteria": "AC-001", "user_story": "US-009" });
    let error = testing.error("update_acceptance_criteria", missing).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
}
