//! `get_context` on the memory store.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use serde_json::{Value, json};

use crate::test_support::TestApplication;

const TOOL: &str = "get_context";

async fn shop() -> TestApplication {
    let testing = TestApplication::new();
    for (name, keys, text) in [
        ("EP-001", "title: Checkout\n", "Everything about paying."),
        ("US-001", "title: Pay as a guest\nepic: EP-001\n", "A guest pays without an account."),
        ("US-002", "title: Ship\nepic: EP-001\n", "Parcels leave the house."),
        ("REQ-001", "title: Ask for an address\nuser_story: US-001\nstatus: Active\n", "Once."),
        (
            "REQ-002",
            "title: Wait for the carrier\nuser_story: US-001\ndepends_on: [REQ-003]\n",
            "The carrier decides.",
        ),
        ("REQ-003", "title: Choose a carrier\nuser_story: US-002\n", "By weight."),
        ("REQ-004", "title: Old way\nuser_story: US-001\nstatus: Obsolete\n", "By fax."),
    ] {
        testing.write_item(name, format!("---\n{keys}---\n{text}\n")).await;
    }
    let text = "---\nuser_story: US-001\n---\nGiven a cart, when a guest pays, then it ships.\n";
    testing.write_item("AC-001", text).await;
    for (name, keys, text) in [
        ("decisions/dec-aaaaaa", "status: accepted\naffects: [US-001]", "Guests have no account."),
        (
            "decisions/dec-bbbbbb",
            "status: accepted\nsupersedes: [dec-cccccc]\naffects: [REQ-001]",
            "Addresses are checked.",
        ),
        ("decisions/dec-cccccc", "status: accepted\naffects: [US-001]", "Addresses are guessed."),
    ] {
        let id = name.rsplit('/').next().unwrap();
        let text = format!("---\nid: {id}\ntype: decision\ntitle: T {id}\n{keys}\n---\n{text}\n");
        testing.write_entity(name, text).await;
    }
    let rules =
        "# General\n\n**1.** Every page SHALL load fast.\n\n**2.** Errors SHALL name help.\n";
    testing.write(DocumentId::section("general"), rules).await;
    testing
}

fn ids(data: &Value) -> Vec<&str> {
    let entries = data["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["id"].as_str().unwrap()).collect()
}

fn find<'a>(data: &'a Value, id: &str) -> &'a Value {
    let mut entries = data["entries"].as_array().unwrap().iter();
    entries.find(|entry| entry["id"] == id).unwrap()
}

#[tokio::test]
async fn context_of_a_story_has_everything_around_it() {
    let testing = shop().await;
    let answer = testing.call(TOOL, json!({ "items": ["us-1"] })).await.unwrap();
    let expected = [
        "US-001",
        "US-002",
        "EP-001",
        "REQ-001",
        "REQ-002",
        "AC-001",
        "dec-aaaaaa",
        "REQ-003",
        "dec-bbbbbb",
        "dec-cccccc",
        "REQ-004",
    ];
    let mut found = ids(&answer.data);
    found.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(found, sorted, "{}", answer.text);
    let data = &*answer.data;
    assert_eq!(data["omitted"], json!({}));
    assert_eq!(data["uncertain"], false);
    assert_eq!(find(data, "US-001")["reason"], "named");
    assert_eq!(find(data, "EP-001")["reason"], "parent");
    assert_eq!(find(data, "AC-001")["reason"], "criterion");
    assert_eq!(find(data, "REQ-001")["relation"], "in US-001");
    assert_eq!(find(data, "REQ-003")["relation"], "needed by REQ-002");
    assert_eq!(find(data, "US-002")["relation"], "needed by US-001");
    assert_eq!(find(data, "dec-aaaaaa")["relation"], "affects US-001");
    assert_eq!(find(data, "dec-bbbbbb")["text"], "Addresses are checked.");
    assert!(find(data, "REQ-002")["version"].as_str().unwrap().len() == 16);
    // The ended ones are last and marked.
    let last = answer.text.split("## No longer valid\n").nth(1).unwrap();
    let lines: Vec<&str> = last.lines().collect();
    assert_eq!(lines[0], "REQ-004 (in US-001; requirement, Obsolete): Old way …");
    assert!(lines[1].starts_with("dec-cccccc (affects US-001; decision, accepted, superseded by"));
    let again = testing.text(TOOL, json!({ "items": ["US-001"] })).await;
    assert_eq!(again, answer.text);
}

