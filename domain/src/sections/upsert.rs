//! Sets a requirement: replaces or inserts it, wraps and escapes its text, and repairs the order of
//! the section.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use super::lines;
use super::requirement_index::{self, RequirementIndex, compare_indices};
use super::text::{begins_with_block, escape_structure, long_lines, wrap_text};
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

/// The outcome of [`Section::set`] and [`Section::add`].
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
    /// The text that was replaced; `None` for a new requirement.
    pub replaced: Option<String>,
    pub renumbered: Vec<RenumberedIndex>,
    pub warnings: Vec<String>,
}

/// All indices of a section before and after a change, and the position of the changed one.
struct IndexPlan<'p> {
    position: usize,
    before: Vec<&'p str>,
    after: Vec<Cow<'p, str>>,
    insertion: Option<Insertion>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Insertion {
    /// Below the requirement above, so that a heading between them stays below.
    BelowPredecessor,
    /// Directly above the requirement at the position.
    InFront,
}

impl Section<'_> {
    /// Replaces or inserts a requirement and repairs the order of the section. Lines are wrapped at
    /// `columns` characters; 0 turns wrapping off.
    pub fn set(&self, index: &RequirementIndex, text: &str, columns: usize) -> Result<SetOutcome> {
        let mut before = self.indices();
        let plan = if let Some(position) = self.position_of(index.as_str()) {
            let after = renumber_indices(&before)?;
            IndexPlan { position, before, after, insertion: None }
        } else {
            let repaired = renumber_indices(&before)?;
            let position = insert_position(&repaired, index.as_str());
            let after = insert_index(repaired, position, index.as_str())?;
            before.insert(position, index.as_str());
            IndexPlan { position, before, after, insertion: Some(Insertion::BelowPredecessor) }
        };
        let mut set = self.store(&plan, index.as_str(), text, columns)?;
        if plan.insertion.is_none() {
            set.warnings.extend(spelling_warning(index, plan.before[plan.position]));
        }
        Ok(set)
    }

    /// Adds a requirement at the end of the group of numbers, or in front of the requirement
    /// `next`: it takes that index, and the requirements after it are renumbered as far as needed.
    /// `None` if there is no requirement `next`.
    pub fn add(
        &self,
        next: Option<&RequirementIndex>,
        text: &str,
        columns: usize,
    ) -> Result<Option<SetOutcome>> {
        let mut before = self.indices();
        let repaired = renumber_indices(&before)?;
        let (position, index, insertion) = if let Some(next) = next {
            let Some(position) = self.position_of(next.as_str()) else { return Ok(None) };
            (position, repaired[position].to_string(), Insertion::InFront)
        } else {
            let index = next_number(&repaired)?;
            (insert_position(&repaired, &index), index, Insertion::BelowPredecessor)
        };
        let after = insert_index(repaired, position, &index)?;
        before.insert(position, &index);
        let plan = IndexPlan { position, before, after, insertion: Some(insertion) };
        self.store(&plan, &index, text, columns).map(Some)
    }

    fn indices(&self) -> Vec<&str> {
        self.requirements.iter().map(|requirement| requirement.index).collect()
    }

    /// Renders the text and applies the plan. `index` is the caller's.
    fn store(
        &self,
        plan: &IndexPlan<'_>,
        index: &str,
        text: &str,
        columns: usize,
    ) -> Result<SetOutcome> {
        let position = plan.position;
        let given = normalize_line_ends(text);
        let given = given.trim_matches(WHITE_SPACE);
        let text = strip_own_marker(given, index)?.to_owned();
        let new = RequirementBlock::new(&plan.after[position], &text, columns);
        let line_end = lines::line_end(self.source);
        let mut splices = self.renumber_edits(plan);
        let mut new_text = new.text;
        let mut block = new.block.replace('\n', line_end);
        let mut replaced = None;
        if let Some(insertion) = plan.insertion {
            splices.push(self.insertion_edit(plan, insertion, &block, line_end));
        } else {
            let requirement = &self.requirements[position];
            let stored = self.stored_text(requirement);
            let after_index = &stored["**".len() + requirement.index.len()..];
            if self.is_stored_text(requirement, given) || self.is_stored_text(requirement, &text) {
                // A text that was read keeps its bytes, such as mixed line ends and long lines.
                block = format!("**{}{after_index}", plan.after[position]);
                new_text = text;
            }
            replaced = Some(self.text(requirement));
            splices.push((requirement.block.clone(), block.clone()));
        }
        // Storages reject larger documents.
        check_size(plan.after.len(), self.source.len() + block.len())?;
        let body = self.apply_verified(splices, line_end, plan, &block)?;
        let mut warnings = new.warnings;
        if plan.insertion.is_some()
            && let Some(line) = self.outline.hidden_line(self.source, index)
        {
            warnings.push(format!(
                "index: line {line} shows {index} in code, HTML or a comment, which is not a \
                 rule and was not changed"
            ));
        }
        let mut renumbered = Vec::new();
        for (from, to) in plan.before.iter().zip(&plan.after) {
            if from != to {
                renumbered.push(RenumberedIndex { from: (*from).to_owned(), to: to.to_string() });
            }
        }
        Ok(SetOutcome {
            body,
            index: plan.after[position].to_string(),
            requirement: block,
            text: new_text,
            replaced,
            renumbered,
            warnings,
        })
    }

    /// The edits that renumber all requirements except the changed one.
    fn renumber_edits(&self, plan: &IndexPlan<'_>) -> Vec<(Range<usize>, String)> {
        let is_inserted = plan.insertion.is_some();
        let mut edits = Vec::new();
        for (at, requirement) in self.requirements.iter().enumerate() {
            let new_at = if is_inserted && at >= plan.position { at + 1 } else { at };
            // Only the token is replaced; the text keeps its bytes.
            if new_at != plan.position && plan.before[new_at] != plan.after[new_at] {
                let start = requirement.block.start + "**".len();
                let token = start..start + requirement.index.len();
                edits.push((token, plan.after[new_at].to_string()));
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

    /// The edit that inserts `block` with blank lines around it.
    fn insertion_edit(
        &self,
        plan: &IndexPlan<'_>,
        insertion: Insertion,
        block: &str,
        line_end: &str,
    ) -> (Range<usize>, String) {
        if let Some(next) = self.requirements.get(plan.position)
            && (insertion == Insertion::InFront || !plan.follows_predecessor())
        {
            let start = next.block.start;
            return (start..start, format!("{block}{line_end}{line_end}"));
        }
        let at = match plan.position.checked_sub(1) {
            Some(above) => self.requirements[above].block.end,
            None => content_end(self.source, 0..self.source.len()),
        };
        let is_file_start = matches!(&self.source[..at], "" | "\u{feff}");
        let gap_before = if is_file_start { String::new() } else { line_end.repeat(2) };
        let rest = &self.source[at..];
        let existing_gap = rest.len() - rest.trim_start_matches(['\n', '\r']).len();
        let line_ends = lines::source_lines(&rest[..existing_gap]).count();
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
    /// headings. Adds blank lines if the last edit would join the text around it.
    fn apply_verified(
        &self,
        mut splices: Vec<(Range<usize>, String)>,
        line_end: &str,
        plan: &IndexPlan<'_>,
        block: &str,
    ) -> Result<String> {
        let position = plan.position;
        let old_position = if plan.insertion.is_some() { None } else { Some(position) };
        // The second attempt adds a blank line after the requirement, the third one above it.
        for attempt in 0..3 {
            match (attempt, splices.last_mut()) {
                (1, Some((_, text))) => text.push_str(line_end),
                (2, Some((range, text))) => text.insert_str(0, self.line_end_at(range.start)),
                _ => {}
            }
            let body = apply_splices(self.source, splices.clone());
            let edited = Section::parse(&body);
            let is_expected = edited.requirements.iter().map(|r| r.index).eq(&plan.after)
                && edited.stored_text(&edited.requirements[position]) == block
                && edited.preserves(self, Some(position), old_position);
            if is_expected {
                return Ok(body);
            }
        }
        let fix = self.outline.unclosed_problem(self.source);
        let fix = fix
            .unwrap_or_else(|| "the Markdown around it hides it; edit the file by hand".to_owned());
        let message =
            format!("The rule would not be readable in the section: {fix}. Nothing was changed.");
        Err(Error::new(ErrorKind::Refused, message))
    }
}

impl IndexPlan<'_> {
    /// True if the requirement above is of the same group, so that it is smaller.
    fn follows_predecessor(&self) -> bool {
        let Some(above) = self.position.checked_sub(1) else { return false };
        let group = requirement_index::group_of(&self.after[self.position]);
        requirement_index::group_of(&self.after[above]) == group
    }
}

/// Inserts an index into ordered ones, and renumbers those after it as far as needed.
fn insert_index<'a>(
    mut ordered: Vec<Cow<'a, str>>,
    position: usize,
    index: &str,
) -> Result<Vec<Cow<'a, str>>> {
    ordered.insert(position, Cow::Owned(index.to_owned()));
    let ordered: Vec<&str> = ordered.iter().map(|index| &**index).collect();
    let mut indices = Vec::with_capacity(ordered.len());
    for index in renumber_indices(&ordered)? {
        indices.push(Cow::Owned(index.into_owned()));
    }
    Ok(indices)
}

