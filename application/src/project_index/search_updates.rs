//! Keeps the search index of a project in sync with its storage.
//!
//! Changes since the position of the index are indexed before each search. If they are unknown, a
//! build compares all documents with the index and indexes the differences. It also makes a new
//! index.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    DocumentFilter, DocumentRepository, Refresh, count_documents,
};
use reqlore_domain::ports::record_list::{RecordCounts, RecordQuery};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{SearchHits, SearchQuery};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::ports::ApplicationPorts;
use crate::project_index::projections::{PAGE_SIZE, read_projections};

/// Kinds in the search index, in their order.
pub(crate) const SEARCHED_KINDS: [DocumentKind; 2 + DocumentKind::ITEMS.len()] = {
    let mut kinds = [DocumentKind::Entity; 2 + DocumentKind::ITEMS.len()];
    kinds[0] = DocumentKind::Section;
    DocumentKind::with_items(kinds, 2)
};
/// With more differences than this, a search of a server does not wait for the build.
const MAX_AWAITED_DIFFERENCES: usize = if cfg!(test) { 20 } else { 2_000 };
/// Maximum documents indexed at a time. Searches wait for one batch of a build, and a call can be
/// cancelled between two.
const BATCH_DOCUMENTS: usize = if cfg!(test) { 8 } else { 256 };

/// Maximum time to wait for another process that builds the same index. It may be suspended.
const MAX_OTHER_BUILD: Duration = Duration::from_secs(60);
const OTHER_BUILD_POLL: Duration = Duration::from_millis(100);
/// A build that is interrupted this many times fails.
const MAX_TRIES: usize = 5;

/// The updates of one project's index.
#[derive(Debug, Default)]
pub(crate) struct SearchUpdates {
    /// Held while documents are read and indexed, so that no older text replaces a newer one.
    state: AsyncMutex<UpdateState>,
    /// The task of the last build.
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Debug, Default)]
struct UpdateState {
    build: Option<IndexBuild>,
}

/// A running build.
#[derive(Debug)]
struct IndexBuild {
    /// Changes up to this position are indexed. `None` if later changes are unknown, so that the
    /// comparison must start again.
    position: Option<ChangePosition>,
    status: watch::Receiver<BuildStatus>,
}

#[derive(Debug, Clone, Default)]
struct BuildStatus {
    /// Number of documents of the storage at the start, and of those that are indexed or equal.
    total: usize,
    done: usize,
    /// The build has more than [`MAX_AWAITED_DIFFERENCES`].
    is_long: bool,
    is_ended: bool,
    /// The build ended early: the index is a copy of another process's.
    is_copied: bool,
    failure: Option<(ErrorKind, String)>,
}

