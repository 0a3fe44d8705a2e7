//! Lines of a text, and replacement of ranges in it.
//!
//! Positions are byte offsets. A lone CR does not end a line.

use std::ops::Range;

pub(super) const BOM: char = '\u{feff}';

const BLANKS: [char; 2] = [' ', '\t'];

/// The line end of the first line, LF for a text without one.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(position) if text[..position].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

pub(super) fn line_start(text: &str, position: usize) -> usize {
    text[..position].rfind('\n').map_or(0, |end| end + 1)
}

/// The end of the line, before its line end.
pub(super) fn line_stop(text: &str, position: usize) -> usize {
    position + text[position..].lines().next().map_or(0, str::len)
}

pub(super) fn next_line(text: &str, position: usize) -> usize {
    text[position..].find('\n').map_or(text.len(), |end| position + end + 1)
}

/// The indentation of the line that contains this position.
pub(super) fn line_indent(text: &str, position: usize) -> &str {
    let start = line_start(text, position);
    &text[start..skip_blanks(text, start)]
}

pub(super) fn is_first_in_line(text: &str, position: usize) -> bool {
    let before = &text[..skip_blanks_back(text, position)];
    before.is_empty() || before.ends_with('\n')
}

pub(super) fn is_last_in_line(text: &str, position: usize) -> bool {
    let rest = &text[skip_blanks(text, position)..];
    rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n")
}

pub(super) fn skip_blanks(text: &str, position: usize) -> usize {
    text.len() - text[position..].trim_start_matches(BLANKS).len()
}

fn skip_blanks_back(text: &str, position: usize) -> usize {
    text[..position].trim_end_matches(BLANKS).len()
}

/// Extends a range to remove: to whole lines if they contain nothing else, otherwise by the blanks
/// that would be doubled.
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

/// Replaces ranges of a text. Replacements at one position keep their order; ranges may overlap.
pub(super) fn replace_ranges(text: &str, mut replacements: Vec<(Range<usize>, String)>) -> String {
    replacements.sort_by_key(|(range, _)| range.start);
    let mut edited = String::with_capacity(text.len() + 512);
    let mut copied_to = 0;
    for (range, replacement) in replacements {
        edited.push_str(&text[copied_to..range.start.max(copied_to)]);
        edited.push_str(&replacement);
        copied_to = range.end.max(copied_to);
    }
    edited.push_str(&text[copied_to..]);
    edited
}

pub(super) fn remove_ranges(text: &str, ranges: impl IntoIterator<Item = Range<usize>>) -> String {
    replace_ranges(text, ranges.into_iter().map(|range| (range, String::new())).collect())
}
