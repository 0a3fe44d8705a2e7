//! Keys of `_meta` that only this server knows.

use serde_json::Value;

/// The `_meta` key for the idempotency key of a call.
pub(crate) const IDEMPOTENCY_KEY: &str = "reqlore/idempotency-key";

/// The `_meta` key for the format of answers: in a request, or in `initialize` for a connection.
pub const ANSWERS_META: &str = "reqlore/answers";

/// True if a call with this `_meta` needs neither progress nor a newer protocol.
pub(crate) fn has_only_own_keys(meta: &serde_json::Map<String, Value>) -> bool {
    meta.keys().all(|key| key == IDEMPOTENCY_KEY || key == ANSWERS_META)
}
