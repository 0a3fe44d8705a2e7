//! Caches of each project: entities, updates of the search index, the resource revision.
//!
//! Every call polls the storage first, so the next call sees an edit. Locks are taken in the order
//! entities, feed.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, MAX_DOCUMENT_BYTES, Version,
};
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::EntityIndex;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{DocumentFilter, Refresh};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{DocumentProjection, SearchHits, SearchQuery};
use reqlore_domain::timestamp::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::ApplicationPorts;
use crate::search_updates::SearchUpdates;
use crate::transaction::{MAX_READ_DOCUMENTS, get_one};

/// At this number of projects, a new one replaces an idle one. More than search indexes are open.
const MAX_PROJECTS: usize = 512;
/// With more changed entities than this, listing all metadata is faster than reading each.
const MAX_SINGLE_READS: usize = 500;
/// Documents per page when metadata is listed.
pub(crate) const PAGE_SIZE: usize = 1_000;
/// The shares of the memory limit for bodies that are read at a time, and for texts that are passed
/// to the search index at a time. The index uses the rest.
const READ_SHARE: usize = 4;
const BATCH_SHARE: usize = 16;

/// Kinds that resources show: items, and the documents that link to them.
const RESOURCE_KINDS: [DocumentKind; 7] = {
    let [epics, stories, requirements, criteria] = DocumentKind::ITEMS;
    let [deleted, entities] = [DocumentKind::Deleted, DocumentKind::Entity];
    [epics, stories, requirements, criteria, deleted, entities, DocumentKind::Section]
};

#[derive(Default)]
pub(crate) struct ProjectIndexes {
    /// The last resource revision. All projects share one counter, so a project that was dropped
    /// and loaded again never repeats a revision.
    revision: AtomicU64,
    projects: Mutex<HashMap<ProjectKey, Arc<ProjectIndex>>>,
}

struct ProjectIndex {
    feed: AsyncMutex<ChangeFeed>,
    entities: Arc<AsyncMutex<EntityCache>>,
    search: Arc<SearchUpdates>,
}

/// Changes that were polled from the storage, separately for each consumer until it takes them.
#[derive(Default)]
struct ChangeFeed {
    position: Option<ChangePosition>,
    entities: StaleDocuments,
    /// Increases when a document of `RESOURCE_KINDS` may have changed.
    resource_revision: u64,
}

/// Documents that a consumer must read again.
#[derive(Default)]
enum StaleDocuments {
    /// All of them, because the storage cannot list the changes.
    #[default]
    All,
    Listed(BTreeSet<DocumentId>),
}

impl StaleDocuments {
    fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Listed(ids), Self::Listed(more)) => ids.extend(more),
            (_, Self::All) => *self = Self::All,
            (Self::All, _) => {}
        }
    }

    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Listed(BTreeSet::new()))
    }
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
            self.add(page, next_revision);
            self.position = Some(position);
            if !has_more {
                return Ok(());
            }
        }
    }

    fn add(&mut self, page: ChangePage, next_revision: &AtomicU64) {
        let mut entities = StaleDocuments::All;
        if let ChangePage::Since { ids, .. } = page {
            // Most polls end here, because nothing changed.
            if !ids.iter().any(|id| RESOURCE_KINDS.contains(&id.kind)) {
                return;
            }
            let is_entity = |id: &DocumentId| id.kind == DocumentKind::Entity;
            entities = StaleDocuments::Listed(ids.into_iter().filter(is_entity).collect());
        }
        self.resource_revision = next_revision.fetch_add(1, Ordering::Relaxed) + 1;
        self.entities.merge(entities);
    }
}

/// Ends the builds, which hold the ports.
impl Drop for ProjectIndexes {
    fn drop(&mut self) {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        for index in projects.values() {
            index.search.abort_build();
        }
    }
}

