//! A problem in a document, with its position and its fix.

use serde::{Deserialize, Serialize};

/// A problem in a document. Document metadata stores it without the column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diagnostic {
    /// 1-based; `None` if the problem concerns the whole document.
    pub line: Option<usize>,
    /// 1-based.
    #[serde(skip)]
    pub column: Option<usize>,
    /// The problem and the fix, such as "`title` is missing; add one to the front matter".
    pub message: String,
}

impl Diagnostic {
    pub fn new(line: impl Into<Option<usize>>, message: impl Into<String>) -> Self {
        Self { line: line.into(), column: None, message: message.into() }
    }
}
