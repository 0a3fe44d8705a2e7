//! `needs.json` of sphinx-needs, also hostile ones.

use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems};
use reqlore_domain::records::answers::lists::ListedItem;
use serde_json::{Value, json};

use super::{item, outline, read, recognized, try_read, written};
use crate::needs_json::NeedsJson;

fn file(needs: &Value) -> String {
    json!({ "current_version": "2.0", "project": "P", "versions": {
        "1.0": { "needs": {} },
        "2.0": { "needs": needs, "needs_schema": { "properties": {
            "checks": { "field_type": "links" }, "style": { "field_type": "core" },
        } } },
    } })
    .to_string()
}

#[test]
fn documents_are_epics_and_needs_requirements() {
    let path = "docs/needs.json";
    let text = file(&json!({
        "REQ_1": {
            "id": "REQ_1", "type": "req", "title": "Log in", "description": "It *asks*.\n\n.. x::",
            "status": "open", "tags": ["a", "b"], "docname": "login", "doctype": ".rst",
            "sections": ["Password", "Login", "Product"], "links": ["SPEC_1"], "links_back": [],
            "depends on": ["US_1", "X"], "depends on_back": ["US_1"], "style": "red",
            "is_external": false, "effort": 3, "asil": "B", "url": null,
        },
        "SPEC_1": {
            "id": "SPEC_1", "type": "spec", "title": "", "content": "Deep", "docname": "index",
            "sections": ["Product"], "parent_need": "US_1", "checks": ["REQ_1"], "status": null,
        },
        "TEST_1": { "type": "test", "title": "t", "docname": "index", "sections": ["Product"] },
        "US_1": { "type": "story", "title": "As a user", "docname": "login", "sections": [] },
        "ZZ": { "type": "req", "title": "z" },
    }));
    let mut expected: Vec<ImportedItem> = [
        ["epic", "document login", "", "Product", ""],
        ["user_story", "document login/Login", "document login", "Login", ""],
        ["requirement", "REQ_1", "document login/Login", "Log in", "It *asks*.\n\n.. x::"],
        ["requirement", "SPEC_1", "US_1", "SPEC_1", "Deep"],
        ["epic", "document index", "", "Product", ""],
        ["requirement", "TEST_1", "document index", "t", ""],
        ["user_story", "US_1", "document login", "As a user", ""],
        ["requirement", "ZZ", "", "z", ""],
    ]
    .map(|one| item(path, one))
    .into();
    for (index, values) in [
        (
            2,
            json!({ "status": "open", "tags": ["a", "b"], "effort": 3, "asil": "B", "url": "",
            "section": "Password" }),
        ),
        (3, json!({ "need_type": "spec", "status": "", "parent_need": "" })),
        (5, json!({ "need_type": "test", "section": "" })),
        (6, json!({ "need_type": "story", "section": "" })),
    ] {
        expected[index].values = serde_json::from_value(values).unwrap();
    }
    for index in [2, 3, 5, 6, 7] {
        let id = expected[index].source.split_once('#').unwrap().1.to_owned();
        expected[index].id = Some(id);
    }
    let links = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    expected[2].links.insert("relates_to".to_owned(), links(&["SPEC_1"]));
    expected[2].links.insert("depends_on".to_owned(), links(&["US_1", "X"]));
    expected[3].links.insert("checks".to_owned(), links(&["REQ_1"]));
    expected[7].parent = None;
    let notes =
        ["computed and rendered fields are not imported", "other versions were ignored: 1.0"];
    let notes = notes.map(|note| format!("{path}: {note}")).into();
    assert_eq!(read(&NeedsJson, &[(path, &text)]), ImportedItems { items: expected, notes });
}

