//! Document store on rows and transactions: everything that documents, history, lists, users,
//! tokens and audit rows mean in a database. A driver implements [`database::Database`].
//!
//! One thread of each server writes groups of commits; reads run concurrently. No server keeps
//! state that another one needs.

mod archive;
mod call_reads;
mod content_check;
mod counters;
pub mod damage;
pub mod database;
mod derived;
pub mod error;
mod health;
pub mod loss;
pub mod pending;
mod read;
mod records;
pub mod row;
mod stored_meta;
pub mod tables;
mod writer;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::backlog::claim::{Claim, ClaimChange, ClaimDecision};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::claims::{ClaimReach, ClaimStore};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, CommitResult, DocumentFilter, DocumentRepository, MetadataPage,
    Refresh, StoreError, StoreResult, scan_records,
};
use reqlore_domain::ports::history::{
    ChangedDocument, DocumentHistory, HistoryPage, HistoryQuery, RecentChange,
};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::identity::{IdentityCommit, IdentityRepository};
use reqlore_domain::ports::record_list::{RecordCounts, RecordPage, RecordQuery, RecordSelection};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::{GroupWriter, run_alone};

pub use call_reads::in_read_scope;
pub use derived::LIST_TABLES;
pub use records::StoreRow;
pub use stored_meta::METADATA_FORMAT;

use crate::writer::history::STEP_ROWS;
use call_reads::CallReads;
use counters::WriterCounters;
use damage::KnownDamage;
use database::{Database, RowSource};
use read::{changes, documents, entities, history, item_list, team};
use row::{RowQuery, TableRow};
use writer::{GroupWriterEngine, ReadPlan};

/// An open database. Clones share it.
#[derive(Debug, Clone)]
pub struct RowStore {
    database: Arc<dyn Database>,
    reads: Arc<CallReads>,
    writer: Arc<Writer>,
    counters: Arc<WriterCounters>,
    damage: Arc<KnownDamage>,
}

#[derive(Debug)]
enum Writer {
    Thread(GroupWriter<GroupWriterEngine>),
    /// Each job is a group of its own, on the thread of its caller.
    Caller(Box<Mutex<GroupWriterEngine>>),
}

impl RowStore {
    /// Writes on the threads of callers, which may block.
    pub fn without_thread(
        database: Arc<dyn Database>,
        damage: Arc<KnownDamage>,
    ) -> StoreResult<Self> {
        let engine = GroupWriterEngine::new(database.open_session(), Arc::clone(&damage))?;
        let counters = Arc::clone(&engine.counters);
        let writer = Arc::new(Writer::Caller(Box::new(Mutex::new(engine))));
        let reads = CallReads::new(Arc::clone(&database));
        Ok(Self { database, reads, writer, counters, damage })
    }

    /// Starts the writer of a database that has its tables. Fails if an import is filling it, or
    /// if its metadata has another format.
    pub async fn start(database: Arc<dyn Database>) -> StoreResult<Self> {
        let row = changes::store_row(&*database).await?;
        Self::start_with(database, &row, Arc::default())
    }

    /// Like [`Self::start`], for a driver that has read the row of `store` and may report damage.
    pub fn start_with(
        database: Arc<dyn Database>,
        row: &StoreRow,
        damage: Arc<KnownDamage>,
    ) -> StoreResult<Self> {
        row.check_usable()?;
        Self::start_writer(database, damage)
    }

    /// Starts the writer for a server whose database cannot be reached now. Calls fail until it
    /// can.
    pub fn start_disconnected(database: Arc<dyn Database>) -> StoreResult<Self> {
        Self::start_writer(database, Arc::default())
    }

