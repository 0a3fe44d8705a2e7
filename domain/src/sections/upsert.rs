//! Sets a requirement: replaces or inserts it, wraps and escapes its text, and repairs the order of
//! the section.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use super::requirement_index::{self, RequirementIndex, compare_indices};
use super::text::{begins_with_fence, escape_structure, long_lines, wrap_text};
use super::{
    MAX_REQUIREMENTS, Requirement, Section, WHITE_SPACE, apply_splices, content_end, markdown,
    normalize_line_ends,
};
use crate::document::MAX_DOCUMENT_BYTES;
use crate::error::{Error, ErrorKind, Result};

/// An index that changed to restore the order.
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
    /// The requirement's index after renumbering.
    pub index: String,
    /// The requirement as stored, including its marker.
    pub requirement: String,
    /// The wrapped text without escapes.
    pub text: String,
    pub renumbered: Vec<RenumberedIndex>,
    pub warnings: Vec<String>,
}

impl Section<'_> {
    /// Replaces or inserts a requirement and repairs the order of the section. Lines are wrapped at
    /// `columns` characters; 0 turns wrapping off.
    pub fn set(&self, index: &RequirementIndex, text: &str, columns: usize) -> Result<SetOutcome> {
        let existing = self.position_of(index.as_str());
        let mut before: Vec<&str> = self.requirements.iter().map(|r| r.index).collect();
        let (position, indices) = if let Some(position) = existing {
            (position, renumber_indices(&before)?)
        } else {
            let (position, indices) = place_new(&before, index.as_str())?;
            before.insert(position, index.as_str());
            (position, indices)
        };
        let given = normalize_line_ends(text);
        let given = given.trim_matches(WHITE_SPACE);
        let text = strip_own_marker(given, index)?.to_owned();
        let mut new = RequirementBlock::new(&indices[position], &text, columns);
        if let Some(existing) = existing {
            new.warnings.extend(spelling_warning(index, self.requirements[existing].index));
        }
        let line_end = markdown::line_end(self.source);
        let mut splices = self.renumber_edits(&before, &indices, position, existing.is_some());
        let mut new_text = new.text;
        let block;
        if let Some(existing) = existing {
            let requirement = &self.requirements[existing];
            let stored = self.stored_text(requirement);
            let after_index = &stored["**".len() + requirement.index.len()..];
            if self.is_stored_text(requirement, given) || self.is_stored_text(requirement, &text) {
                // A text that was read keeps its bytes, such as mixed line ends and long lines.
                block = format!("**{}{after_index}", indices[position]);
                new_text = text;
            } else {
                block = new.block.replace('\n', line_end);
            }
            splices.push((requirement.block.clone(), block.clone()));
        } else {
            block = new.block.replace('\n', line_end);
            splices.push(self.insertion_edit(position, &indices, &block, line_end));
        }
        // Storages reject larger documents.
        check_size(indices.len(), self.source.len() + block.len())?;
        let body = self.apply_verified(splices, line_end, &indices, position, &block)?;
        let mut renumbered = Vec::new();
        for (from, to) in before.iter().zip(&indices) {
            if from != to {
                renumbered.push(RenumberedIndex { from: (*from).to_owned(), to: to.to_string() });
            }
        }
        Ok(SetOutcome {
            body,
            index: indices[position].to_string(),
            requirement: block,
            text: new_text,
            renumbered,
            warnings: new.warnings,
        })
    }

    /// The edits that renumber all requirements except the one at `position`, which either exists
    /// or will be inserted.
    fn renumber_edits(
        &self,
        before: &[&str],
        indices: &[Cow<'_, str>],
        position: usize,
        exists: bool,
    ) -> Vec<(Range<usize>, String)> {
        let mut edits = Vec::new();
        for (at, requirement) in self.requirements.iter().enumerate() {
            let new_at = if !exists && at >= position { at + 1 } else { at };
            // Only the token is replaced; the text keeps its bytes.
            if new_at != position && before[new_at] != indices[new_at] {
                let start = requirement.block.start + "**".len();
                let token = start..start + requirement.index.len();
                edits.push((token, indices[new_at].to_string()));
            }
        }
        edits
    }

    /// True if `text` is the requirement in a form in which callers read it: as stored, with or
    /// without the marker, or without escapes.
    fn is_stored_text(&self, requirement: &Requirement<'_>, text: &str) -> bool {
        let stored = normalize_line_ends(self.stored_text(requirement));
        let after_marker = &stored[requirement.index.len() + "**.**".len()..];
        let forms = [stored.as_str(), after_marker, &self.text(requirement)];
        forms.iter().any(|form| form.trim_matches(WHITE_SPACE) == text)
    }

    /// The edit that inserts `block` at `position` with blank lines around it.
    fn insertion_edit(
        &self,
        position: usize,
        indices: &[Cow<'_, str>],
        block: &str,
        line_end: &str,
    ) -> (Range<usize>, String) {
        if let Some(next) = self.requirements.get(position)
            && !follows_predecessor(position, indices)
        {
            let start = next.block.start;
            return (start..start, format!("{block}{line_end}{line_end}"));
        }
        // Appends to the requirement above, so that a heading below stays below.
        let at = match position.checked_sub(1) {
            Some(above) => self.requirements[above].block.end,
            None => content_end(self.source, 0..self.source.len()),
        };
        let is_file_start = matches!(&self.source[..at], "" | "\u{feff}");
        let gap_before = if is_file_start { String::new() } else { line_end.repeat(2) };
        let rest = &self.source[at..];
        let existing_gap = rest.len() - rest.trim_start_matches(['\n', '\r']).len();
        let line_ends = markdown::source_lines(&rest[..existing_gap]).count();
        let gap_after = if existing_gap < rest.len() {
            line_end.repeat(2_usize.saturating_sub(line_ends))
        } else if line_ends == 0 && is_file_start {
            line_end.to_owned()
        } else {
            // The end of the file keeps its line ends.
            String::new()
        };
        (at..at, format!("{gap_before}{block}{gap_after}"))
    }

    /// Applies the edits and parses the result, which must have the expected indices, texts and
    /// headings. Adds a blank line if the last edit would absorb the next line.
    fn apply_verified(
        &self,
        mut splices: Vec<(Range<usize>, String)>,
        line_end: &str,
        indices: &[Cow<'_, str>],
        position: usize,
        block: &str,
    ) -> Result<String> {
        let is_inserted = indices.len() > self.requirements.len();
        let old_position = if is_inserted { None } else { Some(position) };
        // The second attempt adds a blank line after the requirement.
        for gap in ["", line_end] {
            if let Some((_, text)) = splices.last_mut() {
                text.push_str(gap);
            }
            let body = apply_splices(self.source, splices.clone());
            let edited = Section::parse(&body);
            let is_expected = edited.requirements.iter().map(|r| r.index).eq(indices)
                && edited.stored_text(&edited.requirements[position]) == block
                && edited.preserves(self, Some(position), old_position);
            if is_expected {
                return Ok(body);
            }
        }
        let fix = match self.outline.unclosed_at {
            Some(start) => {
                let line = markdown::line_numbers(self.source, [start].into_iter()).next();
                let line = line.unwrap_or(1);
                format!(
                    "line {line} opens a code fence or a comment that is not closed; close it first"
                )
            }
            None => "the Markdown around it hides it; edit the file by hand".to_owned(),
        };
        let message = format!(
            "The requirement would not be readable in the section: {fix}. Nothing was changed."
        );
        Err(Error::new(ErrorKind::Refused, message))
    }
}

/// True if the requirement above `position` is of the same group, so that it is smaller.
fn follows_predecessor(position: usize, indices: &[Cow<'_, str>]) -> bool {
    let Some(above) = position.checked_sub(1) else { return false };
    requirement_index::group_of(&indices[above]) == requirement_index::group_of(&indices[position])
}

/// The position of a new index, and all indices with it. Repairs the order first: a place among
/// other indices is only defined then.
fn place_new<'a>(before: &[&'a str], index: &'a str) -> Result<(usize, Vec<Cow<'a, str>>)> {
    let mut repaired = renumber_indices(before)?;
    let position = insert_position(&repaired, index);
    repaired.insert(position, Cow::Borrowed(index));
    let repaired: Vec<&str> = repaired.iter().map(|index| &**index).collect();
    let mut indices = Vec::with_capacity(repaired.len());
    for index in renumber_indices(&repaired)? {
        indices.push(Cow::Owned(index.into_owned()));
    }
    Ok((position, indices))
}

/// The position of a new index: after the greatest smaller index of its group, or else before the
/// group's first. A new group is appended, but the group of numbers comes first.
fn insert_position(indices: &[Cow<'_, str>], index: &str) -> usize {
    let group = requirement_index::group_of(index);
    let mut first = None;
    let mut predecessor = None;
    for (at, other) in indices.iter().enumerate() {
        if requirement_index::group_of(other) != group {
            continue;
        }
        first = first.or(Some(at));
        // The indices of a group increase.
        if compare_indices(other, index) == Ordering::Less {
            predecessor = Some(at);
        }
    }
    match (predecessor, first, group) {
        (Some(at), _, _) => at + 1,
        (None, Some(first), _) => first,
        (None, None, None) => 0,
        (None, None, Some(_)) => indices.len(),
    }
}

/// The text without its own marker, which a caller may copy from a response.
pub(super) fn strip_own_marker<'a>(text: &'a str, index: &RequirementIndex) -> Result<&'a str> {
    let mut rest = text.trim_matches(WHITE_SPACE);
    loop {
        let first_line = rest.split('\n').next().unwrap_or_default();
        let Some(token) = markdown::parse_marker(first_line) else { break };
        if !requirement_index::is_index(token)
            || compare_indices(token, index.as_str()) != Ordering::Equal
        {
            break;
        }
        rest = rest[token.len() + "**.**".len()..].trim_matches(WHITE_SPACE);
    }
    if rest.is_empty() {
        let message =
            format!("text: only the marker of requirement {index} is given; add its text");
        return Err(Error::new(ErrorKind::InvalidArgument, message).field("text"));
    }
    Ok(rest)
}

