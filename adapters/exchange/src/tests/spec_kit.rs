//! Features of spec-kit, also older and hostile ones.

use reqlore_domain::ports::exchange::ImportedItems;
use serde_json::json;

use super::{item, outline, read, recognized};
use crate::spec_kit::SpecKit;

const PATH: &str = "specs/001-login/spec.md";
const SPEC: &str = "# Feature Specification: Log in\n\n**Status**: Draft  \n**Input**: \"x\"\n\n\
    ## User Scenarios & Testing *(mandatory)*\n\n### User Story 1 - Password (Priority: P1)\n\n\
    People log in.\n\n**Why this priority**: Safe.\n\n**Acceptance Scenarios**:\n\n\
    1. **Given** a user, **When** wrong,\n   **Then** asked\n2. **Given** b\n\n---\n\n\
    ### User Story 2a - Session (Priority: P0)\n\nIt ends.\n\n### Edge Cases\n\n\
    - What happens when x?\n\n## Requirements *(mandatory)*\n\n### Functional Requirements\n\n\
    - **FR-001**: System MUST ask [NEEDS CLARIFICATION: how?]\n- **FR-002**: A\n  second line\n\n\
    ### Key Entities\n\n- **User**: a person\n\n## Success Criteria *(mandatory)*\n\n\
    ### Measurable Outcomes\n\n- **SC-001**: 95 % succeed\n";

#[test]
fn feature_has_stories_with_criteria_and_requirements() {
    let epic = "**Status**: Draft  \n**Input**: \"x\"\n\n\
        ## User Scenarios & Testing *(mandatory)*\n\n### Edge Cases\n\n- What happens when x?\n\n\
        ## Requirements *(mandatory)*\n\n### Key Entities\n\n- **User**: a person";
    let [story, criterion, requirement] = ["user_story", "acceptance_criteria", "requirement"];
    let text = "People log in.\n\n**Why this priority**: Safe.";
    let scenario = "**Given** a user, **When** wrong,\n**Then** asked";
    let asked = "System MUST ask [NEEDS CLARIFICATION: how?]";
    let mut expected: Vec<_> = [
        ["epic", "", "", "Log in", epic],
        [story, "User Story 1", "", "Password", text],
        [criterion, "User Story 1/1", "User Story 1", "", scenario],
        [criterion, "User Story 1/2", "User Story 1", "", "**Given** b"],
        [story, "User Story 2a", "", "Session", "It ends."],
        [requirement, "FR-001", "", asked, ""],
        [requirement, "FR-002", "", "A", "A\nsecond line"],
        [requirement, "SC-001", "", "95 % succeed", ""],
    ]
    .map(|one| item(PATH, one))
    .into();
    for (index, name, value) in
        [(1, "priority", "1"), (4, "priority", "P0"), (7, "type", "Non-Functional")]
    {
        expected[index].values.insert(name.to_owned(), json!(value));
    }
    let notes =
        "Markdown files that are not imported, such as plans, tasks, research and checklists: 1"
            .to_owned();
    let files = [("specs/001-login/plan.md", "# Plan"), (PATH, SPEC)];
    let expected = ImportedItems { items: expected, notes: vec![notes] };
    assert_eq!(read(&SpecKit, &files), expected);
}

#[test]
fn hostile_and_older_documents_keep_all_their_text() {
    let spec = "---\nkey: x\n---\n\n# 登录\n\n## Clarifications\n\n### Session 2026-03-01\n\n\
        - Q: a?\n\n### 用户故事 1 - 标题（优先级：P2）\n\n### US-1: B (beta)\n\n| ID | Text |\n|---|---|\n\n\
        ## Requirements\n\n**FR-1**: a\n**FR-1**: b\n\n#### FR-2: Title\n\nAll.\n\n\
        | ID | Text |\n|---|---|\n| NFR-3 | Fast | P0 |\n\n# Two\n- **UTF-8**: c\n- **FR-4**\n";
    let imported = read(&SpecKit, &[("spec.md", spec)]);
    let expected = [
        "epic ",
        "user_story 用户故事 1",
        "user_story US-1",
        "requirement FR-1",
        "requirement FR-1~2",
        "requirement FR-2",
    ];
    assert_eq!(outline(&imported), expected);
    let titles: Vec<&str> = imported.items.iter().map(|item| &*item.title).collect();
    assert_eq!(titles, ["登录", "标题", "B (beta)", "a", "b", "Title"]);
    assert!(imported.items[5].text.ends_with("| NFR-3 | Fast | P0 |"), "{imported:?}");
    let epic = "---\n\nkey: x\n---\n\n## Clarifications\n\n### Session 2026-03-01\n\n- Q: a?\n\n\
        # Two\n\n- **UTF-8**: c\n- **FR-4**";
    assert_eq!(imported.items[0].text, epic);
    let table = "## Success\n\n| ID | Text |\n|---|---|\n| SC-3 | Fast |\n";
    let table = read(&SpecKit, &[("spec.md", table)]);
    assert_eq!(outline(&table), ["epic ", "requirement SC-3"]);
    assert_eq!(outline(&read(&SpecKit, &[(PATH, "")])), ["epic "]);
}

#[test]
fn spec_with_user_scenarios_is_recognized() {
    assert_eq!(recognized(PATH, SPEC), "spec-kit");
    assert_eq!(recognized("spec.md", "## User Scenarios\n"), "spec-kit");
    assert_eq!(recognized(PATH, "### Requirement: A\n"), "openspec");
    assert_eq!(recognized(PATH, "# A\n"), "markdown");
    assert_eq!(recognized("specs/001-login/plan.md", SPEC), "markdown");
}

#[test]
fn requirements_are_read_from_aligned_tables() {
    let text = "# Feature Specification: A\n\n## Requirements\n\n| ID | Text |\n|---|---|\n\
        | **FR-001** | Fast |\n| FR-002     | Small |\n\n### USB 3 ports\n";
    let items = read(&SpecKit, &[("specs/001-a/spec.md", text)]).items;
    let titles: Vec<&str> = items.iter().map(|item| &*item.title).collect();
    assert_eq!(titles, ["A", "Fast", "Small"]);
}
