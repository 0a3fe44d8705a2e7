//! Idempotency records. A commit inserts its record; the response is added later.

use std::sync::LazyLock;

use reqlore_domain::ports::idempotency::IdempotencyRecord;
use reqlore_domain::timestamp::Timestamp;
use rusqlite::Connection;

use crate::checksum::TableLayout;
use crate::error::DatabaseError;
use crate::json;

pub const ANSWERS: TableLayout =
    TableLayout { name: "answers", columns: &["key", "at", "text", "answer"] };

/// Maximum number of records that one step deletes, so that commits wait only briefly.
pub const EXPIRE_LIMIT: usize = 10_000;

pub fn find(
    connection: &Connection,
    key: &str,
) -> Result<Option<IdempotencyRecord>, DatabaseError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT text, answer, {} FROM answers WHERE key = ?1", ANSWERS.verify(""))
    });
    let mut select = connection.prepare_cached(&SELECT)?;
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
    static UPSERT: LazyLock<String> = LazyLock::new(|| ANSWERS.upsert("key"));
    let mut upsert = connection.prepare_cached(&UPSERT)?;
    // Without NULL the response of an expired record would belong to the new write.
    upsert.execute((key, record.at.0, json::to_text(record)?, None::<&str>))?;
    Ok(())
}

pub fn save_response(
    connection: &Connection,
    key: &str,
    response: &str,
) -> Result<(), DatabaseError> {
    static UPDATE: LazyLock<String> =
        LazyLock::new(|| ANSWERS.update(&[("answer", "?2")], "key = ?1"));
    connection.prepare_cached(&UPDATE)?.execute((key, response))?;
    Ok(())
}

/// Erases all responses. Their writes still happen once.
pub fn erase_responses(connection: &Connection) -> Result<(), DatabaseError> {
    let update = ANSWERS.update(&[("answer", "NULL")], "answer IS NOT NULL");
    connection.execute(&update, [])?;
    Ok(())
}

/// Deletes up to [`EXPIRE_LIMIT`] records of writes before this time. Returns their number.
pub fn expire(connection: &Connection, before: Timestamp) -> Result<usize, DatabaseError> {
    // A damaged time must not remove a record early: its write could be repeated.
    let mut delete = connection.prepare_cached(&format!(
        "DELETE FROM answers WHERE (id, 1) IN \
         (SELECT id, {} FROM answers WHERE at < ?1 ORDER BY at LIMIT ?2)",
        ANSWERS.verify("")
    ))?;
    Ok(delete.execute((before.0, EXPIRE_LIMIT))?)
}