impl ProjectIndexes {
    /// Returns the current entities of a project. They do not change while the guard lives.
    pub(crate) async fn entities(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        refresh: Refresh,
    ) -> Result<OwnedMutexGuard<EntityCache>> {
        let index = self.project_index(project);
        let mut entities = Arc::clone(&index.entities).lock_owned().await;
        self.update_entities(ports, project, &index, &mut entities, refresh).await?;
        Ok(entities)
    }

    async fn update_entities(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        index: &ProjectIndex,
        entities: &mut EntityCache,
        refresh: Refresh,
    ) -> Result<()> {
        let mut feed = index.feed.lock().await;
        feed.poll(ports, project, refresh, &self.revision).await?;
        // Moved under the feed's lock, so that no change is taken twice or lost.
        entities.stale.merge(feed.entities.take());
        // Other consumers may poll while the entities are read.
        drop(feed);
        entities.read_stale(ports, project).await
    }

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

    /// Returns a revision of all documents that resources show. It is equal while none changed.
    pub(crate) async fn resource_revision(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
    ) -> Result<u64> {
        let index = self.project_index(project);
        let mut feed = index.feed.lock().await;
        feed.poll(ports, project, Refresh::Incremental, &self.revision).await?;
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
                Arc::strong_count(index) == 1
                    && Arc::strong_count(&index.entities) == 1
                    && Arc::strong_count(&index.search) == 1
            });
            if let Some(key) = idle.map(|(key, _)| key.clone()) {
                projects.remove(&key);
            }
        }
        // A new revision: documents may have changed while the project was not loaded.
        let resource_revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        let feed = ChangeFeed { resource_revision, ..ChangeFeed::default() };
        let index = Arc::new(ProjectIndex {
            feed: AsyncMutex::new(feed),
            entities: Arc::default(),
            search: Arc::default(),
        });
        projects.insert(project.clone(), Arc::clone(&index));
        index
    }
}

#[derive(Default)]
pub(crate) struct EntityCache {
    pub(crate) entity_index: EntityIndex,
    /// Entities that are not yet in the index.
    stale: StaleDocuments,
}

impl EntityCache {
    async fn read_stale(&mut self, ports: &ApplicationPorts, project: &ProjectKey) -> Result<()> {
        let is_updated = match &self.stale {
            StaleDocuments::Listed(ids) if ids.len() <= MAX_SINGLE_READS => {
                let ids: Vec<DocumentId> = ids.iter().cloned().collect();
                self.read_all(ports, project, &ids).await
            }
            _ => false,
        };
        if !is_updated {
            self.rebuild(ports, project).await?;
        }
        // Last, so that a failed read leaves the documents stale.
        self.stale.take();
        Ok(())
    }

