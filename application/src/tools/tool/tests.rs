//! Tests of lenient input: published schemas are strict, decoding accepts what is clear.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use serde_json::{Value, json};

use crate::test_support::{TestApplication, item_id, references};

async fn backlog() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: Accounts\n---\n").await;
    testing.write_item("US-001", "---\ntitle: Log in\nepic: EP-001\n---\n").await;
    testing.write_item("REQ-001", "---\ntitle: Lock\nuser_story: US-001\npriority: 2\n---\n").await;
    testing
}

#[tokio::test]
async fn null_for_an_optional_argument_means_not_given() {
    let testing = backlog().await;
    let arguments = json!({
        "requirement": "REQ-001", "title": "Bolt", "tags": null, "status": null, "if_version": null
    });
    testing.call("update_requirement", arguments).await.unwrap();
    let body = testing.body(item_id("REQ-001")).await.unwrap();
    assert!(body.contains("title: Bolt") && body.contains("priority: 2"), "{body}");
    let error = testing.error("update_requirement", json!({ "requirement": null })).await;
    assert!(error.message.contains("requirement: required, and missing"), "{error}");
}

#[tokio::test]
async fn boolean_as_text_is_accepted() {
    let testing = backlog().await;
    let changes = json!([{ "update": "REQ-001", "title": "Bolt" }]);
    let dry_run = json!({ "changes": changes, "dry_run": "True" });
    assert_eq!(testing.data("apply_changes", dry_run).await["dry_run"], json!(true));
    let arguments = json!({ "reference": "REQ-001", "cascade": "yes" });
    let error = testing.error("delete_item", arguments).await;
    assert!(error.message.contains("cascade: send true or false"), "{error}");
    let arguments = json!({ "reference": "EP-001", "cascade": "true" });
    testing.call("delete_item", arguments).await.unwrap();
}

#[tokio::test]
async fn clear_values_in_other_forms_are_stored_in_the_strict_one() {
    let testing = backlog().await;
    for (field, given, stored) in [
        ("priority", json!("high"), json!(2)),
        ("priority", json!("2"), json!(2)),
        ("priority", json!("2 High"), json!(2)),
        ("priority", json!(2.0), json!(2)),
        ("type", json!("functional"), json!("Functional")),
        ("type", json!("non_functional"), json!("Non-Functional")),
        ("type", json!("BUSINESS RULE"), json!("Business Rule")),
        ("type", json!("NFR"), json!("Non-Functional")),
        ("status", json!("active"), json!("Active")),
        ("title", json!(2024), json!("2024")),
        ("user_story", json!("us-1"), json!("US-001")),
        ("user_story", json!("US-0001"), json!("US-001")),
    ] {
        let mut arguments =
            json!({ "user_story": "US-001", "title": "x", "priority": 1, "type": "Data" });
        arguments[field] = given.clone();
        let record = testing.data("create_requirement", arguments).await;
        let key = if field == "type" { "type_name" } else { field };
        let expected = if field == "priority" { json!(2) } else { stored };
        assert_eq!(record[key], expected, "{field} {given}");
    }
    let update = json!({ "user_story": "us-001", "status": "in_progress" });
    assert_eq!(testing.data("update_user_story", update).await["status"], "In Progress");
    let relationship = json!({ "source": "req-1", "target": "Req-002", "type": "Depends On" });
    testing.call("create_relationship", relationship).await.unwrap();
}

#[tokio::test]
async fn unclear_values_are_errors_that_list_the_accepted_ones() {
    let testing = backlog().await;
    for (arguments, message) in [
        (json!({ "priority": "urgent" }), "is not one of 1 Critical, 2 High, 3 Medium, 4 Low"),
        (json!({ "priority": "1 Low" }), "\"1 Low\" is not one of 1 Critical"),
        (json!({ "priority": 5 }), "5 is not one of 1 Critical"),
        (json!({ "type": "fast" }), "\"fast\" is not one of Functional, Non-Functional"),
        (json!({ "user_story": "US 1" }), "Invalid user story reference ID format"),
        (json!({ "limit": 0 }), "0 is not a whole number from 1 to 100"),
        (json!({ "limit": "many" }), "\"many\" is not a whole number"),
    ] {
        let error = testing.error("search_requirements", arguments).await;
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.message.contains(message), "{error}");
    }
}

