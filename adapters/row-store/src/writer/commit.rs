//! Commits of documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::audit_log::{AuditEvent, AuditRow};
use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Version};
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitDecision, CommitRequest, CommitResult, DocumentChange, ReadSet, Snapshot,
    StoreResult,
};
use reqlore_domain::ports::history::{PastContent, PastEntry};
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::catch_panic;

use crate::derived::derived_columns;
use crate::read::documents::{
    decode_backlinks, decode_metas, documents_of, links_query, metas_of_kind, verified_body,
};
use crate::records::body_keys;
use crate::records::{
    DocumentRow, PresentRow, ProjectRow, REVISION, RowReader, StoreRow, check_name, decode_record,
    document_key, encode_audit_row, encode_record, integer, project_key, text_rows,
};
use crate::row::{RowQuery, TableRow, Value};
use crate::stored_meta::encode_meta;
use crate::tables::{AUDIT, BODIES, DOCUMENTS, IDEMPOTENCY, PROJECTS, SEQUENCES, STORE, WRITERS};
use crate::writer::GroupWriterEngine;

/// How many revisions of a project the change log covers, at least.
const LOGGED_REVISIONS: u64 = 1_000_000;
/// The log is shortened once in this many revisions.
const PRUNE_INTERVAL: u64 = 1_000;
/// Maximum number of rows that one commit removes from the log: at least as many as revisions of an
/// interval can add, so that the log does not grow.
const PRUNE_LIMIT: usize = 2_000;
const _: () = assert!(PRUNE_INTERVAL < PRUNE_LIMIT as u64);

impl GroupWriterEngine {
    /// Applies a commit with its audit row and its idempotency record.
    pub(crate) fn commit(
        &mut self,
        project: &ProjectKey,
        commit: &mut CommitRequest,
    ) -> StoreResult<CommitResult> {
        self.last_time = self.last_time.max(commit.context.at);
        // A repeated key must not run the decision again.
        if let Some(key) = &commit.context.idempotency_key {
            self.check_unused(&key.key, commit.context.at)?;
        }
        let row = self.project_row(project)?;
        let snapshot = self.read_snapshot(project, &commit.read_set)?;
        let decision = catch_panic(|| commit.decide(project, &snapshot))?;
        let CommitDecision { changes, audit, idempotency } = decision;
        let versions = changes.iter().map(DocumentChange::version).collect();
        if changes.is_empty() {
            return Ok(CommitResult { revision: Revision(row.revision), versions });
        }
        let revision = self.begin_revision(project, row)?;
        for change in DocumentChange::last_of_each(&changes) {
            let is_read = commit.read_set.documents.contains(change.id());
            self.apply_change((project, revision), change, is_read, &commit.context)?;
        }
        self.append_events(audit)?;
        if let Some((key, record)) = idempotency {
            self.transaction.put(&IDEMPOTENCY, encode_record(&key, &record)?);
        }
        Ok(CommitResult { revision: Revision(revision), versions })
    }

    /// Rejects an idempotency key that is in use.
    pub(crate) fn check_unused(&mut self, key: &str, now: Timestamp) -> StoreResult<()> {
        let row = self.transaction.row(&IDEMPOTENCY, &TableRow::of(&[key.into()]))?;
        IdempotencyRecord::check_unused(row.as_ref().map(decode_record).transpose()?, now)
    }

    pub(crate) fn project_row(&mut self, project: &ProjectKey) -> StoreResult<ProjectRow> {
        match self.transaction.row(&PROJECTS, &project_key(project))? {
            Some(row) => ProjectRow::decode(&row),
            None => Ok(ProjectRow::default()),
        }
    }

    fn read_snapshot(&mut self, project: &ProjectKey, reads: &ReadSet) -> StoreResult<Snapshot> {
        let rows = reads.documents.iter().map(|id| (&DOCUMENTS as _, document_key(project, id)));
        self.transaction.load(rows)?;
        let mut documents = Vec::with_capacity(reads.documents.len());
        for id in &reads.documents {
            documents.push(self.document(project, id)?);
        }
        let mut titles = BTreeMap::new();
        if let Some(kind) = reads.titles_of {
            let rows = self.transaction.select_one(metas_of_kind(project, kind))?;
            for meta in decode_metas(&rows)? {
                titles.insert(meta.id.name.clone(), meta.title.clone());
            }
        }
        let mut next_numbers = Vec::with_capacity(reads.sequences.len());
        for kind in &reads.sequences {
            next_numbers.push(self.highest_number(project, kind.name())? + 1);
        }
        let backlinks = self.backlinks(project, &reads.backlinks)?;
        Ok(Snapshot { documents, titles, backlinks, next_numbers })
    }

