//! Did anything change of which resources speak?
//!
//! The trap: whoever was told a count may come back after its project was forgotten here. So all
//! projects draw their counts from one series, and a project that is looked at anew gets a new one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::Kind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::{Changes, Refresh, Revision};
use reqlore_domain::project::ProjectKey;

use super::find::Backlog;

/// So many projects are kept; one more, and all are looked at anew.
const MAX_PROJECTS: usize = 1_000;

/// Counts the looks that found something new, project by project.
#[derive(Default)]
pub(crate) struct Changed {
    last: AtomicU64,
    projects: Mutex<HashMap<ProjectKey, Arc<tokio::sync::Mutex<Seen>>>>,
}

/// What a project's resources spoke of at the last look.
struct Seen {
    count: u64,
    revisions: HashMap<Kind, Revision>,
}

impl Changed {
    /// The count after a look at everything that a project's resources speak of.
    pub(crate) async fn count(&self, backlog: Backlog<'_>) -> Result<u64> {
        let Backlog { ports, project } = backlog;
        let seen = self.of(project);
        let mut seen = seen.lock().await;
        for kind in Kind::ITEMS.into_iter().chain([Kind::Deleted, Kind::Entity]) {
            let since = seen.revisions.get(&kind).copied().unwrap_or_default();
            let changes =
                ports.documents.changes(project, kind, since, Refresh::Incremental).await?;
            let (revision, is_new) = match changes {
                Changes::Since { revision, ids } => (revision, !ids.is_empty()),
                Changes::Reset { revision } => (revision, true),
            };
            if is_new {
                seen.count = self.next();
            }
            seen.revisions.insert(kind, revision);
        }
        Ok(seen.count)
    }

    fn of(&self, project: &ProjectKey) -> Arc<tokio::sync::Mutex<Seen>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if projects.len() >= MAX_PROJECTS && !projects.contains_key(project) {
            projects.clear();
        }
        let anew = || Seen { count: self.next(), revisions: HashMap::new() };
        let seen = projects.entry(project.clone());
        Arc::clone(seen.or_insert_with(|| Arc::new(tokio::sync::Mutex::new(anew()))))
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}
