//! Port of a storage for the earlier versions of documents.
//!
//! Databases keep them in their own tables, written in the transaction of the change. Files have
//! the history of their Git repository, and a record of the latest changes on the machine.
//!
//! A name in parentheses is the case of the contract suite that checks the rule.

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_observed_ports::observed;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::store_error::{StoreError, StoreResult};
use super::write_context::{ChangeOrigin, WriteContext};
use crate::document::{Document, DocumentId, Version};
use crate::error::{Error, ErrorKind};
use crate::hash_text::hash_text;
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// Reads and erases earlier versions. No project can access another project's history
/// (`history_is_isolated_by_project`).
#[observed]
#[async_trait]
pub trait DocumentHistory: Send + Sync {
    /// Returns a page of a document's history, newest first
    /// (`history_lists_versions_newest_first`), starting with the present version if the document
    /// exists. A deletion is an entry of its own (`deleted_document_keeps_its_history`). A put of
    /// the same bytes adds no entry (`put_of_the_same_text_adds_no_entry`). A document that never
    /// existed has no entries.
    ///
    /// Pages neither skip nor repeat entries when changes happen in between
    /// (`history_pages_survive_new_changes`).
    async fn history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        query: &HistoryQuery,
    ) -> StoreResult<HistoryPage>;

    /// Returns the text of a present or earlier version (`earlier_text_is_read_by_version`); `None`
    /// if there is no such version or its text was purged. Of several entries with this version,
    /// all have the same text.
    async fn document_at(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>>;

    /// Returns the changes of all documents at or after a time, newest first, at most `limit`
    /// (`recent_changes_are_listed_newest_first`). The changes of one commit have the same time and
    /// origin ([`HistoryEntry::is_of_commit`]). Files list only what their history knows by user.
    async fn recent_changes(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<RecentChange>>;

    /// Returns the last change of each document that any writer changed or deleted at or after a
    /// time (`changed_documents_are_listed_once`); with `ids`, of these documents instead. Files
    /// also list edits by hand, with the time of the file, and what Git changed or removed.
    async fn changed_documents(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        ids: Option<Vec<DocumentId>>,
    ) -> StoreResult<Vec<ChangedDocument>>;

    /// Erases the texts of earlier versions: of one, or of all without `version`. Returns the
    /// number of entries that have no text afterwards, 0 if there is no such version
    /// (`purge_erases_the_text_and_keeps_the_entry`).
    ///
    /// The entries stay, and the audit row is appended in the same transaction. The present text
    /// cannot be purged: naming its version is an error (`present_text_is_never_purged`). The
    /// stored answers of all writes are erased as well, because they may quote the text
    /// (`purge_erases_stored_responses`). Files fail if commits of Git have earlier texts, after
    /// erasing the ones that are not committed.
    async fn purge_history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: WriteContext,
    ) -> StoreResult<u64>;

    /// Removes entries of all projects that a later change ended before this time, with their texts
    /// (`pruning_removes_ended_entries`). The present version always stays. Returns the number of
    /// removed entries; a storage may limit it, so call this until it returns 0.
    async fn prune_history(&self, ended_before: Timestamp) -> StoreResult<u64>;
}

/// The selection of [`DocumentHistory::history`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The [`HistoryPage::next`] of the previous page.
    pub after: Option<String>,
    /// Maximum number of entries, at least 1.
    pub limit: usize,
}

impl HistoryQuery {
    /// The [`HistoryPage::next`] of a database: entries follow that have smaller numbers.
    pub fn before_number(&self) -> StoreResult<u64> {
        let Some(after) = &self.after else { return Ok(u64::MAX) };
        after.parse().map_err(|_| invalid_history_cursor())
    }
}

/// The error for a cursor that no page of this document's history returned.
pub fn invalid_history_cursor() -> StoreError {
    let message = "cursor: not a cursor of this history; start again without it";
    let error = Error::new(ErrorKind::InvalidArgument, message).field("cursor");
    StoreError::Decided(error)
}

/// A page of a history, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryPage {
    pub entries: Vec<HistoryEntry>,
    /// An opaque cursor to the next page; `None` on the last page.
    pub next: Option<String>,
    /// Why the history may be incomplete or differ. Empty for databases.
    pub notes: Vec<HistoryNote>,
}

impl HistoryPage {
    /// Builds a page of a database from entries with their numbers, newest first. One entry more
    /// than the limit shows that there is another page.
    pub fn from_numbered(mut entries: Vec<(u64, HistoryEntry)>, limit: usize) -> Self {
        let mut next = None;
        if entries.len() > limit {
            entries.truncate(limit);
            next = entries.last().map(|(number, _)| number.to_string());
        }
        let entries = entries.into_iter().map(|(_, entry)| entry).collect();
        Self { entries, next, notes: Vec::new() }
    }
}

