//! Tests of arguments in the forms in which models send them.

use reqlore_domain::error::ErrorKind;
use reqlore_domain::ports::service::{ApplicationService, ToolSpec};
use serde_json::{Map, Value, json};

use crate::Application;
use crate::test_support::{TestApplication, item_id, references};

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_item("EP-001", "---\ntitle: Accounts\n---\n").await;
    testing.write_item("US-001", "---\ntitle: Log in\nepic: EP-001\n---\n").await;
    for name in ["REQ-001", "REQ-002"] {
        let text = format!("---\ntitle: Lock {name}\nuser_story: US-001\ntags: [a, b]\n---\n");
        testing.write_item(name, text).await;
    }
    testing.write_item("AC-001", "---\nuser_story: US-001\n---\nWhen locked\n").await;
    for (name, keys) in [
        ("decisions/dec-1111", "status: Accepted\n"),
        ("decisions/dec-2222", "status: accepted\n"),
        ("decisions/dec-3333", "status: proposed\n"),
        ("issues/iss-1111", "status: accepted\n"),
    ] {
        let id = &name[name.len() - 8..];
        testing.write_entity(name, format!("---\nid: {id}\n{keys}---\n# Lock {id}\n")).await;
    }
    testing
}

fn tool_specs(application: &Application, testing: &TestApplication) -> Vec<ToolSpec> {
    application.tools(&testing.caller()).into_iter().cloned().collect()
}

fn properties(schema: &Value) -> &Map<String, Value> {
    schema["properties"].as_object().unwrap()
}

/// Replaces each list and object at a level of `levels`, a bit set, by its JSON text.
fn as_json_text(value: &Value, levels: u8) -> Value {
    let nested = levels >> 1;
    let converted: Value = match value {
        Value::Array(items) => items.iter().map(|item| as_json_text(item, nested)).collect(),
        Value::Object(object) => {
            let entries = object.iter();
            entries.map(|(key, value)| (key.clone(), as_json_text(value, nested))).collect()
        }
        scalar => return scalar.clone(),
    };
    if levels & 1 == 1 { converted.to_string().into() } else { converted }
}

/// Calls of all tools that take a list or an object.
fn calls_with_lists() -> Vec<(&'static str, Value)> {
    let links = json!({ "affects": ["REQ-001"], "supersedes": ["dec-1111", "dec-2222"] });
    let text = r#"["text", {"of": "a document"}]"#;
    vec![
        ("create_epic", json!({ "title": text, "priority": 1, "tags": ["pay", "a, b"] })),
        (
            "create_user_story",
            json!({ "epic": "EP-001", "title": "x", "priority": 1, "tags": ["pay"] }),
        ),
        (
            "create_requirement",
            json!({
                "user_story": "US-001", "title": "{}", "description": text, "priority": 1,
                "type": "Data", "tags": []
            }),
        ),
        ("update_epic", json!({ "epic": "EP-001", "tags": ["pay"] })),
        ("update_user_story", json!({ "user_story": "US-001", "tags": ["pay"] })),
        ("update_requirement", json!({ "requirement": "REQ-001", "tags": ["pay"] })),
        ("list_items", json!({ "kind": "requirement", "tags": ["a"] })),
        ("list_epics", json!({ "show": ["title"] })),
        ("get_item", json!({ "reference": "REQ-001", "show": ["title"] })),
        ("epic_hierarchy", json!({ "epic": "EP-001", "show": ["title"] })),
        ("search_requirements", json!({ "query": "lock", "show": ["title", "status"] })),
        ("get_history", json!({ "reference": "REQ-001", "show": ["user"] })),
        ("ixchel_search", json!({ "query": "lock", "show": ["title"] })),
        ("ixchel_graph", json!({ "id": "dec-3333", "show": ["title"] })),
        ("ixchel_context", json!({ "id": "dec-3333", "show": ["title"] })),
        ("search_global", json!({ "query": "lock", "entity_types": ["epic", "decision"] })),
        (
            "search_docs",
            json!({ "docset": "react", "keywords": ["a, b"], "generalized_keywords": [] }),
        ),
        (
            "ixchel_create",
            json!({
                "kind": "decision", "title": "x", "body": text, "tags": ["pay"], "links": links
            }),
        ),
        ("ixchel_update", json!({ "id": "dec-3333", "tags": ["pay"], "links": links })),
        ("list_changes", json!({ "kinds": ["epic"] })),
        ("get_context", json!({ "items": ["REQ-001"], "kinds": ["rule"] })),
        ("suggest_records", json!({ "query": text, "kinds": ["epic"] })),
        (
            "apply_changes",
            json!({ "changes": [
                { "create": "story", "name": "s", "epic": "EP-001", "title": text, "priority": 2 },
                { "create": "decision", "title": "x", "body": text, "tags": ["a"], "links": links },
                { "update": "REQ-001", "tags": ["pay", "a, b"], "description": text },
                { "relate": { "source": "REQ-001", "target": "REQ-002", "type": "blocks" } },
            ] }),
        ),
    ]
}

