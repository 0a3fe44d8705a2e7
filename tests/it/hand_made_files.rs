//! Files of the backlog that users name, move and edit by hand.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::backlog::{create_epic, create_story, data, read_tree};
use crate::client::{Server, project};
use crate::copy_and_backup::run;

const BACKLOG: &str = ".reqlore/backlog";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(BACKLOG).join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The paths of the backlog's files.
fn files(root: &Path) -> Vec<String> {
    read_tree(&root.join(BACKLOG)).into_keys().collect()
}

/// All text blocks of an answer.
fn full_text(answer: &Value) -> String {
    let blocks = answer["result"]["content"].as_array().unwrap();
    blocks.iter().map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn file_name_keeps_its_slug_when_the_title_changes() {
    let project = project();
    let mut server = Server::start(project.path());
    let epic = create_epic(&mut server, "Guest checkout: pay «fast»!");
    let before = files(project.path());
    assert!(before[0].starts_with("epics/EP-001-guest-checkout-pay-fast-"), "{before:?}");
    server.call("update_epic", json!({ "epic": epic, "title": "Sign-up" }));
    assert_eq!(files(project.path()), before);
    let text = fs::read_to_string(project.path().join(BACKLOG).join(&before[0])).unwrap();
    assert!(text.contains("title: Sign-up\n"), "{text}");
}

#[test]
fn new_item_has_no_key_that_equals_its_default() {
    let project = project();
    let mut server = Server::start(project.path());
    let arguments = json!({ "title": "Short", "priority": 3, "status": "Backlog" });
    server.call("create_epic", arguments);
    let file = files(project.path()).remove(0);
    let text = fs::read_to_string(project.path().join(BACKLOG).join(file)).unwrap();
    let keys = text.lines().filter_map(|line| line.split_once(": ")).map(|(key, _)| key);
    assert_eq!(keys.collect::<Vec<_>>(), ["title", "creator_username", "created_at", "uid"]);
    let answer = server.call("get_item", json!({ "reference": "EP-1" }));
    let item = &data(&answer)["item"];
    assert_eq!((&item["status"], &item["priority"]), (&json!("Backlog"), &json!(3)));
    assert_eq!(item["updated_at"], item["created_at"]);
}

#[test]
fn item_in_subfolder_is_shown_updated_and_deleted_in_place() {
    let project = project();
    let root = project.path();
    let mut server = Server::start(root);
    create_epic(&mut server, "Shop");
    let story = create_story(&mut server, "EP-001", "Pay");
    write(root, "requirements/auth/REQ-041.md", "---\ntitle: By hand\nuser_story: [US-1]\n---\n");
    let hierarchy = server.call("epic_hierarchy", json!({ "epic": "EP-001" }));
    assert!(
        full_text(&hierarchy).contains("REQ-041 (Draft, 3 Medium, Functional): By hand"),
        "{hierarchy}"
    );
    server.call("update_requirement", json!({ "requirement": "REQ-41", "priority": 1 }));
    let text = fs::read_to_string(root.join(BACKLOG).join("requirements/auth/REQ-041.md")).unwrap();
    assert!(text.starts_with("---\ntitle: By hand\nuser_story: [US-1]\npriority: 1\n"), "{text}");
    let arguments = crate::backlog::requirement_arguments(&story, "Next");
    let answer = server.call("create_requirement", arguments);
    assert_eq!(data(&answer)["reference_id"], "REQ-042");
    assert_eq!(run(root, "check"), (0, "Nothing to fix.\n".to_owned()));
    // The name with its folder is the same in a database and back.
    assert_eq!(run(root, "copy --from fs --to sqlite:team.db --verify --log warn").0, 0);
    fs::create_dir(root.join("again")).unwrap();
    assert_eq!(run(root, "copy --from sqlite:team.db --to fs:again --verify --log warn").0, 0);
    assert_eq!(read_tree(&root.join("again").join(BACKLOG)), read_tree(&root.join(BACKLOG)));
    let deleted = server.call("delete_item", json!({ "reference": "REQ-041" }));
    assert_eq!(deleted["result"]["isError"], false, "{deleted}");
    assert!(files(root).contains(&"deleted/auth/REQ-041.md".to_owned()), "{:?}", files(root));
    let missing = server.call("get_item", json!({ "reference": "REQ-041" }));
    assert!(full_text(&missing).contains("deleted on"), "{missing}");
}

#[test]
fn two_files_of_one_name_in_two_folders_are_reported() {
    let project = project();
    let root = project.path();
    write(root, "requirements/REQ-002.md", "---\ntitle: One\ncreated_at: 2026-01-01\n---\n");
    write(root, "requirements/auth/REQ-002.md", "---\ntitle: Two\ncreated_at: 2026-01-02\n---\n");
    let (code, output) = run(root, "check");
    assert!(code == 1 && output.contains("reference REQ-002 is also used by"), "{output}");
    assert_eq!(run(root, "check --fix --log warn").0, 0);
    assert_eq!(files(root), ["requirements/REQ-002.md", "requirements/auth/REQ-003.md"]);
}

#[test]
fn unread_files_are_named_by_check_and_the_tools() {
    let project = project();
    let root = project.path();
    let mut server = Server::start(root);
    create_epic(&mut server, "Shop");
    create_story(&mut server, "EP-001", "Pay");
    write(root, "epics/EP-002.txt", "---\ntitle: Lost\n---\n");
    write(root, "epics/Ideas.md", "---\ntitle: No reference\n---\n");
    write(root, "requirements/REQ-007.markdown", "---\ntitle: Lost\n---\n");
    write(root, "stories/US-002.md", "---\ntitle: Bytes \u{fffd}\nepic: [EP-001, EP-002]\n---\n");
    let unread = [
        ".reqlore/backlog/epics/EP-002.txt: is not read; rename it to EP-002.md",
        ".reqlore/backlog/epics/Ideas.md: the file name contains no reference",
        ".reqlore/backlog/requirements/REQ-007.markdown: is not read; rename it to REQ-007.md",
        ".reqlore/backlog/stories/US-002.md:3: epic has 2 values; keep one",
    ];
    let (code, output) = run(root, "check");
    assert_eq!(code, 1);
    for line in unread {
        assert!(output.contains(line), "{line}\n{output}");
    }
    for (tool, arguments, expected) in [
        ("list_epics", json!({}), &unread[..2]),
        ("epic_hierarchy", json!({ "epic": "EP-001" }), &unread[2..]),
        ("search_requirements", json!({}), &unread[2..3]),
        ("get_user_story_requirements", json!({ "user_story": "US-001" }), &unread[2..3]),
        ("get_item", json!({ "reference": "US-002" }), &unread[3..]),
    ] {
        let answer = server.call(tool, arguments);
        let text = full_text(&answer);
        for line in expected {
            assert!(text.contains(line), "{tool}: {text}");
        }
        if tool == "list_epics" {
            assert_eq!(data(&answer)["notes"].as_array().unwrap().len(), 2);
        }
    }
    let missing = server.call("get_item", json!({ "reference": "REQ-007" }));
    let text = full_text(&missing);
    assert!(text.contains("REQ-007.markdown is not read; rename it to REQ-007.md"), "{text}");
}

#[test]
fn unreadable_items_are_named_by_check_and_the_tools() {
    let project = project();
    let root = project.path();
    let mut server = Server::start(root);
    create_epic(&mut server, "Shop");
    write(root, "epics/EP-002.md", &format!("---\ntitle: Large\n---\n{}", "x".repeat(9 << 20)));
    write(root, "epics/EP-003.md", "");
    fs::write(root.join(BACKLOG).join("epics/EP-003.md"), b"---\ntitle: \xff\n---\n").unwrap();
    std::os::unix::fs::symlink("EP-002.md", root.join(BACKLOG).join("epics/EP-004.md")).unwrap();
    let problems =
        ["EP-002.md: ", "8 MiB", "EP-003.md: line 2 is not UTF-8", "EP-004.md: is a symbolic"];
    let (code, output) = run(root, "check");
    let listed = full_text(&server.call("list_epics", json!({})));
    assert_eq!(code, 1);
    for problem in problems {
        assert!(output.contains(problem), "{problem}: {output}");
        assert!(listed.contains(problem), "{problem}: {listed}");
    }
    for reference in ["EP-002", "EP-003", "EP-004"] {
        let answer = server.call("get_item", json!({ "reference": reference }));
        assert!(full_text(&answer).contains(&format!("epics/{reference}.md")), "{answer}");
    }
}

#[test]
fn bold_word_is_prose_and_an_invalid_index_is_listed() {
    let project = project();
    let root = project.path();
    let folder = root.join("docs/development/requirements");
    fs::create_dir_all(&folder).unwrap();
    let source = "**1.** One.\n\\\\## kept\n\n**login.** Prose.\n\n**Note.** Prose.\n\n\
                  **1.2.3-beta.4.** No index.\n\n**2.** Two.\n";
    fs::write(folder.join("general.md"), source).unwrap();
    let (code, output) = run(root, "check");
    assert_eq!(code, 1);
    assert!(output.contains("section general:8: `**1.2.3-beta.4.**` is not a rule"), "{output}");
    assert!(!output.contains("login") && !output.contains("Note"), "{output}");
    let mut server = Server::start(root);
    let arguments = |mut arguments: Value| {
        arguments["project_root"] = json!(root);
        arguments["operation_description"] = json!("test");
        arguments["section"] = json!("general");
        arguments
    };
    let read = server.call("reqlix_get_requirements", arguments(json!({})));
    assert_eq!(read["result"]["structuredContent"]["text"], source);
    let text = "**1.** One.\n\\\\## kept\n\n**login.** Prose.\n\n**Note.** Prose.";
    server.call("reqlix_set_requirements", arguments(json!({ "index": 1, "text": text })));
    assert_eq!(fs::read_to_string(folder.join("general.md")).unwrap(), source);
    server.call("reqlix_set_requirements", arguments(json!({ "index": "2", "text": "Due." })));
    let edited = fs::read_to_string(folder.join("general.md")).unwrap();
    assert_eq!(edited, source.replace("Two.", "Due."));
}
