//! Documents of Doorstop in YAML and Markdown, also hostile ones.

use serde_json::json;

use super::{item, outline, read, recognized, try_read};
use crate::doorstop::Doorstop;

const CONFIG: &str = "settings:\n  digits: 3\n  prefix: REQ\n  sep: ''\n\
    attributes:\n  defaults:\n    doc: {title: 'Requirements of _X_', by: ann}\n";
const CHILD: &str = "settings:\n  parent: REQ\n  prefix: TST\n  sep: '-'\n  itemformat: markdown\n";
const HEADING: &str = "active: true\nlevel: 1.0\nlinks: []\nnormative: false\ntext: |\n  Login\n";
const ITEM: &str = "active: true\nderived: false\nheader: ''\nlevel: 1.1\nlinks:\n- SYS1: abc\n\
    - REQ003\n- REQ001:def\nnormative: true\nref: ''\nreviewed: xyz=\nrisk: High\ntext: |\n  \
    The system\n  **shall** ask.\n\n  Always.\n";
const TEXT: &str =
    "level: 1.2\nnormative: false\nheader: Hint\ntext: |\n  See below.\nowner: bob\n";
const OLD: &str =
    "active: no\nderived: true\nlevel: '2.10'\nlinks:\n- REQ002: null\nref: |\n  a.c\n";
const MARKDOWN: &str = "---\nlevel: 1\nlinks:\n- REQ002: null\nreviewed: null\n---\n\n\
    # Wrong password\n\nIt asks  \nagain.\n";

#[test]
fn documents_are_epics_headings_stories_and_items_requirements() {
    let files = [
        ("reqs/.doorstop.yml", CONFIG),
        ("reqs/REQ001.yml", HEADING),
        ("reqs/REQ002.yml", ITEM),
        ("reqs/REQ003.yml", TEXT),
        ("reqs/old/REQ010.yaml", OLD),
        ("reqs/README.md", "# Read me"),
        ("reqs/tests/.doorstop.yml", CHILD),
        ("reqs/tests/TST-login.md", MARKDOWN),
    ];
    let imported = read(&Doorstop, &files);
    let [story, requirement] = ["user_story", "requirement"];
    let text = "The system\n**shall** ask.\n\nAlways.\n";
    let mut expected: Vec<_> = [
        ["epic", "", "", "Requirements of _X_", ""],
        [story, "REQ001", "", "Login", "## Hint\n\nSee below."],
        [requirement, "REQ002", "REQ001", "The system **shall** ask.", text],
        [requirement, "REQ010", "", "REQ010", ""],
    ]
    .map(|one| item("reqs", one))
    .into();
    expected.extend(
        [
            ["epic", "", "", "TST", ""],
            [requirement, "TST-login", "", "Wrong password", "It asks  \nagain."],
        ]
        .map(|one| item("reqs/tests", one)),
    );
    let values = [
        json!({ "by": "ann", "parent_document": "" }),
        json!({ "active": "", "level": "1.0" }),
        json!({ "active": "", "derived": "", "level": "1.1", "ref": "", "reviewed": "xyz=",
                "risk": "High" }),
        json!({ "active": "no", "derived": "true", "level": "2.10", "ref": "a.c\n" }),
        json!({ "parent_document": "REQ" }),
        json!({ "level": "1", "reviewed": "" }),
    ];
    let links: [&[&str]; 6] =
        [&[], &[], &["SYS1", "REQ003", "REQ001"], &["REQ002"], &[], &["REQ002"]];
    for ((item, values), links) in expected.iter_mut().zip(values).zip(links) {
        item.values = serde_json::from_value(values).unwrap();
        if item.kind != "epic" {
            item.id = Some(item.source.split_once('#').unwrap().1.to_owned());
        }
        if !links.is_empty() {
            let links = links.iter().map(|link| (*link).to_owned()).collect();
            item.links.insert("derives_from".to_owned(), links);
        }
    }
    assert_eq!(imported.items, expected);
    let notes = [
        "REQ003: its text is in reqs#REQ001, without owner",
        "fingerprints of links are not imported",
        "files that are not items of a document: 1",
    ];
    assert_eq!(imported.notes, notes);
}

