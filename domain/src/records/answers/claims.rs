//! The claims of stories in answers, and the answer of `list_ready`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lists::ListedItem;
use crate::backlog::claim::Claim;

/// The live claim of a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimView {
    pub holder: String,
    pub until: String,
}

impl ClaimView {
    pub fn new(claim: &Claim) -> Self {
        Self { holder: claim.holder.clone(), until: claim.until.to_rfc3339() }
    }

    /// Not encoded.
    pub fn text(&self) -> String {
        format!("claimed by {} until {}", self.holder, self.until)
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadyPage {
    pub items: Vec<ListedItem>,
    pub total: usize,
    /// Number of stories that are not ready only because they wait.
    pub waiting: usize,
    /// The first of them.
    pub waits: Vec<StoryWait>,
    /// Stories that wait for each other.
    pub cycles: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StoryWait {
    pub reference_id: String,
    pub waits_for: Vec<String>,
}
