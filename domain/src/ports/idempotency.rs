//! Port of storages for idempotency keys: writes that may be sent twice and must happen once.
//!
//! A commit stores the key together with its change. The response follows as soon as there is one.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::store_error::StoreResult;
use crate::audit_log::AuditTarget;
use crate::timestamp::Timestamp;

/// Keeps idempotency records.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// The record of this key. A commit that carries the key of a valid record changes nothing and
    /// fails with [`super::store_error::StoreError::Repeated`] (`keys_are_used_once`). A commit
    /// that changes nothing stores no record (`idempotency_key_needs_a_change`).
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>>;

    /// Adds the response to a record, durably (`response_is_stored`). Ignores unknown keys.
    async fn save_response(&self, key: &str, response: String) -> StoreResult<()>;

    /// Deletes the records of all writes before this time (`old_idempotency_keys_expire`).
    async fn expire_records(&self, before: Timestamp) -> StoreResult<()>;
}

/// The key of a write and a fingerprint of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Hash of the caller's name and the key it sent: 32 hexadecimal digits.
    pub key: String,
    /// Hash of the request. The same key with another request is refused.
    pub request: String,
}

impl IdempotencyKey {
    /// Hashes the parts that name the key, and the parts that make up the request.
    pub fn new(name: &[&str], request: &[&str]) -> Self {
        let hash = |parts: &[&str]| {
            let mut hash = Sha256::new();
            for part in parts {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
            hex::encode(&hash.finalize()[..16])
        };
        Self { key: hash(name), request: hash(request) }
    }
}

/// A write that succeeded under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRecord {
    pub request: String,
    pub at: Timestamp,
    /// The documents that the write changed.
    pub targets: Vec<AuditTarget>,
    /// The response as the application serialized it; `None` if the process ended before it was
    /// sent.
    pub answer: Option<Arc<str>>,
}

impl IdempotencyRecord {
    /// A record is valid for one day.
    pub const SECONDS: i64 = 24 * 60 * 60;

    /// True while the key can't be used again.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        now.seconds() - self.at.seconds() < Self::SECONDS
    }
}
