//! The claims of stories in answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
