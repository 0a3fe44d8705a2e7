//! The audit log: one chain of rows for all processes.
//!
//! The newest row must be read inside the appending transaction and not cached, because other
//! processes append too. The chain never becomes empty: pruning appends a row.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead, RowHash};
use reqlore_domain::timestamp::Timestamp;
use rusqlite::{Connection, Row};

use crate::checksum::TableLayout;
use crate::error::DatabaseError;

pub const AUDIT: TableLayout = TableLayout { name: "audit", columns: &["number", "hash", "text"] };

/// Maximum number of rows that one step prunes, so that commits wait only briefly.
pub const PRUNE_LIMIT: usize = 10_000;

/// Chains events to the newest row. Returns the new end of the chain, or `None` without events.
pub fn append_events(
    connection: &Connection,
    events: impl IntoIterator<Item = AuditEvent>,
) -> Result<Option<ChainHead>, DatabaseError> {
    let mut last = None;
    for event in events {
        let head = match last {
            Some(head) => head,
            None => newest(connection)?,
        };
        let row = AuditRow::seal_after(head, event);
        insert_row(connection, &row)?;
        last = Some(row.head());
    }
    Ok(last)
}

/// Inserts a sealed row unchanged.
pub fn insert_row(connection: &Connection, row: &AuditRow) -> Result<(), DatabaseError> {
    static INSERT: LazyLock<String> = LazyLock::new(|| AUDIT.insert());
    let AuditRow { number, hash, text } = row;
    connection.prepare_cached(&INSERT)?.execute((number, &hash.0, &**text))?;
    Ok(())
}

pub fn newest(connection: &Connection) -> Result<ChainHead, DatabaseError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        let verify = AUDIT.verify("");
        format!("SELECT number, hash, {verify} FROM audit ORDER BY number DESC LIMIT 1")
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let mut rows = select.query([])?;
    match rows.next()? {
        Some(row) => chain_head(row),
        None => Ok(ChainHead::default()),
    }
}

/// Returns the rows from this number on, up to `limit`. Stops after the row that exceeds
/// `max_bytes` of text.
pub fn rows(
    connection: &Connection,
    from: u64,
    limit: usize,
    max_bytes: usize,
) -> Result<Vec<AuditRow>, DatabaseError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT number, hash, text, {} FROM audit WHERE number >= ?1 ORDER BY number LIMIT ?2",
        AUDIT.verify("")
    ))?;
    // SQLite has no integers above `i64::MAX`.
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut selected = select.query((from, limit))?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = selected.next()? {
        let row = audit_row(row)?;
        // Pruning removes only the oldest rows, so a gap or another order is damage.
        if rows.last().is_some_and(|last: &AuditRow| row.number != last.number + 1) {
            return Err(DatabaseError::damaged("the order of the audit log"));
        }
        bytes += row.text.len();
        rows.push(row);
        if bytes > max_bytes {
            break;
        }
    }
    Ok(rows)
}

fn audit_row(row: &Row<'_>) -> Result<AuditRow, DatabaseError> {
    let ChainHead { number, hash } = chain_head(row)?;
    Ok(AuditRow { number, hash, text: row.get_ref(2)?.as_str()?.into() })
}

fn chain_head(row: &Row<'_>) -> Result<ChainHead, DatabaseError> {
    let Ok(hash) = row.get_ref(1)?.as_blob()?.try_into() else {
        return Err(DatabaseError::damaged("a hash of the audit log"));
    };
    Ok(ChainHead { number: row.get(0)?, hash: RowHash(hash) })
}

#[derive(Debug, Default)]
pub struct PruneOutcome {
    pub removed: usize,
    /// The unreadable row at which pruning stopped.
    pub unreadable: Option<u64>,
}

impl PruneOutcome {
    /// Logs an unreadable row, once per process.
    pub fn warn_once(&self) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        if let Some(row) = self.unreadable
            && !WARNED.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                row,
                "an audit row is unreadable, so it and all later rows are kept; run `reqlore audit \
                 verify`"
            );
        }
    }
}

/// Prunes one step. The age of a row is read only from its sealed text.
pub fn prune(
    connection: &Connection,
    older_than: Timestamp,
    now: Timestamp,
) -> Result<PruneOutcome, DatabaseError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT number, hash, text, {} FROM audit ORDER BY number LIMIT ?1",
        AUDIT.verify("")
    ))?;
    let mut oldest = select.query([PRUNE_LIMIT])?;
    let (mut last, mut unreadable) = (None, None);
    while let Some(row) = oldest.next()? {
        let row = audit_row(row)?;
        match row.parse_event() {
            Some(entry) if entry.at < older_than => last = Some(row.number),
            // Only the oldest rows are removed, so that the chain has no gap.
            Some(_) => break,
            None => {
                unreadable = Some(row.number);
                break;
            }
        }
    }
    drop(oldest);
    // The row of the pruning is appended first: the newest row may be pruned too.
    let Some(last) = last else { return Ok(PruneOutcome { removed: 0, unreadable }) };
    append_events(connection, [AuditEvent::pruned(last, now)])?;
    let mut delete = connection.prepare_cached("DELETE FROM audit WHERE number <= ?1")?;
    Ok(PruneOutcome { removed: delete.execute([last])?, unreadable })
}
