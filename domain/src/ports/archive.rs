//! Port for moving a whole storage: `copy`, `backup`, `restore` and `--verify`.
//!
//! Everything a storage keeps is one stream of [`ArchiveRecord`]s in one order. A dump file
//! implements the port as well.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::documents::StoreResult;
use crate::audit_log::AuditRow;
use crate::backlog::ItemKind;
use crate::document::{Document, DocumentId};
use crate::identity::{Token, TokenId, User};
use crate::project_key::ProjectKey;
use crate::timestamp::Timestamp;

/// A storage as a whole.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Streams a consistent snapshot (`export_is_a_snapshot`): later commits are not part of
    /// it. A storage without snapshots blocks its writers until the reader is dropped.
    async fn read(&self) -> StoreResult<Box<dyn RecordReader>>;

    /// Starts an import. The storage must be empty, including users and audit rows
    /// (`import_rejects_a_store_with_documents`). It is incomplete and refuses every other
    /// use until [`RecordWriter::finish`] (`unfinished_import_is_incomplete`).
    async fn fill(&self) -> StoreResult<Box<dyn RecordWriter>>;
}

/// Reads the records of an archive.
#[async_trait]
pub trait RecordReader: Send {
    /// The number of documents, if known in advance.
    fn total(&self) -> Option<usize>;

    /// The next records in ascending order of [`ArchiveRecord::key`], a few megabytes at most;
    /// empty at the end (`records_have_one_order`). Marks (`marks_survive_a_round_trip`),
    /// users and tokens (`identities_survive_a_round_trip`) and audit rows
    /// (`audit_rows_survive_a_round_trip`) are unchanged.
    async fn next(&mut self) -> StoreResult<Vec<ArchiveRecord>>;
}

/// Writes the records of an archive.
#[async_trait]
pub trait RecordWriter: Send {
    /// Stores records, in the order in which a [`RecordReader`] returns them. A high-water mark
    /// never lowers one that a document implies. Audit rows keep their numbers and hashes, and the
    /// chain continues after them.
    async fn put(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()>;

    /// Makes everything durable and marks the storage complete
    /// (`import_survives_restart`).
    async fn finish(self: Box<Self>) -> StoreResult<()>;
}

/// One unit of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveRecord {
    Document(DocumentRecord),
    HighWaterMark(HighWaterMark),
    User(User),
    Token(Token),
    AuditRow(AuditRow),
}

/// The position of a record in its archive: documents by project, kind and name, high-water marks
/// by project and kind, users by name, tokens by age, audit rows by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    Document(ProjectKey, DocumentId),
    HighWaterMark(ProjectKey, ItemKind),
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
            Self::User(user) => RecordKey::User(user.name.key()),
            Self::Token(token) => RecordKey::Token(token.created_at, token.id.clone()),
            Self::AuditRow(row) => RecordKey::AuditRow(row.number),
        }
    }
}

/// The record's name in messages. The default project is not named.
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
    /// The records of all users, then of all tokens.
    pub fn into_records(self) -> impl Iterator<Item = ArchiveRecord> {
        let tokens = self.tokens.into_iter().map(ArchiveRecord::Token);
        self.users.into_iter().map(ArchiveRecord::User).chain(tokens)
    }
}

/// The highest number that an item of this kind ever had. New items get higher ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HighWaterMark {
    pub project: ProjectKey,
    pub kind: ItemKind,
    pub number: u32,
}

/// One document with its storage metadata (`records_survive_a_round_trip`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRecord {
    pub project: ProjectKey,
    pub document: Document,
    /// When its bytes last changed.
    pub modified: Timestamp,
    /// The path of its file, relative to the project's folder; `None` if it never was a file.
    /// Every storage keeps it, so that a copy back restores the path.
    pub place: Option<Arc<str>>,
}
