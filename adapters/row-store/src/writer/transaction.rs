//! The transaction of a group, with the rows that it has read and written.
//!
//! Rows are read for the whole group at its beginning and written at its end, so that the number of
//! round trips does not grow with the group.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use reqlore_domain::ports::documents::{StoreError, StoreResult};

use crate::database::{CommitOutcome, SessionError, WriteSession};
use crate::row::{RowChange, RowKey, RowQuery, TableRow};
use crate::tables::{TABLES, Table};

/// A group ends with the job that reaches one of these, because databases limit transactions, and
/// writers of all servers wait for it.
const FULL_CHANGES: usize = 1_000;
const FULL_BYTES: usize = 4 << 20;

/// A row by its table and key.
type RowAddress = (&'static str, RowKey);

/// The state of a row before a job changed it: the known row, and true if it was changed already.
type RowBefore = (RowAddress, Option<Option<TableRow>>, bool);

pub(crate) struct GroupTransaction {
    session: Box<dyn WriteSession>,
    /// Rows as they are after the pending changes; `None` for a missing row.
    known: HashMap<RowAddress, Option<TableRow>>,
    /// Beginnings of keys of which all rows are known.
    known_prefixes: Vec<RowAddress>,
    /// Changed rows as the database has them, `None` for a missing or unknown one.
    pending: BTreeMap<&'static str, BTreeMap<RowKey, Option<TableRow>>>,
    /// Undoes the changes of the current job, the last one first.
    undo: Vec<RowBefore>,
    /// The current job wrote rows to the database, so it cannot be undone alone.
    is_flushed: bool,
    /// The transaction wrote rows to the database.
    has_writes: bool,
    /// Number and size of the changes so far.
    change_count: usize,
    change_bytes: usize,
    /// Why the transaction cannot continue.
    pub(crate) failure: Option<SessionError>,
}

impl std::fmt::Debug for GroupTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupTransaction").field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl GroupTransaction {
    pub(crate) fn new(session: Box<dyn WriteSession>) -> Self {
        Self {
            session,
            known: HashMap::new(),
            known_prefixes: Vec::new(),
            pending: BTreeMap::new(),
            undo: Vec::new(),
            is_flushed: false,
            has_writes: false,
            change_count: 0,
            change_bytes: 0,
            failure: None,
        }
    }

    /// Begins the transaction and runs queries, each for whole keys or for beginnings of keys.
    pub(crate) fn begin(&mut self, queries: Vec<RowQuery>) -> Result<(), SessionError> {
        self.forget();
        let results = self.session.begin(&queries)?;
        for (query, rows) in queries.into_iter().zip(results) {
            if let Err(error) = query.check_rows(&rows) {
                self.session.roll_back();
                return Err(SessionError::Failed(error));
            }
            self.remember(query, rows);
        }
        Ok(())
    }

    fn remember(&mut self, query: RowQuery, rows: Vec<TableRow>) {
        let table = query.table;
        let is_whole_key = query.columns.len() == table.key_width;
        for tuple in query.tuples {
            if is_whole_key {
                self.known.entry((table.name, tuple)).or_default();
            } else {
                self.known_prefixes.push((table.name, tuple));
            }
        }
        for row in rows {
            self.know(table, row);
        }
    }

    /// Remembers a row of the database.
    fn know(&mut self, table: &'static Table, row: TableRow) {
        let key = row.prefix(table.key_width);
        // A pending change is newer.
        if !self.pending.get(table.name).is_some_and(|pending| pending.contains_key(&key)) {
            self.known.insert((table.name, key), Some(row));
        }
    }

    /// Forgets the rows that were read and written, to limit the memory of a large job.
    pub(crate) fn forget_rows(&mut self) {
        self.known.clear();
        self.known_prefixes.clear();
    }

    /// Forgets everything about the last transaction.
    fn forget(&mut self) {
        self.forget_rows();
        self.pending.clear();
        self.undo.clear();
        self.has_writes = false;
        (self.change_count, self.change_bytes) = (0, 0);
        self.failure = None;
    }

    /// Returns a row as it is after all changes of the group so far.
    pub(crate) fn row(
        &mut self,
        table: &'static Table,
        key: &RowKey,
    ) -> StoreResult<Option<TableRow>> {
        self.load(table, vec![key.clone()])?;
        Ok(self.known.get(&(table.name, key.clone())).cloned().flatten())
    }

    /// Reads those of these rows that are not known yet, in one round trip.
    pub(crate) fn load(&mut self, table: &'static Table, mut keys: Vec<RowKey>) -> StoreResult<()> {
        keys.retain(|key| !self.is_known(table, key));
        if keys.is_empty() {
            return Ok(());
        }
        keys.sort();
        keys.dedup();
        // A row with a pending change is known, so the database has the newest state of the others.
        self.prefetch(vec![RowQuery::keys(table, keys)])
    }

    /// Reads what is not known yet, in one round trip.
    pub(crate) fn prefetch(&mut self, mut queries: Vec<RowQuery>) -> StoreResult<()> {
        for query in &mut queries {
            let table = query.table;
            query.tuples.retain(|tuple| !self.is_known(table, tuple));
        }
        queries.retain(|query| !query.tuples.is_empty());
        if queries.is_empty() {
            return Ok(());
        }
        let results = self.run(&queries)?;
        for (query, rows) in queries.into_iter().zip(results) {
            self.remember(query, rows);
        }
        Ok(())
    }

    fn is_known(&self, table: &'static Table, key: &RowKey) -> bool {
        let is_prefix =
            |(name, prefix): &RowAddress| *name == table.name && key.starts_with(prefix);
        self.known.contains_key(&(table.name, key.clone()))
            || self.known_prefixes.iter().any(is_prefix)
    }

    /// Runs queries that see all changes of the group so far, in one round trip.
    pub(crate) fn select(&mut self, queries: &[RowQuery]) -> StoreResult<Vec<Vec<TableRow>>> {
        self.flush()?;
        self.run(queries)
    }

    fn run(&mut self, queries: &[RowQuery]) -> StoreResult<Vec<Vec<TableRow>>> {
        self.check_failure()?;
        let results = self.session.read(queries).map_err(|error| self.fail(error))?;
        for (query, rows) in queries.iter().zip(&results) {
            query.check_rows(rows).map_err(|error| self.fail(SessionError::Failed(error)))?;
        }
        Ok(results)
    }

    pub(crate) fn put(&mut self, table: &'static Table, row: TableRow) {
        self.change(table, row.prefix(table.key_width), Some(row));
    }

    pub(crate) fn delete(&mut self, table: &'static Table, key: RowKey) {
        self.change(table, key, None);
    }

    /// Replaces a row that a query returned.
    pub(crate) fn replace(&mut self, table: &'static Table, before: TableRow, row: TableRow) {
        self.know(table, before);
        self.put(table, row);
    }

    /// Deletes a row that a query returned.
    pub(crate) fn delete_row(&mut self, table: &'static Table, before: TableRow) {
        let key = before.prefix(table.key_width);
        self.know(table, before);
        self.delete(table, key);
    }

    fn change(&mut self, table: &'static Table, key: RowKey, row: Option<TableRow>) {
        self.change_count += 1;
        self.change_bytes += row.as_ref().map_or(0, |row| row.as_bytes().len());
        let address = (table.name, key);
        let row_before = self.known.insert(address.clone(), row);
        let pending = self.pending.entry(table.name).or_default();
        let is_changed = pending.contains_key(&address.1);
        if !is_changed {
            pending.insert(address.1.clone(), row_before.clone().flatten());
        }
        self.undo.push((address, row_before, is_changed));
    }

    /// Starts a job, whose changes [`Self::end_job`] keeps or undoes.
    pub(crate) fn begin_job(&mut self) {
        self.undo.clear();
        self.is_flushed = false;
    }

    /// Keeps the changes of the current job, or undoes them if it failed.
    pub(crate) fn end_job<T>(&mut self, outcome: &StoreResult<T>) {
        let Err(error) = outcome else { return };
        for (address, row_before, was_changed) in self.undo.drain(..).rev() {
            if !was_changed && let Some(pending) = self.pending.get_mut(address.0) {
                pending.remove(&address.1);
            }
            match row_before {
                Some(row) => self.known.insert(address, row),
                None => self.known.remove(&address),
            };
        }
        if self.is_flushed && self.failure.is_none() {
            self.failure = Some(SessionError::Failed(error.clone_for_group()));
        }
    }

    /// Writes the pending changes, in one round trip.
    pub(crate) fn flush(&mut self) -> StoreResult<()> {
        self.check_failure()?;
        let mut changes = Vec::new();
        // In the order of the tables.
        for table in TABLES {
            if let Some(pending) = self.pending.remove(table.name)
                && !pending.is_empty()
            {
                let mut of_table = Vec::with_capacity(pending.len());
                for (key, before) in pending {
                    of_table.push(self.change_of((table.name, key), before));
                }
                changes.push((table, of_table));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.is_flushed |= !self.undo.is_empty();
        self.undo.clear();
        self.has_writes = true;
        let written = self.session.write(changes);
        written.map_err(|error| self.fail(error))
    }

    /// The change that leads to the known row.
    fn change_of(&self, address: RowAddress, before: Option<TableRow>) -> RowChange {
        match (self.known.get(&address).cloned().flatten(), before) {
            (Some(row), Some(before)) => RowChange::Update { row, before },
            (Some(row), None) => RowChange::Insert(row),
            (None, before) => RowChange::Delete { key: address.1, before },
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.change_count >= FULL_CHANGES || self.change_bytes >= FULL_BYTES
    }

    pub(crate) fn has_changes(&self) -> bool {
        self.has_writes || self.pending.values().any(|pending| !pending.is_empty())
    }

    /// Writes the pending changes and commits.
    pub(crate) fn commit(&mut self) -> CommitOutcome {
        if self.flush().is_ok() {
            return self.session.commit();
        }
        match self.failure.take() {
            Some(SessionError::Retry(reason)) => CommitOutcome::Retry(reason),
            Some(SessionError::Failed(error)) => CommitOutcome::Failed(error),
            None => CommitOutcome::Failed(StoreError::Internal("a group failed".to_owned())),
        }
    }

    pub(crate) fn roll_back(&mut self) {
        self.session.roll_back();
        self.forget();
    }

    /// False after the connection was lost.
    pub(crate) fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    /// True if the connection was lost since the last call.
    pub(crate) fn was_interrupted(&mut self) -> bool {
        self.session.was_interrupted()
    }

    /// Waits before the transaction is repeated.
    pub(crate) fn wait(&mut self, pause: Duration) {
        self.session.wait(pause);
    }

    fn check_failure(&self) -> StoreResult<()> {
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(failure.to_store_error()),
        }
    }

    /// Records why the transaction cannot continue. Returns the error for the current job.
    fn fail(&mut self, error: SessionError) -> StoreError {
        let for_job = error.to_store_error();
        self.failure = Some(error);
        for_job
    }
}
