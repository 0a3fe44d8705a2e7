//! The smallest set of stored texts for a task, within a budget.
//!
//! Candidates come in steps, each with its share of the budget. The size of the whole text form is
//! counted, so that it never exceeds the budget.

mod budget;
mod render;
pub mod sentences;
#[cfg(test)]
mod tests;
pub mod words;

use std::collections::BTreeMap;

use crate::bounded_types::{named_enum, serialize_by_name};
use crate::records::answers::claims::ClaimView;
use crate::records::answers::document_label::DocumentLabel;

pub use budget::choose_entries;

/// Shares of the budget in percent, and of the score. They are tuned together by benches/context.
pub mod weights {
    /// Of the rules that always hold, of the whole budget.
    pub const ALWAYS_SHARE: usize = 15;
    /// Of criteria, links and decisions, of the budget that the named items leave.
    pub const LINKED_SHARE: usize = 50;
    /// Of the texts of named items, if a search follows.
    pub const NAMED_TEXT_SHARE: usize = 50;
    /// Of the titles that a search found, which come before their texts, of the rest.
    pub const FOUND_TITLES_SHARE: usize = 35;
    /// Of one text that a search found, of the whole budget.
    pub const FOUND_TEXT_SHARE: usize = 25;
    /// Entries of a search without a convincing hit, as titles.
    pub const MAX_WEAK_ENTRIES: usize = 3;
    /// The words of changed paths, in comparison with those of the task. The best hit for paths
    /// never has a larger share of the best hit for the task.
    pub const PATH_WEIGHT: f32 = 0.3;
}

named_enum! {
    /// The reason why a context has an entry.
    EntryReason {
        Named = "named",
        Parent = "parent",
        Criterion = "criterion",
        Link = "link",
        /// Of a section that always holds.
        Rule = "rule",
        Words = "words",
        Meaning = "meaning",
    }
}

serialize_by_name!(EntryReason);

/// A text that a context may have.
#[derive(Debug, Clone)]
pub struct ContextEntry {
    pub label: DocumentLabel,
    pub reason: EntryReason,
    /// Of a link, such as `affects US-001`.
    pub relation: Option<String>,
    /// The live claim of a story.
    pub claim: Option<ClaimView>,
    /// Of the document that holds the text.
    pub version: String,
    /// Markdown; may be empty.
    pub text: String,
    /// True if the stored text is longer.
    pub is_partial: bool,
}

impl ContextEntry {
    /// An entry whose text is not read.
    pub fn new(label: DocumentLabel, reason: EntryReason) -> Self {
        let (version, text) = (String::new(), String::new());
        Self { label, reason, relation: None, claim: None, version, text, is_partial: true }
    }

    /// Sets the text, at most its first sentences of `max_bytes`.
    pub fn set_text(&mut self, text: &str, max_bytes: usize) {
        let text = text.trim();
        sentences::first_sentences(text, max_bytes).clone_into(&mut self.text);
        self.is_partial = self.text.len() < text.len();
    }
}

/// The candidates for one context, in the order of the choice. Each ID is in one list only.
#[derive(Debug, Clone, Default)]
pub struct ContextCandidates {
    /// Named items with their parents and children.
    pub named: Vec<ContextEntry>,
    /// Criteria, links and decisions of the named items, nearest first.
    pub linked: Vec<ContextEntry>,
    /// Rules that always hold.
    pub rules: Vec<ContextEntry>,
    /// Best first.
    pub found: Vec<ContextEntry>,
    /// No longer valid, and not named.
    pub ended: Vec<ContextEntry>,
    /// True if the only named item is a user story.
    pub is_story: bool,
    /// True if a search ran and no hit is convincing.
    pub is_weak: bool,
}

/// The chosen entries.
#[derive(Debug, Clone, Default)]
pub struct TaskContext {
    /// In the order of the choice.
    pub entries: Vec<ShownEntry>,
    /// Number of entries by kind that do not fit.
    pub omitted: BTreeMap<String, usize>,
    /// True if no item is named and no hit is convincing.
    pub is_uncertain: bool,
    /// By kind, the reason that its heading names.
    reasons: BTreeMap<String, EntryReason>,
}

/// An entry with the part of its text that is shown.
#[derive(Debug, Clone)]
pub struct ShownEntry {
    pub entry: ContextEntry,
    /// The end of the shown text, which is the end of a sentence.
    pub end: usize,
    /// True if it is no longer valid and not named.
    is_ended: bool,
}

impl ShownEntry {
    /// The shown beginning of the text.
    pub fn text(&self) -> &str {
        self.entry.text[..self.end].trim_end()
    }

    /// True if a part of the stored text is not shown.
    pub fn is_cut(&self) -> bool {
        self.entry.is_partial || self.end < self.entry.text.len()
    }
}
