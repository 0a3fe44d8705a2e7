//! Context of a write: caller, tool, reason and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clock::Clock;
use super::idempotency::{IdempotencyKey, IdempotencyRecord};
use super::store_error::{StoreError, StoreResult};
use crate::audit_log::{AuditEvent, AuditTarget, OK};
use crate::identity::Caller;
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// The context of a write, for the log and the audit.
#[derive(Debug, Clone)]
pub struct WriteContext {
    pub caller: Arc<Caller>,
    pub tool: &'static str,
    /// The caller's `operation_description`.
    pub reason: String,
    pub correlation_id: String,
    /// The modification time of the changed documents, if the storage records it.
    pub at: Timestamp,
    /// `None` if the write is not audited.
    pub audited: Option<AuditScope>,
    /// The key under which it may happen once.
    pub idempotency_key: Option<IdempotencyKey>,
}

impl WriteContext {
    /// The audit event of these changes; `None` if the write is not audited.
    pub fn audit_event(
        &self,
        project: Option<&ProjectKey>,
        targets: Vec<AuditTarget>,
    ) -> Option<AuditEvent> {
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

    /// Refuses a used key. Storages call this before the decision.
    pub fn check_idempotency(&self, earlier: Option<IdempotencyRecord>) -> StoreResult<()> {
        let used = earlier.filter(|earlier| earlier.is_valid_at(self.at));
        used.map_or(Ok(()), |earlier| Err(StoreError::Repeated(Box::new(earlier))))
    }
}

/// An audited call. Clones share their marks.
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

    /// Microseconds since the call began.
    pub fn micros(&self) -> u64 {
        let passed = self.clock.now().0.saturating_sub(self.started.0) / 1_000;
        u64::try_from(passed).unwrap_or_default()
    }

    /// Records that a commit wrote the call's row.
    pub fn mark_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Records that the call repeated the response of an earlier one.
    pub fn mark_replayed(&self) {
        self.repeated.store(true, Ordering::Relaxed);
    }

    pub fn is_replayed(&self) -> bool {
        self.repeated.load(Ordering::Relaxed)
    }

    pub fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for AuditScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditScope").field("started", &self.started).finish_non_exhaustive()
    }
}
