//! The statements of a Markdown text: items of lists, rows of tables and paragraphs with an ID.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementForm {
    ListItem,
    TableRow,
    Paragraph,
}

/// A part of a text that may be an item of its own.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) form: StatementForm,
    /// Such as `FR-001`.
    pub(crate) id: Option<String>,
    /// Such as `2` or `1.2`, or empty: of a numbered list, or at the beginning of a line.
    pub(crate) number: String,
    /// Without ID and number.
    pub(crate) text: String,
    /// With the ID.
    pub(crate) whole: String,
    /// Its position in the text from which it was taken.
    pub(crate) start: usize,
}

/// The text without the statements that `is_taken` selects, and these statements.
pub(crate) fn take_statements(
    text: &str,
    is_taken: impl Fn(&Statement) -> bool,
) -> (String, Vec<Statement>) {
    let (mut rest, mut found, mut last, mut depth) = (String::new(), Vec::new(), 0, 0_usize);
    let mut take = |form: StatementForm, range: Range<usize>| {
        let mut statement = parse_statement(form, &text[range.clone()]);
        statement.start = range.start;
        if !statement.text.trim().is_empty() && is_taken(&statement) {
            let before = text.get(last..range.start).unwrap_or_default();
            rest.push_str(if before.trim().is_empty() { "" } else { before });
            found.push(statement);
            last = range.end;
        }
    };
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::List(_)) => depth += 1,
            Event::Start(Tag::BlockQuote(_)) => depth += 2,
            Event::End(TagEnd::List(_)) => depth = depth.saturating_sub(1),
            Event::End(TagEnd::BlockQuote(_)) => depth = depth.saturating_sub(2),
            Event::Start(Tag::Item) if depth == 1 => take(StatementForm::ListItem, range),
            Event::Start(Tag::TableRow) if depth == 0 => take(StatementForm::TableRow, range),
            Event::Start(Tag::Paragraph) if depth == 0 => {
                // Lines without a blank line between them are one paragraph.
                let (mut start, mut end) = (range.start, range.start);
                for line in text[range].split_inclusive('\n') {
                    if start < end && is_taken(&parse_statement(StatementForm::Paragraph, line)) {
                        take(StatementForm::Paragraph, start..end);
                        start = end;
                    }
                    end += line.len();
                }
                take(StatementForm::Paragraph, start..end);
            }
            _ => {}
        }
    }
    rest.push_str(text.get(last..).unwrap_or_default());
    (rest.trim_matches(['\n', ' ']).to_owned(), found)
}

fn parse_statement(form: StatementForm, source: &str) -> Statement {
    let text = match form {
        StatementForm::ListItem => list_item_text(source),
        StatementForm::TableRow => {
            let cells = source.trim().trim_matches('|');
            let (first, rest) = cells.split_once('|').unwrap_or((cells, ""));
            format!("{}: {}", first.trim().trim_matches('*'), rest.trim())
        }
        StatementForm::Paragraph => source.trim_end().to_owned(),
    };
    let marker = source.split_whitespace().next().filter(|_| form == StatementForm::ListItem);
    let marker = marker.and_then(|marker| marker.strip_suffix(['.', ')'])).unwrap_or_default();
    let (id, number, rest, whole) = match (split_id(&text), split_number(&text)) {
        (Some((id, rest)), _) => (Some(id.to_owned()), marker, rest, &*text),
        (None, Some((number, rest))) if marker.is_empty() => (None, number, rest, rest),
        _ => (None, marker, &*text, &*text),
    };
    let (number, text, whole) = (number.to_owned(), rest.to_owned(), whole.to_owned());
    Statement { form, id, number, text, whole, start: 0 }
}

/// The text of a list item without its marker and indentation.
fn list_item_text(source: &str) -> String {
    let marker = source.find(char::is_whitespace).unwrap_or(source.len());
    let first = source[marker..].trim_start_matches([' ', '\t']);
    let indent = source.len() - first.len();
    let mut lines = Vec::new();
    for (number, line) in source.trim_end().lines().enumerate() {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        lines.push(if number == 0 {
            first.lines().next().unwrap_or_default()
        } else {
            &line[blanks.min(indent)..]
        });
    }
    lines.join("\n")
}

/// Splits `ID: text`, also with the ID in bold.
fn split_id(text: &str) -> Option<(&str, &str)> {
    let plain = text.strip_prefix("**").unwrap_or(text);
    let (id, after) = plain.split_at(plain.find([':', '*', ' ', '\n']).unwrap_or(plain.len()));
    let is_id = id.bytes().any(|byte| byte.is_ascii_digit())
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.contains(['-', '_', '.'])
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let marks = [":**", "**:", "**", ":"];
    let rest = marks.iter().find_map(|mark| after.strip_prefix(mark))?.trim_start();
    (is_id && !rest.is_empty()).then_some((id, rest))
}

/// Splits `1.2 text`, also with the number in bold.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let plain = text.strip_prefix("**").unwrap_or(text);
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, after) = plain.split_at(plain.find(|c| !is_number(c)).unwrap_or(plain.len()));
    let rest = after.strip_prefix("**").unwrap_or(after);
    let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && number.contains('.');
    let is_split = is_number && rest.starts_with([' ', '\t']) && !rest.trim().is_empty();
    is_split.then(|| (number.trim_end_matches('.'), rest.trim_start()))
}