#[test]
fn order_and_headings_follow_levels() {
    let heading = |level: &str| format!("level: {level}\nnormative: false\ntext: H\n");
    let deep = format!("level: 1{}\ntext: d\n", ".1".repeat(100_000));
    let files = [
        (".doorstop.yml".to_owned(), "settings: {prefix: A}\n".to_owned()),
        ("A4.yml".to_owned(), "level: 1.10\ntext: a\n".to_owned()),
        ("A3.yml".to_owned(), "level: 1.9.1\ntext: b\n".to_owned()),
        ("A2.yml".to_owned(), heading("1.9.0")),
        ("A1.yml".to_owned(), heading("1.0.0")),
        ("A5.yml".to_owned(), "level: x\ntext: c\n".to_owned()),
        ("A6.yml".to_owned(), deep),
        ("A7.yml".to_owned(), String::new()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let imported = read(&Doorstop, &files);
    let line = |item: &reqlore_domain::ports::exchange::ImportedItem| {
        let parent = item.parent.as_deref().unwrap_or_default();
        format!("{} {parent}", item.source)
    };
    let lines: Vec<String> = imported.items.iter().map(line).collect();
    let expected = [
        "A# ",
        "A#A5 A#",
        "A#A1 A#",
        "A#A7 A#A1",
        "A#A6 A#A1",
        "A#A2 A#",
        "A#A3 A#A2",
        "A#A4 A#A1",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn hostile_documents_are_refused_with_their_line() {
    let config = (".doorstop.yml", "settings: {prefix: A}\n");
    let nested = format!("text: {}", "[".repeat(100_000));
    for (text, problem) in [
        ("level: 1.0\ntext: [a\n", "A1.yml:"),
        ("- a\n", "A1.yml:1: it has no keys"),
        (&*nested, "A1.yml:1:"),
        ("text: a\n---\ntext: b\n", "A1.yml:2: a second YAML document"),
    ] {
        let error = try_read(&Doorstop, &[config, ("A1.yml", text)]).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
    let error = try_read(&Doorstop, &[(".doorstop.yml", "settings: [")]).unwrap_err();
    assert!(error.starts_with(".doorstop.yml:1:"), "{error}");
    let odd = "text: a\ntext: b\nlinks: {B1: {c: d}}\nlevel: [1]\nreferences: [{path: a.c}]\n";
    let imported = read(&Doorstop, &[config, ("A1.yml", odd), ("b/A1.yml", "text: c\n")]);
    assert_eq!(outline(&imported), ["epic ", "requirement A1", "requirement A1"]);
    let note = &imported.notes[0];
    assert!(note.starts_with("A1.yml:2: the key \"text\" is duplicated"), "{note}");
    assert!(note.ends_with("; using the first"), "{note}");
    assert_eq!(read(&Doorstop, &[("A1.yml", "text: a")]).items, []);
    let long = "x".repeat(2_001);
    let text = format!("text: |\n  a\n\n  b\nnote: {long}\n");
    let item = &read(&Doorstop, &[config, ("A1.yml", &text)]).items[1];
    assert_eq!(item.text, format!("a\n\nb\n\n## note\n\n{long}"));
    for links in ["B1", "[B1, null]", "{B1: c}", "B1:c"] {
        let text = format!("text: a\nlinks: {links}\n");
        let imported = read(&Doorstop, &[config, ("A1.yml", &text)]);
        assert_eq!(imported.items[1].links["derives_from"], ["B1"], "{links}");
        assert_eq!(imported.notes, ["fingerprints of links are not imported"]);
    }
    let others = read(&Doorstop, &[config, ("B1.md", "# A"), ("A.yml", ""), ("Ab.yml", "")]);
    assert_eq!(outline(&others), ["epic "]);
}

#[test]
fn configuration_of_a_document_is_recognized() {
    assert_eq!(recognized("reqs/.doorstop.yml", CONFIG), "doorstop");
    assert_eq!(recognized(".doorstop.yml", CONFIG), "doorstop");
    assert_eq!(recognized("reqs/REQ001.yml", ITEM), "");
    assert_eq!(recognized("reqs/x.doorstop.yml", CONFIG), "");
}
