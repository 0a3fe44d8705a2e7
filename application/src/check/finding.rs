//! A problem that `reqlore check` reports.

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::DocumentId;
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
}

impl CheckFinding {
    pub(crate) fn new(id: &DocumentId, diagnostic: Diagnostic) -> Self {
        Self { document: id.to_string(), line: diagnostic.line, message: diagnostic.message }
    }

    /// A finding about a whole document.
    pub(crate) fn for_document(id: &DocumentId, message: String) -> Self {
        Self { document: id.to_string(), line: None, message }
    }
}
