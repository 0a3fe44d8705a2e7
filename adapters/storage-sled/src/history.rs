//! Earlier versions of documents.
//!
//! The present version is stored with its document only. A change that replaces or deletes it puts
//! it into [`VERSIONS`] and its text into [`TEXTS`], in the same transaction.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::archive::HistoryRecord;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::{
    DocumentHistory, HistoryEntry, HistoryPage, HistoryQuery, PastContent, PastEntry, RecentChange,
    TextHash, check_purge,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::SledStore;
use crate::database::{SledDatabase, TEXTS, TreeBatch, VERSION_ENDS, VERSIONS};
use crate::error::{damaged_document, database_refused, from_sled};
use crate::records::{
    DocumentRow, ProjectRow, VersionRow, damaged_row, decode, document_key, encode, kind_prefix,
    origin_of_row, origin_row, parse_version_key, put_new_long, text_key, version_end_key,
    version_end_prefix, version_key, versions_prefix,
};
use crate::write::CommitGroup;

/// Maximum number of entries that one pruning removes, because they share one transaction.
const MAX_PRUNED_ENTRIES: usize = 500;

impl SledDatabase {
    /// Returns the number of the first version of a new document. A document with the same name
    /// may have been deleted.
    pub(crate) fn next_number(&self, project: u32, id: &DocumentId) -> StoreResult<u64> {
        match self.versions_of(project, id, u64::MAX).next() {
            Some(entry) => Ok(entry?.0 + 1),
            None => Ok(1),
        }
    }

    /// Iterates over the numbers and rows of a document's entries before a number, newest first.
    fn versions_of(
        &self,
        project: u32,
        id: &DocumentId,
        before: u64,
    ) -> impl Iterator<Item = StoreResult<(u64, VersionRow)>> + use<> {
        // The first byte of every number is 0, as in all keys of the document.
        let before = before.min(u64::MAX >> 8);
        let first = versions_prefix(project, id);
        let end = version_key(project, id, before);
        self.tree(VERSIONS).range(first..end).rev().map(|entry| {
            let (key, value) = entry.map_err(from_sled)?;
            let number = key.last_chunk().copied().map(u64::from_be_bytes);
            match (number, decode(&key, &value)) {
                (Some(number), Some(row)) => Ok((number, row)),
                _ => Err(damaged_row(VERSIONS)),
            }
        })
    }

    /// Iterates over the entries of all documents of a kind, by name and number.
    pub(crate) fn version_entries(
        &self,
        project: u32,
        kind: DocumentKind,
    ) -> impl Iterator<Item = StoreResult<(DocumentId, u64, VersionRow)>> + use<> {
        let prefix = kind_prefix(project, kind);
        self.tree(VERSIONS).scan_prefix(&prefix).map(move |entry| {
            let (key, value) = entry.map_err(from_sled)?;
            match (parse_version_key(&key[prefix.len()..]), decode(&key, &value)) {
                (Some((name, number)), Some(row)) => Ok((DocumentId { kind, name }, number, row)),
                _ => Err(damaged_row(VERSIONS)),
            }
        })
    }

    pub(crate) fn past_entry(
        &self,
        project: u32,
        id: &DocumentId,
        number: u64,
        row: VersionRow,
    ) -> StoreResult<PastEntry> {
        let content = match row.hash {
            None => PastContent::Deleted,
            Some(hash) if row.is_purged => PastContent::Purged(TextHash(hash)),
            Some(hash) => PastContent::Text(self.read_text(project, id, &hash)?),
        };
        let (at, ended, origin) = (row.at, row.ended, origin_of_row(row.origin));
        Ok(PastEntry { number, at, ended, origin, content })
    }

    fn read_text(&self, project: u32, id: &DocumentId, hash: &[u8; 32]) -> StoreResult<Bytes> {
        let text = self.long_value(TEXTS, &text_key(project, id, hash))?;
        match text {
            Some(text) if TextHash::of_bytes(&text).0 == *hash => Ok(text.into()),
            _ => Err(damaged_document(id)),
        }
    }

    /// Moves the present version of a document to the history, before a change of it.
    pub(crate) fn end_version(
        &self,
        batch: &mut TreeBatch,
        project: u32,
        id: &DocumentId,
        old: &DocumentRow,
        body: &[u8],
        ended: Timestamp,
    ) -> StoreResult<()> {
        let hash = Some(TextHash::of_bytes(body).0);
        let (at, origin) = (old.modified, old.origin.clone());
        let row = VersionRow { hash, at, ended, origin, is_purged: false };
        self.put_version(batch, project, id, old.number, &row, Some(body))
    }

