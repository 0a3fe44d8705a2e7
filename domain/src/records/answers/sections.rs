//! The answers of the tools that read sections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Instructions {
    pub project: String,
    /// Of AGENTS.md.
    pub version: String,
    /// AGENTS.md as it is.
    pub text: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SectionDetails {
    pub project: String,
    pub section: String,
    /// For if_version; null if the section does not exist.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub version: Option<String>,
    /// Number of rules in the text.
    pub count: usize,
    /// Number of rules in the section; only with indices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub total: Option<usize>,
    /// Indices without a rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// As stored.
    pub text: String,
}
