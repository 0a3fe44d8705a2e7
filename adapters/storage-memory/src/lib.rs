//! The simplest correct store: documents in a map behind one lock.
//!
//! It is the fake that tools are tested on and the oracle that other stores are compared with; the
//! contract suite keeps it honest.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, Head, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{
    Change, Changes, Commit, Committed, DocumentRepository, Filter, Look, Page, Revision, Snapshot,
    StoreError, StoreResult,
};
use reqlore_domain::ports::projects::{Projects, Slice};
use reqlore_domain::project::ProjectKey;

pub use index::MemoryIndex;

/// Documents that live as long as the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    projects: Mutex<BTreeMap<ProjectKey, Project>>,
}

#[derive(Debug, Default)]
struct Project {
    documents: BTreeMap<DocumentId, Document>,
    revision: Revision,
    /// When each document that ever was last changed.
    changed: BTreeMap<DocumentId, Revision>,
}

impl MemoryStore {
    fn with<T>(&self, project: &ProjectKey, act: impl FnOnce(&mut Project) -> T) -> T {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        act(projects.entry(project.clone()).or_default())
    }
}

#[async_trait]
impl DocumentRepository for MemoryStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        Ok(self.with(project, |project| project.get(ids)))
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        Ok(self.with(project, |project| {
            let version = |id| project.documents.get(id).map(|document| document.version);
            ids.iter().map(version).collect()
        }))
    }

    async fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page> {
        Ok(self.with(project, |project| Page::of(project.heads(filter.kind), filter)))
    }

    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        self.with(project, |project| project.commit(commit))
    }

    async fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
        _: Look,
    ) -> StoreResult<Changes> {
        Ok(self.with(project, |project| project.changes(kind, since)))
    }
}

impl Project {
    fn get(&self, ids: &[DocumentId]) -> Vec<Option<Document>> {
        ids.iter().map(|id| self.documents.get(id).cloned()).collect()
    }

    fn heads(&self, kind: Kind) -> Vec<Head> {
        self.documents.values().filter(|d| d.id.kind == kind).map(Head::of).collect()
    }

    fn commit(&mut self, mut commit: Commit) -> StoreResult<Committed> {
        let snapshot = Snapshot {
            documents: self.get(&commit.reads.documents),
            heads: commit.reads.heads.map(|kind| self.heads(kind)).unwrap_or_default(),
        };
        let changes = (commit.decide)(&snapshot).map_err(StoreError::Decided)?;
        let read: BTreeSet<&DocumentId> = commit.reads.documents.iter().collect();
        if let Some(change) = changes.iter().find(|change| !read.contains(change.id())) {
            return Err(StoreError::Fault(format!("{} was changed and not read", change.id())));
        }
        if !changes.is_empty() {
            self.revision.0 += 1;
        }
        let versions = changes.into_iter().map(|change| self.apply(change)).collect();
        Ok(Committed { revision: self.revision, versions })
    }

    fn apply(&mut self, change: Change) -> Option<Version> {
        self.changed.insert(change.id().clone(), self.revision);
        let version = change.version();
        match change {
            Change::Put { document } => self.documents.insert(document.id.clone(), document),
            Change::Delete { id } => self.documents.remove(&id),
        };
        version
    }

    fn changes(&self, kind: Kind, since: Revision) -> Changes {
        let revision = self.revision;
        if since > revision {
            return Changes::Reset { revision };
        }
        let ids = self
            .changed
            .iter()
            .filter(|(id, at)| id.kind == kind && **at > since)
            .map(|(id, _)| id.clone());
        Changes::Since { revision, ids: ids.collect() }
    }
}

/// The default project's folder, which is nowhere.
const ROOT: &str = "/project";

/// Projects by key: any name that is not blank, and `/project` is the default one.
#[derive(Debug, Default)]
pub struct NamedProjects;

#[async_trait]
impl Projects for NamedProjects {
    async fn resolve<'a>(&self, named: Option<&'a str>, slice: Slice) -> Result<ProjectKey> {
        match named {
            None | Some(ROOT) => Ok(ProjectKey::default()),
            Some(".") if slice == Slice::Knowledge => Ok(ProjectKey::default()),
            Some(root) if root.starts_with('/') => Ok(ProjectKey::new(root)),
            Some(root) => {
                let argument = slice.argument();
                let message = format!(
                    "{argument}: {root:?} must be an absolute path without \"..\", such as \
                     \"/home/me/app\""
                );
                Err(Error::new(ErrorKind::InvalidArgument, message).field(argument))
            }
        }
    }

    async fn folder(&self, project: &ProjectKey) -> Result<String> {
        Ok(if project.is_default() { ROOT } else { project.as_str() }.to_owned())
    }

    async fn has_folder(&self, _: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    reqlore_contract::suite!(async {
        reqlore_contract::Storage::fleeting(crate::MemoryStore::default())
    });
}
