//! `import_items`: a pasted specification becomes items in one commit.

use serde_json::{Value, json};

use crate::client::{Server, project, storage_argument, text};

const SPEC: &str = "# login Specification\n\n## Purpose\nPeople log in.\n\n## Requirements\n\n\
    ### Requirement: Password\nThe system SHALL ask.\n\n### Requirement: Session\nIt ends.\n";

fn arguments(content: &str) -> Value {
    json!({ "path": "specs/login/spec.md", "content": content })
}

#[test]
fn pasted_specification_is_planned_applied_and_updated() {
    for storage in ["fs", "sqlite", "sled", "postgres"] {
        let project = project();
        let mut server =
            Server::start_with(project.path(), &["--storage", &storage_argument(storage)]);
        let mut dry_run = arguments(SPEC);
        dry_run["dry_run"] = json!(true);
        let planned = server.call("import_items", dry_run);
        let shown = text(&planned);
        assert!(shown.contains("Create: 4"), "{shown}");
        assert!(shown.contains("requirement \"Password\" (openspec:specs/login/spec.md#Password)"));
        let plan = planned["result"]["structuredContent"]["plan"].clone();
        assert_eq!(server.data("list_items", json!({ "kind": "epic" }))["total"], 0);
        assert_eq!(server.data("apply_changes", json!({ "plan": plan }))["count"], 4);
        let same = server.call("import_items", arguments(SPEC));
        assert_eq!(same["result"]["structuredContent"]["count"], 0);
        assert!(text(&same).contains("Unchanged: 4"), "{same}");
        let edited = SPEC.replace("SHALL ask", "SHALL ask twice");
        let updated = server.data("import_items", arguments(&edited));
        assert_eq!(
            (&updated["count"], &updated["results"][0]["id"]),
            (&json!(1), &json!("REQ-001"))
        );
        let item = server.data("get_item", json!({ "reference": "REQ-001" }));
        assert!(item.to_string().contains("The system SHALL ask twice."), "{item}");
    }
}

#[test]
fn pasted_items_have_their_links_in_the_same_commit() {
    let project = project();
    let mut server = Server::start(project.path());
    let sheet = "id,kind,title,depends_on\n1,story,A,2\n2,story,B,\n";
    let content = json!({ "path": "items.csv", "content": sheet });
    assert_eq!(server.data("import_items", content)["count"], 4);
    let story = server.data("get_item", json!({ "reference": "US-001" }));
    assert!(story.to_string().contains("US-002"), "{story}");
}

#[test]
fn pasted_content_that_does_not_fit_changes_nothing() {
    let project = project();
    let mut server = Server::start(project.path());
    let rows: Vec<String> = (0..1_001).map(|number| format!("{number},{number}")).collect();
    let many = rows.join("\n");
    for (path, content, format, expected) in [
        ("a.csv", "x".repeat((1 << 20) + 1), "csv", "content: larger than 1 MiB; split it"),
        (
            "a.csv",
            format!("id,title\n{many}"),
            "csv",
            "content: it needs 1003 changes; at most 1000",
        ),
        ("a.csv", "id,title\n1,x\u{7}\n".to_owned(), "csv", "'\\u{7}' is not allowed"),
        ("a.txt", SPEC.to_owned(), "", "format: it was not recognized; use one of openspec,"),
        ("a.md", SPEC.to_owned(), "word", "format: \"word\" is not one of openspec,"),
        ("a.md", SPEC.to_owned(), "openspec", "no item in the format openspec; correct path"),
    ] {
        let mut arguments = json!({ "path": path, "content": content });
        if !format.is_empty() {
            arguments["format"] = json!(format);
        }
        let answer = server.call("import_items", arguments);
        assert!(text(&answer).contains(expected), "{expected}: {answer}");
        assert!(!project.path().join(".reqlore/backlog").try_exists().unwrap(), "{expected}");
    }
}
