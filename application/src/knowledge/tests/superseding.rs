//! Tests of records that end others, and of their rank in answers.

use reqlore_domain::document::DocumentId;
use serde_json::{Value, json};

use crate::test_support::{TestApplication, references};

async fn write_decision(testing: &TestApplication, id: &str, keys: &str) {
    let text = format!("---\nid: {id}\ntitle: Storage\n{keys}---\nStorage backend.\n");
    testing.write_entity(&format!("decisions/{id}"), text).await;
}

async fn status_of(testing: &TestApplication, id: &str) -> Value {
    testing.data("ixchel_show", json!({ "id": id })).await["status"].take()
}

fn ids(found: &Value) -> Vec<&str> {
    let key =
        if found.get("hits").is_some() { ("hits", "id") } else { ("results", "reference_id") };
    found[key.0].as_array().unwrap().iter().map(|hit| hit[key.1].as_str().unwrap()).collect()
}

#[tokio::test]
async fn created_decision_ends_the_one_that_it_supersedes() {
    let testing = TestApplication::new();
    write_decision(&testing, "dec-aaaaaa", "status: accepted\n").await;
    let arguments = json!({
        "kind": "decision", "title": "Files", "status": "accepted", "supersedes": "DEC-aaaaaa"
    });
    let created = testing.call("ixchel_create", arguments).await.unwrap();
    let id = created.data["id"].as_str().unwrap();
    assert!(created.text.ends_with("Note: dec-aaaaaa is now superseded"), "{}", created.text);
    let stored = testing.data("ixchel_show", json!({ "id": id })).await;
    assert!(stored["raw"].as_str().unwrap().contains("\nsupersedes: [dec-aaaaaa]\n"), "{stored}");
    let old = testing.call("ixchel_show", json!({ "id": "dec-aaaaaa" })).await.unwrap();
    let note = format!("Note: dec-aaaaaa (decision, superseded by {id}), version");
    assert!(old.text.contains(&note), "{}", old.text);
    assert!(!old.data["raw"].as_str().unwrap().contains(id), "derived");
    let graph = testing.text("ixchel_graph", json!({ "id": id })).await;
    assert!(graph.contains(&format!("- supersedes dec-aaaaaa (decision, superseded by {id})")));
    assert_eq!(testing.check().await, [""; 0]);
    let undone = testing.data("undo", json!({})).await;
    assert_eq!(undone["documents"].as_array().unwrap().len(), 2, "{undone}");
    assert_eq!(status_of(&testing, "dec-aaaaaa").await, "accepted");
}

#[tokio::test]
async fn proposal_ends_nothing_until_it_is_accepted() {
    let testing = TestApplication::new();
    write_decision(&testing, "dec-aaaaaa", "status: accepted\n").await;
    let arguments = json!({
        "kind": "decision", "title": "Files", "status": "proposed",
        "links": { "supersedes": ["dec-aaaaaa"] }
    });
    let created = testing.data("ixchel_create", arguments).await;
    assert_eq!(status_of(&testing, "dec-aaaaaa").await, "accepted");
    for tool in ["ixchel_show", "ixchel_graph"] {
        let shown = testing.text(tool, json!({ "id": "dec-aaaaaa" })).await;
        assert!(shown.contains(" would be superseded by dec-"), "{shown}");
    }
    for (status, expected) in [("rejected", "accepted"), ("accepted", "superseded")] {
        let arguments = json!({ "id": created["id"], "status": status });
        testing.call("ixchel_update", arguments).await.unwrap();
        assert_eq!(status_of(&testing, "dec-aaaaaa").await, expected);
    }
}

#[tokio::test]
async fn removed_link_names_the_status_that_stays() {
    let testing = TestApplication::new();
    for id in ["dec-aaaaaa", "dec-bbbbbb"] {
        write_decision(&testing, id, "status: accepted\n").await;
    }
    let new = json!({ "kind": "decision", "title": "Files", "status": "accepted",
        "supersedes": ["dec-aaaaaa", "dec-bbbbbb"] });
    let id = testing.data("ixchel_create", new).await["id"].take();
    let note = |id: &str| {
        format!("Note: the status of {id} stays superseded; set it if that record is valid again")
    };
    let arguments = json!({ "id": id, "links": { "supersedes": ["dec-bbbbbb"] } });
    let answer = testing.text("ixchel_update", arguments).await;
    assert!(answer.contains(&note("dec-aaaaaa")), "{answer}");
    assert!(!answer.contains("dec-bbbbbb"), "{answer}");
    let arguments = json!({ "id": id, "links": { "affects": ["dec-aaaaaa"] } });
    let answer = testing.text("ixchel_update", arguments).await;
    assert!(!answer.contains("stays"), "{answer}");
    testing.call("ixchel_update", json!({ "id": "dec-bbbbbb", "status": "open" })).await.unwrap();
    let answer = testing.text("ixchel_update", json!({ "id": id, "supersedes": [] })).await;
    assert!(!answer.contains("stays"), "{answer}");
}

