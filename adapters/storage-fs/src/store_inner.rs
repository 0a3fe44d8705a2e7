//! The state that all calls share, and their work on files, where blocking is allowed.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, Refresh, StoreResult};
use reqlore_domain::project_key::ProjectKey;

use crate::layout::{DocumentArea, ProjectRoot, ProjectTree, RequirementsLayout};
use crate::lock::LockQueue;
use crate::metadata_index::load::MetadataCache;
use crate::metadata_index::{MetadataIndex, MetadataIndexes};
use crate::projects::ProjectFolders;
use crate::read_file::{self, FileContent};
use crate::stage_and_swap::StaleTempFiles;
use crate::team::TeamHandle;
use crate::{journal, list_files};

#[derive(Debug)]
pub(crate) struct StoreInner {
    pub(crate) folders: ProjectFolders,
    pub(crate) layout: RequirementsLayout,
    pub(crate) locks: LockQueue,
    pub(crate) stale_temp_files: StaleTempFiles,
    pub(crate) indexes: MetadataIndexes,
    pub(crate) cache: MetadataCache,
    pub(crate) team: TeamHandle,
}

impl StoreInner {
    pub(crate) fn path<'a>(&'a self, project: &'a ProjectKey) -> &'a Path {
        self.folders.path(project)
    }

    pub(crate) fn open(&self, project: &ProjectKey) -> StoreResult<ProjectRoot> {
        let root = ProjectRoot::open(self.path(project))?;
        if journal::exists(self.path(project)) {
            self.recover_journal(project);
        }
        Ok(root)
    }

    /// The root, if no interrupted commit has to be finished first, which would block.
    fn try_open_root(&self, project: &ProjectKey) -> Option<ProjectRoot> {
        let path = self.path(project);
        if journal::exists(path) { None } else { ProjectRoot::open(path).ok() }
    }

    /// Finishes an interrupted commit, unless another writer has the lock and will do it.
    fn recover_journal(&self, project: &ProjectKey) {
        let settled = match self.locks.try_lock(project, self.path(project)) {
            Ok(Some(lock)) => journal::recover(&self.layout, &lock),
            other => other.map(drop),
        };
        if let Err(error) = settled {
            tracing::warn!(%error, "an interrupted commit could not be finished");
        }
    }

