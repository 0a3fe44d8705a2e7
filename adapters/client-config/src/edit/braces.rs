//! Pairs in braces, appended and removed: a JSON object or a TOML inline table.
//!
//! A gap between two pairs contains only white space, comments and at most one comma. Comments are
//! never removed, and a line comment keeps the line break after it.

use std::ops::Range;

use super::text;

pub(super) struct BracedPairs<'a> {
    pub(super) text: &'a str,
    /// With both braces.
    pub(super) span: Range<usize>,
    /// In the order of the text.
    pub(super) pairs: Vec<Range<usize>>,
}

/// How the file around new text is written.
#[derive(Clone, Copy)]
pub(super) struct TextStyle<'a> {
    pub(super) line_end: &'a str,
    /// The indentation of one level.
    pub(super) unit: &'a str,
    /// After a colon, and between pairs on one line.
    pub(super) space: &'a str,
    pub(super) is_multiline: bool,
}

impl BracedPairs<'_> {
    pub(super) fn is_multiline(&self) -> bool {
        (0..=self.pairs.len()).any(|at| self.text[self.gap_before(at)].contains('\n'))
    }

    /// The indentation of a pair on a line of its own.
    pub(super) fn pair_indent(&self, unit: &str) -> String {
        let is_first = |pair: &&Range<usize>| text::is_first_in_line(self.text, pair.start);
        match self.pairs.iter().rev().find(is_first) {
            Some(pair) => text::line_indent(self.text, pair.start).to_owned(),
            None => format!("{}{unit}", text::line_indent(self.text, self.span.start)),
        }
    }

    /// The text with one more pair. It ends with a comma if the last pair did.
    pub(super) fn append_pair(&self, pair: &str, style: TextStyle) -> String {
        let gap = self.gap_before(self.pairs.len());
        let end = gap_tokens(self.text, gap.clone()).last().map_or(gap.start, |token| token.end);
        let TextStyle { line_end, unit, space, is_multiline } = style;
        let mut splices = Vec::new();
        let mut comma = "";
        match (self.pairs.last(), self.comma_in_gap(self.pairs.len())) {
            (Some(_), Some(_)) => comma = ",",
            (Some(last), None) => splices.push((last.end..last.end, ",".to_owned())),
            (None, _) => {}
        }
        if is_multiline {
            let line = format!("{line_end}{}{pair}{comma}", self.pair_indent(unit));
            if self.pairs.is_empty() && !self.text[end..gap.end].contains('\n') {
                let outer = text::line_indent(self.text, self.span.start);
                splices.push((end..gap.end, format!("{line}{line_end}{outer}")));
            } else {
                splices.push((end..end, line));
            }
        } else if self.pairs.is_empty() && end == gap.start {
            splices.push((gap, format!("{space}{pair}{space}")));
        } else {
            splices.push((end..end, format!("{space}{pair}{comma}")));
        }
        text::replace_ranges(self.text, splices)
    }

    /// The text without these pairs and their commas.
    pub(super) fn remove_pairs(&self, is_removed: impl Fn(&Range<usize>) -> bool) -> String {
        let last_kept = self.pairs.iter().rposition(|pair| !is_removed(pair));
        let is_comment = |token: Range<usize>| &self.text[token] != ",";
        let mut gaps = (0..=self.pairs.len()).map(|at| self.gap_before(at));
        if last_kept.is_none() && !gaps.any(|gap| gap_tokens(self.text, gap).any(is_comment)) {
            let inside = self.span.start + 1..self.span.end - 1;
            return text::replace_ranges(self.text, vec![(inside, String::new())]);
        }
        let mut removed: Vec<Range<usize>> = Vec::new();
        for (at, pair) in self.pairs.iter().enumerate().filter(|(_, pair)| is_removed(pair)) {
            // The last pair may have no comma; then the last one kept loses its comma.
            let comma = self
                .comma_in_gap(at + 1)
                .or_else(|| last_kept.and_then(|kept| self.comma_in_gap(kept + 1)));
            removed.extend([pair.clone()].into_iter().chain(comma));
        }
        removed.sort_by_key(|range| range.start);
        removed.dedup_by(|next, before| {
            let is_joined = self.text[before.end..next.start].trim().is_empty();
            if is_joined {
                before.end = next.end;
            }
            is_joined
        });
        text::remove_ranges(
            self.text,
            removed.into_iter().map(|range| text::widen_removal(self.text, range)),
        )
    }

    /// The gap before the pair of this index; after the last pair for their number.
    fn gap_before(&self, at: usize) -> Range<usize> {
        let start = at.checked_sub(1).map_or(self.span.start + 1, |before| self.pairs[before].end);
        start..self.pairs.get(at).map_or(self.span.end - 1, |pair| pair.start)
    }

    fn comma_in_gap(&self, gap: usize) -> Option<Range<usize>> {
        gap_tokens(self.text, self.gap_before(gap)).find(|token| &self.text[token.clone()] == ",")
    }
}

/// Commas and comments, and the first character of anything else.
pub(super) fn gap_tokens(
    text: &str,
    range: Range<usize>,
) -> impl Iterator<Item = Range<usize>> + '_ {
    let Range { mut start, end } = range;
    std::iter::from_fn(move || {
        let rest = text[start..end].trim_start();
        let length = match rest.as_bytes() {
            [] => return None,
            [b'#', ..] | [b'/', b'/', ..] => rest.lines().next().map_or(0, str::len),
            [b'/', b'*', ..] => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            _ => rest.chars().next().map_or(0, char::len_utf8),
        };
        let token = end - rest.len();
        start = token + length;
        Some(token..start)
    })
}
