//! Documents of StrictDoc, also older and hostile ones, and exported records.

use std::collections::BTreeMap;

use reqlore_domain::ports::exchange::ImportedItem;
use reqlore_domain::records::answers::csv::value_text;
use reqlore_domain::records::answers::lists::ListedItem;
use serde_json::{Value, json};

use super::{item, outline, read, recognized, try_read, written};
use crate::json::Json;
use crate::strictdoc::StrictDoc;

const DOCUMENT: &str = "[DOCUMENT]\nMID: a1\nTITLE: Shop: one\nVERSION: 1\n\
    OPTIONS:\n  ENABLE_MID: True\n\
    METADATA:\n  Author: Ann\n\n[GRAMMAR]\nELEMENTS:\n- TAG: REQUIREMENT\n  FIELDS:\n\
    \x20 - TITLE: UID\n    TYPE: String\n\n[TEXT]\nTITLE: Aim\nSTATEMENT: >>>\nPeople  \n[pay].\n\
    <<<\n\n[REQUIREMENT]\nSTATEMENT: Is\n\n[[SECTION]]\nTITLE: Login\n\n\
    [REQUIREMENT]\nUID: R-1\nSTATUS: Reviewed\nTAGS: a, b\nTITLE: Ask\nSTATEMENT: >>>\n\n\
    [REQUIREMENT]\n  UID: x\n\n<<<\nRATIONALE: Safe: yes\nCOMMENT: One\nCOMMENT: >>>\nTwo\n<<<\n\
    RELATIONS:\n- TYPE: Parent\n  VALUE: UP-1\n  ROLE: Refines\n- TYPE: Parent\n  VALUE: UP-2\n\
    \x20 ROLE: Verifies\n- TYPE: File\n  VALUE: a.c\n  FUNCTION: main\n- TYPE: Child\n\
    \x20 VALUE: UP-2\n\n[[SECTION]]\nUID: DEEP\nTITLE: Deep\n\n\
    [TEXT]\nUID: T-1\nSTATEMENT: Below.\n\n\
    [[REQUIREMENT]]\nUID: R-2\nSTATEMENT: >>>\nThe system\nasks.\n\nAlways.\n<<<\n\n\
    [TEST]\nUID: R-3\nTITLE: Part\n\n[[/REQUIREMENT]]\n\n[[/SECTION]]\n\n[[/SECTION]]\n\n\
    [DOCUMENT_FROM_FILE]\nFILE: b.sdoc\n";
const OLDER: &str = "[DOCUMENT]\nTITLE: Upper\n\n[FREETEXT]\nFree.\n\n[SECTION]\n[/FREETEXT]\n\n\
    [SECTION]\nTITLE: S\n\n[REQUIREMENT]\nUID: UP-2\nREFS:\n- TYPE: Parent\n  VALUE: UP-1\n\
    TITLE: Up\nSPECIAL_FIELDS:\n  Owner: Bob\n\n[/SECTION]\n";

#[test]
fn sections_are_stories_and_nodes_requirements() {
    let imported = read(&StrictDoc, &[("a.sdoc", DOCUMENT), ("b.sdoc", OLDER), ("a.md", "# A")]);
    let [story, requirement] = ["user_story", "requirement"];
    let mut expected: Vec<_> = [
        ["epic", "", "", "Shop: one", "## Aim\n\nPeople  \n[pay]."],
        [requirement, "requirement Is", "", "Is", ""],
        [story, "section Login", "", "Login", ""],
        [requirement, "R-1", "section Login", "Ask", "\n[REQUIREMENT]\n  UID: x\n"],
        [story, "DEEP", "", "Deep", "Below."],
        [requirement, "R-2", "DEEP", "The system asks.", "The system\nasks.\n\nAlways."],
        [requirement, "R-3", "DEEP", "Part", ""],
    ]
    .map(|one| item("a.sdoc", one))
    .into();
    expected.extend(
        [
            ["epic", "", "", "Upper", "Free.\n\n[SECTION]"],
            [story, "section S", "", "S", ""],
            [requirement, "UP-2", "section S", "Up", ""],
        ]
        .map(|one| item("b.sdoc", one)),
    );
    let values = [
        json!({ "mid": "a1", "version": "1", "author": "Ann" }),
        json!({}),
        json!({}),
        json!({
            "status": "Reviewed", "tags": "a, b", "rationale": "Safe: yes", "comment": "One",
            "comment_2": "Two", "parent_relation": ["UP-2 ROLE: Verifies"],
            "child_relation": ["UP-2"], "file_relation": ["a.c FUNCTION: main"],
        }),
        json!({ "section": "Login" }),
        json!({}),
        json!({ "composite": "R-2", "node_type": "TEST" }),
        json!({}),
        json!({}),
        json!({ "owner": "Bob" }),
    ];
    for (item, values) in expected.iter_mut().zip(values) {
        item.values = serde_json::from_value(values).unwrap();
        let id = item.source.split_once('#').unwrap().1;
        item.id = Some(id.to_owned()).filter(|id| !id.is_empty() && !id.contains(' '));
    }
    let derives_from = |targets: &[&str]| {
        let targets = targets.iter().map(|target| (*target).to_owned()).collect();
        [("derives_from".to_owned(), targets)].into()
    };
    expected[3].links = derives_from(&["UP-1"]);
    expected[9].links = derives_from(&["UP-1"]);
    assert_eq!(imported.items, expected);
    let notes =
        ["a.sdoc:63: the text is imported without UID", "a.sdoc: b.sdoc is a document of its own"];
    assert_eq!(imported.notes, notes);
}

