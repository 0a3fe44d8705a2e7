//! The simplest correct store: documents in a map behind one lock.
//!
//! Tools are tested on it and other stores are compared with it. It passes the contract suite too.

mod archive;
mod identity;
mod search_index;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::documents::{
    BacklinkQuery, ChangeSet, CommitDecision, CommitRequest, CommitResult, DocumentChange,
    DocumentFilter, DocumentRepository, MetadataPage, Refresh, Revision, Snapshot, StoreResult,
};
use reqlore_domain::ports::project_resolver::{ProjectResolver, Toolset, no_project};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use identity::TeamState;
pub use search_index::MemoryIndex;

/// Documents that live as long as the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<StoreState>>,
}

#[derive(Debug, Default)]
struct StoreState {
    projects: BTreeMap<ProjectKey, StoredProject>,
    team: TeamState,
    /// An import has begun and not finished.
    is_incomplete: bool,
}

#[derive(Debug, Default)]
struct StoredProject {
    documents: BTreeMap<DocumentId, StoredDocument>,
    revision: Revision,
    /// The last change of every document, also of deleted ones.
    changed: BTreeMap<DocumentId, Revision>,
    /// High-water marks.
    marks: BTreeMap<ItemKind, u32>,
}

#[derive(Debug)]
struct StoredDocument {
    document: Document,
    modified: Timestamp,
    place: Option<Arc<str>>,
}

impl MemoryStore {
    fn lock_state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_project<T>(
        &self,
        project: &ProjectKey,
        act: impl FnOnce(&mut StoredProject) -> T,
    ) -> T {
        act(self.lock_state().projects.entry(project.clone()).or_default())
    }
}

#[async_trait]
impl DocumentRepository for MemoryStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        Ok(self.with_project(project, |project| project.documents(ids)))
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        Ok(self.with_project(project, |project| {
            let version = |id| project.documents.get(id).map(|stored| stored.document.version);
            ids.iter().map(version).collect()
        }))
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        Ok(self.with_project(project, |project| {
            MetadataPage::of(project.metadata_of(filter.kind), filter)
        }))
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let heads = self.with_project(project, |project| project.metadata_of(kind));
        let is_named = |head: &DocumentMeta, word: &String| {
            head.id.name == *word || head.reference().as_deref() == Some(word)
        };
        let named = |word| heads.iter().filter(|head| is_named(head, word)).cloned().collect();
        Ok(words.iter().map(named).collect())
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        Ok(self.with_project(project, |project| project.backlinks(links)))
    }

    async fn commit(
        &self,
        project: &ProjectKey,
        commit: CommitRequest,
    ) -> StoreResult<CommitResult> {
        let StoreState { projects, team, .. } = &mut *self.lock_state();
        team.check_idempotency(&commit.context)?;
        let kept = projects.entry(project.clone()).or_default();
        let (committed, decided) = kept.commit(project, commit)?;
        team.append_events(decided.audit);
        team.idempotency_records.extend(decided.idempotency);
        Ok(committed)
    }

    async fn changes(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        since: Revision,
        _: Refresh,
    ) -> StoreResult<ChangeSet> {
        Ok(self.with_project(project, |project| project.changes_since(kind, since)))
    }
}

impl StoredProject {
    fn documents(&self, ids: &[DocumentId]) -> Vec<Option<Document>> {
        let document = |id| self.documents.get(id).map(|stored| stored.document.clone());
        ids.iter().map(document).collect()
    }

    /// By name.
    fn metadata_of(&self, kind: DocumentKind) -> Vec<Arc<DocumentMeta>> {
        let of_kind = self.documents.values().filter(|stored| stored.document.id.kind == kind);
        let meta =
            |stored: &StoredDocument| Arc::new(DocumentMeta::of(&stored.document, stored.modified));
        of_kind.map(meta).collect()
    }

    fn backlinks(&self, links: &BacklinkQuery) -> Vec<Vec<Arc<DocumentMeta>>> {
        let kinds = DocumentKind::ALL.into_iter().filter(|kind| links.kinds.contains(kind));
        let all: Vec<Arc<DocumentMeta>> = kinds.flat_map(|kind| self.metadata_of(kind)).collect();
        let links_to = |target: &String| {
            let linking = all.iter().filter(|meta| meta.links().iter().any(|l| l.1 == *target));
            linking.cloned().collect()
        };
        links.targets.iter().map(links_to).collect()
    }

