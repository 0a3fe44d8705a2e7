//! Linked work trees and sparse checkouts of real Git, used by servers and commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backlog::{create_epic, create_story};
use crate::client::{Server, project, reqlore, set, text};
use crate::git_merges::run_git;
use crate::init::output;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn server(root: &Path) -> Server {
    Server::start_in(root, &[("PATH", Path::new(PATH))])
}

/// A repository with documents of each toolset, in a folder for work trees.
fn repository() -> (TempDir, PathBuf) {
    let folder = project();
    let main = folder.path().canonicalize().unwrap().join("main");
    for (path, body) in [
        ("src/main.rs", "fn main() {}\n"),
        (".ixchel/decisions/dec-1a2b3c.md", "---\nid: dec-1a2b3c\ntitle: Rust\n---\n# Rust\n"),
        (".knowledge/config.yaml", "version: \"1\"\ndocsets: []\n"),
        ("docs/development/requirements/general.md", "# general\n\n**1.** One.\n"),
    ] {
        fs::create_dir_all(main.join(path).parent().unwrap()).unwrap();
        fs::write(main.join(path), body).unwrap();
    }
    run_git(&main, &["init", "--quiet"]);
    let mut server = server(&main);
    let epic = create_epic(&mut server, "First");
    create_story(&mut server, &epic, "Story");
    assert!(server.end().1.success());
    run_git(&main, &["add", "--all"]);
    run_git(&main, &["commit", "--quiet", "--message", "first"]);
    (folder, main)
}

#[test]
fn servers_in_work_trees_never_issue_the_same_reference() {
    const ITEMS: usize = 25;
    let (folder, main) = repository();
    let linked = folder.path().canonicalize().unwrap().join("linked");
    // Not committed, so the new work tree does not have it.
    let mut first = server(&main);
    assert_eq!(create_epic(&mut first, "Uncommitted"), "EP-002");
    let deleted = create_epic(&mut first, "Deleted");
    first.data("delete_item", json!({ "reference": deleted }));
    run_git(&main, &["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    let mut second = server(&linked);
    let create_all = |server: &mut Server| -> Vec<String> {
        (0..ITEMS).map(|number| create_epic(server, &format!("Epic {number}"))).collect()
    };
    let (ours, theirs) = thread::scope(|scope| {
        let other = scope.spawn(|| create_all(&mut second));
        (create_all(&mut first), other.join().unwrap())
    });
    let all: BTreeSet<&String> = ours.iter().chain(&theirs).collect();
    let expected: BTreeSet<String> =
        (4..4 + 2 * ITEMS).map(|number| format!("EP-{number:03}")).collect();
    assert_eq!(all, expected.iter().collect());
    assert!(second.end().1.success());
    run_git(&main, &["worktree", "remove", "--force", linked.to_str().unwrap()]);
    assert_eq!(create_epic(&mut first, "Last"), format!("EP-{:03}", 4 + 2 * ITEMS));
}

const BACKLOG: &str = ".reqlore/backlog";
const GRAPH: &str = ".ixchel";
const SECTIONS: &str = "docs/development/requirements";
const ALL: &str = ".ixchel .knowledge .reqlore/backlog docs/development/requirements";

/// Calls, and the folders that they need.
fn calls() -> Vec<(&'static str, &'static str, Value)> {
    let changes = json!([{ "create": "epic", "title": "New", "priority": 2 }]);
    vec![
        (BACKLOG, "list_epics", json!({})),
        (BACKLOG, "list_items", json!({ "kind": "epic" })),
        (BACKLOG, "get_item", json!({ "reference": "EP-001" })),
        (BACKLOG, "epic_hierarchy", json!({ "epic": "EP-001" })),
        (BACKLOG, "get_user_story_requirements", json!({ "user_story": "US-001" })),
        (BACKLOG, "get_history", json!({ "reference": "EP-001" })),
        (BACKLOG, "create_epic", json!({ "title": "New", "priority": 2 })),
        (BACKLOG, "update_epic", json!({ "epic": "EP-001", "title": "New" })),
        (BACKLOG, "delete_item", json!({ "reference": "EP-001", "cascade": true })),
        (BACKLOG, "apply_changes", json!({ "changes": changes })),
        (GRAPH, "list_items", json!({ "kind": "decision" })),
        (GRAPH, "ixchel_context", json!({ "id": "dec-1a2b3c" })),
        (GRAPH, "ixchel_show", json!({ "id": "dec-1a2b3c" })),
        (GRAPH, "ixchel_graph", json!({ "id": "dec-1a2b3c" })),
        (GRAPH, "ixchel_tags", json!({})),
        (GRAPH, "ixchel_create", json!({ "kind": "decision", "title": "New" })),
        (SECTIONS, "reqlix_get_requirements", json!({ "section": "general" })),
        (SECTIONS, "reqlix_set_requirements", set(9, "Nine.")),
        (".knowledge", "list_docsets", json!({})),
        (ALL, "search_global", json!({ "query": "first" })),
        (ALL, "ixchel_search", json!({ "query": "rust" })),
    ]
}

/// The end of each error: the next step.
fn next_step(folders: &str) -> String {
    format!("is not checked out; run `git sparse-checkout add {folders}` in the repository's root")
}

#[test]
fn sparse_checkout_is_never_an_empty_project() {
    let (_folder, main) = repository();
    run_git(&main, &["sparse-checkout", "set", "src"]);
    let mut running = server(&main);
    for (folders, tool, arguments) in calls() {
        let answer = running.call(tool, arguments);
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
        assert!(text(&answer).ends_with(&next_step(folders)), "{tool}: {answer}");
    }
    let answer = running.request("resources/read", json!({ "uri": "epic://EP-001" }));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.ends_with(&next_step(BACKLOG)), "{answer}");
    for (folders, command) in [
        (SECTIONS, "check"),
        (BACKLOG, "list epics"),
        (BACKLOG, "show EP-001"),
        (BACKLOG, "tree"),
        (BACKLOG, "add epic New"),
        (ALL, "backup out"),
    ] {
        let mut reqlore = reqlore();
        reqlore.env("PATH", PATH).current_dir(&main).args(command.split(' '));
        let (code, printed, errors) = output(&mut reqlore);
        let first = folders.split(' ').next().unwrap();
        let is_refused = code == 1 && errors.contains(&format!("{first}: is not checked out"));
        assert!(is_refused && printed.is_empty(), "{command}: {code} {printed}{errors}");
    }
    assert!(!main.join(".reqlore/backlog").is_dir(), "something was written");
    run_git(&main, &["sparse-checkout", "add", BACKLOG]);
    assert_eq!(running.data("list_epics", json!({}))["total"], 1);
    assert_eq!(create_epic(&mut running, "Second"), "EP-002");
    run_git(&main, &["sparse-checkout", "disable"]);
    let found = running.call("ixchel_search", json!({ "query": "rust" }));
    assert!(text(&found).contains("dec-1a2b3c"), "{found}");
}
