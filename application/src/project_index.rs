//! Caches of each project: the entity index, the state of the search index, the resource revision.
//!
//! Every call polls the storage first, so the next call sees an edit. Locks are taken in the order
//! search, entities, feed; while the search index is built, the entity index stays available.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, MAX_DOCUMENT_BYTES, Version,
};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::EntityIndex;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{DocumentFilter, Refresh};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{DocumentProjection, SearchHits, SearchQuery};
use reqlore_domain::timestamp::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::ApplicationPorts;
use crate::transaction::{MAX_READ_DOCUMENTS, get_one};

/// At this number of projects, a new one replaces an idle one. More than search indexes are open.
const MAX_PROJECTS: usize = 512;
/// With more changed entities than this, listing all metadata is faster than reading each.
const MAX_SINGLE_READS: usize = 500;
/// Documents per page when metadata is listed.
const PAGE_SIZE: usize = 1_000;
/// Maximum documents indexed at a time. A call can be cancelled between two batches.
const BATCH_DOCUMENTS: usize = 256;
/// The shares of the memory limit for bodies that are read at a time, and for texts that are passed
/// to the search index at a time. The index uses the rest.
const READ_SHARE: usize = 4;
const BATCH_SHARE: usize = 16;

/// Kinds in the search index besides entities, whose versions the entity index has.
const LISTED_KINDS: [DocumentKind; 5] = {
    let [epics, stories, requirements, criteria] = DocumentKind::ITEMS;
    [DocumentKind::Section, epics, stories, requirements, criteria]
};
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
    search: AsyncMutex<SearchState>,
}

