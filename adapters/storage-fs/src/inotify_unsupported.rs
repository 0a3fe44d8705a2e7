//! Stub for systems without inotify: nothing is watched, so each query scans the folders.

use std::path::Path;

use cap_std::fs::Dir;

use crate::layout::{DocumentArea, ProjectRoot};
use crate::list_files::ListedFolder;
use crate::watch_events::WatchEvents;

/// Has no state.
#[derive(Debug, Default, Clone)]
pub(crate) struct WatchQueue;

/// Has no values: [`Self::start`] always returns `None`.
#[derive(Debug)]
pub(crate) enum TreeWatcher {}

impl TreeWatcher {
    pub(crate) fn start(
        _: &WatchQueue,
        _: &ProjectRoot,
        _: &Path,
        _: DocumentArea,
    ) -> Option<Self> {
        None
    }

    pub(crate) fn add_folder(&mut self, _: &Dir, _: &ListedFolder<'_>) {
        match *self {}
    }

    pub(crate) fn is_complete(&self) -> bool {
        match *self {}
    }

    pub(crate) fn drain_events(&mut self) -> WatchEvents {
        match *self {}
    }
}
