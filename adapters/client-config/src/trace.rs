//! What an edit replaced by what, so that it can be undone to the byte.
//!
//! It holds only what changed, not the file: that may hold other servers' secrets. It can be undone
//! as long as what was put in stands there once, whatever else was edited since.

use serde::{Deserialize, Serialize};

/// One edit of one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// What stood there before, often nothing.
    removed: String,
    inserted: String,
}

impl Trace {
    /// The smallest edit that leads from one text to the other.
    pub fn between(_before: &str, _after: &str) -> Self {
        Self { removed: String::new(), inserted: String::new() }
    }

    /// The text before, if what was put in is found there exactly once.
    pub fn undo(&self, _text: &str) -> Option<String> {
        None
    }
}
