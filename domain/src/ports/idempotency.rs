//! Port of a storage for idempotency keys: a write that is sent twice happens once.
//!
//! A commit stores the key in the same transaction as its change. The answer is added when the
//! application has it, and then returned for every repeated request.

use crate::idempotency::IdempotencyRecord;

use async_trait::async_trait;
use reqlore_observed_ports::observed;

use super::store_error::StoreResult;
use crate::timestamp::Timestamp;

/// Stores idempotency records.
#[observed]
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Returns the record of a key. A commit with the key of a valid record changes nothing and
    /// fails with [`super::store_error::StoreError::Repeated`] (`keys_are_used_once`). A commit
    /// without changes stores no record (`idempotency_key_needs_a_change`).
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>>;

    /// Adds the answer to a record, durably (`answer_is_stored`). Unknown keys are ignored.
    async fn save_answer(&self, key: &str, answer: String) -> StoreResult<()>;

    /// Deletes the records of all writes before this time (`old_idempotency_keys_expire`).
    async fn expire_records(&self, before: Timestamp) -> StoreResult<()>;
}