    fn start_writer(database: Arc<dyn Database>, damage: Arc<KnownDamage>) -> StoreResult<Self> {
        let counters = Arc::<WriterCounters>::default();
        let mut engine = GroupWriterEngine::new(database.open_session(), Arc::clone(&damage))?;
        engine.counters = Arc::clone(&counters);
        engine.is_remote = database.is_remote();
        let writer = GroupWriter::start("database-writer", engine).map_err(|error| {
            StoreError::Internal(format!("could not start a thread for the writer: {error}"))
        })?;
        let writer = Arc::new(Writer::Thread(writer));
        let reads = CallReads::new(Arc::clone(&database));
        Ok(Self { database, reads, writer, counters, damage })
    }

    /// Runs a job in a group. It may run several times.
    async fn run<T: Send + 'static>(
        &self,
        plan: ReadPlan,
        mut work: impl FnMut(&mut GroupWriterEngine) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let outcome = match &*self.writer {
            Writer::Thread(writer) => {
                writer.run_repeatable(plan, move |engine| engine.run_job(&mut work)).await
            }
            Writer::Caller(engine) => {
                let mut engine = engine.lock().unwrap_or_else(PoisonError::into_inner);
                run_alone(&mut *engine, &plan, |engine| engine.run_job(&mut work))
            }
        };
        self.recorded(outcome)
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut GroupWriterEngine) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.run(ReadPlan::default(), work).await
    }

    /// Records damage that rows show.
    fn recorded<T>(&self, outcome: StoreResult<T>) -> StoreResult<T> {
        outcome.map_err(|error| self.damage.record(error))
    }
}

/// After damage that may hide rows, a read that misses some fails.
#[async_trait]
impl RowSource for RowStore {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        let Some(error) = self.damage.missing_rows_error() else {
            return self.reads.read(queries).await;
        };
        let results = self.reads.read(queries.clone()).await?;
        let mut answers = queries.iter().zip(&results);
        if answers.all(|(query, rows)| query.is_complete(rows)) { Ok(results) } else { Err(error) }
    }
}

/// Runs a call of a database that works on the thread of its caller. Its first poll does not block.
pub fn run_blocking<T>(call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    loop {
        if let Some(outcome) = call.as_mut().now_or_never() {
            return outcome;
        }
    }
}

#[async_trait]
impl DocumentRepository for RowStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        self.recorded(documents::documents(self, project, ids).await)
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        self.recorded(documents::versions(self, project, ids).await)
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        self.recorded(documents::metadata_page(self, project, filter).await)
    }

    async fn list(&self, project: &ProjectKey, query: &RecordQuery) -> StoreResult<RecordPage> {
        let page = match (&query.selection, query.counts) {
            (RecordSelection::Listed, RecordCounts::Status | RecordCounts::ChildStatus) => {
                item_list::list(self, project, query).await
            }
            _ => entities::list(self, project, query).await,
        };
        match self.recorded(page)? {
            Some(page) => Ok(page),
            None => scan_records(self, project, query).await,
        }
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        self.recorded(documents::lookup(self, project, kind, words).await)
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        self.recorded(documents::backlinks(self, project, links).await)
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        mut commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let plan = ReadPlan::of_commit(project, &commit);
        let project = project.clone();
        self.run(plan, move |engine| engine.commit(&project, &mut commit)).await
    }

    async fn changes_since(
        &self,
        project: &ProjectKey,
        since: Option<ChangePosition>,
        limit: usize,
        _: Refresh,
    ) -> StoreResult<ChangePage> {
        self.recorded(changes::changes_since(self, project, since, limit).await)
    }
}

