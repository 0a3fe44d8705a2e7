//! One thing that a person should mend, whatever slice it belongs to.

use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::DocumentId;
use serde::Serialize;

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The document, as people call it: `AGENTS.md`, `section general`.
    pub document: String,
    /// Counted from 1; absent where the whole document is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(id: &DocumentId, found: Diagnostic) -> Self {
        Self { document: id.to_string(), line: found.line, message: found.message }
    }

    /// A finding on a document as a whole.
    pub(crate) fn whole(id: &DocumentId, message: String) -> Self {
        Self { document: id.to_string(), line: None, message }
    }
}
