//! Issues of GitHub, also hostile ones.

use reqlore_domain::ports::exchange::ImportedItems;
use serde_json::json;

use super::{item, read, recognized, try_read};
use crate::github::GitHub;

const ISSUES: &str = r#"[
  {"number": 7, "title": "Log in", "body": "As a user\r\n- [ ] task ![](https://x/y.png)",
   "state": "OPEN", "labels": [{"id": "L", "name": "good first issue", "color": "ff0000"}],
   "assignees": [{"login": "ann", "name": "Ann"}, {"login": "bob"}], "closedAt": null,
   "milestone": {"number": 2, "title": "v1", "description": "First.", "dueOn": null},
   "author": {"login": "ann", "is_bot": false}, "url": "https://x/7", "isPinned": false,
   "closedByPullRequestsReferences": [{"number": 9, "url": "https://x/9"}],
   "comments": [{"body": "Yes"}]},
  {"number": 8, "title": "Log out", "milestone": {"number": 2, "title": "v1"}, "assignees": [],
   "labels": []},
  {"number": 9, "title": "Other", "body": null, "milestone": null}
]"#;

#[test]
fn milestones_are_epics_and_issues_stories() {
    let path = "issues.json";
    let text = "As a user\r\n- [ ] task ![](https://x/y.png)";
    let mut expected: Vec<_> = [
        ["epic", "milestone 2", "", "v1", "First."],
        ["user_story", "7", "milestone 2", "Log in", text],
        ["user_story", "8", "milestone 2", "Log out", ""],
        ["user_story", "9", "", "Other", ""],
    ]
    .map(|one| item(path, one))
    .into();
    expected[3].parent = None;
    let mut set = |index: usize, values| {
        let values: serde_json::Map<_, _> = serde_json::from_value(values).unwrap();
        expected[index].values.extend(values);
    };
    set(0, json!({ "dueOn": "" }));
    let comments = [r#"{"body":"Yes"}"#];
    set(
        1,
        json!({
            "status": "OPEN", "tags": ["good first issue"], "assignee": "ann",
            "other_assignees": ["bob"], "closedAt": "", "author": "ann", "url": "https://x/7",
            "isPinned": false, "closedByPullRequestsReferences": ["https://x/9"],
            "comments": comments,
        }),
    );
    set(2, json!({ "assignee": "", "other_assignees": [], "tags": [] }));
    let notes = "labels and users are imported by name only, other objects by their URL";
    let expected = ImportedItems { items: expected, notes: vec![notes.to_owned()] };
    assert_eq!(read(&GitHub, &[(path, ISSUES), ("README.md", "# x")]), expected);
}

#[test]
fn hostile_issues_are_refused() {
    for (text, problem) in [
        ("", "EOF"),
        (r#"[{"number": 1}]"#, "missing field `title`"),
        (r#"[{"number": "1", "title": "a"}]"#, "invalid type"),
        (r#"[{"number": 1, "title": "a", "milestone": "v1"}]"#, "invalid type: string"),
        ("[1]", "invalid type"),
    ] {
        let error = try_read(&GitHub, &[("a.json", text)]).unwrap_err();
        assert!(error.starts_with("a.json: ") && error.contains(problem), "{text}: {error}");
    }
    assert_eq!(read(&GitHub, &[("a.json", "[]")]).items, []);
    let odd = r#"[{"number": 1, "title": "", "labels": "x", "assignees": {}, "state": [null]}]"#;
    assert_eq!(read(&GitHub, &[("a.json", odd)]).items.len(), 1);
}

#[test]
fn list_of_issues_is_recognized() {
    assert_eq!(recognized("issues.json", ISSUES), "github");
    assert_eq!(recognized("ISSUES.JSON", &format!("\u{feff}{ISSUES}")), "github");
    assert_eq!(recognized("a.json", r#"{"items": []}"#), "json");
    assert_eq!(recognized("a.json", r#"[{"reference_id": 1, "number": 1, "title": 2}]"#), "");
    assert_eq!(recognized("a.json", "[]"), "");
}
