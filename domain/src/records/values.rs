//! The values of custom fields as files state them. Storages keep and index them without knowing
//! which fields a project has, so a change of the schema changes no document and no row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::fields::{IMPORTED_FROM, is_field_word, value_fields};
use super::kinds::ItemKind;
use crate::backlog::relation_words::known_relations;
use crate::name_form::fold_name;
use crate::yaml::{YamlEntry, YamlNode, YamlValue};

/// Maximum length of the name of a custom field, in characters.
pub const MAX_FIELD_NAME_CHARS: usize = 40;
/// Bounds the metadata of files with many keys. Further keys are ignored.
const MAX_KEYS: usize = 100;
/// Maximum number of values of one key; further ones are ignored.
pub const MAX_VALUES: usize = 50;
/// Maximum length of one value, in characters; metadata cuts a longer one.
pub const MAX_VALUE_CHARS: usize = 500;

/// Maximum number of values of a record that lists can filter and sort by, and searches find.
const MAX_LISTED_VALUES: usize = 100;
/// Maximum length of the key of a value, in bytes.
pub const MAX_KEY_BYTES: usize = 64;

/// Names that no custom field can have, besides those of the built-in fields: other arguments,
/// keys, answers, orders and columns.
const OTHER_NAMES: [&str; 17] = [
    "children",
    "done",
    "entity",
    "fields",
    IMPORTED_FROM,
    "kind",
    "labels",
    "mentions",
    "parent",
    "progress",
    "project",
    "reference",
    "reference_id",
    "show",
    "sort",
    "text",
    "updated",
];

/// The values of all keys that may be custom fields, as written: one text, or several of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomValues(BTreeMap<String, Vec<String>>);

impl CustomValues {
    pub(crate) fn parse(entries: &[YamlEntry]) -> Self {
        let mut values = BTreeMap::new();
        for YamlEntry { key, node, .. } in entries {
            let is_custom = is_field_name(key) && !is_built_in(key);
            if values.len() < MAX_KEYS && (is_custom || is_value_key(key)) {
                let texts = node_texts(node);
                if !texts.is_empty() {
                    values.insert(key.clone(), texts);
                }
            }
        }
        Self(values)
    }

    /// The texts of a field; empty without a value.
    pub fn get(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The values that lists and searches find, with the names of their fields.
    pub fn listed(&self) -> impl Iterator<Item = (&str, &str)> {
        let values = self
            .0
            .iter()
            .flat_map(|(name, texts)| texts.iter().map(move |text| (name.as_str(), text.as_str())));
        values.take(MAX_LISTED_VALUES)
    }

    /// The texts of all fields that have a value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(name, texts)| (name.as_str(), texts.as_slice()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn node_texts(node: &YamlNode) -> Vec<String> {
    if matches!(node.value, YamlValue::Map(_)) {
        return Vec::new();
    }
    let texts = node.items().iter().filter_map(YamlNode::text).take(MAX_VALUES);
    let cut = |text: &str| match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    };
    texts.map(cut).collect()
}

/// True for a name of lower-case letters, digits and `_` that begins with a letter.
pub fn is_field_name(name: &str) -> bool {
    name.len() <= MAX_FIELD_NAME_CHARS
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

fn is_value_key(key: &str) -> bool {
    value_fields().any(|field| field.key == key)
}

/// True for the name of a built-in field or of a relation.
pub fn is_built_in(name: &str) -> bool {
    is_field_word(name)
        || OTHER_NAMES.contains(&name)
        || ItemKind::from_name(name).is_some()
        || known_relations().any(|relation| relation == name)
}

/// The text by which values are compared in filters, indexes and orders: numbers in the order of
/// their size before all other texts, which are compared in lower case.
pub fn value_key(text: &str) -> String {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && text.bytes().all(is_number_byte) => {
            // Zero has two bit patterns.
            let bits = (number + 0.0).to_bits();
            // Orders negative numbers, whose bits grow with their size, before positive ones.
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            format!("#{ordered:016x}")
        }
        _ => bounded_key(format!("={}", fold_name(text))),
    }
}

/// A text of at most [`MAX_KEY_BYTES`]. Longer ones keep their beginning and a hash of the whole,
/// because indexes limit keys. Some databases have no zero byte in texts.
pub fn bounded_key(mut key: String) -> String {
    key.retain(|c| c != '\0');
    if key.len() > MAX_KEY_BYTES {
        let hash = hex::encode(&Sha256::digest(key.as_bytes())[..8]);
        let mut end = MAX_KEY_BYTES - hash.len();
        while !key.is_char_boundary(end) {
            end -= 1;
        }
        key.truncate(end);
        key.push_str(&hash);
    }
    key
}

fn is_number_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front_matter;

    #[test]
    fn values_are_kept_as_written() {
        let text = "---\ntitle: a\nrisk: High\neffort: 007\nareas: [ui, API]\nnested: {a: b}\n\
                    depends_on: [REQ-001]\nBad: x\nempty:\n---\n";
        let entries = front_matter::parse(front_matter::split(text)).unwrap().entries;
        let values = CustomValues::parse(&entries);
        let read: Vec<_> = values.listed().collect();
        let expected = [("areas", "ui"), ("areas", "API"), ("effort", "007"), ("risk", "High")];
        assert_eq!(read, expected);
        assert_eq!(values.get("missing"), &[] as &[String]);
    }

    #[test]
    fn keys_order_numbers_by_size_and_texts_by_letters() {
        let ordered =
            ["-10", "-2.5", "-0", "3", "10", "1000", "2026-01-31", "Élan", "high", "Low", "1e3x"];
        let mut keys: Vec<String> = ordered.map(value_key).to_vec();
        assert_eq!(value_key("0"), value_key("-0"));
        assert_eq!(value_key("HIGH"), value_key(" high"));
        assert_eq!(value_key("7"), value_key("007.0"));
        let numbers = keys[..6].to_vec();
        keys.sort();
        assert_eq!(keys[..6], numbers);
        assert!(keys[6].starts_with('='), "{keys:?}");
    }
}
