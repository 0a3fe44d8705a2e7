//! Items with the fields of issues and tasks.

use std::collections::BTreeMap;

use reqlore_domain::ports::exchange::ImportedItem;
use serde_json::{Value, json};

/// An item with the fields of an issue or task.
pub(crate) fn issue_item(
    kind: &str,
    source: String,
    title: String,
    fields: BTreeMap<String, Value>,
) -> ImportedItem {
    let kind = kind.to_owned();
    let mut item = ImportedItem { source, kind, title, ..ImportedItem::default() };
    for (name, value) in fields {
        let name = match &*name {
            "state" => "status",
            "labels" => "tags",
            name => name,
        };
        match (name, name_of(value)) {
            ("body" | "description", value) => {
                value.as_str().unwrap_or_default().clone_into(&mut item.text);
            }
            ("assignee" | "assignees", Value::Array(mut logins)) => {
                let first = if logins.is_empty() { json!("") } else { logins.remove(0) };
                item.values.insert("assignee".to_owned(), first);
                item.values.insert("other_assignees".to_owned(), json!(logins));
            }
            (name, value) => _ = item.values.insert(name.to_owned(), value),
        }
    }
    item
}

/// A value as text: an object by its name.
fn name_of(value: Value) -> Value {
    match value {
        Value::Null => json!(""),
        Value::Array(values) => values.into_iter().map(name_of).collect(),
        Value::Object(fields) => {
            let names = ["login", "name", "title", "url"];
            let name = names.iter().find_map(|name| fields.get(*name)).cloned();
            name.unwrap_or_else(|| json!(Value::Object(fields).to_string()))
        }
        value => value,
    }
}