    fn backlinks(
        &mut self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        if links.targets.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.transaction.select_one(links_query(project, &links.targets))?;
        let rows = self.transaction.select_one(documents_of(&found, links))?;
        decode_backlinks(&found, &rows, links)
    }

    /// Returns a document as it is after the changes of the group so far.
    fn document(&mut self, project: &ProjectKey, id: &DocumentId) -> StoreResult<Option<Document>> {
        let Some(old) = self.present_row(project, id)? else { return Ok(None) };
        let body = self.body(project, id, old.version, old.parts)?;
        Ok(Some(Document { id: id.clone(), version: old.version, body }))
    }

    pub(crate) fn present_row(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
    ) -> StoreResult<Option<PresentRow>> {
        match self.transaction.row(&DOCUMENTS, &document_key(project, id))? {
            Some(row) => Ok(DocumentRow::decode(&row)?.present),
            None => Ok(None),
        }
    }

    /// Reads a text, and checks it against the version.
    pub(crate) fn body(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
        parts: usize,
    ) -> StoreResult<Bytes> {
        let key = document_key(project, id);
        self.transaction.load(body_keys(&key, parts).map(|key| (&BODIES as _, key)))?;
        let mut rows = Vec::with_capacity(parts);
        for key in body_keys(&key, parts) {
            rows.extend(self.transaction.row(&BODIES, &key)?);
        }
        verified_body(id, version, &rows)
    }

    /// Increments the revision of a project as this writer.
    pub(crate) fn begin_revision(
        &mut self,
        project: &ProjectKey,
        mut row: ProjectRow,
    ) -> StoreResult<u64> {
        row.revision += 1;
        if row.writer != self.writer_id {
            row.writer = self.writer_id;
            let writer = self.writer_id.cast_signed().into();
            let row = project_key(project).with(&[integer(row.revision), writer]);
            self.transaction.put(&WRITERS, row);
        }
        if row.revision.is_multiple_of(PRUNE_INTERVAL) && row.revision > LOGGED_REVISIONS {
            self.prune_writers(project, &mut row)?;
        }
        self.transaction.put(&PROJECTS, row.encode(project));
        Ok(row.revision)
    }

    /// Removes old rows of `writers`. Earlier positions become unknown.
    fn prune_writers(&mut self, project: &ProjectKey, row: &mut ProjectRow) -> StoreResult<()> {
        let last = row.revision - LOGGED_REVISIONS;
        let query = RowQuery::keys(&WRITERS, vec![project_key(project)])
            .within("first_revision", Value::Integer(0)..integer(last))
            .sorted_by(&["first_revision"])
            .limited_to(PRUNE_LIMIT);
        let mut old = self.transaction.select_one(query)?;
        // It covers the revisions up to the next row, which are still logged.
        let Some(covering) = old.pop() else { return Ok(()) };
        for row in old {
            self.transaction.delete(&WRITERS, row.prefix(WRITERS.key_width));
        }
        let first = RowReader::new(&covering, "a writer").after(1).number()?;
        row.complete_from = row.complete_from.max(first);
        Ok(())
    }

    /// Applies one change. `is_read` is false for a new item, which has a new number and so cannot
    /// have a row yet.
    fn apply_change(
        &mut self,
        (project, revision): (&ProjectKey, u64),
        change: &DocumentChange,
        is_read: bool,
        context: &WriteContext,
    ) -> StoreResult<()> {
        let id = change.id();
        check_name(id)?;
        self.raise_sequence_to(project, id)?;
        let (mut number, mut old, mut old_row) = (0, None, None);
        if is_read
            && let Some(row) = self.transaction.row(&DOCUMENTS, &document_key(project, id))?
        {
            DocumentRow { number, present: old, .. } = DocumentRow::decode(&row)?;
            old_row = Some(row);
        }
        match change {
            DocumentChange::Put { document } => {
                if let Some(old) = &old {
                    if old.version == document.version
                        && self.body(project, id, old.version, old.parts)? == document.body
                    {
                        // The same text is no new version.
                        if let Some(row) = old_row {
                            let row = row.replace(REVISION, integer(revision));
                            self.transaction.put(&DOCUMENTS, row);
                        }
                        return Ok(());
                    }
                    self.end_version(project, id, (number, old), context.at)?;
                }
                let path = old.as_ref().and_then(|old| old.path.clone());
                let file = (context.at, path);
                let written = (revision, number + 1);
                self.put_document(project, written, document, file, context.origin(), old.as_ref())
            }
            DocumentChange::Delete { .. } => {
                if let Some(old) = &old {
                    self.end_version(project, id, (number, old), context.at)?;
                    number += 1;
                    self.put_entry(
                        project,
                        id,
                        &PastEntry {
                            number,
                            at: context.at,
                            ended: context.at,
                            origin: context.origin(),
                            content: PastContent::Deleted,
                        },
                    );
                    for key in body_keys(&document_key(project, id), old.parts) {
                        self.transaction.delete(&BODIES, key);
                    }
                    self.replace_lists(project, Some(&old.meta(id.clone())?), None)?;
                }
                let key = document_key(project, id);
                let row = DocumentRow::encode_deleted(&key, revision, number);
                self.transaction.put(&DOCUMENTS, row);
                Ok(())
            }
        }
    }

