//! The changes of rules in a commit, one section at a time.
//!
//! Changes name rules by their index before the commit, although earlier ones may renumber them.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::Document;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::applied_changes::RenumberedRule;
use reqlore_domain::sections::instructions::SectionTitles;
use reqlore_domain::sections::requirement_index::{RequirementIndex, SectionKey};
use reqlore_domain::sections::{MAX_REQUIREMENT_CHARS, Section};

use crate::sections;
use crate::writes::written_rule::WrittenRule;

pub(crate) type RuleText = BoundedString<MAX_REQUIREMENT_CHARS>;

#[derive(Clone)]
pub(crate) enum RuleEdit {
    /// Appends without an index.
    Create(Option<RequirementIndex>, RuleText),
    Update(RequirementIndex, RuleText),
    Delete(RequirementIndex),
}

/// The changes of rules in a commit.
#[derive(Default)]
pub(crate) struct RuleEdits {
    pub(crate) sections: BTreeMap<String, SectionEdits>,
    /// Of all sections after the changes so far; `None` before the first one.
    pub(crate) titles: Option<SectionTitles>,
}

pub(crate) struct SectionEdits {
    /// The section before the commit.
    pub(crate) original: Option<Document>,
    /// The rules of the current text, in their order.
    rules: Vec<RuleOrigin>,
    /// The entries that changed rules, by the position of the rule before the commit.
    changed: HashMap<usize, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleOrigin {
    /// Position before the commit.
    Stored(usize),
    /// The entry that created it.
    Created(usize),
}

impl RuleEdits {
    /// Returns the rules that the changes wrote, by the position of the change, and the renumbered
    /// ones.
    pub(crate) fn results<'a>(
        &self,
        section: impl Fn(&str) -> Option<&'a Document>,
    ) -> Result<(HashMap<usize, WrittenRule>, Vec<RenumberedRule>)> {
        let (mut written, mut renumbered) = (HashMap::new(), Vec::new());
        for (key, edits) in &self.sections {
            let document = section(key);
            let version = document.map(|document| document.version);
            let current = indices(document)?;
            let before = indices(edits.original.as_ref())?;
            for (position, entry) in &edits.changed {
                // Deleted, unless it is found below.
                let address = format!("{key}:{}", before[*position]);
                written.insert(*entry, WrittenRule { address, version });
            }
            for (origin, index) in edits.rules.iter().zip(current) {
                let to = format!("{key}:{index}");
                let entry = match origin {
                    RuleOrigin::Created(entry) => Some(entry),
                    RuleOrigin::Stored(position) => {
                        if before[*position] != index {
                            let from = format!("{key}:{}", before[*position]);
                            renumbered.push(RenumberedRule { from, to: to.clone() });
                        }
                        edits.changed.get(position)
                    }
                };
                if let Some(entry) = entry {
                    written.insert(*entry, WrittenRule { address: to, version });
                }
            }
        }
        Ok((written, renumbered))
    }
}

/// The result of a change of one rule.
pub(crate) struct EditOutcome {
    /// `None` if the section is empty.
    pub(crate) body: Option<String>,
    /// As stored; `None` for a deletion.
    pub(crate) text: Option<String>,
    pub(crate) warnings: Vec<String>,
}

impl SectionEdits {
    pub(crate) fn new(original: Option<Document>) -> Result<Self> {
        let count = indices(original.as_ref())?.len();
        let rules = (0..count).map(RuleOrigin::Stored).collect();
        Ok(Self { original, rules, changed: HashMap::new() })
    }

    /// Edits the text of the section. `entry` is the position of the change.
    pub(crate) fn edit(
        &mut self,
        (key, edit): (&SectionKey, &RuleEdit),
        source: &str,
        columns: usize,
        titles: &SectionTitles,
        entry: usize,
    ) -> Result<EditOutcome> {
        let section = Section::parse(source);
        let set = match edit {
            RuleEdit::Create(None, text) => {
                let added = section.add(None, text.as_str(), columns)?;
                let error = || Error::new(ErrorKind::Internal, "A rule was not added.");
                added.ok_or_else(error)?
            }
            RuleEdit::Create(Some(index), text) => {
                if section.find(index.as_str()).is_some() {
                    let message = format!(
                        "index: {key}:{index} exists; send update to change it, or no index to \
                         append"
                    );
                    return Err(Error::new(ErrorKind::Refused, message).field("index"));
                }
                section.set(index, text.as_str(), columns)?
            }
            RuleEdit::Update(index, text) => {
                let position = self.claim(key, index, titles, entry)?;
                let index = current_index(&section, position)?;
                section.set(&index, text.as_str(), columns)?
            }
            RuleEdit::Delete(index) => {
                let position = self.claim(key, index, titles, entry)?;
                let index = current_index(&section, position)?;
                let Some(deleted) = section.delete(&index) else {
                    return Err(Error::new(ErrorKind::Internal, "A rule was not found again."));
                };
                self.rules.remove(position);
                let (body, warnings) = (deleted.body, Vec::new());
                return Ok(EditOutcome { body, text: None, warnings });
            }
        };
        if let RuleEdit::Create(..) = edit {
            let edited = Section::parse(&set.body);
            let position = edited.requirements().iter().position(|rule| rule.index == set.index);
            self.rules.insert(position.unwrap_or_default(), RuleOrigin::Created(entry));
        }
        Ok(EditOutcome { body: Some(set.body), text: Some(set.text), warnings: set.warnings })
    }

    /// Finds a rule by its index before the commit, which one change may name. Returns its current
    /// position.
    fn claim(
        &mut self,
        key: &SectionKey,
        index: &RequirementIndex,
        titles: &SectionTitles,
        entry: usize,
    ) -> Result<usize> {
        let missing = |message: String, field: &str| {
            let error = Error::new(ErrorKind::NotFound, message).field(field);
            Err(error.reference(format!("{key}:{index}")))
        };
        let Some(original) = &self.original else {
            let keys: Vec<&str> = titles.keys().map(String::as_str).collect();
            let problem = sections::existing_values(key.as_str(), "sections", &keys, keys.len());
            return missing(format!("section {problem}"), "section");
        };
        let section = Section::parse(sections::editable_text(original)?);
        let rules = section.requirements();
        let found = section.find(index.as_str());
        let Some(position) = rules.iter().position(|rule| Some(rule) == found) else {
            let indices: Vec<&str> = rules.iter().map(|rule| rule.index).collect();
            let problem =
                sections::existing_values(index.as_str(), "indices", &indices, indices.len());
            return missing(format!("{key}: rule {problem}"), "index");
        };
        if let Some(earlier) = self.changed.insert(position, entry) {
            let message = format!(
                "{key}:{index} is already changed by entry {}; change a rule in one entry only",
                earlier + 1
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let current = self.rules.iter().position(|rule| *rule == RuleOrigin::Stored(position));
        current.ok_or_else(|| Error::new(ErrorKind::Internal, "A rule has no position."))
    }
}

/// The indices of a section as spelled, in the order of the file.
fn indices(section: Option<&Document>) -> Result<Vec<String>> {
    let source = section.map_or(Ok(""), sections::editable_text)?;
    let section = Section::parse(source);
    Ok(section.requirements().iter().map(|rule| rule.index.to_owned()).collect())
}

fn current_index(section: &Section<'_>, position: usize) -> Result<RequirementIndex> {
    let index = section.requirements().get(position).map(|rule| rule.index.to_owned());
    let index = index.and_then(|index| RequirementIndex::try_from(index).ok());
    index.ok_or_else(|| Error::new(ErrorKind::Internal, "A rule has no index."))
}
