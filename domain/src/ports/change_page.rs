//! Positions in the history of a project, and pages of its changes.

use serde::{Deserialize, Serialize};

use crate::document::DocumentId;

/// A point in the history of a project's documents.
///
/// A revision alone does not identify a state: in a restored backup, an older copy, or a cache
/// rolled back by a power cut, the same number may belong to different changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChangePosition {
    /// Random ID that a storage gets when it is created, restored or filled by `copy`.
    pub store_id: u128,
    /// Random ID of the writer that made the revision. Every process that opens the storage is a
    /// new writer.
    pub writer_id: u64,
    pub revision: Revision,
}

impl ChangePosition {
    /// The position of an index that is being built. No storage knows it, so an interrupted build
    /// starts again, and an index that was lost meanwhile is recognized by another position.
    pub const BUILDING: Self = Self { store_id: 0, writer_id: 0, revision: Revision(0) };
}

/// A page of the changes since a position, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangePage {
    /// The documents of all kinds that changed or were deleted, each at its last change. A document
    /// that was deleted before may be listed at its deletion, too.
    Since {
        ids: Vec<DocumentId>,
        /// The position after these changes. Continue from it.
        position: ChangePosition,
        /// True if there are more changes.
        has_more: bool,
    },
    /// The changes are unknown. Compare all documents, then continue from `position`.
    Reset { position: ChangePosition },
}

impl ChangePage {
    /// Selects the first page of changes that are sorted by revision. `current` is the position
    /// after all of them; `writer_of` returns the writer of a revision.
    pub fn select<E>(
        changes: impl Iterator<Item = Result<(Revision, DocumentId), E>>,
        limit: usize,
        current: ChangePosition,
        writer_of: impl FnOnce(Revision) -> Result<u64, E>,
    ) -> Result<Self, E> {
        let (mut ids, mut last) = (Vec::new(), Revision::default());
        for change in changes {
            let (revision, id) = change?;
            // A position is a whole revision, so the changes of one are never separated.
            if revision != last && !ids.is_empty() && ids.len() >= limit {
                let writer_id = writer_of(last)?;
                let position = ChangePosition { writer_id, revision: last, ..current };
                return Ok(Self::Since { ids, position, has_more: true });
            }
            ids.push(id);
            last = revision;
        }
        Ok(Self::Since { ids, position: current, has_more: false })
    }

    /// The position to continue from.
    pub fn position(&self) -> ChangePosition {
        match self {
            Self::Since { position, .. } | Self::Reset { position } => *position,
        }
    }
}

/// The change counter of a storage. Grows with every change of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Revision(pub u64);
