//! Periodic maintenance of audit rows, idempotency records and the last uses of tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::DocumentHistory;
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::timestamp::Timestamp;

use crate::identity::token_authenticator::TokenAuthenticator;
use crate::ports::ApplicationPorts;
use crate::service::audit_recorder::AuditRecorder;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Days after which records are pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionDays {
    /// Days after an audit row was written.
    pub audit: u32,
    /// Days after a version of a document was replaced or deleted; 0 keeps all versions.
    pub history: u32,
}

/// Call [`Maintenance::tick`] every second and [`Maintenance::finish`] at shutdown.
#[expect(missing_debug_implementations, reason = "ports are traits without one")]
pub struct Maintenance {
    recorder: Arc<AuditRecorder>,
    answers: Arc<dyn IdempotencyStore>,
    history: Arc<dyn DocumentHistory>,
    clock: Arc<dyn Clock>,
    authenticator: Option<Arc<TokenAuthenticator>>,
    keep_days: RetentionDays,
    /// Time of the last successful minute tasks, in seconds since 1970; 0 before the first.
    last_minute: AtomicI64,
    /// The same for the hourly tasks.
    last_hour: AtomicI64,
}

impl Maintenance {
    pub(crate) fn new(
        ports: &ApplicationPorts,
        recorder: Arc<AuditRecorder>,
        authenticator: Option<Arc<TokenAuthenticator>>,
        keep_days: RetentionDays,
    ) -> Self {
        Self {
            recorder,
            answers: Arc::clone(&ports.idempotency),
            history: Arc::clone(&ports.history),
            clock: Arc::clone(&ports.clock),
            authenticator,
            keep_days,
            last_minute: AtomicI64::default(),
            last_hour: AtomicI64::default(),
        }
    }

    /// Runs the tasks that are due. A failed task is logged and retried at the next tick.
    pub async fn tick(&self) {
        let now = self.clock.now();
        // Hourly tasks begin an hour after the start: a wrong clock would delete valid rows.
        let _ =
            self.last_hour.compare_exchange(0, now.seconds(), Ordering::Relaxed, Ordering::Relaxed);
        // The recorder logs its own errors.
        let _ = self.recorder.flush().await;
        if is_due(&self.last_minute, MINUTE, now) && self.save_token_uses().await {
            // Only after success, so that the next tick retries a failure.
            self.last_minute.store(now.seconds(), Ordering::Relaxed);
        }
        if is_due(&self.last_hour, HOUR, now) {
            let oldest = Timestamp::new(now.seconds() - IdempotencyRecord::VALIDITY_SECONDS, 0);
            let expired = self.answers.expire_records(oldest).await;
            let pruned = self.prune_audit(now).await;
            let shortened = self.prune_history(now).await;
            let is_expired = log_failure("idempotency records were not expired", &expired);
            let is_pruned = log_failure("audit rows were not pruned", &pruned);
            let is_ended = self.expire_sessions().await;
            let is_shortened = log_failure("earlier versions were not pruned", &shortened);
            // All ran before this check, so a failing one does not hold up the others.
            if is_expired && is_pruned && is_shortened && is_ended {
                self.last_hour.store(now.seconds(), Ordering::Relaxed);
            }
        }
    }

    /// True while audit rows cannot be written, on a full disk for example. Each tick tries again.
    pub fn is_failing(&self) -> bool {
        self.recorder.is_failing()
    }

    /// Saves everything that is still in memory.
    pub async fn finish(&self) {
        self.save_token_uses().await;
        let _ = self.recorder.flush().await;
    }

    async fn save_token_uses(&self) -> bool {
        let Some(authenticator) = &self.authenticator else { return true };
        log_failure("last uses of tokens were not saved", &authenticator.save_token_uses().await)
    }

    async fn expire_sessions(&self) -> bool {
        let Some(authenticator) = &self.authenticator else { return true };
        log_failure("ended sessions were not removed", &authenticator.expire_sessions().await)
    }

    async fn prune_audit(&self, now: Timestamp) -> StoreResult<()> {
        let Some(log) = self.recorder.audit_log() else { return Ok(()) };
        let oldest = days_before(now, self.keep_days.audit);
        loop {
            // Each call removes one batch, so that writers of rows never wait long.
            let rows = log.prune(oldest, now).await?;
            if rows == 0 {
                return Ok(());
            }
            tracing::info!(rows, "pruned old audit rows");
        }
    }

    async fn prune_history(&self, now: Timestamp) -> StoreResult<()> {
        if self.keep_days.history == 0 {
            return Ok(());
        }
        let oldest = days_before(now, self.keep_days.history);
        loop {
            // In batches as well, so that writers of documents never wait long.
            let versions = self.history.prune_history(oldest).await?;
            if versions == 0 {
                return Ok(());
            }
            tracing::info!(versions, "pruned earlier versions of documents");
        }
    }
}

fn days_before(now: Timestamp, days: u32) -> Timestamp {
    Timestamp::new(now.seconds() - i64::from(days) * DAY, 0)
}

fn is_due(last: &AtomicI64, seconds: i64, now: Timestamp) -> bool {
    let passed = now.seconds() - last.load(Ordering::Relaxed);
    // The difference is negative if the clock was set back.
    passed >= seconds || passed < 0
}

/// Logs an error with this message. Returns true if there was none.
fn log_failure(message: &str, outcome: &StoreResult<()>) -> bool {
    if let Err(error) = outcome {
        tracing::warn!(%error, "{message}");
    }
    outcome.is_ok()
}
