//! A version of a document as fields with labels and a text, and the difference of two versions.

use std::time::Instant;

use reqlore_domain::front_matter;
use reqlore_domain::records::fields::{FieldType, fields_of};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::word_diff::{DiffKind, DiffPart, TIME_LIMIT, compare_texts};
use reqlore_domain::yaml::{YamlEntry, YamlNode, YamlValue};

use crate::form_fields::join_list;
use crate::page::{capitalize, priority_name};
use crate::routes::item::form::ContentKind;

/// The fields that a user knows, and the Markdown below them.
#[derive(Default)]
pub(super) struct VersionText {
    pub(super) title: String,
    /// Labels and values, without the title.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: String,
}

impl VersionText {
    pub(super) fn parse(id: &str, text: &str, schema: &RecordSchema) -> Self {
        let parts = front_matter::split(text);
        let Ok(parsed) = front_matter::parse(parts) else {
            return Self { body: text.to_owned(), ..Self::default() };
        };
        let body = parts.body.trim_matches(['\r', '\n']).to_owned();
        let mut version = Self { body, ..Self::default() };
        let kind = ContentKind::of_id(id).row();
        for YamlEntry { key, node, .. } in &parsed.entries {
            let field = fields_of(kind).find(|field| field.key == key);
            let mut value = node_text(node);
            let label = match field {
                Some(field) if field.is_last || field.field_type == FieldType::Id => continue,
                Some(field) if field.field_type == FieldType::Title => {
                    version.title = value;
                    continue;
                }
                Some(field) => field.label,
                None => schema.field(key).map_or("", |field| &field.label),
            };
            if field.is_some_and(|field| field.field_type == FieldType::Priority) {
                let name = value.parse().map_or("", |number| priority_name(&number));
                value = format!("{value} {name}").trim_end().to_owned();
            }
            let label = if label.is_empty() {
                capitalize(&key.replace('_', " "))
            } else {
                label.to_owned()
            };
            version.fields.push((label, value));
        }
        version
    }
}

fn node_text(node: &YamlNode) -> String {
    match &node.value {
        YamlValue::Null => String::new(),
        YamlValue::Scalar(text) => text.clone(),
        YamlValue::List(nodes) => join_list(&nodes.iter().map(node_text).collect::<Vec<_>>()),
        YamlValue::Map(entries) => {
            let mut texts = Vec::new();
            for YamlEntry { key, node, .. } in entries {
                texts.push(format!("{key}: {}", node_text(node)));
            }
            texts.join(", ")
        }
    }
}

/// The difference of two versions.
#[derive(Default)]
pub(super) struct VersionDifference {
    /// Label, old and new value. A value is empty if the version does not have the field.
    pub(super) fields: Vec<(String, String, String)>,
    /// Lines of the text around its changes.
    pub(super) lines: Vec<DiffLine>,
}

pub(super) struct DiffLine {
    /// A class of the style sheet.
    pub(super) class: &'static str,
    pub(super) parts: Vec<DiffPart>,
}

impl VersionDifference {
    pub(super) fn new(old: VersionText, new: VersionText) -> Self {
        let with_title = |version: &VersionText| {
            let title =
                (!version.title.is_empty()).then(|| ("Title".into(), version.title.clone()));
            title.into_iter().chain(version.fields.clone()).collect::<Vec<(String, String)>>()
        };
        let (mut removed, mut fields) = (with_title(&old), Vec::new());
        for (label, value) in with_title(&new) {
            let found = removed.iter().position(|(old, _)| *old == label);
            let before = found.map(|found| removed.remove(found).1).unwrap_or_default();
            if before != value {
                fields.push((label, before, value));
            }
        }
        fields.extend(removed.into_iter().map(|(label, value)| (label, value, String::new())));
        let lines = if old.body == new.body {
            Vec::new()
        } else {
            split_lines(compare_texts(&old.body, &new.body, Instant::now() + TIME_LIMIT))
        };
        Self { fields, lines }
    }
}

fn split_lines(parts: Vec<DiffPart>) -> Vec<DiffLine> {
    let mut lines = vec![Vec::new()];
    for DiffPart { kind, text } in parts {
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                lines.push(Vec::new());
            }
            if let (Some(parts), false) = (lines.last_mut(), line.is_empty()) {
                let position = || Some(line.split_once('+')?.1.split_once(',')?.0);
                let text = match position().filter(|_| kind == DiffKind::Position) {
                    Some(number) => format!("Line {number}"),
                    None => line.to_owned(),
                };
                parts.push(DiffPart { kind, text });
            }
        }
    }
    // After the last line end.
    lines.pop_if(|parts| parts.is_empty());
    let classify = |parts: Vec<DiffPart>| {
        let has = |kind| parts.iter().any(|part| part.kind == kind);
        let class = match [DiffKind::Kept, DiffKind::Removed, DiffKind::Added].map(has) {
            [_, false, false] => "",
            [false, true, false] => "removed",
            [false, false, true] => "added",
            _ => "changed",
        };
        DiffLine { class, parts }
    };
    lines.into_iter().map(classify).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "[fields.risk]\nkinds = [\"user_story\"]\nlabel = \"Risk level\"\n\
                          type = \"text\"\n";

    fn difference(old: &str, new: &str) -> VersionDifference {
        let schema = RecordSchema::parse(SCHEMA);
        let [old, new] = [old, new].map(|text| VersionText::parse("US-001", text, &schema));
        VersionDifference::new(old, new)
    }

    #[test]
    fn difference_names_fields_by_their_labels() {
        let old = "---\ntitle: Pay\nstatus: Draft\npriority: 2\nrisk: low\ntags: [a]\nuid: 1\n\
                   updated_at: 2026-01-01T00:00:00Z\n---\n\nSame.\n";
        let new = "---\ntitle: Pay\nstatus: Active\npriority: 1\nrisk: high\nepic: EP-001\n\
                   depends_on: [US-002, {id: US-003}]\nuid: 2\n---\n\nSame.\n";
        let found = difference(old, new);
        let fields: Vec<String> = found
            .fields
            .iter()
            .map(|(label, old, new)| format!("{label}: {old} → {new}"))
            .collect();
        let expected = [
            "Status: Draft → Active",
            "Priority: 2 High → 1 Critical",
            "Risk level: low → high",
            "Epic:  → EP-001",
            "Depends on:  → US-002, id: US-003",
            "Tags: a → ",
        ];
        assert_eq!(fields, expected);
        assert!(found.lines.is_empty());
    }

    #[test]
    fn difference_of_texts_is_split_into_lines() {
        let old = "One line\nstays here.\nThe old word of a line.\nRemoved.\n\nEnd.";
        let new = "One line\nstays here.\nThe new word of a line.\n\nEnd.\nAdded at all.";
        let found = difference(old, new);
        let mut lines = Vec::new();
        for line in found.lines {
            let text: String = line.parts.iter().map(|part| &*part.text).collect();
            lines.push((line.class, text));
        }
        let lines: Vec<(&str, &str)> =
            lines.iter().map(|(class, text)| (*class, &**text)).collect();
        let expected = [
            ("", "Line 1"),
            ("", "One line"),
            ("", "stays here."),
            ("changed", "The oldnew word of a line."),
            ("removed", "Removed."),
            ("", ""),
            ("", "End."),
            ("added", "Added at all."),
        ];
        assert_eq!(lines, expected);
        // Text that is not front matter is compared whole.
        assert_eq!(difference("---\n[x\n---\n", "---\n[y\n---\n").lines.len(), 5);
    }
}
