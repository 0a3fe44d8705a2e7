//! Requirement sections in markdown: parsed losslessly, edited by splicing.
//!
//! Every edit copies the rest byte for byte: headings, prose, comments, line ends, BOM, the missing
//! last newline.

pub mod instructions;
mod markdown;
pub mod requirement_index;
pub mod text;
pub mod upsert;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use markdown::{Mark, Outline};
pub use markdown::{heading, title};
use requirement_index::Index;

use crate::diagnostic::Diagnostic;

/// Maximum length of a requirement's text, in characters.
pub const MAX_TEXT: usize = 10_000;

pub const MAX_REQUIREMENTS: usize = 50_000;

/// The response for a missing section, as specified.
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

/// One numbered clause of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement<'a> {
    /// In the file's spelling.
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
    /// Parses a file's text; a missing file is empty.
    pub fn of(source: &'a str) -> Self {
        let outline = markdown::outline(source);
        let mut requirements = Vec::new();
        let ends = outline.marks.iter().skip(1).map(Mark::start).chain([source.len()]);
        for (mark, end) in outline.marks.iter().zip(ends) {
            if let Mark::Marker { start, token } = *mark
                && requirement_index::is_well_formed(token)
            {
                let block = start..content_end(source, start..end);
                requirements.push(Requirement { index: token, block });
            }
        }
        Self { source, outline, requirements }
    }

    pub fn requirements(&self) -> &[Requirement<'a>] {
        &self.requirements
    }

    /// The first requirement with this index, compared by value.
    pub fn find(&self, index: &str) -> Option<&Requirement<'a>> {
        self.requirements
            .iter()
            .find(|r| requirement_index::compare(r.index, index) == Ordering::Equal)
    }

    /// A requirement as stored, with its marker.
    pub fn stored(&self, requirement: &Requirement<'_>) -> &'a str {
        &self.source[requirement.block.clone()]
    }

    /// A requirement's text without marker and escapes, with LF line ends.
    pub fn text(&self, requirement: &Requirement<'_>) -> String {
        let stored = self.stored(requirement);
        let behind_marker = &stored[requirement.index.len() + "**.**".len()..];
        let text = behind_marker.replace("\r\n", "\n").replace('\r', "\n");
        let own_line = text.split('\n').next().is_some_and(markdown::is_blank);
        text::unescape(text.trim_matches(WHITE_SPACE), own_line)
    }

    /// Deletes a requirement and the blank lines around it; `None` if there is no such index. Never
    /// renumbers.
    pub fn delete(&self, index: &Index) -> Option<DeleteOutcome> {
        let requirement = self.find(index.as_str())?;
        let block = requirement.block.clone();
        let marks = self.outline.marks.iter().map(Mark::start);
        let next = marks.filter(|start| *start > block.start).min();
        let before = content_end(self.source, 0..block.start);
        // The smaller of the gaps around it goes, so that its neighbours stay separate paragraphs.
        let is_first = self.source[..before].trim_start_matches('\u{feff}').is_empty();
        let height = |gap: Range<usize>| markdown::lines(&self.source[gap]).count();
        let cut = match next {
            Some(next) if is_first || height(block.end..next) <= height(before..block.start) => {
                block.start..next
            }
            _ => before..block.end,
        };
        let mut body = splice(self.source, vec![(cut.clone(), String::new())]);
        let position = self.requirements.iter().position(|r| r == requirement);
        if !Section::of(&body).keeps(self, None, position) {
            // A following heading needs a blank line. After a lone CR, an LF would not make one.
            let lone = self.source[..cut.start].ends_with('\r');
            let gap = if lone { "\r" } else { markdown::line_end(self.source) };
            body = splice(self.source, vec![(cut, gap.to_owned())]);
        }
        Some(DeleteOutcome {
            body: (!body.trim_start_matches('\u{feff}').trim_matches(WHITE_SPACE).is_empty())
                .then_some(body),
            index: requirement.index.to_owned(),
            requirement: self.stored(requirement).to_owned(),
            text: self.text(requirement),
        })
    }

    /// True if this edited section has the same headings, invalid markers and texts as `before`,
    /// except at the two positions.
    fn keeps(&self, before: &Section<'_>, here: Option<usize>, there: Option<usize>) -> bool {
        self.others().eq(before.others()) && self.texts_but(here).eq(before.texts_but(there))
    }

    /// The headings and invalid markers.
    fn others(&self) -> impl Iterator<Item = &str> {
        self.outline.marks.iter().filter_map(|mark| match *mark {
            Mark::Heading { title, .. } => Some(title),
            Mark::Marker { token, .. } => {
                (!requirement_index::is_well_formed(token)).then_some(token)
            }
        })
    }

    /// The stored texts, except the one at `position`.
    fn texts_but(&self, position: Option<usize>) -> impl Iterator<Item = &str> {
        let others = self.requirements.iter().enumerate();
        let others = others.filter(move |(at, _)| Some(*at) != position);
        others.map(|(_, r)| &self.source[r.block.start + "**".len() + r.index.len()..r.block.end])
    }

    /// Invalid markers, a wrong order, an unclosed fence.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let mut last: HashMap<Option<&str>, &str> = HashMap::new();
        for mark in &self.outline.marks {
            let Mark::Marker { start, token } = *mark else { continue };
            if !requirement_index::is_well_formed(token) {
                found.push((start, not_an_index(token)));
                continue;
            }
            let group = requirement_index::group(token);
            let above = last.get(&group);
            match above
                .filter(|above| requirement_index::compare(token, above) != Ordering::Greater)
            {
                Some(above) => found.push((start, out_of_order(token, above))),
                None => {
                    last.insert(group, token);
                }
            }
        }
        // Nothing is parsed after an unclosed fence, so it is the last.
        if let Some(start) = self.outline.open {
            let message = "this code fence or comment is never closed; it hides all text below it";
            found.push((start, message.to_owned()));
        }
        let starts: Vec<usize> = found.iter().map(|(start, _)| *start).collect();
        let numbers = markdown::line_numbers(self.source, starts.into_iter());
        numbers.zip(found).map(|(line, (_, message))| Diagnostic::new(line, message)).collect()
    }
}

fn not_an_index(token: &str) -> String {
    format!(
        "`**{token}.**` is not a valid index (1 to 10 characters: letters, digits, '_' and '-' in \
         segments separated by dots), so it is not a requirement"
    )
}

fn out_of_order(index: &str, above: &str) -> String {
    format!("index {index} comes after {above}; the next set in this section renumbers it")
}

const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// End of the last non-blank line in `range`, without its line end.
fn content_end(source: &str, range: Range<usize>) -> usize {
    let content = source[range.clone()].trim_end_matches(WHITE_SPACE);
    let end = range.start + content.len();
    let trailing = source[end..range.end].trim_start_matches([' ', '\t']);
    if content.is_empty() { end } else { range.end - trailing.len() }
}

fn splice(source: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut edited = String::with_capacity(source.len() + added);
    let mut at = 0;
    for (range, text) in edits {
        edited.push_str(&source[at..range.start]);
        edited.push_str(&text);
        at = range.end;
    }
    edited.push_str(&source[at..]);
    edited
}

#[cfg(test)]
mod tests;
