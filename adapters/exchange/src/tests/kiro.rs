//! Specifications of Kiro, also translated and hostile ones.

use reqlore_domain::ports::exchange::ImportedItems;

use super::{item, outline, read, recognized};
use crate::kiro::Kiro;

const PATH: &str = ".kiro/specs/login/requirements.md";
const SPEC: &str = "# Requirements Document\n\n## Introduction\n\nPeople log in.\n\n\
    ## Glossary\n\n- **User**: a person\n\n## Requirements\n\n\
    ### Requirement 1\n\n**User Story:** As a user, I want a password, so that I am safe.\n\n\
    #### Acceptance Criteria\n\n1. WHEN it is wrong THEN the system SHALL ask again\n   \
    and count:\n   - one\n2. THE system SHALL `hash` it\n\n\
    ### Requirement 2: Session\n\n**User Story:** As a user, I want a session.\n\n\
    ```\n### Requirement 3: in code\n1. no criterion\n```\n\n\
    #### Acceptance Criteria\n\n2.1. WHEN idle THEN it SHALL end\n**2.2** IF x THEN y\n\n\
    Not numbered.\n\n## Notes\n\n1. A list\n";

#[test]
fn requirements_are_stories_and_numbered_items_criteria() {
    let files = [(".kiro/specs/login/design.md", "# Design"), (PATH, SPEC), ("a.csv", "a")];
    let epic = "People log in.\n\n## Glossary\n\n- **User**: a person\n\n## Notes\n\n1. A list";
    let first = "**User Story:** As a user, I want a password, so that I am safe.";
    let second = "**User Story:** As a user, I want a session.\n\n```\n### Requirement 3: in \
        code\n1. no criterion\n```\n\n#### Acceptance Criteria\n\n\nNot numbered.";
    let title = "As a user, I want a password, so that I am safe.";
    let [story, criterion] = ["user_story", "acceptance_criteria"];
    let wrong = "WHEN it is wrong THEN the system SHALL ask again\nand count:\n- one";
    let items = [
        ["epic", "", "", "login", epic],
        [story, "Requirement 1", "", title, first],
        [criterion, "Requirement 1/1", "Requirement 1", "", wrong],
        [criterion, "Requirement 1/2", "Requirement 1", "", "THE system SHALL `hash` it"],
        [story, "Requirement 2", "", "Session", second],
        [criterion, "Requirement 2/2.1", "Requirement 2", "", "WHEN idle THEN it SHALL end"],
        [criterion, "Requirement 2/2.2", "Requirement 2", "", "IF x THEN y"],
    ];
    let expected = ImportedItems {
        items: items.into_iter().map(|one| item(PATH, one)).collect(),
        notes: vec![
            "Markdown files that are not imported, such as designs, tasks and steering: 1"
                .to_owned(),
        ],
    };
    assert_eq!(read(&Kiro, &files), expected);
}

#[test]
fn hostile_and_translated_documents_keep_all_their_text() {
    let spec = "## 需求\n\n### 需求 1 - 股票\n\n**用戶故事：** 作為\n\n#### 驗收標準\n\n1. WHEN\n1. 系統\n\n\
        ### US-1： **A**\n1. a\n\n### US-1: B\n1. b\n\n### Phase 3\n- c\n\n\
        ### a11y\n1. d\n\n### Requirement 2\n\n### 2026-01-02\nx\n### Two\n";
    let imported = read(&Kiro, &[("requirements.md", spec)]);
    let expected = [
        "epic ",
        "user_story 需求 1",
        "acceptance_criteria 需求 1/1",
        "acceptance_criteria 需求 1/1~2",
        "user_story US-1",
        "acceptance_criteria US-1/1",
        "user_story US-1~2",
        "acceptance_criteria US-1/1~2",
        "user_story Requirement 2",
    ];
    assert_eq!(outline(&imported), expected);
    let titles: Vec<&str> = imported.items.iter().map(|item| &*item.title).collect();
    assert_eq!(titles, ["requirements", "股票", "", "", "A", "", "B", "", "Requirement 2"]);
    let phase = "## 需求\n\n### Phase 3\n\n- c\n\n### a11y\n\n1. d";
    let text = format!("{phase}\n\n### 2026-01-02\n\nx\n\n### Two");
    assert_eq!(imported.items[0].text, text);
    assert_eq!(imported.items[1].text, "**用戶故事：** 作為");
    let empty = read(&Kiro, &[(PATH, "")]);
    assert_eq!(outline(&empty), ["epic "]);
}

#[test]
fn requirements_below_kiro_or_with_user_stories_are_recognized() {
    assert_eq!(recognized(PATH, ""), "kiro");
    assert_eq!(recognized("login/requirements.md", SPEC), "kiro");
    let template = ".kiro/settings/templates/specs/requirements.md";
    assert_eq!(outline(&read(&Kiro, &[(PATH, ""), (template, SPEC)])), ["epic "]);
    assert_eq!(recognized("docs/requirements.md", "# Requirements"), "markdown");
    assert_eq!(recognized(".kiro/specs/login/old-requirements.md", SPEC), "markdown");
}

#[test]
fn story_keeps_last_lines_ids_and_decimals() {
    let text = "# Requirements Document\n\n### Requirement 2: Files\n\nAt most\n1.5 GB.\n\n\
        #### Acceptance Criteria\n\n1. UTF-8: names are kept\n\n**Must be fast**\n\n\
        ### OAuth 2.0 support\n\nLater.\n";
    let items =
        read(&Kiro, &[(".kiro/specs/a/requirements.md", text), ("docs/requirements.md", text)])
            .items;
    assert_eq!(items.len(), 3, "{items:?}");
    assert_eq!(items[0].text, "### OAuth 2.0 support\n\nLater.");
    let kept = "At most\n1.5 GB.\n\n#### Acceptance Criteria\n\n**Must be fast**";
    assert_eq!(items[1].text, kept);
    assert_eq!(items[2].text, "UTF-8: names are kept");
}
