//! Audit rows of calls that change nothing, written in batches. A storage writes the row of a
//! change together with the change.
//!
//! No call is answered off the record: calls are refused while a full batch cannot be written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqlore_domain::audit_log::{AuditEvent, AuditTarget, OK};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::write_context::AuditScope;
use serde_json::{Map, Value};

/// Pending rows that are written without waiting for the next round.
const BATCH_ROWS: usize = 2_048;
const MAX_PENDING_ROWS: usize = 16_384;
/// The arguments that name the target of a call.
const TARGET_ARGUMENTS: [&str; 8] = [
    "reference",
    "epic",
    "user_story",
    "requirement",
    "acceptance_criteria",
    "source",
    "target",
    "id",
];
/// Arguments whose values mean nothing without their names.
const LABELLED_ARGUMENTS: [&str; 5] =
    ["section", "index", "docset", PROJECT_ARGUMENT, REPO_ARGUMENT];
/// Arguments by which a call names its project.
const PROJECT_ARGUMENT: &str = "project_root";
const REPO_ARGUMENT: &str = "repo";

const MAX_TARGET_CHARS: usize = 200;
/// The reason in the row of a write that was replayed under its idempotency key.
const REPLAYED_REASON: &str = "repeated";

/// Collects rows and writes them in batches; does nothing where there is no audit.
pub(crate) struct AuditRecorder {
    log: Option<Arc<dyn AuditLog>>,
    clock: Arc<dyn Clock>,
    pending: Mutex<Vec<AuditEvent>>,
    /// Writes one batch at a time, so that rows keep their order.
    write_lock: tokio::sync::Mutex<()>,
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
        Self { log, clock, pending: Mutex::default(), write_lock: tokio::sync::Mutex::default() }
    }

    pub(crate) fn audit_log(&self) -> Option<&Arc<dyn AuditLog>> {
        self.log.as_ref()
    }

    /// The begin of a call; `None` without an audit log.
    pub(crate) fn begin_call(&self) -> Option<AuditScope> {
        self.log.as_ref().map(|_| AuditScope::begin(Arc::clone(&self.clock)))
    }

    /// Records the end of a call. A row that was written with a change is enough, unless the call
    /// failed after that.
    pub(crate) async fn end_call<'a, T>(
        &self,
        audited: Option<&AuditScope>,
        access: impl FnOnce() -> AccessRecord<'a>,
        outcome: Result<T>,
    ) -> Result<T> {
        let error = outcome.as_ref().err().map(|error| error.kind);
        let wanted = audited.filter(|audited| error.is_some() || !audited.is_written());
        let Some(audited) = wanted else { return outcome };
        self.add_event(audit_event(audited, access(), error)).await.and(outcome)
    }

    /// Records a call whose outcome is known already.
    pub(crate) async fn record_access(
        &self,
        access: AccessRecord<'_>,
        error: Option<ErrorKind>,
    ) -> Result<()> {
        let Some(audited) = self.begin_call() else { return Ok(()) };
        self.add_event(audit_event(&audited, access, error)).await
    }

    /// Takes a row for the next batch.
    pub(crate) async fn add_event(&self, entry: AuditEvent) -> Result<()> {
        if self.log.is_none() {
            return Ok(());
        }
        let mut entry = Some(entry);
        // The caller that fills a batch writes it; other callers continue.
        if self.push_pending(&mut entry).is_multiple_of(BATCH_ROWS) {
            // The next round tries again.
            let _ = self.flush().await;
            self.push_pending(&mut entry);
        }
        if entry.is_some() {
            let message = "The audit can't be written, so nothing is answered for now; the \
                           server's log says why. Try again later.";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(())
    }

    /// Takes the row if there is room. Returns the number of pending rows.
    fn push_pending(&self, entry: &mut Option<AuditEvent>) -> usize {
        let mut pending = self.lock_pending();
        if pending.len() < MAX_PENDING_ROWS {
            pending.extend(entry.take());
        }
        pending.len()
    }

    /// Writes the pending rows. They stay pending until they are written: a call that is cancelled
    /// here may cause rows that are written twice, but no lost row.
    pub(crate) async fn flush(&self) -> StoreResult<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let _turn = self.write_lock.lock().await;
        let batch = self.lock_pending().clone();
        let rows = batch.len();
        if rows == 0 {
            return Ok(());
        }
        let written = log.record(batch).await;
        match &written {
            Ok(()) => drop(self.lock_pending().drain(..rows)),
            Err(error) => tracing::error!(%error, rows, "rows of the audit were not written yet"),
        }
        written
    }

    fn lock_pending(&self) -> MutexGuard<'_, Vec<AuditEvent>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn audit_event(
    audited: &AuditScope,
    access: AccessRecord<'_>,
    error: Option<ErrorKind>,
) -> AuditEvent {
    let AccessRecord { caller, correlation_id, action, targets } = access;
    // Only the tool knows the project of a call that names one; the name is a target.
    let names_one = |target: &AuditTarget| {
        let named = target.name.split_once('=');
        named.is_some_and(|(key, _)| [PROJECT_ARGUMENT, REPO_ARGUMENT].contains(&key))
    };
    let project = (!targets.iter().any(names_one)).then(|| caller.project.clone());
    AuditEvent {
        at: audited.started(),
        user: caller.name.to_string(),
        token: caller.token.clone(),
        project,
        action: truncate_target(action).to_owned(),
        targets,
        result: error.map_or(OK, ErrorKind::name).to_owned(),
        micros: audited.micros(),
        correlation_id: correlation_id.to_owned(),
        reason: if audited.is_replayed() { REPLAYED_REASON } else { "" }.to_owned(),
    }
}

/// The begin of a text. It is cut here because thousands of rows may be pending.
pub(crate) fn truncate_target(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_TARGET_CHARS).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

pub(crate) fn argument_targets(arguments: &Map<String, Value>) -> Vec<AuditTarget> {
    let said = |key: &str| arguments.get(key).and_then(Value::as_str);
    let about = TARGET_ARGUMENTS
        .iter()
        .filter_map(|key| said(key).map(|value| truncate_target(value).to_owned()));
    let named = LABELLED_ARGUMENTS
        .iter()
        .filter_map(|key| said(key).map(|value| format!("{key}={}", truncate_target(value))));
    about.chain(named).map(AuditTarget::read).collect()
}

#[cfg(test)]
mod tests;
