//! Writes that may be sent twice and happen once (rulings 7): the answer of the first is given
//! again.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::idempotency::{IdempotencyKey, IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::service::{Call, Reply};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

/// Calls under one key wait for each other in this process; between processes the storage decides.
pub(crate) struct Turns {
    stripes: [Mutex<()>; 64],
    hasher: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl Turns {
    pub(crate) async fn wait(&self, key: &str) -> MutexGuard<'_, ()> {
        let stripe = self.hasher.hash_one(key) % self.stripes.len() as u64;
        self.stripes[usize::try_from(stripe).unwrap_or_default()].lock().await
    }
}

/// For so many seconds the answer of a call may still come, from whatever server it went to.
const IN_FLIGHT: i64 = 60;

/// The answer as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    text: Vec<String>,
    data: Arc<Value>,
}

/// The name of a call that carries a key.
pub(crate) fn of(call: &Call) -> Option<IdempotencyKey> {
    let key = call.idempotency_key.as_deref()?;
    let Caller { name, reach, project, .. } = &*call.caller;
    // Another token of the same user must not learn what its projects do not include.
    let reach = match reach {
        ProjectScope::Anywhere | ProjectScope::Configured => String::new(),
        ProjectScope::Only(projects) => {
            projects.iter().map(ProjectKey::as_str).collect::<Vec<_>>().join(",")
        }
    };
    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
    Some(IdempotencyKey::new(&[name, &reach, key], &[project.as_str(), &call.name, &arguments]))
}

/// What was answered under this key, if something was.
pub(crate) async fn again(
    answers: &dyn IdempotencyStore,
    once: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<Reply>> {
    let earlier = answers.find_record(&once.key).await?.filter(|earlier| earlier.is_valid_at(now));
    earlier.map(|earlier| replay(once, &earlier, now)).transpose()
}

fn replay(once: &IdempotencyKey, earlier: &IdempotencyRecord, now: Timestamp) -> Result<Reply> {
    let refused = |message| Err(Error::new(ErrorKind::Conflict, message));
    if earlier.request != once.request {
        return refused(
            "This idempotency key was used for another call within a day, so nothing was done. \
             Give each write a key of its own."
                .to_owned(),
        );
    }
    let kept = earlier.answer.as_deref().map(serde_json::from_str::<Kept>);
    if let Some(Ok(Kept { text, data })) = kept {
        return Ok(Reply { text, data });
    }
    if now.seconds() - earlier.at.seconds() < IN_FLIGHT {
        let message = "The same call is being answered just now. Send it again in a moment, under \
                       the same key.";
        return Err(Error::new(ErrorKind::Busy, message));
    }
    let names: Vec<&str> = earlier.targets.iter().map(|target| target.name.as_str()).collect();
    refused(format!(
        "This was done before, under the same idempotency key; its answer was not kept. It changed \
         {}: read that, and do not send it again.",
        names.join(", ")
    ))
}

/// Keeps what was answered. It is done whatever comes of this, so a failure is for the log.
pub(crate) async fn keep(answers: &dyn IdempotencyStore, once: &IdempotencyKey, reply: &Reply) {
    let kept = Kept { text: reply.text.clone(), data: Arc::clone(&reply.data) };
    let Ok(kept) = serde_json::to_string(&kept) else { return };
    if let Err(error) = answers.save_response(&once.key, kept).await {
        tracing::warn!(%error, "the answer of a write was not kept for a repetition");
    }
}
