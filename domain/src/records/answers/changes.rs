//! The answer of `list_changes`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::untrusted_text::{encode_id, encode_line};

// Without doc comments, which would become part of the schema.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ChangesPage {
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub changes: Vec<ChangedRecord>,
    // For the argument `since`, after the last page.
    pub next: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

/// The last change of a document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangedRecord {
    pub at: String,
    pub user: Option<String>,
    /// `by hand` for edits and pulls.
    pub tool: String,
    /// `created`, `changed` or `deleted`.
    pub change: String,
    pub id: String,
    pub title: Option<String>,
    /// `None` for a deletion.
    pub version: Option<String>,
}

impl ChangedRecord {
    /// `2026-11-23T10:00:00Z ann, update_requirement: changed REQ-012: Title (3f9a1c20)`
    pub fn line(&self) -> String {
        let mut line = format!("{} ", self.at);
        if let Some(user) = &self.user {
            line.extend([&*encode_line(user), ", "]);
        }
        line.extend([&*encode_line(&self.tool), ": ", &self.change, " ", &*encode_id(&self.id)]);
        if let Some(title) = &self.title {
            line.extend([": ", &*encode_line(title)]);
        }
        if let Some(version) = self.version.as_deref().and_then(|version| version.get(..8)) {
            line.extend([" (", version, ")"]);
        }
        line
    }
}
