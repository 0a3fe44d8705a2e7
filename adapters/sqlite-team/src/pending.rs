//! Write-ahead intents: audit rows and idempotency records stored before a commit changes files.

use reqlore_domain::audit_log::{AuditEvent, AuditTarget};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::idempotency::IdempotencyRecord;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use rusqlite::Connection;

use crate::checksum::TableLayout;
use crate::error::DatabaseError;
use crate::{audit, idempotency};

pub const PENDING: TableLayout = TableLayout {
    name: "pending",
    columns: &["project", "audit_number", "idempotency_key", "withdrawn"],
};

#[derive(Debug, Clone)]
pub struct PendingCommit {
    pub id: i64,
    pub audit_number: Option<u64>,
    pub idempotency_key: Option<String>,
    /// The commit's files were restored, so their present content does not matter.
    pub is_rolled_back: bool,
}

/// Inserts the sealed audit row, the idempotency record and the intent. Rejects a key that any
/// project used or is using.
pub fn prepare(
    connection: &Connection,
    project: &ProjectKey,
    event: Option<AuditEvent>,
    record: Option<&(String, IdempotencyRecord)>,
    now: Timestamp,
) -> Result<PendingCommit, DatabaseError> {
    if let Some((key, record)) = record {
        // The pending commit may still be rolled back, so its record is not valid yet.
        if is_pending(connection, key)? {
            let reason = "Another call with the same idempotency key is running; try again in a \
                          moment. Nothing was written.";
            return Err(StoreError::Busy { reason: reason.to_owned() }.into());
        }
        if let Some(used) = idempotency::find(connection, key)?
            && used.is_valid_at(now)
        {
            return Err(StoreError::Repeated(Box::new(used)).into());
        }
        idempotency::insert(connection, key, record)?;
    }
    let audit_number = audit::append_events(connection, event)?.map(|head| head.number);
    let key = record.map(|(key, _)| key.as_str());
    insert(connection, project, audit_number, key)
}

pub fn insert(
    connection: &Connection,
    project: &ProjectKey,
    audit_number: Option<u64>,
    key: Option<&str>,
) -> Result<PendingCommit, DatabaseError> {
    let mut insert = connection.prepare_cached(&PENDING.insert())?;
    insert.execute((project.as_str(), audit_number, key, false))?;
    let (id, idempotency_key) = (connection.last_insert_rowid(), key.map(str::to_owned));
    Ok(PendingCommit { id, audit_number, idempotency_key, is_rolled_back: false })
}

fn is_pending(connection: &Connection, key: &str) -> Result<bool, DatabaseError> {
    // All rows are verified: a damaged key must not pass as another one.
    let select = format!(
        "SELECT coalesce(max(idempotency_key IS ?1), 0), min({}) FROM pending",
        PENDING.verify("")
    );
    Ok(connection.prepare_cached(&select)?.query_one([key], |row| row.get(0))?)
}

/// Returns the record of a key, unless its commit is pending.
pub fn find_confirmed(
    connection: &Connection,
    key: &str,
) -> Result<Option<IdempotencyRecord>, DatabaseError> {
    let record = idempotency::find(connection, key)?;
    Ok(if record.is_some() && is_pending(connection, key)? { None } else { record })
}

pub fn projects(connection: &Connection) -> Result<Vec<ProjectKey>, DatabaseError> {
    let select = format!("SELECT DISTINCT project, {} FROM pending", PENDING.verify(""));
    let mut select = connection.prepare_cached(&select)?;
    select.query_and_then([], |row| Ok(ProjectKey::new(row.get::<_, String>(0)?)))?.collect()
}

pub fn intents_of_project(
    connection: &Connection,
    project: &ProjectKey,
) -> Result<Vec<PendingCommit>, DatabaseError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT id, audit_number, idempotency_key, withdrawn, {} FROM pending \
         WHERE project = ?1 ORDER BY id",
        PENDING.verify("")
    ))?;
    let mut rows = select.query([project.as_str()])?;
    let mut commits = Vec::new();
    while let Some(row) = rows.next()? {
        commits.push(PendingCommit {
            id: row.get(0)?,
            audit_number: row.get(1)?,
            idempotency_key: row.get(2)?,
            is_rolled_back: row.get(3)?,
        });
    }
    Ok(commits)
}

/// Returns the documents of a commit, from its audit row or else its idempotency record.
pub fn commit_targets(
    connection: &Connection,
    commit: &PendingCommit,
) -> Result<Vec<AuditTarget>, DatabaseError> {
    if let Some(number) = commit.audit_number {
        let rows = audit::rows(connection, number, 1, usize::MAX)?;
        // A pruned row is missing, and the query then returns the next one.
        if let Some(row) = rows.first()
            && row.number == number
            && let Some(event) = row.parse_event()
        {
            return Ok(event.targets);
        }
    }
    let Some(key) = &commit.idempotency_key else { return Ok(Vec::new()) };
    match idempotency::find(connection, key)? {
        Some(record) => Ok(record.targets),
        None => Ok(Vec::new()),
    }
}

/// Deletes the intent of a commit whose files were replaced.
pub fn confirm(connection: &Connection, commit: &PendingCommit) -> Result<(), DatabaseError> {
    delete_intent(connection, commit)?;
    Ok(())
}

/// Returns false if another process deleted the intent before.
fn delete_intent(connection: &Connection, commit: &PendingCommit) -> Result<bool, DatabaseError> {
    let delete = "DELETE FROM pending WHERE id = ?1";
    Ok(connection.prepare_cached(delete)?.execute([commit.id])? > 0)
}

pub fn mark_rolled_back(
    connection: &Connection,
    commit: &PendingCommit,
) -> Result<(), DatabaseError> {
    let update = PENDING.update(&[("withdrawn", "1")], "id = ?1");
    connection.prepare_cached(&update)?.execute([commit.id])?;
    Ok(())
}

/// Releases the key, appends the `audit/unconfirmed` row and deletes the intent.
pub fn roll_back(
    connection: &Connection,
    commit: &PendingCommit,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    // Another process may have recovered this commit.
    if !delete_intent(connection, commit)? {
        return Ok(());
    }
    if let Some(key) = &commit.idempotency_key {
        connection.prepare_cached("DELETE FROM answers WHERE key = ?1")?.execute([key])?;
    }
    // Rows form a chain, so none is removed; a later row declares it as unconfirmed.
    let event = commit.audit_number.map(|number| AuditEvent::unconfirmed(number, now));
    audit::append_events(connection, event).map(drop)
}