fn check_size(requirements: usize, bytes: usize) -> Result<()> {
    let limit = if requirements > MAX_REQUIREMENTS {
        format!("{MAX_REQUIREMENTS} requirements")
    } else if bytes > MAX_DOCUMENT_BYTES {
        format!("{MAX_DOCUMENT_BYTES} bytes")
    } else {
        return Ok(());
    };
    let message = format!(
        "A section holds at most {limit}; set this requirement in another section. Nothing was \
         changed."
    );
    Err(Error::new(ErrorKind::Refused, message).field("section"))
}

/// A requirement rendered for the file, with LF line ends.
struct RequirementBlock {
    block: String,
    text: String,
    warnings: Vec<String>,
}

impl RequirementBlock {
    fn new(index: &str, text: &str, columns: usize) -> Self {
        let marker = format!("**{index}.**");
        let own_line = begins_with_fence(text);
        let taken = if own_line { 0 } else { marker.len() + 1 };
        let text = wrap_text(text, taken, columns);
        let mut warnings = Vec::new();
        for (line, length) in long_lines(&text, taken, columns) {
            warnings.push(format!(
                "R.2: line {line} of the text is {length} characters long and could not be wrapped \
                 at {columns}"
            ));
        }
        // A heuristic: English cannot be distinguished from other Latin texts here.
        if is_mostly_not_latin(&text) {
            let warning = "R.1: requirements must be written in English; this text is mostly in \
                           another script";
            warnings.push(warning.to_owned());
        }
        let separator = if own_line { "\n\n" } else { " " };
        let block = format!("{marker}{separator}{}", escape_structure(&text, own_line));
        Self { block, text, warnings }
    }
}

