//! Port of storages: documents with versions, and one `commit` as the transaction.
//!
//! Each rule names its case in the contract suite in parentheses; a test of the repository checks
//! that the case exists.
//!
//! A change is *decided inside the commit*: the storage reads the documents that the
//! [`CommitRequest`] names, calls its `decide` on that snapshot, and applies the changes before another writer can
//! write. So no writer works on stale text, and slow writers need no retries.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::idempotency::{IdempotencyKey, IdempotencyRecord};
pub use super::store_error::{StoreError, StoreResult};
use super::write_context::WriteContext;
use crate::audit_log::{AuditEvent, AuditTarget};
use crate::backlog::{ItemKind, Reference};
use crate::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use crate::error::Result;
use crate::project_key::ProjectKey;

/// The documents of a storage. Projects never see each other's documents (`projects_are_isolated`).
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait DocumentRepository: Send + Sync {
    /// The documents in the order of `ids` (`get_keeps_the_order`), `None` for a missing one
    /// (`missing_documents_are_none`). Bytes are unchanged (`bytes_survive_a_round_trip`).
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>>;

    /// The documents' versions, `None` for a missing one (`versions_match_get`). Cheap
    /// enough to call on every request; callers use it to validate caches derived from a document.
    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>>;

    /// Metadata of one kind, sorted by name (`find_sorts_by_name`), with the total of the kind and
    /// a cursor to the next page (`pages_report_the_total`). An unreadable document is
    /// listed with a diagnostic (`unreadable_document_is_listed_with_a_diagnostic`).
    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage>;

    /// For each word the metadata of the documents of a kind with this reference or name, sorted by
    /// name (`lookup_matches_reference_and_name`). Several documents may claim one reference
    /// (`lookup_returns_all_claims_of_a_reference`). The result follows every commit
    /// (`lookup_reflects_every_commit`).
    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// For each target the metadata of the documents of these kinds that link to it by any relation
    /// ([`DocumentMeta::links`]), sorted by kind and name (`backlinks_are_found_by_target`). The
    /// result follows every commit (`backlinks_reflect_every_commit`).
    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// Applies all changes of the decision, or none.
    ///
    /// The decision sees the newest state (`decision_reads_the_newest_state`). It may be called
    /// again after a writer without locks changed a document, so it must be a pure function. Its
    /// error changes nothing and is returned unchanged (`rejected_decision_changes_nothing`).
    /// Concurrent commits each take effect (`concurrent_commits_lose_no_update`). A returned
    /// commit survives a restart (`commits_survive_restart`). A change of an unread
    /// document is the caller's bug and refuses the commit
    /// (`change_of_an_unread_document_is_rejected`). Without changes the revision stays
    /// (`empty_commit_keeps_the_revision`).
    ///
    /// The audit row of the [`CommitDecision`] is appended in the same transaction
    /// (`commit_writes_its_audit_row`), and none without changes
    /// (`empty_and_rejected_commits_write_no_row`). An idempotency key is used once
    /// (`keys_are_used_once`).
    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult>;

    /// The documents of this kind only (`changes_list_one_kind`) that any writer changed since a
    /// revision (`changes_list_changed_documents`), for indexes, caches and subscribers. `Reset`
    /// if the store can't know, also for a revision of another process
    /// (`unknown_revision_is_a_reset`). A store may begin its history with the first call, so a
    /// new reader calls this first and then reads everything. The result may name a deleted
    /// document that the caller never read.
    async fn changes(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        since: Revision,
        look: Refresh,
    ) -> StoreResult<ChangeSet>;
}

/// The selection of [`DocumentRepository::find`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFilter {
    pub kind: DocumentKind,
    /// Continue after this name.
    pub after: Option<String>,
    /// `None` for all.
    pub limit: Option<usize>,
}

impl DocumentFilter {
    pub fn all(kind: DocumentKind) -> Self {
        Self { kind, after: None, limit: None }
    }
}

/// The selection of [`DocumentRepository::backlinks`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BacklinkQuery {
    /// Only documents of these kinds.
    pub kinds: Vec<DocumentKind>,
    /// Ids, and references in standard spelling.
    pub targets: Vec<String>,
}

/// A part of a sorted list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPage {
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// Number of documents of the kind.
    pub total: usize,
    /// The value for [`DocumentFilter::after`] that continues the list.
    pub next: Option<String>,
}

impl MetadataPage {
    /// Selects from the metadata of all documents of the kind.
    pub fn of(mut metadata: Vec<Arc<DocumentMeta>>, filter: &DocumentFilter) -> Self {
        metadata.sort_by(|a, b| a.id.cmp(&b.id));
        let total = metadata.len();
        if let Some(after) = &filter.after {
            metadata.retain(|head| head.id.name > *after);
        }
        let limit = filter.limit.unwrap_or(usize::MAX);
        let more = metadata.len() > limit;
        metadata.truncate(limit);
        let next = metadata.last().filter(|_| more).map(|head| head.id.name.clone());
        Self { metadata, total, next }
    }
}

