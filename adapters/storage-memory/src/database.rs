//! A database in memory that refuses what PostgreSQL would refuse, for any number of servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use async_trait::async_trait;
use reqlore_domain::audit_log::ChainHead;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_row_store::database::{
    BegunTransaction, CommitOutcome, Database, RowSource, SessionError, WriteSession,
};
use reqlore_row_store::row::{RowChange, RowKey, RowQuery, TableRow};
use reqlore_row_store::tables::{PENDING, STORE, TABLES, Table};
use reqlore_row_store::{METADATA_FORMAT, StoreRow};

use crate::query::{Rows, bug};
use crate::query::{check_query, check_value, select};
use crate::seeded_random::SeededRandom;

/// The committed rows by table. Clones share them.
pub type CommittedRows = Arc<BTreeMap<&'static str, Arc<Rows>>>;
/// The rows of a transaction by table and key, `None` for a deleted one.
type PendingRows = BTreeMap<&'static str, BTreeMap<RowKey, Option<TableRow>>>;
/// Called repeatedly while a writer waits for another one.
pub type WaitTurn = Arc<dyn Fn() + Send + Sync>;

/// Tables of rows, sorted by key. Servers share the database by `Arc`.
pub struct MemoryDatabase {
    state: Mutex<SharedState>,
    writer_ended: Condvar,
    /// Replaces waiting on `writer_ended`.
    wait_turn: Option<WaitTurn>,
    random: Mutex<SeededRandom>,
    /// Each second seed, because the writer then reads other rows.
    is_remote: bool,
    myself: std::sync::Weak<Self>,
}

/// The committed rows, and whether a writer has the row on which writers queue.
struct SharedState {
    tables: CommittedRows,
    is_locked: bool,
}

impl std::fmt::Debug for MemoryDatabase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MemoryDatabase")
    }
}

impl MemoryDatabase {
    /// A database after its migrations.
    pub fn new(seed: u64, wait_turn: Option<WaitTurn>) -> Arc<Self> {
        let mut random = SeededRandom::new(seed);
        let [low, high] = [random.next_number(), random.next_number()].map(u128::from);
        let row = StoreRow {
            state: StoreRow::COMPLETE.to_owned(),
            store_id: (high << 64 | low).to_le_bytes(),
            epoch: i64::try_from(random.next_number() >> 1).unwrap(),
            newest_audit: ChainHead::default(),
            metadata_format: METADATA_FORMAT,
        };
        let mut tables = BTreeMap::new();
        for table in TABLES.into_iter().chain([&PENDING]) {
            let mut rows = Rows::new();
            if table == &STORE {
                rows.insert(StoreRow::key(), row.encode());
            }
            tables.insert(table.name, Arc::new(rows));
        }
        Arc::new_cyclic(|myself| Self {
            state: Mutex::new(SharedState { tables: Arc::new(tables), is_locked: false }),
            writer_ended: Condvar::new(),
            wait_turn,
            random: Mutex::new(random),
            is_remote: seed.is_multiple_of(2),
            myself: myself.clone(),
        })
    }

    /// The committed rows of a table.
    pub fn rows(&self, table: &'static Table) -> Arc<Rows> {
        Arc::clone(&self.lock().tables[table.name])
    }

    /// The committed rows of all tables.
    pub fn copy(&self) -> CommittedRows {
        self.lock().tables.clone()
    }

    /// Continues from an older state, like a standby that lacked the newest commits.
    pub fn restore(&self, tables: CommittedRows) {
        self.lock().tables = tables;
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap()
    }

    fn run(
        &self,
        tables: &CommittedRows,
        pending: &PendingRows,
        queries: &[RowQuery],
    ) -> StoreResult<Vec<Vec<TableRow>>> {
        let mut random = self.random.lock().unwrap();
        let no_rows = BTreeMap::new();
        let mut results = Vec::with_capacity(queries.len());
        for query in queries {
            check_query(query)?;
            let name = query.table.name;
            let Some(rows) = tables.get(name) else { return Err(bug(format!("no table {name}"))) };
            let pending = pending.get(name).unwrap_or(&no_rows);
            results.push(select(query, rows, pending, &mut random)?);
        }
        Ok(results)
    }
}

#[async_trait]
impl RowSource for MemoryDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        let tables = self.lock().tables.clone();
        self.run(&tables, &PendingRows::new(), &queries)
    }
}

