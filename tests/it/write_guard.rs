//! Callers that edit the same story, decision or rule on a real server, without `if_version`.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Server, project, reqlore, text};
use crate::crash::SeededRandom;
use crate::http::{Client, TestTeam};

/// Calls a tool. Returns the text of its answer, or the message of its error.
type Caller<'a> = Box<dyn FnMut(&str, Value) -> Result<String, String> + 'a>;

fn on_stdio(server: &mut Server) -> Caller<'_> {
    Box::new(|tool, arguments| {
        let answer = server.call(tool, arguments);
        let message = text(&answer).to_owned();
        if answer["result"]["isError"] == true { Err(message) } else { Ok(message) }
    })
}

fn over_http(client: &mut Client) -> Caller<'_> {
    Box::new(|tool, mut arguments| {
        if tool.starts_with("reqlix_") {
            arguments["project_root"] = json!("default");
            arguments["operation_description"] = json!("testing");
        }
        let answer = client.call(tool, arguments).json();
        match answer["error"]["message"].as_str() {
            Some(message) => Err(message.to_owned()),
            None => Ok(text(&answer).to_owned()),
        }
    })
}

/// The read and the write of a story, a decision and a rule.
fn cases(decision: &str) -> [(&'static str, Value, &'static str, Value, &'static str); 3] {
    let rule = json!({ "section": "general", "index": "1" });
    [
        (
            "get_item",
            json!({ "reference": "US-001" }),
            "update_user_story",
            json!({ "user_story": "US-001" }),
            "description",
        ),
        (
            "ixchel_show",
            json!({ "id": decision }),
            "ixchel_update",
            json!({ "id": decision }),
            "body",
        ),
        (
            "reqlix_get_requirements",
            json!({ "section": "general" }),
            "reqlix_set_requirements",
            rule,
            "text",
        ),
    ]
}

/// Creates the documents. Returns the ID of the decision.
fn create(call: &mut Caller<'_>) -> String {
    call("create_epic", json!({ "title": "Epic", "priority": 1 })).unwrap();
    let story = json!({ "epic": "EP-001", "title": "Story", "description": "Old.", "priority": 1 });
    call("create_user_story", story).unwrap();
    let rule = json!({ "section": "general", "index": "1", "text": "Old." });
    call("reqlix_set_requirements", rule).unwrap();
    let decision = json!({ "kind": "decision", "title": "Decision", "body": "Old." });
    let created = call("ixchel_create", decision).unwrap();
    let start = created.find("dec-").unwrap();
    created[start..start + "dec-123456".len()].to_owned()
}

/// Both callers read each document, then both write it. Returns the number of lost texts.
fn lost_texts<'a>(decision: &str, mut ann: Caller<'a>, mut bob: Caller<'a>) -> usize {
    let mut lost = 0;
    for (read, item, write, target, field) in cases(decision) {
        for call in [&mut ann, &mut bob] {
            call(read, item.clone()).unwrap();
        }
        let with_text = |text: &str| {
            let mut arguments = target.clone();
            arguments[field] = json!(text);
            arguments
        };
        ann(write, with_text("Text of ann.")).unwrap();
        match bob(write, with_text("Text of bob.")) {
            Ok(_) => lost += 1,
            Err(message) => {
                assert!(message.contains("since it was last shown to you"), "{message}");
                assert!(message.contains("Text of ann."), "{message}");
                let version = message.split("if_version: ").nth(1).unwrap()[..8].to_owned();
                let mut merged = with_text("Text of ann and bob.");
                merged["if_version"] = json!(version);
                bob(write, merged).unwrap();
            }
        }
        let text = ann(read, item).unwrap();
        lost += usize::from(!text.contains("Text of ann"));
    }
    lost
}

#[test]
fn write_guard_of_two_processes_on_one_folder_loses_no_text() {
    for storage in ["fs", "sqlite"] {
        let root = project();
        let start = || Server::start_with(root.path(), &["--storage", storage]);
        let [mut ann, mut bob] = [start(), start()];
        let decision = create(&mut on_stdio(&mut ann));
        let lost = lost_texts(&decision, on_stdio(&mut ann), on_stdio(&mut bob));
        assert_eq!(lost, 0, "{storage}");
    }
}

