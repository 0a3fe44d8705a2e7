//! Answers to models: one text block without data by default, and data that holds the whole text.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Value, json};

use crate::client::{ANSWERS_VARIABLE, Server, call, project, reqlore, text};
use crate::transcripts::transcripts_folder;

/// Words of a text that label its values.
const LABELS: &str = "\
    acceptance add added affected also answer applied are as be by can change changed changes \
    claimed created criteria critical currently decisions deleted document documents done ends \
    epic epics file first for found from high history hit hits idea in is issue it item items \
    later linked longer may medium mentioned missing names needed new newest no not note nothing \
    null of old or page parent pass problem query ready related relationship relationships \
    release removed renew requirement requirements rule same showing stop stories story \
    superseded the this to true too until updated user valid waiting was when which with words \
    written you";

/// The successful answers of all transcripts, which are the same on every storage, by their tool.
fn recorded_answers() -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    for entry in std::fs::read_dir(transcripts_folder()).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut tool = String::new();
        for line in source.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(name) = line["call"].as_str().or(line["send"]["params"]["name"].as_str()) {
                name.clone_into(&mut tool);
            }
            for key in ["expect", "files", "http"] {
                let result = &line[key]["result"];
                if result.get("structuredContent").is_some() {
                    answers.push((tool.clone(), result.clone()));
                }
            }
        }
    }
    answers.extend(answers_on_claims());
    answers
}

/// Answers that name the reach of a claim, which depends on the storage.
fn answers_on_claims() -> Vec<(String, Value)> {
    let project = project();
    let mut server = Server::start(project.path());
    let mut answers = Vec::new();
    for (tool, arguments) in [
        ("create_epic", json!({ "title": "Accounts", "priority": 1 })),
        ("create_user_story", json!({ "epic": "EP-001", "title": "Log in", "priority": 2 })),
        ("list_changes", json!({})),
        ("list_ready", json!({})),
        ("claim_item", json!({ "id": "US-001" })),
    ] {
        answers.push((tool.to_owned(), server.call(tool, arguments)["result"].clone()));
    }
    answers
}

/// The words of a text in lower case: letters, digits and what joins them in IDs and times.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        if !word.is_empty() {
            words.insert(word.to_lowercase());
        }
    }
    words
}

/// The words of all keys and values of the data, and of its JSON.
fn data_words(data: &Value) -> BTreeSet<String> {
    match data {
        Value::Null => BTreeSet::from(["none".to_owned()]),
        Value::String(text) => words(text),
        Value::Array(items) => {
            let mut all = words(&items.len().to_string());
            for item in items {
                all.extend(data_words(item));
            }
            all
        }
        Value::Object(object) => {
            let mut all = BTreeSet::new();
            for (key, value) in object {
                all.extend(words(key));
                all.extend(data_words(value));
            }
            all
        }
        other => words(&other.to_string()),
    }
}

#[test]
fn answers_have_data_with_everything_that_their_text_says() {
    let labels: HashSet<&str> = LABELS.split_whitespace().collect();
    let mut missing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut tools = BTreeSet::new();
    for (tool, result) in recorded_answers() {
        let blocks = result["content"].as_array().unwrap();
        assert_eq!(blocks.len(), 1, "{tool}: {result}");
        let data = data_words(&result["structuredContent"]);
        let text = blocks[0]["text"].as_str().unwrap();
        let last = text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let unknown = words(text).into_iter().filter(|word| {
            // A text shows the first eight digits of a version, and a small limit may cut a word.
            let is_part = (word.len() == 8 || word == last)
                && data.iter().any(|known| known.starts_with(word));
            // Transcripts mask most versions.
            let is_version = word.len() == 16 && data.contains("version");
            !data.contains(word) && !labels.contains(&**word) && !is_part && !is_version
        });
        missing.entry(tool.clone()).or_default().extend(unknown);
        tools.insert(tool);
    }
    missing.retain(|_, words| !words.is_empty());
    assert!(missing.is_empty(), "words of texts that the data lacks: {missing:#?}");
    let listed = tool_list(&mut Server::start(project().path()));
    let listed = listed.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(tools, listed, "each tool answers in a transcript");
}

fn tool_list(server: &mut Server) -> Vec<Value> {
    server.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
}

/// A server with the settings of a user who changes none.
fn default_server(folder: &std::path::Path) -> Server {
    let mut command = reqlore();
    command.arg("--root").arg(folder).env(ANSWERS_VARIABLE, "");
    Server::start_as(command, folder)
}