#[async_trait]
impl DocumentHistory for RowStore {
    async fn history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        query: &HistoryQuery,
    ) -> StoreResult<HistoryPage> {
        let before = query.before_number()?;
        self.recorded(history::history_page(self, project, id, before, query.limit).await)
    }

    async fn document_at(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Version,
    ) -> StoreResult<Option<Document>> {
        self.recorded(history::document_at(self, project, id, version).await)
    }

    async fn recent_changes(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<RecentChange>> {
        self.recorded(history::recent_changes(self, project, since, limit).await)
    }

    async fn changed_documents(
        &self,
        project: &ProjectKey,
        since: Timestamp,
        ids: Option<Vec<DocumentId>>,
    ) -> StoreResult<Vec<ChangedDocument>> {
        self.recorded(history::changed_documents(self, project, since, ids).await)
    }

    async fn purge_history(
        &self,
        project: &ProjectKey,
        id: &DocumentId,
        version: Option<Version>,
        context: WriteContext,
    ) -> StoreResult<u64> {
        let (project, id) = (project.clone(), id.clone());
        let purge = self.write(move |engine| engine.purge(&project, &id, version, &context));
        let count = purge.await?;
        if count > 0 {
            self.database.erase_free_space().await?;
        }
        Ok(count)
    }

    async fn prune_history(&self, ended_before: Timestamp) -> StoreResult<u64> {
        self.write(move |engine| engine.prune_history(ended_before)).await
    }
}

#[async_trait]
impl IdentityRepository for RowStore {
    async fn list_users(&self) -> StoreResult<Vec<User>> {
        self.recorded(team::users(self).await)
    }

    async fn list_tokens(&self) -> StoreResult<Vec<Token>> {
        self.recorded(team::tokens(self).await)
    }

    async fn token_owner(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        self.recorded(team::token_owner(self, id).await)
    }

    async fn identity_epoch(&self) -> StoreResult<u64> {
        let row = self.recorded(changes::store_row(self).await)?;
        // Read on every request, so an import or update by another server is noticed here.
        row.check_usable()?;
        Ok(row.epoch.cast_unsigned())
    }

    async fn commit_identities(&self, mut commit: IdentityCommit) -> StoreResult<()> {
        self.write(move |engine| engine.commit_identities(&mut commit)).await
    }

    async fn record_use(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        // A group without changes would still cost a transaction.
        if uses.is_empty() {
            return Ok(());
        }
        self.write(move |engine| engine.record_uses(&uses)).await
    }

    async fn expire_sessions(&self, now: Timestamp) -> StoreResult<()> {
        self.write(move |engine| engine.expire_sessions(now)).await
    }
}

#[async_trait]
impl AuditLog for RowStore {
    async fn append_events(&self, events: Vec<AuditEvent>) -> StoreResult<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.write(move |engine| engine.append_events(events.clone())).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.recorded(team::audit_rows(self, from, limit).await)
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        let row = self.recorded(changes::store_row(self).await);
        Ok(row?.newest_audit)
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        Ok(self.write(move |engine| engine.prune_rows(older_than, now)).await? as u64)
    }
}

#[async_trait]
impl IdempotencyStore for RowStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        self.recorded(team::find_record(self, key).await)
    }

    async fn save_answer(&self, key: &str, answer: String) -> StoreResult<()> {
        let key = key.to_owned();
        self.write(move |engine| engine.save_answer(&key, &answer)).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        while self.write(move |engine| engine.expire_records(before)).await? == STEP_ROWS {}
        Ok(())
    }
}

#[async_trait]
impl ClaimStore for RowStore {
    async fn live_claims(&self, project: &ProjectKey, now: Timestamp) -> StoreResult<Vec<Claim>> {
        let mut claims = self.recorded(team::claims(self, project).await)?;
        if !claims.is_empty() {
            let now = self.database.current_time().await?.unwrap_or(now);
            claims.retain(|claim| claim.is_live(now));
        }
        Ok(claims)
    }

    async fn change_claim(
        &self,
        project: &ProjectKey,
        change: ClaimChange,
    ) -> StoreResult<(ClaimDecision, ClaimReach)> {
        // Asked before the transaction: an earlier time keeps a claim that just ended, never more.
        let now = self.database.current_time().await?.unwrap_or(change.at);
        let project = project.clone();
        let work =
            move |engine: &mut GroupWriterEngine| engine.change_claim(&project, &change, now);
        Ok((self.write(work).await?, ClaimReach::Server))
    }
}
