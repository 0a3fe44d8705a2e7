//! Lines and line ends of a text, and pieces replaced in it.
//!
//! Positions are bytes. A lone CR does not end a line.

use std::ops::Range;

pub(super) const BOM: char = '\u{feff}';

const BLANKS: [char; 2] = [' ', '\t'];

/// The line end of the first line, LF for a text without one.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The end of the line, before its line end.
pub(super) fn line_stop(text: &str, at: usize) -> usize {
    at + text[at..].lines().next().map_or(0, str::len)
}

pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// The indentation of the line that contains this position.
pub(super) fn line_indent(text: &str, at: usize) -> &str {
    let start = line_start(text, at);
    &text[start..skip_blanks(text, start)]
}

pub(super) fn is_first_in_line(text: &str, at: usize) -> bool {
    let before = &text[..skip_blanks_back(text, at)];
    before.is_empty() || before.ends_with('\n')
}

pub(super) fn is_last_in_line(text: &str, at: usize) -> bool {
    let rest = &text[skip_blanks(text, at)..];
    rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n")
}

pub(super) fn skip_blanks(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches(BLANKS).len()
}

fn skip_blanks_back(text: &str, at: usize) -> usize {
    text[..at].trim_end_matches(BLANKS).len()
}

/// Widens a range that is removed: to whole lines if it is alone on them, else by the blanks that
/// would be doubled.
pub(super) fn widen_removal(text: &str, range: Range<usize>) -> Range<usize> {
    let (start, end) = (range.start, range.end);
    match (is_first_in_line(text, start), is_last_in_line(text, end)) {
        (true, true) => line_start(text, start)..next_line(text, end),
        (false, true) => skip_blanks_back(text, start)..end,
        (is_first, false) if is_first || text[..start].ends_with([' ', '\t', '{']) => {
            start..skip_blanks(text, end)
        }
        _ => range,
    }
}

pub(super) fn ends_with_blank_line(text: &str) -> bool {
    let Some(text) = text.strip_suffix('\n') else { return false };
    text[line_start(text, text.len())..].trim().is_empty()
}

/// Replaces ranges of a text. At one position the order of the list is kept; ranges may overlap.
pub(super) fn replace_ranges(text: &str, mut splices: Vec<(Range<usize>, String)>) -> String {
    splices.sort_by_key(|(range, _)| range.start);
    let mut edited = String::with_capacity(text.len() + 512);
    let mut done = 0;
    for (range, with) in splices {
        edited.push_str(&text[done..range.start.max(done)]);
        edited.push_str(&with);
        done = range.end.max(done);
    }
    edited.push_str(&text[done..]);
    edited
}

pub(super) fn remove_ranges(text: &str, ranges: impl IntoIterator<Item = Range<usize>>) -> String {
    replace_ranges(text, ranges.into_iter().map(|range| (range, String::new())).collect())
}
