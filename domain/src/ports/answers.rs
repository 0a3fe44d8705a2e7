//! The driven port to the answers of writes that may come twice (rulings 7, idempotency keys).
//!
//! The key is stored with the change itself, by the commit; the answer that was made of it follows
//! as soon as there is one.

use async_trait::async_trait;

use super::failure::StoreResult;
pub use super::once::{Earlier, Once};
use crate::time::Timestamp;

/// Keeps what happened under keys.
#[async_trait]
pub trait Answers: Send + Sync {
    /// What happened under this key. A commit that carries the key of one that is there changes
    /// nothing and answers [`super::failure::StoreError::Repeated`] with it
    /// (`a_key_is_used_once`); one that changes nothing keeps no key
    /// (`a_key_is_kept_only_with_a_change`).
    async fn earlier(&self, key: &str) -> StoreResult<Option<Earlier>>;

    /// Keeps the answer of what happened under a key, durably (`an_answer_is_kept`). A key that is
    /// not there is passed over.
    async fn keep(&self, key: &str, answer: String) -> StoreResult<()>;

    /// Forgets all keys of writes before this (`old_keys_are_forgotten`).
    async fn forget(&self, before: Timestamp) -> StoreResult<()>;
}
