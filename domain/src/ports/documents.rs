//! Port of storages: documents with versions, and one `commit` as the transaction.
//!
//! Each rule names its case in the contract suite in parentheses; a test of the repository checks
//! that the case exists.
//!
//! A change is *decided inside the commit*: the storage reads the documents that the [`Commit`]
//! names, calls its `decide` on that snapshot, and applies the changes before another writer can
//! write. So no writer works on stale text, and slow writers need no retries.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::idempotency::{IdempotencyKey, IdempotencyRecord};
pub use super::store_error::{StoreError, StoreResult};
use super::write_context::WriteContext;
use crate::audit::{AuditEvent, Target};
use crate::backlog::{ItemKind, Reference};
use crate::document::{Document, DocumentId, DocumentMeta, Kind, Version};
use crate::error::Result;
use crate::project::ProjectKey;

/// The documents of a storage. Projects never see each other's documents (`projects_are_apart`).
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait DocumentRepository: Send + Sync {
    /// The documents in the order of `ids` (`get_keeps_the_order_asked`), `None` for a missing one
    /// (`what_is_not_there_is_none`). Bytes are unchanged (`bytes_come_back_as_they_were_put`).
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>>;

    /// The documents' versions, `None` for a missing one (`versions_are_those_of_get`). Cheap
    /// enough to call on every request; callers use it to validate caches derived from a document.
    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>>;

    /// Metadata of one kind, sorted by name (`find_sorts_by_name`), with the total of the kind and
    /// a cursor to the next page (`find_pages_with_the_true_total`). An unreadable document is
    /// listed with a diagnostic (`an_unreadable_document_is_listed_with_its_fault`).
    async fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page>;

    /// For each word the metadata of the documents of a kind with this reference or name, sorted by
    /// name (`a_word_names_by_reference_and_by_name`). Several documents may claim one reference
    /// (`a_reference_may_be_claimed_twice`). The result follows every commit
    /// (`names_follow_every_commit`).
    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: Kind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// For each target the metadata of the documents of these kinds that link to it by any relation
    /// ([`DocumentMeta::links`]), sorted by kind and name (`links_are_found_by_their_target`). The
    /// result follows every commit (`links_follow_every_commit`).
    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// Applies all changes of the decision, or none.
    ///
    /// The decision sees the newest state (`the_decision_sees_the_newest_state`). It may be called
    /// again after a writer without locks changed a document, so it must be a pure function. Its
    /// error changes nothing and is returned unchanged (`a_refused_decision_changes_nothing`).
    /// Concurrent commits each take effect (`concurrent_commits_all_take_effect`). A returned
    /// commit survives a restart (`what_was_committed_outlives_a_restart`). A change of an unread
    /// document is the caller's bug and refuses the commit
    /// (`a_change_of_what_was_not_read_is_refused`). Without changes the revision stays
    /// (`a_commit_without_changes_keeps_the_revision`).
    ///
    /// The audit row of the [`Decision`] is appended in the same transaction
    /// (`a_commit_is_audited_with_its_change`), and none without changes
    /// (`what_changed_nothing_is_not_audited_here`). An idempotency key is used once
    /// (`a_key_is_used_once`).
    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed>;

    /// The documents of this kind only (`changes_are_of_one_kind`) that any writer changed since a
    /// revision (`changes_tell_what_changed_since`), for indexes, caches and subscribers. `Reset`
    /// if the store can't know, also for a revision of another process
    /// (`an_unknown_revision_is_a_reset`). A store may begin its history with the first call, so a
    /// new reader calls this first and then reads everything. The result may name a deleted
    /// document that the caller never read.
    async fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
        look: Refresh,
    ) -> StoreResult<Changes>;
}

/// The selection of [`DocumentRepository::find`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub kind: Kind,
    /// Continue after this name.
    pub after: Option<String>,
    /// `None` for all.
    pub limit: Option<usize>,
}

impl Filter {
    pub fn all(kind: Kind) -> Self {
        Self { kind, after: None, limit: None }
    }
}

/// The selection of [`DocumentRepository::backlinks`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BacklinkQuery {
    /// Only documents of these kinds.
    pub kinds: Vec<Kind>,
    /// Ids, and references in standard spelling.
    pub targets: Vec<String>,
}

/// A part of a sorted list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub heads: Vec<Arc<DocumentMeta>>,
    /// Number of documents of the kind.
    pub total: usize,
    /// The value for [`Filter::after`] that continues the list.
    pub next: Option<String>,
}

