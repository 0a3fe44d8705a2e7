//! Requirement sections in markdown (S1): read losslessly, edited by splicing.
//!
//! A [`Section`] borrows the file's text and knows where its requirements stand. Every edit copies
//! the rest byte for byte: headings, prose, comments, line ends, BOM, the missing last newline.

pub(crate) mod escape;
pub mod index;
pub mod instructions;
pub mod key;
pub(crate) mod lines;
pub(crate) mod markdown;
pub mod set;
pub(crate) mod verbatim;
pub mod wrap;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use index::Index;
use markdown::{Mark, Outline};

/// The longest text of a requirement, in characters (S1 P.1).
pub const MAX_TEXT: usize = 10_000;

/// The first heading of a file.
pub fn title(source: &str) -> Option<&str> {
    markdown::title(source)
}

/// The most requirements of a section.
pub const MAX_REQUIREMENTS: usize = 50_000;

/// What G.3.4 answers for a section that is not there.
pub const NO_REQUIREMENTS: &str = "No requirements in this section.";
/// What D.3.1 answers.
pub const SECTION_NOT_FOUND: &str = "Section not found.";
/// What D.3.2 answers.
pub const REQUIREMENT_NOT_FOUND: &str = "Requirement not found.";

/// A section file, taken apart where requirements begin and end.
#[derive(Debug)]
pub struct Section<'a> {
    source: &'a str,
    outline: Outline<'a>,
    requirements: Vec<Requirement<'a>>,
}

/// One numbered clause of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement<'a> {
    /// As the file spells it.
    pub index: &'a str,
    /// From the marker to the end of the last line that is not blank.
    block: Range<usize>,
}

/// The outcome of [`Section::delete`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The file as it shall be; `None` when nothing is left in it (S1 D.3.4).
    pub body: Option<String>,
    pub index: String,
    /// The requirement as it stood, marker included (S1 D.3.3).
    pub requirement: String,
    pub text: String,
}

/// A place in a section file that a person should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