#[async_trait]
impl Database for MemoryDatabase {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        let database = self.myself.upgrade().unwrap();
        let tables = self.lock().tables.clone();
        Ok(Box::new(MemorySnapshot { database, tables }))
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        Box::new(MemorySession { database: self.myself.upgrade().unwrap(), pending: None })
    }
}

struct MemorySnapshot {
    database: Arc<MemoryDatabase>,
    tables: CommittedRows,
}

#[async_trait]
impl RowSource for MemorySnapshot {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        self.database.run(&self.tables, &PendingRows::new(), &queries)
    }
}

struct MemorySession {
    database: Arc<MemoryDatabase>,
    /// The writes of the open transaction.
    pending: Option<PendingRows>,
}

impl MemorySession {
    fn wait_for_other_writers(&self) {
        let mut state = self.database.lock();
        while state.is_locked {
            state = match &self.database.wait_turn {
                None => self.database.writer_ended.wait(state).unwrap(),
                Some(wait_turn) => {
                    drop(state);
                    wait_turn();
                    self.database.lock()
                }
            };
        }
        state.is_locked = true;
    }

    fn try_write(&mut self, changes: Vec<(&'static Table, Vec<RowChange>)>) -> StoreResult<()> {
        let Some(pending) = &mut self.pending else {
            return Err(bug("a write outside a transaction"));
        };
        let tables = self.database.lock().tables.clone();
        let mut keys = BTreeSet::new();
        for (table, changes) in changes {
            let committed = &tables[table.name];
            let rows = pending.entry(table.name).or_default();
            for change in changes {
                let (key, row, before) = match change {
                    RowChange::Insert(row) => (checked_key(table, &row)?, Some(row), None),
                    RowChange::Update { row, before } => {
                        (checked_key(table, &row)?, Some(row), Some(before))
                    }
                    RowChange::Delete { key, before } => (key, None, before),
                };
                let present = rows.get(&key).cloned().unwrap_or(committed.get(&key).cloned());
                if before != present && (before.is_some() || !table.indexes.is_empty()) {
                    return Err(bug(format!("{}: {before:?} before is {present:?}", table.name)));
                }
                if !keys.insert((table.name, key.clone())) {
                    return Err(bug(format!("{}: the key {key:?} occurs twice", table.name)));
                }
                rows.insert(key, row);
            }
        }
        Ok(())
    }
}

/// Checks the number and the types of values, and returns those of the key.
fn checked_key(table: &Table, row: &TableRow) -> StoreResult<RowKey> {
    let count = row.values().count();
    if count != table.columns.len() {
        return Err(bug(format!("{}: {count} values", table.name)));
    }
    for (column, value) in table.columns.iter().zip(row.values()) {
        check_value(table, column, value)?;
    }
    Ok(row.prefix(table.key_width))
}

impl WriteSession for MemorySession {
    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError> {
        if self.pending.is_some() {
            return Err(SessionError::Failed(bug("a transaction inside a transaction")));
        }
        self.wait_for_other_writers();
        self.pending = Some(PendingRows::new());
        let read = self.read(queries);
        if read.is_err() {
            self.roll_back();
        }
        read.map(Into::into)
    }

    fn read(&mut self, queries: &[RowQuery]) -> Result<Vec<Vec<TableRow>>, SessionError> {
        let Some(pending) = &self.pending else {
            return Err(SessionError::Failed(bug("a read outside a transaction")));
        };
        let tables = self.database.lock().tables.clone();
        self.database.run(&tables, pending, queries).map_err(SessionError::Failed)
    }

    fn write(
        &mut self,
        changes: Vec<(&'static Table, Vec<RowChange>)>,
    ) -> Result<(), SessionError> {
        self.try_write(changes).map_err(SessionError::Failed)
    }

    fn commit(&mut self) -> CommitOutcome {
        let Some(pending) = self.pending.take() else {
            let error = SessionError::Failed(bug("a commit outside a transaction"));
            return CommitOutcome::NotWritten(error);
        };
        let mut state = self.database.lock();
        let tables = Arc::make_mut(&mut state.tables);
        for (table, changed) in pending {
            let rows = Arc::make_mut(tables.get_mut(table).unwrap());
            for (key, row) in changed {
                match row {
                    Some(row) => rows.insert(key, row),
                    None => rows.remove(&key),
                };
            }
        }
        state.is_locked = false;
        self.database.writer_ended.notify_one();
        CommitOutcome::Committed
    }

    fn roll_back(&mut self) {
        if self.pending.take().is_some() {
            self.database.lock().is_locked = false;
            self.database.writer_ended.notify_one();
        }
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.roll_back();
    }
}
