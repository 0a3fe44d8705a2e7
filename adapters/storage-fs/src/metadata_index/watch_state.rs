//! Validity of the index of one watched tree.

use std::collections::BTreeSet;

use reqlore_domain::document::DocumentId;

use crate::inotify::TreeWatcher;
use crate::watch_events::WatchEvents;

/// Cache validity of one area: pending inotify events and documents that inotify can't cover.
#[derive(Debug, Default)]
pub(crate) struct WatchState {
    pub(crate) watcher: Option<TreeWatcher>,
    /// Documents that changed since they were loaded, by an event or by our own commit.
    pub(crate) dirty: BTreeSet<DocumentId>,
    /// Documents that inotify can't cover.
    pub(crate) unwatchable: BTreeSet<DocumentId>,
    /// A complete scan has succeeded.
    pub(crate) is_scanned: bool,
}

impl WatchState {
    /// Drains the inotify queue; false if there is no valid watcher any more.
    pub(crate) fn drain_events(&mut self) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        match watcher.drain_events() {
            WatchEvents::None => true,
            WatchEvents::Changed(ids) => {
                self.dirty.extend(ids);
                true
            }
            WatchEvents::Invalidated => {
                self.watcher = None;
                false
            }
        }
    }

    /// True if all documents are loaded. The events must have been drained before.
    pub(crate) fn is_current(&self) -> bool {
        self.is_scanned && self.dirty.is_empty() && self.unwatchable.is_empty()
    }
}
