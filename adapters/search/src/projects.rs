//! The projects that are open, a few at a time: each has threads and memory of its own.
//!
//! The trap: a call may still work with a project that made room for another one. So a project
//! saves itself once more when the last one lets go of it, and who filled it sees by
//! [`Project::losses`] that it was opened anew.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use reqlore_domain::error::Result;
use reqlore_domain::project::ProjectKey;

use crate::Config;
use crate::analyzer::Analyzer;
use crate::folder::Folder;
use crate::project::{Analyzers, Project};

/// So many are open at once; the least recently used one makes room for another.
const MOST: usize = 8;

#[derive(Debug)]
pub(crate) struct Projects {
    config: Config,
    analyzers: Analyzers,
    open: Mutex<LruCache<ProjectKey, Arc<Mutex<Project>>>>,
    /// Held while one makes room and another is opened: calls to open ones go on, and nobody reads
    /// the folder of one that is just being saved.
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

    /// The project, if it is open.
    pub(crate) fn opened(&self, key: &ProjectKey) -> Option<Arc<Mutex<Project>>> {
        lock(&self.open).get(key).cloned()
    }

    /// Opens a project, which reads its folder, unless somebody else just did.
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
            let oldest = (open.len() >= MOST).then(|| open.pop_lru()).flatten();
            drop(open);
            let Some((_, project)) = oldest else { return };
            // Here and not when it is dropped: somebody may hold it a little longer.
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

/// Where a project's cache is. A key that is a path says all of it, and the store of files calls
/// its default project by the path of the store; so a folder of documents has one cache, whichever
/// way somebody came to it.
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

/// A panic of somebody else leaves values that are good enough for a cache.
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
            assert!(projects.all().len() <= MOST);
            if number < 12 {
                assert!(projects.opened(&key(0)).is_some());
            }
        }
        assert!(projects.opened(&key(0)).is_none());
        assert_eq!((first.strong_count(), projects.all().len()), (0, MOST));
    }

    #[test]
    fn each_opening_has_another_number() {
        let projects = Projects::new(Config::default());
        let losses = |number: usize| {
            let key = ProjectKey::new(format!("p-{number}"));
            let project = projects.open(&key).unwrap();
            lock(&project).losses()
        };
        let mut seen: Vec<u64> = (0..MOST).map(losses).collect();
        assert_eq!((0..MOST).map(losses).collect::<Vec<_>>(), seen);
        seen.extend((MOST..2 * MOST).map(losses));
        seen.extend((0..MOST).map(losses));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 3 * MOST);
    }

    #[test]
    fn a_folder_of_documents_has_one_cache() {
        let of = |store: &str, key: &str| folder_name(store, &ProjectKey::new(key));
        assert_eq!(of("/home/a", "default"), of("/home", "/home/a"));
        assert_ne!(of("/home/a", "default"), of("/home/a", "/home"));
        assert_ne!(of("a", "b"), of("a", "c"));
        assert_ne!(of("a", "b"), of("c", "b"));
    }
}
