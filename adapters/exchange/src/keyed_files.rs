//! Files with keys: YAML, or Markdown with front matter.

use std::collections::BTreeMap;

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::front_matter;
use reqlore_domain::ports::exchange::{ImportedItem, SourceFile};
use reqlore_domain::records::answers::csv::value_text;
use reqlore_domain::records::extra::{MAX_EXTRA_CHARS, node_value};
use reqlore_domain::yaml::{YamlDialect, YamlValue, parse_yaml};
use serde_json::{Value, json};

use crate::markdown::is_markdown;
use crate::names::add_paragraph;

pub(crate) type Fields = BTreeMap<String, Value>;

/// A value as text; empty for null.
pub(crate) fn text_of(value: &Value) -> String {
    if value.is_null() { String::new() } else { value_text(value) }
}

/// Moves values that are too long for an extra key to the end of the text.
pub(crate) fn move_long_values(item: &mut ImportedItem) {
    let ImportedItem { values, text, .. } = item;
    values.retain(|name, value| {
        let long = value.as_str().filter(|value| value.chars().count() > MAX_EXTRA_CHARS);
        long.inspect(|value| add_paragraph(text, &format!("## {name}\n\n{value}"))).is_none()
    });
}

/// Reads the keys of a file. The body of a Markdown file is its `text`, below a `header`.
pub(crate) fn read_fields(
    file: &mut SourceFile,
    notes: &mut Vec<String>,
) -> Result<Fields, String> {
    let (text, path) = (file.read_text()?, &file.path);
    let problem = |it: Diagnostic| format!("{path}:{}: {}", it.line.unwrap_or(1), it.message);
    let (entries, duplicate) = if is_markdown(path) {
        let parsed = front_matter::parse(front_matter::split(&text)).map_err(problem)?;
        (parsed.entries, parsed.duplicate)
    } else {
        let tree = parse_yaml(&text, YamlDialect::FrontMatter).map_err(problem)?;
        if !matches!(tree.root.value, YamlValue::Map(_) | YamlValue::Null) {
            return Err(format!("{path}:1: it has no keys; write lines like `text: …`"));
        }
        (tree.root.entries().to_vec(), tree.duplicate)
    };
    notes.extend(duplicate.map(|duplicate| problem(duplicate) + "; using the first"));
    let named = entries.into_iter().map(|entry| (entry.key, node_value(&entry.node)));
    let mut fields: Fields = named.collect();
    if is_markdown(path) {
        let body = front_matter::body(&text);
        let header = body.strip_prefix("# ").map(|it| it.split_once('\n').unwrap_or((it, "")));
        fields.extend(header.map(|(header, _)| ("header".to_owned(), json!(header))));
        let text = header.map_or(body, |(_, text)| text.trim_matches('\n'));
        fields.insert("text".to_owned(), json!(text));
    }
    Ok(fields)
}
