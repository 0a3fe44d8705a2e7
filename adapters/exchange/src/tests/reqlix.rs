//! Requirements of reqlix in both forms, also hostile ones.

use reqlore_domain::ports::exchange::ImportedItems;
use serde_json::json;

use super::{item, outline, read, recognized};
use crate::reqlix::Reqlix;

const PATH: &str = "docs/development/requirements/general.md";
const LATER: &str = "Read me first.\r\n\r\n# Errors\r\n\r\nFor all tools.\r\n\r\n\
    ## G.E.1: Errors name the way out\r\n\r\nAn error says what to do.\r\n\r\n\
    ### Example\r\n\r\n```\r\n# Not a chapter\r\n## G.E.9: Not a requirement\r\n```\r\n\r\n\
    ## G.E.2: No secrets\r\n\r\n# Empty\r\n\r\n# Storage\r\n## G.STORE_A.1: A file\r\nText: x\r\n";
const FIRST: &str = "**1.** Above all headings.\n\n# Testing\n\nIntroduction.\n\n\
    **2.** All tests\nrun on a clean\nsystem:\n\n- one\n- two\n\n**2.1.** Short.\n\nEnd\n\n\
    ```\n**3.** in code\n```\n\n## Coverage\n\n**2.1.** Again.\n\n**4.**\n\n## Notes\n\n\
    **Note.** Only a word.\n";

#[test]
fn chapters_are_stories_and_headings_requirements() {
    let files = [(PATH, LATER), ("docs/development/requirements/AGENTS.md", "# Instructions")];
    let imported = read(&Reqlix, &[files[0], files[1], ("README.md", "# Read me")]);
    let [story, rule] = ["user_story", "requirement"];
    let text = "An error says what to do.\n\n### Example\n\n\
        ```\n# Not a chapter\n## G.E.9: Not a requirement\n```";
    let items = [
        ["epic", "", "", "general", "Read me first.\n\n# Empty"],
        [story, "Errors", "", "Errors", "For all tools."],
        [rule, "G.E.1", "Errors", "G.E.1: Errors name the way out", text],
        [rule, "G.E.2", "Errors", "G.E.2: No secrets", ""],
        [story, "Storage", "", "Storage", ""],
        [rule, "G.STORE_A.1", "Storage", "G.STORE_A.1: A file", "Text: x"],
    ];
    let expected = ImportedItems {
        items: items.into_iter().map(|one| item(PATH, one)).collect(),
        notes: vec!["Markdown files that are not imported, such as AGENTS.md: 2".to_owned()],
    };
    assert_eq!(imported, expected);
}

#[test]
fn numbers_in_bold_are_requirements_below_their_heading() {
    let imported = read(&Reqlix, &[("testing.md", FIRST)]);
    let text = "All tests\nrun on a clean\nsystem:\n\n- one\n- two";
    let [story, rule] = ["user_story", "requirement"];
    let items = [
        ["epic", "", "", "testing", "## Notes\n\n**Note.** Only a word."],
        [rule, "/1", "", "Above all headings.", ""],
        [story, "Testing", "", "Testing", "Introduction."],
        [rule, "Testing/2", "Testing", "All tests run on a clean system:", text],
        [rule, "Testing/2.1", "Testing", "Short.", "Short.\n\nEnd\n\n```\n**3.** in code\n```"],
        [story, "Coverage", "", "Coverage", ""],
        [rule, "Coverage/2.1", "Coverage", "Again.", ""],
        [rule, "Coverage/4", "Coverage", "4", ""],
    ];
    let mut expected: Vec<_> = items.into_iter().map(|one| item("testing.md", one)).collect();
    for item in expected.iter_mut().filter(|item| item.kind == rule) {
        let index = item.source.rsplit_once('/').unwrap().1;
        item.values.insert("index".to_owned(), json!(index));
    }
    assert_eq!(imported, ImportedItems { items: expected, notes: Vec::new() });
}

#[test]
fn hostile_headings_keep_all_their_text() {
    let text = "## G.E.1: Above\n\nx\n\n# \n## G.E.1: Below no name\n## G.E.x: Text\n## G.1: Text\n\
        ## g.e.1: Text\n### G.E.2: Deep\n# A\n## G.A.1:\n# A\n## G.A.1: B\n> # Quoted\n";
    let imported = read(&Reqlix, &[("a.md", text)]);
    let expected = [
        "epic ",
        "requirement G.E.1",
        "requirement G.E.1~2",
        "user_story A",
        "requirement G.A.1",
        "user_story A~2",
        "requirement G.A.1~2",
    ];
    assert_eq!(outline(&imported), expected);
    let kept = "## G.E.x: Text\n\n## G.1: Text\n\n## g.e.1: Text\n\n### G.E.2: Deep";
    assert_eq!(imported.items[0].text, kept);
    assert_eq!(imported.items[4].title, "G.A.1:");
    assert_eq!(outline(&read(&Reqlix, &[("empty.md", "")])), ["epic "]);
    assert_eq!(outline(&read(&Reqlix, &[("AGENTS.md", LATER), ("a.csv", "a")])).len(), 0);
}

#[test]
fn files_in_its_folders_or_with_indices_are_recognized() {
    assert_eq!(recognized(PATH, ""), "reqlix");
    assert_eq!(recognized("a/docs/dev/req/general.md", ""), "reqlix");
    assert_eq!(recognized("general.md", LATER), "reqlix");
    for (path, text) in [
        ("docs/dev/req/AGENTS.md", LATER),
        ("docs/dev/req/old/general.md", "# General"),
        ("mydocs/dev/req/general.md", FIRST),
        ("a.md", "```\n## G.E.1: In code\n```\n"),
        ("CHANGELOG.md", "# Changes\n\n## 1.2.0: News\n\n## A.1: Appendix\n"),
    ] {
        assert_eq!(recognized(path, text), "markdown", "{path}");
    }
    assert_eq!(recognized("specs/a/spec.md", "### Requirement: A\n\n## G.E.1: B\n"), "openspec");
    assert_eq!(recognized(".kiro/specs/a/requirements.md", LATER), "kiro");
}
