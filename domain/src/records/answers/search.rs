//! The answers of searches over all toolsets.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search::{IncompleteDocuments, MAX_INDEXED_BYTES};
use crate::untrusted_text::encode_line;

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SearchAnswer {
    pub total: usize,
    pub results: Vec<SearchResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub next_cursor: Option<String>,
    pub signals: Vec<String>,
    /// Texts not indexed or embedded yet.
    pub pending: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IncompleteReport")]
    pub incomplete: Option<IncompleteReport>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SearchResult {
    /// Reference, entity ID, or section and index ("general:2.1").
    pub reference_id: String,
    #[serde(rename = "type")]
    pub entity_type: Cow<'static, str>,
    /// Of knowledge only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub kind: Option<String>,
    pub title: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub status: Option<String>,
    /// ID of the successor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub superseded_by: Option<String>,
    /// The reason why it is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub stale: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub review_overdue: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[schemars(required, extend("type" = ["number", "null"]))]
    pub score: Option<f64>,
    /// Weak evidence; in total only above 50,000 items.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    pub snippet: String,
}

/// Documents that were searched only in part or not at all.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct IncompleteReport {
    pub total: usize,
    /// The first of them.
    pub documents: Vec<String>,
}

impl IncompleteReport {
    /// `None` if all documents were searched completely.
    pub fn from_documents(incomplete: &IncompleteDocuments) -> Option<Self> {
        let documents: Vec<String> = incomplete.first.iter().map(ToString::to_string).collect();
        (incomplete.total > 0).then_some(Self { total: incomplete.total, documents })
    }

    pub fn text_line(&self) -> String {
        // One line, also for a file name with line breaks.
        let named = encode_line(&self.documents.join(", ")).into_owned();
        let more = match self.total - self.documents.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let limit = MAX_INDEXED_BYTES >> 10;
        format!(
            "Searched in part or not at all (text over {limit} KiB, or unreadable): {named}{more}"
        )
    }
}
