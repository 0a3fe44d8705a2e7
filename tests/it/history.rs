//! `get_history` and `reqlore history`, on files in Git and on a database.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Server, project, reqlore};
use crate::git_merges::run_git;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The exit code, output and errors of `reqlore history`.
fn history(root: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = reqlore();
    command.env("PATH", PATH).current_dir(root).arg("history").args(arguments);
    let output = command.output().unwrap();
    let [text, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), text, errors)
}

fn history_ok(root: &Path, arguments: &[&str]) -> String {
    let (code, text, errors) = history(root, arguments);
    assert_eq!((code, &*errors), (0, ""), "{arguments:?}");
    text
}

fn server(root: &Path) -> Server {
    Server::start_in(root, &[("PATH", Path::new(PATH))])
}

/// The first 8 digits of each version in a result, and `deleted` for a deletion.
fn versions(result: &Value) -> Vec<String> {
    let mut versions = Vec::new();
    for entry in result["versions"].as_array().unwrap() {
        let version = entry["version"].as_str();
        versions.push(version.map_or("deleted", |version| &version[..8]).to_owned());
    }
    versions
}

#[test]
fn history_on_files_is_that_of_their_git_repository() {
    let folder = project();
    let root = folder.path();
    run_git(root, &["init", "--quiet", "--initial-branch=main"]);
    let mut server = server(root);
    let epic = json!({ "title": "Shop", "priority": 1, "description": "Guests pay by card." });
    server.data("create_epic", epic);
    run_git(root, &["add", "--all"]);
    run_git(root, &["commit", "--message", "Plan the shop"]);
    let change = json!({ "epic": "EP-001", "description": "Guests pay by invoice." });
    server.data("update_epic", change);
    let listed = server.data("get_history", json!({ "reference": "EP-001" }));
    assert_eq!(listed["notes"], json!(["The first entry is not committed yet."]));
    let [newer, older] = &versions(&listed)[..] else { panic!("{listed}") };
    let [first, second] = [&listed["versions"][0], &listed["versions"][1]];
    assert_eq!([&first["user"], &first["tool"]], ["tester", "update_epic"]);
    assert_eq!([&second["user"], &second["tool"]], [&json!("tester"), &Value::Null]);
    assert_eq!(second["reason"], "Plan the shop");
    let words = "Guests pay by [-card.-]{+invoice.+}";
    let compare = json!({ "reference": "EP-001", "compare_with": older });
    let compared = server.data("get_history", compare);
    assert!(compared["difference"].as_str().unwrap().contains(words), "{compared}");

    let text = history_ok(root, &["EP-001"]);
    assert!(
        text.contains(&format!("\n- {newer} ")) && text.contains(": Plan the shop\n"),
        "{text}"
    );
    let json = history_ok(root, &["ep-1", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), listed);
    let text = history_ok(root, &["EP-001", "--version", older]);
    assert!(text.contains("Guests pay by card."), "{text}");
    assert!(history_ok(root, &["EP-001", "--compare", older]).contains(words));

    // A deleted item keeps its history.
    server.data("delete_item", json!({ "reference": "EP-001" }));
    let listed = server.data("get_history", json!({ "reference": "EP-001" }));
    let folder = std::fs::read_dir(root.join(".reqlore/backlog/deleted")).unwrap();
    let tombstone = std::fs::read_to_string(folder.last().unwrap().unwrap().path()).unwrap();
    for (key, field) in [("deleted_at", "at"), ("deleted_username", "user")] {
        let value = listed["versions"][0][field].as_str().unwrap();
        assert!(tombstone.contains(&format!("{key}: {value}\n")), "{listed}: {tombstone}");
    }
    run_git(root, &["add", "--all"]);
    run_git(root, &["commit", "--message", "Close the shop"]);
    let listed = server.data("get_history", json!({ "reference": "EP-001" }));
    assert_eq!(versions(&listed), ["deleted", newer, older]);
    assert_eq!(listed["versions"][0]["reason"], "Close the shop");
    assert!(server.end().1.success());
}

/// The tools of the listed versions, the newest first.
fn tools(listed: &Value) -> Vec<&str> {
    let entries = listed["versions"].as_array().unwrap();
    entries.iter().map(|entry| entry["tool"].as_str().unwrap_or("-")).collect()
}

