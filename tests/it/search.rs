//! Search of the real program in a small project.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Server, project, text};

fn write_file(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A project with a decision, rules, requirements and an issue.
fn tool_library() -> TempDir {
    let project = project();
    let root = project.path();
    for (path, text) in [
        (
            ".ixchel/decisions/dec-1d2c8f.md",
            "---\nid: dec-1d2c8f\ntitle: Prices in whole cents\n---\n\nAmounts are integers of the \
             smallest unit of the currency. Floating point numbers gave us invoices that differed \
             by one cent from the sum of their lines.\n",
        ),
        (
            ".ixchel/issues/iss-77aa01.md",
            "---\nid: iss-77aa01\ntitle: Reminder mails arrive too late\n---\n\nMembers hear of an \
             overdue tool after the fine was charged.\n",
        ),
        (
            "docs/development/requirements/style.md",
            "# Style\n\n**1.** Money is shown with its currency.\n\n**2.** Buttons are named by \
             verbs.\n",
        ),
        (
            ".reqlore/backlog/requirements/REQ-007.md",
            "---\ntitle: Two-person check of chainsaws\n---\n\nTwo volunteers inspect the brake.\n",
        ),
        (
            ".reqlore/backlog/requirements/REQ-008.md",
            "---\ntitle: Stickers on cases\n---\n\nAs REQ-007 says, a sticker names the \
             volunteers.\n",
        ),
    ] {
        write_file(root, path, text);
    }
    project
}

fn search(server: &mut Server, tool: &str, query: &str) -> Value {
    server.data(tool, json!({ "query": query }))
}

fn first_reference(found: &Value) -> &str {
    found["results"][0]["reference_id"].as_str().unwrap()
}

#[test]
fn search_question_without_an_answer_has_uncertain_hits() {
    let project = tool_library();
    let mut server = Server::start(project.path());
    for query in ["How is the greenhouse heated in winter?", "Which airline flies to Lima?"] {
        let found = search(&mut server, "search_global", query);
        assert_eq!(found["total"], 0, "{found}");
        let results = found["results"].as_array().unwrap();
        assert_eq!(results.len(), 6, "{found}");
        assert!(results.iter().all(|result| result["uncertain"] == true), "{found}");
        let hits = search(&mut server, "ixchel_search", query);
        assert_eq!((&hits["total"], &hits["hits"][0]["uncertain"]), (&json!(0), &json!(true)));
    }
    let arguments = json!({ "query": "Which airline flies to Lima?" });
    let answer = server.call("search_global", arguments);
    assert!(text(&answer).starts_with("Found 0 items\nUncertain hits, "), "{answer}");
}

#[test]
fn search_paraphrase_finds_decision_before_short_rule() {
    let project = tool_library();
    let mut server = Server::start(project.path());
    let query = "Why do we not store money as a decimal number?";
    let found = search(&mut server, "search_global", query);
    assert_eq!(first_reference(&found), "dec-1d2c8f", "{found}");
    let query = "Why do borrowers get a penalty before we warn them?";
    let found = search(&mut server, "search_global", query);
    assert_eq!(first_reference(&found), "iss-77aa01", "{found}");
}

#[test]
fn search_found_rule_shows_its_text() {
    let project = tool_library();
    let mut server = Server::start(project.path());
    let answer = server.call("search_global", json!({ "query": "names of buttons" }));
    let line = text(&answer).lines().nth(1).unwrap().to_owned();
    assert_eq!(line, "style:2 (rule): Buttons are named by verbs.");
}

#[test]
fn search_reference_in_any_spelling_ranks_first() {
    let project = tool_library();
    let mut server = Server::start(project.path());
    for query in ["REQ-7", "req-007", "sticker volunteers REQ-0007", "requirements/REQ-007.md"] {
        for tool in ["search_global", "search_requirements"] {
            let found = search(&mut server, tool, query);
            assert_eq!(first_reference(&found), "REQ-007", "{tool} {query}: {found}");
            assert_eq!(found["results"][0]["score"], 1.0);
        }
    }
    for (query, expected) in [("DEC-1D2C8F", "dec-1d2c8f"), ("Style:2", "style:2")] {
        let found = search(&mut server, "search_global", query);
        assert_eq!(first_reference(&found), expected, "{found}");
    }
}

#[test]
fn search_cursor_after_a_change_says_how_to_start_again() {
    let project = tool_library();
    let mut server = Server::start(project.path());
    let mut arguments = json!({ "query": "volunteers", "limit": 1 });
    let first = server.data("search_requirements", arguments.clone());
    assert_eq!(first["total"], 2, "{first}");
    arguments["cursor"] = first["next_cursor"].clone();
    let second = server.data("search_requirements", arguments.clone());
    assert_ne!(first_reference(&second), first_reference(&first));
    // Another process has the same index, so the cursor is valid there.
    let mut other = Server::start(project.path());
    assert_eq!(other.data("search_requirements", arguments.clone()), second);
    write_file(project.path(), ".reqlore/backlog/requirements/REQ-009.md", "---\ntitle: X\n---\n");
    let answer = server.call("search_requirements", arguments.clone());
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(text(&answer).contains("search again without cursor"), "{answer}");
    arguments["cursor"] = json!(5);
    let answer = server.call("search_requirements", arguments);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}