/// The index after the last number of ordered indices, at the smallest depth of the numbers.
fn next_number(ordered: &[Cow<'_, str>]) -> Result<String> {
    let is_number = |index: &&Cow<'_, str>| requirement_index::group_of(index).is_none();
    let numbers = || ordered.iter().filter(is_number);
    let shallowest = numbers().min_by_key(|index| index.split('.').count());
    let (Some(last), Some(shallowest)) = (numbers().next_back(), shallowest) else {
        return Ok("1".to_owned());
    };
    requirement_index::next_after(last, shallowest).ok_or_else(|| no_index_left(last))
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

/// The text without its own marker, which a caller may copy from an answer.
pub(super) fn strip_own_marker<'a>(text: &'a str, index: &str) -> Result<&'a str> {
    let mut rest = text.trim_matches(WHITE_SPACE);
    loop {
        let first_line = rest.split('\n').next().unwrap_or_default();
        let Some(token) = markdown::parse_marker(first_line) else { break };
        if !requirement_index::is_index(token) || compare_indices(token, index) != Ordering::Equal {
            break;
        }
        rest = rest[token.len() + "**.**".len()..].trim_matches(WHITE_SPACE);
    }
    if rest.is_empty() {
        let message = format!("text: only the marker of rule {index} is given; add its text");
        return Err(Error::new(ErrorKind::InvalidArgument, message).field("text"));
    }
    Ok(rest)
}

