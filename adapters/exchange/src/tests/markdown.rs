//! Markdown documents with and without IDs, and hostile ones.

use reqlore_domain::records::answers::lists::ListedItem;

use super::{ImportedItems, outline, read, try_read, written};
use crate::markdown::MarkdownDocument;

#[test]
fn long_headings_are_refused_with_their_line() {
    let text = format!("# A\n\n## {}\n\n- one\n", "x".repeat(4_001));
    let error = try_read(&MarkdownDocument, &[("a.md", &text)]).unwrap_err();
    assert_eq!(error, "a.md: line 3: the heading has more than 4000 bytes; shorten it");
}

#[test]
fn requirements_with_ids_are_items_wherever_they_stand() {
    let text = "# SRS\n\n## 1. Contents\n\n- [Intro](#intro)\n\n## 2. Functional\n\n\
        ### 2.1 Login\n\nIntro.\n\n- **FR-1**: a\n  - **FR-1.1**: nested\n- [ ] **FR-2** b\n\n\
        **FR-3**: The system:\n- mail\n- post\n\n| ID | Text | P |\n|---|---|---|\n\
        | FR-4 | Fast | P0 |\n| 1.1.1 | | Small |\n| FR-1 | TC-1 | |\n\n\
        #### 2.1.1 FR-5: Log out\n\nAll.\n\n- AC-1: done\n\n### 2.2 Notes\n\n- UTF-8: c\n";
    let imported = read(&MarkdownDocument, &[("a.md", text)]);
    let expected = [
        "epic ",
        "user_story 1. Contents",
        "user_story 2. Functional",
        "user_story 2.1 Login",
        "requirement FR-1",
        "requirement FR-1.1",
        "requirement FR-2",
        "requirement FR-3",
        "requirement FR-4",
        "requirement 1.1.1",
        "requirement FR-5",
        "requirement 2.2 Notes",
    ];
    assert_eq!(outline(&imported), expected);
    let titles: Vec<&str> = imported.items[4..].iter().map(|item| &*item.title).collect();
    let login = ["a", "nested", "b", "The system:", "Fast", "Small", "Log out", "2.2 Notes"];
    assert_eq!(titles, login);
    let table = "Intro.\n\n| ID | Text | P |\n|---|---|---|\n| FR-1 | TC-1 | |";
    assert_eq!(imported.items[3].text, table);
    assert_eq!(imported.items[7].text, "The system:\n- mail\n- post");
    assert_eq!(imported.items[8].text, "Fast | P0");
    assert_eq!(imported.items[10].text, "All.\n\n- AC-1: done");
}

#[test]
fn titles_have_no_marks_of_ids_and_bold_text() {
    let text = "# SRS\n\n## A\n\n- **FR-1: Login:** It works.\n- **FR-2 Reset.** It works.\n\
        - **FR-3** – Dash.\n- [FR-4] Brackets.\n";
    let items = read(&MarkdownDocument, &[("a.md", text)]).items;
    let found: Vec<_> = items[2..].iter().map(|item| (&*item.title, &*item.text)).collect();
    let expected = [
        ("Login: It works.", "**Login:** It works."),
        ("Reset. It works.", "**Reset.** It works."),
        ("Dash.", ""),
        ("Brackets.", ""),
    ];
    assert_eq!(found, expected);
    let ids: Vec<_> = items[2..].iter().map(|item| item.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["FR-1", "FR-2", "FR-3", "FR-4"]);
}

#[test]
fn exported_headings_with_ids_stay_requirements() {
    let text = "<!-- Exported by Reqlore -->\n\nIntro.\n\n# SRS\n\n## A\n\n### FR-1: Log in\n\n\
        - **FR-2**: in its text\n";
    let ImportedItems { items, notes } = read(&MarkdownDocument, &[("a.md", text)]);
    assert_eq!(notes, ["a.md: the text before the first heading is not imported"]);
    let found: Vec<_> = items.iter().map(|item| (&*item.title, &*item.text)).collect();
    let expected = [("SRS", ""), ("A", ""), ("FR-1: Log in", "- **FR-2**: in its text")];
    assert_eq!(found, expected);
}

#[test]
fn exported_kinds_titles_parents_and_texts_are_read_back() {
    let text = "Intro.\n\n# A\n\n- FR-1: x\n\nB\n---\n\n#### C\n\n```\n# code\n```";
    let long = "long ".repeat(60) + "C#";
    let records = [
        ["epic", "One", "", text],
        ["epic", "Two", "", ""],
        ["user_story", "Story", "One", text],
        ["user_story", &long, "Two", ""],
        ["user_story", "Other", "Missing", "- a"],
        ["requirement", "FR-1: Log in", "Story", text],
        ["requirement", "Lone", "Missing", ""],
        ["requirement", "**Log** out", &long, "1. a\n\n## B"],
        ["acceptance_criteria", "c1", "Story", "works\n\n- twice\n# now"],
        ["acceptance_criteria", "c2", "Story", "1.2 seconds"],
        ["acceptance_criteria", "c3", "Missing", "lone"],
        ["decision", "Why", "", "## Context\n\n- b"],
    ];
    let export = records.map(|[kind, title, parent, text]| ListedItem {
        reference_id: title.to_owned(),
        kind: kind.to_owned(),
        title: title.to_owned(),
        parent: Some(parent.to_owned()).filter(|parent| !parent.is_empty()),
        description: Some(text.to_owned()),
        ..ListedItem::default()
    });
    let file = &written(&MarkdownDocument, export.into())[0];
    let items = read(&MarkdownDocument, &[(&file.0, &file.1)]).items;
    let title_of = |source: &String| {
        let parent = items.iter().find(|item| item.source == *source);
        parent.map(|parent| parent.title.clone()).unwrap_or_default()
    };
    let mut found: Vec<[String; 4]> = Vec::new();
    for item in &items {
        let parent = item.parent.as_ref().map(title_of).unwrap_or_default();
        found.push([item.kind.clone(), item.title.clone(), parent, item.text.clone()]);
    }
    let mut expected = records.map(|record| record.map(str::to_owned)).to_vec();
    for [kind, title, parent, _] in &mut expected {
        parent.truncate(if parent == "Missing" { 0 } else { parent.len() });
        title.truncate(if kind == "acceptance_criteria" { 0 } else { title.len() });
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{}", file.1);
}

#[test]
fn repeated_name_is_not_an_id() {
    let text = "# SRS\n\n## A\n\n### B\n\n- **OT-2**: a robot\n- **OT-2 Robot**: the robot\n";
    let imported = read(&MarkdownDocument, &[("a.md", text)]);
    assert_eq!(outline(&imported), ["epic ", "user_story A", "requirement B"]);
}
