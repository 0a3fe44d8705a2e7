//! The answer of `apply_changes`: the ID and version of each entry, without titles.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::untrusted_text::encode_id;

// Without doc comments, which would become part of the schema.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AppliedChanges {
    pub project: String,
    pub dry_run: bool,
    /// Of a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub plan: Option<String>,
    pub count: usize,
    /// Of a dry run, by action and kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<PlannedChanges>,
    pub results: Vec<EntryResult>,
    /// Names the entries that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub left_out: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renumbered: Vec<RenumberedRule>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlannedChanges {
    pub action: Cow<'static, str>,
    pub kind: String,
    pub count: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EntryResult {
    /// From 1.
    pub entry: usize,
    pub action: Cow<'static, str>,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// Absent for a new item in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Other items that a deletion deletes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// Items that lose a relationship to a deleted one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlinked: Vec<String>,
}

/// A rule whose address changed to keep the order of its section.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RenumberedRule {
    pub from: String,
    pub to: String,
}

impl AppliedChanges {
    /// A line for each effect on other items.
    pub fn effect_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for EntryResult { deleted, unlinked, .. } in &self.results {
            for (label, ids) in
                [("Also deleted", deleted), ("Relationships removed from", unlinked)]
            {
                if !ids.is_empty() {
                    let ids: Vec<_> = ids.iter().map(|id| encode_id(id)).collect();
                    lines.push(format!("{label}: {}", ids.join(", ")));
                }
            }
        }
        lines
    }
}
