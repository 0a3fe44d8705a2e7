//! Tests of `undo` by several users, on the memory store, and with random changes on all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::DocumentFilter;
use reqlore_domain::ports::service::{
    AnswerFormat, ApplicationService, NoProgress, RenderedAnswer, ToolCall, ToolService,
};
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::memory_store;
use serde_json::{Value, json};

use crate::Application;
use crate::ports::ApplicationPorts;
use crate::test_support::{TestApplication, item_id, write_context};

/// A clock that advances with each reading.
struct StepClock(AtomicI64);

impl Clock for StepClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1_500_000_000, Ordering::Relaxed))
    }
}

type Documents = BTreeMap<DocumentId, String>;

/// Users who change one project.
struct TestUsers {
    clock: Arc<StepClock>,
    testing: TestApplication,
    application: Application,
}

impl TestUsers {
    fn new() -> Self {
        Self::on(memory_store())
    }

    fn on(store: impl Store + 'static) -> Self {
        let store = Arc::new(store);
        let testing =
            TestApplication { store: store.clone(), history: store, ..TestApplication::new() };
        let clock = Arc::new(StepClock(AtomicI64::new(1_700_000_000_000_000_007)));
        let ports = ApplicationPorts { clock: clock.clone(), ..testing.ports() };
        Self { clock, testing, application: Application::new(ports) }
    }

    async fn call(&self, user: &str, tool: &str, mut arguments: Value) -> Result<RenderedAnswer> {
        if tool.starts_with("reqlix_") {
            arguments["project_root"] = json!("/project");
            arguments["operation_description"] = json!("a test");
        }
        let call = ToolCall {
            caller: Arc::new(Caller::local(user, Access::Write)),
            client_name: None,
            correlation_id: "test".to_owned(),
            name: tool.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            progress_sink: Arc::new(NoProgress),
            idempotency_key: None,
            answer_format: AnswerFormat::Both,
            is_audited: false,
        };
        self.application.call(call).await
    }

    async fn done(&self, user: &str, tool: &str, arguments: Value) -> String {
        let answer = self.call(user, tool, arguments).await;
        answer.unwrap_or_else(|error| panic!("{tool}: {error}")).text
    }

    async fn undo(&self, user: &str, arguments: Value) -> String {
        self.done(user, "undo", arguments).await
    }

    async fn refused(&self, user: &str, arguments: Value) -> Error {
        let before = self.documents().await;
        let refused = self.call(user, "undo", arguments).await.expect_err("the undo fails");
        assert_eq!(self.documents().await, before);
        refused
    }

    async fn rule(&self, user: &str, section: &str, index: &str, text: &str) {
        let arguments = json!({ "section": section, "index": index, "text": text });
        self.done(user, "reqlix_set_requirements", arguments).await;
    }

    /// All documents with their bytes.
    async fn documents(&self) -> Documents {
        let (store, project) = (&self.testing.store, &self.testing.project);
        let mut documents = Documents::new();
        for kind in DocumentKind::ALL {
            let page = store.find(project, &DocumentFilter::of_kind(kind)).await.unwrap();
            for meta in page.metadata {
                documents
                    .insert(meta.id.clone(), self.testing.body(meta.id.clone()).await.unwrap());
            }
        }
        documents
    }
}

fn reference(id: &str) -> Value {
    json!({ "reference": id })
}

/// An epic with a story, its requirement and criterion, and a requirement of another story that
/// depends on the first one.
async fn backlog() -> TestUsers {
    let users = TestUsers::new();
    let epic = json!({ "title": "Checkout", "priority": 1 });
    for story in ["US-001", "US-002"] {
        users.done("ann", "create_epic", epic.clone()).await;
        let parent = story.replace("US", "EP");
        let arguments = json!({ "epic": parent, "title": "Pay", "priority": 1 });
        users.done("ann", "create_user_story", arguments).await;
        let arguments =
            json!({ "user_story": story, "title": "Card", "priority": 1, "type": "Functional" });
        users.done("ann", "create_requirement", arguments).await;
    }
    let criterion = json!({ "user_story": "US-001", "description": "Paid." });
    users.done("ann", "create_acceptance_criteria", criterion).await;
    let link = json!({ "source": "REQ-002", "target": "REQ-001", "type": "depends_on" });
    users.done("ann", "create_relationship", link).await;
    users
}

