//! Custom fields and statuses of entities.

use super::*;

const SCHEMA: &str = r#"
[fields.impact]
kinds = ["decision"]
type = "choice"
values = ["Low", "High"]
required = true
[fields.owners]
kinds = ["entity"]
type = "tags"

[statuses.decision]
order = ["Idea", "Trial", "Accepted", "Dropped"]
category = { Idea = "open", Dropped = "dropped" }
"#;

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write(DocumentId::schema(), SCHEMA).await;
    testing
}

#[tokio::test]
async fn custom_values_of_an_entity_are_written_and_removed() {
    let testing = project().await;
    let fields = json!({ "impact": "high", "owners": ["ann", "bob"] });
    let created = create(&testing, json!({ "fields": fields })).await;
    let id = created["id"].as_str().unwrap();
    let text = raw(&testing, id).await;
    assert!(text.contains("status: Idea\nimpact: High\nowners: [ann, bob]\n"), "{text}");
    let update = json!({ "id": id, "status": "trial", "fields": { "owners": null } });
    testing.data("ixchel_update", update).await;
    let idea = json!({ "create": "idea", "title": "New", "status": "In Progress" });
    let changes = json!([{ "update": id, "fields": { "impact": "Low" } }, idea]);
    let answer = testing.call("apply_changes", json!({ "changes": changes })).await.unwrap();
    assert!(answer.text.contains("\"In Progress\" is stored as \"in_progress\""), "{answer:?}");
    let text = raw(&testing, id).await;
    assert!(text.contains("status: Trial\nimpact: Low\ncreated_at"), "{text}");
}

#[tokio::test]
async fn values_of_an_entity_that_do_not_fit_are_rejected() {
    let testing = project().await;
    for (arguments, expected) in [
        (json!({}), "fields.impact: is required; send one of Low, High"),
        (json!({ "fields": { "impact": "x" } }), "fields.impact: \"x\" is invalid; use one of Low"),
        (json!({ "fields": { "risk": "x" } }), "fields.risk: decisions have no such field"),
        (json!({ "status": "active" }), "status: \"active\" is not one of Idea, Trial, Accepted"),
        (json!({ "links": { "owners": ["dec-1"] } }), "fields.impact: is required"),
        (
            json!({ "fields": { "impact": "Low" }, "links": { "owners": ["dec-1"] } }),
            "links: owners is a custom field; send it in fields",
        ),
    ] {
        let mut all = json!({ "kind": "decision", "title": "A" });
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let error = testing.error("ixchel_create", all).await;
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.message.starts_with(expected), "{error}");
    }
    // A kind without statuses of its own takes any.
    let idea = json!({ "kind": "idea", "title": "A", "status": "Someday" });
    let created = testing.data("ixchel_create", idea).await;
    assert!(raw(&testing, created["id"].as_str().unwrap()).await.contains("status: Someday\n"));
}

#[tokio::test]
async fn invalid_values_of_an_entity_do_not_block_other_edits() {
    let testing = project().await;
    let text = "---\nid: dec-1d2c8f\nstatus: Gone\nimpact: [a, b] # kept\n---\n# Old\n";
    testing.write_entity("decisions/dec-1d2c8f", text).await;
    testing.data("ixchel_update", json!({ "id": "dec-1d2c8f", "title": "New" })).await;
    let text = raw(&testing, "dec-1d2c8f").await;
    assert!(text.contains("status: Gone\nimpact: [a, b] # kept\n"), "{text}");
    let error = testing.error("ixchel_update", json!({ "id": "dec-1d2c8f", "fields": {} })).await;
    assert!(error.message.contains("No field to change was given"), "{error}");
}
