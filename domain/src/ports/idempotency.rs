//! Port of a storage for idempotency keys: a write that is sent twice happens once.
//!
//! A commit stores the key in the same transaction as its change. The response is added when the
//! application has it, and then returned for every repeated request.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_observed_ports::observed;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::store_error::{StoreError, StoreResult};
use crate::audit_log::AuditTarget;
use crate::timestamp::Timestamp;

/// Stores idempotency records.
#[observed]
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Returns the record of a key. A commit with the key of a valid record changes nothing and
    /// fails with [`super::store_error::StoreError::Repeated`] (`keys_are_used_once`). A commit
    /// without changes stores no record (`idempotency_key_needs_a_change`).
    #[operation = "earlier"]
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>>;

    /// Adds the response to a record, durably (`response_is_stored`). Unknown keys are ignored.
    #[operation = "keep"]
    async fn save_response(&self, key: &str, response: String) -> StoreResult<()>;

    /// Deletes the records of all writes before this time (`old_idempotency_keys_expire`).
    async fn expire_records(&self, before: Timestamp) -> StoreResult<()>;
}

/// The key of a write and a fingerprint of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Hash of the caller's name and the key in the request: 32 hexadecimal digits.
    pub key: String,
    /// Hash of the request. The same key with another request is an error.
    pub request_hash: String,
}

impl IdempotencyKey {
    /// Hashes the parts that identify the key, and the parts of the request.
    pub fn new(key_parts: &[&str], request_parts: &[&str]) -> Self {
        Self { key: hash_parts(key_parts), request_hash: hash_parts(request_parts) }
    }
}

fn hash_parts(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length separates the parts: ["ab", "c"] is not ["a", "bc"].
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..16])
}

/// The stored result of a write with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    /// [`IdempotencyKey::request_hash`].
    pub request: String,
    pub at: Timestamp,
    /// The documents that the write changed.
    pub targets: Vec<AuditTarget>,
    /// The serialized response; `None` if the process ended before it was stored.
    pub answer: Option<Arc<str>>,
}

impl IdempotencyRecord {
    /// The validity of a record: one day.
    pub const VALIDITY_SECONDS: i64 = 24 * 60 * 60;

    /// False if the key can be used for another request.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        now.seconds() - self.at.seconds() < Self::VALIDITY_SECONDS
    }

    /// Rejects the key of this record. A storage calls this before the decision.
    pub fn check_unused(record: Option<Self>, now: Timestamp) -> StoreResult<()> {
        match record {
            Some(record) if record.is_valid_at(now) => Err(StoreError::Repeated(Box::new(record))),
            _ => Ok(()),
        }
    }
}
