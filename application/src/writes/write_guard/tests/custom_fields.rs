//! The guard of custom fields.

use super::*;

const SCHEMA: &str = r#"
[fields.risk]
kinds = ["user_story", "entity"]
type = "text"
[fields.effort]
kinds = ["user_story", "entity"]
type = "number"
"#;

/// The calls that read and write each kind of record.
fn calls() -> [(&'static str, &'static str, &'static str, &'static str); 3] {
    [
        ("US-001", "get_item", "update_user_story", "user_story"),
        ("dec-000001", "get_item", "ixchel_update", "id"),
        ("dec-000001", "ixchel_show", "ixchel_update", "id"),
    ]
}

fn read(tool: &str, id: &str) -> Value {
    let argument = if tool == "get_item" { "reference" } else { "id" };
    json!({ argument: id })
}

#[tokio::test]
async fn writers_of_different_fields_keep_both() {
    for (id, read_tool, tool, argument) in calls() {
        let testing = project().await;
        testing.write(DocumentId::schema(), SCHEMA).await;
        let write = |fields: Value| json!({ argument: id, "fields": fields });
        testing.data(tool, write(json!({ "risk": "Low", "effort": "3.0" }))).await;
        let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
        for client in [&ann, &bob] {
            client.text(read_tool, read(read_tool, id)).await;
        }
        ann.text(tool, write(json!({ "risk": "High" }))).await;
        let text = bob.text(tool, write(json!({ "effort": 5 }))).await;
        assert!(!text.contains("replaced"), "{text}");
        let error = bob.refusal(tool, write(json!({ "risk": "Medium" }))).await;
        let expected = format!("Conflict: fields.risk of {id} changed since it was last shown");
        assert!(error.message.starts_with(&expected), "{error}");
        assert!(error.message.ends_with("Current fields.risk:\nHigh"), "{error}");
        let changes = json!([{ "update": id, "fields": { "risk": null } }]);
        let error = bob.call("apply_changes", json!({ "changes": changes })).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        let shown = bob.text("get_item", read("get_item", id)).await;
        assert!(shown.contains("effort: 5, risk: High"), "{shown}");
        bob.text(tool, write(json!({ "risk": "Medium" }))).await;
    }
}

#[tokio::test]
async fn value_that_was_absent_when_shown_is_guarded() {
    for (id, read_tool, tool, argument) in calls() {
        let testing = project().await;
        testing.write(DocumentId::schema(), SCHEMA).await;
        let write = |fields: Value| json!({ argument: id, "fields": fields });
        let [ann, bob, carl] = [(); 3].map(|()| Client::local(&testing));
        bob.text(read_tool, read(read_tool, id)).await;
        ann.text(tool, write(json!({ "risk": "High" }))).await;
        bob.refusal(tool, write(json!({ "risk": "Low" }))).await;
        // A write by a caller who was shown nothing names the value that it replaced.
        let text = carl.text(tool, write(json!({ "risk": "Low" }))).await;
        assert!(text.contains(&format!("replaced fields.risk of {id}")), "{text}");
    }
}