#[tokio::test]
async fn undo_restores_the_bytes_before_the_last_change() {
    let users = backlog().await;
    let before = users.documents().await;
    let change = json!({ "epic": "EP-001", "title": "Bob's", "status": "In Progress" });
    users.done("bob", "update_epic", change).await;
    let after = users.documents().await;
    let text = users.undo("ann", reference("ep-1")).await;
    assert!(text.starts_with("Undone: ") && text.contains(" bob, update_epic"), "{text}");
    assert!(text.contains("\nEP-001 restored to version "), "{text}");
    assert_eq!(users.documents().await, before);
    // Undo of an undo is the change again.
    users.undo("ann", reference("EP-001")).await;
    assert_eq!(users.documents().await, after);
    users.undo("ann", json!({})).await;
    assert_eq!(users.documents().await, before);
}

#[tokio::test]
async fn undo_of_a_deletion_restores_children_and_links() {
    let users = backlog().await;
    let before = users.documents().await;
    users.done("bob", "delete_item", json!({ "reference": "EP-001", "cascade": true })).await;
    let after = users.documents().await;
    let planned = users.undo("ann", json!({ "reference": "EP-001", "dry_run": true })).await;
    assert_eq!(users.documents().await, after);
    assert!(
        planned
            .starts_with("Dry run: nothing was changed. An undo would report:\nUndone: deleted "),
        "{planned}"
    );
    let answer = users.call("ann", "undo", reference("EP-001")).await.unwrap();
    assert_eq!(users.documents().await, before);
    let restored = answer.data["documents"].as_array().unwrap();
    let ids: BTreeSet<&str> = restored.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, BTreeSet::from(["AC-001", "EP-001", "REQ-001", "REQ-002", "US-001"]));
    assert_eq!(answer.data["undone"]["tool"], "delete_item");
    users.undo("ann", reference("EP-001")).await;
    assert_eq!(users.documents().await, after);
    users.undo("ann", reference("EP-001")).await;
    let change = json!({ "requirement": "REQ-002", "title": "Later" });
    users.done("bob", "update_requirement", change).await;
    let refused = users.refused("ann", reference("EP-001")).await;
    assert!(refused.message.starts_with("Not undone: REQ-002 was changed later: "), "{refused}");
    assert!(refused.message.contains(" bob, update_requirement"), "{refused}");
}

#[tokio::test]
async fn undo_of_a_deletion_leaves_other_entries_of_its_call() {
    let users = backlog().await;
    let changes = json!([
        { "delete": "US-001", "cascade": true },
        { "delete": "EP-002", "cascade": true },
        { "update": "EP-001", "title": "Other" },
    ]);
    let before = users.documents().await;
    users.done("ann", "apply_changes", json!({ "changes": changes })).await;
    users.undo("bob", reference("US-001")).await;
    let restored = users.documents().await;
    for (id, body) in &before {
        let is_restored =
            ["US-001", "REQ-001", "AC-001"].iter().any(|one| id.name.starts_with(one));
        assert_eq!(restored.get(id) == Some(body), is_restored, "{id}");
    }
    // The whole call is the last change of ann, and bob has changed a part of it.
    let refused = users.refused("ann", json!({})).await;
    assert!(
        refused.message.contains(" was changed later: ") && refused.message.contains(" bob, undo")
    );
    users.undo("bob", json!({})).await;
    // It is as ann left it again.
    users.undo("ann", json!({})).await;
}

#[tokio::test]
async fn undo_without_id_undoes_a_whole_call_of_the_caller() {
    let users = backlog().await;
    let before = users.documents().await;
    let changes = json!([
        { "create": "epic", "name": "e", "title": "New", "priority": 1 },
        { "create": "user_story", "epic": "$e", "title": "New", "priority": 1 },
        { "update": "EP-001", "title": "Changed" },
        { "create": "rule", "section": "general", "text": "Be fast." },
    ]);
    users.done("ann", "apply_changes", json!({ "changes": changes })).await;
    users.rule("bob", "other", "1", "Be correct.").await;
    users.undo("ann", json!({})).await;
    let after = users.documents().await;
    let created = |id: &&DocumentId| !before.contains_key(*id);
    let ids: Vec<String> = after.keys().filter(created).map(ToString::to_string).collect();
    let tombstones = [".reqlore/backlog/deleted/EP-003-", ".reqlore/backlog/deleted/US-003-"];
    assert_eq!(ids[..2], ["AGENTS.md", "section other"]);
    assert!(tombstones.iter().all(|start| ids.iter().any(|id| id.starts_with(start))), "{ids:?}");
    assert_eq!(ids.len(), 4);
    assert!(before.iter().all(|(id, body)| after.get(id) == Some(body)));
    let agents = &after[&DocumentId::instructions()];
    assert!(agents.contains("(key: other)") && !agents.contains("(key: general)"), "{agents}");
    // The number of a created item stays issued.
    let epic = json!({ "title": "Next", "priority": 1 });
    let text = users.done("ann", "create_epic", epic).await;
    assert!(text.contains("EP-004"), "{text}");
}

