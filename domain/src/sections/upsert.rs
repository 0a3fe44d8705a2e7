//! Sets a requirement: replaces or inserts it, wraps, escapes, and repairs the order.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use super::requirement_index::{self, Index};
use super::text::{begins_with_fence, escape, long_lines, wrap};
use super::{MAX_REQUIREMENTS, Section, WHITE_SPACE, content_end, markdown, splice};
use crate::document::MAX_BYTES;
use crate::error::{Error, ErrorKind, Result};

/// An index that changed to repair the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenumberedIndex {
    pub from: String,
    pub to: String,
}

/// The outcome of [`Section::set`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetOutcome {
    /// The new text of the file.
    pub body: String,
    /// The requirement's new index.
    pub index: String,
    /// The requirement as stored, with its marker.
    pub requirement: String,
    /// The wrapped text without escapes.
    pub text: String,
    pub renumbered: Vec<RenumberedIndex>,
    pub warnings: Vec<String>,
}

impl Section<'_> {
    /// Replaces or inserts a requirement, wraps it to `columns` (0 = off) and repairs the order of
    /// the section.
    pub fn set(&self, index: &Index, text: &str, columns: usize) -> Result<SetOutcome> {
        let found = self
            .requirements
            .iter()
            .position(|r| requirement_index::compare(r.index, index.as_str()) == Ordering::Equal);
        let position = found.unwrap_or_else(|| self.insert_position(index.as_str()));
        let mut before: Vec<&str> = self.requirements.iter().map(|r| r.index).collect();
        if found.is_none() {
            before.insert(position, index.as_str());
        }
        let indices = renumbered(&before)?;

        let written = RequirementBlock::new(&indices[position], text, columns);
        let end = markdown::line_end(self.source);
        let unchanged = found.map(|at| &self.requirements[at]).filter(|requirement| {
            before[position] == indices[position] && self.text(requirement) == written.text
        });
        let block = match unchanged {
            Some(requirement) => self.stored(requirement).to_owned(),
            None => written.block.replace('\n', end),
        };
        let mut edits = self.renumbering(&before, &indices, found.ok_or(position));
        edits.push(match found {
            Some(at) => (self.requirements[at].block.clone(), block.clone()),
            None => self.insertion(position, index.as_str(), &block, end),
        });
        check_size(indices.len(), self.source.len() + block.len())?;
        let body = self.edited(edits, end, &indices, position, &written.text)?;
        let moves = before.iter().zip(&indices).filter(|(from, to)| *from != to);
        let moves =
            moves.map(|(from, to)| RenumberedIndex { from: (*from).into(), to: to.to_string() });
        Ok(SetOutcome {
            body,
            index: indices[position].to_string(),
            requirement: block,
            text: written.text,
            renumbered: moves.collect(),
            warnings: written.warnings,
        })
    }

    /// The edits of the other requirements' indices. `place` is the position of the one that is
    /// set: found, or to be inserted.
    fn renumbering(
        &self,
        before: &[&str],
        indices: &[Cow<'_, str>],
        place: Result<usize, usize>,
    ) -> Vec<(Range<usize>, String)> {
        let mut edits = Vec::new();
        for (at, requirement) in self.requirements.iter().enumerate() {
            let moved = if place.is_err_and(|inserted| at >= inserted) { at + 1 } else { at };
            if before[moved] != indices[moved] && place != Ok(at) {
                let start = requirement.block.start + "**".len();
                let token = start..start + requirement.index.len();
                edits.push((token, indices[moved].to_string()));
            }
        }
        edits
    }

    /// The position of a new index: after the greatest smaller one of its group, else before the
    /// group's first. A new group comes last, but numbers come first.
    fn insert_position(&self, index: &str) -> usize {
        let group = requirement_index::group(index);
        let members = || {
            self.requirements
                .iter()
                .enumerate()
                .filter(|(_, r)| requirement_index::group(r.index) == group)
        };
        let smaller =
            members().filter(|(_, r)| requirement_index::compare(r.index, index) == Ordering::Less);
        let predecessor =
            smaller.max_by(|(_, a), (_, b)| requirement_index::compare(a.index, b.index));
        match (predecessor, members().next(), group) {
            (Some((at, _)), _, _) => at + 1,
            (None, Some((first, _)), _) => first,
            (None, None, None) => 0,
            (None, None, Some(_)) => self.requirements.len(),
        }
    }

    /// The edit that inserts `block` at `position`, with blank lines around it.
    fn insertion(
        &self,
        position: usize,
        index: &str,
        block: &str,
        end: &str,
    ) -> (Range<usize>, String) {
        let before_first = match self.requirements.get(position) {
            Some(next) if position == 0 => Some(next),
            Some(next) => {
                let above = self.requirements[position - 1].index;
                let follows = requirement_index::group(above) == requirement_index::group(index)
                    && requirement_index::compare(above, index) == Ordering::Less;
                (!follows).then_some(next)
            }
            None => None,
        };
        if let Some(next) = before_first {
            return (next.block.start..next.block.start, format!("{block}{end}{end}"));
        }
        let at = match position.checked_sub(1) {
            Some(above) => self.requirements[above].block.end,
            None => content_end(self.source, 0..self.source.len()),
        };
        let is_start = at <= '\u{feff}'.len_utf8()
            && self.source[..at].trim_start_matches('\u{feff}').is_empty();
        let apart = if is_start { String::new() } else { end.repeat(2) };
        let rest = &self.source[at..];
        let gap = rest.len() - rest.trim_start_matches(['\n', '\r']).len();
        let ends = markdown::lines(&rest[..gap]).count();
        let trail = match (rest.len() == gap, ends) {
            (true, 0) if is_start => end.to_owned(),
            (true, _) => String::new(),
            (false, ends) => end.repeat(2_usize.saturating_sub(ends)),
        };
        (at..at, format!("{apart}{block}{trail}"))
    }

    /// The edited file, parsed again: it has the expected requirements, texts and headings. A blank
    /// line is added if a paragraph would absorb the next line.
    fn edited(
        &self,
        mut edits: Vec<(Range<usize>, String)>,
        end: &str,
        indices: &[Cow<'_, str>],
        position: usize,
        text: &str,
    ) -> Result<String> {
        let inserted = indices.len() > self.requirements.len();
        for gap in ["", end] {
            if let Some((_, text)) = edits.last_mut() {
                text.push_str(gap);
            }
            let body = splice(self.source, edits.clone());
            let edited = Section::of(&body);
            let as_meant = edited.requirements.iter().map(|r| r.index).eq(indices)
                && edited.text(&edited.requirements[position]) == text
                && edited.keeps(self, Some(position), (!inserted).then_some(position));
            if as_meant {
                return Ok(body);
            }
        }
        let way_out = match self.outline.open {
            Some(at) => format!(
                "line {} opens a code fence or a comment that is never closed; close it first",
                markdown::line_numbers(self.source, [at].into_iter()).next().unwrap_or(1)
            ),
            None => "its markdown hides the requirement; look at the file around it".to_owned(),
        };
        Err(Error::new(
            ErrorKind::Refused,
            format!(
                "The requirement can't be written so that it can be read again: {way_out}. \
                 Nothing was changed."
            ),
        ))
    }
}

fn check_size(requirements: usize, bytes: usize) -> Result<()> {
    let (most, what) = if requirements > MAX_REQUIREMENTS {
        (MAX_REQUIREMENTS, "requirements")
    } else if bytes > MAX_BYTES {
        (MAX_BYTES, "bytes")
    } else {
        return Ok(());
    };
    let message = format!(
        "A section may hold at most {most} {what}; put this requirement into another section. \
         Nothing was changed."
    );
    Err(Error::new(ErrorKind::Refused, message).field("section"))
}

/// A requirement's block for the file.
struct RequirementBlock {
    block: String,
    text: String,
    warnings: Vec<String>,
}

impl RequirementBlock {
    fn new(index: &str, text: &str, columns: usize) -> Self {
        let marker = format!("**{index}.**");
        let given = text.replace("\r\n", "\n").replace('\r', "\n");
        let given = given.trim_matches(WHITE_SPACE);
        let own_line = begins_with_fence(given);
        let taken = if own_line { 0 } else { marker.len() + 1 };
        let text = wrap(given, taken, columns);
        let mut warnings = Vec::new();
        for (line, length) in long_lines(&text, taken, columns) {
            warnings.push(format!(
                "R.2: line {line} of the text is {length} characters long and could not be wrapped \
                 at {columns}"
            ));
        }
        if is_mostly_not_latin(&text) {
            let warning = "R.1: requirements must be written in English; this text is mostly in \
                           another script";
            warnings.push(warning.to_owned());
        }
        let between = if own_line { "\n\n" } else { " " };
        let block = format!("{marker}{between}{}", escape(&text, own_line));
        Self { block, text, warnings }
    }
}

fn is_mostly_not_latin(text: &str) -> bool {
    let is_latin = |c: &char| matches!(c, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}');
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (latin, other): (Vec<char>, Vec<char>) = letters.partition(is_latin);
    other.len() > latin.len()
}

/// The indices, with each that does not rise within its group replaced by the next one after its
/// predecessor in the same group.
fn renumbered<'a>(before: &[&'a str]) -> Result<Vec<Cow<'a, str>>> {
    let mut last: HashMap<Option<&str>, usize> = HashMap::new();
    let mut indices: Vec<Cow<'a, str>> = Vec::with_capacity(before.len());
    for (at, index) in before.iter().enumerate() {
        let above = last.insert(requirement_index::group(index), at).map(|above| &*indices[above]);
        let offends =
            above.filter(|above| requirement_index::compare(index, above) != Ordering::Greater);
        let Some(above) = offends else {
            indices.push(Cow::Borrowed(index));
            continue;
        };
        let next = requirement_index::next_after(above, index).ok_or_else(|| {
            let message = format!(
                "The indices of this section are out of order at {index}, and no index of at most \
                 {} characters is left after {above}; renumber the section by hand. Nothing was \
                 changed.",
                requirement_index::MAX_INDEX
            );
            Error::new(ErrorKind::Refused, message).reference(*index)
        })?;
        indices.push(Cow::Owned(next));
    }
    Ok(indices)
}
