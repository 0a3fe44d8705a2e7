//! The transaction of a group, with the rows that it has read and written.
//!
//! Rows are read for the whole group at its beginning and written at its end, so that the number of
//! round trips does not grow with the group.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::ports::documents::{StoreError, StoreResult};

use crate::database::{CommitOutcome, SessionError, WriteSession};
use crate::row::{RowAddress, RowChange, RowKey, RowQuery, TableRow};
use crate::tables::Table;

/// A group ends with the job that reaches one of these, because databases limit transactions, and
/// writers of all servers wait for it.
const FULL_CHANGES: usize = 1_000;
const FULL_BYTES: usize = 4 << 20;

/// The state of a row before a job changed it: the known row, and true if it was changed already.
type RowBefore = (RowAddress, Option<Option<TableRow>>, bool);

pub(crate) struct GroupTransaction {
    pub(crate) session: Box<dyn WriteSession>,
    /// Rows as they are after the pending changes; `None` for a missing row.
    known: HashMap<RowAddress, Option<TableRow>>,
    /// Beginnings of keys of which all rows are known.
    known_prefixes: Vec<RowAddress>,
    /// Changed rows as the database has them, `None` for a missing or unknown one.
    pending: BTreeMap<RowAddress, Option<TableRow>>,
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
    /// Returns true if the connection was lost since the last transaction.
    pub(crate) fn begin(&mut self, queries: Vec<RowQuery>) -> Result<bool, SessionError> {
        self.forget();
        let begun = self.session.begin(&queries)?;
        self.know_rows(&queries, &begun.rows).inspect_err(|_| self.session.roll_back())?;
        self.know_keys(queries);
        Ok(begun.was_interrupted)
    }

    /// Remembers which rows have been read.
    fn know_keys(&mut self, queries: Vec<RowQuery>) {
        for query in queries {
            let is_whole_key = query.columns.len() == query.table.key_width;
            for tuple in query.tuples {
                if is_whole_key {
                    self.known.entry((query.table, tuple)).or_default();
                } else {
                    self.known_prefixes.push((query.table, tuple));
                }
            }
        }
    }

    /// Checks and remembers rows of the database.
    fn know_rows(
        &mut self,
        queries: &[RowQuery],
        results: &[Vec<TableRow>],
    ) -> Result<(), SessionError> {
        for (query, rows) in queries.iter().zip(results) {
            query.check_rows(rows).map_err(SessionError::Failed)?;
            for row in rows {
                let address = (query.table, row.prefix(query.table.key_width));
                let is_whole = !query.is_narrow;
                // A pending change is newer.
                if is_whole && !self.pending.contains_key(&address) {
                    self.known.insert(address, Some(row.clone()));
                }
            }
        }
        Ok(())
    }

    /// Forgets everything about the last transaction.
    fn forget(&mut self) {
        self.known.clear();
        self.known_prefixes.clear();
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
        let address = (table, key.clone());
        self.load([address.clone()])?;
        Ok(self.known.get(&address).cloned().flatten())
    }

    /// Reads those of these rows that are not known yet, in one round trip. A beginning of a key
    /// stands for all rows that have it.
    pub(crate) fn load(
        &mut self,
        addresses: impl IntoIterator<Item = RowAddress>,
    ) -> StoreResult<()> {
        let unknown = addresses.into_iter().filter(|address| !self.is_known(address));
        let queries = key_queries(unknown);
        if queries.is_empty() {
            return Ok(());
        }
        // Rows with a pending change were skipped, because the database has their old state.
        self.run(&queries)?;
        self.know_keys(queries);
        Ok(())
    }

    fn is_known(&self, address: &RowAddress) -> bool {
        let (table, key) = address;
        let has_prefix =
            |(of_table, prefix): &RowAddress| of_table == table && key.starts_with(prefix);
        self.known.contains_key(address) || self.known_prefixes.iter().any(has_prefix)
    }

    /// Runs queries that see all changes of the group so far, in one round trip.
    pub(crate) fn select(&mut self, queries: &[RowQuery]) -> StoreResult<Vec<Vec<TableRow>>> {
        self.flush()?;
        self.run(queries)
    }

    /// Runs one query, unless it can have no rows.
    pub(crate) fn select_one(&mut self, query: RowQuery) -> StoreResult<Vec<TableRow>> {
        if query.tuples.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.select(&[query])?.pop().unwrap_or_default())
    }

    fn run(&mut self, queries: &[RowQuery]) -> StoreResult<Vec<Vec<TableRow>>> {
        self.check_failure()?;
        let results = self.session.read(queries).map_err(|error| self.fail(error))?;
        self.know_rows(queries, &results).map_err(|error| self.fail(error))?;
        Ok(results)
    }

    pub(crate) fn put(&mut self, table: &'static Table, row: TableRow) {
        self.change(table, row.prefix(table.key_width), Some(row));
    }

    pub(crate) fn delete(&mut self, table: &'static Table, key: RowKey) {
        self.change(table, key, None);
    }

    fn change(&mut self, table: &'static Table, key: RowKey, row: Option<TableRow>) {
        self.change_count += 1;
        self.change_bytes += row.as_ref().map_or(0, |row| row.as_bytes().len());
        let address = (table, key);
        let row_before = self.known.insert(address.clone(), row);
        let is_changed = self.pending.contains_key(&address);
        if !is_changed {
            self.pending.insert(address.clone(), row_before.clone().flatten());
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
            if !was_changed {
                self.pending.remove(&address);
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
    fn flush(&mut self) -> StoreResult<()> {
        self.check_failure()?;
        let mut changes: Vec<(&'static Table, Vec<RowChange>)> = Vec::new();
        for (address, before) in std::mem::take(&mut self.pending) {
            let table = address.0;
            let change = self.change_of(address, before);
            match changes.last_mut() {
                Some((last, of_table)) if *last == table => of_table.push(change),
                _ => changes.push((table, vec![change])),
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
        self.has_writes || !self.pending.is_empty()
    }

    /// Writes the pending changes and commits.
    pub(crate) fn commit(&mut self) -> CommitOutcome {
        if self.flush().is_ok() {
            return self.session.commit();
        }
        let unknown = || SessionError::Failed(StoreError::Internal("a group failed".to_owned()));
        CommitOutcome::NotWritten(self.failure.take().unwrap_or_else(unknown))
    }

    pub(crate) fn roll_back(&mut self) {
        self.session.roll_back();
        self.forget();
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

/// Queries for rows by their keys or by beginnings of keys, which have one length for each table.
pub(crate) fn key_queries(addresses: impl IntoIterator<Item = RowAddress>) -> Vec<RowQuery> {
    let mut by_table = BTreeMap::<&'static Table, Vec<RowKey>>::new();
    for (table, key) in addresses {
        by_table.entry(table).or_default().push(key);
    }
    by_table.into_iter().map(|(table, keys)| RowQuery::keys(table, keys)).collect()
}
