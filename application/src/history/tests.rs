//! Tests of `get_history` and purges on the memory store, and of notes that only files have.

use std::sync::Arc;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::DocumentFilter;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Value, json};

use super::purge::{PurgeRequest, purge_history};
use crate::Application;
use crate::ports::ApplicationPorts;
use crate::test_support::{TestApplication, write_context};

/// A project with an epic that was changed twice with its tool.
async fn project() -> TestApplication {
    let testing = TestApplication::new();
    let epic = json!({ "title": "Checkout", "priority": 1, "description": "Guests pay by card." });
    testing.data("create_epic", epic).await;
    for description in ["Guests pay by invoice.", "Guests pay by invoice or by card."] {
        let change = json!({ "epic": "EP-001", "description": description });
        testing.data("update_epic", change).await;
    }
    testing
}

async fn history(testing: &TestApplication, arguments: Value) -> Value {
    testing.data("get_history", arguments).await
}

#[tokio::test]
async fn get_history_lists_versions_with_their_origin() {
    let testing = project().await;
    let answer = history(&testing, json!({ "reference": "ep-1" })).await;
    assert_eq!(answer["reference"], "EP-001");
    let versions = answer["versions"].as_array().unwrap();
    let present = testing.data("get_item", json!({ "reference": "EP-001" })).await;
    assert_eq!(versions[0]["version"], present["item"]["version"]);
    let tools: Vec<&Value> = versions.iter().map(|version| &version["tool"]).collect();
    assert_eq!(tools, ["update_epic", "update_epic", "create_epic"]);
    for version in versions {
        let keys: Vec<&String> = version.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["version", "at", "user", "tool", "reason"]);
        assert_eq!(version["user"], "tester");
    }
    assert_eq!(answer.get("next_cursor"), None);
    let text = testing.text("get_history", json!({ "reference": "EP-001" })).await;
    assert!(text.starts_with("History of EP-001, newest first:\n- "), "{text}");
    assert!(text.contains(" tester, update_epic"), "{text}");
}

#[tokio::test]
async fn get_history_pages_survive_new_versions() {
    let testing = project().await;
    let page = |cursor: Value| {
        history(&testing, json!({ "reference": "EP-001", "limit": 1, "cursor": cursor }))
    };
    let whole = history(&testing, json!({ "reference": "EP-001" })).await;
    let first = page(Value::Null).await;
    testing.data("update_epic", json!({ "epic": "EP-001", "title": "New" })).await;
    let second = page(first["next_cursor"].clone()).await;
    let third = page(second["next_cursor"].clone()).await;
    assert_eq!(third.get("next_cursor"), None);
    for (index, page) in [first.clone(), second, third].iter().enumerate() {
        assert_eq!(page["versions"], json!([whole["versions"][index]]));
    }
    testing.write(DocumentId::section("general"), "**1.** x\n").await;
    let other = json!({ "reference": "general", "cursor": first["next_cursor"] });
    let error = testing.error("get_history", other).await;
    assert_eq!(error.field.as_deref(), Some("cursor"), "a cursor of another history");
}

#[tokio::test]
async fn get_history_returns_the_text_of_a_version() {
    let testing = project().await;
    let versions = history(&testing, json!({ "reference": "EP-001" })).await["versions"].clone();
    let oldest = versions[2]["version"].as_str().unwrap();
    for prefix in [oldest, &oldest[..8], &oldest[..8].to_uppercase()] {
        let answer = history(&testing, json!({ "reference": "EP-001", "version": prefix })).await;
        assert_eq!(answer["versions"], json!([versions[2]]));
        assert!(answer["text"].as_str().unwrap().contains("pay by card."), "{answer}");
    }
    let arguments = json!({ "reference": "EP-001", "version": oldest });
    let text = testing.text("get_history", arguments).await;
    assert!(text.starts_with(&format!("EP-001 at version {oldest}:\n\n---\n")), "{text}");
    let unknown = json!({ "reference": "EP-001", "version": "00000000" });
    let error = testing.error("get_history", unknown).await;
    assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::NotFound, Some("version")));
    assert!(error.message.contains("EP-001 has no version 00000000"), "{}", error.message);
    let short = json!({ "reference": "EP-001", "version": "0000" });
    assert_eq!(testing.error("get_history", short).await.kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn get_history_rejects_a_prefix_of_two_versions() {
    let testing = TestApplication::new();
    // The versions of both texts begin with 6c06b0b8.
    for count in [15110, 82532] {
        let text = format!("**1.** Take {count} items.\n");
        testing.write(DocumentId::section("general"), text).await;
    }
    for field in ["version", "compare_with"] {
        let arguments = |prefix: &str| json!({ "reference": "general", field: prefix });
        let error = testing.error("get_history", arguments("6c06b0b8")).await;
        assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::InvalidArgument, Some(field)));
        let words = format!("{field}: 6c06b0b8 matches two versions of general; send ");
        assert!(error.message.starts_with(&words), "{}", error.message);
        let (versions, _) = error.message[words.len()..].split_once('.').unwrap();
        for version in versions.split(" or ") {
            testing.data("get_history", arguments(version)).await;
        }
    }
}

