//! The forms in which models send arguments: converts them to those of the schema where the meaning
//! is clear, and names the form of the schema in errors.

use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::extra::MAX_EXTRA_KEYS;
use reqlore_domain::records::fields::value_fields;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use crate::tools::synonyms;

/// The argument of custom fields.
pub(crate) const CUSTOM_FIELDS: &str = "fields";

/// The argument of extra keys.
pub(crate) const EXTRA: &str = "extra";

/// Lists whose texts may contain commas, so one text is not a list.
const WHOLE_TEXTS: [&str; 2] = ["keywords", "generalized_keywords"];

/// Examples of lists and objects in errors, by argument.
const EXAMPLES: [(&str, &str); 6] = [
    ("tags", r#"["pay"]"#),
    ("keywords", r#"["session", "log in"]"#),
    ("generalized_keywords", r#"["authentication"]"#),
    ("links", r#"{"affects": ["REQ-048"]}"#),
    ("changes", r#"[{"update": "REQ-048", "status": "Active"}]"#),
    ("relate", r#"{"source": "REQ-048", "target": "REQ-047", "type": "depends_on"}"#),
];

/// Renames synonyms to the tool's arguments, and converts values to the types of its schema.
///
/// A value whose meaning is unclear stays, so that decoding rejects it. A synonym stays if the
/// argument itself is given as well.
pub(crate) fn normalize(arguments: &mut Map<String, Value>, spec: &ToolSpec) {
    let mut synonyms = Vec::new();
    for name in arguments.keys() {
        if let Some(real) = synonyms::find_argument(spec, name)
            && arguments.get(real).is_none_or(Value::is_null)
        {
            synonyms.push((name.clone(), real));
        }
    }
    for (name, real) in synonyms {
        // A second synonym of the same argument stays.
        if arguments.get(real).is_none_or(Value::is_null)
            && let Some(value) = arguments.remove(&name)
        {
            arguments.insert(real.to_owned(), value);
        }
    }
    let properties = &spec.input_schema["properties"];
    for (name, value) in arguments {
        convert(value, name, &properties[name]);
    }
}

/// Removes the argument `fields`, the values of custom fields, and returns it with the arguments
/// that [`value_fields`] have.
pub(crate) fn take_custom_fields(arguments: &mut Map<String, Value>) -> Result<Map<String, Value>> {
    let mut fields = arguments.remove(CUSTOM_FIELDS).unwrap_or_default();
    parse_json(&mut fields, &['{']);
    let built_in = value_fields().filter_map(|field| arguments.remove_entry(field.name));
    match fields {
        Value::Null => Ok(built_in.collect()),
        Value::Object(fields) => Ok(fields.into_iter().chain(built_in).collect()),
        _ => {
            let message = r#"fields: send an object such as {"risk": "High"}"#;
            Err(Error::new(ErrorKind::InvalidArgument, message).field(CUSTOM_FIELDS))
        }
    }
}

/// Removes the argument `extra`, texts of keys that are neither fields nor links.
pub(crate) fn take_extra(arguments: &mut Map<String, Value>) -> Result<Vec<(String, String)>> {
    let mut given = arguments.remove(EXTRA).unwrap_or_default();
    parse_json(&mut given, &['{']);
    let given = match given {
        Value::Null => Map::new(),
        Value::Object(given) if given.len() <= MAX_EXTRA_KEYS => given,
        Value::Object(given) => {
            let count = given.len();
            let message =
                format!("extra: at most {MAX_EXTRA_KEYS} keys are allowed, this has {count}");
            return Err(Error::new(ErrorKind::InvalidArgument, message).field(EXTRA));
        }
        _ => {
            let message = r#"extra: send an object of texts such as {"source": "a.csv"}"#;
            return Err(Error::new(ErrorKind::InvalidArgument, message).field(EXTRA));
        }
    };
    let mut extra = Vec::with_capacity(given.len());
    for (name, value) in given {
        match value {
            Value::Null => extra.push((name, String::new())),
            Value::String(text) => extra.push((name, text)),
            _ => {
                let field = format!("{EXTRA}.{}", truncate_echo(&name));
                let message = format!("{field}: send text");
                return Err(Error::new(ErrorKind::InvalidArgument, message).field(field));
            }
        }
    }
    Ok(extra)
}

/// `name` is the argument that contains the value. Texts are converted only where the schema has
/// another type, so a text that contains JSON stays a text.
fn convert(value: &mut Value, name: &str, schema: &Value) {
    match schema["type"].as_str() {
        Some("array") => convert_list(value, name, &schema["items"]),
        Some("object") => {
            parse_json(value, &['{']);
            let Value::Object(object) = value else { return };
            for (key, value) in object {
                let (name, schema) = property_schema(name, schema, key);
                convert(value, name, schema);
            }
        }
        Some("boolean") => {
            let Value::String(text) = &*value else { return };
            if let Ok(flag) = text.trim().to_ascii_lowercase().parse() {
                *value = Value::Bool(flag);
            }
        }
        _ => {}
    }
}

fn convert_list(value: &mut Value, name: &str, item_schema: &Value) {
    let has_objects = item_schema["type"] == "object";
    parse_json(value, if has_objects { &['[', '{'] } else { &['['] });
    let only_item = match &*value {
        // Probably a list in another syntax.
        Value::String(text) if text.trim_start().starts_with('[') => None,
        Value::String(_) if has_objects || WHOLE_TEXTS.contains(&name) => None,
        Value::String(text) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Some(parts.map(Value::from).collect())
        }
        Value::Number(number) if !has_objects => Some(vec![number.clone().into()]),
        Value::Object(object) if has_objects => Some(vec![object.clone().into()]),
        _ => None,
    };
    if let Some(items) = only_item {
        *value = Value::Array(items);
    }
    if let Value::Array(items) = value {
        for item in items {
            convert(item, name, item_schema);
        }
    }
}

/// Replaces JSON text that begins with one of these brackets by its value.
fn parse_json(value: &mut Value, brackets: &[char]) {
    if let Value::String(text) = &*value
        && text.trim_start().starts_with(brackets)
        && let Ok(parsed) = serde_json::from_str(text)
    {
        *value = parsed;
    }
}

/// The schema of a key of an object. A key that callers choose keeps the name of the argument.
fn property_schema<'a>(name: &'a str, schema: &'a Value, key: &'a str) -> (&'a str, &'a Value) {
    match schema["properties"].get(key) {
        Some(property) => (key, property),
        None => (name, &schema["additionalProperties"]),
    }
}

/// Returns the form that the schema requires at the path of the error, unless the value there has
/// it, so that the error is about the value.
pub(crate) fn wanted_form(
    arguments: &Value,
    spec: &ToolSpec,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> Option<String> {
    let mut segments = error.path().iter();
    let Some(Segment::Map { key }) = segments.next() else { return None };
    let mut name = key.as_str();
    let (mut schema, mut value) = (&spec.input_schema["properties"][name], &arguments[name]);
    for segment in segments {
        match segment {
            Segment::Map { key } => {
                (name, schema) = property_schema(name, schema, key);
                value = &value[key];
            }
            Segment::Seq { index } => (schema, value) = (&schema["items"], &value[*index]),
            Segment::Enum { .. } | Segment::Unknown => return None,
        }
    }
    let kind = schema["type"].as_str()?;
    let has_form = match kind {
        "array" => value.is_array(),
        "object" => value.is_object(),
        "boolean" => value.is_boolean(),
        // Most types of numbers also accept text, and the other way round.
        _ if error.inner().to_string().starts_with("invalid type") => false,
        _ => value.is_string() || value.is_number(),
    };
    (!has_form).then(|| describe_form(kind, name, schema))
}

fn describe_form(kind: &str, name: &str, schema: &Value) -> String {
    let values = |schema: &Value| -> Option<String> {
        let names: Vec<&str> =
            schema["enum"].as_array()?.iter().filter_map(Value::as_str).collect();
        Some(names.join(", "))
    };
    let example = EXAMPLES.iter().find(|(argument, _)| *argument == name).map(|(_, text)| *text);
    match kind {
        "array" if name == "links" => r#"send a list such as ["REQ-048"]"#.to_owned(),
        "array" => match (example, values(&schema["items"])) {
            (Some(example), _) => format!("send a list such as {example}"),
            (None, Some(names)) => format!("send a list of {names}"),
            (None, None) => "send a list of texts".to_owned(),
        },
        "object" => match example {
            Some(example) => format!("send an object such as {example}"),
            None => "send an object".to_owned(),
        },
        "boolean" => "send true or false".to_owned(),
        "integer" if name == "priority" => "send 1 Critical to 4 Low".to_owned(),
        "integer" => match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
            (Some(min), Some(max)) => format!("send a whole number from {min} to {max}"),
            _ => "send a whole number".to_owned(),
        },
        _ => match values(schema) {
            Some(names) => format!("send one of {names}"),
            None => "send text".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
