//! Writes of documents: changes, their transaction, and the guard against lost changes.

pub(crate) mod change;
pub(crate) mod pending_unlinks;
pub(crate) mod read_versions;
pub(crate) mod transaction;
pub(crate) mod write_guard;