#[tokio::test]
async fn get_history_compares_the_older_with_the_newer_text() {
    let testing = project().await;
    let versions = history(&testing, json!({ "reference": "EP-001" })).await["versions"].clone();
    let [newest, middle, oldest] = [0, 1, 2].map(|index| versions[index]["version"].clone());
    let words = "Guests pay by [-card.-]{+invoice.+}";
    for (version, other) in [(&middle, &oldest), (&oldest, &middle)] {
        let arguments = json!({ "reference": "EP-001", "version": version, "compare_with": other });
        let answer = history(&testing, arguments).await;
        assert!(answer["difference"].as_str().unwrap().contains(words), "{answer}");
        assert_eq!(answer["versions"], json!([versions[1], versions[2]]));
    }
    let arguments = json!({ "reference": "EP-001", "compare_with": middle });
    let answer = history(&testing, arguments.clone()).await;
    assert_eq!(answer["versions"][0]["version"], newest);
    let text = testing.text("get_history", arguments).await;
    assert!(text.contains("{+invoice or by card.+}"), "{text}");
    let same = json!({ "reference": "EP-001", "version": newest, "compare_with": newest });
    assert_eq!(history(&testing, same).await["difference"], "The texts are the same.");
}

#[tokio::test]
async fn deleted_item_keeps_its_history() {
    let testing = project().await;
    testing.data("delete_item", json!({ "reference": "EP-001" })).await;
    let answer = history(&testing, json!({ "reference": "ep-001" })).await;
    let versions = answer["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 4);
    assert_eq!(
        (&versions[0]["version"], &versions[0]["tool"]),
        (&Value::Null, &"delete_item".into())
    );
    let last = json!({ "reference": "EP-001", "version": versions[1]["version"] });
    assert!(history(&testing, last).await["text"].as_str().unwrap().contains("or by card."));
    // The newest text is compared.
    let compare = json!({ "reference": "EP-001", "compare_with": versions[3]["version"] });
    assert_eq!(history(&testing, compare).await["versions"][0], versions[1]);
    for (id, name) in [
        (DocumentId::section("general"), "general:1"),
        (DocumentId::section("general"), "general"),
        (DocumentId::entity("decisions/dec-4f1a20"), ".ixchel/decisions/dec-4f1a20.md"),
        (DocumentId::entity("decisions/dec-4f1a20"), "DEC-4f1a20"),
    ] {
        testing.write(id.clone(), "**1.** x\n").await;
        testing.remove(id).await;
        let answer = history(&testing, json!({ "reference": name })).await;
        assert!(answer["notes"][0].as_str().unwrap().contains("no longer exists"));
        assert_eq!(answer["versions"][0]["version"], Value::Null, "{name}");
    }
    let error = testing.error("get_history", json!({ "reference": "EP-002" })).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn history_of_a_requirement_is_that_of_its_section() {
    let testing = TestApplication::new();
    testing.write(DocumentId::section("general"), "**1.** First.\n\n**2.1.** Be fast.\n").await;
    let answer = history(&testing, json!({ "reference": "general:2.1" })).await;
    assert_eq!(answer["reference"], "general:2.1");
    let note = "general:2.1 has no history of its own; this is the history of section general.";
    assert_eq!(
        (answer["versions"].as_array().unwrap().len(), &answer["notes"]),
        (1, &json!([note]))
    );
    let rendered =
        testing.call("get_history", json!({ "reference": "general:2.1" })).await.unwrap();
    assert!(rendered.text.ends_with(&format!("\n\nNote: {note}")), "{}", rendered.text);
    // A set that is turned off is not read.
    let mut ports: ApplicationPorts = testing.ports();
    ports.settings.toolsets = vec![Toolset::Backlog];
    let application = Application::new(ports);
    let call = testing.call_on(&application, "get_history", json!({ "reference": "general" }));
    assert_eq!(call.await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn purge_of_a_tombstone_without_history_erases_its_text() {
    let testing = TestApplication::new();
    testing.write_entity("notes/plan", "---\nid: iss-00aa11\ntitle: hunter2\n---\nhunter2\n").await;
    let epic = json!({ "title": "hunter2", "priority": 1 });
    testing.data("create_epic", epic).await;
    for reference in ["iss-00aa11", "EP-001"] {
        testing.data("delete_item", json!({ "reference": reference })).await;
        let later = Timestamp::new(i64::from(u32::MAX), 0);
        testing.history.prune_history(later).await.unwrap();
        let error = testing.error("get_item", json!({ "reference": reference })).await;
        assert!(error.hint.unwrap().ends_with("its text is kept in the deleted items"));
        let purge = |reason: &str| {
            let request = PurgeRequest {
                reference: reference.to_owned(),
                version: None,
                reason: reason.to_owned(),
                is_audited: false,
            };
            let caller = Arc::new(Caller::local("ada", Access::Write));
            purge_history(testing.ports(), caller, request)
        };
        assert_eq!(purge("pasted").await.unwrap().erased, 1, "{reference}");
        let error = testing.error("get_item", json!({ "reference": reference })).await;
        let hint = error.hint.unwrap();
        assert!(hint.starts_with("it was deleted on ") && hint.ends_with("its text was erased"));
    }
    let tombstone = DocumentId::entity("notes/plan").tombstone();
    assert!(!testing.body(tombstone).await.unwrap().contains("hunter2"));
}

#[tokio::test]
async fn erased_text_is_reported() {
    let testing = project().await;
    let versions = history(&testing, json!({ "reference": "EP-001" })).await["versions"].clone();
    let filter = DocumentFilter::of_kind(DocumentKind::Item(ItemKind::Epic));
    let found = testing.store.find(&testing.project, &filter).await.unwrap();
    let id = found.metadata[0].id.clone();
    let context = write_context(Timestamp::default());
    testing.history.purge_history(&testing.project, &id, None, context).await.unwrap();
    let arguments = json!({ "reference": "EP-001", "version": versions[2]["version"] });
    let error = testing.error("get_history", arguments).await;
    assert!(error.message.contains("it was erased"), "{}", error.message);
    let answer = history(&testing, json!({ "reference": "EP-001" })).await;
    assert_eq!(
        (answer["versions"][0].get("purged"), &answer["versions"][2]["purged"]),
        (None, &true.into())
    );
}

#[tokio::test]
async fn changes_are_listed_by_page_kind_and_token() {
    let testing = TestApplication::new();
    for name in ["EP-001", "EP-002", "US-001"] {
        testing.write_item(name, format!("---\ntitle: {name}\n---\n")).await;
    }
    let page = testing.data("list_changes", json!({})).await;
    let [first, second, third] = [0, 1, 2].map(|index| page["changes"][index].clone());
    assert_eq!(
        first,
        json!({
            "at": "1970-01-01T00:00:00Z", "user": "editor", "tool": "editor", "change": "created",
            "id": "EP-001", "title": "EP-001", "version": first["version"],
        })
    );
    let text = testing.text("list_changes", json!({ "limit": 1 })).await;
    let line = "3 documents changed\n\
                - 1970-01-01T00:00:00Z editor, editor: created EP-001: EP-001 (";
    assert!(text.starts_with(line), "{text}");
    let mut listed = Vec::new();
    let mut arguments = json!({ "limit": 1 });
    loop {
        let page = testing.data("list_changes", arguments.clone()).await;
        listed.extend(page["changes"].as_array().unwrap().clone());
        let Some(cursor) = page.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
    }
    assert_eq!(listed, [first, second, third]);
    let stories = testing.data("list_changes", json!({ "kinds": ["user_story"] })).await;
    assert_eq!(stories["changes"], json!([listed[2]]));
    let since = json!({ "since": page["next"] });
    assert_eq!(testing.data("list_changes", since.clone()).await["changes"], json!([]));
    let delete = json!({ "reference": "EP-002" });
    testing.data("delete_item", delete).await;
    let update = json!({ "epic": "EP-001", "title": "New" });
    testing.data("update_epic", update).await;
    let page = testing.data("list_changes", since.clone()).await;
    let shown: Vec<[&str; 3]> = page["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| ["tool", "id", "title"].map(|key| one[key].as_str().unwrap()))
        .collect();
    let expected = [["update_epic", "EP-001", "New"], ["delete_item", "EP-002", "EP-002"]];
    assert_eq!(shown, expected);
    assert_eq!(page["changes"][1]["change"], "deleted");
    // Another store does not know the token.
    let other = TestApplication::new();
    other.write_item("EP-001", "---\ntitle: A\n---\n").await;
    let text = other.text("list_changes", since).await;
    assert!(text.contains("Note: since: this store does not know the token; "), "{text}");
    assert!(text.contains(": created EP-001: A ("), "{text}");
    for (field, wrong) in [
        ("since", json!({ "since": "yesterday" })),
        ("kinds", json!({ "kinds": ["x"] })),
        ("cursor", json!({ "cursor": "x" })),
    ] {
        let error = testing.error("list_changes", wrong).await;
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
}
