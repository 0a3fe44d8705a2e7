//! One writer at a time: a turn within this process, then a lock on the root folder between
//! processes. The folder itself is locked, so nothing appears in the user's repository and a
//! killed process frees it at once.
//!
//! Waiting happens in the kernel, not by polling: so a process that writes all the time can't
//! starve another one.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project::ProjectKey;
use reqlore_local_state::{as_file, lock_folder, lock_timeout};
use tokio::sync::OwnedMutexGuard;

use crate::error::failed;
use crate::layout::{Root, same_folder};

/// How long a write waits for others before it gives up.
pub(crate) const LOCK_TIMEOUT: Duration =
    Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });

/// The turns of each project within this process, first come, first served.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    projects: Mutex<HashMap<ProjectKey, Arc<tokio::sync::Mutex<()>>>>,
}

/// It is this call's turn within the process.
#[derive(Debug)]
pub(crate) struct Taken {
    _turn: OwnedMutexGuard<()>,
}

#[derive(Debug)]
pub(crate) enum Turn {
    Locked(Lock),
    Waiting(Waiting),
}

/// The root folder is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _taken: Taken,
    _folder: File,
}

/// Another process has the folder.
#[derive(Debug)]
pub(crate) struct Waiting {
    taken: Taken,
}

impl Turns {
    pub(crate) async fn take(&self, project: &ProjectKey) -> StoreResult<Taken> {
        let turn = tokio::time::timeout(LOCK_TIMEOUT, self.of(project).lock_owned()).await;
        Ok(Taken {
            _turn: turn.map_err(|_| lock_timeout("other calls of this server", LOCK_TIMEOUT))?,
        })
    }

    /// The same if nobody has it.
    pub(crate) fn take_now(&self, project: &ProjectKey) -> Option<Taken> {
        Some(Taken { _turn: self.of(project).try_lock_owned().ok()? })
    }

    fn of(&self, project: &ProjectKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(projects.entry(project.clone()).or_default())
    }
}

impl Taken {
    /// Locks the folder if it is free.
    pub(crate) fn lock_now(self, root: &Root) -> StoreResult<Turn> {
        let folder = folder(root)?;
        match folder.try_lock() {
            Ok(()) => Ok(Turn::Locked(Lock { _taken: self, _folder: folder })),
            Err(std::fs::TryLockError::WouldBlock) => Ok(Turn::Waiting(Waiting { taken: self })),
            Err(std::fs::TryLockError::Error(error)) => {
                Err(failed("the project's folder", "lock it", error))
            }
        }
    }
}

impl Waiting {
    /// Waits for the folder. When time is up the waiting thread keeps the turn and lets the lock
    /// go as soon as it gets it, so at most one thread ever waits for a project.
    pub(crate) async fn lock(self, root: &Root) -> StoreResult<Lock> {
        let folder = folder(root)?;
        let wait = tokio::task::spawn_blocking(move || {
            let locked = folder.lock();
            locked.map(|()| Lock { _taken: self.taken, _folder: folder })
        });
        let Ok(joined) = tokio::time::timeout(LOCK_TIMEOUT, wait).await else {
            return Err(lock_timeout("another process", LOCK_TIMEOUT));
        };
        let locked = joined.map_err(|error| StoreError::Internal(error.to_string()))?;
        locked.map_err(|error| failed("the project's folder", "lock it", error))
    }
}

/// A description of its own for each lock: the lock belongs to it.
fn folder(root: &Root) -> StoreResult<File> {
    as_file(&root.dir).map_err(|error| failed("the project's folder", "open it", error))
}

/// Locks a requirements directory that projects with different roots may share. Nearly nobody does,
/// so this one is polled.
pub(crate) fn folder_of_several(root: &Root, dir: &Dir) -> StoreResult<Option<File>> {
    if same_folder(&root.dir, dir) {
        return Ok(None);
    }
    let what = "the requirements directory";
    lock_folder(dir, "the project's folder", what, LOCK_TIMEOUT).map(Some)
}