#[test]
fn default_answer_is_one_text_without_data_or_output_schema() {
    let folder = project();
    let mut server = default_server(folder.path());
    for tool in tool_list(&mut server) {
        assert_eq!(tool.get("outputSchema"), None, "{tool}");
    }
    let answer = server.call("create_epic", json!({ "title": "Checkout", "priority": 1 }));
    assert_eq!(answer["result"].get("structuredContent"), None, "{answer}");
    assert!(text(&answer).starts_with("Created epic EP-001: Checkout (version "), "{answer}");
    // A request chooses for itself.
    let mut request = call(7, "get_item", folder.path(), json!({ "reference": "EP-001" }));
    request["params"]["_meta"] = json!({ "reqlore/answers": "both" });
    let answer = server.ask(&request);
    assert_eq!(answer["result"]["structuredContent"]["item"]["title"], "Checkout", "{answer}");
    request["params"]["_meta"] = json!({ "reqlore/answers": "all" });
    let message = server.ask(&request)["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "_meta[\"reqlore/answers\"]: must be \"text\" or \"both\"");
}

#[test]
fn client_chooses_the_form_of_answers_in_its_handshake() {
    let folder = project();
    let mut server = default_server(folder.path());
    let client = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "program", "version": "1" },
        "_meta": { "reqlore/answers": "both" },
    });
    server.request("initialize", client);
    assert!(tool_list(&mut server).iter().all(|tool| tool.get("outputSchema").is_some()));
    let answer = server.call("list_epics", json!({}));
    assert_eq!(answer["result"]["structuredContent"]["total"], 0, "{answer}");
}

/// Creates an epic with 99 stories, whose titles and descriptions are long.
fn fill_backlog(server: &mut Server) -> Value {
    let mut changes = vec![json!({ "create": "epic", "name": "e", "title": "E", "priority": 1 })];
    for number in 0..99 {
        let title = format!("Story {number} about {}", "a long title ".repeat(20));
        changes.push(json!({
            "create": "user_story", "epic": "$e", "title": title, "priority": 2,
            "description": "A sentence of the description. ".repeat(300),
        }));
    }
    server.call("apply_changes", json!({ "changes": changes }))
}

/// Calls with long answers.
fn long_calls() -> [(&'static str, Value); 12] {
    [
        ("list_items", json!({ "kind": "user_story", "limit": 100 })),
        ("search_global", json!({ "query": "story", "limit": 100 })),
        ("epic_hierarchy", json!({ "epic": "EP-001" })),
        ("get_item", json!({ "reference": "EP-001" })),
        ("get_item", json!({ "reference": "US-001" })),
        ("get_history", json!({ "reference": "US-001" })),
        ("list_changes", json!({})),
        ("list_epics", json!({})),
        ("search_requirements", json!({ "query": "story" })),
        ("ixchel_search", json!({ "query": "story" })),
        ("ixchel_context", json!({ "id": "US-001" })),
        ("ixchel_graph", json!({ "id": "EP-001" })),
    ]
}

#[test]
fn answers_stay_within_max_tokens() {
    const BYTES_PER_TOKEN: usize = 4;
    // The smallest limit.
    const MIN_TOKENS: usize = 100;
    let folder = project();
    let mut server = default_server(folder.path());
    fill_backlog(&mut server);
    for (tool, arguments) in long_calls() {
        for tokens in [1, 10, 60, 200, 1_000, 5_000] {
            let mut arguments = arguments.clone();
            arguments["max_tokens"] = json!(tokens);
            let answer = server.call(tool, arguments);
            assert_ne!(answer["result"]["isError"], true, "{answer}");
            let size = text(&answer).len();
            let max_size = tokens.max(MIN_TOKENS) * BYTES_PER_TOKEN;
            assert!(size <= max_size, "{tool}, {tokens} tokens: {size} bytes");
        }
    }
}

#[test]
fn default_answers_stay_within_the_limit_of_all_clients() {
    const MAX_CHARS: usize = 8_000;
    let folder = project();
    let mut server = default_server(folder.path());
    let applied = fill_backlog(&mut server);
    let mut answers = vec![("apply_changes", applied)];
    for (tool, arguments) in long_calls() {
        answers.push((tool, server.call(tool, arguments)));
    }
    for (tool, answer) in answers {
        let text = text(&answer);
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        assert!(text.chars().count() <= MAX_CHARS, "{tool}: {}", text.chars().count());
    }
    // Each page continues where the shown part of the one before it ended.
    let (mut seen, mut arguments) = (Vec::new(), json!({ "kind": "user_story", "limit": 100 }));
    loop {
        let answer = server.call("list_items", arguments.clone());
        let text = text(&answer).to_owned();
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '-') {
            if word.starts_with("US-") {
                seen.push(word.to_owned());
            }
        }
        let Some((_, cursor)) = text.rsplit_once("cursor ") else { break };
        let cursor = cursor.split_whitespace().next().unwrap();
        arguments["cursor"] = json!(cursor);
    }
    let unique: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), unique.len()), (99, 99), "each story once: {seen:?}");
}