#[tokio::test]
async fn json_text_has_the_result_of_the_list_or_object() {
    let calls = calls_with_lists();
    let testing = project().await;
    for spec in tool_specs(&testing.application(), &testing) {
        let schema = Value::Object(spec.input_schema);
        let has_list = properties(&schema)
            .values()
            .any(|property| property["type"] == "array" || property["type"] == "object");
        let is_called = calls.iter().any(|(tool, _)| *tool == spec.name);
        assert_eq!(has_list, is_called, "{}", spec.name);
    }
    for (tool, arguments) in calls {
        let outcome = project().await.call(tool, arguments.clone()).await;
        // No documentation is configured.
        assert!(outcome.is_ok() || tool == "search_docs", "{tool}: {outcome:?}");
        // The arguments themselves are an object.
        for levels in [2, 4, 8, 16, 10, 30] {
            let converted = as_json_text(&arguments, levels);
            let testing = project().await;
            let answer = testing.call(tool, converted.clone()).await;
            match (&answer, &outcome) {
                // Its token names the store, which is another one.
                (Ok(answer), Ok(expected)) if tool == "list_changes" => {
                    assert_eq!(answer.data["changes"], expected.data["changes"], "{converted}");
                }
                (Ok(answer), Ok(expected)) => {
                    assert_eq!(answer.text, expected.text, "{tool} {converted}");
                    assert_eq!(answer.data, expected.data, "{tool} {converted}");
                }
                (Err(error), Err(expected)) => assert_eq!(error.message, expected.message),
                _ => panic!("{tool} {converted}: {answer:?}"),
            }
        }
    }
}

