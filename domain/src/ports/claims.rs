//! Port of a storage for the claims of user stories.
//!
//! Claims are no content: a copy, backup or dump has none.

use async_trait::async_trait;
use reqlore_observed_ports::observed;

use super::store_error::StoreResult;
use crate::backlog::claim::{Claim, ClaimChange, ClaimDecision};
use crate::bounded_types::named_enum;
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// Stores claims. A database on a server judges their end by its own clock, another storage by the
/// given time.
#[observed]
#[async_trait]
pub trait ClaimStore: Send + Sync {
    /// The live claims of a project (`claims_end_at_their_time`). No project has the claims of
    /// another one (`claims_are_isolated_by_project`).
    async fn live_claims(&self, project: &ProjectKey, now: Timestamp) -> StoreResult<Vec<Claim>>;

    /// Decides a change on the newest claim of the story and applies it, durably, in one
    /// transaction (`concurrent_callers_claim_a_story_once`). No document, history or revision
    /// changes (`claims_change_no_document`). Returns the decision and the reach of the claim.
    async fn change_claim(
        &self,
        project: &ProjectKey,
        change: ClaimChange,
    ) -> StoreResult<(ClaimDecision, ClaimReach)>;
}

named_enum! {
    /// The clients that see a claim.
    ClaimReach {
        Server = "this server",
        /// All work trees of the clone.
        Clone = "this clone",
        /// The main work tree cannot be used.
        WorkTree = "this work tree only",
        /// Outside of Git.
        Folder = "this folder",
    }
}
