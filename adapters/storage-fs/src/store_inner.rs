//! State of a store that all calls share, and their blocking work on files.

use std::path::Path;

use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, Refresh, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_git_runner::GitEnvironment;
use tokio::sync::Semaphore;

use crate::folder_names::RequirementsLayout;
use crate::layout::{DocumentArea, ProjectRoot, ProjectTree};
use crate::lock::LockQueue;
use crate::metadata_index::MetadataIndex;
use crate::metadata_index::load::MetadataCache;
use crate::open_indexes::{OpenIndexes, lock_index};
use crate::projects::ProjectFolders;
use crate::read_file::{self, FileContent};
use crate::sparse_checkout::SparseCheckouts;
use crate::stale_temp_files::StaleTempFiles;
use crate::team::handle::TeamHandle;
use crate::{journal, list_files};

/// The number and size in bytes of files that are read without switching to another thread.
const MAX_INLINE_FILES: usize = 32;
const MAX_INLINE_FILE_BYTES: u64 = 64 * 1024;
/// Maximum histories that are read at the same time; each starts several processes.
pub(crate) const MAX_CONCURRENT_HISTORIES: usize = 4;

#[derive(Debug)]
pub(crate) struct StoreInner {
    pub(crate) folders: ProjectFolders,
    pub(crate) layout: RequirementsLayout,
    pub(crate) locks: LockQueue,
    pub(crate) stale_temp_files: StaleTempFiles,
    pub(crate) indexes: OpenIndexes,
    pub(crate) cache: MetadataCache,
    pub(crate) team: TeamHandle,
    pub(crate) git: GitEnvironment,
    pub(crate) git_permits: Semaphore,
    pub(crate) sparse_checkouts: SparseCheckouts,
}

impl StoreInner {
    pub(crate) fn project_path<'a>(&'a self, project: &'a ProjectKey) -> &'a Path {
        self.folders.path(project)
    }

    /// Opens a project's root after recovering an interrupted commit.
    pub(crate) fn open_root(&self, project: &ProjectKey) -> StoreResult<ProjectRoot> {
        let root = ProjectRoot::open(self.project_path(project))?;
        // Checked without the lock, which most calls then don't need.
        if journal::exists(self.project_path(project)) {
            self.recover_journal(project);
        }
        Ok(root)
    }

    /// Opens a project's root; `None` if a commit must be recovered first, which would block.
    fn try_open_root(&self, project: &ProjectKey) -> Option<ProjectRoot> {
        let path = self.project_path(project);
        // Git may have to be asked whether documents of a sparse checkout are missing.
        if journal::exists(path) || self.sparse_checkouts.is_sparse(path) {
            return None;
        }
        ProjectRoot::open(path).ok()
    }

    /// Fails if documents of one of these kinds are not checked out.
    pub(crate) fn check_checked_out(
        &self,
        project: &ProjectKey,
        kinds: impl IntoIterator<Item = DocumentKind>,
    ) -> StoreResult<()> {
        let path = self.project_path(project);
        self.sparse_checkouts.check_checked_out(path, &self.git, &self.layout, kinds)
    }

    /// Removes the files of interrupted writes, unless a writer has the lock, which does it.
    pub(crate) fn remove_stale_temp_files(&self, project: &ProjectKey) {
        if let Ok(Some(lock)) = self.locks.try_lock(project, self.project_path(project)) {
            self.stale_temp_files.remove_all(
                &ProjectTree::new(&lock.root, &self.layout),
                &[],
                None,
            );
        }
    }

    /// Finishes an interrupted commit. Another writer that holds the lock has done or will do it.
    fn recover_journal(&self, project: &ProjectKey) {
        let recovered = match self.locks.try_lock(project, self.project_path(project)) {
            Ok(Some(lock)) => journal::recover(&self.layout, &lock),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        // A reader continues; the next writer gets this error, because it depends on the recovery.
        if let Err(error) = recovered {
            tracing::warn!(%error, "an interrupted commit could not be finished");
        }
    }

    pub(crate) fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let root = self.open_root(project)?;
        self.check_checked_out(project, ids.iter().map(|id| id.kind))?;
        let tree = ProjectTree::read_only(&root, &self.layout);
        let contents = ids.iter().map(|id| read_content(&tree, id)).collect();
        let contents = read_file::retry_partial(
            ids,
            contents,
            |id| read_content(&tree, id),
            |content| matches!(content, Ok(Some(content)) if content.is_partial),
        );
        let index = self.indexes.get(project);
        let mut documents = Vec::with_capacity(ids.len());
        for (id, content) in ids.iter().zip(contents) {
            let Some(content) = content? else {
                documents.push(None);
                continue;
            };
            documents.push(Some(match index.try_lock() {
                Ok(mut index) => index.record_read(id, &content),
                // A scan may hold the lock for long, and the document is complete without it.
                Err(_) => Document::new(id.clone(), content.bytes),
            }));
        }
        if let Ok(index) = index.try_lock() {
            self.record_size(project, &index);
        }
        Ok(documents)
    }