impl SearchUpdates {
    /// Ends a build, which holds these updates and the ports. The next process continues it.
    pub(crate) fn abort_build(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Indexes all changes. A full refresh examines every file and compares all documents. Without
    /// it, a long build continues after this call.
    pub(crate) async fn update(
        self: &Arc<Self>,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        refresh: Refresh,
        progress: &dyn ProgressSink,
    ) -> Result<()> {
        if refresh == Refresh::Full {
            // Also without a position, when no changes are asked for.
            ports.documents.changes_since(project, None, 1, refresh).await?;
        }
        // A copied index lacks the changes since its copy, so it is updated as well.
        while self.update_once(ports, project, refresh, progress).await? {}
        Ok(())
    }

    /// Returns true if the index was replaced by a copy of another process's.
    async fn update_once(
        self: &Arc<Self>,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        refresh: Refresh,
        progress: &dyn ProgressSink,
    ) -> Result<bool> {
        let mut state = self.state.lock().await;
        // A task that panicked did not remove its build.
        state.build.take_if(|build| build.status.has_changed().is_err());
        if let Some(build) = &mut state.build {
            // The build does not compare a document again that changed meanwhile.
            if let Some(since) = build.position {
                let indexer = ChangeIndexer { ports, project, keeps_position: false, progress };
                build.position = indexer.index_changes(since).await?;
            }
        } else {
            let mut is_known = false;
            if let Some(since) = ports.search.position(project).await? {
                let indexer = ChangeIndexer { ports, project, keeps_position: true, progress };
                is_known = indexer.index_changes(since).await?.is_some();
            }
            if is_known && refresh == Refresh::Incremental {
                return Ok(false);
            }
            state.build = Some(self.start_build(ports, project));
        }
        let status = state.build.as_ref().map(|build| build.status.clone());
        // The build needs the state.
        drop(state);
        let Some(status) = status else { return Ok(false) };
        let is_end_awaited = refresh == Refresh::Full || ports.settings.awaits_index_builds;
        await_build(status, is_end_awaited, progress).await
    }

    /// Waits for the end of a build.
    pub(crate) async fn finish_build(&self) {
        let status = self.state.lock().await.build.as_ref().map(|build| build.status.clone());
        if let Some(mut status) = status {
            // A failure is in the log.
            let _ = status.wait_for(|status| status.is_ended).await;
        }
    }

    /// Searches. While a build runs, hits of documents that changed are left out, and documents
    /// that it has not reached are pending.
    pub(crate) async fn search(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        query: &SearchQuery,
    ) -> Result<SearchHits> {
        let state = self.state.lock().await;
        let Some(build) = &state.build else {
            // Searches do not wait for each other.
            drop(state);
            return ports.search.search(project, query).await;
        };
        let status = build.status.borrow().clone();
        let mut page = ports.search.search(project, query).await?;
        page.pending += status.total.saturating_sub(status.done).max(1);
        let documents: BTreeSet<&DocumentId> = page.hits.iter().map(|hit| &hit.document).collect();
        let ids: Vec<DocumentId> = documents.into_iter().cloned().collect();
        let stored = ports.documents.versions(project, &ids).await?;
        let indexed = ports.search.versions(project, &ids).await?;
        let mut outdated = BTreeSet::new();
        for (id, (stored, indexed)) in ids.into_iter().zip(stored.into_iter().zip(indexed)) {
            if stored != indexed {
                outdated.insert(id);
            }
        }
        let found = page.hits.len();
        page.hits.retain(|hit| !outdated.contains(&hit.document));
        page.total = page.total.saturating_sub(found - page.hits.len());
        Ok(page)
    }

    fn start_build(self: &Arc<Self>, ports: &ApplicationPorts, project: &ProjectKey) -> IndexBuild {
        let (sender, status) = watch::channel(BuildStatus::default());
        let (updates, ports, project) = (Arc::clone(self), ports.clone(), project.clone());
        // A task of its own, because it may take longer than the call that needs it.
        let task = tokio::spawn(async move {
            let build =
                BuildTask { updates: &updates, ports: &ports, project: &project, status: sender };
            build.run().await;
        });
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        IndexBuild { position: None, status }
    }
}

/// Waits until a build ends or is known to be long. True if the index was copied instead.
async fn await_build(
    mut status: watch::Receiver<BuildStatus>,
    is_end_awaited: bool,
    progress: &dyn ProgressSink,
) -> Result<bool> {
    loop {
        let BuildStatus { total, done, is_long, is_ended, is_copied, failure } =
            status.borrow_and_update().clone();
        if let Some((kind, message)) = failure {
            return Err(Error::new(kind, message));
        }
        if is_ended || (is_long && !is_end_awaited) {
            return Ok(is_copied);
        }
        check_cancelled(progress)?;
        // Unknown until the documents are counted.
        if total > 0 {
            progress.progress(done, total, "indexed");
        }
        // The sender is dropped only when the server ends.
        if status.changed().await.is_err() {
            return Ok(false);
        }
    }
}

fn check_cancelled(progress: &dyn ProgressSink) -> Result<()> {
    if progress.is_cancelled() {
        let message = "Cancelled; the documents indexed so far remain in the index.";
        return Err(Error::new(ErrorKind::Cancelled, message));
    }
    Ok(())
}

struct ChangeIndexer<'a> {
    ports: &'a ApplicationPorts,
    project: &'a ProjectKey,
    /// Moves the index to the position after each page.
    keeps_position: bool,
    progress: &'a dyn ProgressSink,
}

