//! The search index: lexical search by tantivy, semantic search by embeddings, and a cache of both.
//!
//! Everything is derived from documents. A missing or damaged part is empty and is not listed by
//! `indexed`, so the application adds its documents again.

mod analyzer;
mod cache_dir;
mod candidates;
mod checkpoints;
mod checksummed_file;
mod chunk;
mod config;
mod disk_directory;
mod file_trailer;
mod filter;
mod index_cost;
mod index_folder;
pub mod inspect;
mod lexical;
mod lock;
mod private_files;
mod project_cache;
mod project_index;
mod rank_fusion;
pub mod rebuild;
mod script;
mod semantic;
mod snippet;
mod system;
mod worker;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::change_page::ChangePosition;
use reqlore_domain::ports::embedder::Embedder;
use reqlore_domain::ports::search::{IndexStatus, SearchIndex};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{DocumentProjection, IndexDifference, SearchHits, SearchQuery};
use tokio::task::spawn_blocking;

pub use config::SearchConfig;

use crate::lock::lock;
use project_index::{ProjectIndex, QueryPlan, SemanticPlan, embed_query};
use worker::SharedState;

/// Maximum items that `apply` indexes on the caller's thread.
const MAX_FAST_APPLY_ITEMS: usize = 8;

/// The index of all projects. Dropping it saves unsaved changes.
#[expect(missing_debug_implementations, reason = "indexes and models have none")]
pub struct LocalSearchIndex {
    shared: Arc<SharedState>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl LocalSearchIndex {
    /// Opens no project yet; the first call for a project opens it.
    pub fn new(config: SearchConfig) -> Self {
        let shared = Arc::new(SharedState::new(config));
        let worker = worker::start_thread(&shared);
        Self { shared, worker: Mutex::new(worker) }
    }

    /// Runs fast work on this thread and other work on a blocking thread. If the caller drops this
    /// future, work that has not begun is left out, and later calls wait for work that has.
    async fn with_project<T: Send + 'static>(
        &self,
        key: &ProjectKey,
        is_fast: impl FnOnce(&ProjectIndex) -> bool,
        work: impl FnOnce(&mut ProjectIndex) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // For fast work the change of threads would take longer than the work.
        if let Some(project) = self.shared.cached_project(key)
            // A lock that another thread holds would block the runtime's thread.
            && let Ok(mut project) = project.try_lock()
            && is_fast(&project)
        {
            return work(&mut project);
        }
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        let caller = Arc::new(());
        let waiting = Arc::downgrade(&caller);
        let result = run_blocking(move || {
            let project = shared.project(&key)?;
            let mut project = lock(&project);
            // Checked under the lock: a later call may already have indexed a newer text.
            if waiting.strong_count() == 0 {
                return Err(Error::new(ErrorKind::Cancelled, "search: the call was cancelled"));
            }
            let result = work(&mut project);
            // A commit may have added files, and the budget must not wait for the next save.
            shared.record_cost(&key, project.cost());
            result
        })
        .await;
        drop(caller);
        result
    }

    /// The search may have committed texts that the background thread has not seen.
    fn wake_for_pending(&self, key: &ProjectKey, hits: SearchHits) -> SearchHits {
        if hits.pending > 0 {
            self.shared.record_pending(key);
        }
        hits
    }
}

/// The result of a search's first step.
enum SearchStep {
    Finished(SearchHits),
    NeedsEmbedding(SemanticPlan, Arc<dyn Embedder>),
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(work).await.map_err(|error| {
        Error::new(ErrorKind::Internal, "search: the operation was interrupted; try again")
            .caused_by(error)
    })?
}

#[async_trait]
impl SearchIndex for LocalSearchIndex {
    async fn position(&self, project: &ProjectKey) -> Result<Option<ChangePosition>> {
        self.with_project(project, |_| true, |project| Ok(project.position())).await
    }