#[tokio::test]
async fn undo_of_a_creation_refuses_to_orphan_children() {
    let users = backlog().await;
    let refused = users.refused("ann", reference("US-002")).await;
    assert!(refused.message.starts_with("US-002 would be deleted, but "), "{refused}");
    assert!(refused.message.contains(" link to it: REQ-002. Nothing was changed"), "{refused}");
    users.undo("bob", reference("AC-001")).await;
    let documents = users.documents().await;
    let deleted = documents.keys().find(|id| id.name.starts_with("AC-001")).unwrap();
    assert_eq!(deleted.kind, DocumentKind::Deleted);
    assert!(documents[deleted].contains("deleted_username: bob"), "{documents:?}");
    users.undo("bob", reference("AC-001")).await;
    assert!(users.documents().await.keys().all(|id| id.kind != DocumentKind::Deleted));
}

#[tokio::test]
async fn undo_of_a_change_by_its_time_leaves_later_changes() {
    let users = backlog().await;
    let before = users.documents().await;
    let mut changes = Vec::new();
    for (tool, arguments) in [
        ("update_epic", json!({ "epic": "EP-001", "title": "Changed" })),
        ("delete_item", json!({ "reference": "US-002", "cascade": true })),
        ("create_epic", json!({ "title": "Created", "priority": 1 })),
    ] {
        let answer = users.call("ann", tool, arguments).await.unwrap();
        changes.push(answer.written_at.expect("a write has a time").0);
    }
    for user in ["ann", "bob"] {
        users.done(user, "update_epic", json!({ "epic": "EP-002", "title": user })).await;
    }
    // A change of another user, one that did not happen, and one with a later change.
    let later = json!({ "epic": "EP-003", "title": "Changed by bob" });
    users.done("bob", "update_epic", later).await;
    for (user, change, kind) in [
        ("bob", changes[0], ErrorKind::NotFound),
        ("ann", changes[0] + 1, ErrorKind::NotFound),
        ("ann", changes[2], ErrorKind::Conflict),
    ] {
        let refused = users.refused(user, json!({ "change": change })).await;
        assert_eq!(refused.kind, kind, "{refused}");
        let names_user = refused.message.contains(" bob, update_epic");
        assert_eq!(names_user, kind == ErrorKind::Conflict, "{refused}");
    }
    let undo = json!({ "change": changes[1] });
    let redo = users.call("ann", "undo", undo).await.unwrap().written_at.unwrap().0;
    users.undo("ann", json!({ "change": changes[0] })).await;
    let after = users.documents().await;
    for (id, body) in before.iter().filter(|(id, _)| !id.name.starts_with("EP-002")) {
        assert_eq!(after.get(id), Some(body), "{id}");
    }
    // The undo of the first undo, although the document has its text from another one.
    users.undo("ann", json!({ "change": redo })).await;
    let after = users.documents().await;
    let story = |id: &DocumentId| id.name.starts_with("US-002");
    let kinds: Vec<_> = after.keys().filter(|id| story(id)).map(|id| id.kind).collect();
    assert_eq!(kinds, [DocumentKind::Deleted]);
    // A deletion that is no longer the last change.
    let outdated = json!({ "reference": "EP-001", "change": 0 });
    assert_eq!(users.refused("ann", outdated).await.kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn undo_of_a_change_by_another_user_needs_its_id() {
    let users = backlog().await;
    let refused = users.refused("bob", json!({})).await;
    assert_eq!(refused.kind, ErrorKind::NotFound);
    for title in ["One", "Two"] {
        let change = json!({ "epic": "EP-001", "title": title });
        users.done(if title == "One" { "bob" } else { "ann" }, "update_epic", change).await;
    }
    let refused = users.refused("bob", json!({})).await;
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.starts_with("Not undone: EP-001 was changed later: "), "{refused}");
    assert!(refused.message.contains(" ann, update_epic"), "{refused}");
}

#[tokio::test]
async fn undo_of_a_rule_keeps_other_changes_of_its_section() {
    let users = TestUsers::new();
    users.rule("ann", "general", "1", "One.").await;
    let created = users.documents().await;
    users.rule("ann", "general", "2", "Two.").await;
    let two = users.documents().await;
    users.rule("ann", "general", "1", "Uno.").await;
    users.rule("bob", "general", "3", "Three.").await;
    let all = users.documents().await;
    let section = DocumentId::section("general");
    let text = users.undo("ann", reference("general:1")).await;
    assert!(text.contains("\ngeneral:1 restored to version "), "{text}");
    let expected = "**1.** One.\n\n**2.** Two.\n\n**3.** Three.\n";
    assert_eq!(users.documents().await[&section], expected);
    users.undo("ann", reference("general:1")).await;
    assert_eq!(users.documents().await, all);
    // A rule that does not exist at the moment.
    users.undo("ann", reference("general:3")).await;
    assert_eq!(users.documents().await[&section], "**1.** Uno.\n\n**2.** Two.\n");
    users.undo("ann", reference("general:3")).await;
    assert_eq!(users.documents().await, all);
    let refused = users.refused("ann", reference("general:9")).await;
    assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
    // The section as a whole: its creation is undone with its entry in the list.
    let users = TestUsers::new();
    users.rule("ann", "general", "1", "One.").await;
    assert_eq!(users.documents().await[&section], created[&section]);
    users.undo("bob", reference("general")).await;
    assert!(!users.documents().await.contains_key(&section));
    assert!(!users.documents().await[&DocumentId::instructions()].contains("general"));
    users.undo("bob", reference("general:1")).await;
    assert_eq!(users.documents().await, created);
    users.rule("ann", "general", "2", "Two.").await;
    assert_eq!(users.documents().await, two);
    users.undo("ann", json!({})).await;
    assert_eq!(users.documents().await, created);
}

#[tokio::test]
async fn undo_of_an_older_renumbering_is_refused() {
    let users = TestUsers::new();
    for text in ["One.", "Two."] {
        users.rule("ann", "general", "new", text).await;
    }
    let before = users.documents().await;
    let insert = json!({ "section": "general", "index": "new", "before": "1", "text": "Zero." });
    users.done("ann", "reqlix_set_requirements", insert).await;
    users.undo("ann", reference("general:1")).await;
    assert_eq!(users.documents().await, before);
    users.undo("ann", reference("general:1")).await;
    users.rule("bob", "general", "9", "Nine.").await;
    let refused = users.refused("ann", reference("general:1")).await;
    assert!(refused.message.contains("renumbered other rules"), "{refused}");
}

#[tokio::test]
async fn restore_brings_back_any_version_of_the_item_alone() {
    let users = backlog().await;
    let first = users.documents().await;
    let id = first.keys().find(|id| id.name.starts_with("REQ-001")).unwrap().clone();
    let old = newest_version(&users, "REQ-001").await;
    users
        .done("bob", "update_requirement", json!({ "requirement": "REQ-001", "title": "Later" }))
        .await;
    users.done("bob", "delete_item", json!({ "reference": "EP-001", "cascade": true })).await;
    let arguments = json!({ "reference": "REQ-001", "version": &old[..8] });
    let text = users.undo("ann", arguments.clone()).await;
    let note = "REQ-001 belongs to US-001, which is deleted; `reqlore undo US-001` restores US-001";
    assert_eq!(text, format!("REQ-001 restored to version {}\n\nNote: {note}", &old[..8]));
    let now = users.documents().await;
    assert_eq!(now[&id], first[&id]);
    assert!(!now.contains_key(&id.tombstone()));
    assert!(now.keys().any(|id| id.kind == DocumentKind::Deleted && id.name.starts_with("US-001")));
    users.rule("ann", "general", "1", "One.").await;
    let rule = newest_version(&users, "general").await;
    users.rule("ann", "general", "1", "Uno.").await;
    users.rule("ann", "general", "2", "Two.").await;
    users.undo("ann", json!({ "reference": "general:1", "version": rule })).await;
    let section = &users.documents().await[&DocumentId::section("general")];
    assert_eq!(section, "**1.** One.\n\n**2.** Two.\n");
    let refused = users.refused("ann", json!({ "version": "12345678" })).await;
    assert_eq!(refused.field.as_deref(), Some("version"));
    let refused =
        users.refused("ann", json!({ "reference": "EP-002", "version": "12345678" })).await;
    assert!(refused.message.contains("has no version 12345678"), "{refused}");
}

#[tokio::test]
async fn undo_of_a_child_names_its_deleted_parent() {
    let users = backlog().await;
    let before = users.documents().await;
    users.done("bob", "delete_item", json!({ "reference": "EP-001", "cascade": true })).await;
    for (child, parent) in [("US-001", "EP-001"), ("AC-001", "US-001")] {
        let refused = users.refused("ann", reference(child)).await;
        let expected = format!(
            "{child} belongs to {parent}, which is deleted; `reqlore undo {parent}` restores {parent}"
        );
        assert_eq!(refused.message, expected);
    }
    users.undo("ann", reference("EP-001")).await;
    assert_eq!(users.documents().await, before);
    // Two deletions are undone one after the other.
    for id in ["US-001", "EP-001"] {
        users.done("bob", "delete_item", json!({ "reference": id, "cascade": true })).await;
    }
    users.refused("ann", reference("US-001")).await;
    users.undo("ann", reference("EP-001")).await;
    users.undo("ann", reference("US-001")).await;
    assert_eq!(users.documents().await, before);
}

async fn newest_version(users: &TestUsers, id: &str) -> String {
    let answer = users.call("ann", "get_history", reference(id)).await.unwrap();
    answer.data["versions"][0]["version"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn undo_says_what_prevents_it() {
    let users = backlog().await;
    // Imported, so its creation is unknown.
    users.testing.write_item("EP-007", "---\ntitle: By hand\n---\n").await;
    let refused = users.refused("ann", reference("EP-007")).await;
    assert!(refused.message.contains("it has no earlier version to restore"), "{refused}");
    let refused = users.refused("ann", reference("EP-099")).await;
    assert_eq!(refused.kind, ErrorKind::NotFound, "{refused}");
    users.done("ann", "update_epic", json!({ "epic": "EP-001", "title": "hunter2" })).await;
    users.done("ann", "update_epic", json!({ "epic": "EP-001", "title": "Better" })).await;
    let id = users.documents().await.into_keys().find(|id| id.name.starts_with("EP-001")).unwrap();
    let purge = write_context(Timestamp::default());
    users.testing.history.purge_history(&users.testing.project, &id, None, purge).await.unwrap();
    let refused = users.refused("ann", reference("EP-001")).await;
    assert!(refused.message.contains("was erased"), "{refused}");
    let merge = "---\ntitle: A\n---\n<<<<<<< ours\none\n=======\ntwo\n>>>>>>> theirs\n";
    users.testing.write(item_id("EP-008"), "---\ntitle: A\n---\n").await;
    users.testing.write(item_id("EP-008"), merge).await;
    let refused = users.refused("ann", reference("EP-008")).await;
    assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
    let listed = users.application.tools(&Caller::local("ann", Access::Write));
    assert!(listed.iter().any(|spec| spec.name == "undo" && !spec.is_listed));
    let reader = Caller::local("ann", Access::Read);
    assert!(users.application.tools(&reader).iter().all(|spec| spec.name != "undo"));
}

#[tokio::test]
async fn undo_of_entities_restores_their_links() {
    let users = TestUsers::new();
    let mut ids = Vec::new();
    for title in ["Files", "Databases"] {
        let links = ids.first().map(|id| json!({ "relates_to": [id] }));
        let mut entity = json!({ "kind": "decision", "title": title });
        if let Some(links) = links {
            entity["links"] = links;
        }
        let answer = users.call("ann", "ixchel_create", entity).await.unwrap();
        ids.push(answer.data["id"].as_str().unwrap().to_owned());
    }
    let before = users.documents().await;
    let refused = users.refused("ann", reference(&ids[0])).await;
    assert!(refused.message.contains(&format!("link to it: {}.", ids[1])), "{refused}");
    users.done("ann", "delete_item", json!({ "reference": ids[0], "cascade": true })).await;
    let deleted = users.documents().await;
    users.undo("ann", reference(&ids[0])).await;
    assert_eq!(users.documents().await, before);
    users.undo("ann", json!({})).await;
    assert_eq!(users.documents().await, deleted);
    users.undo("bob", reference(&ids[0])).await;
    assert_eq!(users.documents().await, before);
    // Its creation, and again.
    users.undo("bob", reference(&ids[1])).await;
    users.undo("bob", reference(&ids[1])).await;
    assert_eq!(users.documents().await, before);
}

mod model;
