//! The text of a document as an editor shows it: front matter of the editable fields, then the
//! Markdown text.

use reqlore_domain::backlog::Priority;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::front_matter::{self, FieldValue, KeyEdit};
use reqlore_domain::untrusted_text::encode_line;
use reqlore_domain::yaml::{YamlNode, YamlValue};
use serde_json::{Map, Value, json};

use super::item_fields::{DocumentForm, FormField, split_tags};

/// Renders the form. `subject` names the document in its first comment.
pub(crate) fn render_form(
    form: &DocumentForm,
    subject: &str,
    values: &Map<String, Value>,
) -> String {
    let mut comments =
        format!("# {}. Save and close the editor to store it.\n", encode_line(subject));
    comments += "# An unchanged or empty file stores nothing.\n";
    for FormField { name, choices, .. } in
        form.fields.iter().filter(|field| !field.choices.is_empty())
    {
        comments += &format!("# {name}: {}\n", encode_line(&choices.join(", ")));
    }
    let fields = render_fields(form, values);
    let fields = fields.strip_prefix("---\n").unwrap_or(&fields);
    format!("---\n{comments}{fields}")
}

/// Renders the form without comments.
pub(crate) fn render_fields(form: &DocumentForm, values: &Map<String, Value>) -> String {
    let text_field = form.kind.text_field();
    let mut edits = Vec::new();
    for FormField { name, .. } in form.fields.iter().filter(|field| field.name != text_field) {
        edits.push(KeyEdit { key: name, value: form_value(name, value_of(values, name)) });
    }
    // An empty value has no trailing space, which editors mark.
    let fields = front_matter::render_front_matter(&edits).replace(": \n", ":\n");
    format!("{fields}\n{}\n", text_of(form, values))
}

/// `None` for an empty value.
fn form_value(field: &str, value: &Value) -> Option<FieldValue> {
    match value {
        Value::Array(tags) if !tags.is_empty() => {
            let tags = tags.iter().filter_map(Value::as_str).map(str::to_owned);
            Some(FieldValue::List(tags.collect()))
        }
        Value::Number(number) if field == "priority" => {
            let number = number.as_u64().and_then(|number| usize::try_from(number).ok());
            number.and_then(Priority::new).map(|priority| priority.name().into())
        }
        Value::Number(number) => Some(number_value(&number.to_string())),
        Value::String(text) if !text.is_empty() => Some(number_value(text)),
        _ => None,
    }
}

/// Returns a whole number as a number, which is written without quotes.
fn number_value(text: &str) -> FieldValue {
    let number = text.parse().ok().filter(|number: &u64| number.to_string() == text);
    number.map_or_else(|| text.into(), FieldValue::Number)
}

fn value_of<'a>(values: &'a Map<String, Value>, field: &str) -> &'a Value {
    values.get(field).unwrap_or(&Value::Null)
}

fn text_of<'v>(form: &DocumentForm, values: &'v Map<String, Value>) -> &'v str {
    let text = values.get(form.kind.text_field()).and_then(Value::as_str).unwrap_or_default();
    text.trim_matches(['\r', '\n'])
}

/// Parses an edited form into values under the names of arguments. A removed field is missing. The
/// error is a sentence with the line.
pub(crate) fn parse_form(form: &DocumentForm, text: &str) -> Result<Map<String, Value>, String> {
    // Windows editors end lines with CR LF.
    let text = text.replace("\r\n", "\n");
    let parts = front_matter::split(&text);
    if parts.yaml.is_none() {
        return Err("line 1: the fields are missing; begin with a line `---` and end the fields \
                    with another"
            .to_owned());
    }
    let parsed = front_matter::parse(parts).and_then(|parsed| match parsed.duplicate {
        Some(duplicate) => Err(duplicate),
        None => Ok(parsed.entries),
    });
    let entries = parsed
        .map_err(|problem| format!("line {}: {}", problem.line.unwrap_or(1), problem.message))?;
    let mut values = Map::new();
    for entry in &entries {
        let line = entry.key_position.line;
        let field =
            form.find_field(&entry.key).map_err(|problem| format!("line {line}: {problem}"))?;
        let FormField { name, is_list, .. } = field;
        let value = parsed_value(*is_list, &entry.node)
            .map_err(|problem| format!("line {line}: {name}: {problem}"))?;
        if values.insert(name.clone(), value).is_some() {
            return Err(format!("line {line}: {name} is given twice; remove one"));
        }
    }
    // A form without fields may hold the text as a field by mistake.
    let text = parts.body.trim_matches('\n');
    let text_field = form.kind.text_field();
    if values.insert(text_field.to_owned(), json!(text)).is_some() {
        return Err(format!("{text_field} is the text below the fields; write it there"));
    }
    Ok(values)
}

