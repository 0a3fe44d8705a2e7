//! The driven port to the audit: rows that are only appended.
//!
//! What changes documents or identities is written with its change, by the commit itself; this port
//! takes everything else, in batches, and gives all of it back.

use async_trait::async_trait;

use super::documents::StoreResult;
use crate::audit::{AuditEvent, AuditRow, ChainHead};
use crate::time::Timestamp;

/// Keeps one chain of rows for all projects of a storage.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends these in their order, durably; others' rows may stand between them
    /// (`rows_are_chained_in_the_order_they_came`).
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()>;

    /// The rows from this number on, by number, at most so many
    /// (`rows_are_read_from_any_number`).
    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>>;

    /// The newest row, or the beginning of the chain.
    async fn newest(&self) -> StoreResult<ChainHead>;

    /// Removes rows from the beginning while they are older than this, at most all that a storage
    /// can remove at once, and appends a row that says so if there were any
    /// (`pruning_says_what_is_gone`). Answers how many went.
    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64>;
}
