//! Idempotency records. A commit inserts its record; the response is added later.

use reqlore_domain::ports::idempotency::IdempotencyRecord;
use reqlore_domain::timestamp::Timestamp;
use rusqlite::Connection;

use crate::error::DatabaseError;
use crate::json;

/// Maximum number of records that one step deletes, so that commits wait only briefly.
pub const EXPIRE_LIMIT: usize = 10_000;

pub fn find(
    connection: &Connection,
    key: &str,
) -> Result<Option<IdempotencyRecord>, DatabaseError> {
    let select = "SELECT text, answer FROM answers WHERE key = ?1";
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let record: IdempotencyRecord = json::from_column(row, 0, "an idempotency record")?;
    let answer: Option<String> = row.get(1)?;
    Ok(Some(IdempotencyRecord { answer: answer.map(Into::into), ..record }))
}

/// Inserts a record, or replaces an expired one.
pub fn insert(
    connection: &Connection,
    key: &str,
    record: &IdempotencyRecord,
) -> Result<(), DatabaseError> {
    // Without NULL the response of an expired record would belong to the new write.
    let mut upsert = connection.prepare_cached(
        "INSERT INTO answers (key, at, text) VALUES (?1, ?2, ?3) \
         ON CONFLICT (key) DO UPDATE SET at = excluded.at, text = excluded.text, answer = NULL",
    )?;
    upsert.execute((key, record.at.0, json::to_text(record)?))?;
    Ok(())
}

pub fn save_response(
    connection: &Connection,
    key: &str,
    response: &str,
) -> Result<(), DatabaseError> {
    let update = "UPDATE answers SET answer = ?2 WHERE key = ?1";
    connection.prepare_cached(update)?.execute((key, response))?;
    Ok(())
}

/// Deletes up to [`EXPIRE_LIMIT`] records of writes before this time. Returns their number.
pub fn expire(connection: &Connection, before: Timestamp) -> Result<usize, DatabaseError> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM answers WHERE id IN \
         (SELECT id FROM answers WHERE at < ?1 ORDER BY at LIMIT ?2)",
    )?;
    Ok(delete.execute((before.0, EXPIRE_LIMIT))?)
}