    async fn begin_build(&self, project: &ProjectKey) -> Result<bool> {
        self.with_project(project, |_| false, ProjectIndex::begin_build).await
    }

    async fn indexed_versions<'a>(
        &self,
        project: &ProjectKey,
        after: Option<&'a DocumentId>,
        limit: usize,
    ) -> Result<Vec<(DocumentId, Version)>> {
        let after = after.cloned();
        let work = move |project: &mut ProjectIndex| project.indexed(after.as_ref(), limit);
        self.with_project(project, ProjectIndex::is_committed, work).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        documents: &[DocumentId],
    ) -> Result<Vec<Option<Version>>> {
        let documents = documents.to_vec();
        let work = move |project: &mut ProjectIndex| project.versions_of(&documents);
        self.with_project(project, ProjectIndex::is_committed, work).await
    }

    async fn apply_projections(
        &self,
        project: &ProjectKey,
        projections: Vec<DocumentProjection>,
        position: Option<ChangePosition>,
    ) -> Result<()> {
        let _call = self.shared.begin_call();
        let items: usize = projections.iter().map(|projection| projection.items.len()).sum();
        let is_fast = items <= MAX_FAST_APPLY_ITEMS;
        let (shared, key) = (Arc::clone(&self.shared), project.clone());
        self.with_project(
            project,
            |_| is_fast,
            move |project| {
                // Before the work: the caller may drop this future, the blocking thread continues.
                shared.record_change(&key);
                project.apply(&projections, position)?;
                if project.completes_build() {
                    shared.record_complete(&key);
                }
                Ok(())
            },
        )
        .await
    }

    async fn search(&self, project: &ProjectKey, query: &SearchQuery) -> Result<SearchHits> {
        let _call = self.shared.begin_call();
        // Owned, because the work may run on a blocking thread.
        let owned_query = query.clone();
        let step = self.with_project(project, ProjectIndex::is_fast_search, move |project| {
            let plan = project.plan_query(&owned_query)?;
            match plan {
                QueryPlan::Ready(plan) => {
                    let hits = project.search(&owned_query, &plan)?;
                    Ok(SearchStep::Finished(hits))
                }
                QueryPlan::NeedsEmbedding(plan, embedder) => {
                    Ok(SearchStep::NeedsEmbedding(plan, embedder))
                }
            }
        });
        let (plan, embedder) = match step.await? {
            SearchStep::Finished(hits) => return Ok(self.wake_for_pending(project, hits)),
            SearchStep::NeedsEmbedding(plan, embedder) => (plan, embedder),
        };
        let (shared, key, query) = (Arc::clone(&self.shared), project.clone(), query.clone());
        let hits = run_blocking(move || {
            // A slow model embeds before the lock, so that other calls do not wait for it.
            let vector = embed_query(&*embedder, &query);
            let project = shared.project(&key)?;
            let mut project = lock(&project);
            let plan = project.add_query_vector(plan, &query, vector);
            project.search(&query, &plan)
        });
        hits.await.map(|hits| self.wake_for_pending(project, hits))
    }

    async fn update_checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<IndexDifference> {
        self.with_project(project, |_| true, move |project| Ok(project.checkpoint(name, versions)))
            .await
    }

    async fn erase(&self, project: &ProjectKey) -> Result<()> {
        let (shared, key) = (Arc::clone(&self.shared), project.clone());
        let erase = move || {
            shared.erase(&key).map_err(|error| {
                let message = "search index: a folder cannot be removed; see the log";
                Error::new(ErrorKind::Unavailable, message).caused_by(error)
            })
        };
        run_blocking(erase).await
    }

    fn status(&self) -> IndexStatus {
        self.shared.status()
    }
}

impl Drop for LocalSearchIndex {
    fn drop(&mut self) {
        self.shared.stop();
        // The thread saves all projects before it ends.
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker
            && worker.join().is_err()
        {
            tracing::error!("search: the background thread panicked");
        }
    }
}
