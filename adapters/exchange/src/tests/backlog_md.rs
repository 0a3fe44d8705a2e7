//! Tasks of Backlog.md, also moved and hostile ones.

use serde_json::{Value, json};

use super::{item, read, recognized, try_read};
use crate::backlog_md::BacklogMd;

const TASK: &str = "---\nid: TASK-1.1\ntitle: \"Log: in\"\nstatus: To Do\nassignee:\n  - '@ann'\n  \
    - '@bob'\nlabels: [a, b]\ndependencies: [TASK-2, task-9]\nmilestone: m-1\npriority: high\n\
    parent_task_id: TASK-1\n---\n\n## Description\n\nText.\n\n### Part\n- x\n\n\
    ## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [x] #1 xyz works\n  twice\n- [ ] old\n\
    <!-- AC:END -->\n\n## Definition of Done\n- [ ] #1 Tested\n";
const FILES: [(&str, &str); 4] = [
    ("backlog/completed/task-2 - B.md", "---\nid: task-2\ntitle: B\nmilestone: m-1\n---\n"),
    ("backlog/drafts/draft-1 - C.md", "---\nid: draft-1\ntitle: C\n---\n"),
    ("backlog/milestones/m-1 - first.md", "---\nid: m-1\ntitle: First\n---\n\nGoal.\n"),
    ("backlog/tasks/task-1.1 - Log-in.md", TASK),
];

#[test]
fn tasks_are_stories_with_criteria_and_dependencies() {
    let text = "## Description\n\nText.\n\n### Part\n- x\n\n## Definition of Done\n- [ ] #1 Tested";
    let [story, criterion] = ["user_story", "acceptance_criteria"];
    let mut expected = [
        [story, "task-2", "milestone m-1", "B", ""],
        ["epic", "milestone m-1", "", "First", "Goal."],
        [story, "task-1.1", "milestone m-1", "Log: in", text],
        [criterion, "task-1.1/1", "task-1.1", "", "xyz works\ntwice"],
        [criterion, "task-1.1/2", "task-1.1", "", "old"],
    ]
    .map(|one| item("backlog", one));
    let ids = [(0, json!({ "id": "task-2" })), (1, json!({ "id": "m-1" }))];
    let values = json!({
        "id": "TASK-1.1", "status": "To Do", "assignee": "@ann", "other_assignees": ["@bob"],
        "tags": ["a", "b"], "priority": "high", "parent_task_id": "TASK-1",
    });
    let marks = [(3, json!({ "status": "Met" })), (4, json!({ "status": "Open" }))];
    for (index, values) in ids.into_iter().chain([(2, values)]).chain(marks) {
        let Value::Object(values) = values else { unreachable!() };
        expected[index].values.extend(values);
    }
    let tasks = ["task-2", "task-9"].map(str::to_owned).into();
    expected[2].links.insert("depends_on".to_owned(), tasks);
    let imported = read(&BacklogMd, &FILES);
    assert_eq!(imported.items, expected);
    let note = "Markdown files that are not imported, such as drafts, archives and documents: 1";
    assert_eq!(imported.notes, [note]);
}

#[test]
fn hostile_tasks_keep_their_text_and_valid_lines() {
    let task = "---\nid: 7\ntitle: A\nmilestone: Some Day\ndependencies: []\nassignee:\n---\n\
        Before\n## Acceptance Criteria\n- [ ] #1 a\n- [ ] #1 b\n\nProse.\n## Acceptance Criteria\n";
    let imported = read(&BacklogMd, &[("tasks/7.md", task), ("a.md", ""), ("tasks/b.md", "# B")]);
    let sources: Vec<&str> = imported.items.iter().map(|item| &*item.source).collect();
    let milestone = "backlog#milestone some day";
    assert_eq!(sources, ["backlog#7", "backlog#7/1", "backlog#7/1~2", milestone]);
    assert_eq!(imported.items[0].text, "Before\n## Acceptance Criteria\n\nProse.");
    assert_eq!(imported.items[3].title, "Some Day");
    let note = "files without an ID that are not imported: 1: tasks/b.md";
    assert_eq!(imported.notes[1], note);
    let quoted = "---\nid: 8\ntitle: B\nassignee:\n  - @ann\ndependencies: TASK-2, task-2\n---\n\
        ## Acceptance Criteria\n- [ ] AC-1: works\n";
    let story = &read(&BacklogMd, &[("tasks/8.md", quoted)]).items;
    assert_eq!(
        (&story[0].values["assignee"], story[0].links["depends_on"].len()),
        (&json!("@ann"), 2)
    );
    assert_eq!(story[1].text, "AC-1: works");
    let invalid = "---\nid: 8\ntitle: B\nlabels: [a\n---\n";
    let salvaged = read(&BacklogMd, &[("tasks/8.md", invalid)]);
    assert_eq!((&*salvaged.items[0].title, salvaged.items.len()), ("B", 1));
    assert!(salvaged.notes[0].starts_with("tasks/8.md:"), "{salvaged:?}");
    assert_eq!(read(&BacklogMd, &[("tasks/9.md", "---\nid: [\n---\n")]).items, []);
}

#[test]
fn criteria_are_the_ticked_items_of_their_section() {
    let task = "---\nid: 1\ntitle: A\n---\n## Acceptance Criteria\n<!-- AC:BEGIN -->\n- plain\n\n\
        ### Group\n - [x] #1 a\n- [~] #2 b\n<!-- AC:END -->\n\n## Acceptance Criteria Mapping\n\
        - AC #1: Step 1\n";
    let items = read(&BacklogMd, &[("tasks/1.md", task)]).items;
    let kept = "## Acceptance Criteria\n\n- plain\n\n### Group\n\n## Acceptance Criteria \
        Mapping\n- AC #1: Step 1";
    assert_eq!(items[0].text, kept);
    let criteria: Vec<_> =
        items[1..].iter().map(|one| (&*one.text, &one.values["status"])).collect();
    assert_eq!(criteria, [("a", &json!("Met")), ("b", &json!("~"))]);
}

#[test]
fn repeated_task_id_names_both_files() {
    let task = "---\nid: 1\ntitle: A\n---\n";
    let error = try_read(&BacklogMd, &[("tasks/a.md", task), ("tasks/b.md", task)]).unwrap_err();
    assert_eq!(error, "tasks/b.md: tasks/a.md has the ID 1 too; change one of them");
}

#[test]
fn empty_keys_are_empty_texts() {
    let files = [("tasks/a.md", "---\nid: 1\ntitle:\nmilestone:\n---\nText\n")];
    let items = read(&BacklogMd, &files).items;
    assert_eq!((&*items[0].title, &items[0].parent, items.len()), ("", &None, 1));
}

#[test]
fn task_with_front_matter_is_recognized() {
    assert_eq!(recognized("backlog/tasks/task-1 - A.md", TASK), "backlog-md");
    assert_eq!(recognized("backlog/archive/tasks/task-1 - A.md", TASK), "markdown");
    assert_eq!(recognized("tasks/a.md", "# A\n"), "markdown");
}