    /// Moves the present version to the history, followed by the deletion.
    pub(crate) fn record_deletion(
        &self,
        batch: &mut TreeBatch,
        project: u32,
        id: &DocumentId,
        old: &DocumentRow,
        context: &WriteContext,
    ) -> StoreResult<()> {
        let body = self.read_body(&document_key(project, id), old, id)?;
        self.end_version(batch, project, id, old, &body, context.at)?;
        let (at, origin) = (context.at, origin_row(context.origin()));
        let row = VersionRow { hash: None, at, ended: at, origin, is_purged: false };
        self.put_version(batch, project, id, old.number + 1, &row, None)
    }

    fn put_version(
        &self,
        batch: &mut TreeBatch,
        project: u32,
        id: &DocumentId,
        number: u64,
        row: &VersionRow,
        body: Option<&[u8]>,
    ) -> StoreResult<()> {
        let key = version_key(project, id, number);
        batch.put(VERSION_ENDS, version_end_key(row.ended, &key), &[][..]);
        let value = encode(&key, row);
        batch.put(VERSIONS, key, value);
        if let (Some(body), Some(hash)) = (body, &row.hash) {
            let key = text_key(project, id, hash);
            // Each text of a document is stored once.
            if self.get(TEXTS, &key)?.is_none() {
                put_new_long(batch, TEXTS, &key, body);
            }
        }
        Ok(())
    }

    /// Imports an entry after its document.
    pub(crate) fn import_entry(
        &self,
        batch: &mut TreeBatch,
        record: &HistoryRecord,
    ) -> StoreResult<()> {
        let HistoryRecord { project, document, entry } = record;
        let mut project_row = self.project_row(project)?;
        if project_row.id == 0 {
            // All documents of the project were deleted.
            let mut batch = TreeBatch::default();
            self.begin_revision(&mut batch, project, &mut project_row)?;
            // Written at once, so that the next entry finds the project.
            crate::write::put_project(&mut batch, project, &project_row);
            self.write_batch(batch)?;
        }
        let key = document_key(project_row.id, document);
        let present = self.document_row(&key, document)?;
        if present.is_some_and(|present| present.number <= entry.number) {
            let reason =
                format!("was not filled: an earlier version of {document} has a later number");
            return Err(database_refused(&reason));
        }
        let (hash, body) = match &entry.content {
            PastContent::Deleted => (None, None),
            PastContent::Text(body) => (Some(TextHash::of_bytes(body)), Some(&body[..])),
            PastContent::Purged(hash) => (Some(*hash), None),
        };
        let row = VersionRow {
            hash: hash.map(|hash| hash.0),
            at: entry.at,
            ended: entry.ended,
            origin: origin_row(entry.origin.clone()),
            is_purged: matches!(entry.content, PastContent::Purged(_)),
        };
        self.put_version(batch, project_row.id, document, entry.number, &row, body)
    }

    fn history_page(
        &self,
        project: u32,
        id: &DocumentId,
        before: u64,
        limit: usize,
    ) -> StoreResult<HistoryPage> {
        let mut entries = Vec::new();
        let present = self.document_row(&document_key(project, id), id)?;
        if let Some(row) = present.filter(|row| row.number < before) {
            entries.push((row.number, present_entry(&row)));
        }
        // One entry beyond the limit shows whether there is another page.
        for entry in self.versions_of(project, id, before).take(limit.saturating_add(1)) {
            let (number, row) = entry?;
            entries.push((number, past_version(row)));
        }
        Ok(HistoryPage::from_numbered(entries, limit))
    }