const ODD: &str =
    "<<<\n\\<<<\n[LINK: x] [\\LINK: y]\n[ANCHOR: z]\n[[SECTION]]\nRELATIONS:\n>>>\n  e";

pub(super) fn records() -> Vec<ListedItem> {
    let records = json!([
        { "kind": "epic", "reference_id": "EP-001", "title": "[A]", "description": ODD,
          "status": "Draft", "priority": 2, "tags": ["a,b", "\"c\""],
          "extra": { "uid": "\"x", "note": "a\n [LINK: b", "Big-Key": "1", "reqlore": "y" } },
        { "kind": "user_story", "reference_id": "US-001", "parent": "EP-001", "title": "B",
          "links": { "depends_on": ["US-002"] } },
        { "kind": "user_story", "reference_id": "US-002", "parent": "EP-001", "title": ">>> C",
          "description": "[TEXT]" },
        { "kind": "requirement", "reference_id": "REQ-001", "parent": "US-001", "title": "D",
          "description": ODD, "type_name": "Data", "rank": "a0", "assignee_username": "ann",
          "fields": { "risk": 2.5 }, "extra": { "statement": ">>>", "extra_x": " y" },
          "links": { "derives_from": ["REQ-002", "REQ-009"], "blocks": ["REQ-003"] } },
        { "kind": "requirement", "reference_id": "REQ-002", "parent": "US-001", "title": "E",
          "links": { "derives_from": ["REQ-003"] } },
        { "kind": "requirement", "reference_id": "REQ-003", "parent": "US-002", "title": "F",
          "links": { "derives_from": ["REQ-002"] } },
        { "kind": "acceptance_criteria", "reference_id": "AC-001", "parent": "US-002",
          "title": "", "status": "Met", "description": "WHEN a\nTHEN b" },
    ]);
    let mut records = records.as_array().unwrap().clone();
    for record in &mut records {
        let default = json!({ "tags": [], "version": "" });
        for (name, value) in default.as_object().unwrap() {
            record.as_object_mut().unwrap().entry(name).or_insert_with(|| value.clone());
        }
    }
    records.into_iter().map(|record| serde_json::from_value(record).unwrap()).collect()
}

/// All of an item except its source, with values as texts.
fn content(item: &ImportedItem) -> Value {
    let mut links = item.links.clone();
    for targets in links.values_mut() {
        targets.sort();
    }
    let values = item.values.iter().map(|(name, value)| (name.to_lowercase(), value_text(value)));
    let values: BTreeMap<String, String> = values.filter(|(_, text)| !text.is_empty()).collect();
    let parent = item.parent.as_deref().unwrap_or_default();
    let parent = parent.rsplit_once('#').map_or(parent, |(_, id)| id);
    let parent = if item.kind == "user_story" { "EP-001" } else { parent };
    json!([item.id, item.kind, item.title, item.text, parent, links, values])
}

