//! Changes of all documents of a project since the first `changes_since` call.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition, Revision};
use serde::{Deserialize, Serialize};

/// The history is reset if it has this many removed documents.
const MAX_REMOVED_DOCUMENTS: usize = 100_000;
/// Positions of older writers are unknown.
const MAX_WRITERS: usize = 10_000;

/// The last change of each document. The cache file holds it, so another process continues it.
///
/// Two processes that continue the same history give the same revisions to different changes. The
/// one that writes the cache file last is continued; positions of the other are unknown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChangeHistory {
    store_id: u64,
    revision: Revision,
    /// The revision of the first call. Before it, nothing is recorded.
    start: Option<Revision>,
    /// Each change of writer: its first revision and the writer.
    writers: Vec<(Revision, u64)>,
    changed_at: BTreeMap<DocumentId, Revision>,
    #[serde(skip)]
    by_revision: BTreeMap<Revision, BTreeSet<DocumentId>>,
    #[serde(skip)]
    writer_id: u64,
    /// True if the cache file has an older history.
    #[serde(skip)]
    pub(crate) is_unsaved: bool,
}

impl Default for ChangeHistory {
    fn default() -> Self {
        let writer_id = RandomState::new().hash_one("writer");
        Self {
            store_id: RandomState::new().hash_one("store"),
            revision: Revision::default(),
            start: None,
            writers: vec![(Revision::default(), writer_id)],
            changed_at: BTreeMap::new(),
            by_revision: BTreeMap::new(),
            writer_id,
            is_unsaved: false,
        }
    }
}

impl ChangeHistory {
    /// Continues the history of a cache file as a new writer.
    pub(crate) fn resume(&mut self, saved: Self) {
        let mut by_revision: BTreeMap<Revision, BTreeSet<DocumentId>> = BTreeMap::new();
        for (id, revision) in &saved.changed_at {
            by_revision.entry(*revision).or_default().insert(id.clone());
        }
        *self = Self { by_revision, writer_id: self.writer_id, ..saved };
    }

    /// False before the first call.
    pub(crate) fn is_started(&self) -> bool {
        self.start.is_some()
    }

    pub(crate) fn begin_revision(&mut self) -> Revision {
        self.revision.0 += 1;
        if self.writers.last().is_none_or(|last| last.1 != self.writer_id) {
            self.writers.push((self.revision, self.writer_id));
            if self.writers.len() > MAX_WRITERS {
                self.writers.remove(0);
            }
        }
        self.is_unsaved = true;
        self.revision
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
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
        if self.changed_at.len() > documents + MAX_REMOVED_DOCUMENTS {
            // Callers with an older position compare all documents.
            self.changed_at.clear();
            self.by_revision.clear();
            self.start = None;
        }
        if self.start.is_none() {
            // A position that a killed process gave at the same revision must be unknown.
            self.start = Some(self.begin_revision());
        }
        let current = self.position_of(self.revision);
        let known = since.filter(|since| self.is_known(*since));
        let Some(since) = known else { return ChangePage::Reset { position: current } };
        let later = self.by_revision.range(Revision(since.revision.0 + 1)..);
        let changes = later.flat_map(|(revision, ids)| {
            ids.iter().map(|id| Ok::<_, Infallible>((*revision, id.clone())))
        });
        match ChangePage::select(changes, limit, current, |revision| {
            Ok(self.position_of(revision).writer_id)
        }) {
            Ok(page) => page,
            Err(never) => match never {},
        }
    }

    fn is_known(&self, position: ChangePosition) -> bool {
        let ChangePosition { revision, .. } = position;
        self.start.is_some_and(|start| start <= revision)
            && self.writers.first().is_some_and(|(first, _)| *first <= revision)
            && revision <= self.revision
            && position == self.position_of(revision)
    }

    fn position_of(&self, revision: Revision) -> ChangePosition {
        let later = self.writers.partition_point(|(first, _)| *first <= revision);
        // Before the first writer that is known, a position never matches.
        let (_, writer_id) = self.writers[..later].last().copied().unwrap_or_default();
        ChangePosition { store_id: u128::from(self.store_id), writer_id, revision }
    }
}
