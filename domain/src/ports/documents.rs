//! Port of a storage for documents, with `commit` as the only transaction.
//!
//! A commit carries a decision: the storage reads the documents of [`CommitRequest::read_set`],
//! calls `decide` on this snapshot, and applies the returned changes before another writer can
//! write. So no writer works on outdated content, and callers do not retry.
//!
//! A name in parentheses is the case of the contract suite that checks the rule. A test of the
//! repository checks that the case exists.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_observed_ports::observed;

pub use super::store_error::{StoreError, StoreResult};

use super::change_page::{ChangePage, ChangePosition, Revision};
use super::record_list::{MAX_PAGE_ITEMS, RecordPage, RecordQuery, UnreadFile};
use super::write_context::WriteContext;
use crate::audit_log::{AuditEvent, AuditTarget};
use crate::backlog::{ItemKind, Reference};
use crate::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use crate::error::Result;
use crate::idempotency::{IdempotencyKey, IdempotencyRecord};
use crate::project_key::ProjectKey;

/// Stores documents by project. No project can access another project's documents
/// (`projects_are_isolated`).
#[observed]
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait DocumentRepository: Send + Sync {
    /// Returns documents in the order of `ids` (`get_keeps_the_order`), `None` for a missing
    /// document (`missing_documents_are_none`). Bodies are returned byte for byte
    /// (`bytes_survive_a_round_trip`).
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>>;

    /// Returns the versions of documents, `None` for a missing document
    /// (`versions_match_get`). Cheap enough to call on every request; callers use it to
    /// validate caches derived from a document.
    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>>;

    /// Returns a page of the metadata of one kind, sorted by name (`find_sorts_by_name`), with a
    /// cursor to the next page (`pages_have_every_document_once`). An unreadable document is listed
    /// with a diagnostic (`unreadable_document_is_listed_with_a_diagnostic`).
    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage>;

    /// Returns a page of the records that match a query, by default in the order of all lists
    /// (`items_have_the_order_of_lists`), with the exact number of matches
    /// (`items_are_filtered_and_counted`), also by details (`items_are_filtered_by_details`) and
    /// custom fields (`items_are_filtered_by_custom_fields`), in any order
    /// (`items_are_sorted_in_each_order`), also by a custom field
    /// (`items_are_sorted_by_a_custom_field`), and the same for entities
    /// (`entities_are_filtered_and_sorted`), as a plain filter selects them
    /// (`entity_lists_equal_a_plain_filter`). A document without a reference is not an item of a
    /// list (`items_need_a_reference`). Pages neither skip nor repeat a record that does not change
    /// (`item_pages_survive_changes`), also in lists by a custom field
    /// (`pages_by_field_survive_changes`).
    ///
    /// Other selections have documents with a diagnostic and the files that are not read
    /// (`documents_with_diagnostics_are_listed`), entities without tags
    /// (`untagged_entities_are_listed_by_kind`), and entities that an unknown ID may mean
    /// (`similar_entities_are_found_by_case_and_part`). Records are counted by status, entities
    /// also by kind and tag (`entities_are_counted_by_kind_and_tag`), and items by their parent
    /// (`children_are_counted_by_status`).
    ///
    /// By default all metadata of the kind is read.
    async fn list(&self, project: &ProjectKey, query: &RecordQuery) -> StoreResult<RecordPage> {
        scan_records(self, project, query).await
    }

    /// Returns for each word the metadata of documents of a kind that have this reference or name,
    /// sorted by name (`lookup_matches_reference_and_name`). Several documents may have the same
    /// reference (`lookup_returns_all_claims_of_a_reference`). The result reflects every commit
    /// (`lookup_reflects_every_commit`).
    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// Returns for each target the metadata of documents that link to it by any relation
    /// ([`DocumentMeta::links`]), sorted by kind and name (`backlinks_are_found_by_target`). These
    /// are entities, items and sections (`mentions_in_sections_are_backlinks`). Targets share the
    /// metadata of a document (`backlinks_of_several_targets_share_metadata`). The result reflects
    /// every commit (`backlinks_reflect_every_commit`).
    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// Applies all changes of the decision durably, or none
    /// (`commits_survive_restart`).
    ///
    /// The decision sees the newest state (`decision_reads_the_newest_state`), so concurrent
    /// commits all take effect (`concurrent_commits_lose_no_update`). It must be a pure function,
    /// because it is called again if an editor changes a document in the meantime. Its error is
    /// returned and nothing changes (`rejected_decision_changes_nothing`). A change of a document
    /// that was not read is a bug and fails (`change_of_an_unread_document_is_rejected`). A commit
    /// without changes keeps the revision (`empty_commit_keeps_the_revision`).
    ///
    /// The audit row of the [`CommitDecision`] is appended in the same transaction
    /// (`commit_writes_its_audit_row`); a commit without changes appends none
    /// (`empty_and_rejected_commits_write_no_row`). An idempotency key can be used once
    /// (`keys_are_used_once`).
    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult>;

    /// Returns a page of the documents of all kinds that any writer changed or deleted after a
    /// position, in the order of their changes (`changes_have_the_order_of_commits`), for indexes,
    /// caches and subscriptions. A page ends at the end of a revision, so it may have more than
    /// `limit` documents (`change_pages_end_with_a_revision`). Every commit before the call is in
    /// the pages up to the last one (`concurrent_commits_skip_no_change`).
    ///
    /// `Reset` means that the changes are unknown: without a position
    /// (`changes_without_a_position_are_a_reset`), and for a position in the future
    /// (`future_revision_is_a_reset`), in another storage (`position_of_another_store_is_a_reset`)
    /// or in a history that another writer continued in another way
    /// (`position_of_another_writer_is_a_reset`). A storage may start its history with the first
    /// call, so a new reader calls this method first and then reads all documents. The result may
    /// contain deleted documents that the caller has never read.
    async fn changes_since(
        &self,
        project: &ProjectKey,
        since: Option<ChangePosition>,
        limit: usize,
        look: Refresh,
    ) -> StoreResult<ChangePage>;
}

