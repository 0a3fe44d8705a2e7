//! A server entry in TOML: `[mcp_servers.reqlore]`, `reqlore = { … }` or `reqlore.command = "…"`.
//!
//! A change keeps the notation of its table; a new table gets a header at the end of the file.
//! `toml_edit::DocumentMut` is not used for edits: it removes comments with the key or header after
//! them, and writes all lines with LF.

use std::ops::Range;

use serde_json::{Map, Value as Json};
use toml_edit::{Document, InlineTable, Item, Table, TableLike, Value};

use super::braces::{BracedPairs, TextStyle, gap_tokens};
use super::text;
use crate::ConfigError;

pub(super) fn find_table(body: &str, names: &[&str]) -> Result<Option<Json>, ConfigError> {
    let document = parse_document(body)?;
    let TablePath { item, .. } = walk_path(&document, names);
    for (depth, name) in names.iter().enumerate() {
        if let Some(other) =
            walk_path(&document, &names[..=depth]).item.filter(|i| !i.is_table_like())
        {
            let what = format!("`{name}` has to be a table; remove it, then run this again");
            return Err(ConfigError::at_position(
                body,
                other.span().map_or(0, |span| span.start),
                &what,
            ));
        }
    }
    Ok(item.map(to_json))
}

pub(super) fn remove_table(body: &str, names: &[&str]) -> Result<String, ConfigError> {
    let document = parse_document(body)?;
    let TablePath { location: home, item, .. } = walk_path(&document, names);
    Ok(item.map_or_else(|| body.to_owned(), |item| remove_item(body, home, item)))
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
    let TablePath { location: home, parent, item } = walk_path(&document, names);
    let Some(old) = item else { return Ok(add_key(body, home, parent, names, value)) };
    if value.is_null() || to_json(old) == *value {
        return Ok(body.to_owned());
    }
    match old.as_value().filter(|value| !is_dotted(value)).and_then(Value::span) {
        Some(span) => Ok(text::replace_ranges(body, vec![(span, print_value(value))])),
        // A table becomes a value.
        None => set_value(&remove_item(body, home, old), names, value),
    }
}

fn parse_document(body: &str) -> Result<Document<&str>, ConfigError> {
    Document::parse(body).map_err(|error| {
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        ConfigError::syntax_error(body, error.span().map_or(0, |span| span.start), "TOML", &what)
    })
}

/// The nearest table around an item that has text of its own; `depth` names lead to it.
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
    /// The home of what this item, found in this home, contains.
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
    let mut home = TableLocation::Section { table: document.as_table(), depth: 0 };
    let (mut parent, mut item) = (None, Some(document.as_item()));
    for (depth, name) in names.iter().enumerate() {
        parent = item;
        home = parent.map_or(home, |parent| home.enter(parent, depth));
        item = parent.and_then(Item::as_table_like).and_then(|table| table.get(name));
    }
    TablePath { location: home, parent, item }
}

