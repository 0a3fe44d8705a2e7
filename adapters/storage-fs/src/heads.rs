//! Heads made of files, one or thousands at a time.

use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Version};
use reqlore_domain::ports::documents::StoreError;

use crate::layout::Tree;
use crate::read::{Now, Stamp, read_once, read_settled_all};
use crate::walk;

/// What reading a file gave; a fault is part of the head.
pub(crate) struct Seen {
    pub(crate) head: DocumentMeta,
    /// `None` where the next look has to read again.
    pub(crate) stamp: Option<Stamp>,
    /// The stamp would show the next change.
    pub(crate) settled: bool,
    /// A watch on its folder would show the next change too.
    pub(crate) watchable: bool,
    torn: bool,
}

/// Why, without the place: whoever shows the head names it.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable { reason, .. }
        | StoreError::Refused { reason, .. }
        | StoreError::Unreadable { reason, .. }
        | StoreError::Busy { reason } => reason.clone(),
        StoreError::Decided(_) | StoreError::Repeated(_) | StoreError::Internal(_) => {
            error.to_string()
        }
    }
}

impl Seen {
    /// What can't be read for a reason that may pass is looked at again; a link or a folder stays
    /// one until it is replaced.
    pub(crate) fn fault(id: &DocumentId, error: &StoreError, stamp: Option<Stamp>) -> Self {
        let passes = matches!(error, StoreError::Unavailable { .. } | StoreError::Internal(_));
        let modified = stamp.map(|stamp| stamp.modified()).unwrap_or_default();
        Self {
            head: DocumentMeta::unread(id.clone(), Version::UNREAD, modified, reason(error)),
            stamp: stamp.filter(|_| !passes),
            settled: false,
            watchable: !passes,
            torn: false,
        }
    }
}

/// Reads files, many of them on two threads; `None` for one that is not there.
pub(crate) fn read_all(ids: &[DocumentId], tree: &Tree<'_>) -> Vec<Option<Seen>> {
    const FEW: usize = 64;
    let (root, layout) = tree.parts();
    let tree = &Tree::to_read(root, layout);
    let all = if ids.len() <= FEW {
        ids.iter().map(|id| read(id, tree)).collect()
    } else {
        let (left, right) = ids.split_at(ids.len() / 2);
        let on_another = |ids: &[DocumentId]| {
            let tree = Tree::to_read(root, layout);
            ids.iter().map(|id| read(id, &tree)).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new();
            let other = thread.spawn_scoped(scope, || on_another(right));
            let mut all: Vec<_> = left.iter().map(|id| read(id, tree)).collect();
            all.extend(match other.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(read)) => read,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // There are no threads left.
                Err(_) => on_another(right),
            });
            all
        })
    };
    let is_torn = |seen: &Option<Seen>| seen.as_ref().is_some_and(|seen| seen.torn);
    read_settled_all(ids, all, |id| read(id, tree), is_torn)
}

fn read(id: &DocumentId, tree: &Tree<'_>) -> Option<Seen> {
    let place = match tree.place(id) {
        Ok(place) => place?,
        Err(error) => return Some(Seen::fault(id, &error, None)),
    };
    let now = Now::read();
    let stamp = walk::stamp(&place.dir, &place.name)?;
    let content = match read_once(&place) {
        Ok(content) => content?,
        Err(error) => {
            let seen = Seen::fault(id, &error, Some(stamp));
            return Some(Seen { settled: stamp.is_settled(now), ..seen });
        }
    };
    let stamp = Stamp::of(&content.metadata);
    Some(Seen {
        head: DocumentMeta::of(&Document::new(id.clone(), content.bytes), stamp.modified()),
        stamp: Some(stamp).filter(|_| content.steady),
        settled: content.settled,
        watchable: !stamp.has_other_names(),
        torn: content.torn,
    })
}
