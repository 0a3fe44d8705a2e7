//! In whose name something is changed, and what the audit learns of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::Clock;
use super::idempotency::{IdempotencyKey, IdempotencyRecord};
use super::store_error::{StoreError, StoreResult};
use crate::audit::{AuditEvent, OK, Target};
use crate::identity::Caller;
use crate::project::ProjectKey;
use crate::time::Timestamp;

/// Who changes, by which tool, why, and under which correlation id; for the log and the audit.
#[derive(Debug, Clone)]
pub struct WriteContext {
    pub caller: Arc<Caller>,
    pub tool: &'static str,
    /// The caller's own reason (S1 `operation_description`).
    pub reason: String,
    pub correlation_id: String,
    /// The time of the documents that it changes, where the storage keeps that itself.
    pub at: Timestamp,
    /// Where the audit wants to know of it.
    pub audited: Option<AuditScope>,
    /// Where it must not happen again.
    pub once: Option<IdempotencyKey>,
}

impl WriteContext {
    /// The row of the audit, where there is one.
    pub fn entry(&self, project: Option<&ProjectKey>, targets: Vec<Target>) -> Option<AuditEvent> {
        let audited = self.audited.as_ref()?;
        Some(AuditEvent {
            at: self.at,
            user: self.caller.name.to_string(),
            token: self.caller.token.clone(),
            project: project.cloned(),
            action: self.tool.to_owned(),
            targets,
            result: OK.to_owned(),
            micros: audited.micros(),
            correlation_id: self.correlation_id.clone(),
            reason: self.reason.clone(),
        })
    }

    /// Refuses to act under a key that was used. For storages, before they let it be decided.
    pub fn check_idempotency(&self, earlier: Option<IdempotencyRecord>) -> StoreResult<()> {
        let used = earlier.filter(|earlier| earlier.is_valid_at(self.at));
        used.map_or(Ok(()), |earlier| Err(StoreError::Repeated(Box::new(earlier))))
    }
}

/// A call that the audit wants to know of, from its beginning.
#[derive(Clone)]
pub struct AuditScope {
    clock: Arc<dyn Clock>,
    started: Timestamp,
    written: Arc<AtomicBool>,
    repeated: Arc<AtomicBool>,
}

impl AuditScope {
    pub fn begin(clock: Arc<dyn Clock>) -> Self {
        let started = clock.now();
        Self { clock, started, written: Arc::default(), repeated: Arc::default() }
    }

    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// Since the beginning.
    pub fn micros(&self) -> u64 {
        let passed = self.clock.now().0.saturating_sub(self.started.0) / 1_000;
        u64::try_from(passed).unwrap_or_default()
    }

    /// A row was written with a change.
    pub fn mark_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// It had happened before, under the same key, and was only answered again.
    pub fn mark_replayed(&self) {
        self.repeated.store(true, Ordering::Relaxed);
    }

    pub fn is_replayed(&self) -> bool {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Is there a row of this call already?
    pub fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for AuditScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditScope").field("started", &self.started).finish_non_exhaustive()
    }
}
