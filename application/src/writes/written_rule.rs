//! Rules that a commit wrote or renumbered.

use reqlore_domain::document::Version;
use schemars::JsonSchema;
use serde::Serialize;

/// A rule that a change wrote or deleted.
#[derive(Debug, Clone)]
pub(crate) struct WrittenRule {
    /// Such as `checkout:3`, after all changes of the commit.
    pub(crate) address: String,
    /// Of the section; `None` if it was deleted.
    pub(crate) version: Option<Version>,
}

/// A rule whose address changed to keep the order of its section.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RenumberedRule {
    pub(crate) from: String,
    pub(crate) to: String,
}