fn check_size(requirements: usize, bytes: usize) -> Result<()> {
    let limit = if requirements > MAX_REQUIREMENTS {
        format!("{MAX_REQUIREMENTS} rules")
    } else if bytes > MAX_DOCUMENT_BYTES {
        format!("{MAX_DOCUMENT_BYTES} bytes")
    } else {
        return Ok(());
    };
    let message = format!(
        "A section holds at most {limit}; set this rule in another section. Nothing was changed."
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
        let own_line = begins_with_block(text);
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
            let warning = "R.1: rules must be written in English; this text is mostly in another \
                           script";
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
                    None => return Err(no_index_left(predecessor)),
                }
            }
            _ => Cow::Borrowed(*index),
        };
        indices.push(new_index);
    }
    Ok(indices)
}

fn no_index_left(predecessor: &str) -> Error {
    let message = format!(
        "No index of at most {} characters is left after {predecessor}; renumber the section by \
         hand. Nothing was changed.",
        requirement_index::MAX_INDEX_CHARS
    );
    Error::new(ErrorKind::Refused, message).reference(predecessor)
}

/// Says that the write replaced a requirement whose index is spelled differently, such as `1` for
/// `01`.
fn spelling_warning(given: &RequirementIndex, replaced: &str) -> Option<String> {
    if given.as_str() == replaced {
        return None;
    }
    Some(format!(
        "index: {given} names rule {replaced}, which this text replaced; use another index for a \
         new rule"
    ))
}
