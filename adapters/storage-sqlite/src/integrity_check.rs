//! The check that runs when a database is opened, and the complete one of `reqlore check`.
//!
//! SQLite compares each index with its table, which finds keys that a search would miss; the
//! checksums of the rows find all other changes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use reqlore_group_commit::catch_panic;
use reqlore_sqlite_metadata::layouts::{
    DIAGNOSTICS, ENTITY_COUNTS, ENTITY_WORDS, ITEM_COUNTS, ITEMS, UNTAGGED,
};
use reqlore_sqlite_team::audit::AUDIT;
use reqlore_sqlite_team::checksum::TableLayout;
use reqlore_sqlite_team::connection::BUSY_PAUSE;
use reqlore_sqlite_team::connection::sqlite_findings;
use reqlore_sqlite_team::error::is_busy;
use reqlore_sqlite_team::idempotency::ANSWERS;
use reqlore_sqlite_team::identity::{EPOCH, TOKENS, USERS};
use rusqlite::{Connection, InterruptHandle};

use crate::archive::begin_export;
use crate::connection::{ConnectionUse, Connector};
use crate::damage::{CheckStage, CheckWorker, DamageState};
use crate::error::{QueryError, damaged_object};
use crate::tables::{DOCUMENTS, HISTORY, LINKS, MARKS, PROJECTS, REMOVED, STORE, WRITERS};
use crate::{history, read};

/// Maximum number of damaged objects in a report.
const MAX_DAMAGE: usize = 100;

/// The tables of each stage. Their indexes are checked with them.
const STAGES: [(CheckStage, &[CheckedTable]); 5] = [
    (
        CheckStage::Projects,
        &[
            CheckedTable::Checksummed(STORE),
            CheckedTable::Checksummed(PROJECTS),
            CheckedTable::Checksummed(MARKS),
            CheckedTable::Checksummed(EPOCH),
            CheckedTable::Checksummed(USERS),
            CheckedTable::Checksummed(TOKENS),
        ],
    ),
    (
        CheckStage::Documents,
        &[
            CheckedTable::Checksummed(DOCUMENTS),
            CheckedTable::Checksummed(REMOVED),
            CheckedTable::Checksummed(WRITERS),
        ],
    ),
    (CheckStage::Links, &[CheckedTable::Checksummed(LINKS)]),
    (
        CheckStage::Lists,
        &[
            CheckedTable::Checksummed(ITEMS),
            CheckedTable::Checksummed(ITEM_COUNTS),
            CheckedTable::Checksummed(DIAGNOSTICS),
            CheckedTable::Checksummed(ENTITY_COUNTS),
            CheckedTable::Checksummed(UNTAGGED),
            CheckedTable::Checksummed(ENTITY_WORDS),
        ],
    ),
    (
        CheckStage::WholeFile,
        &[
            CheckedTable::Checksummed(HISTORY),
            CheckedTable::Plain("bodies"),
            CheckedTable::Plain("history_texts"),
            CheckedTable::Checksummed(AUDIT),
            CheckedTable::Checksummed(ANSWERS),
        ],
    ),
];

