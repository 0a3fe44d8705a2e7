//! Templates: documents with the fields and the text that a new record begins with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::fields::{FieldType, RecordField, fields_of};
use super::kinds::{IdSource, ItemKind, KINDS, RecordKind, find_kind};
use super::parse::parse_tags;
use super::schema::RecordSchema;
use crate::backlog::fields::{Priority, Status, find_by_name};
use crate::bounded_types::truncate_echo;
use crate::diagnostic::Diagnostic;
use crate::front_matter;
use crate::yaml::{YamlEntry, YamlNode, YamlValue};

/// The answer of `list_record_templates`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TemplateList {
    pub project: String,
    pub templates: Vec<RecordTemplate>,
}

/// A template of a kind.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RecordTemplate {
    pub kind: String,
    /// Empty for the template that forms use without a choice.
    pub name: String,
    /// Values by the names of fields, also of custom ones.
    pub values: Map<String, Value>,
    /// The invalid keys, which have no value.
    #[serde(skip)]
    pub diagnostics: Vec<Diagnostic>,
}

impl RecordTemplate {
    /// Reads the template in a document of this name, such as `epic` or `requirement-login`. The
    /// error says that the name has no kind.
    pub fn parse(document: &str, text: &str, schema: &RecordSchema) -> Result<Self, String> {
        let (kind, name) = split_name(document).ok_or_else(|| {
            let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            format!("the name begins with none of the kinds {}; rename it", kinds.join(", "))
        })?;
        let parts = front_matter::split(text);
        let (mut values, mut diagnostics) = (Map::new(), Vec::new());
        let entries = match front_matter::parse(parts) {
            Ok(parsed) => {
                diagnostics.extend(parsed.duplicate);
                parsed.entries
            }
            Err(problem) => {
                diagnostics.push(problem);
                Vec::new()
            }
        };
        for entry in &entries {
            match parse_entry(kind, entry, schema) {
                Ok(Some((name, value))) => _ = values.insert(name.to_owned(), value),
                Ok(None) => {}
                Err(problem) => {
                    let message = format!("{}: {problem}", truncate_echo(&entry.key));
                    diagnostics.push(Diagnostic::new(entry.key_position.line, message));
                }
            }
        }
        let body = parts.body.trim_matches(['\r', '\n']);
        let field = fields_of(kind).find(|field| field.field_type == FieldType::Body);
        if let Some(RecordField { name, .. }) = field.filter(|_| !body.is_empty()) {
            values.insert((*name).to_owned(), json!(body));
        }
        Ok(Self { kind: kind.name.to_owned(), name: name.to_owned(), values, diagnostics })
    }
}

/// The kind and the rest of a document's name.
fn split_name(document: &str) -> Option<(&'static RecordKind, &str)> {
    if let Some(kind) = find_kind(document) {
        return Some((kind, ""));
    }
    let (kind, name) = document.split_once('-')?;
    Some((find_kind(kind)?, name))
}

/// The name of a field and its value. `None` without a value, or for a key that only tools set.
fn parse_entry<'e>(
    kind: &RecordKind,
    entry: &'e YamlEntry,
    schema: &RecordSchema,
) -> Result<Option<(&'e str, Value)>, String> {
    let YamlEntry { key, node, .. } = entry;
    if matches!(node.value, YamlValue::Map(_)) {
        return Err("a map is not a value; write a text or a list".to_owned());
    }
    let texts: Vec<String> =
        node.items().iter().filter_map(YamlNode::text).map(str::to_owned).collect();
    let is_entity = kind.id_source == IdSource::FrontMatter;
    let custom = schema.field(key).filter(|field| field.has_kind(kind.name, is_entity));
    if let Some(custom) = custom {
        return match custom.problem(&texts) {
            Some(problem) => Err(problem),
            None if texts.is_empty() => Ok(None),
            None => Ok(Some((key, custom.answer(&texts)))),
        };
    }
    let mut fields = fields_of(kind);
    let Some(field) = fields.find(|field| field.key == *key || field.is_called(key)) else {
        return Err(format!("it is not a field of {}; remove it", kind.words[1]));
    };
    let has_value = (field.is_editable || field.is_required) && !texts.is_empty();
    let value = match (field.field_type, &*texts) {
        _ if !has_value => return Ok(None),
        (FieldType::Tags, _) => json!(parse_tags(std::slice::from_ref(entry))),
        (FieldType::Body | FieldType::Links, _) => {
            return Err("write it below the front matter, or remove it".to_owned());
        }
        (_, [text]) => json!(parse_value(kind, field, text, schema)?),
        _ => return Err("it is a list; write one value".to_owned()),
    };
    Ok(Some((field.name, value)))
}