    pub(crate) fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let root = self.open(project)?;
        let tree = ProjectTree::read_only(&root, &self.layout);
        let read = |id: &DocumentId| -> StoreResult<Option<FileContent>> {
            tree.locate(id)?.map_or(Ok(None), |place| read_file::read_once(&place))
        };
        let is_torn = |read: &StoreResult<Option<FileContent>>| matches!(read, Ok(Some(content)) if content.is_partial);
        let all = read_file::retry_partial(ids, ids.iter().map(read).collect(), read, is_torn);
        let catalog = self.indexes.get(project);
        let document = |(id, content): (&DocumentId, StoreResult<Option<FileContent>>)| {
            Ok(content?.map(|content| match catalog.try_lock() {
                Ok(mut catalog) => catalog.record_read(id, &content),
                // A long listing has the catalog; there is no need to wait for its end.
                Err(_) => Document::new(id.clone(), content.bytes),
            }))
        };
        ids.iter().zip(all).map(document).collect()
    }

    /// The same without waiting, for a few small files: the hop to another thread costs more than
    /// reading them.
    pub(crate) fn try_get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> Option<Vec<Option<Document>>> {
        if ids.len() > INLINE.0 {
            return None;
        }
        let root = self.try_open_root(project)?;
        let tree = ProjectTree::read_only(&root, &self.layout);
        let catalog = self.indexes.get(project);
        let mut catalog = catalog.try_lock().ok()?;
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(place) = tree.locate(id).ok()? else {
                documents.push(None);
                continue;
            };
            let stamp = list_files::stat_file(&place.dir, &place.name);
            if let Some(document) = stamp.and_then(|stamp| catalog.cached_document(id, stamp)) {
                documents.push(Some(document));
                continue;
            }
            let content = read_file::read_up_to(&place, INLINE.1).ok()?;
            let content = content.filter(|content| !content.is_partial)?;
            documents.push(Some(catalog.record_read(id, &content)));
        }
        Some(documents)
    }

    /// Versions by `stat` alone; `None` where a file would have to be read.
    pub(crate) fn try_versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> Option<Vec<Option<Version>>> {
        let root = self.try_open_root(project)?;
        let tree = ProjectTree::new(&root, &self.layout);
        let catalog = self.indexes.get(project);
        let catalog = catalog.try_lock().ok()?;
        let version = |id: &DocumentId| {
            let Some(place) = tree.locate(id).ok()? else { return Some(None) };
            let stamp = list_files::stat_file(&place.dir, &place.name)?;
            catalog.cached_version(id, stamp).map(Some)
        };
        ids.iter().map(version).collect()
    }

    /// Asks the catalog after some kinds were brought up to date.
    pub(crate) fn query_refreshed<T>(
        &self,
        project: &ProjectKey,
        tree: &ProjectTree<'_>,
        kinds: &[DocumentKind],
        look: Refresh,
        ask: impl FnOnce(&mut MetadataIndex) -> T,
    ) -> StoreResult<T> {
        let catalog = self.indexes.get(project);
        let mut catalog = lock_index(&catalog);
        let thorough = look == Refresh::Full;
        catalog.refresh(kinds, tree, self.path(project), &self.cache, thorough)?;
        self.save_large_changes(project, &mut catalog);
        Ok(ask(&mut catalog))
    }

    /// Writes the cache when a good part of it is new.
    fn save_large_changes(&self, project: &ProjectKey, catalog: &mut MetadataIndex) {
        for area in DocumentArea::ALL {
            let (unsaved, all) = catalog.unsaved_count(area);
            if unsaved <= MIN_UNSAVED_TO_WRITE.max(all / 20) {
                continue;
            }
            let heads = catalog.take_cacheable(area);
            let (cache, path) = (self.cache.clone(), self.path(project).to_owned());
            let save = move || cache.save(&path, area, &heads);
            if let Err(error) = std::thread::Builder::new().spawn(save) {
                tracing::debug!(%error, "the cache of heads was not written");
            }
        }
    }

    /// Asks the catalog, if it is free and its watch confirms that these kinds are current.
    pub(crate) fn try_query_current<T>(
        &self,
        project: &ProjectKey,
        kinds: &[DocumentKind],
        ask: impl FnOnce(&mut MetadataIndex) -> T,
    ) -> Option<T> {
        let catalog = self.indexes.get(project);
        let mut catalog = catalog.try_lock().ok()?;
        let vouched = !journal::exists(self.path(project)) && catalog.is_current(kinds);
        vouched.then(|| ask(&mut catalog))
    }
}

/// The most files, and the most bytes of each, that are read without a hop.
const INLINE: (usize, u64) = (32, 64 * 1024);
/// With fewer new entries the cache is only written at the end.
const MIN_UNSAVED_TO_WRITE: usize = 256;

impl Drop for StoreInner {
    fn drop(&mut self) {
        for (project, catalog) in self.indexes.all() {
            let mut catalog = lock_index(&catalog);
            for area in DocumentArea::ALL {
                if catalog.unsaved_count(area).0 > 0 {
                    self.cache.save(self.path(&project), area, &catalog.take_cacheable(area));
                }
            }
        }
    }
}

/// The same query for the kinds that have links.
pub(crate) fn linkable_kinds_only(links: &BacklinkQuery) -> BacklinkQuery {
    let kinds = links.kinds.iter().copied().filter(|kind| DocumentArea::of_kind(*kind).is_some());
    BacklinkQuery { kinds: kinds.collect(), targets: links.targets.clone() }
}

pub(crate) fn lock_index(catalog: &Mutex<MetadataIndex>) -> MutexGuard<'_, MetadataIndex> {
    catalog.lock().unwrap_or_else(PoisonError::into_inner)
}
