//! The statements of a Markdown text: items of lists, rows of tables and paragraphs with an ID.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::names::plain_title;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementForm {
    ListItem,
    /// An item of a list in an item.
    NestedItem,
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

impl Statement {
    /// The title, for a row of its first cell, and the text if the title is only a part of it.
    pub(crate) fn split_title(&self) -> (String, &str) {
        let cell = self.text.split(" |").next().filter(|_| self.form == StatementForm::TableRow);
        let title = plain_title(cell.unwrap_or(&self.text));
        let text = if self.text.trim() == title { "" } else { &*self.text };
        (title, text)
    }
}

/// The text without the statements that `is_taken` selects, and these statements. An item of a list
/// ends where a taken nested one begins, and stays in the text if it has no ID.
pub(crate) fn take_statements(
    text: &str,
    is_taken: impl Fn(&Statement) -> bool,
) -> (String, Vec<Statement>) {
    let taken: Vec<_> = candidates(text, &is_taken)
        .into_iter()
        .map(|(form, range)| (parse_statement(form, text, range.clone()), range.end))
        .filter(|(one, _)| !one.text.trim().is_empty() && is_taken(one))
        .collect();
    let (mut rest, mut found, mut last) = (String::new(), Vec::<Statement>::new(), 0);
    let starts: Vec<usize> = taken.iter().map(|(one, _)| one.start).collect();
    // Parsed once at the end of its parts, which may be many.
    let mut parts_end = None;
    let add_parts = |found: &mut Vec<Statement>, end: Option<usize>| {
        if let (Some(last), Some(end)) = (found.last_mut(), end) {
            *last = parse_statement(last.form, text, last.start..end);
        }
    };
    for (index, (mut statement, mut end)) in taken.into_iter().enumerate() {
        let (start, form) = (statement.start, statement.form);
        if let Some(nested) = starts.get(index + 1).copied().filter(|nested| *nested < end) {
            if statement.id.is_none() {
                continue;
            }
            statement = parse_statement(form, text, start..nested);
            end = nested;
        }
        let before = text.get(last..start).unwrap_or_default();
        let is_gap = before.trim().is_empty();
        // A list without IDs below a paragraph with an ID is a part of it.
        let is_part = is_gap && form == StatementForm::ListItem && statement.id.is_none();
        match found.last_mut().filter(|last| is_part && last.form == StatementForm::Paragraph) {
            Some(above) if above.id.is_some() => parts_end = Some(end),
            _ => {
                add_parts(&mut found, parts_end.take());
                rest.push_str(if is_gap { "" } else { before });
                found.push(statement);
            }
        }
        last = end;
    }
    add_parts(&mut found, parts_end);
    rest.push_str(text.get(last..).unwrap_or_default());
    (rest.trim_matches(['\n', ' ']).to_owned(), found)
}

/// The parts of a text that may be statements.
fn candidates(
    text: &str,
    is_taken: impl Fn(&Statement) -> bool,
) -> Vec<(StatementForm, Range<usize>)> {
    /// Bounds the time for lists in lists.
    const MAX_NESTED_LISTS: usize = 8;
    let (mut found, mut lists, mut quotes) = (Vec::new(), 0_usize, 0_usize);
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::List(_)) => lists += 1,
            Event::Start(Tag::BlockQuote(_)) => quotes += 1,
            Event::End(TagEnd::List(_)) => lists = lists.saturating_sub(1),
            Event::End(TagEnd::BlockQuote(_)) => quotes = quotes.saturating_sub(1),
            _ if quotes > 0 => {}
            Event::Start(Tag::Item) if lists == 1 => found.push((StatementForm::ListItem, range)),
            Event::Start(Tag::Item) if lists <= MAX_NESTED_LISTS => {
                let line = text[..range.start].rfind('\n').map_or(0, |end| end + 1);
                let is_indented = text[line..range.start].trim().is_empty();
                let start = if is_indented { line } else { range.start };
                found.push((StatementForm::NestedItem, start..range.end));
            }
            Event::Start(Tag::TableRow) if lists == 0 => {
                found.push((StatementForm::TableRow, range));
            }
            Event::Start(Tag::Paragraph) if lists == 0 => {
                // Lines without a blank line between them are one paragraph.
                let form = StatementForm::Paragraph;
                let (mut start, mut end) = (range.start, range.start);
                for line in text[range].split_inclusive('\n') {
                    let next = end + line.len();
                    if start < end && is_taken(&parse_statement(form, text, end..next)) {
                        found.push((form, start..end));
                        start = end;
                    }
                    end = next;
                }
                found.push((form, start..end));
            }
            _ => {}
        }
    }
    found
}

