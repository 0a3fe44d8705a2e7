//! An edit of one field changes one line of any record.

use proptest::prelude::*;

use super::super::kinds::{ItemKind, KINDS};
use super::*;
use crate::backlog::{ItemMeta, Status};

const AT: Timestamp = Timestamp(1_795_335_043_500_000_000);
/// Keys of teams, of other programs, and links.
const LINES: [&str; 8] = [
    "notes: |\n  status: Draft\n  title: other",
    "# a remark",
    "\"quoted key\": 'a: b'",
    "reviewers:\n  - ann # first\n  - bob",
    "nested: {a: b, c: [d]}",
    "supersedes: dec-1d2c8f",
    "link: \"[[REQ-7]]\"",
    "empty:",
];

/// The lines of the fields that an edit changes.
fn field_lines(kind: &RecordKind) -> Vec<(&'static str, &'static str)> {
    let mut lines = Vec::new();
    for field in fields_of(kind).filter(|field| field.is_editable) {
        lines.push(match field.field_type {
            FieldType::Title => (field.key, "Old"),
            FieldType::Status => (field.key, "draft"),
            FieldType::Priority => (field.key, "high"),
            FieldType::Choice(_) => (field.key, "data"),
            FieldType::User => (field.key, "ann"),
            FieldType::Tags => (field.key, "[a, b]"),
            _ => continue,
        });
    }
    lines
}

/// The values of custom fields in a file, of which an edit changes one.
const CUSTOM: [(&str, &str); 6] = [
    ("risk", "High # mine"),
    ("effort", "3   # days"),
    ("areas", "[ui, API]"),
    ("due", "2026-12-01"),
    ("origin", "'a: b'"),
    ("nothing", ""),
];

fn new_custom_value(key: &str) -> Value {
    match key {
        "effort" => "13".into(),
        "areas" => vec!["db", "a, b"].into(),
        "due" => "2027-01-31".into(),
        _ => "c: # d".into(),
    }
}

/// Sets the field of a key to another value.
fn edit_field(kind: &RecordKind, text: &str, key: &str) -> String {
    let title = (key == "title").then(|| "New".to_owned());
    let tags = (key == "tags").then(|| vec!["c".to_owned()]);
    let item = ItemKind::from_name(kind.name);
    let status = item.map_or("open", |kind| kind.statuses().last().map_or("", Status::name));
    let edit = RecordEdit {
        title,
        tags,
        status: (key == "status").then(|| status.to_owned()),
        priority: Priority::new(4).filter(|_| key == "priority"),
        requirement_type: (key == "type_name").then_some(RequirementType::Interface),
        assignee: (key == "assignee_username").then(|| "bob".to_owned()),
        custom: if CUSTOM.iter().any(|(name, _)| *name == key) {
            vec![(key.to_owned(), new_custom_value(key))]
        } else {
            Vec::new()
        },
        ..RecordEdit::default()
    };
    let edited = match item {
        Some(kind) => {
            let item = ItemMeta::parse(kind, &format!("{}-1", kind.prefix()), text, AT).0;
            edit_record(&item, text, &edit, AT)
        }
        None => edit_record(&Entity::parse("x/y", text).0, text, &edit, AT),
    };
    edited.unwrap().unwrap_or_default()
}

proptest! {
    #[test]
    fn edit_of_a_field_changes_its_line_alone(
        kind in (0..KINDS.len()).prop_map(|at| &KINDS[at]),
        others in Just(LINES.to_vec()).prop_shuffle(),
        count in 0..LINES.len(),
        chosen in any::<prop::sample::Index>(),
        line_end in prop::sample::select(&["\n", "\r\n"][..]),
    ) {
        let mut fields = field_lines(kind);
        fields.extend(CUSTOM);
        let (key, _) = *chosen.get(&fields);
        let mut lines: Vec<String> = others[..count].iter().map(|line| (*line).to_owned()).collect();
        let start = count / 2;
        for (at, (key, value)) in fields.iter().enumerate() {
            lines.insert((start + at).min(lines.len()), format!("{key}: {value}"));
        }
        let text = format!(
            "---\n{}\ncreated_at: 2026-01-04\n---\n\nText  \nwithout end",
            lines.join("\n")
        );
        let text = text.replace('\n', line_end);
        let edited = edit_field(kind, &text, key);
        let is_edited = |line: &&str| line.starts_with(&format!("{key}:"));
        let kept: Vec<&str> = text.split(line_end).filter(|line| !is_edited(line)).collect();
        let mut found: Vec<&str> = edited.split(line_end).collect();
        let before = found.len();
        found.retain(|line| !is_edited(line));
        prop_assert_eq!(before, found.len() + 1);
        found.retain(|line| !line.starts_with("updated_at: 2026-11-22"));
        prop_assert_eq!(found, kept, "{}", edited);
    }
}
