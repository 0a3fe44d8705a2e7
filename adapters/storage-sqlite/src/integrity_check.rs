//! The check that runs when a database is opened, and the complete one of `reqlore check`.
//!
//! SQLite compares each index with its table, which finds keys that a search would miss; the
//! checksums of the rows find all other changes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use reqlore_group_commit::catch_panic;
use reqlore_row_store::tables::{
    AUDIT, BODIES, CLAIMS, COUNTS, DOCUMENTS, FIELD_VALUES, HISTORY, IDEMPOTENCY, ITEM_COUNTS,
    ITEM_FIELDS, LINKS, PENDING, PROJECTS, SEQUENCES, SERVER_GROUPS, STORE, TEXTS, TOKENS, Table,
    USERS, WRITERS,
};
use rusqlite::{Connection, InterruptHandle};

use crate::connection::{ConnectionUse, Connector};
use crate::damage::{CheckStage, CheckWorker, DamageState};
use crate::error::{QueryError, damaged_object};
use crate::rows::find_damaged_rows;
use crate::settings::{BUSY_PAUSE, sqlite_findings};
use crate::statements::COMMIT_COUNTER;

/// Maximum number of damaged objects in a report.
const MAX_DAMAGE: usize = 100;

/// The tables of each stage. Their indexes are checked with them.
const STAGES: [(CheckStage, &[&Table]); 5] = [
    (
        CheckStage::Projects,
        &[
            &STORE,
            &COMMIT_COUNTER,
            &PROJECTS,
            &SEQUENCES,
            &ITEM_COUNTS,
            &COUNTS,
            &USERS,
            &TOKENS,
            &CLAIMS,
            &PENDING,
        ],
    ),
    (CheckStage::Documents, &[&DOCUMENTS, &WRITERS]),
    (CheckStage::Links, &[&LINKS]),
    (CheckStage::Lists, &[&FIELD_VALUES, &ITEM_FIELDS]),
    (CheckStage::WholeFile, &[&HISTORY, &BODIES, &TEXTS, &AUDIT, &IDEMPOTENCY, &SERVER_GROUPS]),
];

/// Those of these tables that the file has.
fn existing(
    tables: &'static [&'static Table],
    connector: &Connector,
) -> impl Iterator<Item = &'static Table> {
    let of_file = connector.file.schema.tables;
    let exists = move |table: &&Table| of_file.contains(table) || **table == COMMIT_COUNTER;
    tables.iter().copied().filter(exists)
}

/// The stage that proves that missing rows of a table do not exist.
pub(crate) fn stage_of(table: &Table) -> CheckStage {
    let stage = STAGES.iter().find(|(_, tables)| tables.contains(&table));
    stage.map_or(CheckStage::WholeFile, |(stage, _)| *stage)
}

/// A running check. Dropping it stops the check.
pub(crate) struct IntegrityCheck {
    is_stopped: Arc<AtomicBool>,
    damage: Arc<DamageState>,
    workers: Vec<RunningWorker>,
}

/// Stops the statement of the present connection.
pub(crate) type SharedInterrupt = Mutex<Option<InterruptHandle>>;

struct RunningWorker {
    interrupt: Arc<SharedInterrupt>,
    thread: JoinHandle<()>,
}

impl IntegrityCheck {
    pub(crate) fn start(connector: &Connector, damage: &Arc<DamageState>) -> std::io::Result<Self> {
        let is_stopped = Arc::<AtomicBool>::default();
        let mut workers = Vec::new();
        for worker in
            [CheckWorker::DocumentStructure, CheckWorker::OtherStructure, CheckWorker::Checksums]
        {
            let interrupt = Arc::<SharedInterrupt>::default();
            let (handle, stopped) = (Arc::clone(&interrupt), Arc::clone(&is_stopped));
            let (connector, damage) = (connector.clone(), Arc::clone(damage));
            let thread = std::thread::Builder::new().name("sqlite-check".to_owned());
            let thread = thread.spawn(move || {
                // After a panic the callers would wait forever.
                let run =
                    || catch_panic(|| run_worker(worker, &connector, &handle, &stopped, &damage));
                while let Err(error) = run()
                    && !stopped.load(Ordering::Relaxed)
                    && damage.repeats_check(error)
                {}
            })?;
            workers.push(RunningWorker { interrupt, thread });
        }
        Ok(Self { is_stopped, damage: Arc::clone(damage), workers })
    }
}

