//! Rules that a commit wrote.

use reqlore_domain::document::Version;

/// A rule that a change wrote or deleted.
#[derive(Debug, Clone)]
pub(crate) struct WrittenRule {
    /// Such as `checkout:3`, after all changes of the commit.
    pub(crate) address: String,
    /// Of the section; `None` if it was deleted.
    pub(crate) version: Option<Version>,
}
