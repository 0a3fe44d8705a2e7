//! Answers of the reading tools under a size limit, and with chosen keys.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use serde_json::{Value, json};

use crate::test_support::{TestApplication, references};

/// 30 epics; the first has 30 stories, and its first story has 30 requirements.
async fn project() -> TestApplication {
    let testing = TestApplication::new();
    for number in 1..=30 {
        for (name, keys) in [
            (format!("EP-{number:03}"), ""),
            (format!("US-{number:03}"), "epic: EP-001\n"),
            (format!("REQ-{number:03}"), "user_story: US-001\nstatus: Active\n"),
        ] {
            let text = format!(
                "---\ntitle: About {name}\ntags: [pay]\n{keys}created_at: 2026-01-01\n---\nText\n"
            );
            testing.write_item(&name, text).await;
        }
        // A search awaits only a few changes of the index.
        testing.data("search_global", json!({ "query": "x" })).await;
    }
    testing
}

#[tokio::test]
async fn limited_pages_have_every_entry_once() {
    let testing = project().await;
    testing.write(DocumentId::section("general"), "**1.** x\n").await;
    for number in 1..=30 {
        let title = format!("Title {number}");
        testing.data("update_epic", json!({ "epic": "EP-030", "title": title })).await;
    }
    for (tool, arguments, key, id) in [
        ("list_epics", json!({}), "epics", "reference_id"),
        ("list_items", json!({ "kind": "requirement" }), "items", "reference_id"),
        ("list_items", json!({ "kind": "requirement", "sort": "-title" }), "items", "reference_id"),
        ("search_requirements", json!({}), "results", "reference_id"),
        ("search_requirements", json!({ "query": "text" }), "results", "reference_id"),
        ("search_global", json!({ "query": "text", "limit": 100 }), "results", "reference_id"),
        ("get_history", json!({ "reference": "EP-030" }), "versions", "version"),
    ] {
        let mut arguments = arguments;
        let whole = testing.data(tool, arguments.clone()).await;
        let all = whole[key].as_array().unwrap();
        assert!(all.len() >= 30, "{tool}: {}", all.len());
        arguments["max_tokens"] = json!(300);
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let answer = testing.call(tool, arguments.clone()).await.unwrap();
            assert!(answer.text.len() <= 1_200, "{tool}: {}", answer.text);
            let entries = answer.data[key].as_array().unwrap();
            for entry in entries {
                let shown = entry[id].as_str().unwrap();
                let shown = if id == "version" { &shown[..8] } else { shown };
                assert!(answer.text.contains(shown), "{tool}: {}", answer.text);
            }
            found.extend(entries.iter().map(|entry| entry[id].clone()));
            pages += 1;
            let Some(cursor) = answer.data.get("next_cursor") else { break };
            let line = format!("\nNext page: cursor {}", cursor.as_str().unwrap());
            assert!(answer.text.contains(&line), "{tool}: {}", answer.text);
            arguments["cursor"] = cursor.clone();
        }
        let expected: Vec<Value> = all.iter().map(|entry| entry[id].clone()).collect();
        assert!(pages > 2, "{tool}");
        assert_eq!(found, expected, "{tool}");
    }
}

#[tokio::test]
async fn limited_history_continues_after_new_versions() {
    let testing = project().await;
    for number in 1..=10 {
        let title = format!("Title {number}");
        testing.data("update_epic", json!({ "epic": "EP-001", "title": title })).await;
    }
    let whole = testing.data("get_history", json!({ "reference": "EP-001" })).await;
    let mut arguments = json!({ "reference": "EP-001", "max_tokens": 200 });
    let first = testing.data("get_history", arguments.clone()).await;
    let shown = first["versions"].as_array().unwrap().len();
    testing.data("update_epic", json!({ "epic": "EP-001", "title": "New" })).await;
    arguments["cursor"] = first["next_cursor"].clone();
    let second = testing.data("get_history", arguments).await;
    assert_eq!(second["versions"][0], whole["versions"][shown]);
}

