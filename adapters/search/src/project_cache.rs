//! The open project indexes, within a budget of file descriptors.
//!
//! The background thread closes the least recently used index. A running call may still use a
//! closed one, so an index that is closing is used again instead of opened twice.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use lru::LruCache;
use reqlore_domain::error::Result;
use reqlore_domain::ports::search::IndexStatus;
use reqlore_domain::project_key::ProjectKey;

use crate::analyzer::Analyzer;
use crate::cache_dir::{CacheDir, cache_dir_name};
use crate::config::SearchConfig;
use crate::disk_directory::ByteCache;
use crate::index_cost::{IndexCost, MAX_READERS, MEMORY_READERS};
use crate::lock::lock;
use crate::project_index::{AnalyzerPair, ProjectIndex};
use crate::rebuild;

/// Memory for recently read ranges of index files.
const BYTE_CACHE_BYTES: usize = 32 << 20;
/// A call closes an index itself if the open ones exceed the budget by this share.
const EXCESS_SHARE: usize = 4;
/// Locks of projects that are being opened. Two projects rarely share one.
const OPENING_LOCKS: usize = 16;

pub(crate) type SharedProject = Arc<Mutex<ProjectIndex>>;

pub(crate) struct ProjectCache {
    config: SearchConfig,
    analyzers: AnalyzerPair,
    /// Shared by all projects.
    byte_cache: Arc<ByteCache>,
    open: Mutex<OpenProjects>,
    /// Held while an index is opened, so that two calls do not open it twice. Calls to open
    /// indexes do not wait for it.
    opening: [Mutex<()>; OPENING_LOCKS],
}

struct OpenProjects {
    by_use: LruCache<ProjectKey, (SharedProject, IndexCost)>,
    /// Removed from `open`, but a call may still use them.
    closing: HashMap<ProjectKey, Weak<Mutex<ProjectIndex>>>,
    /// The sum over `by_use`.
    cost: IndexCost,
    max_files: usize,
}

impl OpenProjects {
    fn insert(&mut self, key: &ProjectKey, project: SharedProject, cost: IndexCost) {
        self.closing.remove(key);
        if let Some((_, replaced)) = self.by_use.put(key.clone(), (project, cost)) {
            self.subtract(replaced);
        }
        self.cost.files += cost.files;
        self.cost.readers += cost.readers;
    }

    fn subtract(&mut self, cost: IndexCost) {
        self.cost.files -= cost.files;
        self.cost.readers -= cost.readers;
    }

    /// Removes the least recently used index if the budget is exceeded by one `share`.
    fn take_excess(&mut self, share: Option<usize>) -> Option<(ProjectKey, SharedProject)> {
        let is_exceeded =
            |cost: usize, budget: usize| cost > budget + share.map_or(0, |share| budget / share);
        let has_excess = is_exceeded(self.cost.readers, MAX_READERS)
            || is_exceeded(self.cost.files, self.max_files);
        // The last one is in use.
        if !has_excess || self.by_use.len() < 2 {
            return None;
        }
        let (key, (project, cost)) = self.by_use.pop_lru()?;
        self.subtract(cost);
        self.closing.insert(key.clone(), Arc::downgrade(&project));
        Some((key, project))
    }
}

impl ProjectCache {
    pub(crate) fn new(config: SearchConfig) -> Self {
        let analyzers = AnalyzerPair { query: Analyzer::new(), document: Analyzer::new() };
        // Unbounded: the budget is a sum of costs and not a number.
        let (by_use, closing) = (LruCache::unbounded(), HashMap::new());
        let (cost, max_files) = (IndexCost::default(), config.max_open_files);
        let open = Mutex::new(OpenProjects { by_use, closing, cost, max_files });
        let byte_cache = Arc::new(ByteCache::new(BYTE_CACHE_BYTES));
        Self { config, analyzers, byte_cache, open, opening: Default::default() }
    }

    pub(crate) fn get(&self, key: &ProjectKey) -> Option<SharedProject> {
        lock(&self.open).by_use.get(key).map(|(project, _)| Arc::clone(project))
    }

    /// Returns an open project without counting it as used.
    pub(crate) fn peek(&self, key: &ProjectKey) -> Option<SharedProject> {
        lock(&self.open).by_use.peek(key).map(|(project, _)| Arc::clone(project))
    }

    /// Returns the project and whether this call has opened it.
    pub(crate) fn get_or_open(&self, key: &ProjectKey) -> Result<(SharedProject, bool)> {
        let dir_name = cache_dir_name(&self.config.store, key);
        let number = dir_name.bytes().map(usize::from).sum::<usize>() % OPENING_LOCKS;
        let _opening = lock(&self.opening[number]);
        // Another call may have opened it while this one waited.
        if let Some(project) = self.get(key) {
            return Ok((project, false));
        }
        let closing = lock(&self.open).closing.get(key).and_then(Weak::upgrade);
        if let Some(project) = closing {
            let cost = lock(&project).cost();
            lock(&self.open).insert(key, Arc::clone(&project), cost);
            return Ok((project, false));
        }
        let cache_dir = self.open_cache_dir(&dir_name);
        let (byte_cache, analyzers) = (Arc::clone(&self.byte_cache), self.analyzers.clone());
        let mut opened = ProjectIndex::open(cache_dir, byte_cache, analyzers, &self.config)?;
        let cost = opened.cost();
        let project = Arc::new(Mutex::new(opened));
        let mut open = lock(&self.open);
        open.insert(key, Arc::clone(&project), cost);
        let excess = open.take_excess(Some(EXCESS_SHARE));
        drop(open);
        if let Some((key, excess)) = excess {
            // Not synced, because the call would wait for the disk.
            drop(excess);
            self.finish_close(&key);
        }
        Ok((project, true))
    }

