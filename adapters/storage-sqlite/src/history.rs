//! Earlier versions of documents.
//!
//! The present version is stored with its document only. A change that replaces or deletes it moves
//! it to `history` and its text to `history_texts`, in the same transaction.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::archive::HistoryRecord;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::{
    ChangeOrigin, DocumentHistory, HistoryEntry, HistoryPage, HistoryQuery, PastContent, PastEntry,
    RecentChange, TextHash, check_purge,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_sqlite_team::error::{refused, unavailable};
use reqlore_sqlite_team::{audit, idempotency};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};

use crate::commit_count::count_commit;
use crate::connection::{ConnectionUse, Connector, run_blocking};
use crate::damage::CheckStage;
use crate::error::{DATABASE_NAME, QueryError};
use crate::tables::{DOCUMENTS, HISTORY};
use crate::{SqliteStore, read};

/// Maximum number of entries that one step of a pruning removes.
const PRUNE_LIMIT: usize = 1_000;

/// Project, kind, name, number and hash of an entry.
type EntryKey = (i64, String, String, u64, Option<[u8; 32]>);

/// Returns the present version of a document as the entry that it becomes when a change at `ended`
/// replaces it.
pub(crate) fn present_version(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
    ended: Timestamp,
) -> Result<Option<PastEntry>, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT d.kind, d.name, d.version, b.body, d.number, d.modified, d.user, d.tool, \
             d.reason, {} FROM documents d LEFT JOIN bodies b ON b.document = d.id \
             WHERE d.project = ?1 AND d.kind = ?2 AND d.name = ?3",
            DOCUMENTS.verify("d.")
        )
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let mut rows = select.query((project, id.kind.name(), &id.name))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(PastEntry {
        // Verified, because the history gives the body a hash of its own.
        content: PastContent::Text(read::decode_document(row)?.body),
        number: row.get(4)?,
        at: Timestamp(row.get(5)?),
        ended,
        origin: decode_origin(row, 6)?,
    }))
}

/// Returns the number of the first version of a new document. A document with the same name may
/// have been deleted.
pub(crate) fn next_number(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
) -> Result<u64, QueryError> {
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT number + 1, {} FROM history WHERE project = ?1 AND kind = ?2 AND name = ?3 \
             ORDER BY number DESC LIMIT 1",
            HISTORY.verify("")
        )
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let next = select.query_one((project, id.kind.name(), &id.name), |row| row.get(0));
    Ok(next.optional()?.unwrap_or(1))
}