fn is_mostly_not_latin(text: &str) -> bool {
    let (mut latin, mut other) = (0_usize, 0_usize);
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        match c {
            '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => latin += 1,
            _ => other += 1,
        }
    }
    other > latin
}

/// Replaces each index that is not greater than its predecessor in the same group by the next index
/// after that predecessor.
fn renumber_indices<'a>(before: &[&'a str]) -> Result<Vec<Cow<'a, str>>> {
    let mut last_of_group: HashMap<Option<&str>, usize> = HashMap::new();
    let mut indices: Vec<Cow<'a, str>> = Vec::with_capacity(before.len());
    for (at, index) in before.iter().enumerate() {
        let predecessor = last_of_group.insert(requirement_index::group_of(index), at);
        let new_index = match predecessor.map(|predecessor| &*indices[predecessor]) {
            Some(predecessor) if compare_indices(index, predecessor) != Ordering::Greater => {
                match requirement_index::next_after(predecessor, index) {
                    Some(next) => Cow::Owned(next),
                    None => return Err(no_index_left(index, predecessor)),
                }
            }
            _ => Cow::Borrowed(*index),
        };
        indices.push(new_index);
    }
    Ok(indices)
}

fn no_index_left(index: &str, predecessor: &str) -> Error {
    let message = format!(
        "The indices of this section are out of order at {index}, and no index of at most {} \
         characters is left after {predecessor}; renumber the section by hand. Nothing was \
         changed.",
        requirement_index::MAX_INDEX_CHARS
    );
    Error::new(ErrorKind::Refused, message).reference(index)
}

/// Says that the write replaced a requirement whose index is spelled differently, such as `1` for
/// `01`: a caller who meant a new requirement learns that the old text is gone.
fn spelling_warning(given: &RequirementIndex, replaced: &str) -> Option<String> {
    if given.as_str() == replaced {
        return None;
    }
    Some(format!(
        "index: {given} names requirement {replaced}, which this text replaced; use another index \
         for a new requirement"
    ))
}
