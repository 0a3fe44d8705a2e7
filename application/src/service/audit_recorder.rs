//! Collects the audit rows of calls that change nothing, and writes them in batches.
//!
//! A refused call is answered after its row is durable; refused calls that arrive meanwhile share
//! the next sync. No call goes unrecorded: while the queue is full and cannot be written, reads
//! fail, and refusals are counted in one row. The row of a change is not collected here; the
//! storage commits it together with the change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqlore_domain::audit_log::{AuditEvent, AuditTarget, RESULT_OK};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::write_context::AuditScope;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

/// A caller that adds this many pending rows writes them, without waiting for the next tick.
const BATCH_ROWS: usize = 2_048;
const MAX_PENDING_ROWS: usize = 16_384;
/// Refusals take only half of the queue, so that they never make reads fail.
const MAX_PENDING_REFUSALS: usize = MAX_PENDING_ROWS / 2;
/// Refused calls that wait for their rows at the same time. They hold permits to run, of which a
/// server has 64 by default: the rest is left for good calls while the disk is slow.
const MAX_WAITING_REFUSALS: usize = 32;
/// Arguments that name the target of a call, after those that have the name of a kind of item.
const TARGET_ARGUMENTS: [&str; 4] = ["reference", "source", "target", "id"];
/// Arguments that are recorded as `name=value`, because the value alone is ambiguous.
const LABELLED_ARGUMENTS: [&str; 5] =
    ["section", "index", "docset", PROJECT_ARGUMENT, REPO_ARGUMENT];
/// Arguments that name the project of a call.
const PROJECT_ARGUMENT: &str = "project_root";
const REPO_ARGUMENT: &str = "repo";

const MAX_TARGET_CHARS: usize = 200;
/// Entries of one call whose targets are recorded, because thousands of rows may be pending.
const MAX_ENTRY_TARGETS: usize = 20;
/// Recorded reason of a write that was replayed under its idempotency key.
const REPLAYED_REASON: &str = "repeated";

/// Does nothing if the audit log is off.
pub(crate) struct AuditRecorder {
    log: Option<Arc<dyn AuditLog>>,
    clock: Arc<dyn Clock>,
    pending: Mutex<PendingRows>,
    /// Held while a batch is written, so that rows keep their order.
    write_lock: tokio::sync::Mutex<()>,
    waiting_refusals: Semaphore,
}

#[derive(Default)]
struct PendingRows {
    rows: Vec<AuditEvent>,
    /// Number of rows that left the queue. With the length of the queue it numbers each row.
    written: u64,
    /// Refusals that found the queue full.
    unqueued_refusals: u64,
    /// The last batch was not written. Only the next tick tries again, not each refusal.
    is_failing: bool,
}

/// The caller, action and targets of one request.
pub(crate) struct AccessRecord<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) correlation_id: &'a str,
    pub(crate) action: &'a str,
    pub(crate) targets: Vec<AuditTarget>,
}

impl<'a> AccessRecord<'a> {
    /// A record without targets.
    pub(crate) fn new(caller: &'a Caller, correlation_id: &'a str, action: &'a str) -> Self {
        Self { caller, correlation_id, action, targets: Vec::new() }
    }
}

impl AuditRecorder {
    pub(crate) fn new(log: Option<Arc<dyn AuditLog>>, clock: Arc<dyn Clock>) -> Self {
        Self {
            log,
            clock,
            pending: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
            waiting_refusals: Semaphore::new(MAX_WAITING_REFUSALS),
        }
    }

    pub(crate) fn audit_log(&self) -> Option<&Arc<dyn AuditLog>> {
        self.log.as_ref()
    }

    /// Starts the time measurement of a call; `None` if the audit log is off.
    pub(crate) fn begin_call(&self) -> Option<AuditScope> {
        self.log.as_ref()?;
        Some(AuditScope::begin(Arc::clone(&self.clock)))
    }

