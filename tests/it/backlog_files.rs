//! Backlog files that are edited by hand and copied through every storage.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::backlog::{
    create_epic, create_item, create_story, data, requirement_arguments, requirement_titles,
};
use crate::client::{Server, project, text};
use crate::copy_and_backup::{files_with_times, run_ok};

const FOLDER: &str = ".reqlore/backlog";

fn write_file(root: &Path, path: &str, text: &str) {
    let path = root.join(FOLDER).join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn get_item(server: &mut Server, reference: &str) -> Value {
    let answer = server.call("get_item", json!({ "reference": reference }));
    data(&answer)["item"].clone()
}

#[test]
fn backlog_500_new_files_are_visible_at_the_next_call() {
    let project = project();
    let root = project.path();
    write_file(root, "epics/EP-001.md", "---\ntitle: Epic\n---\n");
    write_file(root, "stories/US-001.md", "---\ntitle: Story\nepic: EP-001\n---\n");
    let mut server = Server::start(root);
    assert_eq!(requirement_titles(&mut server).len(), 0);
    for round in ["pulled", "pulled again"] {
        for number in 1..=500 {
            let text = format!("---\ntitle: {round} {number}\nuser_story: US-001\n---\n");
            write_file(root, &format!("requirements/REQ-{number:03}.md"), &text);
        }
        let titles = requirement_titles(&mut server);
        assert_eq!(titles.len(), 500);
        let is_new = |(_, title): (&String, &String)| title.starts_with(&format!("{round} "));
        assert!(titles.iter().all(is_new), "{round}");
        let tree = server.call("epic_hierarchy", json!({ "epic": "EP-001" }));
        assert_eq!(data(&tree)["counts"]["requirements"], 500);
    }
    fs::remove_dir_all(root.join(FOLDER).join("requirements")).unwrap();
    assert_eq!(requirement_titles(&mut server).len(), 0);
    let next =
        create_item(&mut server, "create_requirement", requirement_arguments("US-001", "next"));
    assert_eq!(next, "REQ-501", "a number is not reused");
}

/// Writes a backlog with everything that a copy could lose. Deletes the epic with the highest
/// number.
fn write_backlog(root: &Path) {
    let mut server = Server::start(root);
    let first = create_epic(&mut server, "Epic");
    let story = create_story(&mut server, &first, "Story");
    for title in ["one", "two", "three"] {
        create_item(&mut server, "create_requirement", requirement_arguments(&story, title));
    }
    let criteria = json!({ "user_story": story, "description": "GIVEN \u{1f600}\nTHEN x" });
    create_item(&mut server, "create_acceptance_criteria", criteria);
    let link = json!({ "source": "REQ-001", "target": "REQ-002", "type": "blocks" });
    data(&server.call("create_relationship", link));
    write_file(
        root,
        "epics/EP-020.md",
        "\u{feff}---\r\n# mine\r\ntitle: 'By hand' # c\r\nx: [1]\r\n---\r\n",
    );
    write_file(
        root,
        "requirements/REQ-500.md",
        "---\ntitle: No end\nuser_story: US-1\n---\nno line end",
    );
    write_file(root, "epics/notes.md", "no item at all\n");
    write_file(root, "stories/US-002.md", "---\ntitle: [broken\n---\n");
    let last = create_epic(&mut server, "Last");
    assert_eq!(last, "EP-021");
    data(&server.call("delete_item", json!({ "reference": last })));
    data(&server.call("delete_item", json!({ "reference": "REQ-003" })));
    assert!(server.end().1.success());
}

// Catalogue 148
#[test]
fn copy_through_every_storage_keeps_backlog_numbers() {
    let (project, scratch) = (project(), project());
    let (root, folder) = (project.path(), scratch.path());
    write_backlog(root);
    // Removing the highest file must not lower the high-water mark.
    write_file(root, "criteria/AC-040.md", "---\nuser_story: US-001\n---\n\nGIVEN\n");
    let mut server = Server::start(root);
    get_item(&mut server, "AC-040");
    let arguments = json!({ "user_story": "US-001", "description": "GIVEN y" });
    assert_eq!(create_item(&mut server, "create_acceptance_criteria", arguments), "AC-041");
    assert!(server.end().1.success());
    let before = files_with_times(root);
    assert!(before.keys().any(|path| path.contains("/deleted/")), "{:?}", before.keys());
    let source = root.display();
    run_ok(folder, &format!("copy --from fs:{source} --to sqlite:a.db --verify"));
    run_ok(folder, "copy --from sqlite:a.db --to sled:b --verify");
    fs::create_dir(folder.join("c")).unwrap();
    run_ok(folder, "copy --from sled:b --to fs:c --verify");
    let after = files_with_times(&folder.join("c"));
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert_eq!(after, before);
    let root = root.to_str().unwrap();
    for storage in [&format!("fs:{root}"), "sqlite:a.db", "sled:b", "fs:c"] {
        let mut command = crate::client::reqlore();
        command.current_dir(folder).args(["--storage", storage]);
        let mut server = Server::start_as(command, folder);
        assert_eq!(create_epic(&mut server, "Next"), "EP-022", "{storage}");
        let next =
            create_item(&mut server, "create_requirement", requirement_arguments("US-001", "x"));
        assert_eq!(next, "REQ-501", "{storage}");
        let criteria = json!({ "user_story": "US-001", "description": "GIVEN z" });
        assert_eq!(
            create_item(&mut server, "create_acceptance_criteria", criteria),
            "AC-042",
            "{storage}"
        );
        let deleted = server.call("get_item", json!({ "reference": "EP-021" }));
        assert!(text(&deleted).contains("it was deleted on "), "{storage}: {deleted}");
        assert_eq!(get_item(&mut server, "EP-020")["title"], "By hand", "{storage}");
    }
}
