//! Periodic maintenance of a server: flushes audit rows, prunes old ones, expires idempotency
//! records and saves the last uses of tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::timestamp::Timestamp;

use crate::audit_recorder::AuditRecorder;
use crate::identity::token_authenticator::TokenAuthenticator;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Call [`Maintenance::tick`] every second, and [`Maintenance::finish`] at shutdown.
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct Maintenance {
    recorder: Arc<AuditRecorder>,
    answers: Arc<dyn IdempotencyStore>,
    clock: Arc<dyn Clock>,
    authenticator: Option<Arc<TokenAuthenticator>>,
    keep_days: u32,
    /// Times of the last runs, in seconds since 1970.
    last_minute: AtomicI64,
    last_hour: AtomicI64,
}

impl Maintenance {
    pub(crate) fn new(
        recorder: Arc<AuditRecorder>,
        answers: Arc<dyn IdempotencyStore>,
        clock: Arc<dyn Clock>,
        authenticator: Option<Arc<TokenAuthenticator>>,
        keep_days: u32,
    ) -> Self {
        let (last_minute, last_hour) = (AtomicI64::default(), AtomicI64::default());
        Self { recorder, answers, clock, authenticator, keep_days, last_minute, last_hour }
    }

    /// One round. A failed task is logged and tried again in the next round.
    pub async fn tick(&self) {
        let now = self.clock.now();
        // Not in the first hour: a clock that is set wrong would remove rows for good.
        let _ =
            self.last_hour.compare_exchange(0, now.seconds(), Ordering::Relaxed, Ordering::Relaxed);
        // The recorder logs its own failures.
        let _ = self.recorder.flush().await;
        if is_due(&self.last_minute, MINUTE, now) && self.save_token_uses().await {
            self.last_minute.store(now.seconds(), Ordering::Relaxed);
        }
        if is_due(&self.last_hour, HOUR, now) {
            let oldest = Timestamp::new(now.seconds() - IdempotencyRecord::SECONDS, 0);
            let expired = self.answers.expire_records(oldest).await;
            let is_expired = log_failure("old keys of writes stay", expired);
            if log_failure("old rows of the audit stay", self.prune_audit(now).await) && is_expired
            {
                self.last_hour.store(now.seconds(), Ordering::Relaxed);
            }
        }
    }

    pub async fn finish(&self) {
        self.save_token_uses().await;
        let _ = self.recorder.flush().await;
    }

    async fn save_token_uses(&self) -> bool {
        let Some(authenticator) = &self.authenticator else { return true };
        log_failure("uses of tokens were not noted", authenticator.save_token_uses().await)
    }

    async fn prune_audit(&self, now: Timestamp) -> StoreResult<()> {
        let Some(log) = self.recorder.audit_log() else { return Ok(()) };
        let oldest = Timestamp::new(now.seconds() - i64::from(self.keep_days) * DAY, 0);
        loop {
            // In parts, so that a writer of rows waits for one part only.
            let gone = log.prune(oldest, now).await?;
            if gone == 0 {
                return Ok(());
            }
            tracing::info!(rows = gone, "old rows of the audit were removed");
        }
    }
}

fn is_due(last: &AtomicI64, seconds: i64, now: Timestamp) -> bool {
    let passed = now.seconds() - last.load(Ordering::Relaxed);
    // Negative after the clock was set back.
    passed >= seconds || passed < 0
}

fn log_failure(task: &str, outcome: StoreResult<()>) -> bool {
    outcome.inspect_err(|error| tracing::warn!(%error, "{task}")).is_ok()
}