/// Inserts an entry and its text.
pub(crate) fn insert_entry(
    connection: &Connection,
    project: i64,
    id: &DocumentId,
    entry: &PastEntry,
) -> Result<(), QueryError> {
    static INSERT: LazyLock<String> = LazyLock::new(|| HISTORY.insert());
    let (kind, name) = (id.kind.name(), &id.name);
    let (hash, purged) = match &entry.content {
        PastContent::Deleted => (None, false),
        PastContent::Text(body) => (Some(TextHash::of_bytes(body)), false),
        PastContent::Purged(hash) => (Some(*hash), true),
    };
    if let (PastContent::Text(body), Some(hash)) = (&entry.content, hash) {
        // Versions with the same text share one row.
        let mut insert = connection.prepare_cached(
            "INSERT OR IGNORE INTO history_texts (project, kind, name, hash, body) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        insert.execute((project, kind, name, hash.0, &body[..]))?;
    }
    let mut insert = connection.prepare_cached(&INSERT)?;
    let PastEntry { number, at, ended, origin, .. } = entry;
    let ChangeOrigin { user, tool, reason } = origin;
    let hash = hash.map(|hash| hash.0);
    insert.execute(rusqlite::params![
        name, kind, project, number, hash, at.0, ended.0, user, tool, reason, purged
    ])?;
    Ok(())
}

/// Reads user, tool and reason from three columns.
pub(crate) fn decode_origin(row: &Row<'_>, first: usize) -> rusqlite::Result<ChangeOrigin> {
    Ok(ChangeOrigin {
        user: row.get(first)?,
        tool: row.get(first + 1)?,
        reason: row.get(first + 2)?,
    })
}

fn page(
    connection: &Connection,
    project: &ProjectKey,
    id: &DocumentId,
    before: u64,
    limit: usize,
) -> Result<HistoryPage, QueryError> {
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let project = read::project_id(connection, project)?;
    let (kind, name) = (id.kind.name(), &id.name);
    let mut entries = Vec::new();
    let mut present = connection.prepare_cached(&format!(
        "SELECT number, modified, version, user, tool, reason, {} FROM documents \
         WHERE project = ?1 AND kind = ?2 AND name = ?3 AND number < ?4",
        DOCUMENTS.verify("")
    ))?;
    let mut rows = present.query((project, kind, name, before))?;
    if let Some(row) = rows.next()? {
        let (at, origin) = (Timestamp(row.get(1)?), decode_origin(row, 3)?);
        let version = Some(read::decode_version(row, 2)?);
        entries.push((row.get(0)?, HistoryEntry { version, at, origin, is_purged: false }));
    }
    let mut past = connection.prepare_cached(&format!(
        "SELECT number, at, hash, user, tool, reason, purged, {} FROM history \
         WHERE project = ?1 AND kind = ?2 AND name = ?3 AND number < ?4 \
         ORDER BY number DESC LIMIT ?5",
        HISTORY.verify("")
    ))?;
    // One entry beyond the limit shows whether there is another page.
    let mut rows = past.query((project, kind, name, before, read::sql_limit(limit, 1)))?;
    while let Some(row) = rows.next()? {
        let (at, origin) = (Timestamp(row.get(1)?), decode_origin(row, 3)?);
        let version = row.get::<_, Option<[u8; 32]>>(2)?.map(|hash| TextHash(hash).version());
        entries.push((row.get(0)?, HistoryEntry { version, at, origin, is_purged: row.get(6)? }));
    }
    Ok(HistoryPage::from_numbered(entries, limit))
}

fn recent_changes(
    connection: &Connection,
    project: &ProjectKey,
    since: Timestamp,
    limit: usize,
) -> Result<Vec<RecentChange>, QueryError> {
    let project = read::project_id(connection, project)?;
    let mut changes = Vec::new();
    // A version that began at that time ended later, and the end has an index.
    for (columns, table, verified) in [
        ("modified AS at, version, 0", "documents WHERE modified >= ?2", DOCUMENTS.verify("")),
        ("at, hash, purged", "history WHERE ended >= ?2 AND at >= ?2", HISTORY.verify("")),
    ] {
        let mut select = connection.prepare_cached(&format!(
            "SELECT kind, name, number, user, tool, reason, {columns}, {verified} FROM {table} \
             AND project = ?1 ORDER BY at DESC LIMIT ?3"
        ))?;
        let mut rows = select.query((project, since.0, read::sql_limit(limit, 0)))?;
        while let Some(row) = rows.next()? {
            let Some(kind) = DocumentKind::from_name(row.get_ref(0)?.as_str()?) else {
                return Err(QueryError::damaged("a document's kind"));
            };
            let version = match row.get_ref(7)? {
                ValueRef::Text(_) => Some(read::decode_version(row, 7)?),
                _ => row.get::<_, Option<[u8; 32]>>(7)?.map(|hash| TextHash(hash).version()),
            };
            let (at, origin) = (Timestamp(row.get(6)?), decode_origin(row, 3)?);
            let entry = HistoryEntry { version, at, origin, is_purged: row.get(8)? };
            changes.push((DocumentId { kind, name: row.get(1)? }, row.get(2)?, entry));
        }
    }
    Ok(RecentChange::newest_first(changes, limit))
}

fn document_at(
    connection: &Connection,
    project: &ProjectKey,
    id: &DocumentId,
    version: Version,
) -> Result<Option<Document>, QueryError> {
    let project = read::project_id(connection, project)?;
    let present = read::documents(connection, project, std::slice::from_ref(id))?.pop().flatten();
    if present.as_ref().is_some_and(|document| document.version == version) {
        return Ok(present);
    }
    // The newest entry wins if two texts share the version.
    let mut select = connection.prepare_cached(&format!(
        "SELECT h.hash, t.body, {} FROM history h \
         LEFT JOIN history_texts t ON t.project = h.project \
         AND t.kind = h.kind AND t.name = h.name AND t.hash = h.hash \
         WHERE h.project = ?1 AND h.kind = ?2 AND h.name = ?3 AND NOT h.purged \
         AND lower(hex(substr(h.hash, 1, 8))) = ?4 \
         ORDER BY h.number DESC LIMIT 1",
        HISTORY.verify("h.")
    ))?;
    let row = (project, id.kind.name(), &id.name, version.to_string());
    let mut rows = select.query(row)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Document::new(id.clone(), decode_text(id, row, 0)?)))
}

