//! In-memory store: documents in a map behind one lock.
//!
//! Tests of tools use it, and other stores are compared with it. It passes the contract suite.

mod archive;
mod history;
mod identity;
mod search_index;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitDecision, CommitRequest, CommitResult, DocumentChange, DocumentFilter,
    DocumentRepository, MetadataPage, Refresh, Revision, Snapshot, StoreResult,
};
use reqlore_domain::ports::history::{PastContent, PastEntry, PresentEntry};
use reqlore_domain::ports::project_resolver::{
    DocumentsFolder, ProjectResolver, Toolset, project_not_found,
};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use identity::TeamState;
pub use search_index::MemoryIndex;

/// In-memory store, gone when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<StoreState>>,
}

#[derive(Debug)]
struct StoreState {
    /// Random, so that a position of another store is recognized.
    id: u64,
    projects: BTreeMap<ProjectKey, StoredProject>,
    team: TeamState,
    /// An import is unfinished.
    is_incomplete: bool,
}

impl Default for StoreState {
    fn default() -> Self {
        Self {
            id: RandomState::new().hash_one(()),
            projects: BTreeMap::new(),
            team: TeamState::default(),
            is_incomplete: false,
        }
    }
}

#[derive(Debug, Default)]
struct StoredProject {
    documents: BTreeMap<DocumentId, StoredDocument>,
    revision: Revision,
    /// The revision of the last change of each document, including deleted ones.
    changed: BTreeMap<DocumentId, Revision>,
    /// High-water marks.
    marks: BTreeMap<ItemKind, u32>,
    /// Earlier versions by document and number.
    history: BTreeMap<DocumentId, BTreeMap<u64, PastEntry>>,
}

#[derive(Debug)]
struct StoredDocument {
    document: Document,
    modified: Timestamp,
    place: Option<Arc<str>>,
    entry: PresentEntry,
}

impl MemoryStore {
    fn lock_state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_project<T>(
        &self,
        project: &ProjectKey,
        action: impl FnOnce(&mut StoredProject) -> T,
    ) -> T {
        action(self.lock_state().projects.entry(project.clone()).or_default())
    }
}

impl StorageHealth for MemoryStore {}

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
            let mut versions = Vec::with_capacity(ids.len());
            for id in ids {
                versions.push(project.documents.get(id).map(|stored| stored.document.version));
            }
            versions
        }))
    }

    async fn find(
        &self,
        project: &ProjectKey,
        filter: &DocumentFilter,
    ) -> StoreResult<MetadataPage> {
        Ok(self.with_project(project, |project| {
            MetadataPage::select(project.metadata_of(filter.kind), filter)
        }))
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let metadata = self.with_project(project, |project| project.metadata_of(kind));
        let mut matches = Vec::with_capacity(words.len());
        for word in words {
            let mut documents = Vec::new();
            for meta in &metadata {
                if meta.id.name == *word || meta.reference().as_deref() == Some(word.as_str()) {
                    documents.push(Arc::clone(meta));
                }
            }
            matches.push(documents);
        }
        Ok(matches)
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
        // The lock is held during the decision, so nothing changes after its snapshot.
        let StoreState { projects, team, .. } = &mut *self.lock_state();
        team.check_idempotency(&commit.context)?;
        let stored = projects.entry(project.clone()).or_default();
        let (result, decision) = stored.commit(project, commit)?;
        team.append_events(decision.audit);
        team.idempotency_records.extend(decision.idempotency);
        Ok(result)
    }

    async fn changes_since(
        &self,
        project: &ProjectKey,
        since: Option<ChangePosition>,
        limit: usize,
        _: Refresh,
    ) -> StoreResult<ChangePage> {
        let StoreState { id, projects, .. } = &mut *self.lock_state();
        let stored = projects.entry(project.clone()).or_default();
        Ok(stored.changes_since(u128::from(*id), since, limit))
    }
}

