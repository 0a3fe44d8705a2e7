//! Port of a storage for the audit log.
//!
//! A commit appends the row of its own change in the same transaction. This port appends all other
//! rows, in batches, and reads all rows.

use async_trait::async_trait;
use reqlore_observed_ports::observed;

use super::documents::StoreResult;
use crate::audit_log::{AuditEvent, AuditRow, ChainHead};
use crate::timestamp::Timestamp;

/// The append-only chain of audit rows, one for all projects of a storage.
#[observed]
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends events in this order, durably. Rows of concurrent writers may be appended between
    /// them (`rows_are_chained_in_recording_order`).
    async fn append_events(&self, events: Vec<AuditEvent>) -> StoreResult<()>;

    /// At most `limit` rows, starting with row `from` (`rows_are_read_from_any_number`).
    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>>;

    /// Number and hash of the newest row, or the start of an empty chain.
    async fn newest(&self) -> StoreResult<ChainHead>;

    /// Removes rows older than `older_than`, the oldest first, and appends a row that records the
    /// removal (`pruning_records_a_row`). Returns the number of removed rows. A storage may
    /// limit the rows of one call, so call it until it returns 0.
    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64>;
}
