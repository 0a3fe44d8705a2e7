//! The open project indexes: at most eight, because each has its own threads and memory.
//!
//! A running call may still use a closed index, so an index saves itself again when it is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;

use crate::SearchConfig;
use crate::analyzer::Analyzer;
use crate::cache_dir::CacheDir;
use crate::project_index::{AnalyzerPair, ProjectIndex};

/// Above this number the least recently used index is closed.
const MAX_OPEN_PROJECTS: usize = 8;

#[derive(Debug)]
pub(crate) struct ProjectCache {
    config: SearchConfig,
    analyzers: AnalyzerPair,
    open: Mutex<LruCache<ProjectKey, Arc<Mutex<ProjectIndex>>>>,
    /// Held while an index is closed and opened, so that no directory is read while it is saved.
    /// Calls to open indexes do not wait for it.
    opening: Mutex<()>,
}

impl ProjectCache {
    pub(crate) fn new(config: SearchConfig) -> Self {
        let analyzers = AnalyzerPair { query: Analyzer::new(), document: Analyzer::new() };
        // Unbounded: `close_oldest` removes entries, because it saves them first.
        let open = Mutex::new(LruCache::unbounded());
        Self { config, analyzers, open, opening: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &ProjectKey) -> Option<Arc<Mutex<ProjectIndex>>> {
        lock(&self.open).get(key).cloned()
    }

    pub(crate) fn get_or_open(&self, key: &ProjectKey) -> Result<Arc<Mutex<ProjectIndex>>> {
        // One at a time, so that two calls do not open the same directory.
        let _opening = lock(&self.opening);
        // Another call may have opened it while this one waited.
        if let Some(project) = self.get(key) {
            return Ok(project);
        }
        self.close_oldest();
        let cache_dir = self.open_cache_dir(key);
        let opened = ProjectIndex::open(cache_dir, self.analyzers.clone(), &self.config)?;
        let project = Arc::new(Mutex::new(opened));
        lock(&self.open).put(key.clone(), Arc::clone(&project));
        Ok(project)
    }

    fn close_oldest(&self) {
        loop {
            let mut open = lock(&self.open);
            if open.len() < MAX_OPEN_PROJECTS {
                return;
            }
            let oldest = open.pop_lru();
            // The save takes a while, and calls to other projects need the list.
            drop(open);
            let Some((_, project)) = oldest else { return };
            // The drop may come too late: a call may hold the index longer.
            lock(&project).save();
        }
    }

    pub(crate) fn open_projects(&self) -> Vec<Arc<Mutex<ProjectIndex>>> {
        lock(&self.open).iter().map(|(_, project)| Arc::clone(project)).collect()
    }

    fn open_cache_dir(&self, key: &ProjectKey) -> Option<CacheDir> {
        let path =
            self.config.cache_folder.as_deref()?.join(cache_dir_name(&self.config.store, key));
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

/// Returns the name of a project's cache directory. A folder of documents has one cache, both as a
/// key that is a path and as the default project of its store.
pub(crate) fn cache_dir_name(store: &str, key: &ProjectKey) -> String {
    let mut name = blake3::Hasher::new();
    if key.is_default() {
        name.update(store.as_bytes());
    } else if key.as_str().starts_with('/') {
        name.update(key.as_str().as_bytes());
    } else {
        // The NUL keeps different pairs of store and key from the same name.
        name.update(store.as_bytes()).update(b"\0").update(key.as_str().as_bytes());
    }
    // 128 bits are enough to tell stores and keys apart.
    name.finalize().to_hex()[..32].to_owned()
}

/// Ignores poisoning: a cache stays usable after a panic elsewhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_projects_over_limit_close_least_recently_used() {
        let projects = ProjectCache::new(SearchConfig::default());
        let key = |number: usize| ProjectKey::new(format!("p-{number}"));
        let first = Arc::downgrade(&projects.get_or_open(&key(0)).unwrap());
        for number in 1..20 {
            projects.get_or_open(&key(number)).unwrap();
            assert!(projects.open_projects().len() <= MAX_OPEN_PROJECTS);
            if number < 12 {
                assert!(projects.get(&key(0)).is_some());
            }
        }
        assert!(projects.get(&key(0)).is_none());
        assert_eq!((first.strong_count(), projects.open_projects().len()), (0, MAX_OPEN_PROJECTS));
    }
}
