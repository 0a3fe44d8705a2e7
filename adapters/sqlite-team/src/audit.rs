//! The audit log: one chain of rows for all processes.
//!
//! Each row is sealed after the newest one, which is therefore read inside the appending
//! transaction and never cached. The chain never becomes empty: pruning appends a row.

use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead, RowHash};
use reqlore_domain::timestamp::Timestamp;
use rusqlite::{Connection, Row};

use crate::error::DatabaseError;

/// The most rows that one step prunes, so that commits wait only briefly.
pub const PRUNE_LIMIT: usize = 10_000;

/// Seals these events after the newest row and returns the new end of the chain.
pub fn append(
    connection: &Connection,
    events: impl IntoIterator<Item = AuditEvent>,
) -> Result<Option<ChainHead>, DatabaseError> {
    let mut last = None;
    for event in events {
        let head = last.map_or_else(|| newest(connection), Ok)?;
        let row = AuditRow::after(head, event);
        put(connection, &row)?;
        last = Some(row.head());
    }
    Ok(last)
}

/// Inserts a sealed row as it is.
pub fn put(connection: &Connection, row: &AuditRow) -> Result<(), DatabaseError> {
    let insert = "INSERT INTO audit (number, hash, text) VALUES (?1, ?2, ?3)";
    let AuditRow { number, hash, text } = row;
    connection.prepare_cached(insert)?.execute((number, &hash.0, &**text))?;
    Ok(())
}

pub fn newest(connection: &Connection) -> Result<ChainHead, DatabaseError> {
    let select = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1";
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query([])?;
    rows.next()?.map_or_else(|| Ok(ChainHead::default()), head)
}

/// The rows from this number on: at most `limit`, and none after `max_bytes` of text.
pub fn rows(
    connection: &Connection,
    from: u64,
    limit: usize,
    max_bytes: usize,
) -> Result<Vec<AuditRow>, DatabaseError> {
    let mut select = connection.prepare_cached(
        "SELECT number, hash, text FROM audit WHERE number >= ?1 ORDER BY number LIMIT ?2",
    )?;
    let bounded = |number| i64::try_from(number).unwrap_or(i64::MAX);
    let mut found = select.query((bounded(from), bounded(limit as u64)))?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        rows.push(sealed(row)?);
        bytes += rows.last().map_or(0, |row: &AuditRow| row.text.len());
        if bytes > max_bytes {
            break;
        }
    }
    Ok(rows)
}

fn sealed(row: &Row<'_>) -> Result<AuditRow, DatabaseError> {
    let ChainHead { number, hash } = head(row)?;
    Ok(AuditRow { number, hash, text: row.get_ref(2)?.as_str()?.into() })
}

fn head(row: &Row<'_>) -> Result<ChainHead, DatabaseError> {
    let hash = row.get_ref(1)?.as_blob()?;
    let hash = hash.try_into().map_err(|_| DatabaseError::damaged("a hash of the audit"))?;
    Ok(ChainHead { number: row.get(0)?, hash: RowHash(hash) })
}

#[derive(Debug, Default)]
pub struct Pruned {
    pub removed: usize,
    /// The row at which pruning stopped because its age can't be read.
    pub unreadable: Option<u64>,
}

impl Pruned {
    /// Logs an unreadable row, once per process.
    pub fn warn_once(&self) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        if let Some(row) = self.unreadable
            && !WARNED.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                row,
                "an audit row has no readable age, so it and all later rows stay; \
                 `reqlore audit verify` says more"
            );
        }
    }
}

/// Prunes one step. A row's age comes from its sealed text alone.
pub fn prune(
    connection: &Connection,
    older_than: Timestamp,
    now: Timestamp,
) -> Result<Pruned, DatabaseError> {
    let select = "SELECT number, hash, text FROM audit ORDER BY number LIMIT ?1";
    let mut select = connection.prepare_cached(select)?;
    let mut oldest = select.query([PRUNE_LIMIT])?;
    let (mut last, mut unreadable) = (None, None);
    while let Some(row) = oldest.next()? {
        let row = sealed(row)?;
        match row.entry() {
            Some(entry) if entry.at < older_than => last = Some(row.number),
            Some(_) => break,
            None => {
                unreadable = Some(row.number);
                break;
            }
        }
    }
    drop(oldest);
    let Some(last) = last else { return Ok(Pruned { removed: 0, unreadable }) };
    append(connection, [AuditEvent::pruned(last, now)])?;
    let mut delete = connection.prepare_cached("DELETE FROM audit WHERE number <= ?1")?;
    Ok(Pruned { removed: delete.execute([last])?, unreadable })
}