/// Changes that were polled from the storage, separately for each consumer until it takes them.
#[derive(Default)]
struct ChangeFeed {
    position: Option<ChangePosition>,
    entities: StaleDocuments,
    searched: StaleDocuments,
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
            let (stale, has_more) = match page {
                ChangePage::Since { ids, has_more, .. } => {
                    (StaleDocuments::Listed(ids.into_iter().collect()), has_more)
                }
                ChangePage::Reset { .. } => (StaleDocuments::All, false),
            };
            self.add(stale, next_revision);
            self.position = Some(position);
            if !has_more {
                return Ok(());
            }
        }
    }

    fn add(&mut self, stale: StaleDocuments, next_revision: &AtomicU64) {
        let (mut entities, mut searched) = (StaleDocuments::All, StaleDocuments::All);
        if let StaleDocuments::Listed(ids) = stale {
            let mut lists = [BTreeSet::new(), BTreeSet::new()];
            let mut has_resource = false;
            for id in ids {
                has_resource |= RESOURCE_KINDS.contains(&id.kind);
                if id.kind == DocumentKind::Entity {
                    lists[0].insert(id.clone());
                }
                if id.kind == DocumentKind::Entity || LISTED_KINDS.contains(&id.kind) {
                    lists[1].insert(id);
                }
            }
            // Most polls end here, because nothing changed.
            if !has_resource {
                return;
            }
            [entities, searched] = lists.map(StaleDocuments::Listed);
        }
        self.resource_revision = next_revision.fetch_add(1, Ordering::Relaxed) + 1;
        self.entities.merge(entities);
        self.searched.merge(searched);
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
        let index = self.project_index(project);
        let mut search = index.search.lock().await;
        let mut entities = index.entities.lock().await;
        self.update_entities(ports, project, &index, &mut entities, refresh).await?;
        // Indexing may take long; entities stay available to other calls.
        drop(entities);
        let mut feed = index.feed.lock().await;
        // Kept in `search` until it is indexed, so that a cancelled call loses nothing.
        search.stale.merge(feed.searched.take());
        drop(feed);
        search.check_position(ports, project).await?;
        // A full refresh also compares the versions in the index.
        if matches!(search.stale, StaleDocuments::All) || refresh == Refresh::Full {
            let entities = index.entities.lock().await.entity_index.versions();
            search.stale = StaleDocuments::Listed(find_stale(ports, project, entities).await?);
        }
        search.index_stale(ports, project, progress).await
    }

    /// Updates the search index, then searches.
    pub(crate) async fn search(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        query: &SearchQuery,
        progress: &dyn ProgressSink,
    ) -> Result<SearchHits> {
        self.update_search(ports, project, Refresh::Incremental, progress).await?;
        let hits = ports.search.search(project, query).await?;
        let index = self.project_index(project);
        // A damaged index is detected only when it is read.
        if !index.search.lock().await.check_position(ports, project).await? {
            return Ok(hits);
        }
        // The index lost its content during the search, so the hits are incomplete.
        self.update_search(ports, project, Refresh::Incremental, progress).await?;
        ports.search.search(project, query).await
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
            // Only the map refers to an idle project; no call holds it or its entities.
            let idle = projects.iter().find(|(_, index)| {
                Arc::strong_count(index) == 1 && Arc::strong_count(&index.entities) == 1
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
            search: AsyncMutex::default(),
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

#[derive(Default)]
struct SearchState {
    /// Documents that are not yet in the search index.
    stale: StaleDocuments,
}

impl SearchState {
    /// Returns true if the index lost its content since the last check, for example because its
    /// files were damaged. Then all documents are stale.
    async fn check_position(
        &mut self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
    ) -> Result<bool> {
        if ports.search.position(project).await?.is_some() {
            return Ok(false);
        }
        self.stale = StaleDocuments::All;
        Ok(true)
    }

    async fn index_stale(
        &mut self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        progress: &dyn ProgressSink,
    ) -> Result<()> {
        let StaleDocuments::Listed(stale) = &mut self.stale else { return Ok(()) };
        let total = stale.len();
        while !stale.is_empty() {
            if progress.is_cancelled() {
                let message = "Cancelled; the documents indexed so far remain in the index.";
                return Err(Error::new(ErrorKind::Cancelled, message));
            }
            let ids: Vec<DocumentId> = stale.iter().take(BATCH_DOCUMENTS).cloned().collect();
            let projections = read_projections(ports, project, &ids).await?;
            let indexed = projections.len();
            ports.search.apply_projections(project, projections, None).await?;
            // Removed only after they are indexed, so that a cancelled call loses nothing.
            for id in &ids[..indexed] {
                stale.remove(id);
            }
            progress.progress(total - stale.len(), total, "indexed");
        }
        let position = Some(ChangePosition::default());
        ports.search.apply_projections(project, Vec::new(), position).await?;
        Ok(())
    }
}

/// Returns the documents whose version in the search index differs from the stored one.
async fn find_stale(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    entities: impl IntoIterator<Item = (DocumentId, Version)>,
) -> Result<BTreeSet<DocumentId>> {
    let indexed = ports.search.indexed_versions(project, None, usize::MAX).await?;
    let indexed: HashMap<DocumentId, Version> = indexed.into_iter().collect();
    let mut stored: HashMap<DocumentId, Version> = entities.into_iter().collect();
    for kind in LISTED_KINDS {
        let mut filter = DocumentFilter { limit: Some(PAGE_SIZE), ..DocumentFilter::of_kind(kind) };
        loop {
            // A page is dropped before the next one, because metadata is larger than its version.
            let page = ports.documents.find(project, &filter).await?;
            for meta in &page.metadata {
                stored.insert(meta.id.clone(), meta.version);
            }
            filter.after_name = page.next_name;
            if filter.after_name.is_none() {
                break;
            }
        }
    }
    let mut stale = BTreeSet::new();
    for (id, version) in &stored {
        if indexed.get(id) != Some(version) {
            stale.insert(id.clone());
        }
    }
    stale.extend(indexed.into_keys().filter(|id| !stored.contains_key(id)));
    Ok(stale)
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
async fn read_projections(
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
