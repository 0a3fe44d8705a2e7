//! The backlog's files as people and git change them, and on their way through every storage.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::backlog::{data, epic, made, requirement, requirements, story};
use crate::client::{Server, project, text};
use crate::moving::{files, moved};

const FOLDER: &str = ".reqlore/backlog";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(FOLDER).join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(FOLDER).join(path)).unwrap()
}

fn item(server: &mut Server, reference: &str) -> Value {
    let answer = server.call("get_item", json!({ "reference": reference }));
    data(&answer)["item"].clone()
}

#[test]
fn what_a_person_edits_adds_and_removes_shows_at_the_next_call() {
    let project = project();
    let root = project.path();
    let mut server = Server::start(root);
    assert_eq!(requirements(&mut server).len(), 0);
    write(root, "epics/EP-001.md", "---\ntitle: Epic\n---\n");
    assert_eq!(item(&mut server, "EP-001")["title"], "Epic");
    write(root, "stories/US-7.md", "---\ntitle: Story\nepic: EP-1\n---\n");
    write(root, "requirements/REQ-500.md", "---\ntitle: By hand\nuser_story: US-007\n---\n");
    assert_eq!(requirements(&mut server)["REQ-500"], "By hand");
    let listed = server.call("get_user_story_requirements", json!({ "user_story": "US-7" }));
    assert!(text(&listed).starts_with("Found 1 requirements for user story US-007"), "{listed}");
    write(root, "requirements/REQ-500.md", "---\ntitle: By HAND\nuser_story: US-007\n---\n");
    assert_eq!(requirements(&mut server)["REQ-500"], "By HAND", "an edit of the same length");
    let found = server.call("search_global", json!({ "query": "hand" }));
    assert_eq!(data(&found)["results"][0]["title"], "By HAND");
    let next = made(&mut server, "create_requirement", requirement("US-007", "next"));
    assert_eq!(next, "REQ-501", "numbers of files made by hand count");
    fs::remove_file(root.join(FOLDER).join("requirements/REQ-500.md")).unwrap();
    assert_eq!(requirements(&mut server).into_keys().collect::<Vec<_>>(), ["REQ-501"]);
    let gone = server.call("get_item", json!({ "reference": "REQ-500" }));
    assert!(text(&gone).starts_with("Requirement not found"), "{gone}");
}

#[test]
fn five_hundred_files_at_once_show_at_the_next_call() {
    let project = project();
    let root = project.path();
    write(root, "epics/EP-001.md", "---\ntitle: Epic\n---\n");
    write(root, "stories/US-001.md", "---\ntitle: Story\nepic: EP-001\n---\n");
    let mut server = Server::start(root);
    assert_eq!(requirements(&mut server).len(), 0);
    for round in ["pulled", "pulled again"] {
        for number in 1..=500 {
            let text = format!("---\ntitle: {round} {number}\nuser_story: US-001\n---\n");
            write(root, &format!("requirements/REQ-{number:03}.md"), &text);
        }
        let found = requirements(&mut server);
        assert_eq!(found.len(), 500);
        let is_new = |(_, title): (&String, &String)| title.starts_with(&format!("{round} "));
        assert!(found.iter().all(is_new), "{round}");
        let tree = server.call("epic_hierarchy", json!({ "epic": "EP-001" }));
        assert_eq!(data(&tree)["counts"]["requirements"], 500);
    }
    fs::remove_dir_all(root.join(FOLDER).join("requirements")).unwrap();
    assert_eq!(requirements(&mut server).len(), 0);
    let next = made(&mut server, "create_requirement", requirement("US-001", "next"));
    assert_eq!(next, "REQ-501", "what was seen is not given again");
}

#[test]
fn keys_comments_order_and_line_ends_survive_an_update() {
    let project = project();
    let root = project.path();
    let before = "---\r\n# who may touch this\r\nzeta: [1, 2] # kept\r\ntitle: 'By hand' # mine\r\n\
                  priority: 2\r\ncustom:\r\n  deep: \"x: y\"\r\nepic: EP-1\r\n---\r\n\r\nA text.\r\n";
    write(root, "epics/EP-001.md", "---\ntitle: Epic\n---\n");
    write(root, "stories/US-001.md", before);
    let mut server = Server::start(root);
    let update = json!({ "user_story": "US-001", "priority": 4 });
    data(&server.call("update_user_story", update));
    let after = read(root, "stories/US-001.md");
    assert!(!after.replace("\r\n", "").contains('\n'), "mixed line ends: {after:?}");
    let lines: Vec<&str> = after.split("\r\n").collect();
    let kept = before.replace("priority: 2", "priority: 4");
    let mut rest = lines.iter();
    for line in kept.split("\r\n") {
        assert!(rest.any(|found| *found == line), "{line:?} is lost or moved: {after}");
    }
    let added: Vec<&&str> = lines.iter().filter(|line| !kept.contains(**line)).collect();
    // Without the first the file's own time would say that it was made now.
    let is_time = |line: &&&str| line.starts_with("created_at:") || line.starts_with("updated_at:");
    assert!(added.iter().all(is_time), "{added:?}");
}

