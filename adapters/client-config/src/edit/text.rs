//! What every edit asks of a text: its line ends, where a line begins, and pieces put in.
//!
//! All positions are bytes. A lone CR ends no line here.

use std::ops::Range;

/// The byte order mark that some editors of Windows write first.
pub(super) const BOM: char = '\u{feff}';

/// How the lines of this text end: as its first one does.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Where the line begins in which this place is.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Where the line ends in which this place is, before its line end.
pub(super) fn line_stop(text: &str, at: usize) -> usize {
    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    if end > at && text[..end].ends_with('\r') { end - 1 } else { end }
}

/// Where the next line begins.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// The spaces and tabs before the first word of the line in which this place is.
pub(super) fn indent(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..];
    &line[..line.len() - line.trim_start_matches(BLANKS).len()]
}

/// Is this place the first word of its line?
pub(super) fn is_first_in_line(text: &str, at: usize) -> bool {
    let before = &text[..skip_blanks_back(text, at)];
    before.is_empty() || before.ends_with('\n')
}

/// The end of the spaces and tabs that begin here.
pub(super) fn skip_blanks(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches(BLANKS).len()
}

/// The beginning of the spaces and tabs that end here.
pub(super) fn skip_blanks_back(text: &str, at: usize) -> usize {
    text[..at].trim_end_matches(BLANKS).len()
}

/// Does nothing but spaces and tabs follow in this line?
pub(super) fn is_last_in_line(text: &str, at: usize) -> bool {
    let rest = &text[skip_blanks(text, at)..];
    rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n")
}

/// The whole lines of what stands alone on them, with their last line end; else the range itself.
pub(super) fn line_or(text: &str, range: Range<usize>) -> Range<usize> {
    if is_first_in_line(text, range.start) && is_last_in_line(text, range.end) {
        return line_start(text, range.start)..next_line(text, range.end);
    }
    range
}

/// Is the last line of this text an empty one?
pub(super) fn ends_with_blank_line(text: &str) -> bool {
    let Some(text) = text.strip_suffix('\n') else { return false };
    text[line_start(text, text.len())..].trim().is_empty()
}

/// `line 3, column 7`, as editors count.
pub(super) fn place(text: &str, at: usize) -> String {
    let line = text[..at].matches('\n').count() + 1;
    let column = text[line_start(text, at)..at].chars().count() + 1;
    format!("line {line}, column {column}")
}

/// A piece of a text and what shall stand there instead.
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) with: String,
}

impl Splice {
    pub(super) fn insert(at: usize, with: impl Into<String>) -> Self {
        Self { range: at..at, with: with.into() }
    }

    pub(super) fn remove(range: Range<usize>) -> Self {
        Self { range, with: String::new() }
    }
}

/// The text with the pieces in it. Of two at the same place the first in the list comes first; what
/// two of them remove is removed once.
pub(super) fn splice(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| splice.range.start);
    let mut edited = String::with_capacity(text.len() + 512);
    let mut done = 0;
    for Splice { range, with } in splices {
        edited.push_str(&text[done..range.start.max(done)]);
        edited.push_str(&with);
        done = range.end.max(done);
    }
    edited.push_str(&text[done..]);
    edited
}

const BLANKS: [char; 2] = [' ', '\t'];
