//! The check that runs when a database is opened, and the complete one of `reqlore check`.
//!
//! SQLite compares each index with its table, which finds keys that a search would miss; the
//! checksums of the rows find all other changes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use reqlore_sqlite_team::audit::AUDIT;
use reqlore_sqlite_team::checksum::TableLayout;
use reqlore_sqlite_team::connection::BUSY_PAUSE;
use reqlore_sqlite_team::error::is_busy;
use reqlore_sqlite_team::idempotency::ANSWERS;
use reqlore_sqlite_team::identity::{EPOCH, TOKENS, USERS};
use rusqlite::{Connection, InterruptHandle};

use crate::archive::begin_export;
use crate::connection::{ConnectionUse, Connector};
use crate::damage::{CheckHalf, CheckStage, DamageState};
use crate::error::{QueryError, damaged_object};
use crate::tables::{DOCUMENTS, HISTORY, ITEM_COUNTS, LINKS, MARKS, PROJECTS, REMOVED, STORE};
use crate::{history, item_list, read};

/// Maximum number of damaged objects in a report.
const MAX_DAMAGE: usize = 100;

/// The tables of each stage. Their indexes are checked with them.
const STAGES: [(CheckStage, &[CheckedTable]); 4] = [
    (
        CheckStage::Projects,
        &[
            CheckedTable::Sealed(STORE),
            CheckedTable::Sealed(PROJECTS),
            CheckedTable::Sealed(MARKS),
            CheckedTable::Sealed(EPOCH),
            CheckedTable::Sealed(USERS),
            CheckedTable::Sealed(TOKENS),
        ],
    ),
    (
        CheckStage::Documents,
        &[
            CheckedTable::Sealed(DOCUMENTS),
            CheckedTable::Sealed(REMOVED),
            CheckedTable::Plain("items"),
            CheckedTable::Sealed(ITEM_COUNTS),
            CheckedTable::Plain("faults"),
        ],
    ),
    (CheckStage::Links, &[CheckedTable::Sealed(LINKS)]),
    (
        CheckStage::WholeFile,
        &[
            CheckedTable::Sealed(HISTORY),
            CheckedTable::Plain("bodies"),
            CheckedTable::Plain("history_texts"),
            CheckedTable::Sealed(AUDIT),
            CheckedTable::Sealed(ANSWERS),
        ],
    ),
];

#[derive(Debug, Clone, Copy)]
enum CheckedTable {
    /// Its rows have checksums.
    Sealed(TableLayout),
    /// Its rows are verified in another way.
    Plain(&'static str),
}

/// A running check. Dropping it stops the check.
pub(crate) struct IntegrityCheck {
    is_stopped: Arc<AtomicBool>,
    halves: Vec<RunningHalf>,
}

struct RunningHalf {
    interrupt: Arc<OnceLock<InterruptHandle>>,
    thread: JoinHandle<()>,
}

impl IntegrityCheck {
    pub(crate) fn start(connector: &Connector, damage: &Arc<DamageState>) -> std::io::Result<Self> {
        let is_stopped = Arc::<AtomicBool>::default();
        let mut halves = Vec::new();
        for half in [CheckHalf::Structure, CheckHalf::Checksums] {
            let interrupt = Arc::new(OnceLock::new());
            let (handle, stopped) = (Arc::clone(&interrupt), Arc::clone(&is_stopped));
            let (connector, damage) = (connector.clone(), Arc::clone(damage));
            let thread = std::thread::Builder::new().name("sqlite-check".to_owned());
            let thread = thread.spawn(move || {
                match run_half(half, &connector, &handle, &stopped, &damage) {
                    Ok(Some(found)) => damage.report(&found, true),
                    _ if stopped.load(Ordering::Relaxed) => damage.end(),
                    Ok(None) => {}
                    Err(error) => damage.report(&damaged_object(&error), true),
                }
            })?;
            halves.push(RunningHalf { interrupt, thread });
        }
        Ok(Self { is_stopped, halves })
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
        for half in &self.halves {
            // An interrupt between two statements has no effect, so it is repeated.
            while !half.thread.is_finished() {
                if let Some(interrupt) = half.interrupt.get() {
                    interrupt.interrupt();
                }
                std::thread::sleep(BUSY_PAUSE);
            }
        }
    }
}

/// Returns the first damage. Each stage that passes is recorded at once.
fn run_half(
    half: CheckHalf,
    connector: &Connector,
    handle: &OnceLock<InterruptHandle>,
    is_stopped: &AtomicBool,
    damage: &DamageState,
) -> Result<Option<String>, QueryError> {
    let connection = connector.open(ConnectionUse::Read)?;
    let _ = handle.set(connection.get_interrupt_handle());
    for (stage, tables) in STAGES {
        for table in tables {
            let found = loop {
                match check_table(half, &connection, *table) {
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
        if (half, stage) == (CheckHalf::Structure, CheckStage::WholeFile)
            && let Some(found) = sqlite_findings(&connection, "quick_check(1)")?.pop()
        {
            return Ok(Some(found));
        }
        damage.pass(half, stage);
    }
    Ok(None)
}

fn check_table(
    half: CheckHalf,
    connection: &Connection,
    table: CheckedTable,
) -> Result<Vec<String>, QueryError> {
    match (half, table) {
        (
            CheckHalf::Structure,
            CheckedTable::Sealed(TableLayout { name, .. }) | CheckedTable::Plain(name),
        ) => sqlite_findings(connection, &format!("integrity_check({name})")),
        (CheckHalf::Checksums, CheckedTable::Sealed(layout)) => layout.find_damage(connection, 1),
        (CheckHalf::Checksums, CheckedTable::Plain(_)) => Ok(Vec::new()),
    }
}

/// Refuses a database that SQLite finds damaged, before a change that writes most of it.
pub(crate) fn refuse_damage(connection: &Connection) -> Result<(), QueryError> {
    match sqlite_findings(connection, "integrity_check(1)")?.pop() {
        None => Ok(()),
        Some(found) => Err(QueryError::damaged(&format!("its structure ({found})"))),
    }
}

/// Runs one of SQLite's own checks. Returns what it found.
fn sqlite_findings(connection: &Connection, check: &str) -> Result<Vec<String>, QueryError> {
    let mut pragma = connection.prepare(&format!("PRAGMA {check}"))?;
    let mut rows = pragma.query([])?;
    let mut findings = Vec::new();
    while let Some(row) = rows.next()? {
        let finding: String = row.get(0)?;
        if finding != "ok" {
            findings.push(finding);
        }
    }
    Ok(findings)
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
        |connection| item_list::find_differences(connection, MAX_DAMAGE),
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

pub(crate) fn sealed_tables() -> Vec<TableLayout> {
    let mut sealed = Vec::new();
    for (_, tables) in STAGES {
        for table in tables {
            if let CheckedTable::Sealed(layout) = table {
                sealed.push(*layout);
            }
        }
    }
    sealed
}

fn damaged_rows(connection: &Connection) -> Result<Vec<String>, QueryError> {
    let mut damage = Vec::new();
    for table in sealed_tables() {
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
