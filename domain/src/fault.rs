//! What should be mended in a text, and where.

use serde::{Deserialize, Serialize};

/// Something that should be mended in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Counted from 1; absent where the whole document is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
}
