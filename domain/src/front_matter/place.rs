//! Where keys and values of front matter stand, and what goes in their place.
//!
//! `yaml-edit` is asked for places only; what is written there is ours. The trap: a block value
//! ends with the lines behind it, be they blank or comments, and those belong to nobody.

use std::ops::Range;
use std::str::FromStr;

use yaml_edit::{MappingEntry, Sequence, TextPosition, YamlFile, YamlKind, YamlNode};

use super::render::{Value, scalar};

/// Something to be put in the place of a part of the YAML.
pub(super) struct Splice {
    pub part: Range<usize>,
    pub text: String,
}

/// The entries of front matter.
pub(super) struct Tree<'a> {
    yaml: &'a str,
    entries: Vec<MappingEntry>,
    line_end: &'a str,
}

/// Where the parts of an entry are.
struct Place {
    entry: Range<usize>,
    /// Behind the colon.
    colon: usize,
    value: Range<usize>,
    node: YamlNode,
}

impl<'a> Tree<'a> {
    /// `names` are the keys as our reader sees them; a tree that sees others is refused.
    pub(super) fn read(yaml: &'a str, names: &[&str], line_end: &'a str) -> Result<Self, String> {
        if names.is_empty() {
            return Ok(Self { yaml, entries: Vec::new(), line_end });
        }
        let file = YamlFile::from_str(yaml)
            .map_err(|_| "it has a form that can be read and not edited".to_owned())?;
        let mapping = file.document().and_then(|document| document.as_mapping());
        let mapping = mapping.filter(|mapping| !mapping.is_flow_style());
        let Some(mapping) = mapping.filter(|_| file.to_string() == yaml) else {
            return Err("its keys do not stand on lines of their own".to_owned());
        };
        let entries: Vec<MappingEntry> = mapping.entries().collect();
        let name = |entry: &MappingEntry| Some(entry.key_node()?.as_scalar()?.as_string());
        if !entries.iter().map(name).eq(names.iter().map(|name| Some((*name).to_owned()))) {
            return Err("it has keys that are not plain words".to_owned());
        }
        Ok(Self { yaml, entries, line_end })
    }

    /// What stands before a key.
    pub(super) fn indent(&self) -> String {
        let first = self.entries.first().map(|entry| range(entry.byte_range()).start);
        " ".repeat(first.map_or(0, |at| at - line_start(self.yaml, at)))
    }

    /// Another value for the entry at `at`, with the comment behind it where that is possible.
    pub(super) fn replace(&self, at: usize, value: &Value) -> Result<Splice, String> {
        let place = self.place(at)?;
        if let Value::List(items) = value
            && let Some(splice) = self.block_list(&place, items)
        {
            return Ok(splice);
        }
        let rendered = value.render();
        let old = &self.yaml[place.value.clone()];
        let between = &self.yaml[place.colon..place.value.start];
        if old.is_empty() {
            return Ok(Splice { part: place.value, text: format!(" {rendered}") });
        }
        if between.contains('\n') {
            // From below its key the value goes up to it, before the comment there.
            let comment = between.lines().next().unwrap_or_default().trim_end();
            let part = place.colon..place.value.end;
            return Ok(Splice { part, text: format!(" {rendered}{comment}") });
        }
        let comment = if old.starts_with(['|', '>']) { header_comment(old) } else { "" };
        Ok(Splice { part: place.value, text: format!("{rendered}{comment}") })
    }

    /// The lines of the entry at `at`.
    pub(super) fn remove(&self, at: usize) -> Result<Splice, String> {
        let place = self.place(at)?;
        let last = place.value.end.max(place.colon);
        let part = line_start(self.yaml, place.entry.start)..line_after(self.yaml, last);
        Ok(Splice { part, text: String::new() })
    }