    /// Reads these entities. Returns false if one cannot be read: it may exist, and only the
    /// storage's list can tell.
    async fn read_all(
        &mut self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> bool {
        for ids in ids.chunks(MAX_READ_DOCUMENTS) {
            for (id, outcome) in ids.iter().zip(read_documents(ports, project, ids).await) {
                match outcome {
                    ReadOutcome::Document(document) => {
                        self.entity_index
                            .put(&DocumentMeta::from_document(&document, Timestamp::default()));
                    }
                    ReadOutcome::Missing => self.entity_index.remove(&id.name),
                    // The caller then rebuilds the whole index.
                    ReadOutcome::Failed => return false,
                }
            }
        }
        true
    }

    /// Rebuilds the index from the storage's list. After an error the old index stays and is stale.
    async fn rebuild(&mut self, ports: &ApplicationPorts, project: &ProjectKey) -> Result<()> {
        // Set first, because the call may be cancelled at each await.
        self.stale = StaleDocuments::All;
        let mut entity_index = EntityIndex::default();
        let mut filter = DocumentFilter {
            limit: Some(PAGE_SIZE),
            ..DocumentFilter::of_kind(DocumentKind::Entity)
        };
        loop {
            let page = ports.documents.find(project, &filter).await?;
            for meta in &page.metadata {
                entity_index.put(meta);
            }
            let Some(next) = page.next_name else { break };
            filter.after_name = Some(next);
        }
        self.entity_index = entity_index;
        Ok(())
    }
}

/// Returns the stored metadata of the entities among `ids`, so that they are not parsed again.
async fn entity_metadata(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Arc<DocumentMeta>>>> {
    let entities = ids.iter().filter(|id| id.kind == DocumentKind::Entity);
    let names: Vec<String> = entities.map(|id| id.name.clone()).collect();
    let mut metadata = vec![None; ids.len()];
    if names.is_empty() {
        return Ok(metadata);
    }
    let found = ports.documents.lookup(project, DocumentKind::Entity, &names).await?;
    let mut found = found.into_iter();
    for (slot, id) in metadata.iter_mut().zip(ids) {
        if id.kind == DocumentKind::Entity {
            // An id in a front matter may equal the name of another file.
            let matches = found.next().unwrap_or_default();
            *slot = matches.into_iter().find(|meta| meta.id == *id);
        }
    }
    Ok(metadata)
}

/// Projects the first of these documents, at least one, within the memory limit.
pub(crate) async fn read_projections(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<DocumentProjection>> {
    let memory_bytes = ports.settings.index_memory_bytes;
    // The size of a document is not known before it is read, so each may have the maximum size.
    let read_count = (memory_bytes / READ_SHARE / MAX_DOCUMENT_BYTES).max(1);
    let metadata = entity_metadata(ports, project, ids).await?;
    let mut projections = Vec::with_capacity(ids.len());
    let mut size_bytes = 0;
    for (ids, metadata) in ids.chunks(read_count).zip(metadata.chunks(read_count)) {
        let outcomes = read_documents(ports, project, ids).await;
        for ((id, outcome), meta) in ids.iter().zip(outcomes).zip(metadata) {
            let projection = make_projection(id, outcome, meta.as_deref());
            size_bytes += projection.size_bytes();
            projections.push(projection);
        }
        if size_bytes > memory_bytes / BATCH_SHARE {
            break;
        }
    }
    Ok(projections)
}

fn make_projection(
    id: &DocumentId,
    outcome: ReadOutcome,
    meta: Option<&DocumentMeta>,
) -> DocumentProjection {
    match outcome {
        ReadOutcome::Missing => DocumentProjection::without_items(id.clone(), None),
        ReadOutcome::Failed => {
            DocumentProjection::without_items(id.clone(), Some(Version::UNREADABLE))
        }
        ReadOutcome::Document(document) => {
            // Metadata of another version is not usable; the text is parsed instead.
            let meta = meta.filter(|meta| meta.version == document.version);
            let entity = meta.and_then(|meta| meta.entity.as_deref().cloned());
            DocumentProjection::from_document(&document, entity)
        }
    }
}

enum ReadOutcome {
    Document(Document),
    Missing,
    Failed,
}

impl From<Option<Document>> for ReadOutcome {
    fn from(document: Option<Document>) -> Self {
        document.map_or(Self::Missing, Self::Document)
    }
}

/// Reads documents. One that cannot be read does not affect the others.
async fn read_documents(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Vec<ReadOutcome> {
    if ids.is_empty() {
        return Vec::new();
    }
    if let Ok(documents) = ports.documents.get(project, ids).await {
        return documents.into_iter().map(ReadOutcome::from).collect();
    }
    // One failed document fails them all, so each is read alone.
    let mut outcomes = Vec::with_capacity(ids.len());
    for id in ids {
        outcomes.push(match get_one(&*ports.documents, project, id).await {
            Ok(document) => document.into(),
            Err(_) if is_listed(ports, project, id).await => ReadOutcome::Failed,
            // For example, a folder replaced the document.
            Err(_) => ReadOutcome::Missing,
        });
    }
    outcomes
}

/// True if the storage lists the document, or may do so.
async fn is_listed(ports: &ApplicationPorts, project: &ProjectKey, id: &DocumentId) -> bool {
    let name = std::slice::from_ref(&id.name);
    match ports.documents.lookup(project, id.kind, name).await {
        Ok(found) => found.iter().flatten().any(|meta| meta.id == *id),
        Err(_) => true,
    }
}
