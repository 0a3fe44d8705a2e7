//! One writer at a time: a turn within this process, then a lock on the root folder between
//! processes.
//!
//! The folder itself is locked, so nothing appears in the user's repository, and the kernel
//! releases the lock of a killed process. Waiting happens in the kernel and not by polling, so a
//! process that writes all the time can't starve another one.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_durable_fs::try_lock;
use reqlore_local_state::{as_file, lock_folder, lock_timeout};
use tokio::sync::OwnedMutexGuard;

use crate::error::failed;
use crate::layout::{ProjectRoot, same_folder};

/// The longest wait of a write for other writers.
pub(crate) const LOCK_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 1_000 } else { 5_000 });

/// The turns of each project within this process, first come, first served.
#[derive(Debug, Default)]
pub(crate) struct LockQueue {
    projects: Mutex<HashMap<ProjectKey, Arc<tokio::sync::Mutex<()>>>>,
}

/// A project's root folder, which no other writer of ours changes until this is dropped.
#[derive(Debug)]
pub(crate) struct ProjectLock {
    pub(crate) root: ProjectRoot,
    _queue_guard: OwnedMutexGuard<()>,
    _locked_folder: File,
}

impl LockQueue {
    /// Waits for the other calls of this process, then for other processes.
    pub(crate) async fn lock(&self, project: &ProjectKey, path: &Path) -> StoreResult<ProjectLock> {
        let turn =
            tokio::time::timeout(LOCK_TIMEOUT, self.project_mutex(project).lock_owned()).await;
        let turn = turn.map_err(|_| lock_timeout("other calls of this server", LOCK_TIMEOUT))?;
        let root = ProjectRoot::open(path)?;
        let folder = as_file(&root.dir).map_err(not_locked)?;
        if try_lock(&folder).map_err(not_locked)? {
            return Ok(ProjectLock { root, _queue_guard: turn, _locked_folder: folder });
        }
        // When time is up, the waiting thread keeps the turn and releases the lock as soon as it
        // gets it. So at most one thread ever waits for a project.
        let wait = tokio::task::spawn_blocking(move || {
            let locked = folder.lock();
            locked.map(|()| ProjectLock { root, _queue_guard: turn, _locked_folder: folder })
        });
        let Ok(joined) = tokio::time::timeout(LOCK_TIMEOUT, wait).await else {
            return Err(lock_timeout("another process", LOCK_TIMEOUT));
        };
        let locked = joined.map_err(|error| StoreError::Internal(error.to_string()))?;
        locked.map_err(not_locked)
    }

    /// Locks a project if no other call and no other process has it.
    pub(crate) fn try_lock(
        &self,
        project: &ProjectKey,
        path: &Path,
    ) -> StoreResult<Option<ProjectLock>> {
        let Ok(turn) = self.project_mutex(project).try_lock_owned() else { return Ok(None) };
        let root = ProjectRoot::open(path)?;
        let folder = as_file(&root.dir).map_err(not_locked)?;
        let is_locked = try_lock(&folder).map_err(not_locked)?;
        Ok(is_locked.then_some(ProjectLock { root, _queue_guard: turn, _locked_folder: folder }))
    }

    fn project_mutex(&self, project: &ProjectKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(projects.entry(project.clone()).or_default())
    }
}

fn not_locked(error: io::Error) -> StoreError {
    failed("the project's folder", "lock it", error)
}

/// Locks a requirements directory that projects with different roots may share. That is rare, so
/// this lock is polled.
pub(crate) fn lock_shared_folder(root: &ProjectRoot, dir: &Dir) -> StoreResult<Option<File>> {
    if same_folder(&root.dir, dir) {
        return Ok(None);
    }
    let what = "the requirements directory";
    lock_folder(dir, "the project's folder", what, LOCK_TIMEOUT).map(Some)
}
