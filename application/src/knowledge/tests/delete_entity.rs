//! Tests of `delete_item` for entities, on the memory store.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use serde_json::{Value, json};

use crate::test_support::TestApplication;

const DECISION: &str = "---\nid: dec-1d2c8f\ntitle: Files first\n---\n\nText.\n";

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_entity("decisions/dec-1d2c8f", DECISION).await;
    testing.write_entity("ideas/old/free", "# Free\n").await;
    testing
}

async fn delete(testing: &TestApplication, arguments: Value) -> Value {
    testing.data("delete_item", arguments).await
}

#[tokio::test]
async fn deleted_entity_answers_when_it_was_deleted() {
    let testing = project().await;
    let deleted = delete(&testing, json!({ "reference": "DEC-1d2c8f" })).await;
    assert_eq!(deleted["deleted"], json!(["dec-1d2c8f"]));
    assert_eq!(testing.body(DocumentId::entity("decisions/dec-1d2c8f")).await, None);
    let tombstone = DocumentId::entity("decisions/dec-1d2c8f").tombstone();
    assert_eq!(tombstone.to_string(), ".reqlore/backlog/deleted/ixchel/decisions/dec-1d2c8f.md");
    assert_eq!(
        testing.body(tombstone).await.unwrap(),
        "---\nid: dec-1d2c8f\ntitle: Files first\ndeleted_at: 1970-01-01T00:00:00Z\n\
         deleted_by: tester\n---\n\nText.\n"
    );
    delete(&testing, json!({ "reference": ".ixchel/ideas/old/free.md" })).await;
    for id in ["dec-1d2c8f", "DEC-1D2C8F", "ideas/old/free", ".ixchel/ideas/old/free.md"] {
        for (tool, argument) in [("get_item", "reference"), ("ixchel_show", "id")] {
            let error = testing.error(tool, json!({ argument: id })).await;
            assert_eq!(error.kind, ErrorKind::NotFound);
            let message = error.message;
            assert!(message.contains("deleted on 1970-01-01T00:00:00Z by tester"), "{message}");
        }
    }
}

#[tokio::test]
async fn deletion_of_a_linked_entity_needs_cascade() {
    let testing = project().await;
    let source = "---\nid: idea-aaaaaa\nrelated: [EP-1, dec-1d2c8f]\nreplaces: decisions/dec-1d2c8f\n\
                  # mine\nextra: 1\n---\nSee dec-1d2c8f.\n";
    testing.write_entity("ideas/idea-aaaaaa", source).await;
    let error = testing.error("delete_item", json!({ "reference": "dec-1d2c8f" })).await;
    assert_eq!(
        error.message,
        "dec-1d2c8f cannot be deleted: idea-aaaaaa links to it (related), idea-aaaaaa links to \
         it (replaces). Remove these links first, or pass cascade: true. Nothing was deleted."
    );
    let deleted = delete(&testing, json!({ "reference": "dec-1d2c8f", "cascade": true })).await;
    assert_eq!(deleted["unlinked"], json!(["idea-aaaaaa"]));
    assert_eq!(
        testing.body(DocumentId::entity("ideas/idea-aaaaaa")).await.unwrap(),
        "---\nid: idea-aaaaaa\nrelated: [EP-1]\n# mine\nextra: 1\n\
         updated_at: 1970-01-01T00:00:00Z\n---\nSee dec-1d2c8f.\n"
    );
}

#[tokio::test]
async fn deletion_that_cannot_remove_a_link_changes_nothing() {
    let testing = project().await;
    let source = "---\nid: bd-aaaaaa\nrelated:\n- dec-1d2c8f: a\n  dec-aaaaaa: b\n---\n";
    testing.write_entity("issues/bd-aaaaaa", source).await;
    let arguments = json!({ "reference": "dec-1d2c8f", "cascade": true });
    let message = testing.error("delete_item", arguments).await.message;
    assert!(message.contains(".ixchel/issues/bd-aaaaaa.md: related: its value"), "{message}");
    let body = testing.body(DocumentId::entity("decisions/dec-1d2c8f")).await;
    assert_eq!(body.as_deref(), Some(DECISION));
}

#[tokio::test]
async fn value_of_a_custom_field_is_not_a_link() {
    let testing = project().await;
    let schema = "[fields.origin]\nkinds = [\"entity\"]\ntype = \"text\"\n";
    testing.write(DocumentId::schema(), schema).await;
    let source = "---\nid: idea-aaaaaa\norigin: dec-1d2c8f\n---\n";
    testing.write_entity("ideas/idea-aaaaaa", source).await;
    let linked = "---\nid: idea-bbbbbb\norigin: dec-1d2c8f\nrelated: dec-1d2c8f\n---\n";
    testing.write_entity("ideas/idea-bbbbbb", linked).await;
    let shown = testing.data("ixchel_show", json!({ "id": "idea-aaaaaa" })).await;
    assert_eq!(shown["fields"]["origin"], "dec-1d2c8f", "{shown}");
    assert_eq!(shown["links"]["outgoing"], json!([]), "{shown}");
    let shown = testing.data("ixchel_show", json!({ "id": "dec-1d2c8f" })).await;
    assert_eq!(shown["links"]["incoming"].as_array().unwrap().len(), 1, "{shown}");
    let error = testing.error("delete_item", json!({ "reference": "dec-1d2c8f" })).await;
    let reason = "dec-1d2c8f cannot be deleted: idea-bbbbbb links to it (related). Remove";
    assert!(error.message.starts_with(reason), "{error}");
    let deleted = delete(&testing, json!({ "reference": "dec-1d2c8f", "cascade": true })).await;
    assert_eq!(deleted["unlinked"], json!(["idea-bbbbbb"]));
    let stored = testing.body(DocumentId::entity("ideas/idea-aaaaaa")).await;
    assert_eq!(stored.as_deref(), Some(source));
    let stored = testing.body(DocumentId::entity("ideas/idea-bbbbbb")).await.unwrap();
    assert!(stored.contains("\norigin: dec-1d2c8f\n"), "{stored}");
    assert!(testing.check().await.is_empty());
    // The creation of a document can be undone too, if only values name it.
    let epic = json!({ "title": "Shop", "priority": 1 });
    testing.data("create_epic", epic).await;
    testing.write_entity("ideas/idea-aaaaaa", source.replace("dec-1d2c8f", "EP-001")).await;
    testing.data("undo", json!({ "reference": "EP-001" })).await;
}

