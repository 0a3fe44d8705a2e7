//! `list_items` on the memory store.

use reqlore_domain::error::ErrorKind;
use serde_json::{Value, json};

use crate::test_support::{TestApplication, references};

/// Two epics with stories and requirements, and entities.
async fn project() -> TestApplication {
    let testing = TestApplication::new();
    for (name, keys) in [
        ("EP-001", "status: Done\ntags: [Shop]\n"),
        ("EP-002", "priority: 1\nassignee_username: Ann\n"),
        ("US-001", "epic: EP-001\nstatus: Done\n"),
        ("US-002", "epic: EP-001\nstatus: In Progress\n"),
        ("US-003", "epic: EP-001\nstatus: Cancelled\n"),
        ("US-004", "epic: EP-002\nstatus: Cancelled\n"),
        ("REQ-001", "user_story: US-001\nstatus: Active\npriority: 1\ntype_name: Data\n"),
        ("REQ-002", "user_story: US-002\nstatus: Draft\n"),
        ("REQ-003", "user_story: US-004\nstatus: Obsolete\n"),
        ("AC-001", "user_story: US-001\nstatus: Met\n"),
        ("AC-002", "user_story: US-002\n"),
    ] {
        let text = format!("---\ntitle: About {name}\n{keys}---\nText\n");
        testing.write_item(name, text).await;
    }
    for (name, keys) in [
        ("decisions/dec-1111", "status: accepted\ntags: [Web]\nupdated_at: 2026-03-01T10:00:00Z\n"),
        ("decisions/dec-2222", "status: proposed\ncreated_at: 2026-01-01T10:00:00Z\n"),
        ("issues/iss-3333", "status: Accepted\n"),
    ] {
        let text = format!("---\ntitle: Entity {name}\n{keys}---\nText\n");
        testing.write_entity(name, text).await;
    }
    testing
}

async fn list(testing: &TestApplication, arguments: Value) -> Value {
    testing.data("list_items", arguments).await
}

#[tokio::test]
async fn list_items_filters_each_kind() {
    let testing = project().await;
    for (arguments, expected) in [
        (json!({ "kind": "epic" }), &["EP-002", "EP-001"][..]),
        (json!({ "kind": "Epics", "status": "completed" }), &["EP-001"]),
        (json!({ "kind": "epic", "tags": ["shop"] }), &["EP-001"]),
        (json!({ "kind": "epic", "assignee": "ann" }), &["EP-002"]),
        (json!({ "kind": "epic", "assignee": "none" }), &["EP-001"]),
        (json!({ "kind": "epic", "text": "ep-002" }), &["EP-002"]),
        (json!({ "kind": "epic", "updated_since": "2200-01-01" }), &[]),
        (json!({ "kind": "user_story", "epic": "EP-002" }), &["US-004"]),
        (json!({ "kind": "user_story", "status": "in_progress" }), &["US-002"]),
        (json!({ "kind": "requirement", "epic": "EP-001" }), &["REQ-001", "REQ-002"]),
        (json!({ "kind": "requirement", "epic": "EP-001", "user_story": "US-004" }), &[]),
        (json!({ "kind": "requirement", "user_story": "US-004" }), &["REQ-003"]),
        (json!({ "kind": "requirement", "type": "data", "priority": 1 }), &["REQ-001"]),
        (
            json!({ "kind": "requirement", "sort": "-reference" }),
            &["REQ-003", "REQ-002", "REQ-001"],
        ),
        (json!({ "kind": "acceptance_criteria", "epic": "EP-001" }), &["AC-001", "AC-002"]),
        (json!({ "kind": "decision" }), &["dec-1111", "dec-2222"]),
        (json!({ "kind": "entity", "status": "accepted" }), &["dec-1111", "iss-3333"]),
        (json!({ "kind": "decision", "updated_since": "2026-02-01" }), &["dec-1111"]),
        (json!({ "kind": "entity", "sort": "-updated" }), &["dec-1111", "dec-2222", "iss-3333"]),
        (json!({ "kind": "knowledge", "sort": "updated" }), &["iss-3333", "dec-2222", "dec-1111"]),
        (json!({ "kind": "criterion", "status": "met" }), &["AC-001"]),
        (json!({ "kind": "entities", "tags": ["web"], "text": "ENTITY" }), &["dec-1111"]),
    ] {
        let page = list(&testing, arguments.clone()).await;
        // An entity without an ID is named by its path.
        let found: Vec<&str> =
            references(&page["items"]).iter().map(|id| id.rsplit('/').next().unwrap()).collect();
        assert_eq!(found, expected, "{arguments}");
        assert_eq!(page["total"], expected.len(), "{arguments}");
    }
}