// S2: 1.5, 2.2
#[tokio::test]
async fn story_requirements_accept_only_the_exact_reference() {
    let testing = backlog().await;
    for (given, is_accepted) in
        [("US-1", true), ("US-001", true), ("us-001", false), (" US-1", false)]
    {
        let answer =
            testing.call("get_user_story_requirements", json!({ "user_story": given })).await;
        assert_eq!(answer.is_ok(), is_accepted, "{given}");
    }
}

#[tokio::test]
async fn if_version_of_8_digits_is_compared_by_prefix() {
    let testing = backlog().await;
    let version = testing.data("get_item", json!({ "reference": "REQ-001" })).await;
    let version = version["item"]["version"].as_str().unwrap().to_owned();
    let update = |title: &str, version: &str| json!({ "requirement": "REQ-001", "title": title, "if_version": version });
    let stale = testing.error("update_requirement", update("a", "00000000")).await;
    assert_eq!(stale.kind, ErrorKind::Conflict);
    assert!(stale.message.contains("changed since version 00000000;"), "{stale}");
    let short = testing.error("update_requirement", update("a", &version[..7])).await;
    assert_eq!(short.field.as_deref(), Some("if_version"));
    testing.call("update_requirement", update("a", &version[..8].to_uppercase())).await.unwrap();
}

