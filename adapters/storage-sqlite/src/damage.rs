//! Known damage of the open database, and callers that wait until more is known.
//!
//! The checksum of a row proves its content, but damage may also hide a row. So a read that found
//! no row, a list and every write wait until the check has passed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_row_store::damage::KnownDamage;
use tokio::task::yield_now;

use crate::blocking::run_blocking;
use crate::error::{
    DATABASE_NAME, QueryError, RESTORE_HINT, call_error, damaged_object, unavailable,
};

/// A stage of the check. The stages run in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CheckStage {
    /// Small tables: projects, numbers, counts, users and tokens.
    Projects,
    /// Documents without their bodies and links.
    Documents,
    Links,
    /// Tables that list documents by the values of their fields.
    Lists,
    /// All other tables, and the structure of the whole file.
    WholeFile,
}

/// The workers of the check, which run at the same time. A stage passes when all passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckWorker {
    /// SQLite's own check of the stages with large tables: structure, and indexes against tables.
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
    /// No later stage will pass.
    has_ended: bool,
    /// Why a worker waits for the next call that needs it: no damage.
    failure: Option<StoreError>,
}

impl CheckState {
    fn has_passed(&self, stage: CheckStage) -> bool {
        self.passed.iter().all(|passed| *passed >= Some(stage))
    }
}

/// Shared by the check, readers and the writer.
#[derive(Debug)]
pub(crate) struct DamageState {
    pub(crate) known: Arc<KnownDamage>,
    state: Mutex<CheckState>,
    changed: Condvar,
}

impl DamageState {
    /// The name of the file has no folder, which clients must not see.
    pub(crate) fn new(file_name: &str) -> Self {
        let known = KnownDamage::new(format!("{DATABASE_NAME} {file_name}"), RESTORE_HINT);
        Self { known: Arc::new(known), state: Mutex::default(), changed: Condvar::new() }
    }

    /// The state of a database that was checked before.
    pub(crate) fn passed(file_name: &str) -> Self {
        let passed = [Some(CheckStage::WholeFile); 3];
        let state = Mutex::new(CheckState { passed, ..CheckState::default() });
        Self { state, ..Self::new(file_name) }
    }

    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pass(&self, worker: CheckWorker, stage: CheckStage) {
        let passed = &mut self.lock().passed[worker as usize];
        *passed = (*passed).max(Some(stage));
        self.changed.notify_all();
    }

    /// Waits until all workers have passed the stage or the check has ended.
    pub(crate) fn wait_for_workers(&self, needed: CheckStage) {
        let mut state = self.lock();
        while !state.has_passed(needed) && !state.has_ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all waiting callers: no later stage will pass.
    pub(crate) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// After structural damage, all reads that wait for a stage fail.
    pub(crate) fn report(&self, damage: &str, of_structure: bool) {
        let mut state = self.lock();
        self.known.report(damage, of_structure);
        state.has_ended |= of_structure;
        self.changed.notify_all();
    }

    /// Reports the damage that a worker found. Gives any other error to the waiting callers, and
    /// returns true when a later one needs the check.
    pub(crate) fn repeats_check(&self, error: QueryError) -> bool {
        if error.is_damage() || error.is_structural() {
            self.report(&damaged_object(&error), true);
            return false;
        }
        let error = call_error(error);
        tracing::warn!(%error, "the check of the database failed; the next call repeats it");
        let mut state = self.lock();
        state.failure = Some(error);
        self.changed.notify_all();
        while state.failure.is_some() && !state.has_ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.has_ended
    }

    /// Converts an error of a call, and records it if it is a sign of damage.
    pub(crate) fn record(&self, error: QueryError) -> StoreError {
        let of_structure = error.is_structural();
        if !of_structure && !error.is_damage() {
            return call_error(error);
        }
        self.report(&damaged_object(&error), of_structure);
        error.into_store_error(self.known.subject())
    }

    /// `None` if the caller must wait.
    fn outcome(
        &self,
        state: &CheckState,
        needed: CheckStage,
        is_write: bool,
    ) -> Option<StoreResult<()>> {
        let has_passed = state.has_passed(needed);
        match self.known.write_error() {
            Some(error) if is_write || (!has_passed && state.has_ended) => Some(Err(error)),
            _ if has_passed => Some(Ok(())),
            _ if state.has_ended => {
                let reason = "is being closed, so nothing was read or written; try again";
                Some(Err(unavailable(DATABASE_NAME, reason)))
            }
            _ => None,
        }
    }

    pub(crate) fn wait(&self, needed: CheckStage, is_write: bool) -> StoreResult<()> {
        let mut state = self.lock();
        if state.failure.take().is_some() {
            self.changed.notify_all();
        }
        loop {
            if let Some(outcome) = self.outcome(&state, needed, is_write) {
                return outcome;
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone_for_group());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the whole check has passed; an error after any sign of damage. Blocks.
    pub(crate) fn permit_write(&self) -> StoreResult<()> {
        self.wait(CheckStage::WholeFile, true)
    }

    /// Waits until this stage has passed. Only then is a missing row known not to exist. The second
    /// poll may block its thread, if allowed.
    pub(crate) async fn wait_for_stage(
        self: &Arc<Self>,
        needed: CheckStage,
        may_block: bool,
    ) -> StoreResult<()> {
        let known = self.outcome(&self.lock(), needed, false);
        if let Some(outcome) = known {
            return outcome;
        }
        if may_block {
            yield_now().await;
            return self.wait(needed, false);
        }
        let waiting = Arc::clone(self);
        run_blocking(move || waiting.wait(needed, false)).await
    }
}