    /// Moves the present version to the history.
    fn end_version(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
        (number, old): (u64, &PresentRow),
        ended: Timestamp,
    ) -> StoreResult<()> {
        let body = self.body(project, id, old.version, old.parts)?;
        let (at, origin) = (old.modified, old.origin.clone());
        let content = PastContent::Text(body);
        self.put_entry(project, id, &PastEntry { number, at, ended, origin, content });
        Ok(())
    }

    /// Stores a document with its lists. `written` is the revision and the number of the version.
    pub(crate) fn put_document(
        &mut self,
        project: &ProjectKey,
        written: (u64, u64),
        document: &Document,
        (modified, path): (Timestamp, Option<Arc<str>>),
        origin: ChangeOrigin,
        old: Option<&PresentRow>,
    ) -> StoreResult<()> {
        let id = &document.id;
        let meta = DocumentMeta::from_document(document, modified);
        let key = document_key(project, id);
        let parts = text_rows(&key, &document.body);
        let count = parts.len();
        for part in parts {
            self.transaction.put(&BODIES, part);
        }
        let old_parts = old.map_or(0, |old| old.parts);
        for key in body_keys(&key, old_parts).skip(count) {
            self.transaction.delete(&BODIES, key);
        }
        let version = document.version;
        let old_meta = old.map(|old| old.meta(id.clone())).transpose()?;
        self.replace_lists(project, old_meta.as_ref(), Some(&meta))?;
        let derived = derived_columns(&meta);
        let meta = encode_meta(&meta)?;
        let present = PresentRow { version, modified, parts: count, meta, path, origin };
        self.transaction.put(&DOCUMENTS, present.encode(&key, written, &derived));
        Ok(())
    }

    fn highest_number(&mut self, project: &ProjectKey, kind: &str) -> StoreResult<u32> {
        let key = project_key(project).with(&[kind.into()]);
        let Some(row) = self.transaction.row(&SEQUENCES, &key)? else { return Ok(0) };
        RowReader::new(&row, "a sequence").after(2).number()
    }

    /// Raises a sequence to the document's number, so that no later item gets that number.
    pub(crate) fn raise_sequence_to(
        &mut self,
        project: &ProjectKey,
        id: &DocumentId,
    ) -> StoreResult<()> {
        let Some(Reference { kind, number }) = Reference::from_document(id) else { return Ok(()) };
        self.raise_sequence(project, kind.name(), number).map(drop)
    }

    /// Raises a sequence to this number. False if it is not lower.
    pub(crate) fn raise_sequence(
        &mut self,
        project: &ProjectKey,
        kind: &'static str,
        number: u32,
    ) -> StoreResult<bool> {
        let is_higher = number > self.highest_number(project, kind)?;
        if is_higher {
            let row = project_key(project).with(&[kind.into(), integer(number)]);
            self.transaction.put(&SEQUENCES, row);
        }
        Ok(is_higher)
    }

    /// Chains events to the newest row of the audit log.
    pub(crate) fn append_events(
        &mut self,
        events: impl IntoIterator<Item = AuditEvent>,
    ) -> StoreResult<()> {
        let mut events = events.into_iter().peekable();
        if events.peek().is_none() {
            return Ok(());
        }
        let mut store = self.store_row()?;
        for event in events {
            self.last_time = self.last_time.max(event.at);
            let row = AuditRow::seal_after(store.newest_audit, event);
            store.newest_audit = row.head();
            self.transaction.put(&AUDIT, encode_audit_row(&row));
        }
        self.put_store_row(&store);
        Ok(())
    }

    pub(crate) fn put_store_row(&mut self, row: &StoreRow) {
        self.transaction.put(&STORE, row.encode());
    }
}
