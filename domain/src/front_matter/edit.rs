//! Edits of front matter that change the keys they are told and no other byte.
//!
//! `yaml-edit` only tells where keys and values stand; the text between stays untouched by
//! construction. The trap is what YAML means: a value may end a block that nobody thought of, so
//! the result is read again, and an edit that changes more than was asked is refused.

use std::ops::Range;
use std::str::FromStr;

use yaml_edit::{MappingEntry, YamlFile, YamlKind};

use super::render::{Value, scalar};
use super::{Parts, read, split};
use crate::yaml::{self, Map, Node};

/// What a key shall say.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    pub key: &'a str,
    /// `None` removes the key.
    pub value: Option<Value>,
}

/// Edits the front matter of a text. A key that is there gets its value in its place, a new one
/// comes last, and a text without front matter gets one. Refused, with words for whoever can mend
/// the text, where the edit can't be proved to change nothing else.
pub fn edit(text: &str, sets: &[Set<'_>]) -> Result<String, String> {
    let parts = split(text);
    let before = map(parts)?;
    let same = |set: &&Set<'_>| !is_set(&before, set);
    let sets: Vec<&Set<'_>> = sets.iter().filter(same).collect();
    if sets.is_empty() {
        return Ok(text.to_owned());
    }
    let edited = match parts.yaml {
        Some(yaml) => within(text, yaml, &before, &sets)?,
        None if begins_unended(parts.body) => {
            return Err(refusal("it begins with `---` and has no second line like that"));
        }
        None => in_front(text, parts.body, &sets),
    };
    prove(&edited, parts, &before, &sets)?;
    Ok(edited)
}

/// A front matter by itself.
pub fn new(sets: &[Set<'_>]) -> String {
    let lines: String = sets.iter().map(|set| line(set, "\n")).collect();
    format!("---\n{lines}---\n")
}

/// The text with another description: a blank line behind the front matter, the description
/// without line ends around it, and a line end; nothing where it is empty.
pub fn with_body(text: &str, description: &str) -> String {
    let head = &text[..text.len() - split(text).body.len()];
    let description = description.trim_matches(['\r', '\n']);
    let end = line_end(text);
    if description.is_empty() {
        return head.to_owned();
    }
    // Without front matter there is nothing that a blank line would part from the description.
    let gap = match head {
        "" | "\u{feff}" => String::new(),
        head if head.ends_with('\n') => end.to_owned(),
        _ => end.repeat(2),
    };
    format!("{head}{gap}{description}{end}")
}

fn refusal(reason: &str) -> String {
    format!("the front matter can't be edited safely: {reason}; edit the file by hand")
}

fn map(parts: Parts<'_>) -> Result<Map, String> {
    let at = |fault: yaml::Fault| refusal(&format!("line {}: {}", fault.line, fault.reason));
    let mut map = read(parts).map_err(at)?;
    match map.fault.take() {
        Some(fault) => Err(at(fault)),
        None => Ok(map),
    }
}

fn node<'a>(map: &'a Map, key: &str) -> Option<&'a Node> {
    map.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
}

fn is_set(map: &Map, set: &Set<'_>) -> bool {
    match (&set.value, node(map, set.key)) {
        (Some(value), Some(node)) => value.is(&node.value),
        (value, node) => value.is_none() && node.is_none(),
    }
}

/// Did somebody begin front matter and not end it?
fn begins_unended(body: &str) -> bool {
    let mut lines = body.lines();
    lines.next().is_some_and(|line| line.trim_end() == "---")
        && lines.next().is_some_and(|line| line.contains(':'))
}

/// The kind of line end that a text has.
fn line_end(text: &str) -> &'static str {
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if first.ends_with("\r\n") { "\r\n" } else { "\n" }
}

fn line(set: &Set<'_>, end: &str) -> String {
    let value = set.value.as_ref().map(Value::render).unwrap_or_default();
    format!("{}: {value}{end}", scalar(set.key, true))
}