impl ChangeIndexer<'_> {
    /// Indexes the changes after a position, page by page. Returns the position after them; `None`
    /// if they are unknown.
    async fn index_changes(&self, mut since: ChangePosition) -> Result<Option<ChangePosition>> {
        let (documents, look) = (&self.ports.documents, Refresh::Incremental);
        loop {
            let page = documents.changes_since(self.project, Some(since), PAGE_SIZE, look).await?;
            let ChangePage::Since { ids, position, has_more } = page else { return Ok(None) };
            let mut changed = BTreeSet::new();
            for id in ids {
                if SEARCHED_KINDS.contains(&id.kind) {
                    changed.insert(id);
                }
            }
            // Not written if only the position moved, which would cost a commit.
            if has_more || !changed.is_empty() {
                let changed: Vec<DocumentId> = changed.into_iter().collect();
                let moved = self.keeps_position.then_some(position);
                self.index_documents(&changed, moved).await?;
            }
            since = position;
            if !has_more {
                return Ok(Some(since));
            }
        }
    }

    /// Reads and indexes documents in batches. The last one moves the index to the position.
    async fn index_documents(
        &self,
        ids: &[DocumentId],
        position: Option<ChangePosition>,
    ) -> Result<()> {
        let mut remaining = ids;
        loop {
            check_cancelled(self.progress)?;
            let batch = &remaining[..remaining.len().min(BATCH_DOCUMENTS)];
            let projections = read_projections(self.ports, self.project, batch).await?;
            remaining = &remaining[projections.len()..];
            let position = position.filter(|_| remaining.is_empty());
            self.ports.search.apply_projections(self.project, projections, position).await?;
            self.progress.progress(ids.len() - remaining.len(), ids.len(), "indexed");
            if remaining.is_empty() {
                return Ok(());
            }
        }
    }
}

/// The task of a build.
struct BuildTask<'a> {
    updates: &'a SearchUpdates,
    ports: &'a ApplicationPorts,
    project: &'a ProjectKey,
    status: watch::Sender<BuildStatus>,
}

/// The reason why a comparison ended early.
enum Interruption {
    /// The index was lost, or its changes are unknown.
    Restart,
    Failed(Error),
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl BuildTask<'_> {
    async fn run(&self) {
        let message = "search index: lost during each attempt to build it; see the log";
        let mut failure = Some(Error::new(ErrorKind::Internal, message));
        for _ in 0..MAX_TRIES {
            failure = match self.compare_all().await {
                Ok(()) => None,
                Err(Interruption::Restart) => continue,
                Err(Interruption::Failed(error)) => Some(error),
            };
            break;
        }
        if let Some(error) = &failure {
            tracing::warn!(%error, "search index: the build failed; the next search retries");
            self.updates.state.lock().await.build = None;
        }
        self.status.send_modify(|status| {
            status.failure = failure.map(|error| (error.kind, error.message));
            status.is_ended = true;
        });
    }

    /// Compares all documents of the storage with the index, and indexes the differences.
    async fn compare_all(&self) -> Result<(), Interruption> {
        if self.begin().await? {
            self.updates.state.lock().await.build = None;
            self.status.send_modify(|status| status.is_copied = true);
            return Ok(());
        }
        let mut versions = VersionMerge::default();
        let (mut differing, mut equal, mut differences) = (Vec::new(), 0, 0);
        while let Some((id, is_equal)) = versions.next(self.ports, self.project).await? {
            if is_equal {
                equal += 1;
            } else {
                differing.push(id);
            }
            if differing.len() >= BATCH_DOCUMENTS || equal >= PAGE_SIZE {
                differences += differing.len();
                self.index_batch(&mut differing, &mut equal, differences).await?;
            }
        }
        differences += differing.len();
        self.index_batch(&mut differing, &mut equal, differences).await?;
        let mut state = self.lock_state().await?;
        if let Some(IndexBuild { position, .. }) = state.build.take() {
            self.ports.search.apply_projections(self.project, Vec::new(), position).await?;
        }
        Ok(())
    }

    /// Returns true if the index is now a copy of another process's.
    async fn begin(&self) -> Result<bool> {
        let Self { ports, project, .. } = self;
        let mut state = self.updates.state.lock().await;
        // First the position, then the documents: later changes are indexed as such.
        let page = ports.documents.changes_since(project, None, 1, Refresh::Incremental).await?;
        if let Some(build) = &mut state.build {
            build.position = Some(page.position());
        }
        let building = Some(ChangePosition::BUILDING);
        // An interrupted build may have reached most documents, and they are compared first.
        let is_unfinished = ports.search.position(project).await? == building
            || ports.search.indexed_versions(project, None, 1).await?.is_empty();
        ports.search.apply_projections(project, Vec::new(), building).await?;
        drop(state);
        let total = count_searched(&*ports.documents, project).await?;
        let is_first = is_unfinished && total > MAX_AWAITED_DIFFERENCES;
        self.status.send_modify(|status| {
            let is_long = status.is_long || is_first;
            *status = BuildStatus { total, is_long, ..BuildStatus::default() };
        });
        if is_first {
            let deadline = Instant::now() + MAX_OTHER_BUILD;
            while !ports.search.begin_build(project).await? && Instant::now() < deadline {
                sleep(OTHER_BUILD_POLL).await;
            }
            return Ok(ports.search.position(project).await? != building);
        }
        Ok(false)
    }