/// Reads a text and checks it against its hash in the column before it.
fn decode_text(id: &DocumentId, row: &Row<'_>, first: usize) -> Result<Bytes, QueryError> {
    let body = row.get_ref(first + 1)?.as_blob_or_null()?.map(Bytes::copy_from_slice);
    match body {
        Some(body) if row.get::<_, [u8; 32]>(first)? == TextHash::of_bytes(&body).0 => Ok(body),
        _ => Err(QueryError::damaged(&format!("an earlier version of {id}"))),
    }
}

/// Names the documents with an earlier text that is missing or changed.
pub(crate) fn damaged_texts(connection: &Connection) -> Result<Vec<String>, QueryError> {
    let mut select = connection.prepare(
        "SELECT h.kind, h.name, h.hash, t.body FROM history h LEFT JOIN history_texts t \
         ON t.project = h.project AND t.kind = h.kind AND t.name = h.name AND t.hash = h.hash \
         WHERE h.hash IS NOT NULL AND NOT h.purged",
    )?;
    let mut rows = select.query([])?;
    let mut damage = Vec::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(3)?.as_blob_or_null()?;
        if body.map(|body| TextHash::of_bytes(body).0) != Some(row.get(2)?) {
            let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
            damage.push(format!("an earlier version of {kind} {name} is damaged"));
        }
    }
    Ok(damage)
}

/// The entries of a kind in the order of an archive, after this name and number.
pub(crate) fn archive_entries(
    connection: &Connection,
    (project, key): (i64, &ProjectKey),
    kind: DocumentKind,
    after: &(String, u64),
) -> Result<Vec<HistoryRecord>, QueryError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT h.number, h.at, h.ended, h.user, h.tool, h.reason, h.hash, t.body, h.purged, \
         h.name, {} \
         FROM history h LEFT JOIN history_texts t ON t.project = h.project AND t.kind = h.kind \
         AND t.name = h.name AND t.hash = h.hash AND NOT h.purged \
         WHERE h.project = ?1 AND h.kind = ?2 AND (h.name, h.number) > (?3, ?4) \
         ORDER BY h.name, h.number",
        HISTORY.verify("h.")
    ))?;
    let mut rows = select.query((project, kind.name(), &after.0, after.1))?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let document = DocumentId { kind, name: row.get(9)? };
        let content = match row.get::<_, Option<[u8; 32]>>(6)? {
            None => PastContent::Deleted,
            Some(hash) if row.get(8)? => PastContent::Purged(TextHash(hash)),
            Some(_) => PastContent::Text(decode_text(&document, row, 6)?),
        };
        bytes += content.text_bytes();
        let entry = PastEntry {
            number: row.get(0)?,
            at: Timestamp(row.get(1)?),
            ended: Timestamp(row.get(2)?),
            origin: decode_origin(row, 3)?,
            content,
        };
        records.push(HistoryRecord { project: key.clone(), document, entry });
        if records.len() >= read::BATCH_RECORDS || bytes > read::BATCH_BYTES {
            break;
        }
    }
    Ok(records)
}

/// Fails if an imported document has an earlier version with a later number.
pub(crate) fn check_numbers(connection: &Connection) -> Result<(), QueryError> {
    let select = "SELECT d.kind || ' ' || d.name FROM documents d WHERE d.number <= \
                  (SELECT max(number) FROM history h \
                  WHERE h.project = d.project AND h.kind = d.kind AND h.name = d.name) LIMIT 1";
    let wrong: Option<String> = connection.query_one(select, [], |row| row.get(0)).optional()?;
    match wrong {
        None => Ok(()),
        Some(document) => {
            let reason = format!("has earlier versions of {document} with later numbers");
            Err(refused("the source", reason).into())
        }
    }
}

/// Erases texts in one transaction. Returns the number of entries without a text.
fn purge(
    connector: &Connector,
    project: &ProjectKey,
    id: &DocumentId,
    version: Option<Version>,
    context: &WriteContext,
) -> Result<u64, QueryError> {
    connector.file.check_all_identities()?;
    let mut connection = connector.open(ConnectionUse::Write)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    read::check_complete(DATABASE_NAME, &transaction)?;
    let present = read::versions(&transaction, project, std::slice::from_ref(id))?.pop().flatten();
    check_purge(id, present, version)?;
    let mut count = 0;
    let home = read::project_id(&transaction, project)?;
    // The present text stays readable, even if it is also an earlier text.
    let purged = "project = ?1 AND kind = ?2 AND name = ?3 AND hash IS NOT NULL \
                  AND lower(hex(substr(hash, 1, 8))) IS NOT ?4 \
                  AND (?5 IS NULL OR lower(hex(substr(hash, 1, 8))) = ?5)";
    let delete_texts = format!("DELETE FROM history_texts WHERE {purged}");
    for statement in [delete_texts, HISTORY.update(&[("purged", "1")], purged)] {
        let (present, version) = (
            present.map(|version| version.to_string()),
            version.map(|version| version.to_string()),
        );
        let row = (home, id.kind.name(), &id.name, present, version);
        // The last count is returned: several entries may share one text.
        count = transaction.execute(&statement, row)?;
    }
    if count == 0 {
        return Ok(0);
    }
    idempotency::erase_responses(&transaction)?;
    let target = AuditTarget { name: id.to_string(), before: version, after: version };
    audit::append_events(&transaction, context.audit_event(Some(project), vec![target]))?;
    let commits = count_commit(&transaction)?;
    transaction.commit()?;
    connector.file.record_commit(commits);
    overwrite_free_space(&connection)?;
    Ok(count as u64)
}

