//! Edits a server entry in TOML: `[mcp_servers.reqlore]`, `reqlore = { … }` or `reqlore.command =`.
//!
//! A change keeps the notation of its table. A new table gets a header at the end of the file.
//! `toml_edit::DocumentMut` is not used for edits: with a key or header it removes the comments
//! before it, and it writes all lines with LF.

use std::ops::Range;

use serde_json::{Map, Value as Json};
use toml_edit::{Document, InlineTable, Item, Key, Table, TableLike, Value};

use super::braces::{BracedPairs, TextStyle, gap_tokens};
use super::text;
use crate::error::ConfigError;

pub(super) fn find_table(body: &str, names: &[&str]) -> Result<Option<Json>, ConfigError> {
    let document = parse_document(body)?;
    for depth in 1..=names.len() {
        let Some(item) = walk_path(&document, &names[..depth]).item else { return Ok(None) };
        if !item.is_table_like() {
            let name = names[depth - 1];
            let message = format!("`{name}` is not a table; remove it, then run the command again");
            let start = item.span().map_or(0, |span| span.start);
            return Err(ConfigError::at_position(body, start, &message));
        }
        if depth == names.len() {
            return Ok(Some(to_json(item)));
        }
    }
    Ok(None)
}

pub(super) fn remove_table(body: &str, names: &[&str]) -> Result<String, ConfigError> {
    let document = parse_document(body)?;
    let path = walk_path(&document, names);
    Ok(match path.item {
        Some(item) => remove_item(body, path.location, item),
        None => body.to_owned(),
    })
}

/// The text with a whole new entry.
pub(super) fn append_entry(
    body: &str,
    names: &[&str],
    entry: &Map<String, Json>,
) -> Result<String, ConfigError> {
    Ok(match walk_path(&parse_document(body)?, names).location {
        TableLocation::Inline { table, depth } => {
            append_inline(body, table, &print_pair(&names[depth..], &Json::Object(entry.clone())))
        }
        TableLocation::Section { .. } => append_section(body, names, entry),
    })
}

/// The text with this value of a key of an entry. Null is not written.
pub(super) fn set_value(body: &str, names: &[&str], value: &Json) -> Result<String, ConfigError> {
    let document = parse_document(body)?;
    let TablePath { location, parent, item } = walk_path(&document, names);
    let Some(old) = item else { return Ok(add_key(body, location, parent, names, value)) };
    // TOML has no null. An equal value keeps its notation.
    if value.is_null() || to_json(old) == *value {
        return Ok(body.to_owned());
    }
    if let Some(old) = old.as_value()
        && !is_dotted(old)
        && let Some(span) = old.span()
    {
        return Ok(text::replace_ranges(body, vec![(span, print_value(value))]));
    }
    // A table becomes a value.
    set_value(&remove_item(body, location, old), names, value)
}

fn parse_document(body: &str) -> Result<Document<&str>, ConfigError> {
    Document::parse(body).map_err(|error| {
        let problem = error.message().replace('\n', ", ");
        let start = error.span().map_or(0, |span| span.start);
        ConfigError::syntax_error(body, start, "TOML", &problem)
    })
}

/// The nearest table around an item that has its own text. Its path has `depth` names.
#[derive(Clone, Copy)]
enum TableLocation<'d> {
    /// Under a header, or at the top of the file.
    Section {
        table: &'d Table,
        depth: usize,
    },
    Inline {
        table: &'d InlineTable,
        depth: usize,
    },
}

impl<'d> TableLocation<'d> {
    /// The location of the values in `item`, which is at this location.
    fn enter(self, item: &'d Item, depth: usize) -> Self {
        match item {
            Item::Value(Value::InlineTable(table)) if !table.is_dotted() => {
                Self::Inline { table, depth }
            }
            Item::Table(table) if !table.is_dotted() => Self::Section { table, depth },
            _ => self,
        }
    }
}

struct TablePath<'d> {
    location: TableLocation<'d>,
    /// The item around `item`, if there is one.
    parent: Option<&'d Item>,
    item: Option<&'d Item>,
}