/// The text with a table of these names after everything else.
fn append_section(body: &str, names: &[&str], entry: &Map<String, Json>) -> String {
    let line_end = text::line_end(body);
    let mut section = format!("[{}]{line_end}", dotted_key(names));
    for (key, value) in entry.iter().filter(|(_, value)| !value.is_null()) {
        section = section + &print_pair(&[key], value) + line_end;
    }
    match body {
        blank if blank.trim().is_empty() => section,
        body if !body.ends_with('\n') => {
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

/// The text with one more key in its table: after the last key, else after the header.
fn add_key(
    body: &str,
    home: TableLocation,
    parent: Option<&Item>,
    names: &[&str],
    value: &Json,
) -> String {
    let Some((key, table_names)) = names.split_last().filter(|_| !value.is_null()) else {
        return body.to_owned();
    };
    let (section, depth) = match home {
        TableLocation::Inline { table, depth } => {
            return append_inline(body, table, &print_pair(&names[depth..], value));
        }
        TableLocation::Section { table, depth } => (table, depth),
    };
    let values = parent.and_then(Item::as_table).map(Table::get_values).unwrap_or_default();
    let last = values.iter().filter_map(|(_, value)| value.span()).max_by_key(|span| span.end);
    let has_header = depth == table_names.len() && !section.is_implicit();
    let Some(last) = last.or_else(|| section.span().filter(|_| has_header)) else {
        let entry = Map::from_iter([((*key).to_owned(), value.clone())]);
        return append_section(body, table_names, &entry);
    };
    let (line_end, indent) = (text::line_end(body), text::line_indent(body, last.start));
    let line = format!("{line_end}{indent}{}", print_pair(&names[depth..], value));
    let end = text::line_stop(body, last.end);
    text::replace_ranges(body, vec![(end..end, line)])
}

/// The text without this item, all of its tables and keys.
fn remove_item(body: &str, home: TableLocation, item: &Item) -> String {
    if let (TableLocation::Inline { table, .. }, Item::Value(value)) = (home, item) {
        let Some(braces) = inline_pairs(body, table) else { return body.to_owned() };
        let ends: Vec<usize> = value_spans(value).iter().map(|span| span.end).collect();
        return braces.remove_pairs(|pair| ends.contains(&pair.end));
    }
    let mut removed = Vec::new();
    collect_lines(body, item, &mut removed);
    text::remove_ranges(body, removed)
}

fn collect_lines(body: &str, item: &Item, removed: &mut Vec<Range<usize>>) {
    let tables: Vec<&Table> = match item {
        Item::Value(value) => {
            removed.extend(value_spans(value).iter().map(|span| pair_lines(body, span)));
            return;
        }
        Item::Table(table) => vec![table],
        Item::ArrayOfTables(tables) => tables.iter().collect(),
        Item::None => return,
    };
    for table in tables {
        let pairs = table.get_values();
        let spans = pairs.iter().filter_map(|(_, value)| value.span());
        if table.is_dotted() {
            removed.extend(spans.map(|span| pair_lines(body, &span)));
        } else if let Some(header) = table.span().filter(|_| !table.is_implicit()) {
            let end = spans.map(|span| span.end).fold(header.end, usize::max);
            removed.push(section_lines(body, header.start..end));
        }
        for (_, child) in table.iter().filter(|(_, child)| !child.is_value()) {
            collect_lines(body, child, removed);
        }
    }
}

/// The spans of a value: of the values in a dotted table, which has none of its own.
fn value_spans(value: &Value) -> Vec<Range<usize>> {
    match value.as_inline_table() {
        Some(table) if table.is_dotted() => {
            table.get_values().into_iter().filter_map(|(_, value)| value.span()).collect()
        }
        _ => value.span().into_iter().collect(),
    }
}

fn is_dotted(value: &Value) -> bool {
    value.as_inline_table().is_some_and(InlineTable::is_dotted)
}

/// A key is on the line where its value begins. A comment after the value stays.
fn pair_lines(body: &str, value: &Range<usize>) -> Range<usize> {
    let start = text::line_start(body, value.start);
    text::widen_removal(body, start + text::line_indent(body, start).len()..value.end)
}

/// Of two blank lines that would meet, one is removed as well.
fn section_lines(body: &str, section: Range<usize>) -> Range<usize> {
    let start = text::line_start(body, section.start);
    let end = text::next_line(body, section.end);
    if text::is_last_in_line(body, end) && text::ends_with_blank_line(&body[..start]) {
        return text::line_start(body, start - 1)..end;
    }
    start..end
}

/// Keys have no spans in dotted tables: a pair begins at the first token that is not a comma or a
/// comment.
fn inline_pairs<'a>(body: &'a str, table: &InlineTable) -> Option<BracedPairs<'a>> {
    let span = table.span()?;
    let pairs = table.get_values();
    let mut values: Vec<_> = pairs.iter().filter_map(|(_, value)| value.span()).collect();
    values.sort_by_key(|value| value.start);
    let mut end = span.start + 1;
    let pairs = values.into_iter().map(|value| {
        let is_key = |token: &Range<usize>| !body[token.start..].starts_with([',', '#']);
        let key = gap_tokens(body, end..value.start).find(is_key);
        end = value.end;
        key.map_or(value.start, |key| key.start)..value.end
    });
    Some(BracedPairs { text: body, pairs: pairs.collect(), span })
}

fn to_json(item: &Item) -> Json {
    let object = |table: &dyn TableLike| {
        table.iter().map(|(key, item)| (key.to_owned(), to_json(item))).collect()
    };
    match item {
        Item::None => Json::Null,
        Item::Table(table) => object(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| object(table)).collect(),
        Item::Value(Value::InlineTable(table)) => object(table),
        Item::Value(Value::Array(items)) => {
            items.iter().map(|value| to_json(&Item::Value(value.clone()))).collect()
        }
        Item::Value(Value::String(text)) => Json::from(text.value().as_str()),
        Item::Value(Value::Integer(number)) => Json::from(*number.value()),
        Item::Value(Value::Float(number)) => Json::from(*number.value()),
        Item::Value(Value::Boolean(truth)) => Json::from(*truth.value()),
        Item::Value(Value::Datetime(time)) => Json::from(time.value().to_string()),
    }
}

/// `a.b = 1`.
fn print_pair(names: &[&str], value: &Json) -> String {
    format!("{} = {}", dotted_key(names), print_value(value))
}

fn dotted_key(names: &[&str]) -> String {
    let is_bare = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    let key = |name: &&str| match *name {
        name if !name.is_empty() && name.chars().all(is_bare) => name.to_owned(),
        name => print_value(&Json::from(name)),
    };
    names.iter().map(key).collect::<Vec<_>>().join(".")
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
            let filled = map.iter().filter(|(_, value)| !value.is_null());
            let pairs: Vec<String> = filled.map(|(key, value)| print_pair(&[key], value)).collect();
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        scalar => scalar.to_string(),
    }
}
