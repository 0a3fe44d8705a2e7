//! What changed since a revision: own commits as they happen, everybody else's by comparison.
//!
//! History begins when somebody first asks for it; until then commits only count. Revisions start
//! at a random number, so that one of an earlier process is recognised as unknown.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::{Changes, Revision};
use reqlore_domain::project::ProjectKey;

pub(crate) type Versions = BTreeMap<DocumentId, Version>;

#[derive(Debug, Default)]
pub(crate) struct Histories {
    projects: Mutex<HashMap<ProjectKey, History>>,
}

#[derive(Debug)]
struct History {
    revision: Revision,
    /// Set once somebody asked.
    tracked: Option<Tracked>,
}

#[derive(Debug)]
struct Tracked {
    since: Revision,
    known: Versions,
    changed: BTreeMap<DocumentId, Revision>,
}

impl Histories {
    /// Counts a commit of ours.
    pub(crate) fn record(
        &self,
        project: &ProjectKey,
        written: &[(DocumentId, Option<Version>)],
    ) -> Revision {
        self.with(project, |history| {
            if !written.is_empty() {
                history.revision.0 += 1;
            }
            if let Some(tracked) = &mut history.tracked {
                for (id, version) in written {
                    tracked.learn(id, *version, history.revision);
                }
            }
            history.revision
        })
    }

    /// Compares with what was known, and tells what changed.
    pub(crate) fn changes(&self, project: &ProjectKey, since: Revision, now: Versions) -> Changes {
        self.with(project, |history| history.changes(since, now))
    }

    fn with<T>(&self, project: &ProjectKey, act: impl FnOnce(&mut History) -> T) -> T {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        act(projects.entry(project.clone()).or_insert_with(History::new))
    }
}

impl History {
    fn new() -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self { revision: Revision(random >> 16), tracked: None }
    }

    fn changes(&mut self, since: Revision, now: Versions) -> Changes {
        let Some(tracked) = &mut self.tracked else {
            let changed = BTreeMap::new();
            self.tracked = Some(Tracked { since: self.revision, known: now, changed });
            return Changes::Reset { revision: self.revision };
        };
        let gone: Vec<DocumentId> =
            tracked.known.keys().filter(|id| !now.contains_key(id)).cloned().collect();
        let differs =
            |(id, version): &(&DocumentId, &Version)| tracked.known.get(id) != Some(version);
        let other: Vec<(DocumentId, Version)> =
            now.iter().filter(differs).map(|(id, version)| (id.clone(), *version)).collect();
        if !gone.is_empty() || !other.is_empty() {
            self.revision.0 += 1;
        }
        for id in gone {
            tracked.learn(&id, None, self.revision);
        }
        for (id, version) in other {
            tracked.learn(&id, Some(version), self.revision);
        }
        let revision = self.revision;
        if since < tracked.since || since > revision {
            return Changes::Reset { revision };
        }
        let ids = tracked.changed.iter().filter(|(_, at)| **at > since).map(|(id, _)| id.clone());
        Changes::Since { revision, ids: ids.collect() }
    }
}

impl Tracked {
    fn learn(&mut self, id: &DocumentId, version: Option<Version>, at: Revision) {
        self.changed.insert(id.clone(), at);
        match version {
            Some(version) => self.known.insert(id.clone(), version),
            None => self.known.remove(id),
        };
    }
}
