//! Edits front matter: changes the given keys and no other byte.
//!
//! A new value may end a block or absorb the next line. Every result is therefore parsed again, and
//! an edit with side effects is rejected.

use std::borrow::Cow;
use std::ops::Range;

use super::field_value::{FieldValue, render_scalar};
use super::parse::{DocumentParts, FrontMatter, cut_title, parse, split};
use crate::diagnostic::Diagnostic;
use crate::unresolved_merge::find_unresolved_merge;
use crate::yaml::{self, YamlEntry, YamlNode, YamlValue};

const BOM: &str = "\u{feff}";

/// A key and its new value.
#[derive(Debug, Clone)]
pub struct KeyEdit<'a> {
    pub key: &'a str,
    /// `None` removes the key.
    pub value: Option<FieldValue>,
}

/// Edits the front matter of a text, which is created if it is missing. An existing key keeps its
/// position. A new key is added at the end, but before any `last_keys` there. The error says why
/// the edit is impossible and what to do.
pub fn edit(text: &str, edits: &[KeyEdit<'_>], last_keys: &[&str]) -> Result<String, String> {
    let parts = split(text);
    // It explains invalid YAML.
    if let Some(merge) = find_unresolved_merge(text) {
        return Err(not_editable(&merge));
    }
    // Fails early: an edit of invalid YAML cannot be verified.
    let before = parse_unique(parts)?;
    let edits: Vec<&KeyEdit<'_>> = edits.iter().filter(|edit| !is_applied(&before, edit)).collect();
    // An edit without effect returns the same bytes.
    if edits.is_empty() {
        return Ok(text.to_owned());
    }
    // Kept, because an edit changes no other byte.
    let bom = if text.starts_with(BOM) { BOM } else { "" };
    let source = &text[bom.len()..];
    let edited = if parts.yaml.is_some() {
        let front_matter = FrontMatterSource {
            text: parts.yaml_with_fence,
            entries: &before.entries,
            line_end: line_end(source),
        };
        front_matter.apply_edits(&edits, last_keys)? + &source[parts.yaml_with_fence.len()..]
    } else {
        prepend_front_matter(source, &edits)
    };
    verify_edit(&edited, parts, &before, &edits)?;
    Ok(bom.to_owned() + &edited)
}

/// Renders front matter without a body.
pub fn render_front_matter(edits: &[KeyEdit<'_>]) -> String {
    let lines: String = edits.iter().map(|edit| render_line(edit, "\n")).collect();
    format!("---\n{lines}---\n")
}

/// Replaces the body. A blank line precedes it and a line end follows it. In a file with CRLF line
/// ends, so that Git and editors see one kind of line end, the body gets them, too.
pub fn with_body(text: &str, body: &str) -> String {
    let front_matter = &text[..text.len() - split(text).body.len()];
    let body = body.trim_matches(['\r', '\n']);
    if body.is_empty() {
        return front_matter.to_owned();
    }
    let line_end = line_end(text);
    let gap = match front_matter {
        "" | BOM => String::new(),
        _ if front_matter.ends_with('\n') => line_end.to_owned(),
        _ => line_end.repeat(2),
    };
    let body = match line_end {
        "\r\n" => Cow::Owned(body.replace("\r\n", "\n").replace('\n', "\r\n")),
        _ => Cow::Borrowed(body),
    };
    format!("{front_matter}{gap}{body}{line_end}")
}

fn edit_error(reason: &str) -> String {
    format!("the front matter can't be edited safely: {reason}; edit the file by hand")
}

fn not_editable(Diagnostic { line, message, .. }: &Diagnostic) -> String {
    edit_error(&format!("line {}: {message}", line.unwrap_or(1)))
}

/// Parses front matter; invalid YAML and duplicate keys are errors.
fn parse_unique(parts: DocumentParts<'_>) -> Result<FrontMatter, String> {
    match parse(parts) {
        Ok(FrontMatter { duplicate: Some(problem), .. }) | Err(problem) => {
            Err(not_editable(&problem))
        }
        Ok(front_matter) => Ok(front_matter),
    }
}

fn is_applied(front_matter: &FrontMatter, edit: &KeyEdit<'_>) -> bool {
    match (&edit.value, yaml::find_key(&front_matter.entries, edit.key)) {
        (Some(value), Some(node)) => value.matches_parsed(&node.value),
        (value, node) => value.is_none() && node.is_none(),
    }
}

/// The line end of the first line.
fn line_end(text: &str) -> &'static str {
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if first.ends_with("\r\n") { "\r\n" } else { "\n" }
}

fn render_line(edit: &KeyEdit<'_>, line_end: &str) -> String {
    let value = edit.value.as_ref().map(FieldValue::render).unwrap_or_default();
    format!("{}: {value}{line_end}", render_scalar(edit.key, true))
}

fn prepend_front_matter(body: &str, edits: &[&KeyEdit<'_>]) -> String {
    let end = line_end(body);
    let lines: String = edits.iter().map(|edit| render_line(edit, end)).collect();
    let gap = if body.is_empty() || body.starts_with(['\r', '\n']) { "" } else { end };
    format!("---{end}{lines}---{end}{gap}{body}")
}

/// Checks that the edited keys have their new values and that everything else is unchanged.
fn verify_edit(
    edited: &str,
    old: DocumentParts<'_>,
    before: &FrontMatter,
    edits: &[&KeyEdit<'_>],
) -> Result<(), String> {
    let side_effect = "the edit would change another key or the body";
    let parts = split(edited);
    let Ok(after) = parse_unique(parts) else { return Err(edit_error(side_effect)) };
    let same_body = match old.yaml {
        Some(_) => parts.body == old.body,
        // A blank line separates new front matter from the body.
        None => {
            parts.body.trim_start_matches(['\r', '\n']) == old.body.trim_start_matches(['\r', '\n'])
        }
    };
    let kept_before = unedited_entries(before, edits);
    let kept_after = unedited_entries(&after, edits);
    let same_entries = kept_before.len() == kept_after.len()
        && kept_before.iter().zip(&kept_after).all(|(a, b)| same_entry(a, b));
    if same_body && same_entries && edits.iter().all(|edit| is_applied(&after, edit)) {
        Ok(())
    } else {
        Err(edit_error(side_effect))
    }
}

fn unedited_entries<'a>(
    front_matter: &'a FrontMatter,
    edits: &[&KeyEdit<'_>],
) -> Vec<&'a YamlEntry> {
    let entries = front_matter.entries.iter();
    entries.filter(|entry| !edits.iter().any(|edit| edit.key == entry.key)).collect()
}

fn same_entry(a: &YamlEntry, b: &YamlEntry) -> bool {
    a.key == b.key && same_value(&a.node, &b.node)
}

/// Compares values and ignores positions.
fn same_value(a: &YamlNode, b: &YamlNode) -> bool {
    use YamlValue::{List, Map};
    match (&a.value, &b.value) {
        (List(a), List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        (Map(a), Map(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_entry(a, b)),
        (a, b) => a == b,
    }
}

/// Front matter from its first `---` line to the end of the YAML.
struct FrontMatterSource<'a> {
    text: &'a str,
    entries: &'a [YamlEntry],
    line_end: &'static str,
}

/// The parts of an entry, as byte offsets.
struct EntrySpan<'a> {
    key_start: usize,
    after_colon: usize,
    /// Empty for a missing value.
    value: Range<usize>,
    node: &'a YamlNode,
}

/// The replacement of a range of the text.
type TextSplice = (Range<usize>, String);

impl FrontMatterSource<'_> {
    fn apply_edits(&self, edits: &[&KeyEdit<'_>], last_keys: &[&str]) -> Result<String, String> {
        let mut splices = Vec::new();
        let last_keys_start = self.trailing_keys_start(last_keys);
        let mut appended = String::new();
        let mut inserted = String::new();
        for edit in edits {
            let Some(entry) = self.entries.iter().find(|entry| entry.key == edit.key) else {
                let is_last = last_keys_start.is_none() || last_keys.contains(&edit.key);
                let lines = if is_last { &mut appended } else { &mut inserted };
                lines.push_str(self.indent());
                lines.push_str(&render_line(edit, self.line_end));
                continue;
            };
            let span = match self.locate_entry(entry) {
                Ok(span) => span,
                Err(form) => return Err(edit_error(&format!("`{}` has {form}", edit.key))),
            };
            splices.push(match &edit.value {
                Some(value) => {
                    let (mut range, text) = self.replace_value(&span, value);
                    if edit.key == "title" && cut_title(self.text, self.entries).is_some() {
                        // All of the line was shown as the title.
                        let line_end = self.text[range.end..].find(['\r', '\n']);
                        range.end = line_end.map_or(self.text.len(), |end| range.end + end);
                    }
                    (range, text)
                }
                None => (self.entry_lines(&span), String::new()),
            });
        }
        let end = self.text.len();
        splices.push((end..end, appended));
        let insert_at = last_keys_start.unwrap_or(end);
        splices.push((insert_at..insert_at, inserted));
        splices.sort_by_key(|(range, _)| range.start);
        let mut edited = self.text.to_owned();
        // From the end, so that earlier offsets stay valid.
        for (range, text) in splices.into_iter().rev() {
            edited.replace_range(range, &text);
        }
        Ok(edited)
    }

    /// Start of the `last_keys` at the end; `None` without such keys.
    fn trailing_keys_start(&self, last_keys: &[&str]) -> Option<usize> {
        let mut first = None;
        for entry in self.entries.iter().rev() {
            if !last_keys.contains(&entry.key.as_str()) {
                break;
            }
            first = Some(entry);
        }
        let span = self.locate_entry(first?).ok()?;
        Some(self.line_start(span.key_start))
    }

    /// The white space before the first key.
    fn indent(&self) -> &str {
        let Some(first) = self.entries.first() else { return "" };
        let key_start = first.key_position.span.start;
        let indent = &self.text[self.line_start(key_start)..key_start];
        // A quoted or flow key has other text before it.
        if indent.trim().is_empty() { indent } else { "" }
    }

    /// Replaces a value and keeps the comment after it if possible.
    fn replace_value(&self, span: &EntrySpan<'_>, value: &FieldValue) -> TextSplice {
        if let FieldValue::List(items) = value
            && let Some(splice) = self.replace_block_list(span, items)
        {
            return splice;
        }
        let rendered = value.render();
        let old = &self.text[span.value.clone()];
        let between = &self.text[span.after_colon..span.value.start];
        // `key:` without a value has no space after the colon.
        if old.is_empty() {
            return (span.value.clone(), format!(" {rendered}"));
        }
        if between.contains('\n') {
            // A value below its key moves up to the key's line, before the comment there.
            let comment = between.lines().next().unwrap_or_default().trim_end();
            return (span.after_colon..span.value.end, format!(" {rendered}{comment}"));
        }
        // The comment of a block scalar follows its `|` or `>`.
        let header = old.lines().next().unwrap_or_default().trim_end();
        let comment = match header.find([' ', '\t']) {
            Some(at) if old.starts_with(['|', '>']) => &header[at..],
            _ => "",
        };
        (span.value.clone(), format!("{rendered}{comment}"))
    }

    fn entry_lines(&self, span: &EntrySpan<'_>) -> Range<usize> {
        let end = span.value.end.max(span.after_colon);
        self.line_start(span.key_start)..self.next_line_start(end)
    }

    /// Finds the parts of an entry. The error names an unsupported form.
    fn locate_entry<'a>(&self, entry: &'a YamlEntry) -> Result<EntrySpan<'a>, &'static str> {
        let (key, node) = (&entry.key_position.span, &entry.node);
        let after_key = self.text.get(key.end..).unwrap_or_default();
        let after_key = after_key.trim_start_matches([' ', '\t']);
        let after_colon = self.text.len() - after_key.len() + 1;
        let before_key = self.text.get(self.line_start(key.start)..key.start).unwrap_or("?");
        if !after_key.starts_with(':') || !before_key.trim().is_empty() {
            return Err("a form of key that is not `key: value`");
        }
        // An explicit `~` or `null` has a span.
        let is_missing = node.value == YamlValue::Null && node.position.span.is_empty();
        let start = self.skip_comments(after_colon);
        let source = if is_missing {
            after_key[1..].lines().next().unwrap_or_default()
        } else {
            &self.text[start..]
        };
        match source.trim_start().chars().next() {
            // Replacing an anchor would break its aliases elsewhere.
            Some('&') => return Err("an anchor"),
            Some('!') => return Err("a tag"),
            Some('*') => return Err("an alias"),
            _ => {}
        }
        if is_missing {
            let value = after_colon..after_colon;
            return Ok(EntrySpan { key_start: key.start, after_colon, value, node });
        }
        let is_block_scalar = source.starts_with(['|', '>']);
        let end = if is_block_scalar { node.position.span.end } else { self.value_end(node)? };
        let value = self.text.get(start..end).ok_or("a value without a clear end")?;
        let end = start + value.trim_end_matches([' ', '\t', '\r', '\n']).len();
        Ok(EntrySpan { key_start: key.start, after_colon, value: start..end, node })
    }

    /// End of a value. The position of a scalar includes it; the end of a collection is searched.
    fn value_end(&self, node: &YamlNode) -> Result<usize, &'static str> {
        let mut end = node.position.span.end;
        match &node.value {
            YamlValue::List(items) => {
                for item in items {
                    end = end.max(self.value_end(item)?);
                }
            }
            YamlValue::Map(entries) => {
                for entry in entries {
                    end = end.max(entry.key_position.span.end).max(self.value_end(&entry.node)?);
                }
            }
            YamlValue::Null | YamlValue::Scalar(_) => return Ok(end),
        }
        let opening = self.text.get(node.position.span.clone()).unwrap_or_default();
        if node.is_alias || !opening.starts_with(['[', '{']) {
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

    /// Edits a list that has each item on a line of its own. Unchanged items keep their lines and
    /// comments. `None` for any other list.
    fn replace_block_list(&self, span: &EntrySpan<'_>, items: &[String]) -> Option<TextSplice> {
        let YamlValue::List(old) = &span.node.value else { return None };
        if items.is_empty() {
            return None;
        }
        let lines = self.item_lines(old)?;
        let (last, _) = lines.last()?;
        let start = self.line_start(span.value.start);
        let range = start..self.next_line_start(last.end);
        let indent = &self.text[start..span.value.start];

        // Old items that stay, in order; the remaining items are new.
        let mut rest = items;
        let mut is_kept = Vec::with_capacity(lines.len());
        for (_, text) in &lines {
            let kept = rest.first().is_some_and(|item| item == text);
            if kept {
                rest = &rest[1..];
            }
            is_kept.push(kept);
        }
        // An old item among the new ones means another order, or a duplicate.
        let is_reordered = rest.iter().any(|item| lines.iter().any(|(_, text)| item == text));
        let mut text = self.text[range.clone()].to_owned();
        if !is_reordered {
            for item in rest {
                text.push_str(&self.item_line(indent, item));
            }
            for ((item, _), kept) in lines.iter().zip(is_kept).rev() {
                if !kept {
                    let (from, to) = (self.line_start(item.start), self.next_line_start(item.end));
                    text.replace_range(from - start..to - start, "");
                }
            }
        } else if lines.len() == items.len() {
            for ((old_item, old_text), item) in lines.iter().zip(items).rev() {
                if old_text != item {
                    let range = old_item.start - start..old_item.end - start;
                    text.replace_range(range, &render_scalar(item, false));
                }
            }
        } else {
            text = items.iter().map(|item| self.item_line(indent, item)).collect();
        }
        Some((range, text))
    }

    fn item_line(&self, indent: &str, item: &str) -> String {
        format!("{indent}- {}{}", render_scalar(item, false), self.line_end)
    }

    /// The items of a list; `None` unless each is a scalar on a line of its own.
    fn item_lines<'b>(&self, items: &'b [YamlNode]) -> Option<Vec<(Range<usize>, &'b str)>> {
        let mut lines = Vec::new();
        for node in items {
            let YamlValue::Scalar(text) = &node.value else { return None };
            let span = node.position.span.clone();
            let before = &self.text[self.line_start(span.start)..span.start];
            // Nested lists have several dashes before the item.
            let is_one_line = before.trim() == "-" && !self.text[span.clone()].contains('\n');
            if span.is_empty() || !is_one_line || node.is_alias {
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