    /// Removes the index folders of a project, open ones too.
    pub(crate) fn erase(&self, key: &ProjectKey) -> io::Result<()> {
        let Some(caches) = &self.config.cache_folder else { return Ok(()) };
        rebuild::erase_folders(&caches.join(cache_dir_name(&self.config.store, key)))
    }

    /// Sums the figures that each index reported when it was last opened or saved.
    pub(crate) fn status(&self) -> IndexStatus {
        let (cache_hits, cache_misses) = self.byte_cache.counts();
        let mut status = IndexStatus { cache_hits, cache_misses, ..IndexStatus::default() };
        for (_, (_, cost)) in &lock(&self.open).by_use {
            status.open_indexes += 1;
            status.indexes_in_memory += u64::from(cost.readers == MEMORY_READERS);
            status.disk_bytes += cost.disk_bytes;
            status.unembedded_texts += cost.unembedded_texts as u64;
        }
        status
    }

    /// Removes the least recently used index if the budget is exceeded. The caller saves it.
    pub(crate) fn take_excess(&self) -> Option<(ProjectKey, SharedProject)> {
        lock(&self.open).take_excess(None)
    }

    /// Drops an index that no call uses.
    pub(crate) fn finish_close(&self, key: &ProjectKey) {
        let mut open = lock(&self.open);
        if open.closing.get(key).is_some_and(|project| project.strong_count() == 0) {
            open.closing.remove(key);
        }
    }

    /// Updates the cost of an index whose files have changed.
    pub(crate) fn update_cost(&self, key: &ProjectKey, cost: IndexCost) {
        let mut open = lock(&self.open);
        let Some((_, listed)) = open.by_use.peek_mut(key) else { return };
        let previous = std::mem::replace(listed, cost);
        open.subtract(previous);
        open.cost.files += cost.files;
        open.cost.readers += cost.readers;
    }

    pub(crate) fn open_projects(&self) -> Vec<(ProjectKey, SharedProject)> {
        let open = lock(&self.open);
        open.by_use.iter().map(|(key, (project, _))| (key.clone(), Arc::clone(project))).collect()
    }

    fn open_cache_dir(&self, name: &str) -> Option<CacheDir> {
        let caches = self.config.cache_folder.as_deref()?;
        let path: PathBuf = caches.join(name);
        match CacheDir::open(path.clone()) {
            Ok(cache_dir) => Some(cache_dir),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "search cache: cannot open; the index is in memory");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ProjectKey {
        ProjectKey::new(format!("p-{number}"))
    }

    fn close_excess(projects: &ProjectCache) {
        while let Some((key, project)) = projects.take_excess() {
            drop(project);
            projects.finish_close(&key);
        }
    }

    #[test]
    fn projects_over_budget_close_least_recently_used() {
        let projects = ProjectCache::new(SearchConfig::default());
        let (opened, _) = projects.get_or_open(&key(0)).unwrap();
        let max_open = MAX_READERS / lock(&opened).cost().readers;
        let first = Arc::downgrade(&opened);
        drop(opened);
        for number in 1..3 * max_open {
            projects.get_or_open(&key(number)).unwrap();
            close_excess(&projects);
            assert!(projects.open_projects().len() <= max_open);
            if number < 2 * max_open {
                assert!(projects.get(&key(0)).is_some());
            }
        }
        assert!(projects.get(&key(0)).is_none());
        assert_eq!((first.strong_count(), projects.open_projects().len()), (0, max_open));
        assert_eq!(lock(&projects.open).cost.readers, MAX_READERS);
        assert!(lock(&projects.open).closing.is_empty());
    }

    #[test]
    fn call_closes_one_project_if_thread_is_behind() {
        let projects = ProjectCache::new(SearchConfig::default());
        for number in 0..100 {
            projects.get_or_open(&key(number)).unwrap();
            assert!(lock(&projects.open).cost.readers <= MAX_READERS + MAX_READERS / EXCESS_SHARE);
        }
    }

    #[test]
    fn project_used_while_it_closes_is_not_opened_twice() {
        let projects = ProjectCache::new(SearchConfig::default());
        let (first, is_opened) = projects.get_or_open(&key(0)).unwrap();
        assert!(is_opened);
        for number in 1.. {
            projects.get_or_open(&key(number)).unwrap();
            close_excess(&projects);
            if projects.peek(&key(0)).is_none() {
                break;
            }
        }
        let (again, is_opened) = projects.get_or_open(&key(0)).unwrap();
        assert!(!is_opened && Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn index_with_more_files_counts_with_its_new_cost() {
        let projects = ProjectCache::new(SearchConfig::default());
        for number in 0..3 {
            projects.get_or_open(&key(number)).unwrap();
        }
        assert!(projects.take_excess().is_none());
        let files = SearchConfig::default().max_open_files + 1;
        projects.update_cost(&key(2), IndexCost { files, readers: 1, ..IndexCost::default() });
        close_excess(&projects);
        assert_eq!(projects.open_projects().len(), 1);
        projects.get(&key(2)).unwrap();
    }
}
