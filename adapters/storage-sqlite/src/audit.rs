//! The audit: rows in one chain, whoever appends them in whatever process.
//!
//! The trap: a row is sealed behind the newest one, so that one is read inside the transaction that
//! appends, and never remembered. There always is a newest one: what is pruned leaves a row behind.

use async_trait::async_trait;
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead, Hash};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::time::Timestamp;
use rusqlite::Connection;

use crate::SqliteStore;
use crate::error::Failed;
use crate::read::{unreadable, wrong_type};

/// At most so many rows go in one step, so that commits need not wait long.
const PRUNED_AT_ONCE: usize = 10_000;

#[async_trait]
impl AuditLog for SqliteStore {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.writer.run(|engine| engine.step(|connection| append(connection, entries))).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.pool.large(move |connection| rows(connection, from, limit, usize::MAX)).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.pool.single(newest).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        let mut gone = 0;
        loop {
            let step = self.writer.run(move |engine| engine.prune(older_than, now)).await?;
            gone += step as u64;
            if step < PRUNED_AT_ONCE {
                return Ok(gone);
            }
        }
    }
}

/// Seals these behind the newest row.
pub(crate) fn append(
    connection: &Connection,
    entries: impl IntoIterator<Item = AuditEvent>,
) -> Result<(), Failed> {
    let mut last = None;
    for entry in entries {
        let head = last.map_or_else(|| newest(connection), Ok)?;
        let row = AuditRow::after(head, entry);
        put(connection, &row)?;
        last = Some(row.head());
    }
    Ok(())
}

/// Takes in a row as it was sealed.
pub(crate) fn put(connection: &Connection, row: &AuditRow) -> Result<(), Failed> {
    let insert = "INSERT INTO audit (number, hash, text) VALUES (?1, ?2, ?3)";
    let AuditRow { number, hash, text } = row;
    connection.prepare_cached(insert)?.execute((number, &hash.0, &**text))?;
    Ok(())
}

fn newest(connection: &Connection) -> Result<ChainHead, Failed> {
    let select = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1";
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query([])?;
    rows.next()?.map_or_else(|| Ok(ChainHead::default()), head)
}

/// The rows from this number on, at most so many, and no more after so many bytes.
pub(crate) fn rows(
    connection: &Connection,
    from: u64,
    most: usize,
    most_bytes: usize,
) -> Result<Vec<AuditRow>, Failed> {
    let mut select = connection.prepare_cached(
        "SELECT number, hash, text FROM audit WHERE number >= ?1 ORDER BY number LIMIT ?2",
    )?;
    let bounded = |number| i64::try_from(number).unwrap_or(i64::MAX);
    let mut found = select.query((bounded(from), bounded(most as u64)))?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let ChainHead { number, hash } = head(row)?;
        let text = row.get_ref(2)?.as_str().map_err(wrong_type)?;
        bytes += text.len();
        rows.push(AuditRow { number, hash, text: text.into() });
        if bytes > most_bytes {
            break;
        }
    }
    Ok(rows)
}

fn head(row: &rusqlite::Row<'_>) -> Result<ChainHead, Failed> {
    let hash = row.get_ref(1)?.as_blob().map_err(wrong_type)?;
    let hash = hash.try_into().map_err(|_| unreadable("the hash of a row of the audit is"))?;
    Ok(ChainHead { number: row.get(0)?, hash: Hash(hash) })
}

pub(crate) struct Pruned {
    pub(crate) gone: usize,
    /// The row that stopped it because nobody knows how old it is.
    pub(crate) unknown: Option<u64>,
}

/// One step. What follows is sealed behind the row that says what went. How old a row is says its
/// sealed text alone.
pub(crate) fn prune(
    connection: &Connection,
    older_than: Timestamp,
    now: Timestamp,
) -> Result<Pruned, Failed> {
    let select = "SELECT number, hash, text FROM audit ORDER BY number LIMIT ?1";
    let mut select = connection.prepare_cached(select)?;
    let mut oldest = select.query([PRUNED_AT_ONCE])?;
    let (mut last, mut unknown) = (None, None);
    while let Some(row) = oldest.next()? {
        let ChainHead { number, hash } = head(row)?;
        let text = row.get_ref(2)?.as_str().map_err(wrong_type)?;
        match (AuditRow { number, hash, text: text.into() }).entry() {
            Some(entry) if entry.at < older_than => last = Some(number),
            Some(_) => break,
            None => {
                unknown = Some(number);
                break;
            }
        }
    }
    drop(oldest);
    let Some(last) = last else { return Ok(Pruned { gone: 0, unknown }) };
    append(connection, [AuditEvent::pruned(last, now)])?;
    let mut delete = connection.prepare_cached("DELETE FROM audit WHERE number <= ?1")?;
    Ok(Pruned { gone: delete.execute([last])?, unknown })
}