impl<'a> Section<'a> {
    /// Takes a file's text apart. A file that is not there yet reads as an empty one.
    pub fn of(source: &'a str) -> Self {
        let outline = markdown::outline(source);
        let mut requirements = Vec::new();
        let ends = outline.marks.iter().skip(1).map(Mark::start).chain([source.len()]);
        for (mark, end) in outline.marks.iter().zip(ends) {
            if let Mark::Marker { start, token } = *mark
                && index::is_well_formed(token)
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

    /// The requirement of this index, by value; of two equal ones the first.
    pub fn find(&self, index: &str) -> Option<&Requirement<'a>> {
        self.requirements.iter().find(|r| index::compare(r.index, index) == Ordering::Equal)
    }

    /// A requirement as it stands in the file, marker included.
    pub fn stored(&self, requirement: &Requirement<'_>) -> &'a str {
        &self.source[requirement.block.clone()]
    }

    /// A requirement's text without marker and escapes, its lines ended by LF.
    pub fn text(&self, requirement: &Requirement<'_>) -> String {
        let stored = self.stored(requirement);
        let behind_marker = &stored[requirement.index.len() + "**.**".len()..];
        let text = behind_marker.replace("\r\n", "\n").replace('\r', "\n");
        let own_line = text.split('\n').next().is_some_and(lines::is_blank);
        escape::unescape(text.trim_matches(WHITE_SPACE), own_line)
    }

    /// Takes the requirement of `index` out, with the blank lines that set it apart; `None` when
    /// there is none. Delete never renumbers.
    pub fn delete(&self, index: &Index) -> Option<Deleted> {
        let requirement = self.find(index.as_str())?;
        let block = requirement.block.clone();
        let marks = self.outline.marks.iter().map(Mark::start);
        let next = marks.filter(|start| *start > block.start).min();
        let before = content_end(self.source, 0..block.start);
        // Of the gaps around it the smaller one goes, so that its neighbours stay as far apart as
        // they were: a lost blank line could make one paragraph of two.
        let is_first = self.source[..before].trim_start_matches('\u{feff}').is_empty();
        let height = |gap: Range<usize>| lines::lines(&self.source[gap]).count();
        let cut = match next {
            Some(next) if is_first || height(block.end..next) <= height(before..block.start) => {
                block.start..next
            }
            _ => before..block.end,
        };
        let mut body = splice(self.source, vec![(cut.clone(), String::new())]);
        let position = self.requirements.iter().position(|r| r == requirement);
        if !Section::of(&body).keeps(self, None, position) {
            // A heading that only its distance made one needs a blank line instead. Behind a lone
            // CR an LF would make no line of its own.
            let lone = self.source[..cut.start].ends_with('\r');
            let gap = if lone { "\r" } else { lines::line_end(self.source) };
            body = splice(self.source, vec![(cut, gap.to_owned())]);
        }
        Some(Deleted {
            body: (!body.trim_start_matches('\u{feff}').trim_matches(WHITE_SPACE).is_empty())
                .then_some(body),
            index: requirement.index.to_owned(),
            requirement: self.stored(requirement).to_owned(),
            text: self.text(requirement),
        })
    }

    /// Does this edited section still have everything that `before` had: the same headings and odd
    /// markers, and the same texts, save at the positions that were meant to change?
    fn keeps(&self, before: &Section<'_>, here: Option<usize>, there: Option<usize>) -> bool {
        self.others().eq(before.others()) && self.texts_but(here).eq(before.texts_but(there))
    }

    /// The headings, and the markers that begin no requirement.
    fn others(&self) -> impl Iterator<Item = &str> {
        self.outline.marks.iter().filter_map(|mark| match *mark {
            Mark::Heading { title, .. } => Some(title),
            Mark::Marker { token, .. } => (!index::is_well_formed(token)).then_some(token),
        })
    }

    /// What stands behind the markers, save the one at `position`.
    fn texts_but(&self, position: Option<usize>) -> impl Iterator<Item = &str> {
        let others = self.requirements.iter().enumerate();
        let others = others.filter(move |(at, _)| Some(*at) != position);
        others.map(|(_, r)| &self.source[r.block.start + "**".len() + r.index.len()..r.block.end])
    }

    /// What a person should mend: markers that are no index, a broken order, an open fence.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut last: HashMap<Option<&str>, &str> = HashMap::new();
        for mark in &self.outline.marks {
            let Mark::Marker { start, token } = *mark else { continue };
            if !index::is_well_formed(token) {
                found.push((start, not_an_index(token)));
                continue;
            }
            let group = index::group(token);
            let above = last.get(&group);
            match above.filter(|above| index::compare(token, above) != Ordering::Greater) {
                Some(above) => found.push((start, out_of_order(token, above))),
                None => {
                    last.insert(group, token);
                }
            }
        }
        let fence = self.outline.open.map(|start| {
            (
                start,
                "this code fence or comment is never closed; it hides everything below it"
                    .to_owned(),
            )
        });
        // Nothing is recognised behind an open fence, so it comes last.
        found.extend(fence);
        let offsets = found.iter().map(|(start, _)| *start);
        let numbers = lines::line_numbers(self.source, offsets);
        let messages = found.iter().map(|(_, message)| message.clone());
        numbers.zip(messages).map(|(line, message)| Finding { line, message }).collect()
    }
}

fn not_an_index(token: &str) -> String {
    format!(
        "`**{token}.**` is no valid index (1 to 10 characters: letters, digits, '_' and '-' in \
         segments separated by dots), so it is no requirement"
    )
}

fn out_of_order(index: &str, above: &str) -> String {
    format!("index {index} stands after {above}; the next set in this section renumbers it")
}

const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// The end of the last line in `range` that is not blank, without its line end.
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