#[tokio::test]
async fn section_arguments_accept_numbers_and_short_versions() {
    let testing = TestApplication::new();
    let set = json!({ "section": "general", "index": 2.1, "text": "One." });
    let version = testing.data("reqlix_set_requirements", set).await;
    assert_eq!(version["index"], "2.1");
    let prefix = &version["version"].as_str().unwrap()[..8];
    let set = json!({ "section": "general", "index": 3, "text": "Two.", "if_version": prefix });
    assert_eq!(testing.data("reqlix_set_requirements", set.clone()).await["index"], "3");
    assert_eq!(testing.error("reqlix_set_requirements", set).await.kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn project_root_default_or_dot_is_the_root_of_the_server() {
    let testing = TestApplication::new();
    for root in ["default", "."] {
        let arguments = json!({ "project_root": root, "section": "a", "index": "1", "text": "x" });
        let data = testing.data("reqlix_set_requirements", arguments).await;
        assert_eq!(data["project"], "default");
    }
}

#[tokio::test]
async fn limit_above_the_maximum_is_cut_and_the_answer_says_so() {
    let testing = backlog().await;
    for (tool, arguments) in [
        ("list_epics", json!({ "limit": 500 })),
        ("search_requirements", json!({ "limit": "500" })),
        ("search_global", json!({ "query": "lock", "limit": 1e9 })),
        ("ixchel_search", json!({ "query": "lock", "limit": 101 })),
    ] {
        let answer = testing.call(tool, arguments.clone()).await.unwrap();
        let notes = answer.data["notes"].as_array().unwrap();
        let note = notes.last().unwrap().as_str().unwrap();
        let words = "is above the maximum; 100 was used.";
        assert!(note.starts_with("limit: ") && note.ends_with(words), "{tool}: {note}");
        assert!(answer.text.contains("is above the maximum"), "{tool}: {answer:?}");
    }
    let answer = testing.call("list_epics", json!({ "limit": "1" })).await.unwrap();
    assert_eq!(answer.data.get("notes"), None);
    assert!(!answer.text.contains("Note: "), "{answer:?}");
}

#[tokio::test]
async fn unknown_argument_is_a_warning_for_reading_tools() {
    let testing = backlog().await;
    let arguments = json!({ "statsu": "Done", "x": 1 });
    let answer = testing.call("list_epics", arguments).await.unwrap();
    assert_eq!(references(&answer.data["epics"]), ["EP-001"]);
    let notes = [
        "statsu: unknown argument, did you mean status? list_epics takes status, show, limit, \
         cursor, max_tokens. It was ignored.",
        "x: unknown argument; list_epics takes status, show, limit, cursor, max_tokens. It was \
         ignored.",
    ];
    let in_text = format!("\n\nNote: {}\nNote: {}", notes[0], notes[1]);
    assert!(answer.text.ends_with(&in_text), "{}", answer.text);
    assert_eq!(answer.data["notes"], json!(notes));
    // A required argument under another name is missing, so the call fails.
    let error = testing.error("get_item", json!({ "referense": "REQ-001" })).await;
    assert!(error.message.contains("referense: unknown argument, did you mean reference?"));
}

#[tokio::test]
async fn unknown_argument_is_an_error_for_writing_tools() {
    let testing = backlog().await;
    for (name, suggestion) in [
        ("descripton", ", did you mean description?"),
        ("story", ", did you mean user_story?"),
        ("zzz", "; create_requirement takes"),
    ] {
        let mut arguments =
            json!({ "user_story": "US-001", "title": "x", "priority": 1, "type": "Data" });
        arguments[name] = Value::from("y");
        let error = testing.error("create_requirement", arguments).await;
        assert_eq!(error.field.as_deref(), Some(name));
        let expected = format!("{name}: unknown argument{suggestion}");
        assert!(error.message.contains(&expected), "{error}");
    }
    assert_eq!(testing.body(item_id("REQ-002")).await, None);
}

#[tokio::test]
async fn argument_names_in_errors_are_at_most_100_characters() {
    let testing = backlog().await;
    let long = "n".repeat(5_000);
    let error = testing.error("create_epic", json!({ long.clone(): 1, "title": long })).await;
    assert!(error.message.len() < 700, "{}", error.message);
    let error = testing.error("get_item", json!({ "reference": long })).await;
    assert!(error.message.len() < 400, "{}", error.message);
}

/// The notes of an empty answer, which its text has as well.
async fn notes_of(testing: &TestApplication, tool: &str, arguments: Value) -> String {
    let answer = testing.call(tool, arguments).await.unwrap();
    let notes = answer.data["notes"].as_array().unwrap_or_else(|| panic!("{tool}: {answer:?}"));
    let notes: Vec<&str> = notes.iter().map(|note| note.as_str().unwrap()).collect();
    for note in &notes {
        assert!(answer.text.contains(note.split('"').next().unwrap()), "{tool}: {answer:?}");
    }
    notes.join(" ")
}

#[tokio::test]
async fn unknown_kind_is_an_error_that_lists_the_kinds() {
    let testing = TestApplication::new();
    testing.write_entity("decisions/dec-aaaaaa", "---\ntags: [a]\n---\n# Files\n").await;
    for (tool, mut arguments) in
        [("ixchel_tags", json!({})), ("ixchel_search", json!({ "query": "files" }))]
    {
        for kind in ["decision", "decisions", "dec"] {
            arguments["kind"] = json!(kind);
            assert_eq!(testing.data(tool, arguments.clone()).await["total"], 1, "{tool} {kind}");
        }
        arguments["kind"] = json!("adr");
        let error = testing.error(tool, arguments).await;
        assert_eq!(error.field.as_deref(), Some("kind"));
        assert!(error.message.contains("use one of agent, citation, decision"), "{error}");
    }
}

const NO_IXCHEL: &str = "This project has no entities yet: neither /project nor a folder above it";

#[tokio::test]
async fn empty_answer_says_that_nothing_is_stored() {
    let testing = TestApplication::new();
    for (tool, arguments, reason) in [
        ("list_epics", json!({ "status": "Done" }), "This project has no epics yet."),
        ("search_requirements", json!({}), "This project has no backlog requirements yet."),
        ("search_global", json!({ "query": "x" }), "This project has no texts yet."),
        ("reqlix_get_requirements", json!({ "section": "a" }), "This project has no sections yet."),
        ("ixchel_tags", json!({}), NO_IXCHEL),
        ("ixchel_tags", json!({ "untagged": true }), NO_IXCHEL),
        ("ixchel_search", json!({ "query": "x" }), NO_IXCHEL),
        ("ixchel_sync", json!({}), NO_IXCHEL),
    ] {
        let note = notes_of(&testing, tool, arguments).await;
        assert!(note.starts_with(reason), "{tool}: {note}");
    }
}

#[tokio::test]
async fn empty_answer_says_that_a_filter_excludes_everything() {
    let testing = backlog().await;
    testing.write(DocumentId::section("general"), "**1.** One.\n").await;
    testing.write_entity("decisions/dec-aaaaaa", "# Files\n").await;
    for (tool, arguments, reason) in [
        (
            "list_epics",
            json!({ "status": "Done" }),
            "No epic has this status; the total of all statuses is 1.",
        ),
        ("search_requirements", json!({ "priority": 4 }), "No requirement matches these filters."),
        ("reqlix_get_requirements", json!({ "section": "a" }), "the sections are: general"),
        ("ixchel_tags", json!({}), "No entity has a tag."),
    ] {
        let note = notes_of(&testing, tool, arguments).await;
        assert!(note.contains(reason), "{tool}: {note}");
    }
}

#[tokio::test]
async fn empty_answer_of_a_database_names_files_to_import() {
    let editor = backlog().await;
    editor.write_entity("decisions/dec-aaaaaa", "# Files\n").await;
    let testing = TestApplication { tree: Some(editor.store), ..TestApplication::new() };
    for (tool, arguments, command) in [
        ("list_epics", json!({}), "has 1 file that the database has not imported; `reqlore copy`"),
        ("ixchel_tags", json!({}), "ixchel_sync imports"),
        ("ixchel_search", json!({ "query": "x" }), "ixchel_sync imports"),
        ("search_global", json!({ "query": "x" }), "has 4 files that the database"),
    ] {
        let note = notes_of(&testing, tool, arguments).await;
        assert!(note.contains(command), "{tool}: {note}");
    }
}

#[tokio::test]
async fn files_left_after_an_import_are_not_read_again() {
    let (editor, database) = (backlog().await, backlog().await);
    editor.write_entity("decisions/dec-aaaaaa", "# Files\n").await;
    editor.write(DocumentId::section("general"), "**1.** One.\n").await;
    let testing = TestApplication { tree: Some(editor.store), ..database };
    let note = notes_of(&testing, "search_global", json!({ "query": "x" })).await;
    assert!(note.contains("has 1 file that the database has not imported"), "{note}");
}

// S4: AC-002.3, AC-002.4, AC-002.5
#[tokio::test]
async fn every_reader_names_entities_a_database_has_not_imported() {
    let editor = TestApplication::new();
    let new = "---\nid: dec-aaaaaa\ntitle: New\ntags: [x]\n---\n";
    editor.write_entity("decisions/dec-aaaaaa", new).await;
    for is_empty in [true, false] {
        let testing =
            TestApplication { tree: Some(editor.store.clone()), ..TestApplication::new() };
        if !is_empty {
            let old = "---\nid: dec-bbbbbb\ntitle: Old\ntags: [y]\n---\n";
            testing.write_entity("decisions/dec-bbbbbb", old).await;
        }
        for (tool, arguments) in [
            ("ixchel_search", json!({ "query": "old new" })),
            ("ixchel_tags", json!({})),
            ("list_items", json!({ "kind": "decision", "status": "accepted" })),
        ] {
            let note = notes_of(&testing, tool, arguments).await;
            assert!(note.contains("has 1 file that the database has not imported"), "{note}");
        }
        for id in
            ["dec-aaaaaa", "DEC-AAAAAA", "decisions/dec-aaaaaa", ".ixchel/decisions/dec-aaaaaa.md"]
        {
            for tool in ["ixchel_show", "ixchel_graph", "ixchel_context", "get_item"] {
                let argument = if tool == "get_item" { "reference" } else { "id" };
                let error = testing.error(tool, json!({ argument: id })).await;
                let expected = "The database has not imported .ixchel/decisions/dec-aaaaaa.md; \
                                ixchel_sync imports it.";
                assert!(error.message.ends_with(expected), "{tool} {id}: {error}");
            }
        }
        let error = testing.error("ixchel_graph", json!({ "id": "dec-cccccc" })).await;
        assert_eq!(
            error.message.contains("This project has no entities yet: "),
            is_empty,
            "{error}"
        );
    }
}

#[tokio::test]
async fn single_requirement_of_a_story_is_counted_in_the_singular() {
    let testing = backlog().await;
    let text = testing.text("get_user_story_requirements", json!({ "user_story": "US-1" })).await;
    assert!(text.starts_with("Found 1 requirement for user story US-001:"), "{text}");
}
