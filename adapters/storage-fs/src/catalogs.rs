//! The catalogs of all projects that were asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::project::ProjectKey;

use crate::catalog::Catalog;

/// Each project has one; whoever holds it brings it up to date.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    projects: Mutex<HashMap<ProjectKey, Arc<Mutex<Catalog>>>>,
}

/// So many are kept; beyond that those that nobody uses just now are forgotten. A watch is a handle
/// of which a process has few.
const MOST: usize = 16;

impl Catalogs {
    pub(crate) fn of(&self, project: &ProjectKey) -> Arc<Mutex<Catalog>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if projects.len() >= MOST && !projects.contains_key(project) {
            projects.retain(|_, catalog| Arc::strong_count(catalog) > 1);
        }
        Arc::clone(projects.entry(project.clone()).or_default())
    }

    /// Those there are.
    pub(crate) fn all(&self) -> Vec<(ProjectKey, Arc<Mutex<Catalog>>)> {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.iter().map(|(key, catalog)| (key.clone(), Arc::clone(catalog))).collect()
    }
}