#[derive(Debug, Clone, Copy)]
enum CheckedTable {
    /// Its rows have checksums.
    Checksummed(TableLayout),
    /// Its rows are verified in another way.
    Plain(&'static str),
}

/// A running check. Dropping it stops the check.
pub(crate) struct IntegrityCheck {
    is_stopped: Arc<AtomicBool>,
    workers: Vec<RunningWorker>,
}

struct RunningWorker {
    interrupt: Arc<OnceLock<InterruptHandle>>,
    thread: JoinHandle<()>,
}

impl IntegrityCheck {
    pub(crate) fn start(connector: &Connector, damage: &Arc<DamageState>) -> std::io::Result<Self> {
        let is_stopped = Arc::<AtomicBool>::default();
        let mut workers = Vec::new();
        for worker in
            [CheckWorker::DocumentStructure, CheckWorker::OtherStructure, CheckWorker::Checksums]
        {
            let interrupt = Arc::new(OnceLock::new());
            let (handle, stopped) = (Arc::clone(&interrupt), Arc::clone(&is_stopped));
            let (connector, damage) = (connector.clone(), Arc::clone(damage));
            let thread = std::thread::Builder::new().name("sqlite-check".to_owned());
            let thread = thread.spawn(move || {
                // After a panic the callers would wait forever.
                let outcome =
                    catch_panic(|| run_worker(worker, &connector, &handle, &stopped, &damage));
                if stopped.load(Ordering::Relaxed) {
                    return damage.end();
                }
                let found = match outcome {
                    Ok(None) => return,
                    Ok(Some(found)) => found,
                    Err(error) => damaged_object(&error),
                };
                damage.report(&found, true);
            })?;
            workers.push(RunningWorker { interrupt, thread });
        }
        Ok(Self { is_stopped, workers })
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
        for worker in &self.workers {
            // An interrupt between two statements has no effect, so it is repeated.
            while !worker.thread.is_finished() {
                if let Some(interrupt) = worker.interrupt.get() {
                    interrupt.interrupt();
                }
                std::thread::sleep(BUSY_PAUSE);
            }
        }
    }
}

/// Returns the first damage. Each stage that passes is recorded at once.
fn run_worker(
    worker: CheckWorker,
    connector: &Connector,
    handle: &OnceLock<InterruptHandle>,
    is_stopped: &AtomicBool,
    damage: &DamageState,
) -> Result<Option<String>, QueryError> {
    let connection = connector.open(ConnectionUse::Read)?;
    let _ = handle.set(connection.get_interrupt_handle());
    for (stage, tables) in STAGES {
        let is_checked = match worker {
            CheckWorker::DocumentStructure => stage == CheckStage::Documents,
            CheckWorker::OtherStructure => stage != CheckStage::Documents,
            CheckWorker::Checksums => true,
        };
        let tables = if is_checked { tables } else { &[] };
        for table in tables {
            let found = loop {
                match check_table(worker, &connection, *table) {
                    // Another process recovers the log, or holds the database alone.
                    Err(QueryError::Sql(error))
                        if is_busy(&error) && !is_stopped.load(Ordering::Relaxed) => {}
                    found => break found?.pop(),
                }
            };
            if found.is_some() || is_stopped.load(Ordering::Relaxed) {
                return Ok(found);
            }
        }
        // The pages that belong to no table are part of the last stage.
        if (worker, stage) == (CheckWorker::OtherStructure, CheckStage::WholeFile)
            && let Some(found) = sqlite_findings(&connection, "quick_check(1)")?.pop()
        {
            return Ok(Some(found));
        }
        damage.pass(worker, stage);
    }
    Ok(None)
}

fn check_table(
    worker: CheckWorker,
    connection: &Connection,
    table: CheckedTable,
) -> Result<Vec<String>, QueryError> {
    match (worker, table) {
        (
            CheckWorker::DocumentStructure | CheckWorker::OtherStructure,
            CheckedTable::Checksummed(TableLayout { name, .. }) | CheckedTable::Plain(name),
        ) => sqlite_findings(connection, &format!("integrity_check({name})")),
        (CheckWorker::Checksums, CheckedTable::Checksummed(layout)) => {
            layout.find_damage(connection, 1)
        }
        (CheckWorker::Checksums, CheckedTable::Plain(_)) => Ok(Vec::new()),
    }
}

/// Refuses a database that SQLite finds damaged, before a change that writes most of it.
pub(crate) fn refuse_damage(connection: &Connection) -> Result<(), QueryError> {
    match sqlite_findings(connection, "integrity_check(1)")?.pop() {
        None => Ok(()),
        Some(found) => Err(QueryError::damaged(&format!("its structure ({found})"))),
    }
}

type Search = fn(&Connection) -> Result<Vec<String>, QueryError>;

/// Reads everything. Returns a text for each damaged object.
pub(crate) fn find_all_damage(connector: &Connector) -> Result<Vec<String>, QueryError> {
    let connection = connector.open(ConnectionUse::Read)?;
    let mut damage = Vec::new();
    let transaction = connection.unchecked_transaction()?;
    let searches: [Search; 6] = [
        |connection| sqlite_findings(connection, &format!("integrity_check({MAX_DAMAGE})")),
        damaged_rows,
        read::damaged_bodies,
        history::damaged_texts,
        orphans,
        |connection| reqlore_sqlite_metadata::find_differences(connection, MAX_DAMAGE),
    ];
    for search in searches {
        match search(&transaction) {
            Ok(found) => damage.extend(found),
            // The other searches may find more.
            Err(error) if error.is_damage() => damage.push(damaged_object(&error)),
            Err(error) => return Err(error),
        }
    }
    drop(transaction);
    drop(connection);
    // A record that an export refuses is damage, too.
    if damage.is_empty()
        && let Err(error) = export_all(connector)
    {
        damage.push(damaged_object(&error));
    }
    damage.truncate(MAX_DAMAGE);
    Ok(damage)
}

fn checksummed_tables() -> Vec<TableLayout> {
    let mut checksummed = Vec::new();
    for (_, tables) in STAGES {
        for table in tables {
            if let CheckedTable::Checksummed(layout) = table {
                checksummed.push(*layout);
            }
        }
    }
    checksummed
}

fn damaged_rows(connection: &Connection) -> Result<Vec<String>, QueryError> {
    let mut damage = Vec::new();
    for table in checksummed_tables() {
        damage.extend(table.find_damage(connection, MAX_DAMAGE)?);
    }
    Ok(damage)
}

/// Rows that refer to a missing row.
fn orphans(connection: &Connection) -> Result<Vec<String>, QueryError> {
    let mut check = connection.prepare(
        "SELECT \"table\", \"parent\", count(*) FROM pragma_foreign_key_check GROUP BY 1, 2",
    )?;
    let mut rows = check.query([])?;
    let mut damage = Vec::new();
    while let Some(row) = rows.next()? {
        let (table, parent, count): (String, String, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        damage.push(format!("{count} rows of table {table} have no row in table {parent}"));
    }
    Ok(damage)
}

fn export_all(connector: &Connector) -> Result<(), QueryError> {
    let mut snapshot = begin_export(connector)?;
    while !snapshot.next_records()?.is_empty() {}
    Ok(())
}