/// Runs a call that only reads. Its first read of a project sees every commit before it. Later ones
/// need not see newer commits, except after [`DocumentRepository::changes_since`], so a storage may
/// save round trips.
pub type ReadScope = for<'a> fn(ReadCall<'a>) -> ReadCall<'a>;
pub type ReadCall<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Counts the documents of a kind. Reads all their metadata, so it is for administration.
pub async fn count_documents<R: DocumentRepository + ?Sized>(
    documents: &R,
    project: &ProjectKey,
    kind: DocumentKind,
) -> StoreResult<usize> {
    let mut filter = DocumentFilter::of_kind(kind);
    let mut count = 0;
    loop {
        let page = documents.find(project, &filter).await?;
        count += page.metadata.len();
        filter.after_name = page.next_name;
        if filter.after_name.is_none() {
            return Ok(count);
        }
    }
}

/// Reads all metadata of a kind, sorted by name, and the files that are not read. For checks that
/// compare all documents, and for storages without tables.
pub async fn read_all<R: DocumentRepository + ?Sized>(
    documents: &R,
    project: &ProjectKey,
    kind: DocumentKind,
) -> StoreResult<(Vec<Arc<DocumentMeta>>, Vec<UnreadFile>)> {
    let mut filter = DocumentFilter::of_kind(kind);
    let mut metadata = Vec::new();
    loop {
        let page = documents.find(project, &filter).await?;
        metadata.extend(page.metadata);
        filter.after_name = page.next_name;
        if filter.after_name.is_none() {
            return Ok((metadata, page.unread));
        }
    }
}

/// Selects a page of records from all metadata of the kind.
pub async fn scan_records<R: DocumentRepository + ?Sized>(
    documents: &R,
    project: &ProjectKey,
    query: &RecordQuery,
) -> StoreResult<RecordPage> {
    let (metadata, unread) = read_all(documents, project, query.kind).await?;
    Ok(RecordPage { unread, ..RecordPage::select(metadata, query) })
}

/// The selection of [`DocumentRepository::find`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFilter {
    pub kind: DocumentKind,
    /// The [`MetadataPage::next_name`] of the previous page.
    pub after_name: Option<String>,
    /// Maximum size of the page, at most [`MAX_PAGE_ITEMS`].
    pub limit: usize,
}

impl DocumentFilter {
    /// The largest first page of a kind.
    pub fn of_kind(kind: DocumentKind) -> Self {
        Self { kind, after_name: None, limit: MAX_PAGE_ITEMS }
    }
}