/// A front matter of its own before all the text.
fn in_front(text: &str, body: &str, sets: &[&Set<'_>]) -> String {
    let end = line_end(text);
    let mark = &text[..text.len() - body.len()];
    let lines: String = sets.iter().map(|set| line(set, end)).collect();
    let gap = if body.is_empty() || body.starts_with(['\r', '\n']) { "" } else { end };
    format!("{mark}---{end}{lines}---{end}{gap}{body}")
}

/// Something to be put in the place of a part of the text.
struct Splice {
    part: Range<usize>,
    text: String,
}

fn within(text: &str, yaml: &str, before: &Map, sets: &[&Set<'_>]) -> Result<String, String> {
    let end = line_end(text);
    let entries = entries(yaml, before)?;
    let indent = entries.first().map_or(0, |entry| column(yaml, start(entry)));
    let mut splices = Vec::new();
    let mut added = String::new();
    for set in sets {
        let entry = before.entries.iter().position(|(name, _)| name == set.key);
        match (entry.and_then(|at| entries.get(at)), &set.value) {
            (Some(entry), Some(value)) => splices.push(replaced(yaml, entry, set.key, value, end)?),
            (Some(entry), None) => splices.push(removed(yaml, entry, set.key)?),
            (None, Some(_)) => {
                added.push_str(&" ".repeat(indent));
                added.push_str(&line(set, end));
            }
            (None, None) => {}
        }
    }
    splices.push(Splice { part: yaml.len()..yaml.len(), text: added });
    splices.sort_by_key(|splice| splice.part.start);
    // Both are parts of one text.
    let offset = yaml.as_ptr().addr() - text.as_ptr().addr();
    let mut edited = text.to_owned();
    for Splice { part, text } in splices.into_iter().rev() {
        edited.replace_range(offset + part.start..offset + part.end, &text);
    }
    Ok(edited)
}

/// The entries as `yaml-edit` sees them, if it sees the same as our reader.
fn entries(yaml: &str, before: &Map) -> Result<Vec<MappingEntry>, String> {
    if before.entries.is_empty() {
        return Ok(Vec::new());
    }
    let file = YamlFile::from_str(yaml).map_err(|error| refusal(&error.to_string()))?;
    let mapping = file.document().and_then(|document| document.as_mapping());
    let mapping = mapping.filter(|mapping| !mapping.is_flow_style());
    let Some(mapping) = mapping.filter(|_| file.to_string() == yaml) else {
        return Err(refusal("its keys do not stand on lines of their own"));
    };
    let entries: Vec<MappingEntry> = mapping.entries().collect();
    let name = |entry: &MappingEntry| Some(entry.key_node()?.as_scalar()?.as_string());
    let names = before.entries.iter().map(|(name, _)| Some(name.clone()));
    if !entries.iter().map(name).eq(names) {
        return Err(refusal("it has keys that are not plain words"));
    }
    Ok(entries)
}

fn start(entry: &MappingEntry) -> usize {
    usize::try_from(entry.byte_range().start).unwrap_or_default()
}

fn column(yaml: &str, at: usize) -> usize {
    at - yaml[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Where an entry's parts are: the entry whole, behind its colon, its value.
struct Place {
    entry: Range<usize>,
    colon: usize,
    value: Range<usize>,
    is_block_list: bool,
}

fn place(yaml: &str, entry: &MappingEntry, key: &str) -> Result<Place, String> {
    let odd = |what: &str| Err(refusal(&format!("`{key}` has {what}")));
    let range = |position: yaml_edit::TextPosition| {
        let number = |at: u32| usize::try_from(at).unwrap_or_default();
        number(position.start)..number(position.end)
    };
    let (Some(name), Some(value)) = (entry.key_node(), entry.value_node()) else {
        return odd("no value that could be found");
    };
    if !matches!(value.kind(), YamlKind::Scalar | YamlKind::Sequence | YamlKind::Mapping) {
        return odd("a tag or an alias");
    }
    let value_is_list = value.is_sequence();
    let (whole, name, mut value) =
        (range(entry.byte_range()), range(name.byte_range()), range(value.byte_range()));
    let behind = yaml.get(name.end..whole.end).unwrap_or_default();
    let colon = name.end + behind.len() - behind.trim_start().len() + 1;
    if whole.start != name.start || yaml.get(colon - 1..colon) != Some(":") {
        return odd("a form of key that is not `key: value`");
    }
    if value.is_empty() || value.start < colon {
        value = colon..colon;
    }
    let (Some(between), Some(text)) = (yaml.get(colon..value.start), yaml.get(value.clone()))
    else {
        return odd("no value that could be found");
    };
    let comment = between.trim_start();
    if !comment.is_empty() && !comment.starts_with('#') {
        return odd("an anchor or a tag");
    }
    // Blank lines behind it are nobody's.
    value.end = value.start + text.trim_end_matches([' ', '\t', '\r', '\n']).len();
    let is_block_list = text.starts_with('-') && value_is_list;
    Ok(Place { entry: whole, colon, value, is_block_list })
}

fn replaced(
    yaml: &str,
    entry: &MappingEntry,
    key: &str,
    value: &Value,
    end: &str,
) -> Result<Splice, String> {
    let place = place(yaml, entry, key)?;
    let old = &yaml[place.value.clone()];
    if let (Value::List(items), true) = (value, place.is_block_list) {
        let indent = " ".repeat(column(yaml, place.value.start));
        let items: Vec<String> =
            items.iter().map(|item| format!("- {}", scalar(item, false))).collect();
        return Ok(Splice { part: place.value, text: items.join(&format!("{end}{indent}")) });
    }
    let rendered = value.render();
    if old.is_empty() {
        return Ok(Splice { part: place.value, text: format!(" {rendered}") });
    }
    let between = &yaml[place.colon..place.value.start];
    if between.contains('\n') {
        // A block below its key: the value goes up to the key, before its comment.
        let comment = between.lines().next().unwrap_or_default().trim_end();
        let text = format!(" {rendered}{comment}");
        return Ok(Splice { part: place.colon..place.value.end, text });
    }
    let comment = if old.starts_with(['|', '>']) { header_comment(old) } else { "" };
    Ok(Splice { part: place.value, text: format!("{rendered}{comment}") })
}

/// The comment behind a block scalar's `|` or `>`, with the space before it.
fn header_comment(block: &str) -> &str {
    let header = block.lines().next().unwrap_or_default().trim_end();
    header.find([' ', '\t']).map_or("", |at| &header[at..])
}

fn removed(yaml: &str, entry: &MappingEntry, key: &str) -> Result<Splice, String> {
    let place = place(yaml, entry, key)?;
    let last = place.value.end.max(place.colon);
    let line = yaml[last..].find('\n').map_or(yaml.len(), |at| last + at + 1);
    let first = place.entry.start - column(yaml, place.entry.start);
    Ok(Splice { part: first..line, text: String::new() })
}

/// Reads what was edited: the keys say what they were told, and nothing else is different.
fn prove(edited: &str, old: Parts<'_>, before: &Map, sets: &[&Set<'_>]) -> Result<(), String> {
    let parts = split(edited);
    let after = map(parts)?;
    let body =
        if old.yaml.is_some() { parts.body } else { parts.body.trim_start_matches(['\r', '\n']) };
    let old_body =
        if old.yaml.is_some() { old.body } else { old.body.trim_start_matches(['\r', '\n']) };
    let is_other = |(name, _): &&(String, Node)| sets.iter().all(|set| set.key != name);
    let others = |map: &Map| -> Vec<(String, Node)> {
        map.entries.iter().filter(is_other).cloned().collect()
    };
    let (was, is) = (others(before), others(&after));
    let kept = was.len() == is.len()
        && was.iter().zip(&is).all(|(was, is)| was.0 == is.0 && alike(&was.1, &is.1));
    if body != old_body || !kept || !sets.iter().all(|set| is_set(&after, set)) {
        return Err(refusal("more would change than was asked"));
    }
    Ok(())
}

/// Do two nodes say the same, wherever they stand?
fn alike(a: &Node, b: &Node) -> bool {
    use yaml::Value::{List, Map};
    match (&a.value, &b.value) {
        (List(a), List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Map(a), Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && alike(&a.1, &b.1))
        }
        (a, b) => a == b,
    }
}
