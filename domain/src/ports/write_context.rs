//! The context of a write: caller, tool, reason, time, audit and idempotency key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use crate::audit_log::{AuditEvent, AuditTarget, RESULT_OK, redact_text};
use crate::idempotency::IdempotencyKey;
use crate::identity::Caller;
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// The context of a write. The storage uses it for the audit row and the idempotency record.
#[derive(Debug, Clone)]
pub struct WriteContext {
    pub caller: Arc<Caller>,
    pub tool: &'static str,
    /// The caller's `operation_description`.
    pub reason: String,
    pub correlation_id: String,
    /// The time of the write, and the modification time of the changed documents.
    pub at: Timestamp,
    /// `None` if the write is not audited.
    pub audited: Option<AuditScope>,
    /// The key under which the write may happen once.
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
            result: RESULT_OK.to_owned(),
            micros: audited.elapsed_micros(),
            correlation_id: self.correlation_id.clone(),
            reason: self.reason.clone(),
            channel: self.caller.channel,
        })
    }

    /// The origin of the changes, for the history of the documents. Secrets are removed, and
    /// long texts truncated.
    pub fn origin(&self) -> ChangeOrigin {
        let (mut user, mut reason) = (self.caller.name.to_string(), self.reason.clone());
        redact_text(&mut user);
        redact_text(&mut reason);
        ChangeOrigin {
            user: Some(user),
            tool: Some(self.tool.to_owned()),
            reason: (!reason.is_empty()).then_some(reason),
        }
    }
}

/// The audit of one call. It measures the duration and records whether a commit has already
/// written the audit row. Clones share this state.
#[derive(Clone)]
pub struct AuditScope {
    clock: Arc<dyn Clock>,
    started: Timestamp,
    written: Arc<AtomicBool>,
    replayed: Arc<AtomicBool>,
}

impl AuditScope {
    pub fn begin(clock: Arc<dyn Clock>) -> Self {
        let started = clock.now();
        Self { clock, started, written: Arc::default(), replayed: Arc::default() }
    }

    pub fn started_at(&self) -> Timestamp {
        self.started
    }

    /// Microseconds since the call began.
    pub fn elapsed_micros(&self) -> u64 {
        // The clock may be set back during the call.
        let elapsed = self.clock.now().0.saturating_sub(self.started.0) / 1_000;
        u64::try_from(elapsed).unwrap_or_default()
    }

    /// Records that a commit has written the audit row of the call.
    pub fn mark_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Records that the call returned the stored answer of an earlier one.
    pub fn mark_replayed(&self) {
        self.replayed.store(true, Ordering::Relaxed);
    }

    pub fn is_replayed(&self) -> bool {
        self.replayed.load(Ordering::Relaxed)
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

/// The origin of a change: user, tool and reason. Each part is `None` if it is not known: files and
/// migrated data lack them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOrigin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The tool or command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The caller's `operation_description`, or the subject of a Git commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
