//! Project locks: a queue within this process, then a lock between processes.
//!
//! Unix locks the root folder itself, and the kernel queues the waiting processes. Windows locks a
//! file in `.reqlore/local`, which is deleted when it is closed. Waiting processes poll there, so
//! one that writes all the time may starve another one.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_durable_fs::folder::{LOCKS_ARE_FILES, lock_folder, try_lock_folder};
use reqlore_local_state::error::failed;
use reqlore_local_state::{self as local, lock_timeout};
use tokio::sync::OwnedMutexGuard;

use crate::layout::{ProjectRoot, same_folder};
use crate::project_cache::ProjectCache;

/// How long a write waits for other writers. Shorter in tests on Unix, longer under wine, which is
/// slow.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(match (cfg!(test), cfg!(unix)) {
    (false, _) => 5,
    (true, true) => 1,
    (true, false) => 15,
});

/// Name of the lock file in `.reqlore/local` on Windows, which Git ignores. Unused on Unix.
pub(crate) const PROJECT_LOCK_FILE: &str = "lock";

/// The writers of each project within this process, in order of arrival.
#[derive(Debug)]
pub(crate) struct LockQueue {
    projects: ProjectCache<tokio::sync::Mutex<()>>,
}

/// Maximum number of project locks; above it, idle ones are dropped.
const MAX_PROJECTS: usize = 1_000;

impl Default for LockQueue {
    fn default() -> Self {
        Self { projects: ProjectCache::new(MAX_PROJECTS) }
    }
}

/// A project's root folder, locked against other Reqlore writers until this is dropped.
#[derive(Debug)]
pub(crate) struct ProjectLock {
    pub(crate) root: ProjectRoot,
    _queue_guard: OwnedMutexGuard<()>,
    _lock: File,
}

impl LockQueue {
    /// Waits for the other calls of this process, then for other processes.
    pub(crate) async fn lock(&self, project: &ProjectKey, path: &Path) -> StoreResult<ProjectLock> {
        let mutex = self.project_mutex(project);
        // Tasks queue first, because waiting for the kernel's lock occupies a thread.
        let Ok(queue_guard) = tokio::time::timeout(LOCK_TIMEOUT, mutex.lock_owned()).await else {
            return Err(lock_timeout("other calls of this server", LOCK_TIMEOUT));
        };
        // Opened after waiting in the queue: the folder may have been replaced since.
        let root = ProjectRoot::open(path)?;
        // Usually free, and then no thread has to wait.
        let local = if LOCKS_ARE_FILES { Some(local::open_or_create(&root.dir)?) } else { None };
        let locked = local.as_ref().unwrap_or(&root.dir);
        if let Some(folder) = try_lock_folder(locked, PROJECT_LOCK_FILE).map_err(not_locked)? {
            return Ok(ProjectLock { root, _queue_guard: queue_guard, _lock: folder });
        }
        // After a timeout the waiting thread keeps the queue's guard, and releases both locks as
        // soon as it gets the second. So at most one thread waits for a project.
        let wait = tokio::task::spawn_blocking(move || {
            let folder = lock_folder(local.as_ref().unwrap_or(&root.dir), PROJECT_LOCK_FILE)?;
            Ok(ProjectLock { root, _queue_guard: queue_guard, _lock: folder })
        });
        let Ok(joined) = tokio::time::timeout(LOCK_TIMEOUT, wait).await else {
            return Err(lock_timeout("another process", LOCK_TIMEOUT));
        };
        let locked = joined.map_err(|error| StoreError::Internal(error.to_string()))?;
        locked.map_err(not_locked)
    }

    /// Locks a project without waiting; `None` if another call or process has the lock, or on
    /// Windows if the project has no local state directory.
    pub(crate) fn try_lock(
        &self,
        project: &ProjectKey,
        path: &Path,
    ) -> StoreResult<Option<ProjectLock>> {
        let Ok(queue_guard) = self.project_mutex(project).try_lock_owned() else {
            return Ok(None);
        };
        let root = ProjectRoot::open(path)?;
        let local = if LOCKS_ARE_FILES { local::open_existing(&root.dir) } else { Ok(None) };
        let local = local.map_err(not_locked)?;
        if LOCKS_ARE_FILES && local.is_none() {
            // Without a local state directory there is nothing to lock.
            return Ok(None);
        }
        let locked = try_lock_folder(local.as_ref().unwrap_or(&root.dir), PROJECT_LOCK_FILE);
        Ok(locked.map_err(not_locked)?.map(|folder| ProjectLock {
            root,
            _queue_guard: queue_guard,
            _lock: folder,
        }))
    }

    fn project_mutex(&self, project: &ProjectKey) -> Arc<tokio::sync::Mutex<()>> {
        let mutex = self.projects.get_or_insert(project, Default::default);
        // An idle mutex protects nothing, so the next writer of its project gets a new one.
        self.projects.evict();
        mutex
    }
}

fn not_locked(error: io::Error) -> StoreError {
    failed("the project's folder", "lock it", error)
}

/// Locks a requirements directory outside of the root folder's lock. Projects with different roots
/// rarely share one, so this lock is polled.
pub(crate) fn lock_shared_folder(root: &ProjectRoot, dir: &Dir) -> StoreResult<Option<File>> {
    // On Unix the root's lock is this very lock. On Windows it is another file.
    if !LOCKS_ARE_FILES && same_folder(&root.dir, dir) {
        return Ok(None);
    }
    let content = "the requirements directory";
    local::lock_folder(dir, "the project's folder", content, LOCK_TIMEOUT).map(Some)
}
