//! Idempotency keys: a retried write runs once, and the retry gets the stored answer.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::idempotency::{IdempotencyKey, IdempotencyRecord};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::service::{RenderedAnswer, ToolCall};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

/// Serializes calls with the same key in this process. Between processes, the commit of the
/// second one fails.
pub(crate) struct KeyLocks {
    // A fixed number, so that keys of clients do not use memory.
    stripes: [Mutex<()>; 64],
    hasher: RandomState,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl KeyLocks {
    /// Locks the stripe of a key; unrelated keys may share it.
    pub(crate) async fn lock_key(&self, key: &str) -> MutexGuard<'_, ()> {
        // Random keys of the hasher keep a client from choosing the stripe of another client.
        let stripe = self.hasher.hash_one(key) % self.stripes.len() as u64;
        self.stripes[usize::try_from(stripe).unwrap_or_default()].lock().await
    }
}

/// A call without a stored answer is assumed to be running for this long. After that, its server
/// was probably killed.
const IN_FLIGHT_SECONDS: i64 = 20;

#[derive(Serialize, Deserialize)]
struct StoredAnswer {
    text: String,
    data: Arc<Value>,
}

/// Returns the storage key and the request hash of a call with an idempotency key.
pub(crate) fn request_key(call: &ToolCall) -> Option<IdempotencyKey> {
    let key = call.idempotency_key.as_deref()?;
    let Caller { name, scope, project, .. } = &*call.caller;
    // The key includes the scope: another token of this user must not see answers from projects
    // outside its own scope.
    let scope = match scope {
        ProjectScope::Anywhere | ProjectScope::Configured => String::new(),
        ProjectScope::Only(keys) => {
            let keys: Vec<&str> = keys.iter().map(ProjectKey::as_str).collect();
            keys.join(",")
        }
    };
    // The request includes the arguments, so that one key with two requests is a conflict.
    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
    Some(IdempotencyKey::new(&[name, &scope, key], &[project.as_str(), &call.name, &arguments]))
}

/// Returns the stored answer of an earlier call with this key; `None` if the call must run.
///
/// Errors: `Conflict` if the key belongs to a different request or its answer is lost, `Busy` if
/// the first call may still be running.
pub(crate) async fn replay_response(
    store: &dyn IdempotencyStore,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<RenderedAnswer>> {
    match store.find_record(&key.key).await? {
        Some(record) => replay_record(&record, key, now),
        None => Ok(None),
    }
}

/// Like [`replay_response`], for the record of the key.
pub(crate) fn replay_record(
    record: &IdempotencyRecord,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<RenderedAnswer>> {
    // Expired records are removed only hourly, so one may still be stored.
    if !record.is_valid_at(now) {
        return Ok(None);
    }
    if record.request != key.request_hash {
        let message = "This idempotency key was used for a different request in the last 24 hours; \
                       use a new key for each write.";
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    if let Some(answer) = &record.answer
        && let Ok(StoredAnswer { text, data }) = serde_json::from_str(answer)
    {
        return Ok(Some(RenderedAnswer { text, data, written_at: None }));
    }
    // The commit stores the record, the answer follows. Between them the call is running.
    if now.seconds() - record.at.seconds() < IN_FLIGHT_SECONDS {
        let message = "A request with this idempotency key is still running. Retry in a moment \
                       with the same key.";
        return Err(Error::new(ErrorKind::Busy, message));
    }
    let names: Vec<String> = record.targets.iter().map(|target| name_of(&target.name)).collect();
    let names = names.join(", ");
    let message = format!(
        "A request with this idempotency key already succeeded; its answer is no longer stored. \
         It changed {names}. Read {names} instead of retrying."
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// The reference of an item, or the name of another document.
fn name_of(target: &str) -> String {
    let file = target.rsplit('/').next().and_then(|file| file.strip_suffix(".md"));
    match file.and_then(Reference::from_document_name) {
        Some(reference) => reference.to_string(),
        None => target.to_owned(),
    }
}

/// Stores the answer of a write. The write is committed, so a failure is only logged.
pub(crate) async fn save_answer(
    store: &dyn IdempotencyStore,
    key: &IdempotencyKey,
    answer: &RenderedAnswer,
) {
    // A failure to serialize is not possible in practice.
    let stored = StoredAnswer { text: answer.text.clone(), data: Arc::clone(&answer.data) };
    let Ok(stored) = serde_json::to_string(&stored) else { return };
    if let Err(error) = store.save_answer(&key.key, stored).await {
        tracing::warn!(%error, "answer of a write was not stored; a retry will not get it");
    }
}
