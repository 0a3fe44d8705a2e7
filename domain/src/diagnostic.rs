//! One problem in a document, with its place and the way out.

use serde::{Deserialize, Serialize};

/// A problem in a document. Stored with document metadata, save the column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Counted from 1; `None` for the document as a whole.
    pub line: Option<usize>,
    /// Counted from 1.
    #[serde(skip)]
    pub column: Option<usize>,
    /// The problem and the way out.
    pub message: String,
}

impl Diagnostic {
    pub fn new(line: impl Into<Option<usize>>, message: impl Into<String>) -> Self {
        Self { line: line.into(), column: None, message: message.into() }
    }
}