    fn place(&self, at: usize) -> Result<Place, String> {
        let lost = || "no value that could be found".to_owned();
        let entry = self.entries.get(at).ok_or_else(lost)?;
        let key = entry.key_node().ok_or_else(lost)?;
        let node = entry.value_node().ok_or_else(lost)?;
        if !matches!(node.kind(), YamlKind::Scalar | YamlKind::Sequence | YamlKind::Mapping) {
            return Err("a tag or an alias".to_owned());
        }
        let (entry, key) = (range(entry.byte_range()), range(key.byte_range()));
        let mut value = range(node.byte_range());
        let behind = self.yaml.get(key.end..entry.end).ok_or_else(lost)?;
        let colon = key.end + behind.len() - behind.trim_start().len() + 1;
        if entry.start != key.start || self.yaml.get(colon - 1..colon) != Some(":") {
            return Err("a form of key that is not `key: value`".to_owned());
        }
        let is_empty = value.is_empty() || value.start < colon;
        let before = colon..if is_empty { entry.end } else { value.start };
        if is_empty {
            value = colon..colon;
        }
        let comment = self.yaml.get(before).ok_or_else(lost)?.trim_start();
        if !comment.is_empty() && !comment.starts_with('#') {
            return Err("an anchor or a tag".to_owned());
        }
        let text = self.yaml.get(value.clone()).ok_or_else(lost)?;
        value.end = value.start + text.trim_end_matches([' ', '\t', '\r', '\n']).len();
        Ok(Place { entry, colon, value, node })
    }

    /// A list with an item a line stays one, and an item that stays keeps its line and comment.
    fn block_list(&self, place: &Place, items: &[String]) -> Option<Splice> {
        let sequence = place.node.as_sequence().filter(|list| !list.is_flow_style())?;
        let lines = self.items(sequence).filter(|_| !items.is_empty())?;
        let start = line_start(self.yaml, place.value.start);
        let indent = &self.yaml[start..place.value.start];
        let new = |item: &String| format!("{indent}- {}{}", scalar(item, false), self.line_end);
        let part = start..line_after(self.yaml, lines.last()?.range.end);
        let is_known = |item: &String| lines.iter().any(|line| line.text == *item);
        let mut rest = items.iter().peekable();
        let stays: Vec<bool> =
            lines.iter().map(|line| rest.next_if(|item| **item == line.text).is_some()).collect();
        let mut text = self.yaml[part.clone()].to_owned();
        if !rest.clone().any(is_known) {
            text.extend(rest.map(new));
            for (line, _) in lines.iter().zip(stays).rev().filter(|(_, stays)| !stays) {
                let from = line_start(self.yaml, line.range.start);
                let to = line_after(self.yaml, line.range.end);
                text.replace_range(from - start..to - start, "");
            }
        } else if lines.len() == items.len() {
            for (line, item) in lines.iter().zip(items).rev() {
                if line.text != *item {
                    let Range { start: from, end: to } = line.range;
                    text.replace_range(from - start..to - start, &scalar(item, false));
                }
            }
        } else {
            text = items.iter().map(new).collect();
        }
        Some(Splice { part, text })
    }

    /// The items of a list; `None` unless each is a scalar on a line of its own.
    fn items(&self, list: &Sequence) -> Option<Vec<Line>> {
        let mut lines: Vec<Line> = Vec::new();
        for node in list.values() {
            let text = node.as_scalar()?.as_string();
            let range = range(node.byte_range());
            let before = &self.yaml[line_start(self.yaml, range.start)..range.start];
            let is_one = before.trim() == "-" && !self.yaml[range.clone()].contains('\n');
            if range.is_empty() || !is_one {
                return None;
            }
            lines.push(Line { range, text });
        }
        Some(lines)
    }
}

/// An item of a list on a line of its own.
struct Line {
    range: Range<usize>,
    text: String,
}

fn range(position: TextPosition) -> Range<usize> {
    // A text beyond 4 GiB is none of ours.
    let number = |at: u32| usize::try_from(at).unwrap_or_default();
    number(position.start)..number(position.end)
}

fn line_start(yaml: &str, at: usize) -> usize {
    yaml[..at].rfind('\n').map_or(0, |end| end + 1)
}

fn line_after(yaml: &str, at: usize) -> usize {
    yaml[at..].find('\n').map_or(yaml.len(), |end| at + end + 1)
}

/// The comment behind a block scalar's `|` or `>`, with the space before it.
fn header_comment(block: &str) -> &str {
    let header = block.lines().next().unwrap_or_default().trim_end();
    header.find([' ', '\t']).map_or("", |at| &header[at..])
}