fn walk_path<'d>(document: &'d Document<&str>, names: &[&str]) -> TablePath<'d> {
    let mut location = TableLocation::Section { table: document.as_table(), depth: 0 };
    let mut parent = None;
    let mut item = Some(document.as_item());
    for (depth, name) in names.iter().enumerate() {
        parent = item;
        item = None;
        if let Some(parent) = parent {
            location = location.enter(parent, depth);
            item = parent.as_table_like().and_then(|table| table.get(name));
        }
    }
    TablePath { location, parent, item }
}

/// The text with a new table at the end.
fn append_section(body: &str, names: &[&str], entry: &Map<String, Json>) -> String {
    let line_end = text::line_end(body);
    let mut section = format!("[{}]{line_end}", dotted_key(names));
    for (key, value) in entry {
        if !value.is_null() {
            section = section + &print_pair(&[key], value) + line_end;
        }
    }
    match body {
        blank if blank.trim().is_empty() => section,
        body if !body.ends_with('\n') => {
            // A file without a final line end stays without one.
            format!("{body}{line_end}{line_end}{}", section.trim_end())
        }
        body if text::ends_with_blank_line(body) => format!("{body}{section}"),
        body => format!("{body}{line_end}{section}"),
    }
}

fn append_inline(body: &str, table: &InlineTable, pair: &str) -> String {
    let Some(braces) = inline_pairs(body, table) else { return body.to_owned() };
    let line_end = text::line_end(body);
    let is_multiline = braces.is_multiline();
    braces.append_pair(pair, TextStyle { line_end, unit: "  ", space: " ", is_multiline })
}

/// The text with one more key in its table, after the last key or the header.
fn add_key(
    body: &str,
    location: TableLocation,
    parent: Option<&Item>,
    names: &[&str],
    value: &Json,
) -> String {
    if value.is_null() {
        return body.to_owned();
    }
    let Some((key, table_names)) = names.split_last() else { return body.to_owned() };
    let (section, depth) = match location {
        TableLocation::Inline { table, depth } => {
            return append_inline(body, table, &print_pair(&names[depth..], value));
        }
        TableLocation::Section { table, depth } => (table, depth),
    };
    let mut last: Option<Range<usize>> = None;
    if let Some(Item::Table(table)) = parent {
        last = pair_spans(&table.get_values()).into_iter().max_by_key(|span| span.end);
    }
    let has_header = depth == table_names.len() && !section.is_implicit();
    // An empty table with a header gets the key below the header.
    if last.is_none() && has_header {
        last = section.span();
    }
    let Some(last) = last else {
        let entry = Map::from_iter([((*key).to_owned(), value.clone())]);
        return append_section(body, table_names, &entry);
    };
    let (line_end, indent) = (text::line_end(body), text::line_indent(body, last.start));
    let line = format!("{line_end}{indent}{}", print_pair(&names[depth..], value));
    let end = text::line_stop(body, last.end);
    text::replace_ranges(body, vec![(end..end, line)])
}

/// The text without this item, with all of its tables and keys.
fn remove_item(body: &str, location: TableLocation, item: &Item) -> String {
    if let (TableLocation::Inline { table, .. }, Item::Value(value)) = (location, item) {
        let Some(braces) = inline_pairs(body, table) else { return body.to_owned() };
        let spans = value_spans(value);
        // The spans do not include the keys, so pairs are compared by their ends.
        return braces.remove_pairs(|pair| spans.iter().any(|span| span.end == pair.end));
    }
    let mut removed = Vec::new();
    collect_lines(body, item, &mut removed);
    text::remove_ranges(body, removed)
}

fn collect_lines(body: &str, item: &Item, removed: &mut Vec<Range<usize>>) {
    match item {
        Item::None => {}
        Item::Value(value) => {
            for span in value_spans(value) {
                removed.push(pair_lines(body, &span));
            }
        }
        Item::Table(table) => collect_table_lines(body, table, removed),
        Item::ArrayOfTables(tables) => {
            for table in tables {
                collect_table_lines(body, table, removed);
            }
        }
    }
}

fn collect_table_lines(body: &str, table: &Table, removed: &mut Vec<Range<usize>>) {
    let spans = pair_spans(&table.get_values());
    if table.is_dotted() {
        for span in &spans {
            removed.push(pair_lines(body, span));
        }
    } else if !table.is_implicit()
        && let Some(header) = table.span()
    {
        let mut end = header.end;
        for span in &spans {
            end = end.max(span.end);
        }
        removed.push(section_lines(body, header.start..end));
    }
    for (_, child) in table {
        // Child tables have headers of their own.
        if !child.is_value() {
            collect_lines(body, child, removed);
        }
    }
}

