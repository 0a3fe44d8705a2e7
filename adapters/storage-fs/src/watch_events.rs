//! Result of draining a watcher's queue, on every system.

use std::collections::BTreeSet;

use reqlore_domain::document::DocumentId;

/// Events since the queue was last drained.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is watched there"))]
pub(crate) enum WatchEvents {
    None,
    /// These documents were created, changed or removed.
    Changed(BTreeSet<DocumentId>),
    /// Events may be missing, so the watcher must be replaced.
    Invalidated,
}
