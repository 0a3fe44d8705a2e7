//! Inventory of entities, search index state and resource revision of each project.
//!
//! Every call first polls the storage, so an edit by hand shows at the very next call. The feed is
//! polled once for all consumers: each takes what changed since it last asked. A document that
//! changes between the poll and its reading is named again by the next poll.
//!
//! Locks are taken in the order search, inventory, feed. While an index is built for the first
//! time, the inventory answers.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::EntityIndex;
use reqlore_domain::ports::documents::{ChangeSet, DocumentFilter, Refresh, Revision};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{self, DocumentProjection, SearchHits, SearchQuery};
use reqlore_domain::timestamp::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::ApplicationPorts;
use crate::transaction::get_one;

/// Above this number of projects an idle one is dropped, and built again when it is asked for.
const MAX_PROJECTS: usize = 128;
/// Listing all metadata is faster than reading more changed entities than this.
const MAX_SINGLE_READS: usize = 500;
/// Metadata per page of a list.
const PAGE_SIZE: usize = 10_000;
/// Documents read and indexed at a time; between batches a call can be cancelled, and others see
/// the inventory.
const BATCH_DOCUMENTS: usize = 256;

/// Searched beside entities, which the inventory knows.
const LISTED_KINDS: [DocumentKind; 5] = {
    let [epics, stories, requirements, criteria] = DocumentKind::ITEMS;
    [DocumentKind::Section, epics, stories, requirements, criteria]
};
/// Shown by resources.
const RESOURCE_KINDS: [DocumentKind; 6] = {
    let [epics, stories, requirements, criteria] = DocumentKind::ITEMS;
    [epics, stories, requirements, criteria, DocumentKind::Deleted, DocumentKind::Entity]
};

#[derive(Default)]
pub(crate) struct ProjectIndexes {
    /// The last resource revision. All projects share one series, so a project that was dropped
    /// never gets an old revision again.
    revision: AtomicU64,
    projects: Mutex<HashMap<ProjectKey, Arc<ProjectIndex>>>,
}

struct ProjectIndex {
    feed: AsyncMutex<ChangeFeed>,
    entities: Arc<AsyncMutex<EntityCache>>,
    search: AsyncMutex<SearchState>,
}

/// Changes since the last poll that a consumer has not taken yet.
#[derive(Default)]
struct ChangeFeed {
    revisions: HashMap<DocumentKind, Revision>,
    entities: StaleDocuments,
    searched: StaleDocuments,
    /// Grows when a document that resources show may have changed.
    resource_revision: u64,
}

/// Documents that a consumer must read again.
#[derive(Default)]
enum StaleDocuments {
    /// All of them, because what changed is unknown.
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
        kind: DocumentKind,
        refresh: Refresh,
        next_revision: &AtomicU64,
    ) -> Result<()> {
        let known = self.revisions.get(&kind).copied();
        let since = known.unwrap_or_default();
        let changes = ports.documents.changes(project, kind, since, refresh).await?;
        let (revision, stale) = match changes {
            ChangeSet::Since { revision, ids } if known.is_some() => {
                (revision, StaleDocuments::Listed(ids.into_iter().collect()))
            }
            ChangeSet::Since { revision, .. } | ChangeSet::Reset { revision } => {
                (revision, StaleDocuments::All)
            }
        };
        self.revisions.insert(kind, revision);
        if matches!(&stale, StaleDocuments::Listed(ids) if ids.is_empty()) {
            return Ok(());
        }
        if RESOURCE_KINDS.contains(&kind) {
            self.resource_revision = next_revision.fetch_add(1, Ordering::Relaxed) + 1;
        }
        if kind == DocumentKind::Entity {
            self.entities.merge(match &stale {
                StaleDocuments::Listed(ids) => StaleDocuments::Listed(ids.clone()),
                StaleDocuments::All => StaleDocuments::All,
            });
        }
        if kind == DocumentKind::Entity || LISTED_KINDS.contains(&kind) {
            self.searched.merge(stale);
        }
        Ok(())
    }
}

