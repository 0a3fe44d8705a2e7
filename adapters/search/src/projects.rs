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
use crate::folder::Folder;
use crate::project::{Analyzers, Project};

/// The least recently used project above this number is closed.
const MAX_OPEN: usize = 8;

#[derive(Debug)]
pub(crate) struct Projects {
    config: Config,
    analyzers: Analyzers,
    open: Mutex<LruCache<ProjectKey, Arc<Mutex<Project>>>>,
    /// Held while projects are closed and opened, so that no folder is read while it is saved.
    /// Calls to open projects continue.
    opening: Mutex<()>,
    /// The next number of an opening or a loss.
    losses: Arc<AtomicU64>,
}

impl Projects {
    pub(crate) fn new(config: Config) -> Self {
        let analyzers = Analyzers { asking: Analyzer::new(), indexing: Analyzer::new() };
        let open = Mutex::new(LruCache::unbounded());
        Self { config, analyzers, open, opening: Mutex::default(), losses: Arc::default() }
    }

    pub(crate) fn opened(&self, key: &ProjectKey) -> Option<Arc<Mutex<Project>>> {
        lock(&self.open).get(key).cloned()
    }

    /// Opens a project from its folder, unless it is open.
    pub(crate) fn open(&self, key: &ProjectKey) -> Result<Arc<Mutex<Project>>> {
        let _opening = lock(&self.opening);
        if let Some(project) = self.opened(key) {
            return Ok(project);
        }
        self.make_room();
        let folder = self.config.cache.as_deref().and_then(|cache| self.folder(cache, key));
        let (analyzers, losses) = (self.analyzers.clone(), Arc::clone(&self.losses));
        let opened = Project::open(folder, analyzers, &self.config.embedders, losses)?;
        let project = Arc::new(Mutex::new(opened));
        lock(&self.open).put(key.clone(), Arc::clone(&project));
        Ok(project)
    }

    fn make_room(&self) {
        loop {
            let mut open = lock(&self.open);
            let oldest = (open.len() >= MAX_OPEN).then(|| open.pop_lru()).flatten();
            drop(open);
            let Some((_, project)) = oldest else { return };
            // A call may hold it longer, so its drop may be too late.
            lock(&project).save();
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Mutex<Project>>> {
        lock(&self.open).iter().map(|(_, project)| Arc::clone(project)).collect()
    }

    fn folder(&self, cache: &Path, key: &ProjectKey) -> Option<Folder> {
        let path = cache.join(folder_name(&self.config.store, key));
        let opened = Folder::open(path.clone()).inspect_err(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "there is no cache of the search index");
        });
        opened.ok()
    }
}

/// The name of a project's cache folder. A folder of documents has one cache, both as a key that is
/// a path and as the default project of its store.
pub(crate) fn folder_name(store: &str, key: &ProjectKey) -> String {
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
        let projects = Projects::new(Config::default());
        let key = |number: usize| ProjectKey::new(format!("p-{number}"));
        let first = Arc::downgrade(&projects.open(&key(0)).unwrap());
        for number in 1..20 {
            projects.open(&key(number)).unwrap();
            assert!(projects.all().len() <= MAX_OPEN);
            if number < 12 {
                assert!(projects.opened(&key(0)).is_some());
            }
        }
        assert!(projects.opened(&key(0)).is_none());
        assert_eq!((first.strong_count(), projects.all().len()), (0, MAX_OPEN));
    }
}