/// One transaction: the state to read, the decision on it, and its context.
pub struct CommitRequest {
    pub reads: ReadSet,
    pub decide: DecideFn,
    pub context: WriteContext,
}

impl CommitRequest {
    /// The decision on this snapshot of [`CommitRequest::reads`]. Fails if it changes an unread document.
    pub fn decide(
        &mut self,
        project: &ProjectKey,
        snapshot: &Snapshot,
    ) -> StoreResult<CommitDecision> {
        let changes = (self.decide)(snapshot).map_err(StoreError::Decided)?;
        let ReadSet { documents, sequences: numbers, .. } = &self.reads;
        let mut targets = Vec::with_capacity(changes.len());
        for change in &changes {
            let id = change.id();
            let read = documents.iter().position(|known| known == id);
            if read.is_none() && !is_new(id, numbers, &snapshot.next_numbers) {
                return Err(StoreError::Internal(format!("{id} was changed and not read")));
            }
            let before = read.and_then(|place| snapshot.documents.get(place)?.as_ref());
            targets.push(AuditTarget {
                name: id.to_string(),
                before: before.map(|document| document.version),
                after: change.version(),
            });
        }
        if changes.is_empty() {
            return Ok(CommitDecision::default());
        }
        let once = self.context.idempotency_key.as_ref().map(|IdempotencyKey { key, request }| {
            let (request, targets, at) = (request.clone(), targets.clone(), self.context.at);
            (key.clone(), IdempotencyRecord { request, at, targets, answer: None })
        });
        let audit = self.context.audit_event(Some(project), targets);
        Ok(CommitDecision { changes, audit, idempotency: once })
    }
}

/// The result of a decision, which is stored in one step or not at all.
#[derive(Debug, Clone, Default)]
pub struct CommitDecision {
    pub changes: Vec<DocumentChange>,
    pub audit: Option<AuditEvent>,
    /// The idempotency key and its record.
    pub idempotency: Option<(String, IdempotencyRecord)>,
}

/// True for an item whose number was free, so that no document can exist.
fn is_new(id: &DocumentId, kinds: &[ItemKind], numbers: &[u32]) -> bool {
    let reference =
        Reference::of_document(id).filter(|found| id.kind == DocumentKind::Item(found.kind));
    let of = |kind: ItemKind| kinds.iter().zip(numbers).find(|(found, _)| **found == kind);
    reference.is_some_and(|found| of(found.kind).is_some_and(|(_, free)| found.number >= *free))
}

impl std::fmt::Debug for CommitRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commit")
            .field("reads", &self.reads)
            .field("act", &self.context)
            .finish_non_exhaustive()
    }
}

/// A pure function from the stored state to its changes.
pub type DecideFn = Box<dyn FnMut(&Snapshot) -> Result<Vec<DocumentChange>> + Send>;

/// The state to read. A decision may change only these documents, and create items with free
/// numbers (`new_item_needs_no_read`).
#[derive(Debug, Clone, Default)]
pub struct ReadSet {
    pub documents: Vec<DocumentId>,
    pub metadata_of: Option<DocumentKind>,
    /// Backlinks to read (`decision_reads_backlinks`).
    pub backlinks: BacklinkQuery,
    /// For each of these kinds the lowest number that no item ever had.
    pub sequences: Vec<ItemKind>,
}

impl ReadSet {
    /// These documents and nothing else.
    pub fn of(documents: Vec<DocumentId>) -> Self {
        Self { documents, ..Self::default() }
    }
}

/// The newest state of a [`ReadSet`]: documents in its order, metadata by name.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub documents: Vec<Option<Document>>,
    pub metadata: Vec<Arc<DocumentMeta>>,
    /// As returned by [`DocumentRepository::backlinks`].
    pub backlinks: Vec<Vec<Arc<DocumentMeta>>>,
    /// Greater than any number that an item of the kind ever had in this storage
    /// (`numbers_are_never_reused`): in a tombstone (`tombstone_keeps_its_number`), in
    /// another process (`numbers_survive_restart`), or put by name
    /// (`number_in_a_name_raises_the_sequence`).
    pub next_numbers: Vec<u32>,
}

/// One change of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    Put { document: Document },
    Delete { id: DocumentId },
}

impl DocumentChange {
    pub fn put(id: DocumentId, body: impl Into<Bytes>) -> Self {
        Self::Put { document: Document::new(id, body.into()) }
    }

    /// The document's version after the change; `None` for a deletion.
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
}

/// The new revision, and for each change the new version, `None` for a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitResult {
    pub revision: Revision,
    pub versions: Vec<Option<Version>>,
}

/// A point in the history of a project, counted per store. Grows with every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Revision(pub u64);

/// The effort to find changes of other writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Inspect only documents with a sign of change.
    Incremental,
    /// Inspect all documents.
    Full,
}

/// The changes since a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeSet {
    /// These documents changed or were deleted, each named once.
    Since { revision: Revision, ids: Vec<DocumentId> },
    /// Unknown: read everything again and continue from `revision`.
    Reset { revision: Revision },
}