impl ProjectIndexes {
    /// The project's inventory as it is now; it does not change while the guard lives.
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
        feed.poll(ports, project, DocumentKind::Entity, refresh, &self.revision).await?;
        entities.stale.merge(feed.entities.take());
        drop(feed);
        entities.read_stale(ports, project).await
    }

    /// Brings the search index up to date with the storage.
    pub(crate) async fn update_search(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        refresh: Refresh,
        observer: &dyn ProgressSink,
    ) -> Result<()> {
        let index = self.project_index(project);
        let mut search = index.search.lock().await;
        let mut entities = index.entities.lock().await;
        self.update_entities(ports, project, &index, &mut entities, refresh).await?;
        drop(entities);
        let mut feed = index.feed.lock().await;
        for kind in LISTED_KINDS {
            feed.poll(ports, project, kind, refresh, &self.revision).await?;
        }
        search.stale.merge(feed.searched.take());
        drop(feed);
        search.was_lost(ports, project).await?;
        // A full refresh compares the index as well.
        if matches!(search.stale, StaleDocuments::All) || refresh == Refresh::Full {
            let entities = index.entities.lock().await.inventory.versions();
            search.stale = StaleDocuments::Listed(find_stale(ports, project, entities).await?);
        }
        search.index_stale(ports, project, observer).await
    }

    /// The best hits in the documents as they are now.
    pub(crate) async fn search(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        query: &SearchQuery,
        observer: &dyn ProgressSink,
    ) -> Result<SearchHits> {
        self.update_search(ports, project, Refresh::Incremental, observer).await?;
        let found = ports.search.search(project, query).await?;
        let was_lost =
            self.project_index(project).search.lock().await.was_lost(ports, project).await?;
        if !was_lost {
            return Ok(found);
        }
        self.update_search(ports, project, Refresh::Incremental, observer).await?;
        ports.search.search(project, query).await
    }

    /// A revision of everything that the project's resources show; equal revisions mean that
    /// nothing changed.
    pub(crate) async fn resource_revision(
        &self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
    ) -> Result<u64> {
        let index = self.project_index(project);
        let mut feed = index.feed.lock().await;
        for kind in RESOURCE_KINDS {
            feed.poll(ports, project, kind, Refresh::Incremental, &self.revision).await?;
        }
        Ok(feed.resource_revision)
    }

    fn project_index(&self, project: &ProjectKey) -> Arc<ProjectIndex> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = projects.get(project) {
            return Arc::clone(index);
        }
        if projects.len() >= MAX_PROJECTS {
            let is_idle = |index: &Arc<ProjectIndex>| {
                Arc::strong_count(index) == 1 && Arc::strong_count(&index.entities) == 1
            };
            let idle = projects.iter().find(|(_, index)| is_idle(index));
            if let Some(idle) = idle.map(|(key, _)| key.clone()) {
                projects.remove(&idle);
            }
        }
        let shown = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        let feed = ChangeFeed { resource_revision: shown, ..ChangeFeed::default() };
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
    pub(crate) inventory: EntityIndex,
    /// Not yet in the inventory.
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
        self.stale.take();
        Ok(())
    }

    /// Returns false where a document cannot be read: the storage's list tells whether it exists.
    async fn read_all(
        &mut self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> bool {
        let read = read_documents(ports, project, ids).await;
        if read.iter().any(|read| matches!(read, ReadOutcome::Failed)) {
            return false;
        }
        for (id, found) in ids.iter().zip(read) {
            match found {
                ReadOutcome::Document(document) => {
                    self.inventory.put(&DocumentMeta::of(&document, Timestamp::default()));
                }
                ReadOutcome::Missing | ReadOutcome::Failed => self.inventory.remove(&id.name),
            }
        }
        true
    }

    /// Builds the inventory again. After a failure the old one stays, to be listed the next time.
    async fn rebuild(&mut self, ports: &ApplicationPorts, project: &ProjectKey) -> Result<()> {
        self.stale = StaleDocuments::All;
        let mut inventory = EntityIndex::default();
        let mut filter =
            DocumentFilter { limit: Some(PAGE_SIZE), ..DocumentFilter::all(DocumentKind::Entity) };
        loop {
            let page = ports.documents.find(project, &filter).await?;
            page.metadata.iter().for_each(|head| inventory.put(head));
            let Some(next) = page.next else { break };
            filter.after = Some(next);
        }
        self.inventory = inventory;
        Ok(())
    }
}

#[derive(Default)]
struct SearchState {
    /// Not yet in the search index.
    stale: StaleDocuments,
    /// How often a fault had emptied the index when it was last compared.
    generation: u64,
}

