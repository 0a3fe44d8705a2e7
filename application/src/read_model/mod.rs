//! What is made of a project's documents and kept: the inventory of entities, and the search index.
//!
//! Each call first asks the storage what changed and takes that in, so an edit by hand shows at the
//! very next call. The trap: a document may change between the question and the reading; then the
//! next question names it again, and nothing is missed.
//!
//! The two have locks of their own, always taken in the order index, inventory: while an index is
//! built for the first time, the inventory answers.

mod entities;
mod index;
mod reading;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::search::{Hits, Query};
use tokio::sync::OwnedMutexGuard;

use crate::Ports;
pub(crate) use entities::Entities;
use index::Index;

/// So many projects are kept; beyond that those that nobody uses just now are forgotten, and made
/// again when they are asked for.
const MOST: usize = 128;

/// The models of the projects that were asked for.
#[derive(Default)]
pub(crate) struct Models {
    projects: Mutex<HashMap<ProjectKey, Model>>,
}

/// One project's.
#[derive(Default, Clone)]
struct Model {
    entities: Arc<tokio::sync::Mutex<Entities>>,
    index: Arc<tokio::sync::Mutex<Index>>,
}

impl Models {
    /// The project's inventory as it is now; whoever holds it sees it unchanged.
    pub(crate) async fn entities(
        &self,
        ports: &Ports,
        project: &ProjectKey,
        look: Refresh,
    ) -> Result<OwnedMutexGuard<Entities>> {
        let mut entities = self.of(project).entities.lock_owned().await;
        entities.update(ports, project, look).await?;
        Ok(entities)
    }

    /// Makes the index know everything that is there now.
    pub(crate) async fn update_index(
        &self,
        ports: &Ports,
        project: &ProjectKey,
        look: Refresh,
        observer: &dyn ProgressSink,
    ) -> Result<()> {
        let Model { entities, index } = self.of(project);
        let mut index = index.lock_owned().await;
        index.update(ports, project, &entities, look, observer).await
    }

    /// The best items as everything is now.
    pub(crate) async fn search(
        &self,
        ports: &Ports,
        project: &ProjectKey,
        query: &Query,
        observer: &dyn ProgressSink,
    ) -> Result<Hits> {
        self.update_index(ports, project, Refresh::Incremental, observer).await?;
        let found = ports.search.search(project, query).await?;
        if !self.index_was_lost(ports, project).await? {
            return Ok(found);
        }
        self.update_index(ports, project, Refresh::Incremental, observer).await?;
        ports.search.search(project, query).await
    }

    /// Did a fault empty the index since it was last brought up to date?
    async fn index_was_lost(&self, ports: &Ports, project: &ProjectKey) -> Result<bool> {
        self.of(project).index.lock_owned().await.was_lost(ports, project).await
    }

    fn of(&self, project: &ProjectKey) -> Model {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if projects.len() >= MOST && !projects.contains_key(project) {
            projects.retain(|_, model| {
                Arc::strong_count(&model.entities) > 1 || Arc::strong_count(&model.index) > 1
            });
        }
        projects.entry(project.clone()).or_default().clone()
    }
}
