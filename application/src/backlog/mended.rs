//! What `reqlore check --fix` came to, thing by thing.
//!
//! The trap: one thing that can't be mended keeps no other from being mended, so an answer may hold
//! what was done beside what was refused.

use serde::Serialize;

use crate::finding::Finding;

/// What was done, and what was left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Mended {
    pub renumbered: Vec<Renumbered>,
    /// What could not be done, why, and what to do.
    pub refused: Vec<Finding>,
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
