//! `list_changes` on each storage, and on files with edits by hand.

use serde_json::{Value, json};

use crate::client::{Server, project, reqlore, text};
use crate::http::{STORAGES, TestTeam};
use crate::init::output;

/// The change and the ID of each line.
fn shown(page: &Value) -> Vec<(String, String)> {
    let changes = page["changes"].as_array().unwrap();
    let word = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
    changes.iter().map(|change| (word(change, "change"), word(change, "id"))).collect()
}

#[test]
fn token_lists_the_changes_since_it_on_each_storage() {
    for storage in STORAGES {
        let team = TestTeam::new(storage);
        let token = team.administrator();
        let server = team.serve();
        let mut client = server.client(&token);
        client.data("create_epic", json!({ "title": "Epic", "priority": 1 }));
        let story = json!({ "title": "Story", "epic": "EP-001", "priority": 1 });
        client.data("create_user_story", story.clone());
        let page = client.data("list_changes", json!({}));
        let created = |id: &str| ("created".to_owned(), id.to_owned());
        assert_eq!(shown(&page), [created("EP-001"), created("US-001")], "{storage}");
        let since = json!({ "since": page["next"] });
        assert_eq!(shown(&client.data("list_changes", since.clone())), [], "{storage}");
        // All within one second.
        client.data("update_epic", json!({ "epic": "EP-001", "title": "New" }));
        client.data("create_user_story", story);
        client.data("update_epic", json!({ "epic": "EP-001", "title": "Newer" }));
        client.data("delete_item", json!({ "reference": "US-001" }));
        let page = client.data("list_changes", since.clone());
        let expected = [
            created("US-002"),
            ("changed".to_owned(), "EP-001".to_owned()),
            ("deleted".to_owned(), "US-001".to_owned()),
        ];
        assert_eq!(shown(&page), expected, "{storage}");
        let changes = &page["changes"];
        assert_eq!(changes[1]["title"], "Newer", "{storage}");
        assert_eq!(changes[2]["title"], "Story", "{storage}");
        assert_eq!(changes[2]["tool"], "delete_item", "{storage}");
        drop(server.end());
        let server = team.serve();
        let again = server.client(&token).data("list_changes", since);
        assert_eq!(again["changes"], page["changes"], "{storage}");
        // Only the one with the token: the storage knows the old one.
        assert_eq!(again["notes"].as_array().map(Vec::len), Some(1), "{storage}: {again}");
    }
}

#[test]
fn edits_by_hand_are_listed_and_a_lost_token_is_named() {
    let folder = project();
    let mut server = Server::start(folder.path());
    for title in ["One", "Two"] {
        server.data("create_epic", json!({ "title": title, "priority": 1 }));
    }
    let since = json!({ "since": server.data("list_changes", json!({}))["next"] });
    let epics = folder.path().join(".reqlore/backlog/epics");
    let mut files: Vec<_> = std::fs::read_dir(&epics).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let old = std::fs::read_to_string(&files[0]).unwrap();
    std::fs::write(&files[0], old.replace("One", "By hand")).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    std::fs::write(epics.join("EP-009-aaaaaa.md"), "---\ntitle: Nine\n---\n").unwrap();
    let sorted = |page: &Value| {
        let mut changes = shown(page);
        changes.sort();
        changes
    };
    let expected = [("changed", "EP-001"), ("created", "EP-009"), ("deleted", "EP-002")]
        .map(|(change, id)| (change.to_owned(), id.to_owned()));
    let page = server.data("list_changes", since.clone());
    assert_eq!(sorted(&page), expected);
    for change in page["changes"].as_array().unwrap() {
        assert_eq!((&change["tool"], &change["user"]), (&json!("by hand"), &Value::Null));
    }
    // A copy has another history.
    let copy = project();
    let mut copy_files = std::process::Command::new("cp");
    copy_files.arg("-r").arg(folder.path().join(".reqlore")).arg(copy.path());
    assert!(copy_files.status().unwrap().success());
    let answer = Server::start(copy.path()).call("list_changes", since);
    assert!(text(&answer).contains("this store does not know the token"), "{answer}");
    let mut command = reqlore();
    command.current_dir(folder.path()).args(["history", "--since", "2020-01-01", "--kind", "epic"]);
    let (code, listed, errors) = output(&mut command);
    assert_eq!((code, &*errors), (0, ""));
    assert!(listed.contains(" by hand: created EP-009: Nine ("), "{listed}");
}
