//! The driven port to the answers of writes that may come twice (rulings 7, idempotency keys).
//!
//! The key is stored with the change itself, by the commit; the answer that was made of it follows
//! as soon as there is one.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::documents::StoreResult;
use crate::audit::Target;
use crate::time::Timestamp;

/// A write that may come twice and must happen once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The hash of the caller's name and key: 32 hexadecimal digits.
    pub key: String,
    /// The hash of what was asked for: another request under one key is refused.
    pub request: String,
}

impl Once {
    /// Of who names it and how, and of all that says what is asked for.
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

/// A write that happened under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub request: String,
    pub at: Timestamp,
    /// What it changed.
    pub targets: Vec<Target>,
    /// What was answered, as the application wrote it; none if it was never told.
    pub answer: Option<Arc<str>>,
}

impl Earlier {
    /// How long a key is remembered: a day (rulings 7).
    pub const SECONDS: i64 = 24 * 60 * 60;

    /// Is the key still taken?
    pub fn counts_at(&self, now: Timestamp) -> bool {
        now.seconds() - self.at.seconds() < Self::SECONDS
    }
}

/// Keeps what happened under keys.
#[async_trait]
pub trait Answers: Send + Sync {
    /// What happened under this key. A commit that carries the key of one that is there changes
    /// nothing and answers [`super::documents::StoreError::Repeated`] with it
    /// (`a_key_is_used_once`); one that changes nothing keeps no key
    /// (`a_key_is_kept_only_with_a_change`).
    async fn earlier(&self, key: &str) -> StoreResult<Option<Earlier>>;

    /// Keeps the answer of what happened under a key, durably (`an_answer_is_kept`). A key that is
    /// not there is passed over.
    async fn keep(&self, key: &str, answer: String) -> StoreResult<()>;

    /// Forgets all keys of writes before this (`old_keys_are_forgotten`).
    async fn forget(&self, before: Timestamp) -> StoreResult<()>;
}