fn pair_spans(pairs: &[(Vec<&Key>, &Value)]) -> Vec<Range<usize>> {
    pairs.iter().filter_map(|(_, value)| value.span()).collect()
}

/// The span of a value. A dotted table has none, so its values' spans are returned.
fn value_spans(value: &Value) -> Vec<Range<usize>> {
    match value.as_inline_table() {
        Some(table) if table.is_dotted() => pair_spans(&table.get_values()),
        _ => value.span().into_iter().collect(),
    }
}

fn is_dotted(value: &Value) -> bool {
    value.as_inline_table().is_some_and(InlineTable::is_dotted)
}

/// The range to remove for a pair. The key is on the first line of the value; a comment after
/// the value stays.
fn pair_lines(body: &str, value: &Range<usize>) -> Range<usize> {
    let start = text::line_start(body, value.start);
    text::widen_removal(body, start + text::line_indent(body, start).len()..value.end)
}

/// The range to remove for a table. If two blank lines would meet, it includes one.
fn section_lines(body: &str, section: Range<usize>) -> Range<usize> {
    let start = text::line_start(body, section.start);
    let end = text::next_line(body, section.end);
    if text::is_last_in_line(body, end) && text::ends_with_blank_line(&body[..start]) {
        return text::line_start(body, start - 1)..end;
    }
    start..end
}

/// The pairs of an inline table. Keys in dotted tables have no spans, so a pair begins at the first
/// token that is not a comma or a comment.
fn inline_pairs<'a>(body: &'a str, table: &InlineTable) -> Option<BracedPairs<'a>> {
    let span = table.span()?;
    let mut values = pair_spans(&table.get_values());
    // Values are grouped by dotted table, not in the order of the text.
    values.sort_by_key(|value| value.start);
    let mut pairs = Vec::with_capacity(values.len());
    let mut end = span.start + 1;
    for value in values {
        let mut start = value.start;
        for token in gap_tokens(body, end..value.start) {
            if !body[token.start..].starts_with([',', '#']) {
                start = token.start;
                break;
            }
        }
        end = value.end;
        pairs.push(start..value.end);
    }
    Some(BracedPairs { text: body, pairs, span })
}

fn to_json(item: &Item) -> Json {
    match item {
        Item::None => Json::Null,
        Item::Table(table) => table_to_json(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| table_to_json(table)).collect(),
        Item::Value(value) => value_to_json(value),
    }
}

fn table_to_json(table: &dyn TableLike) -> Json {
    table.iter().map(|(key, item)| (key.to_owned(), to_json(item))).collect()
}

fn value_to_json(value: &Value) -> Json {
    match value {
        Value::InlineTable(table) => table_to_json(table),
        Value::Array(items) => items.iter().map(value_to_json).collect(),
        Value::String(text) => Json::from(text.value().as_str()),
        Value::Integer(number) => Json::from(*number.value()),
        Value::Float(number) => Json::from(*number.value()),
        Value::Boolean(boolean) => Json::from(*boolean.value()),
        Value::Datetime(time) => Json::from(time.value().to_string()),
    }
}

/// `a.b = 1`.
fn print_pair(names: &[&str], value: &Json) -> String {
    format!("{} = {}", dotted_key(names), print_value(value))
}

fn dotted_key(names: &[&str]) -> String {
    let mut key = String::new();
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            key.push('.');
        }
        if !name.is_empty() && name.chars().all(is_bare_key_char) {
            key += name;
        } else {
            key += &print_value(&Json::from(*name));
        }
    }
    key
}

fn is_bare_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A value on one line, without keys that are null.
fn print_value(value: &Json) -> String {
    match value {
        // TOML has JSON's escapes, and requires one for DEL as well.
        Json::String(_) => value.to_string().replace('\u{7f}', "\\u007F"),
        Json::Array(items) => {
            format!("[{}]", items.iter().map(print_value).collect::<Vec<_>>().join(", "))
        }
        Json::Object(map) => {
            let mut pairs = Vec::new();
            for (key, value) in map {
                if !value.is_null() {
                    pairs.push(print_pair(&[key], value));
                }
            }
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        scalar => scalar.to_string(),
    }
}
