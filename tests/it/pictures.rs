//! `reqlore picture`: SVG files of the backlog and of an item's links.

use std::path::Path;

use serde_json::json;

use crate::client::{Server, project, reqlore};
use crate::init::output;

/// Titles that would break a document if they were not escaped.
const HOSTILE: &str = "</title><script>alert(1)</script> & \"quotes\" ]]> 界";

/// Fills a project with two epics, their items, and links between them.
pub(crate) fn fill(root: &Path) {
    let mut server = Server::start(root);
    server.data("create_epic", json!({ "title": "Checkout", "priority": 1 }));
    server.data("create_epic", json!({ "title": HOSTILE, "priority": 2 }));
    for epic in ["EP-001", "EP-002"] {
        for title in ["Pay as a guest", HOSTILE] {
            let story = json!({ "epic": epic, "title": title, "priority": 2 });
            server.data("create_user_story", story);
        }
    }
    for (story, title) in [("US-001", "Require only an e-mail address"), ("US-002", HOSTILE)] {
        let requirement =
            json!({ "user_story": story, "type": "Functional", "priority": 1, "title": title });
        server.data("create_requirement", requirement);
    }
    let relationship = json!({ "source": "REQ-001", "target": "REQ-002", "type": "depends_on" });
    server.data("create_relationship", relationship);
    server.data("update_user_story", json!({ "user_story": "US-001", "status": "Done" }));
    server.data("update_user_story", json!({ "user_story": "US-002", "status": "In Progress" }));
}

fn run(root: &Path, arguments: &[&str]) -> (i32, String, String) {
    output(reqlore().arg("picture").args(arguments).arg("--root").arg(root).current_dir(root))
}

/// Writes a picture and returns its text, parsed as XML without error.
#[track_caller]
fn draw(root: &Path, arguments: &[&str]) -> String {
    let (code, printed, errors) = run(root, &[arguments, &["--out", "p.svg"]].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}");
    assert_eq!(printed, "Wrote p.svg.\n");
    let svg = std::fs::read_to_string(root.join("p.svg")).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let top = document.root_element();
    assert!(top.has_tag_name(("http://www.w3.org/2000/svg", "svg")), "{svg}");
    for name in ["title", "desc"] {
        assert!(top.children().any(|child| child.tag_name().name() == name), "{name}: {svg}");
    }
    for node in document.descendants() {
        assert!(!["script", "image", "foreignObject"].contains(&node.tag_name().name()), "{svg}");
    }
    svg
}

#[test]
fn picture_is_valid_svg_and_equal_on_each_run() {
    let project = project();
    let root = project.path();
    fill(root);
    let (graph, part) = (["graph", "--focus", "REQ-001"], ["tree", "--focus", "us-1"]);
    for arguments in [&graph[..], &["tree"], &part, &["progress"]] {
        let first = draw(root, arguments);
        assert_eq!(first, draw(root, arguments), "{arguments:?}");
        assert!(first.contains("prefers-color-scheme: dark"), "{first}");
    }
}

#[test]
fn picture_graph_shows_hierarchy_and_relationships() {
    let project = project();
    let root = project.path();
    fill(root);
    let graph = draw(root, &["graph", "--focus", "req-1", "--depth", "1"]);
    for part in [">REQ-001 · ", ">US-001 · ", ">REQ-002 · ", ">depends on<", ">user story<"] {
        assert!(graph.contains(part), "{part} is missing in {graph}");
    }
    assert!(!graph.contains("EP-001"), "the epic is at distance 2: {graph}");
    let filtered =
        draw(root, &["graph", "--focus", "REQ-001", "--depth", "3", "--relation", "depends_on"]);
    assert!(filtered.contains("REQ-002") && !filtered.contains("US-001"), "{filtered}");
}

#[test]
fn picture_tree_and_progress_show_the_backlog() {
    let project = project();
    let root = project.path();
    fill(root);
    let tree = draw(root, &["tree"]);
    for part in ["EP-001", "US-004", "REQ-002", "Checkout", "1/2", "&lt;/title&gt;"] {
        assert!(tree.contains(part), "{part} is missing in {tree}");
    }
    let part = draw(root, &["tree", "--focus", "EP-001", "--depth", "2"]);
    assert!(part.contains("US-002") && part.contains("(+ 1 more)"), "{part}");
    assert!(!part.contains("REQ-001") && !part.contains("EP-002"), "{part}");
    let progress = draw(root, &["progress"]);
    for part in ["1/2 done, 1 in progress", "1 of 4 user stories are done.", "0/2 done"] {
        assert!(progress.contains(part), "{part} is missing in {progress}");
    }
}

#[test]
fn picture_invalid_options_are_usage_errors() {
    let project = project();
    let root = project.path();
    for (arguments, error) in [
        (&["graph"][..], "--focus: is missing"),
        (&["tree", "--relation", "blocks"], "--relation: only a graph"),
        (&["progress", "--depth", "1"], "progress shows all epics"),
        (&["graph", "--focus", "EP-001", "--depth", "4"], "4 is not in 1..=3"),
    ] {
        let (code, printed, errors) = run(root, &[arguments, &["--out", "p.svg"]].concat());
        assert_eq!((code, printed.as_str()), (2, ""), "{arguments:?}");
        assert!(errors.contains(error), "{errors}");
    }
    Server::start(root).data("create_epic", json!({ "title": "Checkout", "priority": 1 }));
    let (code, _, errors) = run(root, &["graph", "--focus", "EP-009", "--out", "p.svg"]);
    assert_eq!(code, 1, "{errors}");
    assert!(
        errors.contains("EP-009") && root.join("p.svg").symlink_metadata().is_err(),
        "{errors}"
    );
    let (code, _, errors) = run(root, &["graph", "--focus", "EP-001", "--out", "missing/p.svg"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("--out: missing/p.svg cannot be written"), "{errors}");
}
