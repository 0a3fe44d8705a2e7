//! Requirement sections in markdown (S1): read losslessly, edited by splicing.
//!
//! A [`Section`] borrows the file's text and knows where its requirements stand. Every edit copies
//! the rest byte for byte: headings, prose, comments, line ends, BOM, the missing last newline.

pub(crate) mod escape;
pub mod index;
pub mod instructions;
pub mod key;
pub(crate) mod markdown;
pub mod wrap;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use index::Index;
use markdown::{Mark, Outline};

/// The longest text of a requirement, in characters (S1 P.1).
pub const MAX_TEXT: usize = 10_000;

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

/// An index that had to change so that the order holds (S1 S.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renumbered {
    pub from: String,
    pub to: String,
}

/// The outcome of [`Section::set`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The whole file as it shall be.
    pub body: String,
    /// The requirement's index as it now stands.
    pub index: String,
    /// The requirement as it now stands in the file, marker included (S1 S.3.6).
    pub requirement: String,
    /// Its text, wrapped, without the escapes that the file needs.
    pub text: String,
    pub renumbered: Vec<Renumbered>,
    pub warnings: Vec<String>,
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
    /// Takes a file apart. The error says why its bytes are no text.
    pub fn read(body: &'a [u8]) -> Result<Self, String> {
        let source = std::str::from_utf8(body)
            .map_err(|error| format!("not UTF-8 text (byte {})", error.valid_up_to() + 1))?;
        Ok(Self::of(source))
    }

    /// A file that is not there yet reads as an empty one.
    pub fn of(source: &'a str) -> Self {
        let outline = markdown::outline(source);
        let mut requirements = Vec::new();
        let ends = outline
            .marks
            .iter()
            .skip(1)
            .map(Mark::start)
            .chain([source.len()]);
        for (mark, end) in outline.marks.iter().zip(ends) {
            if let Mark::Marker { start, token } = *mark
                && index::is_well_formed(token)
            {
                let block = start..content_end(source, start..end);
                requirements.push(Requirement {
                    index: token,
                    block,
                });
            }
        }
        Self {
            source,
            outline,
            requirements,
        }
    }

    pub fn requirements(&self) -> &[Requirement<'a>] {
        &self.requirements
    }

    /// The file's first heading.
    pub fn title(&self) -> Option<&'a str> {
        self.outline.marks.iter().find_map(|mark| match mark {
            Mark::Heading { title, .. } if !title.is_empty() => Some(*title),
            _ => None,
        })
    }

    /// The requirement of this index, by value; of two equal ones the first.
    pub fn find(&self, index: &str) -> Option<&Requirement<'a>> {
        self.requirements
            .iter()
            .find(|r| index::compare(r.index, index) == Ordering::Equal)
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
        let own_line = text.split('\n').next().is_some_and(markdown::is_blank);
        escape::unescape(text.trim_matches(WHITE_SPACE), own_line)
    }

    /// Replaces the text of `index`, or inserts it where the order wants it (S1 S.3.2, S.3.3),
    /// wraps it to `columns` (0 = off) and mends the order of the section (S1 S.3.4).
    pub fn set(&self, index: &Index, text: &str, columns: usize) -> Result<Set> {
        let found = self
            .requirements
            .iter()
            .position(|r| index::compare(r.index, index.as_str()) == Ordering::Equal);
        let position = found.unwrap_or_else(|| self.insert_position(index.as_str()));
        let mut indices: Vec<String> = self.requirements.iter().map(|r| r.index.into()).collect();
        if found.is_none() {
            indices.insert(position, index.as_str().to_owned());
        }
        let before = indices.clone();
        renumber(&mut indices)?;

        let written = Written::new(&indices[position], text, columns);
        let end = markdown::line_end(self.source);
        let block = written.block.replace('\n', end);
        let mut edits = Vec::new();
        for (at, requirement) in self.requirements.iter().enumerate() {
            let moved = if found.is_none() && at >= position {
                at + 1
            } else {
                at
            };
            if before[moved] != indices[moved] && found != Some(at) {
                let start = requirement.block.start + "**".len();
                let token = start..start + requirement.index.len();
                edits.push((token, indices[moved].clone()));
            }
        }
        edits.push(match found {
            Some(at) => (self.requirements[at].block.clone(), block.clone()),
            None => self.insertion(position, index.as_str(), &block, end),
        });
        let body = splice(self.source, edits);
        self.verify(&body, &indices)?;
        let changed = before
            .into_iter()
            .zip(&indices)
            .filter(|(from, to)| from != *to);
        Ok(Set {
            body,
            index: indices[position].clone(),
            requirement: block,
            text: written.text,
            renumbered: changed
                .map(|(from, to)| Renumbered {
                    from,
                    to: to.clone(),
                })
                .collect(),
            warnings: written.warnings,
        })
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
        let is_first = self.source[..before]
            .trim_start_matches('\u{feff}')
            .is_empty();
        let cut = match next {
            Some(next) if is_first || next - block.end <= block.start - before => block.start..next,
            _ => before..block.end,
        };
        let body = splice(self.source, vec![(cut, String::new())]);
        Some(Deleted {
            body: (!body
                .trim_start_matches('\u{feff}')
                .trim_matches(WHITE_SPACE)
                .is_empty())
            .then_some(body),
            index: requirement.index.to_owned(),
            requirement: self.stored(requirement).to_owned(),
            text: self.text(requirement),
        })
    }

    /// What a person should mend: markers that are no index, a broken order, an open fence.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut last: HashMap<Option<&str>, &str> = HashMap::new();
        let mut report = |offset, message| {
            findings.push(Finding {
                line: markdown::line_number(self.source, offset),
                message,
            });
        };
        for mark in &self.outline.marks {
            let Mark::Marker { start, token } = *mark else {
                continue;
            };
            if !index::is_well_formed(token) {
                report(
                    start,
                    format!(
                        "`**{token}.**` is no valid index (1 to 10 characters: letters, digits, '_' \
                     and '-' in segments separated by dots), so it is no requirement"
                    ),
                );
                continue;
            }
            let group = index::group(token);
            match last.get(&group) {
                Some(before) if index::compare(token, before) != Ordering::Greater => {
                    report(
                        start,
                        format!(
                            "index {token} stands after {before}; the next set in this section \
                         renumbers it"
                        ),
                    );
                }
                _ => {
                    last.insert(group, token);
                }
            }
        }
        if let Some(offset) = self.outline.open_fence {
            report(
                offset,
                "this code fence is never closed; it hides everything below it".into(),
            );
        }
        findings.sort_by_key(|finding| finding.line);
        findings
    }

    /// Where a new index goes: behind the greatest smaller one of its group, before the group's
    /// first when there is none; a new group last, save the numbers, which come first.
    fn insert_position(&self, index: &str) -> usize {
        let group = index::group(index);
        let members = || {
            self.requirements
                .iter()
                .enumerate()
                .filter(|(_, r)| index::group(r.index) == group)
        };
        let smaller = members().filter(|(_, r)| index::compare(r.index, index) == Ordering::Less);
        let predecessor = smaller.max_by(|(_, a), (_, b)| index::compare(a.index, b.index));
        match (predecessor, members().next(), group) {
            (Some((at, _)), _, _) => at + 1,
            (None, Some((first, _)), _) => first,
            (None, None, None) => 0,
            (None, None, Some(_)) => self.requirements.len(),
        }
    }

    /// The edit that inserts `block` at `position`, apart from its neighbours by a blank line.
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
                let follows = index::group(above) == index::group(index)
                    && index::compare(above, index) == Ordering::Less;
                (!follows).then_some(next)
            }
            None => None,
        };
        if let Some(next) = before_first {
            return (
                next.block.start..next.block.start,
                format!("{block}{end}{end}"),
            );
        }
        let at = match position.checked_sub(1) {
            Some(above) => self.requirements[above].block.end,
            None => content_end(self.source, 0..self.source.len()),
        };
        let is_start = at <= '\u{feff}'.len_utf8()
            && self.source[..at].trim_start_matches('\u{feff}').is_empty();
        let apart = if is_start {
            String::new()
        } else {
            end.repeat(2)
        };
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

    /// Reads an edited file again: it must hold the requirements that were meant, no other.
    fn verify(&self, body: &str, indices: &[String]) -> Result<()> {
        let edited = Section::of(body);
        let as_meant = edited.requirements.iter().map(|r| r.index).eq(indices);
        if as_meant {
            return Ok(());
        }
        let way_out = match self.outline.open_fence {
            Some(at) => format!(
                "line {} opens a code fence that is never closed; close it first",
                markdown::line_number(self.source, at)
            ),
            None => "its markdown hides the requirement; look at the file around it".to_owned(),
        };
        Err(Error::new(
            ErrorKind::Refused,
            format!(
                "The requirement can't be written so that it can be read again: {way_out}. Nothing was changed."
            ),
        ))
    }
}