#[tokio::test]
async fn decisions_that_supersede_each_other_end_nothing() {
    let testing = TestApplication::new();
    write_decision(&testing, "dec-aaaaaa", "status: accepted\nsupersedes: [dec-bbbbbb]\n").await;
    write_decision(&testing, "dec-bbbbbb", "status: accepted\n").await;
    let arguments = json!({ "id": "dec-bbbbbb", "supersedes": ["dec-aaaaaa"] });
    testing.call("ixchel_update", arguments).await.unwrap();
    assert_eq!(status_of(&testing, "dec-aaaaaa").await, "accepted");
    let found = testing.data("search_global", json!({ "query": "storage" })).await;
    for hit in found["results"].as_array().unwrap() {
        assert_eq!((hit.get("stale"), hit.get("superseded_by")), (None, None), "{hit}");
    }
    let problem = "dec-bbbbbb supersede each other, so both are valid; remove one link";
    let file = ".ixchel/decisions/dec-aaaaaa.md:5: it and ";
    assert!(testing.check().await.contains(&format!("{file}{problem}")));
}

#[tokio::test]
async fn requirement_ends_the_one_that_it_supersedes() {
    let testing = TestApplication::new();
    testing.write_item("US-001", "---\ntitle: Pay\n---\n").await;
    let old = "---\ntitle: Pay by card\nstatus: Active\nuser_story: US-001\n---\nCards.\n";
    testing.write_item("REQ-001-card-3f9a1c", old).await;
    let new = json!({
        "create": "requirement", "title": "Pay by phone", "user_story": "US-001", "priority": 2,
        "type": "Functional", "supersedes": ["req-1"], "status": "Active"
    });
    let changes = json!({ "changes": [new, { "update": "REQ-001", "tags": ["old"] }] });
    testing.call("apply_changes", changes).await.unwrap();
    let stored = testing.text("get_item", json!({ "reference": "REQ-002" })).await;
    assert!(stored.contains("- supersedes REQ-001 (Obsolete"), "{stored}");
    let old = testing.text("get_item", json!({ "reference": "REQ-001" })).await;
    assert!(old.contains("Status: Obsolete") && old.contains("Tags: old"), "{old}");
    assert!(old.contains("- superseded by REQ-002 (Active"), "{old}");
    let found = testing.call("search_requirements", json!({ "query": "pay" })).await.unwrap();
    assert_eq!(references(&found.data["results"]), ["REQ-002", "REQ-001"]);
    assert_eq!(found.data["results"][1]["stale"], "superseded by REQ-002");
    let marked = "No longer valid:\nREQ-001 (requirement, Obsolete, superseded by REQ-002): Pay by";
    assert!(found.text.contains(marked), "{}", found.text);
    let arguments = json!({ "requirement": "REQ-002", "supersedes": [] });
    testing.call("update_requirement", arguments).await.unwrap();
    let stored = testing.text("get_item", json!({ "reference": "REQ-002" })).await;
    assert!(!stored.contains("supersedes"), "{stored}");
    for (supersedes, problem) in [
        (json!(["US-001"]), "supersedes: US-001 is not another requirement"),
        (json!(["REQ-002"]), "supersedes: REQ-002 is not another requirement"),
        (json!(["REQ-009"]), "REQ-009"),
        (json!(7), "supersedes: send a list of IDs"),
    ] {
        let arguments = json!({ "requirement": "REQ-002", "supersedes": supersedes });
        let error = testing.error("update_requirement", arguments).await;
        assert!(error.message.contains(problem), "{error}");
    }
}

#[tokio::test]
async fn status_of_a_project_without_superseded_stays_with_a_note() {
    let testing = TestApplication::new();
    let schema = "[statuses.decision]\norder = [\"proposed\", \"accepted\"]\n";
    testing.write(DocumentId::schema(), schema).await;
    write_decision(&testing, "dec-aaaaaa", "status: accepted\n").await;
    let arguments = json!({
        "kind": "decision", "title": "Files", "status": "accepted", "supersedes": ["dec-aaaaaa"]
    });
    let text = testing.text("ixchel_create", arguments).await;
    assert!(text.contains("Note: the status of dec-aaaaaa stays: "), "{text}");
    assert_eq!(status_of(&testing, "dec-aaaaaa").await, "accepted");
    let found = testing.text("ixchel_search", json!({ "query": "storage" })).await;
    assert!(found.contains("No longer valid:\ndec-aaaaaa (decision, accepted, superseded by "));
}