/// One version or deletion of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// `None` if the document was deleted.
    pub version: Option<Version>,
    /// The time of the change.
    pub at: Timestamp,
    pub origin: ChangeOrigin,
    /// The text was erased by [`DocumentHistory::purge_history`].
    pub is_purged: bool,
}

impl HistoryEntry {
    /// True if both entries are changes of the same commit: no two commits of a user have the same
    /// time, in nanoseconds.
    pub fn is_of_commit(&self, other: &Self) -> bool {
        self.at == other.at && self.origin == other.origin
    }
}

/// A change of any document of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentChange {
    pub id: DocumentId,
    pub entry: HistoryEntry,
}

impl RecentChange {
    /// Sorts entries with their documents and numbers, newest first.
    pub fn newest_first(
        mut changes: Vec<(DocumentId, u64, HistoryEntry)>,
        limit: usize,
    ) -> Vec<Self> {
        changes.sort_by(|(id, number, entry), (other_id, other_number, other)| {
            (other.at, id, other_number).cmp(&(entry.at, other_id, number))
        });
        changes.truncate(limit);
        changes.into_iter().map(|(id, _, entry)| Self { id, entry }).collect()
    }
}

/// The last change of a document in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedDocument {
    pub id: DocumentId,
    pub entry: HistoryEntry,
    /// The document did not exist when the period began.
    pub is_new: bool,
}

/// A limit of a history on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryNote {
    /// The project is not in a Git repository.
    NoRepository,
    /// Git is not installed.
    NoGit,
    /// The clone lacks older commits or texts.
    ShallowClone,
    /// The repository belongs to another user, so Git refuses to read it.
    ForeignOwner,
    /// Git converts line ends or filters the file, so versions in Git differ from the file's.
    FiltersChangeBytes,
    /// The first entry is not committed yet.
    Uncommitted,
    /// Git needed too long or returned too much, so older entries are missing.
    Truncated,
    /// Git failed otherwise; the log has the reason.
    Unreadable,
    /// The local history cannot be read or written.
    LocalBlocked,
}

/// The number and origin of the present version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentEntry {
    /// The [`PastEntry::number`] that the version will have.
    pub number: u64,
    pub origin: ChangeOrigin,
}

/// The first version of a document, from an unknown origin: the state after an import of files.
impl Default for PresentEntry {
    fn default() -> Self {
        Self { number: 1, origin: ChangeOrigin::default() }
    }
}

/// A version that a later change replaced or deleted, or a deletion, as databases and dumps keep
/// it. The present version is no entry: its document holds the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastEntry {
    /// Position in the document's history, ascending. The first version has 1.
    pub number: u64,
    /// The time of the change.
    pub at: Timestamp,
    /// The time of the next change; for a deletion the same as `at`.
    pub ended: Timestamp,
    pub origin: ChangeOrigin,
    pub content: PastContent,
}

/// The document after the change of a [`PastEntry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PastContent {
    Deleted,
    Text(Bytes),
    /// The hash of the text that was erased.
    Purged(TextHash),
}

impl PastEntry {
    /// Builds the entry of a page.
    pub fn to_history_entry(&self) -> HistoryEntry {
        HistoryEntry {
            version: self.content.version(),
            at: self.at,
            origin: self.origin.clone(),
            is_purged: matches!(self.content, PastContent::Purged(_)),
        }
    }
}

impl PastContent {
    /// The version of the text; `None` for a deletion.
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Deleted => None,
            Self::Text(body) => Some(Version::of_bytes(body)),
            Self::Purged(hash) => Some(hash.version()),
        }
    }

    /// The size of the text that is kept.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(body) => body.len(),
            Self::Deleted | Self::Purged(_) => 0,
        }
    }
}

/// The full SHA-256 of a text, under which databases store earlier texts. A [`Version`] is its
/// beginning, which is too short to be a storage key: two texts could share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TextHash(pub [u8; 32]);

impl TextHash {
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub fn version(&self) -> Version {
        Version::of_hash(&self.0)
    }
}

hash_text!(TextHash);

/// Rejects a purge of the present text.
pub fn check_purge(
    id: &DocumentId,
    present: Option<Version>,
    version: Option<Version>,
) -> StoreResult<()> {
    let Some(version) = version.filter(|version| Some(*version) == present) else { return Ok(()) };
    let message = format!(
        "version: {version} is the present text of {id}; change the text first, then purge"
    );
    Err(StoreError::Decided(Error::new(ErrorKind::Refused, message).field("version")))
}
