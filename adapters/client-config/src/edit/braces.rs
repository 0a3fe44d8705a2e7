//! Appends and removes pairs in braces: a JSON object or a TOML inline table.
//!
//! A gap between two pairs contains only white space, comments and at most one comma. Comments
//! stay, and a line comment keeps the line break after it.

use std::ops::Range;

use super::text;

pub(super) struct BracedPairs<'a> {
    pub(super) text: &'a str,
    /// Includes both braces.
    pub(super) span: Range<usize>,
    /// In the order of the text.
    pub(super) pairs: Vec<Range<usize>>,
}

/// The notation of the file, which new text follows.
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
        (0..=self.pairs.len()).any(|index| self.text[self.gap_before(index)].contains('\n'))
    }

    /// The indentation of a pair on a line of its own.
    pub(super) fn pair_indent(&self, unit: &str) -> String {
        // The last pair is the nearest example of the file's indentation.
        for pair in self.pairs.iter().rev() {
            if text::is_first_in_line(self.text, pair.start) {
                return text::line_indent(self.text, pair.start).to_owned();
            }
        }
        format!("{}{unit}", text::line_indent(self.text, self.span.start))
    }

    /// The text with one more pair. It ends with a comma if the last pair did.
    pub(super) fn append_pair(&self, pair: &str, style: TextStyle) -> String {
        let gap = self.gap_before(self.pairs.len());
        // The new pair comes after the comments that follow the last pair.
        let end = match gap_tokens(self.text, gap.clone()).last() {
            Some(token) => token.end,
            None => gap.start,
        };
        let TextStyle { line_end, unit, space, is_multiline } = style;
        let mut replacements = Vec::new();
        let mut comma = "";
        match (self.pairs.last(), self.comma_in_gap(self.pairs.len())) {
            (Some(_), Some(_)) => comma = ",",
            (Some(last), None) => replacements.push((last.end..last.end, ",".to_owned())),
            (None, _) => {}
        }
        if is_multiline {
            let line = format!("{line_end}{}{pair}{comma}", self.pair_indent(unit));
            if self.pairs.is_empty() && !self.text[end..gap.end].contains('\n') {
                let outer = text::line_indent(self.text, self.span.start);
                replacements.push((end..gap.end, format!("{line}{line_end}{outer}")));
            } else {
                replacements.push((end..end, line));
            }
        } else if self.pairs.is_empty() && end == gap.start {
            replacements.push((gap, format!("{space}{pair}{space}")));
        } else {
            replacements.push((end..end, format!("{space}{pair}{comma}")));
        }
        text::replace_ranges(self.text, replacements)
    }

    /// The text without these pairs and their commas.
    pub(super) fn remove_pairs(&self, is_removed: impl Fn(&Range<usize>) -> bool) -> String {
        let last_kept = self.pairs.iter().rposition(|pair| !is_removed(pair));
        // Nothing is left that the white space belongs to.
        if last_kept.is_none() && !self.has_comment() {
            let inside = self.span.start + 1..self.span.end - 1;
            return text::replace_ranges(self.text, vec![(inside, String::new())]);
        }
        let mut removed: Vec<Range<usize>> = Vec::new();
        for (index, pair) in self.pairs.iter().enumerate() {
            if !is_removed(pair) {
                continue;
            }
            removed.push(pair.clone());
            // The last pair may have no comma. Then the last one kept loses its comma.
            let mut comma = self.comma_in_gap(index + 1);
            if comma.is_none()
                && let Some(kept) = last_kept
            {
                comma = self.comma_in_gap(kept + 1);
            }
            removed.extend(comma);
        }
        // Adjacent ranges are joined, so that whole lines are removed.
        removed.sort_by_key(|range| range.start);
        removed.dedup_by(|next, before| {
            let is_joined = self.text[before.end..next.start].trim().is_empty();
            if is_joined {
                before.end = next.end;
            }
            is_joined
        });
        for range in &mut removed {
            *range = text::widen_removal(self.text, range.clone());
        }
        text::remove_ranges(self.text, removed)
    }

    fn has_comment(&self) -> bool {
        for index in 0..=self.pairs.len() {
            for token in gap_tokens(self.text, self.gap_before(index)) {
                if &self.text[token] != "," {
                    return true;
                }
            }
        }
        false
    }

    /// The gap before the pair of this index, or after the last pair if the index is their number.
    fn gap_before(&self, index: usize) -> Range<usize> {
        let start = match index.checked_sub(1) {
            Some(before) => self.pairs[before].end,
            None => self.span.start + 1,
        };
        let end = match self.pairs.get(index) {
            Some(pair) => pair.start,
            None => self.span.end - 1,
        };
        start..end
    }

    fn comma_in_gap(&self, gap: usize) -> Option<Range<usize>> {
        gap_tokens(self.text, self.gap_before(gap)).find(|token| &self.text[token.clone()] == ",")
    }
}

/// The commas and comments in a range, and single characters of anything else.
pub(super) fn gap_tokens(
    text: &str,
    range: Range<usize>,
) -> impl Iterator<Item = Range<usize>> + '_ {
    let Range { mut start, end } = range;
    std::iter::from_fn(move || {
        let rest = text[start..end].trim_start();
        let length = match rest.as_bytes() {
            [] => return None,
            [b'#', ..] | [b'/', b'/', ..] => text::line_stop(rest, 0),
            [b'/', b'*', ..] => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            _ => rest.chars().next().map_or(0, char::len_utf8),
        };
        let token = end - rest.len();
        start = token + length;
        Some(token..start)
    })
}