#[tokio::test]
async fn context_of_an_item_has_the_successor_of_a_decision() {
    let testing = shop().await;
    let text = "---\nid: dec-dddddd\ntype: decision\ntitle: New\nstatus: accepted\nsupersedes: \
                [dec-aaaaaa]\n---\nGuests have an account.\n";
    testing.write_entity("decisions/dec-dddddd", text.to_owned()).await;
    let answer = testing.call(TOOL, json!({ "items": ["US-001"] })).await.unwrap();
    assert_eq!(find(&answer.data, "dec-dddddd")["relation"], "supersedes dec-aaaaaa");
    assert_eq!(find(&answer.data, "dec-aaaaaa")["stale"], "superseded by dec-dddddd");
    let position = |id: &str| ids(&answer.data).iter().position(|one| *one == id);
    assert!(position("dec-dddddd") < position("dec-aaaaaa"), "{}", answer.text);
}

#[tokio::test]
async fn context_shows_who_holds_a_story() {
    let testing = shop().await;
    let claimed = testing.data("claim_item", json!({ "id": "US-001" })).await;
    let until = claimed["until"].as_str().unwrap();
    for items in [["US-001"], ["EP-001"], ["REQ-001"]] {
        let answer = testing.call(TOOL, json!({ "items": items })).await.unwrap();
        assert_eq!(find(&answer.data, "US-001")["claim"]["until"], until, "{items:?}");
        let text = format!("; claimed by tester until {until}");
        assert_eq!(answer.text.matches(&text).count(), 1, "{}", answer.text);
    }
}

#[tokio::test]
async fn context_of_a_task_finds_texts_and_leaves_out_ended_ones() {
    let testing = shop().await;
    let data = testing.data(TOOL, json!({ "task": "addresses" })).await;
    assert!(ids(&data).contains(&"dec-bbbbbb"), "{data}");
    assert!(!ids(&data).contains(&"dec-cccccc"), "{data}");
    assert_eq!(find(&data, "dec-bbbbbb")["reason"], "words");
    // A named one is marked.
    let data = testing.data(TOOL, json!({ "task": "addresses of dec-cccccc" })).await;
    assert_eq!(find(&data, "dec-cccccc")["stale"], "superseded by dec-bbbbbb");
    let arguments = json!({ "task": "addresses", "items": ["dec-cccccc"] });
    let data = testing.data(TOOL, arguments).await;
    assert_eq!(ids(&data)[0], "dec-cccccc");
    assert_eq!(find(&data, "dec-cccccc")["superseded_by"], "dec-bbbbbb");
}

#[tokio::test]
async fn context_never_has_an_ended_record_above_a_valid_one() {
    let statuses = ["accepted", "superseded", "Rejected", "open", "DEPRECATED", "proposed"];
    for seed in 0..6_usize {
        let testing = TestApplication::new();
        testing.write_item("US-001", "---\ntitle: Storage\n---\nStorage backend.\n").await;
        let mut ended = Vec::new();
        for number in 0..24_usize {
            let id = format!("dec-{number:06}");
            let status = statuses[(number * (seed + 3) + number * number / 3) % statuses.len()];
            let keys = format!("id: {id}\ntype: decision\ntitle: Storage\nstatus: {status}");
            let text = format!("---\n{keys}\naffects: [US-001]\n---\nStorage backend.\n");
            testing.write_entity(&format!("decisions/{id}"), text).await;
            if ["superseded", "Rejected", "DEPRECATED"].contains(&status) {
                ended.push(id);
            }
        }
        for max_tokens in [200, 400, 3_000] {
            for (task, items) in
                [(None, &["US-001"][..]), (Some("storage"), &[]), (Some("storage"), &["US-001"])]
            {
                let arguments = json!({ "task": task, "items": items, "max_tokens": max_tokens });
                let data = testing.data(TOOL, arguments).await;
                let is_ended = |id: &&str| ended.iter().any(|one| one == id);
                let (valid, last): (Vec<&str>, Vec<&str>) =
                    ids(&data).into_iter().partition(|id| !is_ended(id));
                assert_eq!(ids(&data), [&valid[..], &last].concat(), "{data}");
                assert!(last.iter().all(|id| find(&data, id)["stale"].is_string()), "{data}");
                let is_whole = max_tokens == 3_000 && !items.is_empty();
                assert!(!is_whole || last.len() == ended.len(), "{data}");
            }
        }
    }
}

#[tokio::test]
async fn context_of_an_unknown_subject_is_uncertain() {
    let testing = shop().await;
    let data = testing.data(TOOL, json!({ "task": "quokka" })).await;
    assert_eq!((&data["uncertain"], &data["entries"]), (&json!(true), &json!([])));
    let named = json!({ "items": ["EP-001"], "task": "quokka" });
    for certain in [named, json!({ "files": ["src/quokka.rs"] })] {
        let data = testing.data(TOOL, certain).await;
        assert_eq!(data["uncertain"], false);
    }
    let error = testing.error(TOOL, json!({ "task": " " })).await;
    assert_eq!(error.field.as_deref(), Some("task"));
    let text = TestApplication::new().text(TOOL, json!({ "task": "pay" })).await;
    assert!(text.contains("Note: This project has no"), "{text}");
}