    fn raise_high_water_mark(&mut self, kind: ItemKind, number: u32) {
        let mark = self.marks.entry(kind).or_default();
        *mark = number.max(*mark);
    }

    /// Raises the mark to a document's number, if it has one.
    fn raise_mark_to(&mut self, id: &DocumentId) {
        if let Some(Reference { kind, number }) = Reference::of_document(id) {
            self.raise_high_water_mark(kind, number);
        }
    }

    fn commit(
        &mut self,
        key: &ProjectKey,
        mut commit: CommitRequest,
    ) -> StoreResult<(CommitResult, CommitDecision)> {
        let snapshot = Snapshot {
            documents: self.documents(&commit.reads.documents),
            metadata: commit
                .reads
                .metadata_of
                .map(|kind| self.metadata_of(kind))
                .unwrap_or_default(),
            backlinks: self.backlinks(&commit.reads.backlinks),
            next_numbers: commit
                .reads
                .sequences
                .iter()
                .map(|kind| self.free_number(*kind))
                .collect(),
        };
        let mut decided = commit.decide(key, &snapshot)?;
        let changes = std::mem::take(&mut decided.changes);
        if !changes.is_empty() {
            self.revision.0 += 1;
        }
        let at = commit.context.at;
        let versions = changes.into_iter().map(|change| self.apply_change(change, at)).collect();
        Ok((CommitResult { revision: self.revision, versions }, decided))
    }

    fn free_number(&self, kind: ItemKind) -> u32 {
        self.marks.get(&kind).map_or(1, |mark| mark + 1)
    }

    fn apply_change(&mut self, change: DocumentChange, at: Timestamp) -> Option<Version> {
        self.changed.insert(change.id().clone(), self.revision);
        self.raise_mark_to(change.id());
        let version = change.version();
        match change {
            DocumentChange::Put { document } => {
                let id = document.id.clone();
                let place = self.documents.remove(&id).and_then(|stored| stored.place);
                self.documents.insert(id, StoredDocument { document, modified: at, place });
            }
            DocumentChange::Delete { id } => drop(self.documents.remove(&id)),
        }
        version
    }

    fn changes_since(&self, kind: DocumentKind, since: Revision) -> ChangeSet {
        let revision = self.revision;
        if since > revision {
            return ChangeSet::Reset { revision };
        }
        let ids = self
            .changed
            .iter()
            .filter(|(id, at)| id.kind == kind && **at > since)
            .map(|(id, _)| id.clone());
        ChangeSet::Since { revision, ids: ids.collect() }
    }
}

/// The default project's folder, which does not exist.
const DEFAULT_ROOT: &str = "/project";

/// Projects whose absolute path is their key. Callers with a limited project scope may use those
/// that are listed here.
#[derive(Debug, Default)]
pub struct NamedProjects(pub Vec<ProjectKey>);

#[async_trait]
impl ProjectResolver for NamedProjects {
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        slice: Toolset,
    ) -> Result<ProjectKey> {
        if caller.reach != ProjectScope::Anywhere {
            let named = named.map_or_else(|| caller.project.clone(), ProjectKey::new);
            let keys = self.keys();
            let known = if named.as_str() == DEFAULT_ROOT { ProjectKey::default() } else { named };
            return if keys.contains(&known) && caller.reach.includes(&known) {
                Ok(known)
            } else {
                Err(no_project(&caller.reach, &keys, slice.argument(), known.as_str()))
            };
        }
        match named {
            None | Some(DEFAULT_ROOT) => Ok(ProjectKey::default()),
            Some(".") if slice == Toolset::Knowledge => Ok(ProjectKey::default()),
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

    fn keys(&self) -> Vec<ProjectKey> {
        let further = self.0.iter().cloned();
        std::iter::once(ProjectKey::default()).chain(further).collect()
    }

    async fn folder(&self, project: &ProjectKey) -> Result<String> {
        Ok(if project.is_default() { DEFAULT_ROOT } else { project.as_str() }.to_owned())
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
