//! JSON values as the text around them is written.

use serde_json::{Map, Value};

/// How a value is laid out.
#[derive(Clone, Copy)]
pub(super) enum Layout<'a> {
    /// Each key on a line of its own.
    Lines { line_end: &'a str, unit: &'a str },
    /// All on one line, with a space after colons and commas or without.
    Line { space: &'a str },
}

/// A key with its value, where the key's line is indented so.
pub(super) fn property(key: &str, value: &Value, layout: Layout, indent: &str) -> String {
    let space = match layout {
        Layout::Lines { .. } => " ",
        Layout::Line { space } => space,
    };
    format!("{}:{space}{}", Value::from(key), print(value, layout, indent))
}

pub(super) fn print(value: &Value, layout: Layout, indent: &str) -> String {
    match value {
        Value::Object(map) => object(map, layout, indent),
        Value::Array(items) => array(items, layout, indent),
        scalar => scalar.to_string(),
    }
}

fn object(map: &Map<String, Value>, layout: Layout, indent: &str) -> String {
    if map.is_empty() {
        return "{}".to_owned();
    }
    match layout {
        Layout::Lines { line_end, unit } => {
            let inner = format!("{indent}{unit}");
            let lines: Vec<String> =
                map.iter().map(|(key, value)| property(key, value, layout, &inner)).collect();
            let between = format!(",{line_end}{inner}");
            format!("{{{line_end}{inner}{}{line_end}{indent}}}", lines.join(&between))
        }
        Layout::Line { space } => {
            let properties: Vec<String> =
                map.iter().map(|(key, value)| property(key, value, layout, indent)).collect();
            format!("{{{space}{}{space}}}", properties.join(&format!(",{space}")))
        }
    }
}

/// On one line, as people write arguments, unless there are maps or lists in it.
fn array(items: &[Value], layout: Layout, indent: &str) -> String {
    match layout {
        Layout::Lines { line_end, unit }
            if items.iter().any(|item| item.is_object() || item.is_array()) =>
        {
            let inner = format!("{indent}{unit}");
            let lines: Vec<String> = items.iter().map(|item| print(item, layout, &inner)).collect();
            let between = format!(",{line_end}{inner}");
            format!("[{line_end}{inner}{}{line_end}{indent}]", lines.join(&between))
        }
        Layout::Lines { .. } => on_one_line(items, layout, indent, " "),
        Layout::Line { space } => on_one_line(items, layout, indent, space),
    }
}

fn on_one_line(items: &[Value], layout: Layout, indent: &str, space: &str) -> String {
    let items: Vec<String> = items.iter().map(|item| print(item, layout, indent)).collect();
    format!("[{}]", items.join(&format!(",{space}")))
}