impl StoredProject {
    fn documents(&self, ids: &[DocumentId]) -> Vec<Option<Document>> {
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            documents.push(self.documents.get(id).map(|stored| stored.document.clone()));
        }
        documents
    }

    /// Returns the metadata of all documents of a kind, sorted by name.
    fn metadata_of(&self, kind: DocumentKind) -> Vec<Arc<DocumentMeta>> {
        let mut metadata = Vec::new();
        for StoredDocument { document, modified, .. } in self.documents.values() {
            if document.id.kind == kind {
                metadata.push(Arc::new(DocumentMeta::from_document(document, *modified)));
            }
        }
        metadata
    }

    fn titles_of(&self, kind: Option<DocumentKind>) -> BTreeMap<String, Option<String>> {
        let all = kind.map(|kind| self.metadata_of(kind)).unwrap_or_default();
        all.iter().map(|meta| (meta.id.name.clone(), meta.title.clone())).collect()
    }

    fn backlinks(&self, query: &BacklinkQuery) -> Vec<Vec<Arc<DocumentMeta>>> {
        let mut candidates = Vec::new();
        for kind in DocumentKind::ALL {
            if query.kinds.contains(&kind) {
                candidates.extend(self.metadata_of(kind));
            }
        }
        let mut backlinks = Vec::with_capacity(query.targets.len());
        for target in &query.targets {
            let mut sources = Vec::new();
            for meta in &candidates {
                if meta.links().iter().any(|(_, link)| link == target) {
                    sources.push(Arc::clone(meta));
                }
            }
            backlinks.push(sources);
        }
        backlinks
    }

    fn raise_high_water_mark(&mut self, kind: ItemKind, number: u32) {
        let mark = self.marks.entry(kind).or_default();
        *mark = number.max(*mark);
    }

    /// Raises the high-water mark to the document's number, if it has one.
    fn raise_mark_to(&mut self, id: &DocumentId) {
        if let Some(Reference { kind, number }) = Reference::from_document(id) {
            self.raise_high_water_mark(kind, number);
        }
    }

    fn commit(
        &mut self,
        key: &ProjectKey,
        mut commit: CommitRequest,
    ) -> StoreResult<(CommitResult, CommitDecision)> {
        let snapshot = Snapshot {
            documents: self.documents(&commit.read_set.documents),
            titles: self.titles_of(commit.read_set.titles_of),
            backlinks: self.backlinks(&commit.read_set.backlinks),
            next_numbers: commit
                .read_set
                .sequences
                .iter()
                .map(|kind| self.free_number(*kind))
                .collect(),
        };
        let mut decision = commit.decide(key, &snapshot)?;
        let changes = std::mem::take(&mut decision.changes);
        if !changes.is_empty() {
            self.revision.0 += 1;
        }
        for change in DocumentChange::last_of_each(&changes) {
            self.apply_change(change.clone(), &commit.context);
        }
        let versions = changes.iter().map(DocumentChange::version).collect();
        Ok((CommitResult { revision: self.revision, versions }, decision))
    }

    fn free_number(&self, kind: ItemKind) -> u32 {
        self.marks.get(&kind).copied().unwrap_or_default() + 1
    }

    fn apply_change(&mut self, change: DocumentChange, context: &WriteContext) {
        self.changed.insert(change.id().clone(), self.revision);
        self.raise_mark_to(change.id());
        let at = context.at;
        let old = self.documents.remove(change.id());
        match change {
            DocumentChange::Put { document } => {
                let id = document.id.clone();
                let mut stored = StoredDocument {
                    document,
                    modified: at,
                    place: None,
                    entry: PresentEntry { number: self.next_number(&id), origin: context.origin() },
                };
                match old {
                    // The same text is no new version.
                    Some(old) if old.document.version == stored.document.version => stored = old,
                    Some(old) => {
                        self.end_version(&old, at);
                        // A replaced document keeps its path.
                        (stored.entry.number, stored.place) = (old.entry.number + 1, old.place);
                    }
                    None => {}
                }
                self.documents.insert(id, stored);
            }
            DocumentChange::Delete { id } => {
                let Some(old) = old else { return };
                self.end_version(&old, at);
                let deletion = PastEntry {
                    number: old.entry.number + 1,
                    at,
                    ended: at,
                    origin: context.origin(),
                    content: PastContent::Deleted,
                };
                self.insert_entry(id, deletion);
            }
        }
    }

    fn changes_since(
        &self,
        store_id: u128,
        since: Option<ChangePosition>,
        limit: usize,
    ) -> ChangePage {
        // The store has one writer.
        let current = ChangePosition { store_id, writer_id: 0, revision: self.revision };
        let since = since.unwrap_or_default();
        if since.store_id != store_id || since.writer_id != 0 || since.revision > self.revision {
            return ChangePage::Reset { position: current };
        }
        let mut changes = Vec::new();
        for (id, changed) in &self.changed {
            if *changed > since.revision {
                changes.push((*changed, id.clone()));
            }
        }
        changes.sort_unstable();
        let changes = changes.into_iter().map(Ok::<_, Infallible>);
        match ChangePage::select(changes, limit, current, |_| Ok(0)) {
            Ok(page) => page,
            Err(never) => match never {},
        }
    }
}

/// Folder of the default project. It does not exist.
const DEFAULT_ROOT: &str = "/project";

/// Project resolver that uses absolute paths as keys. Callers with a limited project scope may use
/// only the projects in this list.
#[derive(Debug, Default)]
pub struct NamedProjects(pub Vec<ProjectKey>);

#[async_trait]
impl ProjectResolver for NamedProjects {
    async fn resolve<'a>(
        &self,
        caller: &'a Caller,
        named: Option<&'a str>,
        toolset: Toolset,
    ) -> Result<ProjectKey> {
        if caller.scope != ProjectScope::Anywhere {
            let mut project = match named {
                Some(name) => ProjectKey::new(name),
                None => caller.project.clone(),
            };
            if project.as_str() == DEFAULT_ROOT {
                project = ProjectKey::default();
            }
            let (keys, argument) = (self.keys(), toolset.argument());
            return if self.is_configured(&project) && caller.scope.includes(&project) {
                Ok(project)
            } else {
                Err(project_not_found(&caller.scope, &keys, argument, project.as_str()))
            };
        }
        match named {
            None | Some(DEFAULT_ROOT | "default" | ".") => Ok(ProjectKey::default()),
            Some(root) if root.starts_with('/') => Ok(ProjectKey::new(root)),
            Some(root) => {
                let argument = toolset.argument();
                let message = format!(
                    "{argument}: {root:?} must be an absolute path without \"..\", such as \
                     \"/home/me/app\""
                );
                Err(Error::new(ErrorKind::InvalidArgument, message).field(argument))
            }
        }
    }

    fn find_documents(
        &self,
        _: &Caller,
        project: &ProjectKey,
        toolset: Toolset,
    ) -> DocumentsFolder {
        match toolset {
            Toolset::Knowledge => DocumentsFolder::Missing,
            _ => DocumentsFolder::Found(project.clone()),
        }
    }

    fn keys(&self) -> Vec<ProjectKey> {
        let mut keys = vec![ProjectKey::default()];
        keys.extend_from_slice(&self.0);
        keys
    }

    fn is_configured(&self, project: &ProjectKey) -> bool {
        project.is_default() || self.0.contains(project)
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
        reqlore_contract::Storage::in_memory(crate::MemoryStore::default())
    });
    reqlore_contract::history_suite!(async {
        reqlore_contract::Storage::in_memory(crate::MemoryStore::default())
    });
}
