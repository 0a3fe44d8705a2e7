//! Port for a whole storage as a stream of records, used by `copy`, `backup` and `restore`.
//!
//! Every storage implements it, and so does a dump file. All implementations use one order of
//! records, [`RecordKey`].

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::documents::StoreResult;
use super::history::{PastEntry, PresentEntry};
use crate::audit_log::AuditRow;
use crate::backlog::ItemKind;
use crate::document::{Document, DocumentId};
use crate::identity::{Token, TokenId, User};
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// A storage, or a dump file, that can be exported and imported.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Starts an export of a consistent snapshot: later commits are not included
    /// (`export_is_a_snapshot`). A storage without snapshots blocks writers until the reader is
    /// dropped.
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>>;

    /// Starts an import. The storage must be empty, including users and audit rows
    /// (`import_rejects_a_store_with_documents`). Until [`RecordWriter::finish`], it is
    /// incomplete and rejects every other use (`unfinished_import_is_incomplete`).
    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>>;

    /// True if the archive keeps the origin of documents and their earlier versions. Others ignore
    /// them in an import and export none.
    fn keeps_history(&self) -> bool;
}

/// Exports the records of an archive.
#[async_trait]
pub trait RecordReader: Send {
    /// The number of documents; `None` if it is not known in advance.
    fn total_documents(&self) -> Option<usize>;

    /// The next batch of a few megabytes at most, in ascending order of [`ArchiveRecord::key`];
    /// empty at the end (`records_have_one_order`). High-water marks
    /// (`marks_survive_a_round_trip`), earlier versions
    /// (`history_survives_a_round_trip`), users and tokens
    /// (`identities_survive_a_round_trip`) and audit rows
    /// (`audit_rows_survive_a_round_trip`) are exported unchanged.
    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>>;
}

/// Imports the records of an archive.
#[async_trait]
pub trait RecordWriter: Send {
    /// Stores a batch, in the order in which a [`RecordReader`] returns records. A document raises
    /// the high-water mark of its kind, and no imported mark lowers it. Audit rows keep their
    /// numbers and hashes; the chain continues after them.
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()>;

    /// Makes all records durable and marks the storage as complete
    /// (`import_survives_restart`).
    async fn finish(self: Box<Self>) -> StoreResult<()>;
}

/// A record of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveRecord {
    Document(DocumentRecord),
    HighWaterMark(HighWaterMark),
    History(HistoryRecord),
    User(User),
    Token(Token),
    AuditRow(AuditRow),
}

/// The sort key of a record. Archives contain documents by project, kind and name; then high-water
/// marks by project and kind; earlier versions by document and number; users by name; tokens by
/// age; and audit rows by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    Document(ProjectKey, DocumentId),
    HighWaterMark(ProjectKey, ItemKind),
    History(ProjectKey, DocumentId, u64),
    User(String),
    Token(Timestamp, TokenId),
    AuditRow(u64),
}

impl ArchiveRecord {
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Document(DocumentRecord { project, document, .. }) => {
                RecordKey::Document(project.clone(), document.id.clone())
            }
            Self::HighWaterMark(mark) => RecordKey::HighWaterMark(mark.project.clone(), mark.kind),
            Self::History(HistoryRecord { project, document, entry }) => {
                RecordKey::History(project.clone(), document.clone(), entry.number)
            }
            Self::User(user) => RecordKey::User(user.name.key()),
            Self::Token(token) => RecordKey::Token(token.created_at, token.id.clone()),
            Self::AuditRow(row) => RecordKey::AuditRow(row.number),
        }
    }
}

/// The record's name in messages, without the default project.
impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let project = match self {
            Self::Document(project, id) => {
                write!(f, "{id}")?;
                project
            }
            Self::HighWaterMark(project, kind) => {
                write!(f, "next number of {}", kind.name())?;
                project
            }
            Self::History(project, id, number) => {
                write!(f, "version {number} of {id}")?;
                project
            }
            Self::User(name) => return write!(f, "user {name}"),
            Self::Token(_, id) => return write!(f, "token {id}"),
            Self::AuditRow(number) => return write!(f, "row {number} of the audit"),
        };
        if project.is_default() { Ok(()) } else { write!(f, " in {project}") }
    }
}

/// All users and tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityRecords {
    pub users: Vec<User>,
    pub tokens: Vec<Token>,
}

impl IdentityRecords {
    /// The records of all users, followed by those of all tokens.
    pub fn into_records(self) -> impl Iterator<Item = ArchiveRecord> {
        let users = self.users.into_iter().map(ArchiveRecord::User);
        users.chain(self.tokens.into_iter().map(ArchiveRecord::Token))
    }
}

/// The highest number that a sequence has issued. New items get higher numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HighWaterMark {
    pub project: ProjectKey,
    pub kind: ItemKind,
    pub number: u32,
}

/// A document with its storage metadata (`records_survive_a_round_trip`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRecord {
    pub project: ProjectKey,
    pub document: Document,
    /// The time of the last change of the body.
    pub modified: Timestamp,
    /// The path of the document's file, relative to the project's folder; `None` if it never was a
    /// file. Every storage keeps the path, so that a later copy into files restores it.
    pub path: Option<Arc<str>>,
    pub entry: PresentEntry,
}

/// An earlier version or a deletion of a document, which may not exist any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRecord {
    pub project: ProjectKey,
    pub document: DocumentId,
    pub entry: PastEntry,
}
