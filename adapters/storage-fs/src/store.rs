//! The store's ports over the threads that do file work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, CommitResult, DocumentFilter, DocumentRepository, MetadataPage,
    Refresh, StoreError, StoreResult,
};
use reqlore_domain::ports::record_list::{RecordPage, RecordQuery};
use reqlore_domain::project_key::ProjectKey;
use reqlore_local_state::{self as local};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::folder_names::RequirementsLayout;
use crate::inotify::WatchQueue;
use crate::layout::{ProjectRoot, ProjectTree};
use crate::lock::LockQueue;
use crate::metadata_index::MetadataIndex;
use crate::metadata_index::load::MetadataCache;
use crate::open_indexes::OpenIndexes;
use crate::projects::ProjectFolders;
use crate::sparse_checkout::SparseCheckouts;
use crate::stale_temp_files::StaleTempFiles;
use crate::store_inner::{MAX_CONCURRENT_HISTORIES, StoreInner, linkable_kinds_only};
use crate::team::handle::TeamHandle;
use crate::{commit, journal, open_indexes};

/// Store of all projects' documents on the file system. Clones share their state.
#[derive(Debug, Clone)]
pub struct FsStore {
    pub(crate) inner: Arc<StoreInner>,
}

impl FsStore {
    /// Opens the store, recovers interrupted commits and removes their temporary files. Rejects a
    /// folder with an incomplete import.
    pub fn open(config: &Config) -> StoreResult<Self> {
        let store = Self::new(config);
        for (project, _) in store.inner.folders.iter() {
            store.inner.check_complete(project)?;
        }
        store.inner.recover_team();
        for (project, _) in store.inner.folders.iter() {
            store.inner.remove_stale_temp_files(project);
        }
        Ok(store)
    }

    /// Opens the store to inspect it; `None` if a commit is running or was interrupted, because
    /// opening the store would finish it.
    pub fn open_to_inspect(config: &Config) -> StoreResult<Option<Self>> {
        let store = Self::with_team(config, TeamHandle::read_only());
        if journal::exists(store.inner.folders.default_path()) {
            return Ok(None);
        }
        store.inner.check_complete(&ProjectKey::default())?;
        Ok(Some(store))
    }

    pub fn new(config: &Config) -> Self {
        Self::with_team(config, TeamHandle::default())
    }

    fn with_team(config: &Config, team: TeamHandle) -> Self {
        let cache = MetadataCache { parent_dir: config.cache.clone() };
        let (max_bytes, queue) = (open_indexes::MAX_BYTES, WatchQueue::default());
        let inner = StoreInner {
            folders: ProjectFolders::new(config),
            layout: RequirementsLayout::new(config.requirements_directory.as_deref()),
            locks: LockQueue::default(),
            stale_temp_files: StaleTempFiles::default(),
            indexes: OpenIndexes::new(max_bytes, queue, cache.clone()),
            cache,
            git: config.git.clone(),
            git_permits: Semaphore::new(MAX_CONCURRENT_HISTORIES),
            sparse_checkouts: SparseCheckouts::default(),
            team,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Queries the metadata index: at once if it is current, else after a refresh.
    pub(crate) async fn query_index<T: Send + 'static>(
        &self,
        project: &ProjectKey,
        kinds: Vec<DocumentKind>,
        refresh: Refresh,
        query: impl Fn(&mut MetadataIndex) -> T + Send + 'static,
    ) -> StoreResult<T> {
        // Usually current, and then no other thread is needed.
        if refresh == Refresh::Incremental
            && let Some(answer) = self.inner.try_query_current(project, &kinds, &query)
        {
            return Ok(answer);
        }
        let project = project.clone();
        self.run_blocking(move |store| {
            let root = store.open_root(&project)?;
            store.check_checked_out(&project, kinds.iter().copied())?;
            let tree = ProjectTree::new(&root, &store.layout);
            store.query_refreshed(&project, &tree, &kinds, refresh, query)
        })
        .await
    }

    /// Runs file work on a thread that may block. A panic becomes an internal error.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreInner) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let inner = Arc::clone(&self.inner);
        let outcome = tokio::task::spawn_blocking(move || work(&inner)).await;
        outcome.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
    }
}

/// Creates `.reqlore/local` below a project's root and hides it from Git.
pub fn create_local_state_dir(root: &Path) -> StoreResult<PathBuf> {
    local::open_or_create(&ProjectRoot::open(root)?.dir)?;
    Ok(root.join(local::LOCAL_STATE_DIR))
}

#[async_trait]
impl DocumentRepository for FsStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        if let Some(documents) = self.inner.try_get(project, ids) {
            return Ok(documents);
        }
        let (project, ids) = (project.clone(), ids.to_vec());
        self.run_blocking(move |store| store.get(&project, &ids)).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        if let Some(versions) = self.inner.try_versions(project, ids) {
            return Ok(versions);
        }
        // Some version is unknown, so the documents are read.
        let mut versions = Vec::with_capacity(ids.len());
        for document in self.get(project, ids).await? {
            versions.push(document.map(|document| document.version));
        }
        Ok(versions)
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let filter = filter.clone();
        self.query_index(project, vec![filter.kind], Refresh::Incremental, move |index| {
            index.page(&filter)
        })
        .await
    }

    async fn list(&self, project: &ProjectKey, query: &RecordQuery) -> StoreResult<RecordPage> {
        let (kind, query) = (query.kind, query.clone());
        self.query_index(project, vec![kind], Refresh::Incremental, move |index| {
            index.of_kind(kind).list(&query)
        })
        .await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let words = words.to_vec();
        self.query_index(project, vec![kind], Refresh::Incremental, move |index| {
            index.lookup(kind, &words)
        })
        .await
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        query: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let query = linkable_kinds_only(query);
        let kinds = query.kinds.clone();
        self.query_index(project, kinds, Refresh::Incremental, move |index| index.backlinks(&query))
            .await
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        // Locked here, so that a call that waits for other calls occupies no thread.
        let lock = self.inner.locks.lock(project, self.inner.project_path(project)).await?;
        let project = project.clone();
        self.run_blocking(move |store| commit::run_commit(store, &project, commit, &lock)).await
    }

    async fn changes_since(
        &self,
        project: &ProjectKey,
        since: Option<ChangePosition>,
        limit: usize,
        refresh: Refresh,
    ) -> StoreResult<ChangePage> {
        self.query_index(project, DocumentKind::ALL.to_vec(), refresh, move |index| {
            index.changes_since(since, limit)
        })
        .await
    }
}
