//! Claims of a project: `.reqlore/local/claims`, which all servers of the folder share. A linked
//! work tree uses the file of the main one.
//!
//! The file begins with its own identity. A copied file has another one, so its claims are ignored:
//! they hold in the other folder.

use std::io::Read;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use cap_std::fs::Dir;
use reqlore_domain::backlog::claim::{Claim, ClaimChange, ClaimDecision};
use reqlore_domain::ports::claims::{ClaimReach, ClaimStore};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_git_runner::WorkTree;
use reqlore_local_state::private_file::{PrivateFile, local_folder, writable_local_folder};
use reqlore_local_state::{LOCAL_STATE_DIR, lock_folder};

use crate::FsStore;
use crate::layout::ProjectRoot;
use crate::lock::LOCK_TIMEOUT;
use crate::store_inner::StoreInner;
use crate::system;

const FILE_NAME: &str = "claims";
/// The name of a new file until it is complete.
const TEMP_NAME: &str = "claims.new";
/// A larger file is ignored.
const MAX_BYTES: u64 = 16 << 20;

/// The folder with the claims of a project, and their reach.
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
    let owner = |folder: &Path| folder.symlink_metadata().ok().map(|found| system::owner(&found));
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
}

/// Reads the claims, also those that have ended. A file that was not written here has none.
fn read_claims(local: &Dir) -> StoreResult<Vec<Claim>> {
    let file = PrivateFile::new(local, FILE_NAME);
    let opened = match file.open() {
        Ok(Some(opened)) => opened,
        Ok(None) | Err(StoreError::Refused { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let read = opened.file.take(MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| file.failed("read it", error))?;
    let claims = bytes.strip_prefix(opened.identity.as_bytes());
    Ok(claims.and_then(|claims| postcard::from_bytes(claims).ok()).unwrap_or_default())
}

/// Replaces the file. The caller holds the lock of the folder.
fn write_claims(local: &Dir, claims: &[Claim]) -> StoreResult<()> {
    let temp = PrivateFile::new(local, TEMP_NAME);
    // Of a killed process.
    temp.remove()?;
    temp.create(|identity| {
        postcard::to_extend(claims, identity.as_bytes().to_vec()).map_err(std::io::Error::other)
    })?;
    temp.rename(FILE_NAME)
}

#[async_trait]
impl ClaimStore for FsStore {
    async fn live_claims(&self, project: &ProjectKey, now: Timestamp) -> StoreResult<Vec<Claim>> {
        let (folder, _) = self.inner.claims_folder(project);
        // Each view of a story asks, and most projects have no claims.
        if folder.join(LOCAL_STATE_DIR).join(FILE_NAME).symlink_metadata().is_err() {
            return Ok(Vec::new());
        }
        self.run_blocking(move |_| {
            let local = local_folder(&ProjectRoot::open(&folder)?.dir)?;
            let claims = local.map(|local| read_claims(&local)).transpose()?;
            let mut claims = claims.unwrap_or_default();
            claims.retain(|claim| claim.is_live(now));
            Ok(claims)
        })
        .await
    }

    async fn change_claim(
        &self,
        project: &ProjectKey,
        change: ClaimChange,
    ) -> StoreResult<(ClaimDecision, ClaimReach)> {
        let (folder, reach) = self.inner.claims_folder(project);
        self.run_blocking(move |_| {
            let local = writable_local_folder(&ProjectRoot::open(&folder)?.dir)?;
            let _lock = lock_folder(&local, LOCAL_STATE_DIR, "the claims", LOCK_TIMEOUT)?;
            let mut claims = read_claims(&local)?;
            let stored = claims.iter().position(|claim| claim.story == change.story);
            let stored = stored.map(|position| claims.swap_remove(position));
            let decision = change.decide(stored.as_ref(), change.at);
            if let Ok(changed) = &decision
                && *changed != stored
            {
                claims.retain(|claim| claim.is_live(change.at));
                claims.extend(changed.clone());
                write_claims(&local, &claims)?;
            }
            Ok((decision, reach))
        })
        .await
    }
}
