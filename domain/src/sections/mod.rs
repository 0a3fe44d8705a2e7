//! Requirement sections in Markdown: parsed without loss, edited by replacing byte ranges.
//!
//! Every edit keeps all other bytes: headings, prose, comments, line ends, BOM, a missing final
//! line end.

pub mod instructions;
pub(crate) mod lines;
pub(crate) mod markdown;
pub mod mentions;
pub mod requirement_index;
pub mod selection;
pub mod text;
pub mod upsert;
mod verbatim;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use markdown::{Outline, OutlineElement};
pub use markdown::{first_heading, parse_heading};
use requirement_index::RequirementIndex;

use crate::diagnostic::Diagnostic;

/// Maximum length of a requirement's text, in characters.
pub const MAX_REQUIREMENT_CHARS: usize = 10_000;

pub const MAX_REQUIREMENTS: usize = 50_000;

/// The answer for an empty section. Its text is specified.
pub const NO_REQUIREMENTS: &str = "No requirements in this section.";
pub const SECTION_NOT_FOUND: &str = "Section not found.";
pub const REQUIREMENT_NOT_FOUND: &str = "Requirement not found.";

/// A parsed section file.
#[derive(Debug)]
pub struct Section<'a> {
    source: &'a str,
    outline: Outline<'a>,
    requirements: Vec<Requirement<'a>>,
}

/// One numbered requirement of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement<'a> {
    /// As spelled in the file.
    pub index: &'a str,
    /// From the marker to the end of the last non-blank line.
    block: Range<usize>,
}

/// The outcome of [`Section::delete`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// The new text of the file; `None` if nothing is left.
    pub body: Option<String>,
    pub index: String,
    /// The requirement as it was stored, with its marker.
    pub requirement: String,
    pub text: String,
}

impl<'a> Section<'a> {
    /// Parses a section; the text of a missing file is empty.
    pub fn parse(source: &'a str) -> Self {
        let outline = markdown::parse_outline(source);
        let mut requirements = Vec::new();
        for (position, element) in outline.elements.iter().enumerate() {
            // A malformed marker ends the requirement above and begins none.
            if let OutlineElement::Marker { start, token } = *element
                && requirement_index::is_index(token)
            {
                let next = outline.elements.get(position + 1);
                let end = next.map_or(source.len(), OutlineElement::start);
                let block = start..content_end(source, start..end);
                requirements.push(Requirement { index: token, block });
            }
        }
        Self { source, outline, requirements }
    }

    pub fn requirements(&self) -> &[Requirement<'a>] {
        &self.requirements
    }

