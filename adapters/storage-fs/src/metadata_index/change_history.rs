//! Changes of all documents of a project since the first call that asked for them.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::Revision;

/// The history is reset when it has this many more documents than the project.
const MAX_REMOVED_DOCUMENTS: usize = 100_000;

/// The last change of each document, in memory. Another process has another history.
#[derive(Debug)]
pub(crate) struct ChangeHistory {
    /// Random, so that a position of another process is recognized as unknown.
    store_id: u64,
    pub(crate) revision: Revision,
    /// The revision of the first call. Without a reader there is no history to record.
    start: Option<Revision>,
    changed_at: BTreeMap<DocumentId, Revision>,
    by_revision: BTreeMap<Revision, BTreeSet<DocumentId>>,
}

impl Default for ChangeHistory {
    fn default() -> Self {
        Self {
            store_id: RandomState::new().hash_one(()),
            revision: Revision::default(),
            start: None,
            changed_at: BTreeMap::new(),
            by_revision: BTreeMap::new(),
        }
    }
}

impl ChangeHistory {
    /// False before the first call.
    pub(crate) fn is_started(&self) -> bool {
        self.start.is_some()
    }

    /// Records a change as part of the current revision.
    pub(crate) fn record(&mut self, id: &DocumentId) {
        if self.start.is_none() {
            return;
        }
        if let Some(last) = self.changed_at.insert(id.clone(), self.revision)
            && let Some(ids) = self.by_revision.get_mut(&last)
        {
            ids.remove(id);
            if ids.is_empty() {
                self.by_revision.remove(&last);
            }
        }
        self.by_revision.entry(self.revision).or_default().insert(id.clone());
    }

    /// Returns a page of changes. The first call starts the history. `documents` is the number of
    /// documents of the project.
    pub(crate) fn changes_since(
        &mut self,
        since: Option<ChangePosition>,
        limit: usize,
        documents: usize,
    ) -> ChangePage {
        let store_id = u128::from(self.store_id);
        let current = ChangePosition { store_id, writer_id: 0, revision: self.revision };
        if self.changed_at.len() > documents + MAX_REMOVED_DOCUMENTS {
            // Callers with an older position compare all documents.
            self.changed_at.clear();
            self.by_revision.clear();
            self.start = None;
        }
        let start = *self.start.get_or_insert(self.revision);
        let known = since.filter(|since| {
            since.store_id == store_id
                && since.writer_id == 0
                && (start..=self.revision).contains(&since.revision)
        });
        let Some(since) = known else { return ChangePage::Reset { position: current } };
        let later = self.by_revision.range(Revision(since.revision.0 + 1)..);
        let changes = later.flat_map(|(revision, ids)| {
            ids.iter().map(|id| Ok::<_, Infallible>((*revision, id.clone())))
        });
        match ChangePage::select(changes, limit, current, |_| Ok(0)) {
            Ok(page) => page,
            Err(never) => match never {},
        }
    }
}
