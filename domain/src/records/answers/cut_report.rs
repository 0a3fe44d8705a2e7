//! The parts of an answer that a limit left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::untrusted_text::encode_line;

// The parts that a limit left out, as the last fields of data. (A doc comment would be in the
// schema.)
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CutReport {
    /// True if parts of the answer were cut.
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

impl CutReport {
    pub fn new(cut: Vec<String>) -> Self {
        Self { truncated: !cut.is_empty(), cut }
    }

    pub fn add_to_text(&self, text: &mut String) {
        if self.truncated {
            text.extend(["\n\nNote: cut: ", &encode_line(&self.cut.join("; "))]);
        }
    }
}
