//! What is done beside the calls: rows of the audit are written, old ones go, uses of tokens are
//! noted. Somebody outside calls [`Upkeep::tick`] every second, and [`Upkeep::finish`] at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::time::Timestamp;

use crate::audit::Recorder;
use crate::identity::authenticate::TokenAuthenticator;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Keeps a server that runs for months in order.
pub struct Upkeep {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) answers: Arc<dyn IdempotencyStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) authenticator: Option<Arc<TokenAuthenticator>>,
    /// How many days rows of the audit are kept.
    pub(crate) keep_days: u32,
    pub(crate) minute: Due,
    pub(crate) hour: Due,
}

impl std::fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upkeep").field("keep_days", &self.keep_days).finish_non_exhaustive()
    }
}

/// When something was last done, in seconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct Due(AtomicI64);

impl Due {
    /// Is it time again? True until it was [`Due::done`] once.
    fn is(&self, seconds: i64, now: Timestamp) -> bool {
        let passed = now.seconds() - self.0.load(Ordering::Relaxed);
        // Backwards when somebody set the clock.
        passed >= seconds || passed < 0
    }

    /// The first time counts as done.
    fn begin(&self, now: Timestamp) {
        let (never, now) = (0, now.seconds());
        let _ = self.0.compare_exchange(never, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn done(&self, now: Timestamp) {
        self.0.store(now.seconds(), Ordering::Relaxed);
    }
}

impl Upkeep {
    /// One round. What fails is logged and tried again in the next one.
    pub async fn tick(&self) {
        let now = self.clock.now();
        // Not at the start: a clock that is set wrong would take what can't be given back.
        self.hour.begin(now);
        // The recorder logs its own failures.
        let _ = self.recorder.flush().await;
        if self.minute.is(MINUTE, now) && self.settle().await {
            self.minute.done(now);
        }
        if self.hour.is(HOUR, now) {
            let forgotten = logged("old keys of writes stay", self.forget(now).await);
            if logged("old rows of the audit stay", self.prune(now).await) && forgotten {
                self.hour.done(now);
            }
        }
    }

    /// The last round: nothing waits any more.
    pub async fn finish(&self) {
        self.settle().await;
        let _ = self.recorder.flush().await;
    }

    async fn settle(&self) -> bool {
        match &self.authenticator {
            Some(authenticator) => {
                logged("uses of tokens were not noted", authenticator.settle().await)
            }
            None => true,
        }
    }

    async fn forget(&self, now: Timestamp) -> StoreResult<()> {
        self.answers
            .expire_records(Timestamp::new(now.seconds() - IdempotencyRecord::SECONDS, 0))
            .await
    }

    async fn prune(&self, now: Timestamp) -> StoreResult<()> {
        let Some(log) = self.recorder.log() else { return Ok(()) };
        let oldest = Timestamp::new(now.seconds() - i64::from(self.keep_days) * DAY, 0);
        loop {
            // Not all at once: whoever writes a row meanwhile waits for a part only.
            let gone = log.prune(oldest, now).await?;
            if gone == 0 {
                return Ok(());
            }
            tracing::info!(rows = gone, "old rows of the audit were removed");
        }
    }
}

/// Was it done? What was not is tried again in the next round.
fn logged(what: &str, done: StoreResult<()>) -> bool {
    done.inspect_err(|error| tracing::warn!(%error, "{what}")).is_ok()
}