    /// Records the outcome of a call, and returns it. An error of the recorder replaces it.
    pub(crate) async fn end_call<'a, T>(
        &self,
        scope: Option<&AuditScope>,
        access: impl FnOnce() -> AccessRecord<'a>,
        outcome: Result<T>,
    ) -> Result<T> {
        let Some(scope) = scope else { return outcome };
        let error_kind = outcome.as_ref().err().map(|error| error.kind);
        // The row of a change says that it succeeded, so a failure after it needs its own row.
        if scope.is_written() && error_kind.is_none() {
            return outcome;
        }
        self.add_outcome(audit_event(scope, access(), error_kind), error_kind).await?;
        outcome
    }

    /// Records a request with its outcome, without a duration.
    pub(crate) async fn record_access(
        &self,
        access: AccessRecord<'_>,
        error_kind: Option<ErrorKind>,
    ) -> Result<()> {
        let Some(scope) = self.begin_call() else { return Ok(()) };
        self.add_outcome(audit_event(&scope, access, error_kind), error_kind).await
    }

    async fn add_outcome(&self, event: AuditEvent, error_kind: Option<ErrorKind>) -> Result<()> {
        if error_kind.is_some_and(is_refusal) {
            self.add_refusal(event).await;
            return Ok(());
        }
        self.add_event(event).await
    }

    /// Records a refusal durably, together with the rows that are pending. Beyond
    /// [`MAX_WAITING_REFUSALS`] the row is in the next batch, which a waiting call writes.
    pub(crate) async fn add_refusal(&self, event: AuditEvent) {
        if self.log.is_none() {
            return;
        }
        let number = {
            let mut pending = self.lock_pending();
            if pending.rows.len() >= MAX_PENDING_REFUSALS {
                pending.unqueued_refusals += 1;
                return;
            }
            pending.rows.push(event);
            pending.written + pending.rows.len() as u64
        };
        if let Ok(_permit) = self.waiting_refusals.try_acquire() {
            // A failure does not change the answer: the row stays pending, and the error is logged.
            let _ = self.flush_up_to(number).await;
        }
    }

    /// Queues an event for the next batch. Returns `Unavailable` if the queue stays full.
    pub(crate) async fn add_event(&self, event: AuditEvent) -> Result<()> {
        if self.log.is_none() {
            return Ok(());
        }
        let mut event = Some(event);
        // The caller that fills a batch writes it; other callers continue.
        if self.push_pending(&mut event).is_multiple_of(BATCH_ROWS) {
            // After an error the rows stay pending; the next tick tries again.
            let _ = self.flush().await;
            // Does nothing if the event is queued already; else the flush has made room.
            self.push_pending(&mut event);
        }
        if event.is_some() {
            let message = "The audit log cannot be written, so requests are rejected; the \
                           server's log has the cause. Try again later.";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(())
    }

    /// Takes the event unless the queue is full. Returns the number of pending rows.
    fn push_pending(&self, event: &mut Option<AuditEvent>) -> usize {
        let rows = &mut self.lock_pending().rows;
        if rows.len() < MAX_PENDING_ROWS {
            rows.extend(event.take());
        }
        rows.len()
    }

    /// Writes the pending rows. Rows stay pending until they are written, so a cancelled call may
    /// cause duplicate rows but never lost ones.
    pub(crate) async fn flush(&self) -> StoreResult<()> {
        self.flush_up_to(u64::MAX).await
    }

    /// Writes the pending rows, unless the row of this number is written or cannot be written now.
    async fn flush_up_to(&self, number: u64) -> StoreResult<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let _write_guard = self.write_lock.lock().await;
        let (mut batch, unqueued) = {
            let pending = self.lock_pending();
            let is_retry_early = pending.is_failing && number != u64::MAX;
            if pending.written >= number || is_retry_early {
                return Ok(());
            }
            // Cloned, because the rows must stay pending until they are written.
            (pending.rows.clone(), pending.unqueued_refusals)
        };
        let rows = batch.len();
        if unqueued > 0 {
            batch.push(AuditEvent::overflow(unqueued, self.clock.now()));
        }
        if batch.is_empty() {
            return Ok(());
        }
        let written = log.append_events(batch).await;
        let mut pending = self.lock_pending();
        pending.is_failing = written.is_err();
        match &written {
            Ok(()) => {
                // Rows that were added meanwhile follow these.
                pending.rows.drain(..rows);
                pending.written += rows as u64;
                pending.unqueued_refusals -= unqueued;
            }
            Err(error) => tracing::error!(%error, rows, "audit rows are not written yet"),
        }
        written
    }

    /// True if the last batch was not written.
    pub(crate) fn is_failing(&self) -> bool {
        self.lock_pending().is_failing
    }

    fn lock_pending(&self) -> MutexGuard<'_, PendingRows> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True for a decision of the server. Other failures mean that the storage could not be used.
fn is_refusal(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, Forbidden, InvalidArgument, NotFound, Refused, UnknownTool};
    matches!(kind, InvalidArgument | UnknownTool | NotFound | Conflict | Refused | Forbidden)
}

fn audit_event(
    scope: &AuditScope,
    access: AccessRecord<'_>,
    error_kind: Option<ErrorKind>,
) -> AuditEvent {
    let AccessRecord { caller, correlation_id, action, targets } = access;
    // If an argument names the project, only the tool can resolve it; the row has the name instead.
    let names_project = targets.iter().any(|target| match target.name.split_once('=') {
        Some((argument, _)) => [PROJECT_ARGUMENT, REPO_ARGUMENT].contains(&argument),
        None => false,
    });
    let project = if names_project { None } else { Some(caller.project.clone()) };
    AuditEvent {
        at: scope.started_at(),
        user: caller.name.to_string(),
        token: caller.token.clone(),
        project,
        action: truncate_target(action).to_owned(),
        targets,
        result: error_kind.map_or(RESULT_OK, ErrorKind::name).to_owned(),
        micros: scope.elapsed_micros(),
        correlation_id: correlation_id.to_owned(),
        reason: if scope.is_replayed() { REPLAYED_REASON } else { "" }.to_owned(),
        channel: caller.channel,
    }
}

/// Truncates a text of the client, because thousands of rows may be pending.
pub(crate) fn truncate_target(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_TARGET_CHARS).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

/// Returns the targets that the arguments of a call name.
pub(crate) fn argument_targets(arguments: &Map<String, Value>) -> Vec<AuditTarget> {
    let mut targets = Vec::new();
    for key in ItemKind::ALL.map(ItemKind::name).into_iter().chain(TARGET_ARGUMENTS) {
        if let Some(Value::String(value)) = arguments.get(key) {
            targets.push(AuditTarget::unchanged(truncate_target(value).to_owned()));
        }
    }
    // A failed `apply_changes` names the items of its entries here.
    if let Some(Value::Array(entries)) = arguments.get("changes") {
        for entry in entries.iter().take(MAX_ENTRY_TARGETS) {
            for key in ["update", "delete"] {
                if let Some(Value::String(value)) = entry.get(key) {
                    targets.push(AuditTarget::unchanged(truncate_target(value).to_owned()));
                }
            }
        }
    }
    for key in LABELLED_ARGUMENTS {
        if let Some(Value::String(value)) = arguments.get(key) {
            targets.push(AuditTarget::unchanged(format!("{key}={}", truncate_target(value))));
        }
    }
    targets
}

#[cfg(test)]
mod tests;