#[test]
fn written_needs_are_the_same_items() {
    let record = |id: &str, kind: &str, parent: &str| ListedItem {
        reference_id: id.to_owned(),
        kind: kind.to_owned(),
        title: format!("Title of {id}"),
        parent: Some(parent.to_owned()).filter(|parent| !parent.is_empty()),
        description: Some(" a\n\tb \"c\"".to_owned()),
        ..ListedItem::default()
    };
    let mut records = [
        record("EP-001", "epic", ""),
        record("US-001", "user_story", "EP-001"),
        record("REQ-001", "requirement", "US-001"),
        record("AC-001", "acceptance_criteria", "US-001"),
        record("DEC-1a", "decision", ""),
    ];
    let links = |name: &str, id: &str| [(name.to_owned(), vec![id.to_owned()])].into();
    records[2].links = links("relates_to", "US-001");
    records[4].links = links("mitigates", "REQ-001");
    records[2].tags = vec!["a,b".to_owned()];
    records[2].priority = Some(2);
    records[2].type_name = Some("Functional".into());
    records[2].fields.insert("platforms".to_owned(), json!(["x", "y"]));
    for (name, value) in [("layout", "wide"), ("content", "c"), ("a_back", "d"), ("url", "u")] {
        records[2].extra.insert(name.to_owned(), json!(value));
    }
    let files = written(&NeedsJson, records.to_vec());
    assert_eq!(recognized(&files[0].0, &files[0].1), "needs-json");
    let imported = read(&NeedsJson, &[(&files[0].0, &files[0].1)]);
    assert_eq!(imported.notes, [""; 0]);
    let mut expected: Vec<ImportedItem> = records
        .iter()
        .map(|record| ImportedItem {
            source: format!("needs.json#{}", record.reference_id),
            kind: record.kind.clone(),
            parent: record.parent.clone(),
            id: Some(record.reference_id.clone()),
            title: record.title.clone(),
            text: record.description.clone().unwrap(),
            values: [("tags".to_owned(), json!(record.tags))].into(),
            links: record.links.clone(),
            lacks_text: false,
        })
        .collect();
    let values = json!({
        "tags": ["a,b"], "priority": 2, "type": "Functional", "platforms": ["x", "y"],
        "layout": "wide", "content": "c", "a_back": "d", "url": "u",
    });
    expected[2].values = serde_json::from_value(values).unwrap();
    assert_eq!(imported.items, expected);
}

#[test]
fn values_without_a_field_are_kept() {
    let long = "x".repeat(2_001);
    let text = file(&json!({
        "A": { "type": "req", "content": "A", "description": "B", "docname": "d", "note": long,
               "sections": ["4", "3", "2", "1"], "links": ["X", 5, null, { "id": 1 }] },
        "B": { "type": "spec", "content": 7, "parent_needs": ["A"], "parent_need": "A" },
        "C": { "type": "req", "content": "C", "description": "C" },
    }));
    let items = read(&NeedsJson, &[("a.json", &text)]).items;
    assert_eq!(items[2].text, format!("A\n\n## note\n\n{long}"));
    assert_eq!(json!(items[2].values), json!({ "description": "B", "section": "3 / 4" }));
    assert_eq!(items[2].links["relates_to"], ["X", "5", r#"{"id":1}"#]);
    let values = json!({ "content": 7, "need_type": "spec", "parent_need": "A" });
    assert_eq!(json!(items[3].values), values);
    assert!(items[4].values.is_empty());
}

#[test]
fn hostile_needs_are_refused() {
    let deep = format!(r#"{{"versions": {{"1": {{"needs": {{"A": {}"#, r#"{"x":"#.repeat(10_000));
    for (text, problem) in [
        ("", "EOF"),
        ("{}", "missing field `versions`"),
        (r#"{"versions": {}}"#, "it has no version \"\""),
        (
            r#"{"current_version": "3", "versions": {"1": {"needs": {}}, "2": {"needs": {}}}}"#,
            "\"3\"",
        ),
        (r#"{"versions": {"1": {"needs": []}}}"#, "expected needs by ID"),
        (r#"{"versions": {"1": {"needs": {"A": 1}}}}"#, "invalid type: integer"),
        (&deep, "recursion limit exceeded"),
    ] {
        let error = try_read(&NeedsJson, &[("a.json", text)]).unwrap_err();
        assert!(error.starts_with("a.json: ") && error.contains(problem), "{text}: {error}");
    }
    // The plan of an import refuses items with the same source.
    let twice = r#"{"versions": {"1": {"needs": {"A": {}, "A": {}}}}}"#;
    let twice = read(&NeedsJson, &[("a.json", twice)]);
    assert_eq!(outline(&twice), ["requirement A", "requirement A"]);
    let odd = json!({ "A": { "title": 1, "tags": "x", "links": "B", "sections": {}, "type": [] } });
    let odd = read(&NeedsJson, &[("a.json", &file(&odd))]).items;
    assert_eq!((&*odd[0].title, &odd[0].values["links"]), ("A", &json!("B")));
}
