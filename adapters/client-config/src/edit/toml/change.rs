//! One key put into TOML, changed or taken out, in the way its table is written.
//!
//! The tree has no commas and no places of dotted keys, so both are looked for in the text between
//! two values, where nothing but white space, comments, commas and keys can stand.

use std::ops::Range;

use serde_json::{Map, Value as Json};
use toml_edit::{InlineTable, Item, Key, Table, Value};

use super::{Home, print};
use crate::edit::text::{self, Splice};

/// The text with a table of these names after everything else.
pub(super) fn append(body: &str, names: &[&str], entry: &Map<String, Json>) -> String {
    let line_end = text::line_end(body);
    let section = print::section(names, entry, line_end);
    if body.trim().is_empty() {
        return section;
    }
    if !body.ends_with('\n') {
        return format!("{body}{line_end}{line_end}{}", section.trim_end());
    }
    let is_apart = text::ends_with_blank_line(body);
    format!("{body}{}{section}", if is_apart { "" } else { line_end })
}

/// The text with a key more in the entry, which is here.
pub(super) fn add(
    body: &str,
    home: Home,
    entry: &Item,
    names: &[&str],
    key: &str,
    value: &Json,
) -> String {
    let (section, depth) = match home {
        Home::Inline { table, depth } => {
            let keys: Vec<&str> = names[depth..].iter().copied().chain([key]).collect();
            return insert_inline(body, table, &keys, &print::inline(value));
        }
        Home::Section { table, depth } => (table, depth),
    };
    let leaves = entry.as_table().map(Table::get_values).unwrap_or_default();
    let last = leaves.iter().filter_map(|(_, value)| value.span()).map(|span| span.end).max();
    let header = (depth == names.len() && !section.is_implicit()).then(|| section.span()).flatten();
    let Some(after) = last.or(header.map(|span| span.end)) else {
        let entry = Map::from_iter([(key.to_owned(), value.clone())]);
        return append(body, names, &entry);
    };
    let keys: Vec<&str> = names[depth..].iter().copied().chain([key]).collect();
    let first = leaves.iter().filter_map(|(_, value)| value.span()).map(|span| span.start).max();
    let indent = text::indent(body, first.unwrap_or(after));
    let line = format!("{}{indent}{}", text::line_end(body), print::line(&keys, value));
    text::splice(body, vec![Splice::insert(text::line_stop(body, after), line)])
}

/// The text with another value, if what stands there is one value.
pub(super) fn replace(body: &str, old: &Item, new: &Json) -> Option<String> {
    let Item::Value(value) = old else { return None };
    if value.as_inline_table().is_some_and(InlineTable::is_dotted) {
        return None;
    }
    Some(text::splice(body, vec![Splice { range: value.span()?, with: print::inline(new) }]))
}

/// The text with a pair more at the end of a table in braces.
pub(super) fn insert_inline(body: &str, table: &InlineTable, keys: &[&str], value: &str) -> String {
    let Some(span) = table.span() else { return body.to_owned() };
    let close = span.end - 1;
    let pair = format!("{} = {value}", print::dotted(keys));
    let pairs = pairs(body, table);
    let Some(last) = pairs.last() else {
        // A comment may stand there, and would swallow what is on its line.
        let range = span.start + 1..close;
        let gap = body[range.clone()].trim_end_matches([' ', '\t']);
        return text::splice(body, vec![Splice { range, with: format!("{gap} {pair} ") }]);
    };
    let (comma, after) = match comma(body, last.end..close) {
        Some(comma) => (comma + 1, ","),
        None => (last.end, ""),
    };
    let with = if after.is_empty() { format!(", {pair}") } else { format!(" {pair}{after}") };
    text::splice(body, vec![Splice::insert(comma, with)])
}

/// The text without this thing, all of its tables and keys.
pub(super) fn remove(body: &str, home: Home, thing: &Item) -> String {
    if let Home::Inline { table, .. } = home {
        return remove_inline(body, table, thing);
    }
    let mut splices = Vec::new();
    remove_lines(body, thing, &mut splices);
    text::splice(body, splices.into_iter().map(Splice::remove).collect())
}

fn remove_lines(body: &str, thing: &Item, removed: &mut Vec<Range<usize>>) {
    let tables: Vec<&Table> = match thing {
        Item::Value(value) => {
            let spans = leaves(value).into_iter().filter_map(Value::span);
            removed.extend(spans.map(|span| pair_lines(body, &span)));
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
            remove_lines(body, child, removed);
        }
    }
}

