//! The answers of the tools that read and change sections.

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

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SetRule {
    pub project: String,
    pub section: String,
    pub index: String,
    /// As stored.
    pub text: String,
    /// Of the section.
    pub version: String,
    /// False if it replaced a rule.
    pub added: bool,
    /// Indices changed to keep the order.
    pub reindexed: Vec<IndexChange>,
    /// Violated policies, and a replaced rule whose index is spelled differently.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct IndexChange {
    pub from: String,
    pub to: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedRule {
    pub project: String,
    pub section: String,
    pub index: String,
    pub text: String,
    /// Of the section; null if its file was deleted, too.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub version: Option<String>,
}
