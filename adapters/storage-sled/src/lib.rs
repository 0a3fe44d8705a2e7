//! A store in sled `=0.34.7` that acknowledges writes after transaction, flush and sync.
//!
//! One thread writes groups of commits that share one sync. Readers wait for the current group, so
//! they see only durable data. After a failed sync, reads continue and may show changes that were
//! not acknowledged.

mod archive;
mod database;
mod error;
mod files;
mod history;
mod item_list;
mod loss;
mod open;
mod read;
mod records;
mod row_totals;
mod team;
mod write;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, CommitResult, DocumentFilter, DocumentRepository, MetadataPage,
    Refresh, StoreError, StoreResult, scan_items,
};
use reqlore_domain::ports::item_list::{DiagnosticList, ItemPage, ItemQuery, StatusCounts};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_group_commit::GroupWriter;

use crate::database::SledDatabase;
pub use crate::database::has_failed_close;
use crate::error::{catch_sled_panic, database_unavailable, folder_error};
pub use crate::files::DatabaseState;
use crate::records::ProjectRow;
use crate::write::CommitGroup;

/// How long a commit waits for the end of a copy.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of documents or rows that are read on the calling thread. For short reads that
/// is faster than a switch to another thread.
const INLINE_READS: usize = 100;

/// Location of a database.
#[derive(Debug, Clone)]
pub struct SledConfig {
    /// The database's own folder, created if it is missing.
    pub folder: PathBuf,
}

/// Documents, users, tokens and the audit log in a sled database.
#[derive(Debug)]
pub struct SledStore {
    /// `None` after [`SledStore::close`].
    open: Mutex<Option<Arc<OpenStore>>>,
    config: SledConfig,
}

/// The fields are dropped in this order: the writer must end before the database closes.
#[derive(Debug)]
struct OpenStore {
    writer: GroupWriter<CommitGroup>,
    database: Arc<SledDatabase>,
}

impl SledStore {
    /// Opens or creates the database. Errors name the folder and a next step.
    pub fn open(config: &SledConfig) -> StoreResult<Self> {
        Self::open_with(config, Box::new(File::sync_all), COPY_TIMEOUT)
    }

    fn open_with(
        config: &SledConfig,
        sync: files::SyncFn,
        copy_timeout: Duration,
    ) -> StoreResult<Self> {
        let database = Arc::new(open::open_database(&config.folder, sync)?);
        let group = CommitGroup::new(Arc::clone(&database), copy_timeout);
        let started = group.and_then(|group| GroupWriter::start("storage-sled", group));
        let writer =
            started.map_err(|error| folder_error(&config.folder, "start a thread", error))?;
        let open = Mutex::new(Some(Arc::new(OpenStore { writer, database })));
        Ok(Self { open, config: config.clone() })
    }

    /// Inspects an existing database without opening it, because sled writes to every folder that
    /// it opens. Fails where [`SledStore::open`] would, except for damage that only sled detects.
    pub fn inspect(config: &SledConfig) -> StoreResult<DatabaseState> {
        files::inspect_folder(&config.folder)
    }

    /// Accepts that the database lost commits: raises its sequences, appends an audit row with the
    /// loss, and gives it a new identity. Refuses if no commit is missing.
    pub fn accept_loss(config: &SledConfig, context: WriteContext) -> StoreResult<AcceptedLoss> {
        let accepted = catch_sled_panic(|| loss::accept_loss(config, context))?;
        // The caller may open it again at once.
        open::wait_until_closed(&config.folder)?;
        Ok(accepted)
    }

    /// Closes the database after the running calls, so that it can be opened again.
    pub fn close(&self) -> StoreResult<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Running calls hold clones, so the database closes after the last of them.
        drop(open);
        open::wait_until_closed(&self.config.folder)
    }

    fn open_store(&self) -> StoreResult<Arc<OpenStore>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        open.ok_or_else(|| database_unavailable("it was closed", None))
    }

    /// Reads on this thread if that is quick, otherwise on a thread where blocking is allowed.
    async fn run_query<T: Send + 'static>(
        &self,
        is_quick: bool,
        query: impl FnOnce(&SledDatabase) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let database = Arc::clone(&self.open_store()?.database);
        // The gate opens when the current group is durable.
        let guard = Arc::clone(&database.gate).read_owned().await;
        if is_quick {
            return database.watch_damage(catch_sled_panic(|| query(&database)));
        }
        run_blocking(move || {
            // Even if the caller stops waiting, no group is written during the query.
            let _guard = guard;
            database.watch_damage(catch_sled_panic(|| query(&database)))
        })
        .await
    }

    async fn query_project<T: Send + 'static>(
        &self,
        project: &ProjectKey,
        is_quick: bool,
        query: impl FnOnce(&SledDatabase, &ProjectRow) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let project = project.clone();
        self.run_query(is_quick, move |database| query(database, &database.project_row(&project)?))
            .await
    }

    /// Runs work on the writer's thread and returns when its changes are durable.
    async fn run_write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut CommitGroup) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let work = move |group: &mut CommitGroup| {
            let result = catch_sled_panic(|| work(group));
            group.database.watch_damage(result)
        };
        self.open_store()?.writer.run(work).await
    }
}

