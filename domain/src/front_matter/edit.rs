//! Edits of front matter that change the given keys and no other byte.
//!
//! A new value may end a block or absorb the next line, so the result is parsed again: an edit that
//! changes anything else is refused.

use std::ops::Range;

use super::{DocumentParts, FieldValue, FrontMatter, read, render_scalar, split};
use crate::diagnostic::Diagnostic;
use crate::yaml::{self, YamlEntry, YamlNode};

/// A key and its new value.
#[derive(Debug, Clone)]
pub struct KeyEdit<'a> {
    pub key: &'a str,
    /// `None` removes the key.
    pub value: Option<FieldValue>,
}

/// Edits the front matter of a text. An existing key keeps its place. A new key becomes the last
/// one, but precedes the `last` keys at the end, unless it is one of them. A text without front
/// matter gets one. An error says why the edit is refused and what to do.
pub fn edit(text: &str, edits: &[KeyEdit<'_>], last: &[&str]) -> Result<String, String> {
    let parts = split(text);
    let before = parse_unique(parts)?;
    let edits: Vec<&KeyEdit<'_>> = edits.iter().filter(|edit| !is_applied(&before, edit)).collect();
    if edits.is_empty() {
        return Ok(text.to_owned());
    }
    let mark = if text.starts_with('\u{feff}') { "\u{feff}" } else { "" };
    let source = &text[mark.len()..];
    let edited = match parts.yaml {
        Some(_) => {
            let entries = &before.entries;
            let front = FrontMatterSource {
                text: parts.yaml_with_fence,
                entries,
                line_end: line_end(source),
            };
            front.apply_edits(&edits, last)? + &source[parts.yaml_with_fence.len()..]
        }
        None if begins_unclosed(source) => {
            return Err(refusal("it begins with `---` and has no second line like that"));
        }
        None => prepend_front_matter(source, &edits),
    };
    verify_edit(&edited, parts, &before, &edits)?;
    Ok(mark.to_owned() + &edited)
}

/// A front matter by itself.
pub fn new(edits: &[KeyEdit<'_>]) -> String {
    let lines: String = edits.iter().map(|edit| render_line(edit, "\n")).collect();
    format!("---\n{lines}---\n")
}

/// The text with another description, which is separated by a blank line and ends with a line end.
pub fn with_body(text: &str, description: &str) -> String {
    let front = &text[..text.len() - split(text).body.len()];
    let description = description.trim_matches(['\r', '\n']);
    let end = line_end(text);
    if description.is_empty() {
        return front.to_owned();
    }
    let gap = match front {
        "" | "\u{feff}" => String::new(),
        front if front.ends_with('\n') => end.to_owned(),
        _ => end.repeat(2),
    };
    format!("{front}{gap}{description}{end}")
}

fn refusal(reason: &str) -> String {
    format!("the front matter can't be edited safely: {reason}; edit the file by hand")
}

fn parse_unique(parts: DocumentParts<'_>) -> Result<FrontMatter, String> {
    let refused = |found: &Diagnostic| {
        refusal(&format!("line {}: {}", found.line.unwrap_or(1), found.message))
    };
    let map = read(parts).map_err(|found| refused(&found))?;
    map.duplicate.as_ref().map_or(Ok(()), |found| Err(refused(found)))?;
    Ok(map)
}

fn is_applied(map: &FrontMatter, edit: &KeyEdit<'_>) -> bool {
    match (&edit.value, yaml::find_key(&map.entries, edit.key)) {
        (Some(value), Some(node)) => value.matches_parsed(&node.value),
        (value, node) => value.is_none() && node.is_none(),
    }
}

/// True if the text may begin with front matter that has no closing line. An edit refuses more than
/// a reader reports, because it would turn the unclosed part into the body.
fn begins_unclosed(body: &str) -> bool {
    let mut lines = body.lines();
    lines.next().is_some_and(|line| line.trim_end() == "---")
        && lines.next().is_some_and(|line| line.contains(':'))
}

fn line_end(text: &str) -> &'static str {
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if first.ends_with("\r\n") { "\r\n" } else { "\n" }
}

fn render_line(edit: &KeyEdit<'_>, end: &str) -> String {
    let value = edit.value.as_ref().map(FieldValue::render).unwrap_or_default();
    format!("{}: {value}{end}", render_scalar(edit.key, true))
}

fn prepend_front_matter(body: &str, edits: &[&KeyEdit<'_>]) -> String {
    let end = line_end(body);
    let lines: String = edits.iter().map(|edit| render_line(edit, end)).collect();
    let gap = if body.is_empty() || body.starts_with(['\r', '\n']) { "" } else { end };
    format!("---{end}{lines}---{end}{gap}{body}")
}

/// Parses the result: the edited keys have their new values, and everything else is unchanged.
fn verify_edit(
    edited: &str,
    old: DocumentParts<'_>,
    before: &FrontMatter,
    edits: &[&KeyEdit<'_>],
) -> Result<(), String> {
    let parts = split(edited);
    let refused = || refusal("something else would get another meaning");
    let after = parse_unique(parts).map_err(|_| refused())?;
    // A new front matter is separated from the body by a blank line.
    let edges: &[char] = if old.yaml.is_some() { &[] } else { &['\r', '\n'] };
    let is_other = |entry: &&YamlEntry| edits.iter().all(|edit| edit.key != entry.key);
    let others_before = before.entries.iter().filter(is_other);
    let others_after = after.entries.iter().filter(is_other);
    let is_kept = others_before.clone().count() == others_after.clone().count()
        && others_before.zip(others_after).all(|(a, b)| same_entry(a, b));
    let same_body = parts.body.trim_start_matches(edges) == old.body.trim_start_matches(edges);
    if !same_body || !is_kept || !edits.iter().all(|edit| is_applied(&after, edit)) {
        return Err(refused());
    }
    Ok(())
}

fn same_entry(a: &YamlEntry, b: &YamlEntry) -> bool {
    a.key == b.key && same_value(&a.node, &b.node)
}

/// Compares values and ignores positions.
fn same_value(a: &YamlNode, b: &YamlNode) -> bool {
    use yaml::YamlValue::{List, Map};
    match (&a.value, &b.value) {
        (List(a), List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        (Map(a), Map(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_entry(a, b)),
        (a, b) => a == b,
    }
}

/// Front matter from its `---` line to the end of the YAML.
struct FrontMatterSource<'a> {
    text: &'a str,
    entries: &'a [YamlEntry],
    line_end: &'a str,
}

/// The parts of an entry's text.
struct EntrySpan<'a> {
    key_start: usize,
    after_colon: usize,
    /// Empty at the colon where there is no value.
    value: Range<usize>,
    node: &'a YamlNode,
}

/// A replacement of a part of the text.
type TextSplice = (Range<usize>, String);

impl FrontMatterSource<'_> {
    fn apply_edits(&self, edits: &[&KeyEdit<'_>], last: &[&str]) -> Result<String, String> {
        let mut splices = Vec::new();
        let early = self.trailing_keys_start(last);
        let (mut added, mut inserted) = (String::new(), String::new());
        for edit in edits {
            let Some(entry) = self.entries.iter().find(|entry| entry.key == edit.key) else {
                let is_late = early.is_none() || last.contains(&edit.key);
                let lines = if is_late { &mut added } else { &mut inserted };
                lines.push_str(self.indent());
                lines.push_str(&render_line(edit, self.line_end));
                continue;
            };
            let place = self.locate_entry(entry);
            let place = place.map_err(|odd| refusal(&format!("`{}` has {odd}", edit.key)))?;
            splices.push(match &edit.value {
                Some(value) => self.replace_value(&place, value),
                None => (self.entry_lines(&place), String::new()),
            });
        }
        let end = self.text.len();
        splices.push((end..end, added));
        let early = early.unwrap_or(end);
        splices.push((early..early, inserted));
        splices.sort_by_key(|(part, _)| part.start);
        let mut edited = self.text.to_owned();
        for (part, text) in splices.into_iter().rev() {
            edited.replace_range(part, &text);
        }
        Ok(edited)
    }

    /// Start of the `last` keys at the end; `None` without such keys.
    fn trailing_keys_start(&self, last: &[&str]) -> Option<usize> {
        let run = self.entries.iter().rev().take_while(|entry| last.contains(&&*entry.key));
        let first = self.locate_entry(run.last()?).ok()?;
        Some(self.line_start(first.key_start))
    }

    /// The white space before a key.
    fn indent(&self) -> &str {
        let first = self.entries.first().map_or(0, |entry| entry.key_position.span.start);
        let indent = &self.text[self.line_start(first)..first];
        if indent.trim().is_empty() { indent } else { "" }
    }

    /// Replaces a value and keeps the comment behind it where that is possible.
    fn replace_value(&self, place: &EntrySpan<'_>, value: &FieldValue) -> TextSplice {
        if let FieldValue::List(items) = value
            && let Some(splice) = self.replace_block_list(place, items)
        {
            return splice;
        }
        let rendered = value.render();
        let old = &self.text[place.value.clone()];
        let between = &self.text[place.after_colon..place.value.start];
        if old.is_empty() {
            return (place.value.clone(), format!(" {rendered}"));
        }
        if between.contains('\n') {
            // A value below its key moves up to it, before the comment there.
            let comment = between.lines().next().unwrap_or_default().trim_end();
            return (place.after_colon..place.value.end, format!(" {rendered}{comment}"));
        }
        let header = old.lines().next().unwrap_or_default().trim_end();
        let comment = match header.find([' ', '\t']) {
            Some(at) if old.starts_with(['|', '>']) => &header[at..],
            _ => "",
        };
        (place.value.clone(), format!("{rendered}{comment}"))
    }

    fn entry_lines(&self, place: &EntrySpan<'_>) -> Range<usize> {
        let last = place.value.end.max(place.after_colon);
        self.line_start(place.key_start)..self.next_line_start(last)
    }

    /// Finds the parts of an entry. An error names a form that is not edited.
    fn locate_entry<'a>(&self, entry: &'a YamlEntry) -> Result<EntrySpan<'a>, &'static str> {
        let (key, node) = (&entry.key_position.span, &entry.node);
        let behind = self.text.get(key.end..).unwrap_or_default().trim_start_matches([' ', '\t']);
        let after_colon = self.text.len() - behind.len() + 1;
        let before = self.text.get(self.line_start(key.start)..key.start).unwrap_or("?");
        if !behind.starts_with(':') || !before.trim().is_empty() {
            return Err("a form of key that is not `key: value`");
        }
        let is_missing = node.value == yaml::YamlValue::Null && node.position.span.is_empty();
        let rest = if is_missing { behind[1..].lines().next() } else { None };
        let start = self.skip_comments(after_colon);
        match rest.unwrap_or(&self.text[start..]).trim_start().chars().next() {
            Some('&') => return Err("an anchor"),
            Some('!') => return Err("a tag"),
            Some('*') => return Err("an alias"),
            _ => {}
        }
        let is_block_scalar = self.text[start..].starts_with(['|', '>']);
        let (value_start, end) = match node.value {
            _ if is_missing => (after_colon, after_colon),
            _ if is_block_scalar => (start, node.position.span.end),
            _ => (start, self.value_end(node)?),
        };
        let value = self.text.get(value_start..end).ok_or("a value without a clear end")?;
        let end = value_start + value.trim_end_matches([' ', '\t', '\r', '\n']).len();
        Ok(EntrySpan { key_start: key.start, after_colon, value: value_start..end, node })
    }

    /// End of a value. Only collections need a search, as positions cover scalars.
    fn value_end(&self, node: &YamlNode) -> Result<usize, &'static str> {
        let mut end = node.position.span.end;
        for item in if let yaml::YamlValue::List(items) = &node.value { &items[..] } else { &[] } {
            end = end.max(self.value_end(item)?);
        }
        for entry in node.entries() {
            end = end.max(entry.key_position.span.end).max(self.value_end(&entry.node)?);
        }
        let is_collection =
            matches!(node.value, yaml::YamlValue::List(_) | yaml::YamlValue::Map(_));
        let opening = self.text.get(node.position.span.clone()).unwrap_or_default();
        if !is_collection || node.is_alias || !opening.starts_with(['[', '{']) {
            return Ok(end);
        }
        // Only separators and comments precede the closing bracket.
        loop {
            let rest = self.text[end..].trim_start_matches([' ', '\t', '\r', '\n', ',', ':']);
            end = self.text.len() - rest.len();
            match rest.chars().next() {
                Some(']' | '}') => return Ok(end + 1),
                Some('#') => end = self.next_line_start(end),
                _ => return Err("a value without a clear end"),
            }
        }
    }

    fn skip_comments(&self, mut at: usize) -> usize {
        loop {
            let rest = self.text[at..].trim_start_matches([' ', '\t', '\r', '\n']);
            at = self.text.len() - rest.len();
            if !rest.starts_with('#') {
                return at;
            }
            at = self.next_line_start(at);
        }
    }

    /// A list with an item a line stays one, and an unchanged item keeps its line and comment.
    fn replace_block_list(&self, place: &EntrySpan<'_>, items: &[String]) -> Option<TextSplice> {
        let yaml::YamlValue::List(old) = &place.node.value else { return None };
        let lines = self.item_lines(old).filter(|_| !items.is_empty())?;
        let start = self.line_start(place.value.start);
        let indent = &self.text[start..place.value.start];
        let new =
            |item: &String| format!("{indent}- {}{}", render_scalar(item, false), self.line_end);
        let part = start..self.next_line_start(lines.last()?.0.end);
        let is_known = |item: &String| lines.iter().any(|(_, text)| *text == item);
        let mut rest = items.iter().peekable();
        let stays: Vec<bool> =
            lines.iter().map(|(_, text)| rest.next_if(|item| *item == text).is_some()).collect();
        let mut text = self.text[part.clone()].to_owned();
        if !rest.clone().any(is_known) {
            text.extend(rest.map(new));
            for ((span, _), _) in lines.iter().zip(stays).rev().filter(|(_, stays)| !stays) {
                let (from, to) = (self.line_start(span.start), self.next_line_start(span.end));
                text.replace_range(from - start..to - start, "");
            }
        } else if lines.len() == items.len() {
            for ((span, old), item) in lines.iter().zip(items).rev() {
                if *old != item {
                    text.replace_range(
                        span.start - start..span.end - start,
                        &render_scalar(item, false),
                    );
                }
            }
        } else {
            text = items.iter().map(new).collect();
        }
        Some((part, text))
    }

    /// The items of a list; `None` unless each is a scalar on a line of its own.
    fn item_lines<'b>(&self, items: &'b [YamlNode]) -> Option<Vec<(Range<usize>, &'b str)>> {
        let mut lines = Vec::new();
        for node in items {
            let yaml::YamlValue::Scalar(text) = &node.value else { return None };
            let span = node.position.span.clone();
            let before = &self.text[self.line_start(span.start)..span.start];
            let is_one = before.trim() == "-" && !self.text[span.clone()].contains('\n');
            if span.is_empty() || !is_one || node.is_alias {
                return None;
            }
            lines.push((span, text.as_str()));
        }
        Some(lines)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |end| end + 1)
    }

    fn next_line_start(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1)
    }
}