/// The value in the spelling of forms.
fn parse_value(
    kind: &RecordKind,
    field: &RecordField,
    text: &str,
    schema: &RecordSchema,
) -> Result<String, String> {
    let invalid = |names: &[&str]| {
        let text = truncate_echo(text);
        format!("{text:?} is invalid; use one of {}", names.join(", "))
    };
    match (field.field_type, ItemKind::from_name(kind.name)) {
        (FieldType::Priority, _) => {
            let names = || invalid(&["Critical", "High", "Medium", "Low"]);
            Priority::parse(text).map(|found| found.number().to_string()).ok_or_else(names)
        }
        (FieldType::Choice(names), _) => {
            let found = find_by_name(names, |name| name, text).ok_or_else(|| invalid(names))?;
            Ok(found.to_owned())
        }
        (FieldType::Status, Some(item)) => {
            Ok(schema.find_status(item, text).as_ref().map(Status::name)?.to_owned())
        }
        (FieldType::Status, None) => {
            Ok(schema.find_entity_status(kind.name, text)?.unwrap_or(text).to_owned())
        }
        _ => Ok(text.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "[fields.risk]\nkinds = [\"requirement\"]\ntype = \"choice\"\n\
        values = [\"Low\", \"High\"]\n[fields.effort]\nkinds = [\"entity\"]\ntype = \"number\"\n";

    fn parse(name: &str, text: &str) -> RecordTemplate {
        RecordTemplate::parse(name, text, &RecordSchema::parse(SCHEMA)).unwrap()
    }

    #[test]
    fn template_has_the_values_of_its_fields() {
        let template = parse(
            "requirement-login-form",
            "---\ntitle: 'Log in: '\npriority: high\ntype: non functional\nstatus: active\n\
             tags: [ui, auth]\nrisk: high\nassignee_username: ann\nuser_story: US-001\n\
             created_at: 2026-01-01\n---\n\nThe shop SHALL …\n",
        );
        assert_eq!((&*template.kind, &*template.name), ("requirement", "login-form"));
        assert_eq!(template.diagnostics, []);
        let expected = json!({
            "title": "Log in:", "priority": "2", "type": "Non-Functional", "status": "Active",
            "tags": ["ui", "auth"], "risk": "high", "assignee": "ann", "user_story": "US-001",
            "description": "The shop SHALL …",
        });
        assert_eq!(Value::Object(template.values), expected);
        let decision = parse("decision", "---\nstatus: trial\neffort: 3\n---\n## Context\n");
        assert_eq!((&*decision.kind, &*decision.name), ("decision", ""));
        let expected = json!({ "status": "trial", "effort": 3, "body": "## Context" });
        assert_eq!(Value::Object(decision.values), expected);
        for (name, kind) in [("user_story", "user_story"), ("criterion-ui", "acceptance_criteria")]
        {
            assert_eq!(parse(name, "Text only.").kind, kind);
        }
        assert_eq!(parse("epic", "Text only.").values["description"], "Text only.");
    }

    #[test]
    fn wrong_entries_of_a_template_are_reported_and_left_out() {
        let template = parse(
            "requirement",
            "---\npriority: urgent\ntype: x\nstatus: Done\nrisk: None\ncar: red\ntitle: [a, b]\n\
             description: a\nassignee: {a: b}\ntags: ok\n---\n",
        );
        let problems: Vec<String> = template
            .diagnostics
            .iter()
            .map(|one| format!("{} {}", one.line.unwrap(), one.message))
            .collect();
        for (line, start) in [
            "2 priority: \"urgent\" is invalid; use one of Critical, High",
            "3 type: \"x\" is invalid; use one of Functional",
            "4 status: ",
            "5 risk: ",
            "6 car: it is not a field of requirements; remove it",
            "7 title: it is a list; write one value",
            "8 description: write it below",
            "9 assignee: a map is not a value",
        ]
        .into_iter()
        .enumerate()
        {
            assert!(problems[line].starts_with(start), "{start}\n{problems:?}");
        }
        assert_eq!(Value::Object(template.values), json!({ "tags": ["ok"] }));
        assert_eq!(problems.len(), 8);
        let broken = parse("epic", "---\ntitle: [\n---\nText");
        assert_eq!((broken.diagnostics.len(), &broken.values["description"]), (1, &json!("Text")));
        for name in ["car", "car-epic", "", "-", "my epic"] {
            let error = RecordTemplate::parse(name, "", &RecordSchema::default()).unwrap_err();
            assert!(error.contains("none of the kinds epic, user_story"), "{error}");
        }
    }
}
