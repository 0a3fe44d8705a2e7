//! A problem that `reqlore check` reports.

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::DocumentId;
use reqlore_domain::front_matter;
use serde::Serialize;

/// A problem that a user can repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckFinding {
    /// Such as `AGENTS.md` or `section general`.
    pub document: String,
    /// Counted from 1; `None` for the whole document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem and how to fix it.
    pub message: String,
    /// True for a reminder, with which the document is still valid.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_note: bool,
}

impl CheckFinding {
    pub(crate) fn new(id: &DocumentId, diagnostic: Diagnostic) -> Self {
        let Diagnostic { line, message, .. } = diagnostic;
        Self { line, ..Self::of_file(id.to_string(), message) }
    }

    /// A finding about a whole file or folder.
    pub fn of_file(document: String, message: String) -> Self {
        Self { document, line: None, message, is_note: false }
    }

    /// A finding about a whole document.
    pub(crate) fn for_document(id: &DocumentId, message: String) -> Self {
        Self::of_file(id.to_string(), message)
    }
}

/// Returns the first line of the front matter that contains `word`, counted from 1.
pub(crate) fn line_containing(text: &str, word: &str) -> Option<usize> {
    let yaml = front_matter::split(text).yaml?;
    let position = yaml.lines().position(|line| line.contains(word))?;
    // Line 1 is the opening `---`.
    Some(position + 2)
}