#[tokio::test]
async fn text_that_contains_json_stays_a_text() {
    let testing = project().await;
    let text = r#"["a", "b"]"#;
    let update = json!({ "requirement": "REQ-001", "description": text, "title": text });
    let record = testing.data("update_requirement", update).await;
    assert_eq!((&record["description"], &record["title"]), (&json!(text), &json!(text)));
    let create = json!({ "create": "idea", "title": "x", "body": r#"{"a": 1}"# });
    testing.call("apply_changes", json!({ "changes": [create] })).await.unwrap();
    let search = testing.call("ixchel_search", json!({ "query": "[\"lock\"]" })).await;
    assert!(search.is_ok(), "{search:?}");
}

#[tokio::test]
async fn one_text_for_a_list_is_split_at_commas_except_for_keywords() {
    let testing = project().await;
    for (given, tags) in [
        (json!("pay, shop"), json!(["pay", "shop"])),
        (json!("pay"), json!(["pay"])),
        (json!(" pay,,shop, "), json!(["pay", "shop"])),
        (json!(2024), json!(["2024"])),
        (json!(["a, b"]), json!(["a, b"])),
        (json!(""), json!([])),
    ] {
        let update = json!({ "requirement": "REQ-001", "tags": given });
        assert_eq!(testing.data("update_requirement", update).await["tags"], tags, "{given}");
        let entry = json!({ "update": "REQ-002", "tags": given });
        testing.call("apply_changes", json!({ "changes": entry })).await.unwrap();
        let record = testing.data("get_item", json!({ "id": "REQ-002" })).await;
        assert_eq!(record["item"]["tags"], tags, "{given}");
    }
    let search = json!({ "query": "lock", "entity_types": "requirement, epic" });
    let results = testing.data("search_global", search).await["results"].clone();
    assert_eq!(references(&results), ["REQ-001", "REQ-002"]);
    let update = json!({ "id": "dec-1111", "links": { "affects": "REQ-001" } });
    testing.call("ixchel_update", update).await.unwrap();
    let decision = testing.text("ixchel_show", json!({ "id": "dec-1111" })).await;
    assert!(decision.contains("REQ-001"), "{decision}");
    for keywords in [json!("log in, session"), json!("session"), json!("[session]")] {
        let arguments =
            json!({ "docset": "react", "keywords": keywords, "generalized_keywords": [] });
        let error = testing.error("search_docs", arguments).await;
        let wanted = "keywords: send a list such as [\"session\", \"log in\"].";
        assert!(error.message.ends_with(wanted), "{error}");
    }
}

#[tokio::test]
async fn value_as_text_is_accepted_and_null_means_not_given() {
    let testing = project().await;
    let search = json!({
        "query": "lock", "limit": "2", "words_only": "true", "sections": "False", "kind": null
    });
    assert_eq!(testing.data("ixchel_search", search).await["hits"].as_array().unwrap().len(), 2);
    let entry = json!({ "update": "REQ-001", "priority": "1", "tags": null, "status": null });
    let arguments = json!({ "changes": [entry], "dry_run": "false" });
    testing.call("apply_changes", arguments).await.unwrap();
    let body = testing.body(item_id("REQ-001")).await.unwrap();
    assert!(body.contains("priority: 1") && body.contains("tags: [a, b]"), "{body}");
}

#[tokio::test]
async fn id_names_the_item_of_every_tool() {
    let testing = project().await;
    for (tool, id, fields) in [
        ("get_item", "REQ-001", json!({})),
        ("get_history", "REQ-001", json!({})),
        ("epic_hierarchy", "EP-001", json!({})),
        ("ixchel_show", "dec-1111", json!({})),
        ("ixchel_graph", "dec-1111", json!({})),
        ("ixchel_context", "dec-1111", json!({})),
        ("update_epic", "EP-001", json!({ "title": "x" })),
        ("update_user_story", "US-001", json!({ "title": "x" })),
        ("update_requirement", "REQ-001", json!({ "title": "x", "user_story": "US-001" })),
        ("update_acceptance_criteria", "AC-001", json!({ "description": "x" })),
        ("ixchel_update", "dec-1111", json!({ "title": "x" })),
        ("delete_item", "REQ-002", json!({})),
    ] {
        for name in ["id", "reference", "reference_id"] {
            let testing = testing.clone();
            let mut arguments = fields.clone();
            arguments[name] = json!(id);
            // A deleted item is not found again.
            if tool != "delete_item" || name == "id" {
                let answer = testing.call(tool, arguments).await;
                assert!(answer.is_ok(), "{tool} {name}: {answer:?}");
            }
        }
    }
    for (tool, arguments) in [
        // The parent of a new item is not the item of the call.
        ("create_user_story", json!({ "id": "EP-001", "title": "x", "priority": 1 })),
        ("delete_relationship", json!({ "id": "REQ-001", "target": "REQ-002", "type": "blocks" })),
        ("list_items", json!({ "id": "REQ-001" })),
    ] {
        let error = testing.error(tool, arguments).await;
        assert!(error.message.contains("id: unknown argument"), "{tool}: {error}");
    }
}

// S2: 1.5, 1.7, 2.2
#[tokio::test]
async fn story_requirements_accept_no_synonym() {
    let testing = project().await;
    for name in ["id", "reference", "story"] {
        let error = testing.error("get_user_story_requirements", json!({ name: "US-001" })).await;
        assert!(error.message.contains(&format!("{name}: unknown argument")), "{error}");
    }
}

#[tokio::test]
async fn synonym_beside_the_argument_is_an_error_that_names_both() {
    let testing = project().await;
    for (tool, arguments, message) in [
        (
            "get_item",
            json!({ "id": "REQ-001", "reference": "REQ-002" }),
            "id: it is another name of reference; send only reference",
        ),
        (
            "update_requirement",
            json!({ "id": "REQ-001", "requirement": "REQ-001", "title": "x" }),
            "id: it is another name of requirement; send only requirement",
        ),
        (
            "ixchel_create",
            json!({ "kind": "idea", "title": "x", "body": "a", "description": "b" }),
            "description: it is another name of body; send only body",
        ),
    ] {
        let error = testing.error(tool, arguments).await;
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.message.contains(message), "{error}");
    }
}

#[tokio::test]
async fn description_and_body_stand_for_each_other() {
    let testing = project().await;
    let update = json!({ "requirement": "REQ-001", "body": "Three attempts." });
    let record = testing.data("update_requirement", update).await;
    assert_eq!(record["description"], "Three attempts.");
    let changes = json!([
        { "create": "decision", "title": "Files", "description": "Because of Git." },
        { "create": "criterion", "user_story": "US-001", "body": "When typed." },
        { "create": "epics", "title": "Shop", "priority": "high", "description": null, "body": "x" },
    ]);
    testing.call("apply_changes", json!({ "changes": changes })).await.unwrap();
    let criterion = testing.data("get_item", json!({ "id": "AC-002" })).await;
    assert_eq!(criterion["item"]["description"], "When typed.");
    let hits = testing.data("ixchel_search", json!({ "query": "Git" })).await;
    assert_eq!(hits["hits"][0]["title"], "Files");
}

#[tokio::test]
async fn kinds_of_entities_select_them_in_search_global() {
    let testing = project().await;
    for (types, expected) in [
        (json!(["decision"]), vec!["dec-1111", "dec-2222", "dec-3333"]),
        (json!(["issues"]), vec!["iss-1111"]),
        (json!(["issue", "stories", "requirement"]), vec!["REQ-001", "REQ-002", "iss-1111"]),
        (json!("decision, knowledge"), vec!["dec-1111", "dec-2222", "dec-3333", "iss-1111"]),
        (json!(["idea"]), vec![]),
    ] {
        let arguments = json!({ "query": "lock", "entity_types": types });
        let data = testing.data("search_global", arguments).await;
        let mut found: Vec<String> = Vec::new();
        for result in data["results"].as_array().unwrap() {
            let id = result["reference_id"].as_str().unwrap();
            found.push(id.to_owned());
        }
        found.sort_unstable();
        assert_eq!(found, expected, "{types}");
    }
    let arguments = json!({ "query": "lock", "entity_types": ["adr"] });
    let error = testing.error("search_global", arguments).await;
    assert!(error.message.contains("\"adr\" is not one of epic, user_story"), "{error}");
}

#[tokio::test]
async fn status_selects_entities_in_any_case() {
    let testing = project().await;
    for (status, total) in [("accepted", 3), ("PROPOSED", 1), ("rejected", 0)] {
        let arguments = json!({ "query": "lock", "status": status });
        assert_eq!(testing.data("ixchel_search", arguments).await["total"], total, "{status}");
    }
    let arguments = json!({ "query": "lock", "status": "accepted", "kind": "issue" });
    assert_eq!(testing.data("ixchel_search", arguments).await["total"], 1);
}

#[tokio::test]
async fn error_says_the_wanted_form_in_words() {
    let testing = project().await;
    let links = json!({ "affects": [5], "x".repeat(500): true });
    for (tool, arguments, message) in [
        ("update_requirement", json!({ "tags": true }), "tags: send a list such as [\"pay\"]"),
        ("update_requirement", json!({ "tags": "['a']" }), "tags: send a list such as [\"pay\"]"),
        ("update_requirement", json!({ "tags": [["a"]] }), "tags[0]: send text"),
        ("update_requirement", json!({ "title": {} }), "title: send text"),
        ("update_requirement", json!({ "priority": [] }), "priority: send 1 Critical to 4 Low"),
        (
            "update_requirement",
            json!({ "status": ["Done"] }),
            "status: send one of Draft, Active, Obsolete",
        ),
        ("apply_changes", json!({ "dry_run": "maybe" }), "dry_run: send true or false"),
        ("list_epics", json!({ "limit": [] }), "limit: send a whole number from 1 to 100"),
        ("apply_changes", json!({ "changes": 5 }), "changes: send a list such as [{\"update\""),
        ("ixchel_create", json!({ "links": "REQ-001" }), "links: send an object such as {\"aff"),
        ("ixchel_create", json!({ "links": links }), "links.affects[0]: send text"),
        (
            "search_global",
            json!({ "entity_types": {} }),
            "entity_types: send a list of epic, user_story",
        ),
    ] {
        let error = testing.error(tool, arguments).await;
        assert!(error.message.contains(message), "{message}: {error}");
        assert!(error.message.len() < 700, "{error}");
    }
}

/// Words of parsers, which mean nothing to a model.
const PARSER_WORDS: [&str; 9] = [
    "expected",
    "sequence",
    "map",
    "struct",
    "variant",
    "unit",
    "newtype",
    "deserialize",
    "column",
];

fn assert_plain(message: &str, arguments: &Value) {
    assert!(!message.contains("invalid type") && !message.contains("missing field"), "{message}");
    for word in message.split(|letter: char| !letter.is_ascii_alphabetic()) {
        let word = word.to_ascii_lowercase();
        assert!(!PARSER_WORDS.contains(&&*word), "{arguments}: {message}");
    }
}

fn wrong_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("["),
        json!("{\"a\": 1}"),
        json!([]),
        json!([null]),
        json!([true]),
        json!([[1]]),
        json!([{}]),
        json!({}),
        json!({ "a": null }),
        json!({ "a": [null] }),
        json!({ "a": {} }),
    ]
}