#[tokio::test]
async fn limited_item_is_cut_at_a_sentence_and_names_the_rest() {
    let testing = project().await;
    let body = "A sentence of the description. ".repeat(40);
    let change = json!({ "user_story": "US-001", "description": body });
    testing.data("update_user_story", change).await;
    let get = async |max_tokens: usize| {
        let arguments = json!({ "reference": "US-001", "max_tokens": max_tokens });
        testing.call("get_item", arguments).await.unwrap()
    };
    let cut = get(300).await;
    assert!(cut.text.len() <= 1_200, "{}", cut.text);
    assert!(cut.text.contains("description.\n\nNote: the text is cut after "), "{}", cut.text);
    let left_out = cut.data["left_out"].as_str().unwrap();
    assert!(left_out.contains("30 of 30 children and links are left out"), "{left_out}");
    assert!(cut.text.ends_with("list_items with kind: requirement, user_story: US-001"));
    assert_eq!(cut.data["children"], json!([]));
    let (_, tokens) = left_out.split_once("max_tokens: ").unwrap();
    let whole = get(tokens.split(' ').next().unwrap().parse().unwrap()).await;
    assert_eq!(whole.data.get("left_out"), None);
    assert_eq!(references(&whole.data["children"]).len(), 30);
    assert!(whole.text.contains("\n- REQ-030 (Active, 3 Medium, Functional): About REQ-030 [pay]"));
}

#[tokio::test]
async fn limited_hierarchy_names_the_rest() {
    let testing = project().await;
    let arguments = json!({ "epic": "EP-001", "max_tokens": 500 });
    let cut = testing.call("epic_hierarchy", arguments).await.unwrap();
    let stories = cut.data["user_stories"].as_array().unwrap();
    let mut shown = stories.len();
    for story in stories {
        shown += story["requirements"].as_array().unwrap().len();
    }
    assert!(shown > 0 && shown < 20, "{shown}");
    let left_out = cut.data["left_out"].as_str().unwrap();
    let start = format!("showing the first {shown} of 60 items; list_items with epic: EP-001");
    assert!(left_out.starts_with(&start), "{left_out}");
    assert!(cut.text.contains(left_out), "{}", cut.text);
    assert_eq!(cut.data["counts"]["requirements"], 30);
}

#[tokio::test]
async fn chosen_keys_are_the_only_ones() {
    let testing = project().await;
    for (tool, arguments, key, line, keys) in [
        ("list_epics", json!({ "show": ["status"] }), "epics", "EP-001 (Backlog)", &["status"][..]),
        (
            "list_items",
            json!({ "kind": "epic", "show": "title, updated_at" }),
            "items",
            "EP-001: About EP-001; updated ",
            &["title", "updated_at"],
        ),
        ("search_requirements", json!({ "show": ["id"] }), "results", "REQ-001", &[]),
    ] {
        let answer = testing.call(tool, arguments).await.unwrap();
        let entry = answer.data[key][0].as_object().unwrap();
        let mut found: Vec<&str> = entry.keys().map(String::as_str).collect();
        found.retain(|key| *key != "reference_id");
        assert_eq!(found, keys, "{tool}");
        let first = answer.text.lines().nth(1).unwrap();
        assert!(first.starts_with(line), "{tool}: {first}");
    }
    let answer = testing
        .call("epic_hierarchy", json!({ "epic": "EP-001", "show": ["title"] }))
        .await
        .unwrap();
    assert!(answer.text.contains("\n  - REQ-001: About REQ-001\n"), "{}", answer.text);
    assert_eq!(
        answer.data["user_stories"][0]["requirements"][0],
        json!({ "reference_id": "REQ-001", "title": "About REQ-001" })
    );
    let error = testing.error("list_epics", json!({ "show": ["colour"] })).await;
    assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::InvalidArgument, Some("show")));
}

