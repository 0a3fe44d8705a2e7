//! What `reqlore check --fix` came to, thing by thing.
//!
//! The trap: one thing that can't be mended keeps no other from being mended, so an answer may hold
//! what was done beside what was refused.

use serde::Serialize;

use crate::finding::Finding;

/// What was done, and what was left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Mended {
    pub relinked: Vec<Relinked>,
    pub renumbered: Vec<Renumbered>,
    /// What could not be done, why, and what to do.
    pub refused: Vec<Finding>,
}

/// One link that leads to the item that it means again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Relinked {
    /// The file that keeps the link.
    pub document: String,
    /// The name of the file that it spoke of, as `EP-001-3f9a1c`.
    pub from: String,
    /// The name of the file that it means.
    pub to: String,
}

/// One item that got a new reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Renumbered {
    /// The file that it was.
    pub document: String,
    pub from: String,
    pub to: String,
    /// The files whose links followed.
    pub relinked: Vec<String>,
}
