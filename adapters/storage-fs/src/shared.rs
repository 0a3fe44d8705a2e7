//! The state that all calls share, and their work on files, where blocking is allowed.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, Refresh, StoreResult};
use reqlore_domain::project_key::ProjectKey;

use crate::layout::{Area, Layout, Root, Tree};
use crate::lock::LockQueue;
use crate::metadata_index::load::Cache;
use crate::metadata_index::{Catalog, Catalogs};
use crate::projects::Folders;
use crate::read::{self, Content, Stamp};
use crate::stage_and_swap::Leftovers;
use crate::team::Team;
use crate::{journal, walk};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folders: Folders,
    pub(crate) layout: Layout,
    pub(crate) locks: LockQueue,
    pub(crate) leftovers: Leftovers,
    pub(crate) catalogs: Catalogs,
    pub(crate) cache: Cache,
    pub(crate) team: Team,
}

impl Shared {
    pub(crate) fn path<'a>(&'a self, project: &'a ProjectKey) -> &'a Path {
        self.folders.path(project)
    }

    pub(crate) fn open(&self, project: &ProjectKey) -> StoreResult<Root> {
        let root = Root::open(self.path(project))?;
        if journal::is_there(self.path(project)) {
            self.settle(project);
        }
        Ok(root)
    }

    /// The root, if no interrupted commit has to be finished first, which would block.
    fn open_now(&self, project: &ProjectKey) -> Option<Root> {
        let path = self.path(project);
        if journal::is_there(path) { None } else { Root::open(path).ok() }
    }

    /// Finishes an interrupted commit, unless another writer has the lock and will do it.
    fn settle(&self, project: &ProjectKey) {
        let settled = match self.locks.try_lock(project, self.path(project)) {
            Ok(Some(lock)) => journal::settle(&self.layout, &lock),
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
        let tree = Tree::to_read(&root, &self.layout);
        let read = |id: &DocumentId| -> StoreResult<Option<Content>> {
            tree.place(id)?.map_or(Ok(None), |place| read::read_once(&place))
        };
        let is_torn =
            |read: &StoreResult<Option<Content>>| matches!(read, Ok(Some(content)) if content.torn);
        let all = read::read_settled_all(ids, ids.iter().map(read).collect(), read, is_torn);
        let catalog = self.catalogs.of(project);
        let document = |(id, content): (&DocumentId, StoreResult<Option<Content>>)| {
            Ok(content?.map(|content| match catalog.try_lock() {
                Ok(mut catalog) => catalog.document(id, &content),
                // A long listing has the catalog; there is no need to wait for its end.
                Err(_) => Document::new(id.clone(), content.bytes),
            }))
        };
        ids.iter().zip(all).map(document).collect()
    }

    /// The same without waiting, for a few small files: the hop to another thread costs more than
    /// reading them.
    pub(crate) fn get_now(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> Option<Vec<Option<Document>>> {
        if ids.len() > INLINE.0 {
            return None;
        }
        let root = self.open_now(project)?;
        let tree = Tree::to_read(&root, &self.layout);
        let catalog = self.catalogs.of(project);
        let mut catalog = catalog.try_lock().ok()?;
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(place) = tree.place(id).ok()? else {
                documents.push(None);
                continue;
            };
            let stamp = walk::stamp(&place.dir, &place.name);
            if let Some(document) = stamp.and_then(|stamp| catalog.cached(id, stamp)) {
                documents.push(Some(document));
                continue;
            }
            let content = read::read_small(&place, INLINE.1).ok()?;
            let content = content.filter(|content| !content.torn)?;
            documents.push(Some(catalog.document(id, &content)));
        }
        Some(documents)
    }

    /// Versions by `stat` alone; `None` where a file would have to be read.
    pub(crate) fn versions_now(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> Option<Vec<Option<Version>>> {
        let root = self.open_now(project)?;
        let tree = Tree::new(&root, &self.layout);
        let stamp = |id: &DocumentId| {
            let Some(place) = tree.place(id).ok()? else { return Some(None) };
            walk::stamp(&place.dir, &place.name).map(Some)
        };
        let stamps: Vec<Option<Stamp>> = ids.iter().map(stamp).collect::<Option<_>>()?;
        // Locked last, because a caller that finds it locked needs another thread.
        let catalog = self.catalogs.of(project);
        let catalog = catalog.try_lock().ok()?;
        let version = |(id, stamp): (&DocumentId, Option<Stamp>)| match stamp {
            Some(stamp) => catalog.believed(id, stamp).map(Some),
            None => Some(None),
        };
        ids.iter().zip(stamps).map(version).collect()
    }

    /// Asks the catalog after some kinds were brought up to date.
    pub(crate) fn refreshed<T>(
        &self,
        project: &ProjectKey,
        tree: &Tree<'_>,
        kinds: &[DocumentKind],
        look: Refresh,
        ask: impl FnOnce(&mut Catalog) -> T,
    ) -> StoreResult<T> {
        let catalog = self.catalogs.of(project);
        let mut catalog = locked(&catalog);
        let thorough = look == Refresh::Full;
        catalog.refresh(kinds, tree, self.path(project), &self.cache, thorough)?;
        self.save_some(project, &mut catalog);
        Ok(ask(&mut catalog))
    }

    /// Writes the cache when a good part of it is new.
    fn save_some(&self, project: &ProjectKey, catalog: &mut Catalog) {
        for area in Area::ALL {
            let (unsaved, all) = catalog.unsaved(area);
            if unsaved <= SAVE.max(all / 20) {
                continue;
            }
            let heads = catalog.savable(area);
            let (cache, path) = (self.cache.clone(), self.path(project).to_owned());
            let save = move || cache.save(&path, area, &heads);
            if let Err(error) = std::thread::Builder::new().spawn(save) {
                tracing::debug!(%error, "the cache of heads was not written");
            }
        }
    }

    /// Asks the catalog, if it is free and its watch confirms that these kinds are current.
    pub(crate) fn vouched<T>(
        &self,
        project: &ProjectKey,
        kinds: &[DocumentKind],
        ask: impl FnOnce(&mut Catalog) -> T,
    ) -> Option<T> {
        let catalog = self.catalogs.of(project);
        let mut catalog = catalog.try_lock().ok()?;
        let vouched = !journal::is_there(self.path(project)) && catalog.is_vouched(kinds);
        vouched.then(|| ask(&mut catalog))
    }
}

/// The most files, and the most bytes of each, that are read without a hop.
const INLINE: (usize, u64) = (32, 64 * 1024);
/// With fewer new entries the cache is only written at the end.
const SAVE: usize = 256;

impl Drop for Shared {
    fn drop(&mut self) {
        for (project, catalog) in self.catalogs.all() {
            let mut catalog = locked(&catalog);
            for area in Area::ALL {
                if catalog.unsaved(area).0 > 0 {
                    self.cache.save(self.path(&project), area, &catalog.savable(area));
                }
            }
        }
    }
}

/// The same query for the kinds that have links.
pub(crate) fn watched(links: &BacklinkQuery) -> BacklinkQuery {
    let kinds = links.kinds.iter().copied().filter(|kind| Area::of(*kind).is_some());
    BacklinkQuery { kinds: kinds.collect(), targets: links.targets.clone() }
}

pub(crate) fn locked(catalog: &Mutex<Catalog>) -> MutexGuard<'_, Catalog> {
    catalog.lock().unwrap_or_else(PoisonError::into_inner)
}
