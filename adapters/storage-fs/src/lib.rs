//! Documents as plain markdown files: durable, beneath one root, shared with editors and git.
//!
//! A write is one commit under a lock on the project's root folder: read, decide, stage complete
//! files, sync, exchange, check the old files, sync the folder, answer. Editors take no locks; the
//! check after the exchange notices a save in between. The kernel resolves paths beneath the root's
//! handle; strings are never compared. A section that is a symbolic link is refused, while
//! AGENTS.md may be one to a file inside.

mod archive;
mod commit;
mod failpoint;
#[cfg(target_os = "linux")]
mod inotify;
mod journal;
mod layout;
mod list_files;
mod lock;
mod metadata_index;
mod projects;
mod read_file;
mod sequence;
mod stage_and_swap;
mod store_inner;
mod system;
mod team;
#[cfg(not(target_os = "linux"))]
#[path = "inotify_unsupported.rs"]
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, ChangeSet, CommitRequest, CommitResult, DocumentFilter, DocumentRepository,
    MetadataPage, Refresh, Revision, StoreError, StoreResult,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_local_state::{self as local, error};
use rustix::fs::Access;

use layout::{ProjectRoot, ProjectTree, RequirementsLayout};
use lock::LockQueue;
use metadata_index::load::MetadataCache;
use metadata_index::{MetadataIndex, MetadataIndexes};
use projects::ProjectFolders;
pub use projects::{ConfiguredProjects, FsProjects};
use stage_and_swap::StaleTempFiles;
use store_inner::{StoreInner, linkable_kinds_only};
use team::TeamHandle;

/// The settings of the files adapter.
#[derive(Debug, Clone)]
pub struct Config {
    /// The root of the default project, as callers name it: an existing directory, absolute.
    pub root: PathBuf,
    /// The folder of the default project's documents; the root, unless `fs:DIR` names another.
    pub documents: PathBuf,
    /// `REQLIX_REQ_REL_PATH`: the first place to look for AGENTS.md, relative to a project's root.
    pub requirements_directory: Option<String>,
    /// Further projects, which callers name by key or by folder.
    pub projects: BTreeMap<ProjectKey, PathBuf>,
    /// When not empty, only these directories and those below them can be projects.
    pub roots: Vec<PathBuf>,
    /// The user's home folder, which is never a project itself.
    pub home: Option<PathBuf>,
    /// The folder of the cache; without one every process reads everything.
    pub cache: Option<PathBuf>,
}

impl Config {
    /// Validates the settings before the first call; the message names the setting.
    pub fn check(&self) -> Result<(), String> {
        self.requirements_directory.as_deref().map_or(Ok(()), layout::check_relative)
    }
}

/// The store. Cloning shares it.
#[derive(Debug, Clone)]
pub struct FsStore {
    inner: Arc<StoreInner>,
}

impl FsStore {
    /// Rejects a folder whose import was not finished, and recovers interrupted commits.
    pub fn open(config: &Config) -> StoreResult<Self> {
        let store = Self::new(config);
        for (project, _) in store.inner.folders.iter() {
            store.inner.check_complete(project)?;
        }
        store.inner.recover_team();
        Ok(store)
    }

    /// Opens the files to inspect them; `None` if a commit is running or was interrupted, because
    /// opening would finish it.
    pub fn look(config: &Config) -> StoreResult<Option<Self>> {
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
        let shared = StoreInner {
            folders: ProjectFolders::new(config),
            layout: RequirementsLayout::new(config.requirements_directory.as_deref()),
            locks: LockQueue::default(),
            stale_temp_files: StaleTempFiles::default(),
            indexes: MetadataIndexes::default(),
            cache: MetadataCache { parent_dir: config.cache.clone() },
            team,
        };
        Self { inner: Arc::new(shared) }
    }

    /// Asks the catalog: at once where it is current, else after a refresh.
    async fn query_index<T: Send + 'static>(
        &self,
        project: &ProjectKey,
        kinds: Vec<DocumentKind>,
        refresh: Refresh,
        ask: impl Fn(&mut MetadataIndex) -> T + Send + 'static,
    ) -> StoreResult<T> {
        if refresh == Refresh::Incremental
            && let Some(answer) = self.inner.try_query_current(project, &kinds, &ask)
        {
            return Ok(answer);
        }
        let project = project.clone();
        self.run_blocking(move |shared| {
            let root = shared.open(&project)?;
            let tree = ProjectTree::new(&root, &shared.layout);
            shared.query_refreshed(&project, &tree, &kinds, refresh, ask)
        })
        .await
    }

    /// Runs file work where blocking is allowed. A panic there becomes an internal error.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreInner) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let shared = Arc::clone(&self.inner);
        let outcome = tokio::task::spawn_blocking(move || work(&shared)).await;
        outcome.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
    }
}

/// Creates `.reqlore/local` below a project's root and hides it from Git.
pub fn create_local(root: &Path) -> StoreResult<PathBuf> {
    local::open_or_create(&ProjectRoot::open(root)?.dir)?;
    Ok(root.join(local::LOCAL_STATE_DIR))
}

/// Succeeds if this process may create files in a folder.
pub fn check_writable(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
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
        self.run_blocking(move |shared| shared.get(&project, &ids)).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        if let Some(versions) = self.inner.try_versions(project, ids) {
            return Ok(versions);
        }
        let version = |document: Option<Document>| document.map(|document| document.version);
        Ok(self.get(project, ids).await?.into_iter().map(version).collect())
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        let (filter, kinds) = (filter.clone(), vec![filter.kind]);
        let page = move |catalog: &mut MetadataIndex| catalog.page(&filter);
        self.query_index(project, kinds, Refresh::Incremental, page).await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let words = words.to_vec();
        let lookup = move |catalog: &mut MetadataIndex| catalog.lookup(kind, &words);
        self.query_index(project, vec![kind], Refresh::Incremental, lookup).await
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let links = linkable_kinds_only(links);
        let kinds = links.kinds.clone();
        let backlinks = move |catalog: &mut MetadataIndex| catalog.backlinks(&links);
        self.query_index(project, kinds, Refresh::Incremental, backlinks).await
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let lock = self.inner.locks.lock(project, self.inner.path(project)).await?;
        let project = project.clone();
        self.run_blocking(move |shared| commit::run_commit(shared, &project, commit, &lock)).await
    }

    async fn changes(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        since: Revision,
        look: Refresh,
    ) -> StoreResult<ChangeSet> {
        let changes = move |catalog: &mut MetadataIndex| catalog.changes_since(kind, since);
        self.query_index(project, vec![kind], look, changes).await
    }
}

#[cfg(test)]
mod tests;