const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// The end of the last line in `range` that is not blank, without its line end.
fn content_end(source: &str, range: Range<usize>) -> usize {
    let content = source[range.clone()].trim_end_matches(WHITE_SPACE);
    let end = range.start + content.len();
    let trailing = source[end..range.end].trim_start_matches([' ', '\t']);
    if content.is_empty() {
        end
    } else {
        range.end - trailing.len()
    }
}

/// A requirement's block as it is to be written.
struct Written {
    block: String,
    text: String,
    warnings: Vec<String>,
}

impl Written {
    fn new(index: &str, text: &str, columns: usize) -> Self {
        let marker = format!("**{index}.**");
        let given = text.replace("\r\n", "\n").replace('\r', "\n");
        let given = given.trim_matches(WHITE_SPACE);
        let own_line = escape::begins_with_fence(given);
        let taken = if own_line { 0 } else { marker.len() + 1 };
        let text = wrap::wrap(given, taken, columns);
        let mut warnings = Vec::new();
        for (line, length) in wrap::long_lines(&text, taken, columns) {
            warnings.push(format!(
                "R.2: line {line} of the text is {length} characters long and could not be wrapped \
                 at {columns}"
            ));
        }
        if is_mostly_not_latin(&text) {
            warnings.push("R.1: requirements must be written in English; this text is mostly in another script".to_owned());
        }
        let between = if own_line { "\n\n" } else { " " };
        let block = format!("{marker}{between}{}", escape::escape(&text, own_line));
        Self {
            block,
            text,
            warnings,
        }
    }
}

fn is_mostly_not_latin(text: &str) -> bool {
    let is_latin = |c: &char| matches!(c, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}');
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (latin, other): (Vec<char>, Vec<char>) = letters.partition(is_latin);
    other.len() > latin.len()
}

/// Gives each index that does not rise within its group the next one after its predecessor.
fn renumber(indices: &mut [String]) -> Result<()> {
    let mut last: HashMap<Option<String>, usize> = HashMap::new();
    for at in 0..indices.len() {
        let group = index::group(&indices[at]).map(str::to_owned);
        if let Some(before) = last.get(&group) {
            let before = &indices[*before];
            if index::compare(&indices[at], before) != Ordering::Greater {
                indices[at] = index::next_after(before, &indices[at]).ok_or_else(|| {
                    Error::new(ErrorKind::Refused, format!(
                        "The indices of this section are out of order at {}, and no index of at most \
                         {} characters is left after {before}; renumber the section by hand. \
                         Nothing was changed.",
                        indices[at], index::MAX
                    ))
                    .reference(indices[at].clone())
                })?;
            }
        }
        last.insert(group, at);
    }
    Ok(())
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