#[tokio::test]
async fn deletion_of_a_stale_version_is_a_conflict() {
    let testing = project().await;
    let arguments = json!({ "reference": "dec-1d2c8f", "if_version": "0123456789abcdef" });
    assert_eq!(testing.error("delete_item", arguments).await.kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn deletion_of_a_section_names_the_right_tool() {
    let testing = project().await;
    let section = "# General\n\n**2.1.** Bytes.\n";
    testing.write(DocumentId::section("general"), section).await;
    for (reference, message) in [
        ("general:2.1", "reqlix_delete_requirements deletes it. Nothing was deleted."),
        ("general", "reqlix_delete_requirements deletes its rules one by one."),
    ] {
        let error = testing.error("delete_item", json!({ "reference": reference })).await;
        assert!(error.message.contains(message), "{}", error.message);
    }
}

#[tokio::test]
async fn tombstone_of_unreadable_front_matter_keeps_the_text() {
    let testing = TestApplication::new();
    let broken = "---\nid: [\n---\nText.\n";
    testing.write_entity("ideas/idea-aaaaaa", broken).await;
    delete(&testing, json!({ "reference": "idea-aaaaaa" })).await;
    let tombstone = DocumentId::entity("ideas/idea-aaaaaa").tombstone();
    let body = testing.body(tombstone).await.unwrap();
    assert!(body.starts_with("---\nid: idea-aaaaaa\n") && body.ends_with(broken), "{body}");
    assert!(testing.check().await.is_empty());
}

#[tokio::test]
async fn deletion_of_an_item_that_a_decision_affects_needs_cascade() {
    let testing = project().await;
    for title in ["One", "Two"] {
        let epic = json!({ "title": title, "priority": 1 });
        testing.call("create_epic", epic).await.unwrap();
    }
    let source = "---\nid: dec-aaaaaa\naffects: [EP-1, EP-002]\n---\nSee EP-001.\n";
    testing.write_entity("decisions/dec-aaaaaa", source).await;
    let error = testing.error("delete_item", json!({ "reference": "EP-001" })).await;
    assert!(
        error.message.starts_with("EP-001 cannot be deleted: dec-aaaaaa links to it (affects)."),
        "{}",
        error.message
    );
    let deleted = delete(&testing, json!({ "reference": "ep-1", "cascade": true })).await;
    assert_eq!(deleted["unlinked"], json!(["dec-aaaaaa"]));
    let body = testing.body(DocumentId::entity("decisions/dec-aaaaaa")).await.unwrap();
    assert!(body.contains("affects: [EP-002]\n") && body.ends_with("See EP-001.\n"), "{body}");
    // A text that only mentions an item does not protect it.
    testing.write_entity("decisions/dec-aaaaaa", "---\nid: dec-aaaaaa\n---\nSee EP-002.\n").await;
    delete(&testing, json!({ "reference": "EP-002" })).await;
}

#[tokio::test]
async fn deletion_of_mutually_linked_entities_unlinks_the_rest() {
    let testing = TestApplication::new();
    let id = |number: usize| format!("dec-{number:06x}");
    let links = |of: usize, count: usize| {
        let others = (0..count).filter(|other| *other != of).map(id);
        others.collect::<Vec<_>>().join(", ")
    };
    // The last one is not deleted.
    for number in 0..9 {
        let text = format!("---\nid: {}\nrefs: [{}]\n---\n", id(number), links(number, 9));
        testing.write_entity(&format!("decisions/{}", id(number)), text).await;
    }
    let mut changes: Vec<Value> =
        (0..8).map(|number| json!({ "delete": id(number), "cascade": true })).collect();
    // An update after the deletions sees the document without the links.
    changes.push(json!({ "update": id(8), "title": "Last" }));
    testing.data("apply_changes", json!({ "changes": changes })).await;
    let last = testing.body(DocumentId::entity(format!("decisions/{}", id(8)))).await.unwrap();
    assert!(last.contains("title: Last") && !last.contains("refs:"), "{last}");
    // A tombstone has no link to an item that was deleted before it.
    let third = DocumentId::entity(format!("decisions/{}", id(3))).tombstone();
    let third = testing.body(third).await.unwrap();
    let expected = (4..9).map(id).collect::<Vec<_>>().join(", ");
    assert!(third.contains(&format!("refs: [{expected}]")), "{third}");
}