#[tokio::test]
async fn story_has_its_criteria_whole() {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: Shop\n---\n").await;
    testing.write_item("US-001", "---\ntitle: Pay\nepic: EP-001\n---\n").await;
    let criterion = format!("Given {} then the end.", "a long condition ".repeat(100).trim_end());
    let text = format!("---\nuser_story: US-001\n---\n{criterion}\nAnd a second line.\n");
    testing.write_item("AC-001", text).await;
    let line = format!("- AC-001 (Open): {criterion}\n    And a second line.");
    for (tool, arguments) in [
        ("get_item", json!({ "reference": "US-001" })),
        ("epic_hierarchy", json!({ "epic": "EP-001" })),
    ] {
        let text = testing.text(tool, arguments).await;
        assert!(text.contains(&line), "{tool}: {text}");
    }
    let story = testing.read("user-story://US-001").await.unwrap();
    let story: Value = serde_json::from_str(&story.text).unwrap();
    let text = story["acceptance_criteria"][0]["description"].as_str().unwrap();
    assert!(text.starts_with(&criterion));
}

#[tokio::test]
async fn item_text_has_all_values() {
    let testing = TestApplication::new();
    let text = "---\ntitle: Pay\nstatus: Active\npriority: 2\ntype_name: Data\n\
                user_story: US-001\nassignee_username: ann\ncreator_username: bob\n\
                tags: [pay, eu]\ncreated_at: 2026-01-01\nupdated_at: 2026-02-01\n\
                depends_on: [REQ-002, REQ-009]\n---\nBody.\n";
    testing.write_item("REQ-001", text).await;
    testing.write_item("REQ-002", "---\ntitle: Card\nstatus: Draft\ntags: [a]\n---\n").await;
    let answer = testing.call("get_item", json!({ "reference": "REQ-001" })).await.unwrap();
    let version = answer.data["item"]["version"].as_str().unwrap();
    let expected = format!(
        "REQ-001: Pay (version {})\nStatus: Active, Priority: 2 High, Type: Data, User story: \
         US-001, Assignee: ann, Tags: pay, eu, Creator: bob, Created: 2026-01-01T00:00:00Z, \
         Updated: 2026-02-01T00:00:00Z\nBody.\n- depends_on REQ-002 (Draft): Card [a]\n\
         - depends_on REQ-009: (missing)",
        &version[..8]
    );
    assert_eq!(answer.text, expected);
}

// S2: 1.3, 1.6, 1.8, 3.3
#[tokio::test]
async fn story_requirements_are_newest_first_with_a_note_of_updates() {
    let testing = TestApplication::new();
    testing.write_item("US-001", "---\ntitle: Pay\n---\n").await;
    for (number, priority, day) in [(1, 2, 1), (2, 2, 2), (3, 1, 1), (4, 2, 2)] {
        let text = format!(
            "---\ntitle: T\npriority: {priority}\nuser_story: US-001\n\
             created_at: 2026-01-0{day}\nupdated_at: 2026-02-0{number}\n---\n"
        );
        testing.write_item(&format!("REQ-00{number}"), text).await;
    }
    let arguments = json!({ "user_story": "US-001" });
    let answer = testing.call("get_user_story_requirements", arguments).await.unwrap();
    let order = ["REQ-003", "REQ-004", "REQ-002", "REQ-001"];
    assert_eq!(references(&answer.data["requirements"]), order);
    let note = "\n\nNote: updated REQ-003 2026-02-03T00:00:00Z, REQ-004 2026-02-04T00:00:00Z, \
                REQ-002 2026-02-02T00:00:00Z, REQ-001 2026-02-01T00:00:00Z";
    assert!(answer.text.ends_with(note), "{}", answer.text);
    // Other tools list the oldest first.
    let children = testing.data("get_item", json!({ "reference": "US-001" })).await;
    let order = ["REQ-003", "REQ-001", "REQ-002", "REQ-004"];
    assert_eq!(references(&children["children"]), order);
}

#[tokio::test]
async fn conflict_shows_a_long_text_in_part() {
    let testing = project().await;
    let body = "A sentence of the description. ".repeat(1_000);
    let change = json!({ "epic": "EP-001", "description": body });
    testing.data("update_epic", change).await;
    let stale = json!({ "epic": "EP-001", "title": "New", "if_version": "00000000" });
    let message = testing.error("update_epic", stale).await.message;
    assert!(message.len() < 7_600, "{}", message.len());
    assert!(message.contains("description.\n\nNote: the text is cut; get_item with max_tokens: "));
}