    /// The first requirement with this index. Indices are compared by value: `01` equals `1`.
    pub fn find(&self, index: &str) -> Option<&Requirement<'a>> {
        Some(&self.requirements[self.position_of(index)?])
    }

    /// The requirement that contains a byte of the file.
    pub(crate) fn requirement_at(&self, position: usize) -> Option<&Requirement<'a>> {
        let after = self.requirements.partition_point(|found| found.block.start <= position);
        let requirement = self.requirements.get(after.checked_sub(1)?)?;
        (position < requirement.block.end).then_some(requirement)
    }

    fn position_of(&self, index: &str) -> Option<usize> {
        let mut requirements = self.requirements.iter();
        requirements.position(|requirement| {
            requirement_index::compare_indices(requirement.index, index) == Ordering::Equal
        })
    }

    /// A requirement as stored, including its marker.
    pub fn stored_text(&self, requirement: &Requirement<'_>) -> &'a str {
        &self.source[requirement.block.clone()]
    }

    /// A requirement's text without marker and escapes, with LF line ends.
    pub fn text(&self, requirement: &Requirement<'_>) -> String {
        let stored = self.stored_text(requirement);
        // Readers get LF only, on every platform.
        let after_marker = &stored[requirement.index.len() + "**.**".len()..];
        let text = normalize_line_ends(after_marker);
        let own_line = text.split('\n').next().is_some_and(markdown::is_blank);
        text::unescape_structure(text.trim_matches(WHITE_SPACE), own_line)
    }

    /// The text outside of requirements, such as headings and prose.
    pub fn outside_text(&self) -> String {
        let mut outside = String::new();
        let mut end = 0;
        for requirement in &self.requirements {
            outside.push_str(&self.source[end..requirement.block.start]);
            end = requirement.block.end;
        }
        outside.push_str(&self.source[end..]);
        outside
    }

    /// Deletes a requirement and the blank lines around it. Other indices do not change. `None` if
    /// there is no such index.
    pub fn delete(&self, index: &RequirementIndex) -> Option<DeleteOutcome> {
        let position = self.position_of(index.as_str())?;
        let requirement = &self.requirements[position];
        let range = self.deletion_range(&requirement.block);
        let mut body = apply_splices(self.source, vec![(range.clone(), String::new())]);
        // Parses the result, because the removal may join a paragraph and an underline.
        if !Section::parse(&body).preserves(self, None, Some(position)) {
            // A heading below needs a blank line.
            let gap = self.line_end_at(range.start);
            body = apply_splices(self.source, vec![(range, gap.to_owned())]);
        }
        let is_empty = body.trim_start_matches('\u{feff}').trim_matches(WHITE_SPACE).is_empty();
        Some(DeleteOutcome {
            body: if is_empty { None } else { Some(body) },
            index: requirement.index.to_owned(),
            requirement: self.stored_text(requirement).to_owned(),
            text: self.text(requirement),
        })
    }

    /// The block with the smaller of the gaps around it, so that the text above and the text below
    /// remain separate paragraphs.
    fn deletion_range(&self, block: &Range<usize>) -> Range<usize> {
        let content_before = content_end(self.source, 0..block.start);
        let elements = self.outline.elements.iter();
        let next = elements.map(OutlineElement::start).find(|start| *start > block.start);
        if let Some(next) = next {
            let gap_before = lines::source_lines(&self.source[content_before..block.start]);
            let gap_after = lines::source_lines(&self.source[block.end..next]);
            let is_first = self.source[..content_before].trim_start_matches('\u{feff}').is_empty();
            if is_first || gap_after.count() <= gap_before.count() {
                return block.start..next;
            }
        }
        content_before..block.end
    }

    /// A line end that makes a blank line at the start of a line.
    fn line_end_at(&self, start: usize) -> &'static str {
        // After a lone CR, an LF would complete a CRLF.
        let is_after_cr = self.source[..start].ends_with('\r');
        if is_after_cr { "\r" } else { lines::line_end(self.source) }
    }

    /// True if this edited section has the same headings, invalid markers and texts as `before`.
    /// The edited requirement is at `here` in this section and at `there` in `before`.
    fn preserves(&self, before: &Section<'_>, here: Option<usize>, there: Option<usize>) -> bool {
        self.other_elements().eq(before.other_elements())
            && self.texts_except(here).eq(before.texts_except(there))
    }

    /// Headings and invalid markers.
    fn other_elements(&self) -> impl Iterator<Item = &str> {
        self.outline.elements.iter().filter_map(|element| match *element {
            OutlineElement::Heading { title, .. } => Some(title),
            OutlineElement::Marker { token, .. } if requirement_index::is_index(token) => None,
            OutlineElement::Marker { token, .. } => Some(token),
        })
    }

    /// The stored texts, without indices and without the text at `position`.
    fn texts_except(&self, position: Option<usize>) -> impl Iterator<Item = &str> {
        self.requirements.iter().enumerate().filter_map(move |(at, requirement)| {
            let text_start = requirement.block.start + "**".len() + requirement.index.len();
            (Some(at) != position).then(|| &self.source[text_start..requirement.block.end])
        })
    }

    /// Reports invalid markers, indices out of order, and an unclosed fence, comment or HTML block.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        let mut last_of_group: HashMap<Option<&str>, &str> = HashMap::new();
        // Order is checked per group: headings may separate groups.
        for element in &self.outline.elements {
            let OutlineElement::Marker { start, token } = *element else { continue };
            if !requirement_index::is_index(token) {
                problems.push((start, invalid_index_message(token)));
                continue;
            }
            let last = last_of_group.entry(requirement_index::group_of(token)).or_insert("");
            if last.is_empty()
                || requirement_index::compare_indices(token, last) == Ordering::Greater
            {
                *last = token;
            } else {
                problems.push((start, order_message(token, last)));
            }
        }
        // Last, because nothing is parsed after an unclosed block.
        if let Some(start) = self.outline.unclosed_at {
            let message = "this code fence, comment or HTML is not closed and hides all text \
                           below; close it";
            problems.push((start, message.to_owned()));
        }
        let starts: Vec<usize> = problems.iter().map(|(start, _)| *start).collect();
        let lines = lines::line_numbers(self.source, starts.into_iter());
        lines.zip(problems).map(|(line, (_, message))| Diagnostic::new(line, message)).collect()
    }
}

fn invalid_index_message(token: &str) -> String {
    format!(
        "`**{token}.**` is not a rule; use an index of 1 to 10 characters: letters, digits, '_' \
         and '-' in segments separated by dots"
    )
}

fn order_message(index: &str, above: &str) -> String {
    format!("index {index} comes after {above}; the next set in this section renumbers it")
}

fn normalize_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// End of the last non-blank line in `range`, without its line end.
fn content_end(source: &str, range: Range<usize>) -> usize {
    let content = source[range.clone()].trim_end_matches(WHITE_SPACE);
    let end = range.start + content.len();
    let trailing = source[end..range.end].trim_start_matches([' ', '\t']);
    if content.is_empty() { end } else { range.end - trailing.len() }
}

/// Replaces non-overlapping ranges of the source.
fn apply_splices(source: &str, mut splices: Vec<(Range<usize>, String)>) -> String {
    splices.sort_by_key(|(range, _)| range.start);
    let added: usize = splices.iter().map(|(_, text)| text.len()).sum();
    let mut edited = String::with_capacity(source.len() + added);
    let mut at = 0;
    for (range, text) in splices {
        edited.push_str(&source[at..range.start]);
        edited.push_str(&text);
        at = range.end;
    }
    edited.push_str(&source[at..]);
    edited
}

#[cfg(test)]
mod tests;