#[test]
fn history_on_files_begins_before_the_first_commit() {
    let folder = project();
    let root = folder.path();
    let mut server = server(root);
    server.data("create_epic", json!({ "title": "Shop", "priority": 1, "description": "a" }));
    let written = json!({ "epic": "EP-001", "description": "the secret word" });
    let secret = server.data("update_epic", written)["version"].as_str().unwrap().to_owned();
    let file = std::fs::read_dir(root.join(".reqlore/backlog/epics")).unwrap().next().unwrap();
    let file = file.unwrap().path();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("the secret word", "edited by hand")).unwrap();
    server.data("update_epic", json!({ "epic": "EP-001", "title": "Web shop" }));
    let expected = ["update_epic", "-", "update_epic", "create_epic"];
    let listed = server.data("get_history", json!({ "reference": "EP-001" }));
    assert_eq!(tools(&listed), expected);
    assert!(listed["notes"][0].as_str().unwrap().contains("not in a Git repository"), "{listed}");
    let page = server.data("get_history", json!({ "reference": "EP-001", "limit": 3 }));
    let next = json!({ "reference": "EP-001", "limit": 3, "cursor": page["next_cursor"] });
    assert_eq!(tools(&server.data("get_history", next)), ["create_epic"]);
    // Also in another process, and in a repository without a commit.
    run_git(root, &["init", "--quiet", "--initial-branch=main"]);
    let json = history_ok(root, &["EP-001", "--json"]);
    let listed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(tools(&listed), expected);
    assert_eq!(listed["notes"], json!(["The first entry is not committed yet."]));
    let by_hand = versions(&listed)[1].clone();
    let difference = history_ok(root, &["EP-001", "--compare", &by_hand]);
    assert!(difference.contains("[-Shop-]{+Web shop+}"), "{difference}");

    let reason = ["--reason", "a password"];
    let erased =
        history_ok(root, &[&["purge", "EP-001", "--version", &secret], &reason[..]].concat());
    assert!(erased.starts_with("Erased the text of 1 version of "), "{erased}");
    assert!(history_ok(root, &["EP-001"]).contains("(text erased)"));
    server.data("delete_item", json!({ "reference": "EP-001" }));
    let listed = server.data("get_history", json!({ "reference": "EP-001" }));
    assert_eq!(tools(&listed)[..2], ["delete_item", "update_epic"]);
    assert_eq!(listed["versions"][0]["user"], "tester");
    // Git has none of these texts, and then the last ones.
    assert!(history_ok(root, &[&["purge", "EP-001"], &reason[..]].concat()).contains("4 versions"));
    for file in ["history", "history.old"] {
        let bytes = std::fs::read(root.join(".reqlore/local").join(file)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains("Web shop"), "{file}");
    }
    server.data("create_epic", json!({ "title": "Next", "priority": 1, "description": "a" }));
    run_git(root, &["add", "--all"]);
    run_git(root, &["commit", "--message", "Plan"]);
    server.data("update_epic", json!({ "epic": "EP-002", "description": "b" }));
    let (code, _, errors) = history(root, &[&["purge", "EP-002"], &reason[..]].concat());
    assert!(code == 1 && errors.contains("are in Git"), "{errors}");
    assert!(server.end().1.success());
}

#[test]
fn history_on_sqlite_has_user_tool_and_reason() {
    let folder = project();
    let root = folder.path();
    let mut server = Server::start_with(root, &["--storage", "sqlite"]);
    server.data("create_epic", json!({ "title": "Shop", "priority": 1 }));
    server.data("update_epic", json!({ "epic": "EP-001", "title": "Web shop" }));
    server.data("delete_item", json!({ "reference": "EP-001" }));
    assert!(server.end().1.success());
    let listed = history_ok(root, &["EP-001", "--storage", "sqlite", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let tools: Vec<&Value> =
        listed["versions"].as_array().unwrap().iter().map(|entry| &entry["tool"]).collect();
    assert_eq!(tools, ["delete_item", "update_epic", "create_epic"]);
    let [deleted, newer, older] = &versions(&listed)[..] else { panic!("{listed}") };
    assert_eq!(deleted, "deleted");
    let compare = ["EP-001", "--storage", "sqlite", "--version", newer, "--compare", older];
    let text = history_ok(root, &compare);
    assert!(text.contains("title: {+Web shop+}") || text.contains("[-Shop-]"), "{text}");
}

#[test]
fn history_command_errors_name_the_fix() {
    let folder = project();
    let root = folder.path();
    std::fs::create_dir_all(root.join(".reqlore/backlog/epics")).unwrap();
    let body = "---\ntitle: Shop\n---\n\u{1b}[2Jtext\u{202e}\n";
    std::fs::write(root.join(".reqlore/backlog/epics/EP-001.md"), body).unwrap();
    for (arguments, expected_code, message) in [
        (&["EP-002"][..], 1, "Epic not found: EP-002"),
        (&["EP-001", "--version", "12"], 2, "is not a version"),
        (&["EP-001", "--version", "12345678"], 1, "project is not in a Git repository"),
    ] {
        let (code, text, errors) = history(root, arguments);
        assert_eq!((code, &*text), (expected_code, ""), "{arguments:?}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
    assert_eq!(history(root, &[]).0, 2);
    assert_eq!(history(root, &["EP-001", "--limit", "0"]).0, 2);
    let listed: Value = serde_json::from_str(&history_ok(root, &["EP-001", "--json"])).unwrap();
    // Controls of the terminal are encoded.
    let text = history_ok(root, &["EP-001", "--version", &versions(&listed)[0]]);
    assert!(text.ends_with("\n\\u{1b}[2Jtext\\u{202e}\n"), "{text:?}");
}