// S2: 1.3, 1.6, 3.1, 3.3
#[test]
fn requirements_of_a_story_come_by_priority_and_then_the_newest_first() {
    let project = project();
    let root = project.path();
    write(root, "epics/EP-001.md", "---\ntitle: Epic\n---\n");
    write(root, "stories/US-047.md", "---\ntitle: Story\nepic: EP-001\n---\n");
    for (number, priority, day, assignee) in [
        (1, 3, 2, ""),
        (2, 1, 1, ""),
        (3, 3, 9, "assignee_username: bob\n"),
        (4, 1, 5, ""),
        (5, 1, 5, ""),
    ] {
        let text = format!(
            "---\ntitle: T{number}\nuser_story: US-047\npriority: {priority}\ntype_name: Interface\n\
             creator_username: ada\n{assignee}created_at: 2026-01-0{day}T00:00:00Z\n---\n"
        );
        write(root, &format!("requirements/REQ-00{number}.md"), &text);
    }
    let mut server = Server::start(root);
    let answer = server.call("get_user_story_requirements", json!({ "user_story": "US-047" }));
    let all = data(&answer)["requirements"].as_array().unwrap();
    let order: Vec<&str> = all.iter().map(|one| one["title"].as_str().unwrap()).collect();
    assert_eq!(order, ["T5", "T4", "T2", "T3", "T1"]);
    let said = text(&answer);
    for line in [
        "REQ-003: T3 (Priority: 3, Status: Draft, Type: Interface, Creator: ada, Assignee: bob)",
        "REQ-001: T1 (Priority: 3, Status: Draft, Type: Interface, Creator: ada)",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
}

// S2: 1.9, 4.1
#[test]
fn the_types_that_requirements_name_are_those_of_the_resource() {
    let project = project();
    let mut server = Server::start(project.path());
    let read = json!({
        "jsonrpc": "2.0", "id": 1, "method": "resources/read",
        "params": { "uri": "requirements://requirements-types" }
    });
    let answer = server.ask(&read);
    let types: Value =
        serde_json::from_str(answer["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    let types = types["requirement_types"].as_array().unwrap();
    let epic = epic(&mut server, "Epic");
    let story = story(&mut server, &epic, "Story");
    for kind in types {
        let mut arguments = requirement(&story, "x");
        arguments["type"] = kind["name"].clone();
        made(&mut server, "create_requirement", arguments);
    }
    let answer = server.call("get_user_story_requirements", json!({ "user_story": story }));
    assert_eq!(types.len(), 5);
    for kind in types {
        let told = format!(", Type: {}, ", kind["name"].as_str().unwrap());
        assert_eq!(text(&answer).matches(&told).count(), 1, "{told} in {answer}");
    }
}

/// A backlog with all that is easily lost; its highest epic is deleted.
fn write_backlog(root: &Path) {
    let mut server = Server::start(root);
    let first = epic(&mut server, "Epic");
    let story = story(&mut server, &first, "Story");
    for title in ["one", "two", "three"] {
        made(&mut server, "create_requirement", requirement(&story, title));
    }
    let criteria = json!({ "user_story": story, "description": "GIVEN \u{1f600}\nTHEN x" });
    made(&mut server, "create_acceptance_criteria", criteria);
    let link = json!({ "source": "REQ-001", "target": "REQ-002", "type": "blocks" });
    data(&server.call("create_relationship", link));
    write(
        root,
        "epics/EP-020.md",
        "\u{feff}---\r\n# mine\r\ntitle: 'By hand' # c\r\nx: [1]\r\n---\r\n",
    );
    write(
        root,
        "requirements/REQ-500.md",
        "---\ntitle: No end\nuser_story: US-1\n---\nno line end",
    );
    write(root, "epics/notes.md", "no item at all\n");
    write(root, "stories/US-002.md", "---\ntitle: [broken\n---\n");
    let last = epic(&mut server, "Last");
    assert_eq!(last, "EP-021");
    data(&server.call("delete_item", json!({ "reference": last })));
    data(&server.call("delete_item", json!({ "reference": "REQ-003" })));
    assert!(server.end().1.success());
}

// Catalogue 148
#[test]
fn a_backlog_goes_through_every_storage_and_comes_back_with_its_numbers() {
    let (project, scratch) = (project(), project());
    let (root, place) = (project.path(), scratch.path());
    write_backlog(root);
    // What a person made and took away again is known by its number alone.
    write(root, "criteria/AC-040.md", "---\nuser_story: US-001\n---\n\nGIVEN\n");
    let mut server = Server::start(root);
    item(&mut server, "AC-040");
    let told = json!({ "user_story": "US-001", "description": "GIVEN y" });
    assert_eq!(made(&mut server, "create_acceptance_criteria", told), "AC-041");
    assert!(server.end().1.success());
    let before = files(root);
    assert!(before.keys().any(|path| path.contains("/deleted/")), "{:?}", before.keys());
    let from = root.display();
    moved(place, &format!("copy --from fs:{from} --to sqlite:a.db --verify"));
    moved(place, "copy --from sqlite:a.db --to sled:b --verify");
    fs::create_dir(place.join("c")).unwrap();
    moved(place, "copy --from sled:b --to fs:c --verify");
    let after = files(&place.join("c"));
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert_eq!(after, before);
    let root = root.to_str().unwrap();
    for storage in [&format!("fs:{root}"), "sqlite:a.db", "sled:b", "fs:c"] {
        let mut command = crate::client::reqlore();
        command.current_dir(place).args(["--storage", storage]);
        let mut server = Server::start_as(command, place);
        assert_eq!(epic(&mut server, "Next"), "EP-022", "{storage}");
        let next = made(&mut server, "create_requirement", requirement("US-001", "x"));
        assert_eq!(next, "REQ-501", "{storage}");
        let criteria = json!({ "user_story": "US-001", "description": "GIVEN z" });
        assert_eq!(
            made(&mut server, "create_acceptance_criteria", criteria),
            "AC-042",
            "{storage}"
        );
        let gone = server.call("get_item", json!({ "reference": "EP-021" }));
        assert!(text(&gone).contains("it was deleted on "), "{storage}: {gone}");
        assert_eq!(item(&mut server, "EP-020")["title"], "By hand", "{storage}");
    }
}