/// Runs work on a thread where blocking is allowed.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let done = tokio::task::spawn_blocking(|| catch_sled_panic(work)).await;
    done.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
}

#[async_trait]
impl StorageHealth for SledStore {
    fn known_damage(&self) -> Option<String> {
        let database = Arc::clone(&self.open_store().ok()?.database);
        match database.check_writes_enabled() {
            Err(error @ StoreError::Unreadable { .. }) => Some(error.to_string()),
            _ => None,
        }
    }

    /// Blocks commits while it reads all rows again.
    async fn find_damage(&self) -> StoreResult<Vec<String>> {
        let database = Arc::clone(&self.open_store()?.database);
        let guard = Arc::clone(&database.copy_lock).read_owned().await;
        run_blocking(move || {
            let _guard = guard;
            database.find_damage()
        })
        .await
    }
}

#[async_trait]
impl DocumentRepository for SledStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let (is_quick, ids) = (ids.len() <= INLINE_READS, ids.to_vec());
        self.query_project(project, is_quick, move |db, row| db.read_documents(row.id, &ids)).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let (is_quick, ids) = (ids.len() <= INLINE_READS, ids.to_vec());
        self.query_project(project, is_quick, move |db, row| db.read_versions(row.id, &ids)).await
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let is_quick = filter.limit <= INLINE_READS;
        let filter = filter.clone();
        self.query_project(project, is_quick, move |db, row| db.find_metadata(row, &filter)).await
    }

    async fn items(&self, project: &ProjectKey, query: &ItemQuery) -> StoreResult<ItemPage> {
        if query.needs_scan() {
            return scan_items(self, project, query).await;
        }
        // Parents may have any number of children.
        let is_quick = query.limit <= INLINE_READS && query.filter.parents.is_none();
        let query = query.clone();
        self.query_project(project, is_quick, move |db, row| db.list_items(row, &query)).await
    }

    /// Never runs on the calling thread, like backlinks.
    async fn child_statuses(
        &self,
        project: &ProjectKey,
        kind: ItemKind,
        parents: &[Reference],
    ) -> StoreResult<Vec<StatusCounts>> {
        let parents = parents.to_vec();
        self.query_project(project, false, move |db, row| db.child_statuses(row.id, kind, &parents))
            .await
    }

    async fn diagnostics(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        limit: usize,
    ) -> StoreResult<DiagnosticList> {
        let read =
            move |db: &SledDatabase, row: &ProjectRow| db.list_diagnostics(row.id, kind, limit);
        self.query_project(project, limit <= INLINE_READS, read).await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (is_quick, words) = (words.len() <= INLINE_READS, words.to_vec());
        self.query_project(project, is_quick, move |db, row| {
            let mut metadata = Vec::with_capacity(words.len());
            for word in &words {
                metadata.push(db.lookup_metadata(row.id, kind, word)?);
            }
            Ok(metadata)
        })
        .await
    }

    /// Never runs on the calling thread, because any number of documents may link to a target.
    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let links = links.clone();
        self.query_project(project, false, move |db, row| db.backlinks(row.id, &links)).await
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let project = project.clone();
        self.run_write(move |group| group.commit(&project, commit)).await
    }

    async fn changes_since(
        &self,
        project: &ProjectKey,
        since: Option<ChangePosition>,
        limit: usize,
        _: Refresh,
    ) -> StoreResult<ChangePage> {
        let few = limit.min(INLINE_READS);
        let read = move |db: &SledDatabase, row: &ProjectRow| db.changes_since(row, since, few);
        let page = self.query_project(project, true, read).await?;
        // Most pages are empty or short; only a long one is worth a switch of threads.
        match page {
            ChangePage::Since { has_more: true, .. } if few < limit => {
                self.query_project(project, false, move |db, row| {
                    db.changes_since(row, since, limit)
                })
                .await
            }
            page => Ok(page),
        }
    }
}

#[cfg(test)]
mod tests;
