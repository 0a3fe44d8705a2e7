//! Tests of `ixchel_create` and `ixchel_update` on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::id_generator::IdGenerator;
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::test_support::TestApplication;

mod custom_fields;

/// Creates a decision and returns its data.
async fn create(testing: &TestApplication, arguments: Value) -> Value {
    let mut all = json!({ "kind": "decision", "title": "Files first" });
    all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    testing.data("ixchel_create", all).await
}

async fn raw(testing: &TestApplication, id: &str) -> String {
    let shown = testing.data("ixchel_show", json!({ "id": id })).await;
    shown["raw"].as_str().unwrap().to_owned()
}

/// A project with an epic and a decision written by hand.
async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_entity("decisions/dec-1d2c8f", "---\nid: dec-1d2c8f\n---\n# Old\n").await;
    let epic = json!({ "title": "Checkout", "priority": 1 });
    testing.call("create_epic", epic).await.unwrap();
    testing
}

#[tokio::test]
async fn created_entity_is_shown_with_the_given_values() {
    let testing = project().await;
    let created = create(
        &testing,
        json!({
            "body": "Because: of *Git*.\n", "status": "accepted", "tags": ["storage"],
            "links": { "affects": ["ep-1", "DEC-1D2C8F"], "replaces": ".ixchel/decisions/dec-1d2c8f.md" }
        }),
    )
    .await;
    let id = created["id"].as_str().unwrap();
    assert_eq!(created["path"], format!(".ixchel/decisions/{id}.md"));
    assert_eq!(created["project"], "default");
    let shown = testing.data("ixchel_show", json!({ "id": id })).await;
    assert_eq!(
        (&shown["kind"], &shown["title"], &shown["status"], &shown["tags"]),
        (&json!("decision"), &json!("Files first"), &json!("accepted"), &json!(["storage"]))
    );
    assert_eq!(shown["version"], created["version"]);
    let raw = shown["raw"].as_str().unwrap();
    assert!(raw.ends_with("---\n\nBecause: of *Git*.\n"), "{raw}");
    assert!(raw.contains("affects: [EP-001, dec-1d2c8f]\nreplaces: [dec-1d2c8f]\n"), "{raw}");
    let graph = testing.data("ixchel_graph", json!({ "id": id })).await;
    assert_eq!(graph["outgoing"][0]["targets"][0]["title"], "Checkout");
}

#[tokio::test]
async fn link_to_a_section_or_its_requirement_is_shown() {
    let testing = project().await;
    let section = "# General\n\n**2.1.** Every backend keeps bytes.\n";
    testing.write(DocumentId::section("general"), section).await;
    let links = json!({ "affects": ["general:2.1", "general"] });
    let created = create(&testing, json!({ "links": links })).await;
    let raw = raw(&testing, created["id"].as_str().unwrap()).await;
    assert!(raw.contains("affects: [\"general:2.1\", \"section:general\"]\n"), "{raw}");
    let graph = testing.data("ixchel_graph", json!({ "id": created["id"] })).await;
    let titles = graph["outgoing"][0]["targets"].to_string();
    assert!(titles.contains("Every backend keeps bytes") && titles.contains("General"), "{titles}");
}

#[tokio::test]
async fn update_of_a_document_of_another_kind_names_its_tool() {
    let testing = project().await;
    let text = testing.text("ixchel_update", json!({ "id": "ep-1", "title": "x" })).await;
    assert_eq!(text, "EP-001 is an epic; update_epic changes it. Nothing was changed.");
}

/// Issues the digits `000001` twice, then `000002`, and so on.
#[derive(Debug, Default)]
struct RepeatingIds(AtomicUsize);

impl IdGenerator for RepeatingIds {
    fn new_uid(&self, _: Timestamp) -> String {
        let count = self.0.fetch_add(1, Ordering::Relaxed).max(1);
        format!("00000000-0000-7000-8000-{count:012x}")
    }

    fn random_letters(&self, _: usize) -> Result<String> {
        Err(Error::new(ErrorKind::Unavailable, "not used"))
    }
}

#[tokio::test]
async fn new_id_that_an_entity_has_is_not_issued() {
    let testing =
        TestApplication { ids: Arc::new(RepeatingIds::default()), ..TestApplication::new() };
    testing.write_entity("notes/by-hand", "---\nid: dec-000002\n---\n").await;
    assert_eq!(create(&testing, json!({})).await["id"], "dec-000001");
    // 000001 is issued again, and 000002 is the id of a file with another name.
    assert_eq!(create(&testing, json!({})).await["id"], "dec-000003");
}