    /// Indexes the documents that differ. `differences` is their number since the start.
    async fn index_batch(
        &self,
        differing: &mut Vec<DocumentId>,
        equal: &mut usize,
        differences: usize,
    ) -> Result<(), Interruption> {
        let Self { ports, project, status, .. } = self;
        let mut done = std::mem::take(equal);
        let mut remaining = &differing[..];
        loop {
            status.send_modify(|status| {
                status.done += done;
                status.is_long |= differences > MAX_AWAITED_DIFFERENCES;
            });
            let BuildStatus { total, done: total_done, is_long, .. } = *status.borrow();
            if is_long {
                ports.progress.progress(total_done.min(total), total, "Indexing");
            }
            if remaining.is_empty() {
                break;
            }
            let state = self.lock_state().await?;
            let projections = read_projections(ports, project, remaining).await?;
            done = projections.len();
            remaining = &remaining[done..];
            ports.search.apply_projections(project, projections, None).await?;
            drop(state);
            // Ports that never yield would block other calls of the thread.
            tokio::task::yield_now().await;
        }
        differing.clear();
        Ok(())
    }

    /// Locks the state of a build that can continue.
    async fn lock_state(&self) -> Result<AsyncMutexGuard<'_, UpdateState>, Interruption> {
        let state = self.updates.state.lock().await;
        let is_followed = state.build.as_ref().is_some_and(|build| build.position.is_some());
        let is_lost =
            self.ports.search.position(self.project).await? != Some(ChangePosition::BUILDING);
        if is_lost || !is_followed { Err(Interruption::Restart) } else { Ok(state) }
    }
}

/// Returns the number of documents to compare. Excludes documents that are in no list.
async fn count_searched(documents: &dyn DocumentRepository, project: &ProjectKey) -> Result<usize> {
    let mut total = count_documents(documents, project, DocumentKind::Section).await?;
    for kind in ItemKind::ALL {
        total += documents.list(project, &RecordQuery::of_items(kind, 0)).await?.total;
    }
    let entities = RecordQuery::of_entities(None, 0).count_by(RecordCounts::Kind);
    Ok(total + documents.list(project, &entities).await?.total)
}

/// Versions in the storage and in the index, page by page in one order.
#[derive(Default)]
struct VersionMerge {
    /// Number of kinds that are read.
    kinds_read: usize,
    next_name: Option<String>,
    stored: VecDeque<(DocumentId, Version)>,
    last_indexed: Option<DocumentId>,
    is_index_read: bool,
    indexed: VecDeque<(DocumentId, Version)>,
}

impl VersionMerge {
    /// Returns the next document of any side, and true if both have the same version.
    async fn next(
        &mut self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
    ) -> Result<Option<(DocumentId, bool)>> {
        self.read_pages(ports, project).await?;
        let order = match (self.stored.front(), self.indexed.front()) {
            (None, None) => return Ok(None),
            (Some((stored, _)), Some((indexed, _))) => stored.cmp(indexed),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        let stored = if order.is_le() { self.stored.pop_front() } else { None };
        let indexed = if order.is_ge() { self.indexed.pop_front() } else { None };
        let is_equal = stored == indexed;
        Ok(stored.or(indexed).map(|(id, _)| (id, is_equal)))
    }

    async fn read_pages(&mut self, ports: &ApplicationPorts, project: &ProjectKey) -> Result<()> {
        while self.stored.is_empty()
            && let Some(kind) = SEARCHED_KINDS.get(self.kinds_read)
        {
            let filter =
                DocumentFilter { after_name: self.next_name.take(), limit: PAGE_SIZE, kind: *kind };
            let page = ports.documents.find(project, &filter).await?;
            self.stored.extend(page.metadata.iter().map(|meta| (meta.id.clone(), meta.version)));
            self.kinds_read += usize::from(page.next_name.is_none());
            self.next_name = page.next_name;
        }
        if self.indexed.is_empty() && !self.is_index_read {
            let after = self.last_indexed.as_ref();
            self.indexed = ports.search.indexed_versions(project, after, PAGE_SIZE).await?.into();
            self.is_index_read = self.indexed.len() < PAGE_SIZE;
            self.last_indexed = self.indexed.back().map(|(id, _)| id.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
