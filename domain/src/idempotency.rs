//! The key of a write that happens once, and its stored result.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::audit_log::AuditTarget;
use crate::timestamp::Timestamp;

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
    /// The serialized answer; `None` if the process ended before it was stored.
    pub answer: Option<Arc<str>>,
}

impl IdempotencyRecord {
    /// The validity of a record: one day.
    pub const VALIDITY_SECONDS: i64 = 24 * 60 * 60;

    /// False if the key can be used for another request.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        now.seconds() - self.at.seconds() < Self::VALIDITY_SECONDS
    }
}
