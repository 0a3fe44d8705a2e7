//! Known damage of the open database, and callers that wait until more is known.
//!
//! A row that is read proves itself by its checksum; a row that is not found proves nothing. So an
//! answer that contains an absence, and every write, waits until the check has passed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_sqlite_team::error::{RESTORE_HINT, unavailable};
use rusqlite::ErrorCode;

use crate::connection::run_blocking;
use crate::error::{DATABASE_NAME, QueryError, call_error, damaged_object};

/// A part of the check, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CheckStage {
    /// Small tables: projects, numbers, users and tokens.
    Projects,
    /// Documents without their bodies and links.
    Documents,
    Links,
    /// Items in the order of lists, and faulty documents.
    Lists,
    /// All other tables, and the structure of the whole file.
    WholeFile,
}

/// The workers of the check, which run at the same time. A stage passes when all passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckWorker {
    /// SQLite's own check of the stage of documents: structure, and indexes against tables.
    DocumentStructure,
    /// SQLite's own check of the other stages and of the whole file.
    OtherStructure,
    /// The checksums of all rows.
    Checksums,
}

#[derive(Debug, Default)]
struct CheckState {
    /// The last stage that each worker passed.
    passed: [Option<CheckStage>; 3],
    /// The first sign of damage.
    damage: Option<String>,
    /// No later stage will pass.
    has_ended: bool,
    /// No absence is believed any more.
    is_distrusted: bool,
}

impl CheckState {
    fn has_passed(&self, part: CheckStage) -> bool {
        !self.is_distrusted && self.passed.iter().all(|passed| *passed >= Some(part))
    }
}

/// Shared by the check and by everything that reads or writes.
#[derive(Debug)]
pub(crate) struct DamageState {
    /// Name of the file, without its folder, which clients must not see.
    file_name: String,
    state: Mutex<CheckState>,
    changed: Condvar,
}

impl DamageState {
    pub(crate) fn new(file_name: String) -> Self {
        Self { file_name, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pass(&self, worker: CheckWorker, part: CheckStage) {
        self.lock().passed[worker as usize] = Some(part);
        self.changed.notify_all();
    }

    /// Wakes all waiting callers: a worker of the check was stopped.
    pub(crate) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Records damage. Only the first one is kept. After damage of the structure, no absence is
    /// believed any more.
    pub(crate) fn report(&self, damage: &str, of_structure: bool) {
        let mut state = self.lock();
        if of_structure {
            state.is_distrusted = true;
            state.has_ended = true;
        }
        if state.damage.is_none() {
            tracing::error!(
                damage,
                "the database is damaged, so writes are refused; {RESTORE_HINT}"
            );
            state.damage = Some(damage.to_owned());
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Converts an error of a call, and records it if it is a sign of damage.
    pub(crate) fn note(&self, error: QueryError) -> StoreError {
        let of_structure = match &error {
            QueryError::Sql(error) => error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt),
            _ => false,
        };
        if !error.is_damage() {
            return call_error(error);
        }
        self.report(&damaged_object(&error), of_structure);
        error.into_store_error(&self.place())
    }

    /// The first sign of damage, as a sentence for an operator.
    pub(crate) fn known(&self) -> Option<String> {
        let damage = self.lock().damage.clone()?;
        Some(self.refusal(&damage).to_string())
    }

    fn place(&self) -> String {
        format!("{DATABASE_NAME} {}", self.file_name)
    }

    fn refusal(&self, damage: &str) -> StoreError {
        let reason = format!(
            "is damaged ({damage}), so writes and answers that may be incomplete are refused; \
             `reqlore check` lists the damage; {RESTORE_HINT}"
        );
        StoreError::Unreadable { place: self.place(), reason }
    }

    /// `None` while this is not known.
    fn outcome(
        &self,
        state: &CheckState,
        part: CheckStage,
        is_write: bool,
    ) -> Option<StoreResult<()>> {
        let has_passed = state.has_passed(part);
        match &state.damage {
            Some(damage) if is_write || (!has_passed && state.has_ended) => {
                Some(Err(self.refusal(damage)))
            }
            _ if has_passed => Some(Ok(())),
            _ if state.has_ended => {
                let reason = "is being closed, so nothing was read or written; try again";
                Some(Err(unavailable(DATABASE_NAME, reason)))
            }
            _ => None,
        }
    }

    fn wait(&self, part: CheckStage, is_write: bool) -> StoreResult<()> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = self.outcome(&state, part, is_write) {
                return outcome;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the whole check has passed; an error after any sign of damage. Blocks.
    pub(crate) fn permit_write(&self) -> StoreResult<()> {
        self.wait(CheckStage::WholeFile, true)
    }

    /// Waits until this part of the check has passed, so that an absence in it can be believed.
    pub(crate) async fn trust_absence(self: &Arc<Self>, part: CheckStage) -> StoreResult<()> {
        let known = self.outcome(&self.lock(), part, false);
        if let Some(outcome) = known {
            return outcome;
        }
        let waiting = Arc::clone(self);
        run_blocking(move || waiting.wait(part, false)).await
    }
}