    /// Returns the documents without blocking if they are few and small; `None` otherwise.
    /// Switching to another thread costs more than reading them.
    pub(crate) fn try_get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> Option<Vec<Option<Document>>> {
        if ids.len() > MAX_INLINE_FILES {
            return None;
        }
        let root = self.try_open_root(project)?;
        let tree = ProjectTree::read_only(&root, &self.layout);
        // A scan may hold the lock for long.
        let index = self.indexes.get(project);
        let mut index = index.try_lock().ok()?;
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(location) = tree.locate(id).ok()? else {
                documents.push(None);
                continue;
            };
            let stamp = list_files::stat_file(&location.dir, &location.name);
            if let Some(document) = stamp.and_then(|stamp| index.cached_document(id, stamp)) {
                documents.push(Some(document));
                continue;
            }
            // Large and missing files, and errors, are left to the call that may block.
            let content = read_file::read_up_to(&location, MAX_INLINE_FILE_BYTES).ok()??;
            // Reading it again means to sleep, which needs a blocking thread.
            if content.is_partial {
                return None;
            }
            documents.push(Some(index.record_read(id, &content)));
        }
        self.record_size(project, &index);
        Some(documents)
    }

    /// Returns the versions by `stat` alone; `None` if a file would have to be read.
    pub(crate) fn try_versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> Option<Vec<Option<Version>>> {
        let root = self.try_open_root(project)?;
        let tree = ProjectTree::new(&root, &self.layout);
        let mut stamps = Vec::with_capacity(ids.len());
        for id in ids {
            stamps.push(match tree.locate(id).ok()? {
                Some(location) => Some(list_files::stat_file(&location.dir, &location.name)?),
                None => None,
            });
        }
        // Locked last and briefly: a caller that finds it locked needs another thread.
        let index = self.indexes.get(project);
        let index = index.try_lock().ok()?;
        let mut versions = Vec::with_capacity(ids.len());
        for (id, stamp) in ids.iter().zip(stamps) {
            versions.push(match stamp {
                Some(stamp) => Some(index.cached_version(id, stamp)?),
                None => None,
            });
        }
        Some(versions)
    }

    /// Refreshes these kinds, then queries the index.
    pub(crate) fn query_refreshed<T>(
        &self,
        project: &ProjectKey,
        tree: &ProjectTree<'_>,
        kinds: &[DocumentKind],
        refresh: Refresh,
        query: impl FnOnce(&mut MetadataIndex) -> T,
    ) -> StoreResult<T> {
        let index = self.indexes.get(project);
        let mut index = lock_index(&index);
        let is_full = refresh == Refresh::Full;
        index.refresh(kinds, tree, self.project_path(project), &self.cache, is_full)?;
        self.save_large_changes(project, &mut index);
        self.record_size(project, &index);
        Ok(query(&mut index))
    }

    fn record_size(&self, project: &ProjectKey, index: &MetadataIndex) {
        let path_of = |project: &ProjectKey| self.project_path(project).to_owned();
        self.indexes.record_size(project, index.size_bytes(), path_of);
    }

    /// Writes the cache if more than a twentieth of the documents is new.
    fn save_large_changes(&self, project: &ProjectKey, index: &mut MetadataIndex) {
        if !index.has_large_changes() {
            return;
        }
        let Some(rows) = index.take_unsaved() else { return };
        let (cache, path) = (self.cache.clone(), self.project_path(project).to_owned());
        // On its own thread, because the call need not wait for it.
        let spawned = std::thread::Builder::new().spawn(move || cache.save(&path, &rows));
        if let Err(error) = spawned {
            tracing::debug!(%error, "metadata cache: could not write it");
        }
    }

    /// Queries the index without waiting; `None` if these kinds may be outdated.
    pub(crate) fn try_query_current<T>(
        &self,
        project: &ProjectKey,
        kinds: &[DocumentKind],
        query: impl FnOnce(&mut MetadataIndex) -> T,
    ) -> Option<T> {
        let index = self.indexes.get(project);
        let mut index = index.try_lock().ok()?;
        // An interrupted commit must be finished before its documents are read.
        let path = self.project_path(project);
        if journal::exists(path)
            || self.sparse_checkouts.is_sparse(path)
            || !index.is_current(kinds)
        {
            return None;
        }
        let is_unwatched = |kind: &&DocumentKind| DocumentArea::of_kind(**kind).is_none();
        let mut by_stat = kinds.iter().filter(is_unwatched).peekable();
        if by_stat.peek().is_some() {
            // Listing these few files costs less than switching to another thread.
            let root = ProjectRoot::open(path).ok()?;
            let tree = ProjectTree::new(&root, &self.layout);
            if !by_stat.all(|kind| index.is_current_by_stat(*kind, &tree)) {
                return None;
            }
        }
        Some(query(&mut index))
    }
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        // The next process then need not read every document.
        self.indexes.save_all(|project| self.project_path(project).to_owned());
    }
}

fn read_content(tree: &ProjectTree<'_>, id: &DocumentId) -> StoreResult<Option<FileContent>> {
    match tree.locate(id)? {
        Some(location) => read_file::read_once(&location),
        None => Ok(None),
    }
}

/// The query without the kinds whose documents have no links, so that their files are not
/// inspected.
pub(crate) fn linkable_kinds_only(query: &BacklinkQuery) -> BacklinkQuery {
    let mut kinds = query.kinds.clone();
    kinds.retain(|kind| {
        use DocumentKind::{Docsets, Instructions, Schema, Template};
        !matches!(kind, Instructions | Docsets | Schema | Template)
    });
    BacklinkQuery { kinds, targets: query.targets.clone() }
}