/// The selection of [`DocumentRepository::backlinks`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BacklinkQuery {
    /// The kinds of documents that contain the links.
    pub kinds: Vec<DocumentKind>,
    /// Ids, or references in normalized form such as `REQ-007`.
    pub targets: Vec<String>,
}

/// Metadata that is kept once, although several queries find it. One document may link to all
/// targets, and its metadata contains all its links.
#[derive(Debug, Default)]
pub struct SharedMetadata(HashMap<DocumentId, Arc<DocumentMeta>>);

impl SharedMetadata {
    /// Replaces metadata by the earlier copy of the same document if both are equal.
    pub fn share(&mut self, found: &mut [Arc<DocumentMeta>]) {
        for meta in found {
            match self.0.get(&meta.id) {
                Some(earlier) if earlier == meta => meta.clone_from(earlier),
                _ => drop(self.0.insert(meta.id.clone(), Arc::clone(meta))),
            }
        }
    }
}

/// A page of metadata, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPage {
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// The cursor to the next page; `None` on the last page.
    pub next_name: Option<String>,
    /// Files that look like documents of the kind but are not read. Only files storages have any.
    pub unread: Vec<UnreadFile>,
}

impl MetadataPage {
    /// Selects a page from the metadata of all documents of the kind.
    pub fn select(mut metadata: Vec<Arc<DocumentMeta>>, filter: &DocumentFilter) -> Self {
        // All metadata is of one kind, so this sorts by name.
        metadata.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(after) = &filter.after_name {
            metadata.retain(|meta| meta.id.name > *after);
        }
        let mut next_name = None;
        if metadata.len() > filter.limit {
            metadata.truncate(filter.limit);
            next_name = metadata.last().map(|meta| meta.id.name.clone());
        }
        Self { metadata, next_name, unread: Vec::new() }
    }
}

/// One transaction: the state to read, the decision on it, and its context.
pub struct CommitRequest {
    pub read_set: ReadSet,
    pub decide: DecideFn,
    pub context: WriteContext,
}

impl CommitRequest {
    /// Calls the decision on a snapshot of [`CommitRequest::read_set`]. Fails if it changes a
    /// document that was not read.
    pub fn decide(
        &mut self,
        project: &ProjectKey,
        snapshot: &Snapshot,
    ) -> StoreResult<CommitDecision> {
        let changes = (self.decide)(snapshot).map_err(StoreError::Decided)?;
        // No audit row and no idempotency record without a change.
        if changes.is_empty() {
            return Ok(CommitDecision::default());
        }
        let mut targets = Vec::with_capacity(changes.len());
        for change in &changes {
            let id = change.id();
            let position = self.read_set.documents.iter().position(|read| read == id);
            let before = match position {
                Some(position) => snapshot.documents.get(position).and_then(Option::as_ref),
                // The number was issued to this commit, so nothing can be overwritten.
                None if self.is_new_item(id, snapshot) => None,
                None => {
                    return Err(StoreError::Internal(format!("{id} was changed but not read")));
                }
            };
            targets.push(AuditTarget {
                name: id.to_string(),
                before: before.map(|document| document.version),
                after: change.version(),
            });
        }
        let mut idempotency = None;
        if let Some(IdempotencyKey { key, request_hash: request }) =
            self.context.idempotency_key.clone()
        {
            let (at, targets) = (self.context.at, targets.clone());
            idempotency = Some((key, IdempotencyRecord { request, at, targets, answer: None }));
        }
        let audit = self.context.audit_event(Some(project), targets);
        Ok(CommitDecision { changes, audit, idempotency })
    }

    /// True for an item with a number that the sequence has not issued, so that it cannot exist.
    fn is_new_item(&self, id: &DocumentId, snapshot: &Snapshot) -> bool {
        let Some(reference) = Reference::from_document(id) else { return false };
        // A tombstone has the reference of an existing item.
        if id.kind != DocumentKind::Item(reference.kind) {
            return false;
        }
        let mut sequences = self.read_set.sequences.iter().zip(&snapshot.next_numbers);
        sequences.any(|(kind, next)| *kind == reference.kind && reference.number >= *next)
    }
}

/// The result of a decision. A storage applies all of it or nothing.
#[derive(Debug, Clone, Default)]
pub struct CommitDecision {
    pub changes: Vec<DocumentChange>,
    pub audit: Option<AuditEvent>,
    /// The idempotency key and its record.
    pub idempotency: Option<(String, IdempotencyRecord)>,
}