#[tokio::test]
async fn kind_in_plural_or_as_prefix_is_accepted() {
    let testing = TestApplication::new();
    for (kind, prefix) in [("Decisions", "dec-"), ("rpt", "rpt-"), ("bd", "iss-")] {
        let created = create(&testing, json!({ "kind": kind })).await;
        assert!(created["id"].as_str().unwrap().starts_with(prefix), "{created}");
    }
    let error = testing.error("ixchel_create", json!({ "kind": "note", "title": "x" })).await;
    assert!(error.message.contains("decision, issue, idea, report"), "{}", error.message);
}

#[tokio::test]
async fn link_to_an_unknown_target_is_rejected() {
    let testing = project().await;
    for (links, message) in [
        (
            json!({ "affects": ["dec-ffffff"] }),
            "Not found: \"dec-ffffff\"; search_global finds IDs",
        ),
        (json!({ "affects": ["free text"] }), "Not found: \"free text\""),
        (json!({ "affects": ["REQ-999"] }), "Requirement not found: REQ-999"),
        (json!({ "tags": ["dec-1d2c8f"] }), r#"links: "tags" is a metadata key"#),
        (json!({ "a b": ["dec-1d2c8f"] }), r#""a b" is not a relation"#),
        (
            json!({ "affects": vec!["dec-1d2c8f"; 201] }),
            "at most 200 IDs are allowed, this has 201",
        ),
    ] {
        for (tool, arguments) in [
            ("ixchel_create", json!({ "kind": "idea", "title": "x", "links": links })),
            ("ixchel_update", json!({ "id": "dec-1d2c8f", "links": links })),
        ] {
            let error = testing.error(tool, arguments).await;
            assert!(error.message.contains(message), "{links}: {}", error.message);
            assert_eq!(error.field.as_deref(), Some("links"));
        }
    }
    let own = json!({ "id": "dec-1d2c8f", "links": { "replaces": ["dec-1d2c8f"] } });
    let error = testing.error("ixchel_update", own).await;
    assert!(error.message.contains("cannot link to itself"), "{}", error.message);
}

#[tokio::test]
async fn update_changes_only_the_given_fields() {
    let testing = project().await;
    testing
        .write_entity(
            "ideas/old",
            "---\n# mine\ntitle: Old\nextra: 1\nrelated: [EP-001]\nlabels: [a]\n---\n\nText.\n",
        )
        .await;
    let updated = testing
        .data(
            "ixchel_update",
            json!({
                "id": ".ixchel/ideas/old.md", "status": "open", "tags": ["b"],
                "links": { "related": [], "replaces": ["dec-1d2c8f"] }
            }),
        )
        .await;
    assert_eq!(updated["id"], "ideas/old");
    assert_eq!(
        raw(&testing, "ideas/old").await,
        "---\n# mine\ntitle: Old\nextra: 1\nlabels: [b]\nstatus: open\nreplaces: [dec-1d2c8f]\n\
         updated_at: 1970-01-01T00:00:00Z\n---\n\nText.\n"
    );
    let again = json!({ "id": "IDEAS/OLD", "status": "open" });
    let text = testing.text("ixchel_update", again).await;
    assert!(text.starts_with("No change in idea ideas/old (version "), "{text}");
}

#[tokio::test]
async fn update_of_a_stale_version_is_a_conflict() {
    let testing = project().await;
    let update = json!({ "id": "dec-1d2c8f", "body": "new", "if_version": "0123456789abcdef" });
    let error = testing.error("ixchel_update", update).await;
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("# Old"), "{}", error.message);
    assert_eq!(raw(&testing, "dec-1d2c8f").await, "---\nid: dec-1d2c8f\n---\n# Old\n");
}

#[tokio::test]
async fn update_without_a_field_lists_the_fields() {
    let testing = project().await;
    let text = testing.text("ixchel_update", json!({ "id": "dec-1d2c8f", "repo": "/x" })).await;
    assert_eq!(
        text,
        "No field to change was given; pass at least one of title, body, status, tags, links"
    );
}

#[tokio::test]
async fn update_of_unreadable_front_matter_changes_nothing() {
    let testing = TestApplication::new();
    testing.write_entity("ideas/idea-aaaaaa", "---\nid: [\n---\nText.\n").await;
    let update = json!({ "id": "idea-aaaaaa", "title": "x" });
    let error = testing.error("ixchel_update", update).await;
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains(".ixchel/ideas/idea-aaaaaa.md"), "{}", error.message);
    let body = testing.body(DocumentId::entity("ideas/idea-aaaaaa")).await.unwrap();
    assert_eq!(body, "---\nid: [\n---\nText.\n");
}
