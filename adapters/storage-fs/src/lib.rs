//! Documents as plain markdown files: durable, beneath one root, shared with editors and git.
//!
//! A write is one commit under a lock on the project's root folder: read, decide, stage complete
//! files, sync, exchange, check what came out, sync the folder, answer. Editors take no locks;
//! the check after the exchange notices a save that came between. Traps: paths are resolved by the
//! kernel beneath the root's handle, never by comparing strings; and a section that is a symbolic
//! link is refused, while AGENTS.md may be one to a file inside.

mod commit;
mod error;
mod failpoint;
mod history;
mod layout;
mod lock;
mod projects;
mod replace;
mod scan;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, Version};
use reqlore_domain::ports::documents::{
    Changes, Commit, Committed, DocumentRepository, Filter, Page, Revision, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;

use history::Histories;
use layout::{Layout, Root};
use lock::{Turn, Turns};
pub use projects::FsProjects;
use scan::{Base, Heads};

/// What the files adapter must know; the composition root fills it in.
#[derive(Debug, Clone)]
pub struct Config {
    /// The root of the default project, as callers name it: an existing directory, absolute.
    pub root: PathBuf,
    /// Where the default project's documents are; the root, unless `fs:DIR` says otherwise.
    pub documents: PathBuf,
    /// `REQLIX_REQ_REL_PATH`: where AGENTS.md is looked for first, relative to a project's root.
    pub requirements_directory: Option<String>,
    /// When not empty, only these directories and what lies below them can be projects.
    pub roots: Vec<PathBuf>,
    /// The user's home folder, which is never a project itself.
    pub home: Option<PathBuf>,
}

impl Config {
    /// Checks what can be checked before the first call; the message names the setting.
    pub fn check(&self) -> Result<(), String> {
        self.requirements_directory.as_deref().map_or(Ok(()), layout::check_relative)
    }
}

/// The store. Cloning shares it.
#[derive(Debug, Clone)]
pub struct FsStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    layout: Layout,
    turns: Turns,
    heads: Heads,
    histories: Histories,
}

impl FsStore {
    pub fn new(config: &Config) -> Self {
        let shared = Shared {
            root: config.documents.canonicalize().unwrap_or_else(|_| config.documents.clone()),
            layout: Layout::new(config.requirements_directory.as_deref()),
            turns: Turns::default(),
            heads: Heads::default(),
            histories: Histories::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Runs file work where blocking is allowed. A panic there is a fault, not the end.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let shared = Arc::clone(&self.shared);
        let outcome = tokio::task::spawn_blocking(move || work(&shared)).await;
        outcome.unwrap_or_else(|error| Err(StoreError::Fault(error.to_string())))
    }
}

impl Shared {
    fn open(&self, project: &ProjectKey) -> StoreResult<Root> {
        let path = if project.is_default() { &self.root } else { &PathBuf::from(project.as_str()) };
        Root::open(path)
    }
}

#[async_trait]
impl DocumentRepository for FsStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        let work = move |shared: &Shared| {
            let root = shared.open(&project)?;
            let place = shared.layout.find(&root)?;
            let read = |id| shared.heads.read(&project, &place, id);
            ids.iter().map(|id| Ok(read(id)?.map(|found| found.document))).collect()
        };
        self.blocking(work).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let version = |document: Option<Document>| document.map(|document| document.version);
        Ok(self.get(project, ids).await?.into_iter().map(version).collect())
    }

    async fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page> {
        let (project, filter) = (project.clone(), filter.clone());
        let work = move |shared: &Shared| {
            let root = shared.open(&project)?;
            let place = shared.layout.find(&root)?;
            let heads = shared.heads.of_kind(&project, &place, filter.kind, &Base::new())?;
            Ok(Page::of(heads, &filter))
        };
        self.blocking(work).await
    }

    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        let turn = self.shared.turns.take(project).await?;
        let key = project.clone();
        let attempt = self.blocking(move |shared| {
            let root = shared.open(&key)?;
            Ok(match turn.lock_now(&root)? {
                Turn::Locked(lock) => {
                    Attempt::Done(commit::run(shared, &key, &root, commit, &lock)?)
                }
                Turn::Waiting(waiting) => Attempt::Wait(root, waiting, Box::new(commit)),
            })
        });
        match attempt.await? {
            Attempt::Done(committed) => Ok(committed),
            Attempt::Wait(root, waiting, commit) => {
                let lock = waiting.lock(&root).await?;
                let key = project.clone();
                self.blocking(move |shared| commit::run(shared, &key, &root, *commit, &lock)).await
            }
        }
    }

    async fn changes(&self, project: &ProjectKey, since: Revision) -> StoreResult<Changes> {
        let key = project.clone();
        let work = move |shared: &Shared| {
            let root = shared.open(&key)?;
            let place = shared.layout.find(&root)?;
            let now = shared.heads.versions(&key, &place)?;
            Ok(shared.histories.changes(&key, since, now))
        };
        self.blocking(work).await
    }
}

/// Whether the folder's lock was free.
enum Attempt {
    Done(Committed),
    Wait(Root, lock::Waiting, Box<Commit>),
}

#[cfg(test)]
mod tests;
