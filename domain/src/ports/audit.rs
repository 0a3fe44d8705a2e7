//! Port of the audit log, to which rows are only appended.
//!
//! A commit writes the row of its own change. This port appends all other rows in batches and reads
//! all of them.

use async_trait::async_trait;

use super::documents::StoreResult;
use crate::audit_log::{AuditEvent, AuditRow, ChainHead};
use crate::timestamp::Timestamp;

/// One chain of rows for all projects of a storage.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends these in their order, durably. Rows of other writers may lie between them
    /// (`rows_are_chained_in_recording_order`).
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()>;

    /// At most `limit` rows from this number on, in order (`rows_are_read_from_any_number`).
    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>>;

    /// The newest row, or the start of the chain.
    async fn newest(&self) -> StoreResult<ChainHead>;

    /// Removes the oldest rows while they are older than this, and appends a row that records it
    /// (`pruning_records_a_row`). Returns the number of removed rows. A storage may limit how
    /// many rows one call removes.
    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64>;
}