impl Page {
    /// Selects from the metadata of all documents of the kind.
    pub fn of(mut heads: Vec<Arc<DocumentMeta>>, filter: &Filter) -> Self {
        heads.sort_by(|a, b| a.id.cmp(&b.id));
        let total = heads.len();
        if let Some(after) = &filter.after {
            heads.retain(|head| head.id.name > *after);
        }
        let limit = filter.limit.unwrap_or(usize::MAX);
        let more = heads.len() > limit;
        heads.truncate(limit);
        let next = heads.last().filter(|_| more).map(|head| head.id.name.clone());
        Self { heads, total, next }
    }
}

/// One transaction: the state to read, the decision on it, and its context.
pub struct Commit {
    pub reads: ReadSet,
    pub decide: Decide,
    pub act: WriteContext,
}

impl Commit {
    /// The decision on this snapshot of [`Commit::reads`]. Fails if it changes an unread document.
    pub fn decide(&mut self, project: &ProjectKey, snapshot: &Snapshot) -> StoreResult<Decision> {
        let changes = (self.decide)(snapshot).map_err(StoreError::Decided)?;
        let ReadSet { documents, numbers, .. } = &self.reads;
        let mut targets = Vec::with_capacity(changes.len());
        for change in &changes {
            let id = change.id();
            let read = documents.iter().position(|known| known == id);
            if read.is_none() && !is_new(id, numbers, &snapshot.numbers) {
                return Err(StoreError::Internal(format!("{id} was changed and not read")));
            }
            let before = read.and_then(|place| snapshot.documents.get(place)?.as_ref());
            targets.push(Target {
                name: id.to_string(),
                before: before.map(|document| document.version),
                after: change.version(),
            });
        }
        if changes.is_empty() {
            return Ok(Decision::default());
        }
        let once = self.act.once.as_ref().map(|IdempotencyKey { key, request }| {
            let (request, targets, at) = (request.clone(), targets.clone(), self.act.at);
            (key.clone(), IdempotencyRecord { request, at, targets, answer: None })
        });
        let audit = self.act.entry(Some(project), targets);
        Ok(Decision { changes, audit, once })
    }
}

/// The result of a decision, which is stored in one step or not at all.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    pub changes: Vec<Change>,
    pub audit: Option<AuditEvent>,
    /// The idempotency key and its record.
    pub once: Option<(String, IdempotencyRecord)>,
}

/// True for an item whose number was free, so that no document can exist.
fn is_new(id: &DocumentId, kinds: &[ItemKind], numbers: &[u32]) -> bool {
    let reference = Reference::of(id).filter(|found| id.kind == Kind::Item(found.kind));
    let of = |kind: ItemKind| kinds.iter().zip(numbers).find(|(found, _)| **found == kind);
    reference.is_some_and(|found| of(found.kind).is_some_and(|(_, free)| found.number >= *free))
}

impl std::fmt::Debug for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commit")
            .field("reads", &self.reads)
            .field("act", &self.act)
            .finish_non_exhaustive()
    }
}

/// A pure function from the stored state to its changes.
pub type Decide = Box<dyn FnMut(&Snapshot) -> Result<Vec<Change>> + Send>;

/// The state to read. A decision may change only these documents, and create items with free
/// numbers (`an_item_with_a_free_number_need_not_be_read`).
#[derive(Debug, Clone, Default)]
pub struct ReadSet {
    pub documents: Vec<DocumentId>,
    pub heads: Option<Kind>,
    /// Backlinks to read (`a_decision_sees_who_links_to_what`).
    pub links: BacklinkQuery,
    /// For each of these kinds the lowest number that no item ever had.
    pub numbers: Vec<ItemKind>,
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
    pub heads: Vec<Arc<DocumentMeta>>,
    /// As returned by [`DocumentRepository::backlinks`].
    pub links: Vec<Vec<Arc<DocumentMeta>>>,
    /// Greater than any number that an item of the kind ever had in this storage
    /// (`a_number_is_never_given_twice`): in a tombstone (`a_tombstone_keeps_its_number`), in
    /// another process (`numbers_outlive_a_restart`), or put by name
    /// (`a_number_put_by_name_counts`).
    pub numbers: Vec<u32>,
}

/// One change of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put { document: Document },
    Delete { id: DocumentId },
}

impl Change {
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
pub struct Committed {
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
pub enum Changes {
    /// These documents changed or were deleted, each named once.
    Since { revision: Revision, ids: Vec<DocumentId> },
    /// Unknown: read everything again and continue from `revision`.
    Reset { revision: Revision },
}