fn parsed_value(is_list: bool, node: &YamlNode) -> Result<Value, String> {
    match (&node.value, is_list) {
        (YamlValue::Null, true) => Ok(json!([])),
        (YamlValue::Null, _) => Ok(json!("")),
        (YamlValue::Scalar(text), true) => Ok(json!(split_tags(text))),
        (YamlValue::Scalar(text), _) => Ok(json!(text)),
        (YamlValue::List(items), true) => {
            let mut tags = Vec::with_capacity(items.len());
            for item in items {
                let problem = "a tag must be text; quote it or remove it";
                tags.push(item.text().ok_or(problem)?);
            }
            Ok(json!(tags))
        }
        (YamlValue::Map(entries), _) if !entries.is_empty() => {
            let shown = truncate_echo(&entries[0].key);
            Err(format!("{shown:?} looks like a field of its own; put the value in quotes"))
        }
        _ => Err("it needs one value".to_owned()),
    }
}

/// The values that an editor changed.
pub(crate) fn changed_values(
    form: &DocumentForm,
    before: &Map<String, Value>,
    edited: &Map<String, Value>,
) -> Map<String, Value> {
    let mut changed = Map::new();
    for (field, value) in edited {
        let is_same = if *field == form.kind.text_field() {
            // The form shows neither other line ends nor empty lines around the text.
            text_of(form, before).replace("\r\n", "\n") == text_of(form, edited)
        } else {
            form_value(field, value_of(before, field)) == form_value(field, value)
        };
        if !is_same {
            changed.insert(field.clone(), value.clone());
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use reqlore_domain::backlog::ItemKind;
    use reqlore_domain::records::schema::RecordSchema;

    use super::super::item_fields::WritableKind;
    use super::*;

    const SCHEMA: &str = r#"
fields.risk = { kinds = ["requirement"], type = "choice", values = ["Low", "High"] }
fields.effort = { kinds = ["requirement"], type = "number", label = "Effort in days" }
fields.areas = { kinds = ["requirement"], type = "tags" }
"#;

    fn requirement_form() -> DocumentForm {
        let kind = WritableKind::Item(ItemKind::Requirement);
        DocumentForm::new(kind, &RecordSchema::parse(SCHEMA))
    }

    fn requirement() -> Map<String, Value> {
        let values = json!({
            "title": "no: \"# [x]\"", "status": "Draft", "priority": 2, "type": "Data",
            "user_story": "US-001", "assignee": "", "tags": ["a, b", "yes"],
            "risk": "High", "effort": 2.5, "areas": ["ui"],
            "description": "---\nfirst: line\n---\n\n  indented\n",
        });
        values.as_object().unwrap().clone()
    }

    #[test]
    fn unchanged_form_of_hostile_values_changes_nothing() {
        let form = render_form(&requirement_form(), "REQ-001\u{1b}", &requirement());
        assert!(form.starts_with("---\n# REQ-001\\u{1b}. Save"), "{form}");
        for form in [form.replace('\n', "\r\n"), form] {
            let edited = parse_form(&requirement_form(), &form).unwrap();
            assert_eq!(
                changed_values(&requirement_form(), &requirement(), &edited),
                Map::new(),
                "{form}"
            );
        }
    }

    #[test]
    fn edited_form_changes_only_what_differs() {
        let form = render_form(&requirement_form(), "REQ-001", &requirement());
        let form = form.replace("priority: High", "prio: 1").replace("assignee:", "Assigned: ann");
        let form = form.replace("effort: \"2.5\"", "Effort in days: 3").replace("[ui]", "[api]");
        let form = form.replace("user_story: US-001\n", "") + "\nend\n";
        let edited = parse_form(&requirement_form(), &form).unwrap();
        let changed = json!({
            "priority": "1", "assignee": "ann", "effort": "3", "areas": ["api"],
            "description": "---\nfirst: line\n---\n\n  indented\n\nend",
        });
        assert_eq!(json!(changed_values(&requirement_form(), &requirement(), &edited)), changed);
    }

    #[test]
    fn emptied_values_are_sent_empty() {
        let edited =
            parse_form(&requirement_form(), "---\ntitle:\ntags: []\nstatus: ''\n---\n").unwrap();
        let changed = json!({ "title": "", "tags": [], "status": "", "description": "" });
        assert_eq!(json!(changed_values(&requirement_form(), &requirement(), &edited)), changed);
    }

    #[test]
    fn invalid_form_names_the_line() {
        for (form, problem) in [
            ("text", "line 1: the fields are missing"),
            (
                "---\ntitle: a\ntitel: b\n---\n",
                "line 3: \"titel\" is not a field of this requirement",
            ),
            ("---\ntitle: a\nname: b\n---\n", "line 3: title is given twice"),
            ("---\ntitle: [a]\n---\n", "line 2: title: it needs one value"),
            ("---\ntitle: [a\n---\n", "line "),
            ("---\ntags: [{a: b}]\n---\n", "line 2: tags: a tag must be text"),
            ("---\ndescription: a\n---\n", "description is the text below the fields"),
        ] {
            let error = parse_form(&requirement_form(), form).unwrap_err();
            assert!(error.contains(problem), "{problem} is missing in {error}");
        }
    }
}