#[tokio::test]
async fn ended_record_never_ranks_above_a_valid_one_with_its_words() {
    let statuses = ["accepted", "superseded", "Rejected", "done", "DEPRECATED", "proposed", "open"];
    for seed in 0..6_usize {
        let testing = TestApplication::new();
        let mut ended = Vec::new();
        for number in 0..30_usize {
            let id = format!("dec-{number:06}");
            let status = statuses[(number * (seed + 3) + number * number / 3) % statuses.len()];
            write_decision(&testing, &id, &format!("status: {status}\n")).await;
            if ["superseded", "Rejected", "DEPRECATED"].contains(&status) {
                ended.push(id);
            }
        }
        for (tool, key) in [("ixchel_search", "hits"), ("search_global", "results")] {
            for limit in [1, 4, 100] {
                let (mut seen_ended, mut count) = (false, 0);
                let mut next = json!({ "query": "storage backend", "limit": limit });
                loop {
                    let found = testing.data(tool, next.clone()).await;
                    for (id, hit) in ids(&found).into_iter().zip(found[key].as_array().unwrap()) {
                        let is_ended = ended.iter().any(|one| one == id);
                        assert!(is_ended || !seen_ended, "{tool} {limit}: {id} is below {seed}");
                        assert_eq!(hit.get("stale").is_some(), is_ended, "{hit}");
                        seen_ended = is_ended;
                        count += 1;
                    }
                    let position = ["next_offset", "next_cursor"].map(|key| found[key].clone());
                    match position {
                        [Value::Null, Value::Null] => break,
                        [Value::Null, cursor] => next["cursor"] = cursor,
                        [offset, _] => next["offset"] = offset,
                    }
                }
                assert_eq!(count, 30, "{tool} {limit}");
            }
            let arguments = json!({ "query": "storage", "limit": 100, "include_stale": false });
            let found = testing.call(tool, arguments).await.unwrap();
            let shown = ids(&found.data);
            assert_eq!(shown.len(), 30 - ended.len());
            assert!(!shown.iter().any(|id| ended.iter().any(|one| one == id)), "{shown:?}");
            let note = format!("Note: {} hits of this page have ended", ended.len());
            assert!(found.text.ends_with(&note), "{}", found.text);
        }
        let first = &ended[0];
        let asked = json!({ "query": format!("storage {first}") });
        let found = testing.data("ixchel_search", asked).await;
        assert_eq!(ids(&found)[0], first, "the query names it");
    }
}

#[tokio::test]
async fn overdue_review_is_marked_and_noted_by_check() {
    // The clock of the tests stands at 1970-01-01.
    let testing = TestApplication::new();
    write_decision(&testing, "dec-aaaaaa", "status: accepted\nreview_by: 1969-12-31\n").await;
    write_decision(&testing, "dec-bbbbbb", "review_by: 1970-01-01\n").await;
    write_decision(&testing, "dec-cccccc", "status: rejected\nreview_by: 1969-12-31\n").await;
    write_decision(&testing, "dec-dddddd", "review_by: soon\n").await;
    let line = "accepted, review overdue): Storage";
    for (tool, arguments) in [
        ("ixchel_search", json!({ "query": "storage" })),
        ("search_global", json!({ "query": "storage" })),
        ("list_items", json!({ "kind": "entity" })),
        ("ixchel_graph", json!({ "id": "dec-aaaaaa" })),
    ] {
        let answer = testing.call(tool, arguments).await.unwrap();
        assert!(answer.text.contains(line), "{tool}: {}", answer.text);
        let data = answer.data.to_string();
        assert_eq!(data.matches("\"review_overdue\":true").count(), 1, "{tool}: {data}");
        assert_eq!(answer.text.matches("review overdue").count(), 1, "{tool}: {}", answer.text);
    }
    let shown = testing.text("get_item", json!({ "reference": "dec-aaaaaa" })).await;
    assert!(shown.contains("\nreview overdue\n"), "{shown}");
    let expected = [
        ".ixchel/decisions/dec-dddddd.md:4: review_by: \"soon\" is not a date; write one such as \
         2026-11-27",
        ".ixchel/decisions/dec-aaaaaa.md:5: review overdue since 1969-12-31; review it and set a \
         later day",
    ];
    assert_eq!(testing.check().await, expected);
    let notes: Vec<bool> = crate::check::check_documents(&testing.ports())
        .await
        .unwrap()
        .iter()
        .map(|finding| finding.is_note)
        .collect();
    assert_eq!(notes, [false, true]);
}

#[tokio::test]
async fn review_day_is_written_by_tools_and_removed() {
    let testing = TestApplication::new();
    let arguments = json!({ "kind": "idea", "title": "Later", "review_by": "2027-03-01" });
    let created = testing.data("ixchel_create", arguments).await;
    let id = created["id"].as_str().unwrap();
    let raw = async || testing.data("ixchel_show", json!({ "id": id })).await["raw"].to_string();
    assert!(raw().await.contains("2027-03-01"), "{}", raw().await);
    let changes = json!([{ "update": id, "review_by": "2027-04-01" }]);
    testing.call("apply_changes", json!({ "changes": changes })).await.unwrap();
    assert!(raw().await.contains("2027-04-01"), "{}", raw().await);
    let error = testing.error("ixchel_update", json!({ "id": id, "review_by": "May" })).await;
    assert!(error.message.contains("\"May\" is not a date"), "{error}");
    testing.call("ixchel_update", json!({ "id": id, "review_by": null })).await.unwrap();
    assert!(!raw().await.contains("review_by"), "{}", raw().await);
}