/// The values that stand in the text: of a dotted table those of its keys.
fn leaves(value: &Value) -> Vec<&Value> {
    match value.as_inline_table() {
        Some(table) if table.is_dotted() => {
            table.get_values().into_iter().map(|(_, value)| value).collect()
        }
        _ => vec![value],
    }
}

/// The key is in the line where the value begins. A comment after it stays.
fn pair_lines(body: &str, value: &Range<usize>) -> Range<usize> {
    let start = text::line_start(body, value.start);
    if text::is_last_in_line(body, value.end) {
        return start..text::next_line(body, value.end);
    }
    start + text::indent(body, start).len()..text::skip_blanks(body, value.end)
}

/// Of two blank lines that would meet one goes too.
fn section_lines(body: &str, section: Range<usize>) -> Range<usize> {
    let start = text::line_start(body, section.start);
    let end = text::next_line(body, section.end);
    if text::is_last_in_line(body, end) && text::ends_with_blank_line(&body[..start]) {
        return text::line_start(body, start - 1)..end;
    }
    start..end
}

fn remove_inline(body: &str, table: &InlineTable, thing: &Item) -> String {
    let Item::Value(value) = thing else { return body.to_owned() };
    let doomed: Vec<_> = leaves(value).into_iter().filter_map(Value::span).collect();
    let is_doomed = |pair: &Range<usize>| doomed.iter().any(|value| value.end == pair.end);
    let pairs = pairs(body, table);
    let Some(span) = table.span() else { return body.to_owned() };
    let Some(kept) = pairs.iter().rposition(|pair| !is_doomed(pair)) else {
        return text::splice(body, vec![Splice::remove(span.start + 1..span.end - 1)]);
    };
    let mut splices = Vec::new();
    for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| is_doomed(pair)) {
        let (mut start, mut end) = (pair.start, pair.end);
        let next = pairs.get(at + 1).map(|next| next.start);
        match comma(body, end..next.unwrap_or(span.end - 1)) {
            Some(comma) if body[end..comma].contains('#') => {
                splices.push(Splice::remove(text::line_or(body, comma..comma + 1)));
            }
            Some(comma) => end = comma + 1,
            None => {
                let before = comma(body, pairs[kept].end..pairs[kept + 1].start);
                splices.extend(before.map(|comma| Splice::remove(comma..comma + 1)));
            }
        }
        let line = text::line_or(body, start..end);
        if line != (start..end) {
            (start, end) = (line.start, line.end);
        } else if next.is_some() || text::is_first_in_line(body, start) {
            end = text::skip_blanks(body, end);
        } else {
            start = text::skip_blanks_back(body, start);
        }
        splices.push(Splice::remove(start..end));
    }
    text::splice(body, splices)
}

/// Each key with its value, in the order of the text.
fn pairs(body: &str, table: &InlineTable) -> Vec<Range<usize>> {
    let pairs: Vec<(Vec<&Key>, &Value)> = table.get_values();
    let mut values: Vec<_> = pairs.iter().filter_map(|(_, value)| value.span()).collect();
    values.sort_by_key(|span| span.start);
    let mut end = table.span().map_or(0, |span| span.start + 1);
    let mut pairs = Vec::new();
    for value in values {
        let between = Between { body, at: end, stop: value.start };
        let start = between.into_iter().find(|(_, sign)| *sign != ',').map_or(end, |(at, _)| at);
        pairs.push(start..value.end);
        end = value.end;
    }
    pairs
}

fn comma(body: &str, between: Range<usize>) -> Option<usize> {
    let mut signs = Between { body, at: between.start, stop: between.end };
    signs.find(|(_, sign)| *sign == ',').map(|(at, _)| at)
}

/// What stands between two places that is neither white space nor a comment.
struct Between<'a> {
    body: &'a str,
    at: usize,
    stop: usize,
}

impl Iterator for Between<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.stop {
            let at = self.at;
            let sign = self.body[at..].chars().next()?;
            self.at += sign.len_utf8();
            match sign {
                '#' => self.at = text::next_line(self.body, at),
                sign if sign.is_whitespace() => {}
                sign => return Some((at, sign)),
            }
        }
        None
    }
}