/// Two callers, then all, read and write the description of one story at random. A model says which
/// write is refused. Returns the number of refusals.
fn play_model(mut callers: Vec<Caller<'_>>, random: &mut SeededRandom) -> usize {
    create(&mut callers[0]);
    let mut current = "Old.".to_owned();
    let mut shown: Vec<Option<String>> = vec![None; callers.len()];
    shown[0] = Some(current.clone());
    let mut refused = 0;
    for step in 0..60 {
        let caller = random.below(if step < 20 { 2 } else { callers.len() });
        let call = &mut callers[caller];
        if random.below(3) == 0 {
            let text = call("get_item", json!({ "reference": "US-001" })).unwrap();
            assert!(text.contains(&current), "{text}");
            shown[caller] = Some(current.clone());
            continue;
        }
        let text = format!("Text {step} of caller {caller}.");
        let write = json!({ "user_story": "US-001", "description": text });
        let is_stale = shown[caller].as_ref().is_some_and(|shown| *shown != current);
        match call("update_user_story", write) {
            Ok(_) => {
                assert!(!is_stale, "step {step}: {current:?} is lost");
                (current, shown[caller]) = (text.clone(), Some(text));
            }
            Err(message) => {
                assert!(is_stale && message.contains(&current), "step {step}: {message}");
                refused += 1;
            }
        }
    }
    refused
}

#[test]
fn write_guard_loses_no_random_edit_on_any_storage() {
    let mut random = SeededRandom(0x5EED);
    for storage in ["fs", "sqlite", "sled", "postgres"] {
        let team = TestTeam::new(storage);
        team.user("ann", "user");
        let tokens = [(); 4].map(|()| team.token("ann", ""));
        let server = team.serve();
        let mut clients = tokens.map(|token| server.client(&token));
        let refused = play_model(clients.iter_mut().map(over_http).collect(), &mut random);
        assert!(refused > 5, "{storage}: {refused}");
    }
}

fn story_file(root: &TempDir) -> std::path::PathBuf {
    let folder = root.path().join(".reqlore/backlog/stories");
    fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn write_guard_refuses_to_replace_an_edit_on_disk() {
    let root = project();
    let mut server = Server::start(root.path());
    let mut call = on_stdio(&mut server);
    create(&mut call);
    let file = story_file(&root);
    let edited = fs::read_to_string(&file).unwrap().replace("Old.", "Edited by hand.");
    fs::write(&file, edited).unwrap();
    let write = json!({ "user_story": "US-001", "description": "New." });
    let message = call("update_user_story", write.clone()).unwrap_err();
    assert!(message.contains("Current description:\nEdited by hand."), "{message}");
    call("update_user_story", json!({ "user_story": "US-001", "status": "Done" })).unwrap();
    call("get_item", json!({ "reference": "US-001" })).unwrap();
    call("update_user_story", write).unwrap();
}

#[test]
fn write_guard_over_http_protects_tokens_from_each_other() {
    let team = TestTeam::new("sqlite");
    let tokens = ["ann", "bob"].map(|name| {
        team.user(name, "user");
        team.token(name, "")
    });
    let server = team.serve();
    let [mut ann, mut bob] = tokens.each_ref().map(|token| server.client(token));
    let decision = create(&mut over_http(&mut ann));
    assert_eq!(lost_texts(&decision, over_http(&mut ann), over_http(&mut bob)), 0);
    // Two agents with one token are one caller, who has seen what either wrote.
    let [mut one, mut other] = [&tokens[0]; 2].map(|token| server.client(token));
    let title = |title: &str| json!({ "user_story": "US-001", "title": title });
    over_http(&mut one)("update_user_story", title("One")).unwrap();
    over_http(&mut other)("update_user_story", title("Other")).unwrap();

    // A refused call with a key can be sent again with the same key and another body.
    let mut keyed = server.client(&tokens[1]).with("Idempotency-Key", "k-1");
    over_http(&mut keyed)("update_user_story", title("Bob's")).unwrap_err();
    over_http(&mut bob)("get_item", json!({ "reference": "US-001" })).unwrap();
    over_http(&mut keyed)("update_user_story", title("Both")).unwrap();
}

#[test]
fn write_guard_setting_turns_it_off() {
    let root = project();
    let start = || {
        let mut command = reqlore();
        command.arg("--root").arg(root.path()).env("REQLORE_WRITE_GUARD", "off");
        Server::start_as(command, root.path())
    };
    let [mut ann, mut bob] = [start(), start()];
    create(&mut on_stdio(&mut ann));
    let title = |title: &str| json!({ "user_story": "US-001", "title": title });
    on_stdio(&mut bob)("update_user_story", title("Bob's")).unwrap();
    on_stdio(&mut ann)("update_user_story", title("Ann's")).unwrap();
}