#[tokio::test]
async fn list_items_counts_statuses_and_progress() {
    let testing = project().await;
    let epics = list(&testing, json!({ "kind": "epic", "status": "Done" })).await;
    assert_eq!(epics["by_status"], json!({ "Backlog": 1, "Done": 1 }));
    // One of three stories is cancelled.
    assert_eq!(epics["items"][0]["progress"], json!({ "done": 1, "total": 2 }));
    let epics = list(&testing, json!({ "kind": "epic", "text": "EP-002" })).await;
    assert_eq!(epics["items"][0].get("progress"), None, "all children are cancelled");
    let stories = list(&testing, json!({ "kind": "user_story", "epic": "EP-001" })).await;
    let progress = |at: usize| stories["items"][at].get("progress").cloned();
    let met = json!({ "met": 1, "total": 1 });
    let open = json!({ "met": 0, "total": 1 });
    assert_eq!([progress(0), progress(1), progress(2)], [Some(met), Some(open), None]);
    let criteria = list(&testing, json!({ "kind": "acceptance_criteria" })).await;
    assert_eq!(
        (&criteria["by_status"], &criteria["total"]),
        (&json!({ "Open": 1, "Met": 1 }), &json!(2))
    );
    let entities = list(&testing, json!({ "kind": "decision", "status": "accepted" })).await;
    assert_eq!(entities["by_status"], json!({ "accepted": 1, "proposed": 1 }));
    let text = testing.text("list_items", json!({ "kind": "epic" })).await;
    let expected = "2 epics (by status: Backlog 1, Done 1)\n\
                    EP-002 (Backlog, 1 Critical): About EP-002; assignee Ann\n\
                    EP-001 (Done, 3 Medium): About EP-001 [Shop]; Stories: 1 of 2 done";
    assert_eq!(text, expected);
    let text = testing.text("list_items", json!({ "kind": "user_story", "text": "US-001" })).await;
    let line = "US-001 (Done, 3 Medium): About US-001; parent EP-001; Criteria: 1 of 1 met";
    assert_eq!(text.lines().nth(1), Some(line));
}

#[tokio::test]
async fn list_items_pages_have_every_item_once() {
    let testing = project().await;
    for (kind, sort) in
        [("requirement", "title"), ("requirement", "-updated"), ("entity", "-title")]
    {
        let mut arguments = json!({ "kind": kind, "sort": sort });
        let all = list(&testing, arguments.clone()).await;
        arguments["limit"] = json!(1);
        let mut found = Vec::new();
        loop {
            let page = list(&testing, arguments.clone()).await;
            found.extend(page["items"].as_array().unwrap().clone());
            assert_eq!(page["total"], 3);
            let Some(cursor) = page.get("next_cursor") else { break };
            arguments["cursor"] = cursor.clone();
        }
        assert_eq!(all["items"], json!(found), "{kind} {sort}");
    }
}

#[tokio::test]
async fn list_items_wrong_argument_names_the_valid_ones() {
    let testing = project().await;
    for (arguments, field, message) in [
        (json!({ "kind": "sprint" }), "kind", "requirement, acceptance_criteria"),
        (json!({ "kind": "epic", "status": "Active" }), "status", "Backlog, Draft"),
        (json!({ "kind": "epic", "sort": "size" }), "sort", "priority, updated"),
        (json!({ "kind": "epic", "epic": "EP-001" }), "epic", "omit it"),
        (json!({ "kind": "user_story", "user_story": "US-001" }), "user_story", "omit it"),
        (json!({ "kind": "acceptance_criteria", "status": "Done" }), "status", "Open, Met"),
        (json!({ "kind": "acceptance_criteria", "priority": 1 }), "priority", "omit it"),
        (json!({ "kind": "decision", "assignee": "ann" }), "assignee", "omit it"),
        (json!({ "kind": "epic", "updated_since": "today" }), "updated_since", "2026-11-22"),
    ] {
        let error = testing.error("list_items", arguments.clone()).await;
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{arguments}");
        assert_eq!(error.field.as_deref(), Some(field), "{arguments}");
        assert!(error.message.contains(message), "{arguments}: {error}");
    }
    let missing = json!({ "kind": "requirement", "epic": "EP-009" });
    assert_eq!(testing.error("list_items", missing).await.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn list_items_empty_answer_says_why() {
    let testing = project().await;
    let page = list(&testing, json!({ "kind": "epic", "status": "Draft" })).await;
    let note = "No epic matches these filters; the total of all epics is 2.";
    assert_eq!(page["notes"], json!([note]));
    let empty = TestApplication::new();
    let page = list(&empty, json!({ "kind": "requirement" })).await;
    assert_eq!(page["notes"], json!(["This project has no backlog requirements yet."]));
}

#[tokio::test]
async fn filters_compare_composed_and_decomposed_letters() {
    for (stored, typed) in [
        ("cafe\u{301}", "Caf\u{e9}"),
        ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
        ("Vi\u{1ec7}t", "vie\u{323}\u{302}t"),
        ("\u{212b}se", "\u{e5}se"),
        ("\u{439}\u{43e}\u{434}", "\u{418}\u{306}\u{43e}\u{434}"),
    ] {
        let testing = TestApplication::new();
        let text = format!(
            "---\ntitle: The {stored} bar\nassignee_username: {stored}\ntags: [{stored}]\n---\n"
        );
        testing.write_item("EP-001", text.clone()).await;
        testing.write_entity("decisions/dec-aaaaaa", text).await;
        for (kind, filter) in [
            ("epic", json!({ "tags": [typed] })),
            ("epic", json!({ "text": typed })),
            ("epic", json!({ "assignee": typed })),
            ("decision", json!({ "tags": [typed] })),
            ("decision", json!({ "text": typed })),
        ] {
            let mut arguments = filter;
            arguments["kind"] = json!(kind);
            let data = testing.data("list_items", arguments.clone()).await;
            assert_eq!(data["total"], 1, "{arguments}: {data}");
        }
    }
}
