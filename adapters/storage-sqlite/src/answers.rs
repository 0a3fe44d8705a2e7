//! The keys of writes that may come twice: what happened under them, and what was answered.
//!
//! The trap: a commit stores its key itself, in its own savepoint; only the answer comes later.

use async_trait::async_trait;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::time::Timestamp;
use rusqlite::Connection;

use crate::error::Failed;
use crate::{SqliteStore, json};

/// At most so many keys go in one step, so that commits need not wait long.
const FORGOTTEN_AT_ONCE: usize = 10_000;

#[async_trait]
impl IdempotencyStore for SqliteStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        self.pool.single(move |connection| find_record(connection, &key)).await
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        let key = key.to_owned();
        let keep = move |connection: &_| keep(connection, &key, &answer);
        self.writer.run(|engine| engine.step(keep)).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        loop {
            let forget = move |connection: &_| forget(connection, before);
            if self.writer.run(move |engine| engine.step(forget)).await? < FORGOTTEN_AT_ONCE {
                return Ok(());
            }
        }
    }
}

pub(crate) fn find_record(
    connection: &Connection,
    key: &str,
) -> Result<Option<IdempotencyRecord>, Failed> {
    let select = "SELECT text, answer FROM answers WHERE key = ?1";
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let earlier: IdempotencyRecord = json::parsed(row, 0, "what happened under a key is")?;
    let answer: Option<String> = row.get(1)?;
    Ok(Some(IdempotencyRecord { answer: answer.map(Into::into), ..earlier }))
}

/// Also over one that is too old to count.
pub(crate) fn insert(
    connection: &Connection,
    key: &str,
    earlier: &IdempotencyRecord,
) -> Result<(), Failed> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO answers (key, at, text) VALUES (?1, ?2, ?3) \
         ON CONFLICT (key) DO UPDATE SET at = excluded.at, text = excluded.text, answer = NULL",
    )?;
    upsert.execute((key, earlier.at.0, json::written(earlier)?))?;
    Ok(())
}

fn keep(connection: &Connection, key: &str, answer: &str) -> Result<(), Failed> {
    let update = "UPDATE answers SET answer = ?2 WHERE key = ?1";
    connection.prepare_cached(update)?.execute((key, answer))?;
    Ok(())
}

fn forget(connection: &Connection, before: Timestamp) -> Result<usize, Failed> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM answers WHERE id IN \
         (SELECT id FROM answers WHERE at < ?1 ORDER BY at LIMIT ?2)",
    )?;
    Ok(delete.execute((before.0, FORGOTTEN_AT_ONCE))?)
}
