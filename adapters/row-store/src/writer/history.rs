//! Changes of the history: new entries, purges and pruning.

use std::collections::BTreeSet;

use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::{PastContent, PastEntry, TextHash, check_purge};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::records::body_keys;
use crate::records::{
    DocumentRow, EntryRow, ProjectRow, RowReader, document_key, encode_entry, text_rows,
};
use crate::row::{RowKey, RowQuery, Value};
use crate::tables::{DOCUMENTS, HISTORY, IDEMPOTENCY, PROJECTS, TEXTS};
use crate::writer::GroupWriterEngine;

/// Maximum number of rows that one transaction removes.
pub(crate) const STEP_ROWS: usize = 1_000;

impl GroupWriterEngine {
    /// Stores an entry and its text. Entries with the same text share its rows.
    pub(crate) fn put_entry(&mut self, project: &ProjectKey, id: &DocumentId, entry: &PastEntry) {
        let key = document_key(project, id);
        if let PastContent::Text(body) = &entry.content {
            let text_key = key.with(&[TextHash::of_bytes(body).0[..].into()]);
            for row in text_rows(&text_key, body) {
                self.transaction.put(&TEXTS, row);
            }
        }
        self.transaction.put(&HISTORY, encode_entry(&key, entry));
    }

    /// Erases texts. Returns the number of entries without a text.
    pub(crate) fn purge(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: &WriteContext,
    ) -> StoreResult<u64> {
        let present = self.present_row(project, id)?.map(|row| row.version);
        check_purge(id, present, version)?;
        let key = document_key(project, id);
        let query = RowQuery::keys(&HISTORY, vec![key.clone()]);
        let mut erased = 0;
        for row in self.transaction.select_one(query)? {
            let entry = EntryRow::decode(&row)?;
            let Some(hash) = entry.hash else { continue };
            // The present text stays readable, even if it is also an earlier text.
            let is_present = Some(hash.version()) == present;
            if is_present || version.is_some_and(|version| hash.version() != version) {
                continue;
            }
            for key in text_keys(&key, hash, entry.parts) {
                self.transaction.delete(&TEXTS, key);
            }
            let EntryRow { number, at, ended, origin, .. } = entry;
            let purged = PastContent::Purged(hash);
            let entry = PastEntry { number, at, ended, origin, content: purged };
            self.transaction.put(&HISTORY, encode_entry(&key, &entry));
            erased += 1;
        }
        if erased == 0 {
            return Ok(0);
        }
        self.erase_responses()?;
        let target = AuditTarget { name: id.to_string(), before: version, after: version };
        self.append_events(context.audit_event(Some(project), vec![target]))?;
        Ok(erased)
    }

    /// Erases all stored answers. Their writes still happen once.
    pub(crate) fn erase_responses(&mut self) -> StoreResult<()> {
        loop {
            let query = RowQuery {
                not_null: Some("response"),
                ..RowQuery::all(&IDEMPOTENCY).limited_to(STEP_ROWS)
            };
            let rows = self.transaction.select_one(query)?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let erased = row.prefix(IDEMPOTENCY.columns.len() - 1).with(&[Value::Null]);
                self.transaction.put(&IDEMPOTENCY, erased);
            }
        }
    }

    /// Removes the entries that ended first. Returns their number.
    pub(crate) fn prune_history(&mut self, ended_before: Timestamp) -> StoreResult<u64> {
        let query = RowQuery::all(&HISTORY)
            .within("ended", Value::Integer(i64::MIN)..ended_before.0.into())
            .sorted_by(&["ended", "number"])
            .limited_to(STEP_ROWS);
        let rows = self.transaction.select_one(query)?;
        let (count, mut documents, mut texts) = (rows.len(), BTreeSet::new(), Vec::new());
        for row in rows {
            let document = row.prefix(DOCUMENTS.key_width);
            let entry = EntryRow::decode(&row)?;
            self.transaction.delete(&HISTORY, row.prefix(HISTORY.key_width));
            match entry.hash {
                Some(hash) => texts.push((document.clone(), hash, entry.parts)),
                None => self.forget_deletion(&document, entry.number)?,
            }
            documents.insert(document);
        }
        if documents.is_empty() {
            return Ok(0);
        }
        // Another entry may have the same text.
        let query = RowQuery::keys(&HISTORY, documents.into_iter().collect());
        let mut kept = BTreeSet::new();
        for row in self.transaction.select_one(query)? {
            let document = row.prefix(DOCUMENTS.key_width);
            kept.extend(EntryRow::decode(&row)?.hash.map(|hash| (document, hash)));
        }
        for (document, hash, parts) in texts {
            if kept.contains(&(document.clone(), hash)) {
                continue;
            }
            for key in text_keys(&document, hash, parts) {
                self.transaction.delete(&TEXTS, key);
            }
        }
        Ok(count as u64)
    }

    /// Removes the row of a deleted document whose deletion is pruned. Positions before it become
    /// unknown.
    fn forget_deletion(&mut self, key: &RowKey, number: u64) -> StoreResult<()> {
        let Some(row) = self.transaction.row(&DOCUMENTS, key)? else { return Ok(()) };
        let row = DocumentRow::decode(&row)?;
        if row.present.is_some() || row.number != number {
            return Ok(());
        }
        self.transaction.delete(&DOCUMENTS, key.clone());
        if let Some(stored) = self.transaction.row(&PROJECTS, &key.prefix(PROJECTS.key_width))? {
            let project = ProjectKey::new(RowReader::new(&stored, "a project").text()?);
            let mut stored = ProjectRow::decode(&stored)?;
            stored.complete_from = stored.complete_from.max(row.revision);
            self.transaction.put(&PROJECTS, stored.encode(&project));
        }
        Ok(())
    }
}

fn text_keys(document: &RowKey, hash: TextHash, parts: usize) -> Vec<RowKey> {
    body_keys(&document.with(&[hash.0[..].into()]), parts).collect()
}
