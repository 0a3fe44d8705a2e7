//! Stores the claims of a project in its own `team.db`, so that all servers of the folder share
//! them; those of a linked work tree in that of the main one, which all work trees share.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use reqlore_domain::backlog::claim::{Claim, ClaimChange, ClaimDecision};
use reqlore_domain::ports::claims::{ClaimReach, ClaimStore};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_git_runner::WorkTree;
use reqlore_local_state::team_file;

use super::handle::{TeamHandle, call_team};
use crate::FsStore;
use crate::store_inner::StoreInner;

/// Maximum number of open databases for claims. At the limit all are closed.
const MAX_OPEN: usize = 32;

/// The folder whose `team.db` has the claims of a project, and their reach.
fn claims_folder(project: &Path, home: Option<&Path>) -> (PathBuf, ClaimReach) {
    let Some(work_tree) = WorkTree::around(project, home) else {
        return (project.to_owned(), ClaimReach::Folder);
    };
    if work_tree.git_folder == work_tree.common_folder {
        return (project.to_owned(), ClaimReach::Clone);
    }
    // A bare repository has no main work tree, and the main one may lack the folder.
    let common = work_tree.common_folder.as_path();
    let main = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"));
    let path = project.strip_prefix(&work_tree.root).unwrap_or(Path::new(""));
    let shared = main.map(|main| if path == Path::new("") { main.into() } else { main.join(path) });
    let owner = |folder: &Path| folder.symlink_metadata().ok().map(|metadata| metadata.uid());
    match shared {
        Some(shared) if shared.is_dir() && owner(&shared) == owner(project) => {
            (shared, ClaimReach::Clone)
        }
        _ => (project.to_owned(), ClaimReach::WorkTree),
    }
}

impl StoreInner {
    fn claims_folder(&self, project: &ProjectKey) -> (PathBuf, ClaimReach) {
        claims_folder(self.project_path(project), self.git.home())
    }

    /// Calls `work` with the handle of the folder's team data.
    fn with_claims<T>(
        &self,
        folder: &Path,
        work: impl FnOnce(&TeamHandle) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if folder == self.folders.default_path() {
            return work(&self.team);
        }
        let mut handles = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if handles.len() >= MAX_OPEN && !handles.contains_key(folder) {
            handles.clear();
        }
        let handle = Arc::clone(handles.entry(folder.to_owned()).or_default());
        drop(handles);
        work(&handle)
    }
}

#[async_trait]
impl ClaimStore for FsStore {
    async fn live_claims(&self, project: &ProjectKey, now: Timestamp) -> StoreResult<Vec<Claim>> {
        let (folder, _) = self.inner.claims_folder(project);
        // Each view of a story asks, and most projects have no claims.
        if !team_file::exists(&folder) {
            return Ok(Vec::new());
        }
        self.run_blocking(move |store| {
            store.with_claims(&folder, |handle| match handle.to_read(&folder)? {
                Some(team) => call_team(&team.store, async |team| {
                    team.live_claims(&ProjectKey::default(), now).await
                }),
                None => Ok(Vec::new()),
            })
        })
        .await
    }

    async fn change_claim(
        &self,
        project: &ProjectKey,
        change: ClaimChange,
    ) -> StoreResult<(ClaimDecision, ClaimReach)> {
        let (folder, reach) = self.inner.claims_folder(project);
        self.run_blocking(move |store| {
            store.with_claims(&folder, |handle| {
                let team = handle.to_write(&folder)?;
                let (decision, _) = call_team(&team.store, async |team| {
                    team.change_claim(&ProjectKey::default(), change).await
                })?;
                Ok((decision, reach))
            })
        })
        .await
    }
}
