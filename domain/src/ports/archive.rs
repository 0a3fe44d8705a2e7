//! The driven port to everything that a storage keeps, to move it as it is.
//!
//! `copy`, `backup` and `restore` are one loop from a [`Source`] to a [`Sink`]. A dump in a file is
//! a source and a sink as well.

use std::sync::Arc;

use async_trait::async_trait;

use super::documents::StoreResult;
use crate::audit::AuditRow;
use crate::backlog::ItemKind;
use crate::document::Document;
use crate::identity::{Token, User};
use crate::project::ProjectKey;
use crate::time::Timestamp;

/// A storage as a whole.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Everything there is, as it was at one moment (`a_copy_shows_one_moment`): later commits are
    /// not in it. A storage that can't look back holds its writers off meanwhile.
    async fn read(&self) -> StoreResult<Box<dyn Source>>;

    /// Begins to fill the storage, which must be empty, also of users and of rows of the audit
    /// (`a_storage_that_holds_something_is_not_filled`) and counts as incomplete until
    /// [`Sink::finish`] (`what_was_not_finished_is_incomplete`).
    async fn fill(&self) -> StoreResult<Box<dyn Sink>>;
}

/// Where records come from.
#[async_trait]
pub trait Source: Send {
    /// How many records there are in all, where that is known.
    fn total(&self) -> Option<usize>;

    /// The next ones, a few megabytes at most; none at the end. They come project by project, by
    /// key; in each by kind as in [`crate::document::Kind::ALL`], then by name
    /// (`records_come_in_one_order`).
    async fn next(&mut self) -> StoreResult<Vec<Record>>;

    /// The highest numbers that items ever had, by project and kind, asked when there are no more
    /// records (`marks_come_back_as_they_were_put`). A kind that never had one has no mark.
    async fn marks(&mut self) -> StoreResult<Vec<Mark>>;

    /// All users and tokens, as [`crate::ports::identity`] lists them
    /// (`identities_come_back_as_they_were_put`).
    async fn identities(&mut self) -> StoreResult<Identities>;

    /// The next rows of the audit by number, a few megabytes at most; none at the end
    /// (`the_audit_comes_back_as_it_was_put`).
    async fn audit(&mut self) -> StoreResult<Vec<AuditRow>>;
}

/// Where records go.
#[async_trait]
pub trait Sink: Send {
    /// Takes records in, in the order in which a [`Source`] gives them.
    async fn put(&mut self, records: Vec<Record>) -> StoreResult<()>;

    /// Takes marks in, behind all records, whose own numbers count too.
    async fn mark(&mut self, marks: Vec<Mark>) -> StoreResult<()>;

    /// Takes all users and tokens in.
    async fn identities(&mut self, identities: Identities) -> StoreResult<()>;

    /// Takes rows of the audit in, by number; they are kept with their numbers and hashes, and the
    /// chain goes on behind them.
    async fn audit(&mut self, rows: Vec<AuditRow>) -> StoreResult<()>;

    /// Makes everything durable, and only then the storage complete
    /// (`what_was_filled_outlives_a_restart`).
    async fn finish(self: Box<Self>) -> StoreResult<()>;
}

/// All users and tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities {
    pub users: Vec<User>,
    pub tokens: Vec<Token>,
}

/// The highest number that an item of this kind ever had: no later one gets it or a lower one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub project: ProjectKey,
    pub kind: ItemKind,
    pub number: u32,
}

/// One document with what a storage knows of it (`records_come_back_as_they_were_put`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub project: ProjectKey,
    pub document: Document,
    /// When its bytes were last changed.
    pub modified: Timestamp,
    /// The file that it was, relative to its project's folder; `None` for one that never was a
    /// file. Every storage keeps it, so that a copy back puts it there again.
    pub place: Option<Arc<str>>,
}
