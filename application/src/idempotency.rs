//! Idempotency keys: a write that is sent twice happens once, and its answer is repeated.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyStore};
use reqlore_domain::ports::service::{ToolCall, ToolReply};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

/// Serializes calls with one key in this process; between processes the storage decides.
pub(crate) struct KeyLocks {
    stripes: [Mutex<()>; 64],
    hasher: RandomState,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl KeyLocks {
    pub(crate) async fn lock_key(&self, key: &str) -> MutexGuard<'_, ()> {
        let stripe = self.hasher.hash_one(key) % self.stripes.len() as u64;
        self.stripes[usize::try_from(stripe).unwrap_or_default()].lock().await
    }
}

/// Seconds after which a call without a stored answer is no longer in flight.
const IN_FLIGHT_SECONDS: i64 = 60;

#[derive(Serialize, Deserialize)]
struct StoredResponse {
    text: Vec<String>,
    data: Arc<Value>,
}

pub(crate) fn request_key(call: &ToolCall) -> Option<IdempotencyKey> {
    let key = call.idempotency_key.as_deref()?;
    let Caller { name, reach, project, .. } = &*call.caller;
    // Another token of the same user must not learn of projects outside its scope.
    let reach = match reach {
        ProjectScope::Anywhere | ProjectScope::Configured => String::new(),
        ProjectScope::Only(projects) => {
            projects.iter().map(ProjectKey::as_str).collect::<Vec<_>>().join(",")
        }
    };
    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
    Some(IdempotencyKey::new(&[name, &reach, key], &[project.as_str(), &call.name, &arguments]))
}

/// The answer of an earlier call with this key, if there was one.
pub(crate) async fn replay_response(
    answers: &dyn IdempotencyStore,
    once: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<ToolReply>> {
    let earlier = answers.find_record(&once.key).await?;
    let Some(earlier) = earlier.filter(|earlier| earlier.is_valid_at(now)) else {
        return Ok(None);
    };
    if earlier.request != once.request {
        let message = "This idempotency key was used for another call within a day, so nothing was \
                       done. Give each write a key of its own.";
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    let stored = earlier.answer.as_deref().map(serde_json::from_str::<StoredResponse>);
    if let Some(Ok(StoredResponse { text, data })) = stored {
        return Ok(Some(ToolReply { text, data }));
    }
    if now.seconds() - earlier.at.seconds() < IN_FLIGHT_SECONDS {
        let message = "The same call is being answered just now. Send it again in a moment, under \
                       the same key.";
        return Err(Error::new(ErrorKind::Busy, message));
    }
    let names: Vec<&str> = earlier.targets.iter().map(|target| target.name.as_str()).collect();
    let message = format!(
        "This was done before, under the same idempotency key; its answer was not kept. It changed \
         {}: read that, and do not send it again.",
        names.join(", ")
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// Stores the answer of a write. The write is done, so a failure is only logged.
pub(crate) async fn save_response(
    answers: &dyn IdempotencyStore,
    once: &IdempotencyKey,
    reply: &ToolReply,
) {
    let stored = StoredResponse { text: reply.text.clone(), data: Arc::clone(&reply.data) };
    let Ok(stored) = serde_json::to_string(&stored) else { return };
    if let Err(error) = answers.save_response(&once.key, stored).await {
        tracing::warn!(%error, "the answer of a write was not kept for a repetition");
    }
}
