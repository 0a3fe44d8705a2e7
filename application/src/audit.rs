//! The audit as the application keeps it: what changed nothing waits here for the next batch
//! (rulings 7); what changes something is written with its change, by the storage.
//!
//! Nobody is answered off the record: when the batch can't be written and too much waits, calls are
//! refused until it can.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqlore_domain::audit::{AuditEvent, OK, Target};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::write_context::AuditScope;
use serde_json::{Map, Value};

/// So many rows are written at once without waiting for the next round.
const BATCH: usize = 2_048;
/// So many may wait when the storage takes none.
const MOST: usize = 16_384;
/// The arguments that say what a call is about.
const ABOUT: [&str; 8] = [
    "reference",
    "epic",
    "user_story",
    "requirement",
    "acceptance_criteria",
    "source",
    "target",
    "id",
];
/// And those whose values say nothing without their names.
const NAMED: [&str; 5] = ["section", "index", "docset", PROJECT, REPOSITORY];
/// By these a call names a project of its own.
const PROJECT: &str = "project_root";
const REPOSITORY: &str = "repo";

/// So many characters of an argument are taken.
const LONGEST: usize = 200;
/// The reason of a row of a write that had happened before, under the same key.
const REPEATED: &str = "repeated";

/// Collects rows and writes them in batches; does nothing where there is no audit.
pub(crate) struct Recorder {
    log: Option<Arc<dyn AuditLog>>,
    clock: Arc<dyn Clock>,
    waiting: Mutex<Vec<AuditEvent>>,
    /// One batch at a time, so that rows keep their order.
    writing: tokio::sync::Mutex<()>,
}

/// What one call is about, from its beginning.
pub(crate) struct Noted<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) correlation_id: &'a str,
    pub(crate) action: &'a str,
    pub(crate) targets: Vec<Target>,
}

impl Recorder {
    pub(crate) fn new(log: Option<Arc<dyn AuditLog>>, clock: Arc<dyn Clock>) -> Self {
        Self { log, clock, waiting: Mutex::default(), writing: tokio::sync::Mutex::default() }
    }

    pub(crate) fn log(&self) -> Option<&Arc<dyn AuditLog>> {
        self.log.as_ref()
    }

    /// The beginning of a call, where somebody wants to know of it.
    pub(crate) fn begin(&self) -> Option<AuditScope> {
        self.log.as_ref().map(|_| AuditScope::begin(Arc::clone(&self.clock)))
    }

    /// The end of a call. A row that was written with a change is enough, unless it went wrong
    /// after that.
    pub(crate) async fn end<'a, T>(
        &self,
        audited: Option<&AuditScope>,
        noted: impl FnOnce() -> Noted<'a>,
        outcome: Result<T>,
    ) -> Result<T> {
        let error = outcome.as_ref().err().map(|error| error.kind);
        let wanted = audited.filter(|audited| error.is_some() || !audited.is_written());
        let Some(audited) = wanted else { return outcome };
        self.add(entry(audited, noted(), error)).await.and(outcome)
    }

    /// A call that ends as it begins: what came of it is known.
    pub(crate) async fn note(&self, noted: Noted<'_>, error: Option<ErrorKind>) -> Result<()> {
        let Some(audited) = self.begin() else { return Ok(()) };
        self.add(entry(&audited, noted, error)).await
    }

    /// Takes a row for the next batch.
    pub(crate) async fn add(&self, entry: AuditEvent) -> Result<()> {
        if self.log.is_none() {
            return Ok(());
        }
        let mut entry = Some(entry);
        // Whoever fills a batch writes it, and whoever finds no room: the others go on meanwhile.
        if self.push(&mut entry).is_multiple_of(BATCH) {
            // The next round tries again.
            let _ = self.flush().await;
            self.push(&mut entry);
        }
        if entry.is_some() {
            let message = "The audit can't be written, so nothing is answered for now; the \
                           server's log says why. Try again later.";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(())
    }

    /// Takes the row if there is room; tells how many wait.
    fn push(&self, entry: &mut Option<AuditEvent>) -> usize {
        let mut waiting = self.lock();
        if waiting.len() < MOST {
            waiting.extend(entry.take());
        }
        waiting.len()
    }

    /// Writes what waits. It waits until it is written, so a caller who stops waiting here may
    /// leave rows that are written twice, and none that never are.
    pub(crate) async fn flush(&self) -> StoreResult<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let _turn = self.writing.lock().await;
        let batch = self.lock().clone();
        let rows = batch.len();
        if rows == 0 {
            return Ok(());
        }
        let written = log.record(batch).await;
        match &written {
            Ok(()) => drop(self.lock().drain(..rows)),
            Err(error) => tracing::error!(%error, rows, "rows of the audit were not written yet"),
        }
        written
    }

    fn lock(&self) -> MutexGuard<'_, Vec<AuditEvent>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(audited: &AuditScope, noted: Noted<'_>, error: Option<ErrorKind>) -> AuditEvent {
    let Noted { caller, correlation_id, action, targets } = noted;
    // Which project a call means that names one is known to the tool alone; what was named is told.
    let names_one = |target: &Target| {
        let named = target.name.split_once('=');
        named.is_some_and(|(key, _)| [PROJECT, REPOSITORY].contains(&key))
    };
    let project = (!targets.iter().any(names_one)).then(|| caller.project.clone());
    AuditEvent {
        at: audited.started(),
        user: caller.name.to_string(),
        token: caller.token.clone(),
        project,
        action: short(action).to_owned(),
        targets,
        result: error.map_or(OK, ErrorKind::name).to_owned(),
        micros: audited.micros(),
        correlation_id: correlation_id.to_owned(),
        reason: if audited.is_replayed() { REPEATED } else { "" }.to_owned(),
    }
}

/// As much of a text as a row takes. Thousands of rows may wait, so it is cut here already.
pub(crate) fn short(text: &str) -> &str {
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

/// What these arguments say that a call is about.
pub(crate) fn targets(arguments: &Map<String, Value>) -> Vec<Target> {
    let said = |key: &str| arguments.get(key).and_then(Value::as_str);
    let about = ABOUT.iter().filter_map(|key| said(key).map(|value| short(value).to_owned()));
    let named =
        NAMED.iter().filter_map(|key| said(key).map(|value| format!("{key}={}", short(value))));
    about.chain(named).map(Target::read).collect()
}

#[cfg(test)]
mod tests;