#[tokio::test]
async fn errors_of_wrong_types_have_no_words_of_a_parser() {
    let testing = project().await;
    let application = testing.application();
    for spec in tool_specs(&application, &testing) {
        let schema = Value::Object(spec.input_schema.clone());
        for name in properties(&schema).keys() {
            for value in wrong_values() {
                let arguments = json!({ name: value });
                if let Err(error) =
                    testing.call_on(&application, spec.name, arguments.clone()).await
                {
                    assert_plain(&error.message, &arguments);
                }
            }
        }
        let entry = &schema["properties"]["changes"]["items"];
        if entry.is_null() {
            continue;
        }
        for name in properties(entry).keys() {
            for value in wrong_values() {
                for operation in [
                    json!({ "create": "requirement" }),
                    json!({ "create": "decision" }),
                    json!({ "update": "REQ-001" }),
                    json!({ "delete": "REQ-001" }),
                    json!({ "relate": { "source": value } }),
                ] {
                    let mut changed = operation;
                    changed[name] = value.clone();
                    let arguments = json!({ "changes": [changed], "dry_run": true });
                    if let Err(error) =
                        testing.call_on(&application, spec.name, arguments.clone()).await
                    {
                        assert_plain(&error.message, &arguments);
                    }
                }
            }
        }
    }
}
