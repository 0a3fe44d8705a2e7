//! JSON values in TOML's notation, each on one line. What is null there is left out here.

use serde_json::{Map, Value};

/// `[a.b]` with a line for each key.
pub(super) fn section(names: &[&str], entry: &Map<String, Value>, line_end: &str) -> String {
    let mut section = format!("[{}]{line_end}", dotted(names));
    for (key, value) in entry.iter().filter(|(_, value)| !value.is_null()) {
        section.push_str(&line(&[key], value));
        section.push_str(line_end);
    }
    section
}

/// `a.b = 1`.
pub(super) fn line(names: &[&str], value: &Value) -> String {
    format!("{} = {}", dotted(names), inline(value))
}

pub(super) fn dotted(names: &[&str]) -> String {
    names.iter().map(|name| key(name)).collect::<Vec<_>>().join(".")
}

pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let filled = map.iter().filter(|(_, value)| !value.is_null());
            let pairs: Vec<String> = filled.map(|(key, value)| line(&[key], value)).collect();
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        scalar => scalar.to_string(),
    }
}

fn key(name: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { string(name) }
}

/// JSON's escapes are TOML's too, save that TOML has to escape DEL.
fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
