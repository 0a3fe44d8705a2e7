//! The search index: lexical search through tantivy, semantic search through vectors, and a cache
//! folder of both.
//!
//! All of it is derived from documents. Missing and damaged parts are empty and do not appear in
//! `indexed`, so the application fills them again.

mod analyzer;
mod cache_dir;
mod checkpoints;
mod checksummed_file;
mod chunk;
mod filter;
mod item_table;
mod lexical;
pub mod outside;
mod project_cache;
mod project_index;
mod rank_fusion;
mod script;
mod semantic;
mod snippet;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::embedder::Embedder;
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{DocumentProjection, IndexDifference, SearchHits, SearchQuery};
use tokio::task::spawn_blocking;

use project_cache::lock;
use project_index::{ProjectIndex, QueryPlan, embed_query};
use worker::SharedState;

/// Maximum items of an `apply` on the caller's thread.
const MAX_FAST_APPLY_ITEMS: usize = 8;

#[derive(Clone, Default)]
pub struct Config {
    /// The folder for this user's caches; without one everything is in memory.
    pub cache: Option<PathBuf>,
    /// The address of the projects' store; for files the path of the default project. It identifies
    /// a project's cache folder together with its key, and is never shown.
    pub store: String,
    /// The embedding models, the best last; may be none.
    pub embedders: Vec<Arc<dyn Embedder>>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let models: Vec<_> = self.embedders.iter().map(|model| &model.profile().name).collect();
        f.debug_struct("Config")
            .field("cache", &self.cache)
            .field("models", &models)
            .finish_non_exhaustive()
    }
}

/// The index of all projects. Dropping it saves unsaved changes.
#[derive(Debug)]
pub struct Index {
    shared: Arc<SharedState>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Index {
    /// Projects are opened by their first call.
    pub fn new(config: Config) -> Self {
        let shared = Arc::new(SharedState::new(config));
        let worker = worker::start_thread(&shared);
        Self { shared, worker: Mutex::new(worker) }
    }

    /// Does light work on this thread, as a change of threads takes longer, and other work on a
    /// blocking thread.
    async fn with_project<T: Send + 'static>(
        &self,
        key: &ProjectKey,
        is_light: impl FnOnce(&ProjectIndex) -> bool,
        work: impl FnOnce(&mut ProjectIndex) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if let Some(project) = self.shared.open_project(key)
            && let Ok(mut project) = project.try_lock()
            && is_light(&project)
        {
            return work(&mut project);
        }
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        run_blocking(move || work(&mut lock(&*shared.project(&key)?))).await
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(work).await.map_err(|error| {
        Error::new(ErrorKind::Internal, "The search stopped midway.").caused_by(error)
    })?
}

#[async_trait]
impl SearchIndex for Index {
    async fn indexed(&self, project: &ProjectKey) -> Result<BTreeMap<DocumentId, Version>> {
        self.with_project(project, |_| true, |project| Ok(project.indexed())).await
    }

    async fn apply(
        &self,
        project: &ProjectKey,
        projections: Vec<DocumentProjection>,
    ) -> Result<()> {
        let _call = self.shared.begin_call();
        let items: usize = projections.iter().map(|projection| projection.items.len()).sum();
        let is_light = move |_: &ProjectIndex| items <= MAX_FAST_APPLY_ITEMS;
        let shared = Arc::clone(&self.shared);
        let apply = move |project: &mut ProjectIndex| {
            // First, as the caller may be gone before the end.
            shared.record_change();
            project.apply(&projections)
        };
        self.with_project(project, is_light, apply).await
    }

    async fn search(&self, project: &ProjectKey, query: &SearchQuery) -> Result<SearchHits> {
        let _call = self.shared.begin_call();
        let asked = query.clone();
        let step = self.with_project(project, ProjectIndex::is_fast_search, move |project| {
            Ok(match project.plan_query(&asked)? {
                QueryPlan::Ready(plan) => Ok(project.search(&asked, &plan)?),
                QueryPlan::NeedsEmbedding(plan, embedder) => Err((plan, embedder, asked)),
            })
        });
        let (plan, embedder, asked) = match step.await? {
            Ok(hits) => return Ok(hits),
            Err(unread) => unread,
        };
        let shared = Arc::clone(&self.shared);
        let key = project.clone();
        run_blocking(move || {
            let vector = embed_query(&*embedder, &asked);
            let project = shared.project(&key)?;
            let mut project = lock(&project);
            let plan = project.add_query_vector(plan, &asked, vector);
            project.search(&asked, &plan)
        })
        .await
    }

    async fn generation(&self, project: &ProjectKey) -> Result<u64> {
        self.with_project(project, |_| true, |project| Ok(project.generation())).await
    }

    async fn checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<IndexDifference> {
        let take = move |project: &mut ProjectIndex| Ok(project.checkpoint(name, versions));
        self.with_project(project, |_| true, take).await
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.shared.stop();
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker
            && worker.join().is_err()
        {
            tracing::error!("the search index's thread stopped midway");
        }
    }
}