#[tokio::test]
async fn context_of_changed_files_uses_the_words_of_their_paths() {
    let testing = shop().await;
    let data = testing.data(TOOL, json!({ "files": ["src/carrier/wait.rs"] })).await;
    assert_eq!(ids(&data), ["REQ-002", "REQ-003"]);
}

#[tokio::test]
async fn context_has_the_rules_that_always_hold() {
    let testing = shop().await;
    let schema = "[context]\nalways = [\"missing\", \"general\"]\n";
    testing.write(DocumentId::schema(), schema).await;
    let answer = testing.call(TOOL, json!({ "task": "carrier" })).await.unwrap();
    let data = &*answer.data;
    assert_eq!(ids(data), ["general:1", "general:2", "REQ-002", "REQ-003"]);
    assert_eq!(find(data, "general:1")["reason"], "rule");
    assert_eq!(find(data, "general:1")["title"], "Every page SHALL load fast.");
    assert!(answer.text.contains("## Rules (rule)\ngeneral:1: Every page SHALL load fast.\n"));
    let note = "Note: [context] always: section \"missing\" does not exist.";
    assert!(answer.text.ends_with(note), "{}", answer.text);
    let finding = "[context] always: section \"missing\" does not exist";
    assert!(testing.check().await.iter().any(|found| found.ends_with(finding)));
    let data = testing.data(TOOL, json!({ "task": "carrier", "kinds": ["requirements"] })).await;
    assert_eq!(ids(&data), ["REQ-002", "REQ-003"]);
    // Found rules are titled by their text.
    testing.write(DocumentId::schema(), "").await;
    let data = testing.data(TOOL, json!({ "task": "fast" })).await;
    assert_eq!(find(&data, "general:1")["title"], "Every page SHALL load fast.");
    let data = testing.data(TOOL, json!({ "items": ["general:2"] })).await;
    assert_eq!(find(&data, "general:2")["text"], "Errors SHALL name help.");
}

#[tokio::test]
async fn context_stays_within_max_tokens() {
    let testing = shop().await;
    let long = "支付需要确认。It is paid. ".repeat(4_000);
    testing.write_item("REQ-005", format!("---\ntitle: Long\n---\n{long}")).await;
    for tokens in [200, 300, 1_000, 20_000] {
        let arguments =
            json!({ "task": "paid guest", "items": ["REQ-005", "EP-001"], "max_tokens": tokens });
        let answer = testing.call(TOOL, arguments).await.unwrap();
        assert!(answer.text.len() <= tokens * 4, "{tokens}: {}", answer.text.len());
        let data = &*answer.data;
        assert_eq!(ids(data)[0], "REQ-005");
        let text = find(data, "REQ-005")["text"].as_str().unwrap();
        assert!(long.starts_with(text) && text.ends_with(['.', '。']), "{text}");
        assert!(data["cut"][0].as_str().unwrap().starts_with("REQ-005: the first "));
    }
}

// A text that was shown in part is not a reason to refuse a write.
#[tokio::test]
async fn context_shows_cut_texts_as_cut() {
    let testing = shop().await;
    let long = "It is paid. ".repeat(1_000);
    testing.write_item("REQ-005", format!("---\ntitle: Long\n---\n{long}")).await;
    let application = testing.application();
    let arguments = json!({ "items": ["REQ-005"], "max_tokens": 200 });
    testing.call_on(&application, TOOL, arguments).await.unwrap();
    let change = json!({ "reference": "REQ-005", "description": "Short." });
    testing.call_on(&application, "update_requirement", change).await.unwrap();
}

#[tokio::test]
async fn context_arguments_are_validated() {
    let testing = shop().await;
    let many = vec!["EP-001"; 51];
    for (arguments, field, kind) in [
        (json!({}), "task", ErrorKind::InvalidArgument),
        (json!({ "kinds": ["epic"] }), "task", ErrorKind::InvalidArgument),
        (json!({ "items": many }), "items", ErrorKind::InvalidArgument),
        (json!({ "items": ["EP-009"] }), "items", ErrorKind::NotFound),
        (json!({ "task": "x", "kinds": ["car"] }), "kinds", ErrorKind::InvalidArgument),
        (json!({ "task": "x", "max_tokens": 100 }), "max_tokens", ErrorKind::InvalidArgument),
        (json!({ "task": "x", "max_tokens": 20_001 }), "max_tokens", ErrorKind::InvalidArgument),
    ] {
        let error = testing.error(TOOL, arguments).await;
        assert_eq!((error.field.as_deref(), error.kind), (Some(field), kind), "{error}");
    }
}
