//! The answers of `get_history` and `undo`.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ports::history::HistoryEntry;
use crate::untrusted_text::encode_line;

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAnswer {
    pub reference: String,
    pub versions: Vec<VersionRecord>,
    // Of the text, or of both compared texts, the newer first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct VersionRecord {
    /// Null for a deletion.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub version: Option<String>,
    pub at: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub user: Option<String>,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub tool: Option<String>,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub reason: Option<String>,
    /// The text was erased.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purged: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UndoAnswer {
    pub project: String,
    pub dry_run: bool,
    /// The change that was undone; absent for a version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone: Option<VersionRecord>,
    pub documents: Vec<RestoredDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RestoredDocument {
    pub id: String,
    /// Null if it was deleted.
    pub version: Option<String>,
}

impl VersionRecord {
    /// `3f9a1c20 2026-11-23T10:00:00Z ann, update_requirement: reason`
    pub fn line(&self, has: impl Fn(&str) -> bool) -> String {
        let version = self.version.as_deref().map_or("deleted", |version| &version[..8]);
        let mut line = version.to_owned();
        if has("at") {
            let _ = write!(line, " {}", self.at);
        }
        if let Some(user) = self.user.as_ref().filter(|_| has("user")) {
            let _ = write!(line, " {}", encode_line(user));
        }
        if let Some(tool) = self.tool.as_ref().filter(|_| has("tool")) {
            let _ = write!(line, ", {}", encode_line(tool));
        }
        if let Some(reason) = self.reason.as_ref().filter(|_| has("reason")) {
            let _ = write!(line, ": {}", encode_line(reason));
        }
        if self.purged {
            line.push_str(" (text erased)");
        }
        line
    }
}

impl From<&HistoryEntry> for VersionRecord {
    fn from(entry: &HistoryEntry) -> Self {
        let HistoryEntry { version, at, origin, is_purged } = entry.clone();
        Self {
            version: version.map(|version| version.to_string()),
            at: at.to_rfc3339(),
            user: origin.user,
            tool: origin.tool,
            reason: origin.reason,
            purged: is_purged,
        }
    }
}
