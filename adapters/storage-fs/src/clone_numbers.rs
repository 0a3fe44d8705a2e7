//! Item numbers of all work trees of a clone, so that no two of them issue the same number.
//!
//! The common Git folder has high-water marks that outlive a work tree. The other work trees are
//! inspected too: they may have numbers from another machine, or from before they were linked.

use std::fs::File;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{Refresh, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_git_runner::WorkTree;
use reqlore_local_state::lock_folder;

use crate::layout::{DocumentArea, ProjectRoot, ProjectTree};
use crate::lock::LOCK_TIMEOUT;
use crate::metadata_index::stored_metadata::hash_word;
use crate::sequence::HighWaterMarks;
use crate::store_inner::StoreInner;
use crate::system::folder_owner;

/// Further work trees are ignored, so that a repository cannot cause endless work.
const MAX_WORK_TREES: usize = 1_000;

/// The numbers of one project in all work trees, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct CloneNumbers {
    pub(crate) common_folder: Dir,
    /// The file of the shared marks in the common folder.
    pub(crate) file_name: String,
    /// The project's folders in the other work trees. A branch may lack it.
    others: Vec<PathBuf>,
    /// Unlocked when it is dropped.
    _lock: File,
}

impl CloneNumbers {
    /// Waits for the other writers of the clone, which rarely write at the same time. Returns
    /// `None` outside of Git, and in a clone that never had linked work trees.
    pub(crate) fn lock(root: &ProjectRoot, home: Option<&Path>) -> StoreResult<Option<Self>> {
        let Some(work_tree) = WorkTree::around(&root.path, home) else { return Ok(None) };
        // Each project of a repository has its own numbers. A hash, because names are limited.
        let path = root.path.strip_prefix(&work_tree.root).unwrap_or(&root.path);
        let file_name = format!("reqlore-marks-{:016x}", hash_word(&path.to_string_lossy()));
        let common = &work_tree.common_folder;
        let is_shared = *common != work_tree.git_folder
            || common.join("worktrees").is_dir()
            // It outlives the last linked work tree.
            || common.join(&file_name).is_file();
        if !is_shared {
            return Ok(None);
        }
        let common_folder = ProjectRoot::open(common)?.dir;
        // Another user's repository around a project must not block its writers.
        if folder_owner(&common_folder) != folder_owner(&root.dir) {
            return Ok(None);
        }
        let lock = lock_folder(&common_folder, "the common Git folder", "it", LOCK_TIMEOUT)?;
        let mut others = work_tree.others();
        others.truncate(MAX_WORK_TREES);
        let others = others.iter().map(|other| other.join(path)).collect();
        Ok(Some(Self { common_folder, file_name, others, _lock: lock }))
    }

    /// Returns the highest numbers of the other work trees, including removed ones.
    pub(crate) fn high_water_marks(&self, store: &StoreInner) -> HighWaterMarks {
        let mut marks = self.shared_marks();
        for path in &self.others {
            let Ok(root) = ProjectRoot::open(path) else { continue };
            // The limit is a typing error, which must not hide the numbers of other work trees.
            marks.merge(&HighWaterMarks::load(&root).without_exhausted());
            let project = ProjectKey::new(path.to_string_lossy());
            let tree = ProjectTree::new(&root, &store.layout);
            let (kinds, refresh) = (DocumentArea::Backlog.kinds(), Refresh::Incremental);
            let refreshed = store.query_refreshed(&project, &tree, kinds, refresh, |index| {
                marks.merge(&index.numbers.highest);
            });
            if let Err(error) = refreshed {
                tracing::warn!(%error, "the numbers of another work tree were not read");
            }
        }
        marks
    }

    pub(crate) fn shared_marks(&self) -> HighWaterMarks {
        HighWaterMarks::read(&self.common_folder, &self.file_name).without_exhausted()
    }
}