fn parse_statement(form: StatementForm, text: &str, range: Range<usize>) -> Statement {
    let (start, source) = (range.start, &text[range]);
    let is_item = matches!(form, StatementForm::ListItem | StatementForm::NestedItem);
    let text = match form {
        StatementForm::ListItem | StatementForm::NestedItem => list_item_text(source),
        StatementForm::TableRow => {
            let cells = source.trim().trim_matches('|');
            let (first, rest) = cells.split_once('|').unwrap_or((cells, ""));
            let first = first.trim_matches(['*', '`', '[', ']', ' ']);
            format!("{first}: {}", rest.trim_matches(['|', ' ']))
        }
        StatementForm::Paragraph => source.trim_end().to_owned(),
    };
    let marker = source.split_whitespace().next().filter(|_| is_item);
    let marker = marker.and_then(|marker| marker.strip_suffix(['.', ')'])).unwrap_or_default();
    let row_number = || split_row_number(&text).filter(|_| form == StatementForm::TableRow);
    let (id, number, rest, whole) = match (split_id(&text).or_else(row_number), split_number(&text))
    {
        (Some((id, rest)), _) => (Some(id.to_owned()), marker, rest, &*text),
        (None, Some((number, rest))) if marker.is_empty() => (None, number, rest.to_owned(), rest),
        _ => (None, marker, text.clone(), &*text),
    };
    let (number, whole) = (number.to_owned(), whole.to_owned());
    Statement { form, id, number, text: rest, whole, start }
}

/// The text of a list item without its marker and indentation.
fn list_item_text(source: &str) -> String {
    let item = source.trim_start();
    let marker = item.find(char::is_whitespace).unwrap_or(item.len());
    let first = item[marker..].trim_start_matches([' ', '\t']);
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

/// Splits an ID from its text, as in `ID: text`, `**ID** text`, `**ID: Title** text`, `[ID] text`
/// or `ID – text`, also after a box to tick.
pub(crate) fn split_id(text: &str) -> Option<(&str, String)> {
    let boxes = ["[ ] ", "[x] ", "[X] "];
    let text = boxes.iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text);
    let plain = text.trim_start_matches(['*', '`', '[']);
    let opening = &text[..text.len() - plain.len()];
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let length = plain.find(|c| !is_part(c)).unwrap_or(plain.len());
    let id = plain[..length].trim_end_matches(['-', '_', '.']);
    let after = &plain[id.len()..];
    let closed = after.trim_start_matches(['*', '`', ']', ':', '：']);
    let marks = &after[..after.len() - closed.len()];
    let is_link = opening.contains('[') && closed.starts_with('(');
    let dashes = ["– ", "— ", "- ", ". "];
    let after_dash = dashes.iter().find_map(|dash| closed.trim_start().strip_prefix(dash));
    let rest = after_dash.unwrap_or(closed).trim_start();
    // The ID is only the beginning of bold text.
    let is_bold = opening.contains("**") && !marks.contains("**") && rest.contains("**");
    let is_split = !marks.is_empty() || after_dash.is_some() || is_bold;
    let rest = if is_bold { format!("**{rest}") } else { rest.to_owned() };
    (is_id(id) && is_split && !is_link && !rest.is_empty()).then_some((id, rest))
}

/// True for `FR-1.2`, but not for the names of standards and versions.
fn is_id(id: &str) -> bool {
    const STANDARDS: [&str; 12] =
        ["AES", "COVID", "GPT", "IEC", "IEEE", "ISO", "OAuth", "RFC", "RSA", "SHA", "TLS", "UTF"];
    let name = id.split(['-', '_', '.']).next().unwrap_or_default();
    let has_digit = |part: &str| part.contains(|c: char| c.is_ascii_digit());
    let is_version = name.strip_prefix(['v', 'V']).is_some_and(|rest| rest.parse::<u32>().is_ok());
    id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.contains(['-', '_', '.'])
        && id.rsplit(['-', '_', '.']).next().is_some_and(has_digit)
        && !is_version
        && !STANDARDS.contains(&name)
}

/// Splits `1.2.3: text` of a row. Two numbers or a date are a version.
fn split_row_number(text: &str) -> Option<(&str, String)> {
    let (number, rest) = text.split_once(": ")?;
    let mut parts = number.split('.');
    let is_number = parts.all(|part| part.parse::<u32>().is_ok());
    let is_date = rest.starts_with(|c: char| c.is_ascii_digit());
    let is_row = is_number && number.matches('.').count() >= 2 && !is_date;
    is_row.then(|| (number, rest.to_owned()))
}

/// Splits `1.2 text`, also with the number in bold.
pub(crate) fn split_number(text: &str) -> Option<(&str, &str)> {
    let plain = text.strip_prefix("**").unwrap_or(text);
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, after) = plain.split_at(plain.find(|c| !is_number(c)).unwrap_or(plain.len()));
    let rest = after.strip_prefix("**").unwrap_or(after);
    let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && number.contains('.');
    let is_split = is_number && rest.starts_with([' ', '\t']) && !rest.trim().is_empty();
    is_split.then(|| (number.trim_end_matches('.'), rest.trim_start()))
}