impl std::fmt::Debug for CommitRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitRequest")
            .field("reads", &self.read_set)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

/// A pure function from a snapshot to changes. A storage may call it several times.
pub type DecideFn = Box<dyn FnMut(&Snapshot) -> Result<Vec<DocumentChange>> + Send>;

/// The state that a commit reads. A decision may change only these documents, and create items with
/// numbers from [`Snapshot::next_numbers`] on (`new_item_needs_no_read`).
#[derive(Debug, Clone, Default)]
pub struct ReadSet {
    pub documents: Vec<DocumentId>,
    /// The kind of which the titles of all documents are read.
    pub titles_of: Option<DocumentKind>,
    /// The backlinks to read (`decision_reads_backlinks`).
    pub backlinks: BacklinkQuery,
    /// The kinds of which the next number is read.
    pub sequences: Vec<ItemKind>,
}

impl ReadSet {
    /// Reads only these documents.
    pub fn of_documents(documents: Vec<DocumentId>) -> Self {
        Self { documents, ..Self::default() }
    }
}

/// The newest state of a [`ReadSet`].
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// In the order of [`ReadSet::documents`]; `None` for a missing document.
    pub documents: Vec<Option<Document>>,
    /// By name; `None` for a document without a title.
    pub titles: BTreeMap<String, Option<String>>,
    /// As returned by [`DocumentRepository::backlinks`].
    pub backlinks: Vec<Vec<Arc<DocumentMeta>>>,
    /// In the order of [`ReadSet::sequences`]. Each is higher than any number that an item of the
    /// kind ever had in this storage (`numbers_are_never_reused`), also after a commit with several
    /// new items (`several_new_items_of_a_commit_raise_the_sequence`), including numbers of
    /// tombstones (`tombstone_keeps_its_number`), numbers issued by other processes
    /// (`numbers_survive_restart`), and numbers in document names
    /// (`number_in_a_name_raises_the_sequence`).
    pub next_numbers: Vec<u32>,
}

/// The change of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// Creates or replaces a document.
    Put {
        document: Document,
    },
    Delete {
        id: DocumentId,
    },
}

impl DocumentChange {
    pub fn put(id: DocumentId, body: impl Into<Bytes>) -> Self {
        Self::Put { document: Document::new(id, body.into()) }
    }

    /// The version after the change; `None` for a deletion.
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Put { document } => Some(document.version),
            Self::Delete { .. } => None,
        }
    }

    pub fn id(&self) -> &DocumentId {
        match self {
            Self::Put { document } => &document.id,
            Self::Delete { id } => id,
        }
    }

    /// Returns the last change of each document, sorted by id. Only that one takes effect and
    /// becomes an entry of the history (`last_change_of_a_document_wins`).
    pub fn last_of_each(changes: &[Self]) -> Vec<&Self> {
        let mut last = BTreeMap::new();
        for change in changes {
            last.insert(change.id(), change);
        }
        last.into_values().collect()
    }
}

/// The result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitResult {
    pub revision: Revision,
    /// The new version of each changed document; `None` for a deletion.
    pub versions: Vec<Option<Version>>,
}

/// How thoroughly to search for changes by other writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Inspect only documents with a sign of change.
    Incremental,
    /// Inspect all documents.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;

    #[test]
    fn equal_metadata_of_a_document_is_kept_once() {
        let text = |target: &str| format!("---\nrelated: [{target}]\n---\n");
        let meta = |name: &str, target: &str| {
            let document = Document::new(DocumentId::entity(name), text(target).into());
            Arc::new(DocumentMeta::from_document(&document, Timestamp::default()))
        };
        let mut shared = SharedMetadata::default();
        let mut first = vec![meta("a", "dec-aaaaaa"), meta("b", "dec-aaaaaa")];
        shared.share(&mut first);
        let mut second = vec![meta("b", "dec-aaaaaa"), meta("a", "dec-bbbbbb")];
        shared.share(&mut second);
        assert!(Arc::ptr_eq(&first[1], &second[0]) && !Arc::ptr_eq(&first[0], &second[1]));
        // Another writer changed it between two reads; the newest one is kept.
        let mut third = vec![meta("a", "dec-bbbbbb")];
        shared.share(&mut third);
        assert!(Arc::ptr_eq(&second[1], &third[0]));
    }
}
