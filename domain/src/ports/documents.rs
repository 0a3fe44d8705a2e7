//! The driven port to storages: documents with versions, one `commit` as the transaction.
//!
//! Each rule names its case in the contract suite in parentheses; a test of the repository checks
//! that the case is there.
//!
//! A change is *decided inside the commit*: the storage reads what the [`Commit`] asks for, calls
//! its `decide` on that snapshot, and applies what it answers before anyone else can write. So no
//! writer ever works on stale text, and nobody has to try again and again against faster ones.

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

/// Keeps documents, whatever the technology. Projects never see each other's documents
/// (`projects_are_apart`).
#[cfg_attr(feature = "test-doubles", mockall::automock)]
#[async_trait]
pub trait DocumentRepository: Send + Sync {
    /// The documents as stored, in the order asked (`get_keeps_the_order_asked`); `None` where
    /// there is none (`what_is_not_there_is_none`). Bytes come back as they were put
    /// (`bytes_come_back_as_they_were_put`).
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>>;

    /// The documents' versions, `None` where there is none (`versions_are_those_of_get`). Cheap
    /// enough to be asked at every call by whoever keeps what it made of a document.
    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>>;

    /// Heads of one kind, sorted by name (`find_sorts_by_name`), with the true total and a cursor
    /// while there is more (`find_pages_with_the_true_total`). A document that can't be read is
    /// listed with its fault (`an_unreadable_document_is_listed_with_its_fault`).
    async fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page>;

    /// What each of these words names in a kind: the heads of the documents that it is the
    /// reference or the name of, sorted by name (`a_word_names_by_reference_and_by_name`). Several
    /// documents may claim one reference (`a_reference_may_be_claimed_twice`). What was just
    /// committed is found, what was deleted is not (`names_follow_every_commit`).
    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: Kind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// For each target the heads of the documents of these kinds that link to it by whatever
    /// relation ([`DocumentMeta::links`]), sorted by kind and name
    /// (`links_are_found_by_their_target`). They follow every commit (`links_follow_every_commit`).
    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>>;

    /// Applies all changes that the decision names, or none.
    ///
    /// The decision sees the newest state (`the_decision_sees_the_newest_state`) and may be called
    /// again when somebody who takes no locks changed a document meanwhile, so it must be a pure
    /// function. An error of the decision changes nothing and comes back as it is
    /// (`a_refused_decision_changes_nothing`). Concurrent commits each take effect
    /// (`concurrent_commits_all_take_effect`). Once it answered, the change outlives a
    /// restart (`what_was_committed_outlives_a_restart`). A change of a document that was not read
    /// is a fault of the caller and refused whole (`a_change_of_what_was_not_read_is_refused`). No
    /// change, no revision (`a_commit_without_changes_keeps_the_revision`).
    ///
    /// With the changes the row of the audit is written that [`Decision`] holds
    /// (`a_commit_is_audited_with_its_change`), after the newest one, and none for what changed
    /// nothing (`what_changed_nothing_is_not_audited_here`). A key that comes with it is used once
    /// (`a_key_is_used_once`).
    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed>;

    /// Which documents of a kind changed since a revision, by whomever
    /// (`changes_tell_what_changed_since`), and of no other kind (`changes_are_of_one_kind`): for
    /// search indexes, caches and subscribers. `Reset` where it can't be told any more, a revision
    /// of another process included (`an_unknown_revision_is_a_reset`). A store may begin to keep
    /// history at the first question; so a new reader asks first and reads everything then. What
    /// was there before the question is in the answer, whoever wrote it; a deletion of what was not
    /// there is in it too.
    async fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
        look: Refresh,
    ) -> StoreResult<Changes>;
}

/// Which heads [`DocumentRepository::find`] gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub kind: Kind,
    /// Continue after this name.
    pub after: Option<String>,
    /// At most so many; `None` for all.
    pub limit: Option<usize>,
}

impl Filter {
    pub fn all(kind: Kind) -> Self {
        Self { kind, after: None, limit: None }
    }
}

/// Who links to these, asked of [`DocumentRepository::backlinks`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BacklinkQuery {
    /// Only documents of these kinds.
    pub kinds: Vec<Kind>,
    /// Ids and references, the latter as they are printed.
    pub targets: Vec<String>,
}

/// A part of a sorted list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub heads: Vec<Arc<DocumentMeta>>,
    /// How many match the filter's kind in all, on whatever page.
    pub total: usize,
    /// The value for [`Filter::after`] that continues the list.
    pub next: Option<String>,
}

impl Page {
    /// The filter's part of all heads of its kind.
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

/// One transaction: what to read, how to decide on it, and the act that it belongs to.
pub struct Commit {
    pub reads: ReadSet,
    pub decide: Decide,
    pub act: WriteContext,
}

impl Commit {
    /// What shall change in view of this snapshot of [`Commit::reads`]. For storages: a decision
    /// about what was not read never gets further than this.
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

/// What a decision leads to; all of it in one step, or nothing.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    pub changes: Vec<Change>,
    /// The row that goes with them, where there is an audit.
    pub audit: Option<AuditEvent>,
    /// The key under which it happens, and what is kept of it.
    pub once: Option<(String, IdempotencyRecord)>,
}

/// Nobody has a document of which the number was free.
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

/// A pure function from what is stored to what shall change.
pub type Decide = Box<dyn FnMut(&Snapshot) -> Result<Vec<Change>> + Send>;

/// What a decision is made on. Only documents named here may be changed, and items may be made
/// with numbers that are free (`an_item_with_a_free_number_need_not_be_read`).
#[derive(Debug, Clone, Default)]
pub struct ReadSet {
    pub documents: Vec<DocumentId>,
    pub heads: Option<Kind>,
    /// Who links to these (`a_decision_sees_who_links_to_what`).
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

/// The newest state of what [`ReadSet`] named: documents in the order asked, heads by name.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub documents: Vec<Option<Document>>,
    pub heads: Vec<Arc<DocumentMeta>>,
    /// As [`DocumentRepository::backlinks`] answers.
    pub links: Vec<Vec<Arc<DocumentMeta>>>,
    /// Greater than any number that an item of the kind has or had, as far as the storage ever saw
    /// it (`a_number_is_never_given_twice`), also in a tombstone (`a_tombstone_keeps_its_number`),
    /// in another process (`numbers_outlive_a_restart`) and where documents were put by name
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
    /// A document with these bytes; their version is taken here, once.
    pub fn put(id: DocumentId, body: impl Into<Bytes>) -> Self {
        Self::Put { document: Document::new(id, body.into()) }
    }

    /// The document's version after the change; `None` when it is gone.
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

/// What a commit wrote: for each change in its order the new version, `None` for a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub revision: Revision,
    pub versions: Vec<Option<Version>>,
}

/// A point in a project's history, as one store counts it. Grows with every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Revision(pub u64);

/// How a storage that others write to as well looks for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// At what it has reason to believe changed.
    Incremental,
    /// At everything, whatever it believes.
    Full,
}

/// The answer to "what changed since?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// These documents changed or went, each named once; now is `revision`.
    Since { revision: Revision, ids: Vec<DocumentId> },
    /// It can't be told: read everything again and go on from `revision`.
    Reset { revision: Revision },
}