impl SearchState {
    /// Did a fault empty the index since it was last brought up to date?
    async fn was_lost(&mut self, ports: &ApplicationPorts, project: &ProjectKey) -> Result<bool> {
        let losses = ports.search.generation(project).await?;
        let was_lost = losses != self.generation;
        if was_lost {
            self.generation = losses;
            self.stale = StaleDocuments::All;
        }
        Ok(was_lost)
    }

    async fn index_stale(
        &mut self,
        ports: &ApplicationPorts,
        project: &ProjectKey,
        observer: &dyn ProgressSink,
    ) -> Result<()> {
        let StaleDocuments::Listed(stale) = &mut self.stale else { return Ok(()) };
        let total = stale.len();
        while !stale.is_empty() {
            if observer.is_cancelled() {
                let message = "Cancelled; what was indexed until now stays.";
                return Err(Error::new(ErrorKind::Cancelled, message));
            }
            let batch: Vec<DocumentId> = stale.iter().take(BATCH_DOCUMENTS).cloned().collect();
            let read = read_documents(ports, project, &batch).await;
            let known = entity_metadata(ports, project, &batch).await?;
            let found = batch.iter().zip(read).zip(known);
            let projections =
                found.map(|((id, read), head)| make_projection(head, id, read)).collect();
            ports.search.apply(project, projections).await?;
            for id in &batch {
                stale.remove(id);
            }
            observer.progress(total - stale.len(), total, "indexed");
        }
        Ok(())
    }
}

/// The documents whose indexed version differs from the stored one.
async fn find_stale(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    entities: impl IntoIterator<Item = (DocumentId, Version)>,
) -> Result<BTreeSet<DocumentId>> {
    let indexed = ports.search.indexed(project).await?;
    let mut now: HashMap<DocumentId, Version> = entities.into_iter().collect();
    for kind in LISTED_KINDS {
        let listed = ports.documents.find(project, &DocumentFilter::all(kind)).await?;
        now.extend(listed.metadata.iter().map(|head| (head.id.clone(), head.version)));
    }
    let differs = now.iter().filter(|(id, version)| indexed.get(id) != Some(version));
    let mut stale: BTreeSet<DocumentId> = differs.map(|(id, _)| id.clone()).collect();
    stale.extend(indexed.into_keys().filter(|id| !now.contains_key(id)));
    Ok(stale)
}

/// The metadata of entities that the storage has, so that they are not parsed a second time.
async fn entity_metadata(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Result<Vec<Option<Arc<DocumentMeta>>>> {
    let entities = ids.iter().filter(|id| id.kind == DocumentKind::Entity);
    let words: Vec<String> = entities.map(|id| id.name.clone()).collect();
    if words.is_empty() {
        return Ok(vec![None; ids.len()]);
    }
    let mut named =
        ports.documents.lookup(project, DocumentKind::Entity, &words).await?.into_iter();
    let own = |id: &DocumentId| {
        let heads = if id.kind == DocumentKind::Entity { named.next() } else { None };
        heads?.into_iter().find(|head| head.id == *id)
    };
    Ok(ids.iter().map(own).collect())
}

fn make_projection(
    head: Option<Arc<DocumentMeta>>,
    id: &DocumentId,
    read: ReadOutcome,
) -> DocumentProjection {
    let (version, items) = match read {
        ReadOutcome::Missing => (None, Vec::new()),
        ReadOutcome::Failed => (Some(Version::UNREAD), Vec::new()),
        ReadOutcome::Document(document) => {
            let head = head.filter(|head| head.version == document.version);
            let known = head.and_then(|head| head.entity.as_deref().cloned());
            let items = search::items(&document, known);
            (Some(document.version), items)
        }
    };
    DocumentProjection { document: id.clone(), version, items }
}

enum ReadOutcome {
    Document(Document),
    Missing,
    Failed,
}

/// Reads documents; one that cannot be read does not affect the others.
async fn read_documents(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ids: &[DocumentId],
) -> Vec<ReadOutcome> {
    if ids.is_empty() {
        return Vec::new();
    }
    let as_read =
        |found: Option<Document>| found.map_or(ReadOutcome::Missing, ReadOutcome::Document);
    if let Ok(documents) = ports.documents.get(project, ids).await {
        return documents.into_iter().map(as_read).collect();
    }
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        all.push(
            get_one(&*ports.documents, project, id).await.map_or(ReadOutcome::Failed, as_read),
        );
    }
    all
}