/// Rewrites the whole file, because deleted bytes and earlier copies stay in free pages and in the
/// log.
fn overwrite_free_space(connection: &Connection) -> Result<(), QueryError> {
    // The rewritten copy may be larger than the memory.
    connection.pragma_update(None, "temp_store", "FILE")?;
    let vacuumed = connection.execute_batch("VACUUM");
    let is_blocked = match &vacuumed {
        // The first column is 1 if another process kept the log from being emptied.
        Ok(()) => connection.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?,
        Err(_) => true,
    };
    if !is_blocked {
        return Ok(());
    }
    let reason = "the text is erased from the history, but its bytes may remain in the file; stop \
                  other processes, free space on the disk, and purge again";
    Err(unavailable(DATABASE_NAME, reason).into())
}

/// Removes the entries that ended first. Returns their number.
fn prune(connection: &Connection, ended_before: Timestamp) -> Result<u64, QueryError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT project, kind, name, number, hash, {} FROM history WHERE ended < ?1 \
         ORDER BY ended LIMIT ?2",
        HISTORY.verify("")
    ))?;
    let mut delete = connection.prepare_cached(
        "DELETE FROM history WHERE project = ?1 AND kind = ?2 AND name = ?3 AND number = ?4",
    )?;
    // Another entry may have the same text.
    let mut delete_text = connection.prepare_cached(
        "DELETE FROM history_texts \
         WHERE project = ?1 AND kind = ?2 AND name = ?3 AND hash = ?4 AND NOT EXISTS \
         (SELECT 1 FROM history h WHERE h.project = ?1 AND h.kind = ?2 AND h.name = ?3 \
         AND h.hash = ?4 AND NOT h.purged)",
    )?;
    let keys = select.query_map((ended_before.0, PRUNE_LIMIT), |row| EntryKey::try_from(row))?;
    let keys = keys.collect::<Result<Vec<EntryKey>, _>>()?;
    for (project, kind, name, number, hash) in &keys {
        delete.execute((project, kind, name, number))?;
        delete_text.execute((project, kind, name, hash))?;
    }
    Ok(keys.len() as u64)
}

#[async_trait]
impl DocumentHistory for SqliteStore {
    async fn history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        query: &HistoryQuery,
    ) -> StoreResult<HistoryPage> {
        let before = query.before_number()?;
        let (project, id, limit) = (project.clone(), id.clone(), query.limit);
        self.damage.wait_for_stage(CheckStage::WholeFile).await?;
        self.pool
            .read_blocking(move |connection| page(connection, &project, &id, before, limit))
            .await
    }

    async fn document_at(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>> {
        let (project, id) = (project.clone(), id.clone());
        let found = self
            .pool
            .read_blocking(move |connection| document_at(connection, &project, &id, version))
            .await?;
        if found.is_none() {
            self.damage.wait_for_stage(CheckStage::WholeFile).await?;
        }
        Ok(found)
    }

    async fn recent_changes(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<RecentChange>> {
        let project = project.clone();
        self.damage.wait_for_stage(CheckStage::WholeFile).await?;
        let query =
            move |connection: &Connection| recent_changes(connection, &project, since, limit);
        self.pool.read_blocking(query).await
    }

    /// Runs on a connection of its own, because a rewrite of the file is no part of a group.
    async fn purge_history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: WriteContext,
    ) -> StoreResult<u64> {
        let (connector, project, id) = (self.connector.clone(), project.clone(), id.clone());
        let damage = Arc::clone(&self.damage);
        run_blocking(move || {
            damage.permit_write()?;
            purge(&connector, &project, &id, version, &context).map_err(|error| damage.note(error))
        })
        .await
    }

    async fn prune_history(&self, ended_before: Timestamp) -> StoreResult<u64> {
        self.run_write(move |connection| prune(connection, ended_before)).await
    }
}
