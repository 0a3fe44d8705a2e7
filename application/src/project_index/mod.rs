//! Caches of each project: updates of the search index, the resource revision.
//!
//! Every call polls the storage first, so the next call sees an edit.

pub mod index_build;
mod projections;
pub(crate) mod search_updates;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{SearchHits, SearchQuery};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::ports::ApplicationPorts;
use crate::project_index::projections::PAGE_SIZE;
use crate::project_index::search_updates::SearchUpdates;

/// At this number of projects, a new one replaces an idle one. More than search indexes are open.
const MAX_PROJECTS: usize = 512;
/// Time for which pollers share one read of the changes. Each subscription polls, and a database is
/// a round trip away.
pub(crate) const SHARED_POLL: Duration = Duration::from_millis(50);
/// True if a document of the kind can change the content of a resource.
fn is_resource_kind(kind: DocumentKind) -> bool {
    !matches!(kind, DocumentKind::Instructions | DocumentKind::Docsets)
}

#[derive(Default)]
pub(crate) struct ProjectIndexes {
    /// The last resource revision. All projects share one counter, so a project that was dropped
    /// and loaded again never repeats a revision.
    revision: AtomicU64,
    projects: Mutex<HashMap<ProjectKey, Arc<ProjectIndex>>>,
}

struct ProjectIndex {
    feed: AsyncMutex<ChangeFeed>,
    search: Arc<SearchUpdates>,
}

/// The changes of a project that resources have seen.
#[derive(Default)]
struct ChangeFeed {
    position: Option<ChangePosition>,
    /// Time of the last poll.
    polled_at: Option<Instant>,
    /// Increases when a document of [`is_resource_kind`] may have changed.
    resource_revision: u64,
}

impl ChangeFeed {
    async fn poll(
        &mut self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        refresh: Refresh,
        next_revision: &AtomicU64,
    ) -> Result<()> {
        loop {
            let since = self.position;
            let page = ports.documents.changes_since(project, since, PAGE_SIZE, refresh).await?;
            let position = page.position();
            let has_more = matches!(page, ChangePage::Since { has_more: true, .. });
            let has_changed = match page {
                ChangePage::Since { ids, .. } => ids.iter().any(|id| is_resource_kind(id.kind)),
                ChangePage::Reset { .. } => true,
            };
            // Most polls find no change.
            if has_changed {
                self.resource_revision = next_revision.fetch_add(1, Ordering::Relaxed) + 1;
            }
            self.position = Some(position);
            if !has_more {
                return Ok(());
            }
        }
    }
}

impl Drop for ProjectIndexes {
    fn drop(&mut self) {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        for index in projects.values() {
            index.search.abort_build();
        }
    }
}

impl ProjectIndexes {
    /// Updates the search index to the state of the storage. A full refresh examines every file.
    pub(crate) async fn update_search(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        refresh: Refresh,
        progress: &dyn ProgressSink,
    ) -> Result<()> {
        self.project_index(project).search.update(ports, project, refresh, progress).await
    }

    /// Waits until no index is being built.
    pub(crate) async fn finish_builds(&self) {
        let projects: Vec<Arc<ProjectIndex>> = {
            let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
            projects.values().cloned().collect()
        };
        for project in projects {
            project.search.finish_build().await;
        }
    }

    /// Updates the search index, then searches.
    pub(crate) async fn search(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        query: &SearchQuery,
        progress: &dyn ProgressSink,
    ) -> Result<SearchHits> {
        let index = self.project_index(project);
        index.search.update(ports, project, Refresh::Incremental, progress).await?;
        let hits = index.search.search(ports, project, query).await?;
        // A damaged index is detected only when it is read.
        if ports.search.position(project).await?.is_some() {
            return Ok(hits);
        }
        // The index lost its content during the search, so the hits are incomplete.
        index.search.update(ports, project, Refresh::Incremental, progress).await?;
        index.search.search(ports, project, query).await
    }

    /// Returns a revision of all documents that resources show. It is equal while none changed. A
    /// change is seen after [`SHARED_POLL`] at the latest.
    pub(crate) async fn resource_revision(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
    ) -> Result<u64> {
        let index = self.project_index(project);
        let mut feed = index.feed.lock().await;
        if feed.polled_at.is_some_and(|polled_at| polled_at.elapsed() < SHARED_POLL) {
            return Ok(feed.resource_revision);
        }
        let started = Instant::now();
        feed.poll(ports, project, Refresh::Incremental, &self.revision).await?;
        feed.polled_at = Some(started);
        Ok(feed.resource_revision)
    }

    fn project_index(&self, project: &ProjectKey) -> Arc<ProjectIndex> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = projects.get(project) {
            return Arc::clone(index);
        }
        if projects.len() >= MAX_PROJECTS {
            // Only the map refers to an idle project; no call and no build holds a part of it.
            let idle = projects.iter().find(|(_, index)| {
                Arc::strong_count(index) == 1 && Arc::strong_count(&index.search) == 1
            });
            if let Some(key) = idle.map(|(key, _)| key.clone()) {
                projects.remove(&key);
            }
        }
        // A new revision: documents may have changed while the project was not loaded.
        let resource_revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        let feed = ChangeFeed { resource_revision, ..ChangeFeed::default() };
        let index = Arc::new(ProjectIndex { feed: AsyncMutex::new(feed), search: Arc::default() });
        projects.insert(project.clone(), Arc::clone(&index));
        index
    }
}