#[test]
fn exported_records_are_imported_unchanged() {
    let files = written(&StrictDoc, records());
    let (path, text) = &files[0];
    assert_eq!((&**path, files.len()), ("docs/EP-001.sdoc", 1));
    let relation = "RELATIONS:\n- TYPE: Parent\n  VALUE: REQ-002\n";
    assert!(text.contains(relation) && text.contains("DERIVES_FROM: REQ-009\n"), "{text}");
    // StrictDoc refuses cycles.
    assert!(text.contains("\nDERIVES_FROM: REQ-003\n"), "{text}");
    let imported = read(&StrictDoc, &[(path, text)]);
    assert_eq!(imported.notes, [""; 0]);
    let json = written(&Json, records());
    let mut expected: Vec<_> = read(&Json, &[("a.json", &json[0].1)]).items;
    let mut items = imported.items;
    for list in [&mut items, &mut expected] {
        list.sort_by(|a, b| a.id.cmp(&b.id));
    }
    let contents = |items: &[ImportedItem]| items.iter().map(content).collect::<Vec<_>>();
    assert_eq!(contents(&items), contents(&expected));
}

#[test]
fn hostile_documents_are_refused_with_their_line() {
    let head = "[DOCUMENT]\nTITLE: A\n\n";
    let name = "x".repeat(4_001);
    for (text, problem) in [
        ("TITLE: A\n", "a.sdoc:1: it is not in a block"),
        ("[REQUIREMENT]\nTITLE: A\n", "a.sdoc:1: [DOCUMENT] must be the first block"),
        (&format!("{head}[DOCUMENT]\n"), "a.sdoc:4: [DOCUMENT] must be the first block"),
        (&format!("{head}[[SECTION]]\nTITLE: B\n"), "a.sdoc:4: [[/SECTION]] is missing"),
        (&format!("{head}[[/SECTION]]\n"), "a.sdoc:4: unexpected [[/SECTION]]"),
        (&format!("{head}[[SECTION]]\n[[/TEST]]\n"), "a.sdoc:5: unexpected [[/TEST]]"),
        (
            &format!("{head}[TEXT]\nSTATEMENT: >>>\nx\n"),
            "a.sdoc:5: unterminated value; add a line `<<<`",
        ),
        (&format!("{head}[FREETEXT]\nx\n"), "a.sdoc:4: unterminated value"),
        (&format!("{head}[TEXT]\nfree text\n"), "a.sdoc:5: it is not a field"),
        (&format!("{head}[TEXT]\n  VALUE: x\n"), "a.sdoc:5: it is not a field"),
        (&format!("{head}[[SECTION]]\nTITLE: {name}\n"), "a.sdoc:4: the title has more than 4000"),
        (&format!("{head}[TEST]\nUID: {name}\n"), "a.sdoc:4: the UID has more than 4000 bytes"),
        (&format!("{head}{}", "[A]\n".repeat(100_000)), "a.sdoc:100003: it has more than 100000"),
    ] {
        let error = try_read(&StrictDoc, &[("a.sdoc", text)]).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
    // The plan of an import refuses items with the same source.
    let twice = format!("{head}[TEST]\nUID: A\n\n[TEST]\nUID: A\n");
    let twice = read(&StrictDoc, &[("a.sdoc", &twice)]);
    assert_eq!(outline(&twice), ["epic ", "requirement A", "requirement A"]);
    let long = "x".repeat(2_001);
    let text = format!("{head}[TEST]\nRATIONALE: {long}\nSTATEMENT: B\n");
    let item = &read(&StrictDoc, &[("a.sdoc", &text)]).items[1];
    assert_eq!((&*item.title, &item.text), ("B", &format!("## rationale\n\n{long}")));
    let deep = 20_000;
    let text = format!(
        "{head}{}{}",
        "[[SECTION]]\nTITLE: B\n".repeat(deep),
        "[[/SECTION]]\n".repeat(deep)
    );
    assert_eq!(read(&StrictDoc, &[("a.sdoc", &text)]).items.len(), deep + 1);
    let empty = read(&StrictDoc, &[("a.sdoc", ""), ("b.sdoc", "[DOCUMENT]\n[TEST]\n[TEST]\n")]);
    assert_eq!(outline(&empty), ["epic ", "requirement test TEST", "requirement test TEST~2"]);
}

#[test]
fn sdoc_files_are_recognized() {
    assert_eq!(recognized("docs/A.SDOC", DOCUMENT), "strictdoc");
    assert_eq!(recognized("docs/a.md", DOCUMENT), "markdown");
}