impl fmt::Debug for IntegrityCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntegrityCheck").finish_non_exhaustive()
    }
}

impl Drop for IntegrityCheck {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.damage.end();
        for worker in &self.workers {
            // An interrupt between two statements has no effect, so it is repeated.
            while !worker.thread.is_finished() {
                let interrupt = worker.interrupt.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(interrupt) = &*interrupt {
                    interrupt.interrupt();
                }
                drop(interrupt);
                std::thread::sleep(BUSY_PAUSE);
            }
        }
    }
}

/// Fails with the first damage. Each stage that passes is recorded at once.
pub(crate) fn run_worker(
    worker: CheckWorker,
    connector: &Connector,
    handle: &SharedInterrupt,
    is_stopped: &AtomicBool,
    damage: &DamageState,
) -> Result<(), QueryError> {
    let connection = connector.open(ConnectionUse::Read)?;
    *handle.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(connection.get_interrupt_handle());
    // Each worker does this first, because later errors would not name the missing object.
    connector.file.schema.check_objects(&connection)?;
    for (stage, tables) in STAGES {
        let is_large = matches!(stage, CheckStage::Documents | CheckStage::WholeFile);
        let is_checked = match worker {
            CheckWorker::DocumentStructure => is_large,
            CheckWorker::OtherStructure => !is_large,
            CheckWorker::Checksums => true,
        };
        let tables = if is_checked { tables } else { &[] };
        for table in existing(tables, connector) {
            fail_on(check_table(worker, &connection, table)?)?;
            if is_stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        // This checks the pages that belong to no table. It starts after the stages that lists wait
        // for, so that it does not slow them down.
        if (worker, stage) == (CheckWorker::OtherStructure, CheckStage::WholeFile) {
            damage.wait_for_workers(CheckStage::Lists);
            fail_on(sqlite_findings(&connection, "quick_check(1)")?)?;
        }
        damage.pass(worker, stage);
    }
    Ok(())
}

fn fail_on(mut findings: Vec<String>) -> Result<(), QueryError> {
    findings.pop().map_or(Ok(()), |found| Err(QueryError::Damaged(found)))
}

fn check_table(
    worker: CheckWorker,
    connection: &Connection,
    table: &'static Table,
) -> Result<Vec<String>, QueryError> {
    if worker != CheckWorker::Checksums {
        return sqlite_findings(connection, &format!("integrity_check({})", table.name));
    }
    // A text is compared with its hash when it is read.
    if *table == BODIES || *table == TEXTS {
        return Ok(Vec::new());
    }
    find_damaged_rows(connection, table, 1)
}

/// Refuses a database that SQLite finds damaged, before a change that writes most of it.
pub(crate) fn refuse_damage(connection: &Connection) -> Result<(), QueryError> {
    match sqlite_findings(connection, "integrity_check(1)")?.pop() {
        None => Ok(()),
        Some(found) => Err(QueryError::damaged(&format!("its structure ({found})"))),
    }
}

/// Checks the structure of the file and the checksums of all rows. Returns a text for each damaged
/// object.
pub(crate) fn find_file_damage(connector: &Connector) -> Result<Vec<String>, QueryError> {
    let connection = connector.open(ConnectionUse::Read)?;
    let transaction = connection.unchecked_transaction()?;
    match connector.file.schema.check_objects(&transaction) {
        Err(error) if error.is_damage() => return Ok(vec![damaged_object(&error)]),
        checked => checked?,
    }
    let mut damage = Vec::new();
    let mut add = |found: Result<Vec<String>, QueryError>| {
        match found {
            Ok(found) => damage.extend(found),
            // Further searches may find more.
            Err(error) if error.is_damage() => damage.push(damaged_object(&error)),
            Err(error) => return Err(error),
        }
        Ok(())
    };
    add(sqlite_findings(&transaction, &format!("integrity_check({MAX_DAMAGE})")))?;
    for table in STAGES.into_iter().flat_map(|(_, tables)| existing(tables, connector)) {
        add(find_damaged_rows(&transaction, table, MAX_DAMAGE))?;
    }
    // Rows with unreadable keys have one name.
    damage.dedup();
    damage.truncate(MAX_DAMAGE);
    Ok(damage)
}