    /// Reads all documents and entries, because sled has no order of changes by time.
    fn recent_changes(
        &self,
        project: u32,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<RecentChange>> {
        let mut changes = Vec::new();
        for kind in DocumentKind::ALL {
            for document in self.document_entries(project, kind, None) {
                let (id, key, value) = document?;
                let row = DocumentRow::decode(&key, &value);
                let row = row.ok_or_else(|| damaged_document(&id))?;
                changes.push((id, row.number, present_entry(&row)));
            }
            for entry in self.version_entries(project, kind) {
                let (id, number, row) = entry?;
                changes.push((id, number, past_version(row)));
            }
        }
        changes.retain(|(_, _, entry)| entry.at >= since);
        Ok(RecentChange::newest_first(changes, limit))
    }

    fn document_at(
        &self,
        project: u32,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>> {
        if let Some(document) = self.read_documents(project, std::slice::from_ref(id))?.remove(0)
            && document.version == version
        {
            return Ok(Some(document));
        }
        // The newest entry wins if two texts share the version.
        for entry in self.versions_of(project, id, u64::MAX) {
            let (_, row) = entry?;
            if let Some(hash) = row.hash
                && TextHash(hash).version() == version
                && !row.is_purged
            {
                let body = self.read_text(project, id, &hash)?;
                return Ok(Some(Document::new(id.clone(), body)));
            }
        }
        Ok(None)
    }
}

impl CommitGroup {
    fn purge_history(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: &WriteContext,
    ) -> StoreResult<u64> {
        self.write_pending()?;
        let database = Arc::clone(&self.database);
        let project_id = database.project_row(project)?.id;
        let present = database.read_versions(project_id, std::slice::from_ref(id))?.remove(0);
        check_purge(id, present, version)?;
        let mut batch = TreeBatch::default();
        let mut count = 0;
        for entry in database.versions_of(project_id, id, u64::MAX) {
            let (number, mut row) = entry?;
            let Some(hash) = row.hash else { continue };
            let entry_version = Some(TextHash(hash).version());
            // The present text stays readable, even if it is also an earlier text.
            if entry_version == present || version.is_some() && entry_version != version {
                continue;
            }
            count += 1;
            row.is_purged = true;
            let key = version_key(project_id, id, number);
            let value = encode(&key, &row);
            batch.put(VERSIONS, key, value);
            database.remove_long(&mut batch, TEXTS, &text_key(project_id, id, &hash))?;
        }
        if count > 0 {
            // In steps, because they may be larger than a batch. A repeated purge does the rest.
            self.erase_responses()?;
            let target = AuditTarget { name: id.to_string(), before: version, after: version };
            let event = context.audit_event(Some(project), vec![target]);
            let newest = self.append_events(&mut batch, event)?;
            self.add_pending(batch, newest);
        }
        Ok(count)
    }

    fn prune_history(&mut self, ended_before: Timestamp) -> StoreResult<u64> {
        self.write_pending()?;
        let database = Arc::clone(&self.database);
        let mut batch = TreeBatch::default();
        let mut count = 0;
        let ends = database.tree(VERSION_ENDS).range(..&version_end_prefix(ended_before)[..]);
        for end in ends.keys().take(MAX_PRUNED_ENTRIES) {
            let end = end.map_err(from_sled)?;
            // Eight bytes of time precede the key of the entry.
            let key = end.get(8..).unwrap_or_default();
            batch.remove(VERSION_ENDS, &end);
            batch.remove(VERSIONS, key);
            count += 1;
            let Some(value) = database.get(VERSIONS, key)? else { continue };
            let row: VersionRow = decode(key, &value).ok_or_else(|| damaged_row(VERSIONS))?;
            if let Some(hash) = row.hash
                && !database.is_text_used(&batch, key, &hash)?
            {
                let text_key = [&key[..key.len() - 8], &hash].concat();
                database.remove_long(&mut batch, TEXTS, &text_key)?;
            }
        }
        self.add_pending(batch, None);
        self.write_pending()?;
        Ok(count)
    }
}

impl SledDatabase {
    /// True if an entry of the same document that stays after the batch has this text.
    fn is_text_used(&self, batch: &TreeBatch, key: &[u8], hash: &[u8; 32]) -> StoreResult<bool> {
        let prefix = &key[..key.len() - 8];
        // Numbers start with the byte 0, so this range holds all entries of the document.
        for entry in self.tree(VERSIONS).range(prefix..&[prefix, &[1]].concat()[..]) {
            let (other, value) = entry.map_err(from_sled)?;
            // An entry in the batch is removed by this pruning, too.
            if batch.get(VERSIONS, &other).is_some() {
                continue;
            }
            let row: VersionRow = decode(&other, &value).ok_or_else(|| damaged_row(VERSIONS))?;
            if row.hash.as_ref() == Some(hash) && !row.is_purged {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn present_entry(row: &DocumentRow) -> HistoryEntry {
    let (version, at, origin) = (Some(row.version), row.modified, row.entry().origin);
    HistoryEntry { version, at, origin, is_purged: false }
}

fn past_version(row: VersionRow) -> HistoryEntry {
    HistoryEntry {
        version: row.hash.map(|hash| TextHash(hash).version()),
        at: row.at,
        origin: origin_of_row(row.origin),
        is_purged: row.is_purged,
    }
}

#[async_trait]
impl DocumentHistory for SledStore {
    async fn history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        query: &HistoryQuery,
    ) -> StoreResult<HistoryPage> {
        let (before, limit, id) = (query.before_number()?, query.limit, id.clone());
        self.query_project(project, false, move |db, row| {
            db.history_page(row.id, &id, before, limit)
        })
        .await
    }

    async fn document_at(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>> {
        let id = id.clone();
        self.query_project(project, false, move |db, row| db.document_at(row.id, &id, version))
            .await
    }

    async fn recent_changes(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<RecentChange>> {
        let query =
            move |db: &SledDatabase, row: &ProjectRow| db.recent_changes(row.id, since, limit);
        self.query_project(project, false, query).await
    }

    /// sled keeps removed bytes in its file until it reuses their space.
    async fn purge_history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: WriteContext,
    ) -> StoreResult<u64> {
        let (project, id) = (project.clone(), id.clone());
        self.run_write(move |group| group.purge_history(&project, &id, version, &context)).await
    }

    async fn prune_history(&self, ended_before: Timestamp) -> StoreResult<u64> {
        self.run_write(move |group| group.prune_history(ended_before)).await
    }
}
