//! Extra keys of front matter: texts that are neither fields nor links, such as the source of an
//! import.

use serde_json::{Map, Value};

use super::fields::{IMPORTED_FROM, is_field_word};
use super::schema::RecordSchema;
use super::tombstone::RecordRef;
use super::values::{MAX_FIELD_NAME_CHARS, is_built_in, is_field_name};
use crate::bounded_types::check_length;
use crate::front_matter;
use crate::yaml::{YamlEntry, YamlNode, YamlValue};

/// Maximum number of extra keys that one change sets.
pub const MAX_EXTRA_KEYS: usize = 40;
/// Maximum length of the text of one key, in characters.
pub const MAX_EXTRA_CHARS: usize = 2_000;
/// As [`MAX_EXTRA_CHARS`], of [`IMPORTED_FROM`].
pub const MAX_IMPORTED_FROM_CHARS: usize = 500;

/// Checks the name of an extra key and its text. The error is the reason.
pub fn check_extra(name: &str, text: &str, schema: &RecordSchema) -> Result<(), String> {
    let max = if name == IMPORTED_FROM { MAX_IMPORTED_FROM_CHARS } else { MAX_EXTRA_CHARS };
    if !is_field_name(name) {
        return Err(format!(
            "is not a key; use 1 to {MAX_FIELD_NAME_CHARS} lower-case letters, digits and _, \
             beginning with a letter"
        ));
    }
    if schema.field(name).is_some() {
        return Err("is a custom field; send it in fields".to_owned());
    }
    if is_built_in(name) && name != IMPORTED_FROM {
        return Err("is the name of a field or link; use another name".to_owned());
    }
    check_length(text, max)?;
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some(c) => Err(format!("the control character {c:?} is not allowed; remove it")),
        None => Ok(()),
    }
}

/// The keys in a record's text that are neither fields nor links, with their texts. A list or map
/// is a text in JSON.
pub fn extra_keys<'a>(
    record: impl Into<RecordRef<'a>>,
    text: &str,
    schema: &RecordSchema,
) -> Map<String, Value> {
    let links: Vec<&str> = match record.into() {
        RecordRef::Item(_) => Vec::new(),
        RecordRef::Entity(entity) => entity.links.iter().map(|link| &*link.relation).collect(),
    };
    let parsed = front_matter::parse(front_matter::split(text));
    let mut extra = Map::new();
    for YamlEntry { key, node, .. } in parsed.map(|parsed| parsed.entries).unwrap_or_default() {
        let is_field = is_field_word(&key) || key == "labels";
        let is_field = is_field || schema.field(&key).is_some();
        if !is_field && !links.contains(&&*key) {
            let value = match node_value(&node) {
                Value::Null => continue,
                Value::String(text) => text.into(),
                value => value.to_string().into(),
            };
            extra.insert(key, value);
        }
    }
    extra
}

/// A YAML value in JSON; each scalar is a text.
pub fn node_value(node: &YamlNode) -> Value {
    match &node.value {
        YamlValue::Null => Value::Null,
        YamlValue::Scalar(text) => text.as_str().into(),
        YamlValue::List(items) => items.iter().map(node_value).collect(),
        YamlValue::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), node_value(&entry.node))).collect()
        }
    }
}
