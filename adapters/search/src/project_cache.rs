//! The open projects, a few at a time, because each has its own threads and memory.
//!
//! A call may still use a closed project, so a project saves itself again when it is dropped. The
//! application learns from [`Project::losses`] that a project was opened again.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;

use crate::Config;
use crate::analyzer::Analyzer;
use crate::cache_dir::CacheDir;
use crate::project_index::{AnalyzerPair, ProjectIndex};

/// The least recently used project above this number is closed.
const MAX_OPEN_PROJECTS: usize = 8;

#[derive(Debug)]
pub(crate) struct ProjectCache {
    config: Config,
    analyzers: AnalyzerPair,
    open: Mutex<LruCache<ProjectKey, Arc<Mutex<ProjectIndex>>>>,
    /// Held while projects are closed and opened, so that no folder is read while it is saved.
    /// Calls to open projects continue.
    opening: Mutex<()>,
    /// The next number of an opening or a loss.
    next_generation: Arc<AtomicU64>,
}

impl ProjectCache {
    pub(crate) fn new(config: Config) -> Self {
        let analyzers = AnalyzerPair { query: Analyzer::new(), document: Analyzer::new() };
        let open = Mutex::new(LruCache::unbounded());
        Self { config, analyzers, open, opening: Mutex::default(), next_generation: Arc::default() }
    }

    pub(crate) fn get(&self, key: &ProjectKey) -> Option<Arc<Mutex<ProjectIndex>>> {
        lock(&self.open).get(key).cloned()
    }

    /// Opens a project from its folder, unless it is open.
    pub(crate) fn get_or_open(&self, key: &ProjectKey) -> Result<Arc<Mutex<ProjectIndex>>> {
        let _opening = lock(&self.opening);
        if let Some(project) = self.get(key) {
            return Ok(project);
        }
        self.close_oldest();
        let folder = self.config.cache.as_deref().and_then(|cache| self.open_cache_dir(cache, key));
        let (analyzers, losses) = (self.analyzers.clone(), Arc::clone(&self.next_generation));
        let opened = ProjectIndex::open(folder, analyzers, &self.config.embedders, losses)?;
        let project = Arc::new(Mutex::new(opened));
        lock(&self.open).put(key.clone(), Arc::clone(&project));
        Ok(project)
    }

    fn close_oldest(&self) {
        loop {
            let mut open = lock(&self.open);
            let oldest = (open.len() >= MAX_OPEN_PROJECTS).then(|| open.pop_lru()).flatten();
            drop(open);
            let Some((_, project)) = oldest else { return };
            // A call may hold it longer, so its drop may be too late.
            lock(&project).save();
        }
    }

    pub(crate) fn open_projects(&self) -> Vec<Arc<Mutex<ProjectIndex>>> {
        lock(&self.open).iter().map(|(_, project)| Arc::clone(project)).collect()
    }

    fn open_cache_dir(&self, cache: &Path, key: &ProjectKey) -> Option<CacheDir> {
        let path = cache.join(cache_dir_name(&self.config.store, key));
        let opened = CacheDir::open(path.clone()).inspect_err(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "there is no cache of the search index");
        });
        opened.ok()
    }
}

/// The name of a project's cache folder. A folder of documents has one cache, both as a key that is
/// a path and as the default project of its store.
pub(crate) fn cache_dir_name(store: &str, key: &ProjectKey) -> String {
    let mut name = blake3::Hasher::new();
    if key.is_default() {
        name.update(store.as_bytes());
    } else if key.as_str().starts_with('/') {
        name.update(key.as_str().as_bytes());
    } else {
        name.update(store.as_bytes()).update(b"\0").update(key.as_str().as_bytes());
    }
    name.finalize().to_hex()[..32].to_owned()
}

/// Values after a panic elsewhere are good enough for a cache.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_open_and_the_least_recently_used_makes_room() {
        let projects = ProjectCache::new(Config::default());
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
