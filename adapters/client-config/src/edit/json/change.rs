//! One property put into a JSON object, changed or taken out, in the way its file is written.
//!
//! A line comment makes everything after it on its line disappear: new text goes behind a line
//! break wherever a comment may stand before it, and no line break behind a comment is removed.

use jsonc_parser::ast::{Object, ObjectProp};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::Token;
use serde_json::Value;

use super::document::{Document, is_comment};
use super::print::{Layout, print, property};
use crate::edit::text::{self, Splice};

/// A whole file with this value, after the comments that may stand there already.
pub(super) fn begin(body: &str, value: &Value) -> String {
    let line_end = text::line_end(body);
    let written = print(value, Layout::Lines { line_end, unit: "  " }, "");
    if body.trim().is_empty() {
        return format!("{written}{line_end}");
    }
    let between = if body.ends_with('\n') { "" } else { line_end };
    format!("{body}{between}{written}{line_end}")
}

/// The text with a property more, after all others.
pub(super) fn insert(
    body: &str,
    document: &Document,
    object: &Object,
    key: &str,
    new: &Value,
) -> String {
    let close = object.end() - 1;
    let end = document.token_before(close).map_or(close, Ranged::end);
    let last = object.properties.last();
    let comma = last.and_then(|last| document.comma_after(last.end()));
    let mut splices = Vec::new();
    if let (Some(last), None) = (last, comma) {
        splices.push(Splice::insert(last.end(), ","));
    }
    let after = if comma.is_some() { "," } else { "" };
    let layout = layout(body, document, object);
    let is_bare = end == object.start() + 1;
    match layout {
        Layout::Lines { line_end, unit } => {
            let indent = child_indent(body, object, unit);
            let line = format!("{line_end}{indent}{}{after}", property(key, new, layout, &indent));
            if last.is_none() && (is_bare || !body[end..close].contains('\n')) {
                let outer = text::indent(body, object.start());
                let with = format!("{line}{line_end}{outer}");
                splices.push(Splice { range: end..close, with });
            } else {
                splices.push(Splice::insert(end, line));
            }
        }
        Layout::Line { space } => {
            let written = property(key, new, layout, "");
            if is_bare {
                let gap = &body[end..close];
                splices.push(Splice { range: end..close, with: format!("{gap}{written}{gap}") });
            } else {
                splices.push(Splice::insert(end, format!("{space}{written}{after}")));
            }
        }
    }
    text::splice(body, splices)
}

/// The text with another value for a property that is there.
pub(super) fn replace(
    body: &str,
    document: &Document,
    object: &Object,
    at: usize,
    new: &Value,
) -> String {
    let property = &object.properties[at];
    let layout = layout(body, document, object);
    let with = print(new, layout, text::indent(body, property.start()));
    let range = property.value.start()..property.value.end();
    text::splice(body, vec![Splice { range, with }])
}

/// The text without a property: its own comma goes with it, or the one before where it has none.
pub(super) fn remove(body: &str, document: &Document, object: &Object, at: usize) -> String {
    let property = &object.properties[at];
    let own_comma = document.comma_after(property.end());
    let is_alone = object.properties.len() == 1;
    if is_alone && !has_comment_beside(document, object, property) {
        return text::splice(body, vec![Splice::remove(object.start() + 1..object.end() - 1)]);
    }
    let mut splices = Vec::new();
    let mut start = property.start();
    let mut end = property.end();
    if let Some(comma) = own_comma {
        if document.has_comment(end, comma.start()) {
            splices.push(Splice::remove(text::line_or(body, comma.start()..comma.end())));
        } else {
            end = comma.end();
        }
    } else if let Some(before) = at.checked_sub(1)
        && let Some(comma) = document.comma_after(object.properties[before].end())
    {
        if document.has_comment(comma.end(), start) || text::is_first_in_line(body, start) {
            splices.push(Splice::remove(text::line_or(body, comma.start()..comma.end())));
        } else {
            start = comma.start();
        }
    }
    let line = text::line_or(body, start..end);
    if line != (start..end) {
        (start, end) = (line.start, line.end);
    } else if (own_comma.is_some() && at + 1 < object.properties.len())
        || (text::is_first_in_line(body, start) && is_before_comment(body, end))
    {
        end = text::skip_blanks(body, end);
    } else if at > 0 {
        let before = document.token_before(start).map(|token| &token.token);
        start = match before {
            Some(Token::CommentLine(_)) => text::skip_blanks_back(body, start),
            _ => body[..start].trim_end().len(),
        };
    }
    splices.push(Splice::remove(start..end));
    text::splice(body, splices)
}

fn is_before_comment(body: &str, at: usize) -> bool {
    body[text::skip_blanks(body, at)..].starts_with('/')
}

fn has_comment_beside(document: &Document, object: &Object, property: &ObjectProp) -> bool {
    document.has_comment(object.start(), property.start())
        || document.has_comment(property.end(), object.end())
}

/// As the object is laid out; an empty one as the file is.
fn layout<'a>(body: &'a str, document: &Document<'a>, object: &Object) -> Layout<'a> {
    let mut gaps = Vec::new();
    let mut end = object.start() + 1;
    for property in &object.properties {
        gaps.push(&body[end..property.start()]);
        end = property.end();
    }
    gaps.push(&body[end..object.end() - 1]);
    let is_root = document.root.as_ref().is_some_and(|root| root.start() == object.start());
    let is_in_lines = gaps.iter().any(|gap| gap.contains('\n'))
        || (object.properties.is_empty() && (is_root || body.trim().contains('\n')));
    if is_in_lines {
        Layout::Lines { line_end: text::line_end(body), unit: unit(body, document) }
    } else {
        let colon = document.tokens.iter().find(|token| token.token == Token::Colon);
        let is_dense = colon.is_some_and(|colon| !body[colon.end()..].starts_with([' ', '\t']));
        Layout::Line { space: if is_dense { "" } else { " " } }
    }
}

/// The indentation of a property of this object.
fn child_indent(body: &str, object: &Object, unit: &str) -> String {
    let own_line =
        object.properties.iter().rev().find(|child| text::is_first_in_line(body, child.start()));
    match own_line {
        Some(child) => text::indent(body, child.start()).to_owned(),
        None => format!("{}{unit}", text::indent(body, object.start())),
    }
}

/// By how much a line is indented more than the one around it.
fn unit<'a>(body: &'a str, document: &Document<'a>) -> &'a str {
    let tokens = document.tokens.iter().filter(|token| !is_comment(token));
    let pairs = tokens.clone().zip(tokens.skip(1));
    let mut units = pairs.filter_map(|(open, first)| {
        let opens = matches!(open.token, Token::OpenBrace | Token::OpenBracket);
        if !opens || !text::is_first_in_line(body, first.start()) {
            return None;
        }
        let inner = text::indent(body, first.start());
        let unit = inner.strip_prefix(text::indent(body, open.start()));
        unit.filter(|unit| !unit.is_empty())
    });
    units.next().unwrap_or("  ")
}
