//! All that a server keeps, in sled `=0.34.7`, acknowledged after transaction, flush and a sync.
//!
//! One thread writes, in groups of commits that share one sync. Readers wait for a group that is
//! being written, so they see only what is durable; what a power cut takes back nobody has seen.
//! The exception is a failed sync: reads go on after it, and may show what was not acknowledged.
//! The trap: sled's own guarantees end before the disk (see `disk`), its errors are often panics
//! (see `error`), and its large pages are files that nobody syncs (see `values`).

mod answers;
mod archive;
mod audit;
mod base;
mod disk;
mod error;
mod folder;
mod gate;
mod heads;
mod identity;
mod keys;
mod open;
pub mod outside;
mod overflow;
mod read;
mod values;
mod write;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::ports::documents::{
    BacklinkQuery, Changes, Commit, Committed, DocumentRepository, Filter, Page, Refresh, Revision,
    StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use reqlore_group_commit::Writer;

use crate::base::Base;
use crate::disk::Sync;
use crate::error::{guarded, unavailable};
use crate::write::Group;

/// How long a commit waits while everything is being copied.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many documents, or heads that link to something, are read on the calling thread; that is
/// faster than the hop to another one.
const FEW: usize = 100;

/// Where the database lies.
#[derive(Debug, Clone)]
pub struct Config {
    /// A folder of its own; it is made when it is missing.
    pub folder: PathBuf,
}

/// Documents, users, tokens and the audit in a sled database.
#[derive(Debug)]
pub struct SledStore {
    open: Mutex<Option<Arc<Open>>>,
    config: Config,
}

/// The writer ends before the database does.
#[derive(Debug)]
struct Open {
    writer: Writer<Group>,
    base: Arc<Base>,
}

impl SledStore {
    /// Opens the database, or makes it. Every refusal names the folder as given and what to do.
    pub fn open(config: &Config) -> StoreResult<Self> {
        Self::open_with(config, Box::new(File::sync_all), PATIENCE)
    }

    fn open_with(config: &Config, sync: Sync, patience: Duration) -> StoreResult<Self> {
        let base = Arc::new(open::open(&config.folder, sync, patience)?);
        let writer = Writer::start("storage-sled", Group::new(Arc::clone(&base)));
        let writer = writer.map_err(|e| error::failed(&config.folder, "start a thread", e))?;
        let open = Mutex::new(Some(Arc::new(Open { writer, base })));
        Ok(Self { open, config: config.clone() })
    }

    /// Ends the writer and lets go of the database, so that it can be opened again. Waits for
    /// calls that still run.
    pub fn close(&self) -> StoreResult<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(open);
        open::wait_until_free(&self.config.folder)
    }

    fn opened(&self) -> StoreResult<Arc<Open>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        open.ok_or_else(|| unavailable("it was closed", None))
    }

    /// Looks on this thread when that is quick and nothing is being written, else on another one.
    async fn look<T: Send + 'static>(
        &self,
        quick: bool,
        read: impl FnOnce(&Base) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let open = self.opened()?;
        if let Some(_looking) = quick.then(|| open.base.gate.try_look()).flatten() {
            return guarded(|| read(&open.base));
        }
        blocking(move || {
            let _looking = open.base.gate.look();
            read(&open.base)
        })
        .await
    }

    /// Writes on the one thread that does; the answer comes when it is durable.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Group) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.opened()?.writer.run(move |group| guarded(|| work(group))).await
    }
}

/// Runs what may take long on a thread where that harms nobody.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    let done = tokio::task::spawn_blocking(|| guarded(act)).await;
    done.unwrap_or_else(|error| Err(StoreError::Internal(error.to_string())))
}

#[async_trait]
impl DocumentRepository for SledStore {
    async fn get(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Document>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        self.look(ids.len() <= FEW, move |base| base.get(&project, &ids)).await
    }

    async fn versions(
        &self,
        project: &ProjectKey,
        ids: &[DocumentId],
    ) -> StoreResult<Vec<Option<Version>>> {
        let (project, ids) = (project.clone(), ids.to_vec());
        self.look(ids.len() <= FEW, move |base| base.versions(&project, &ids)).await
    }

    async fn find(&self, project: &ProjectKey, filter: &Filter) -> StoreResult<Page> {
        let (project, filter) = (project.clone(), filter.clone());
        let quick = filter.limit.is_some_and(|limit| limit <= FEW);
        self.look(quick, move |base| base.find(&project, &filter)).await
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: Kind,
        words: &[String],
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (project, words) = (project.clone(), words.to_vec());
        self.look(words.len() <= FEW, move |base| base.lookup(&project, kind, &words)).await
    }

    async fn backlinks(
        &self,
        project: &ProjectKey,
        links: &BacklinkQuery,
    ) -> StoreResult<Vec<Vec<Arc<DocumentMeta>>>> {
        let (project, links) = (project.clone(), links.clone());
        if links.targets.len() <= FEW {
            let (project, links) = (project.clone(), links.clone());
            let few = self.look(true, move |base| base.backlinks(&project, &links, FEW));
            if let Some(found) = few.await? {
                return Ok(found);
            }
        }
        let all = self.look(false, move |base| base.backlinks(&project, &links, usize::MAX));
        Ok(all.await?.unwrap_or_default())
    }

    async fn commit(&self, project: &ProjectKey, commit: Commit) -> StoreResult<Committed> {
        let project = project.clone();
        self.write(move |group| group.commit(&project, commit)).await
    }

    async fn changes(
        &self,
        project: &ProjectKey,
        kind: Kind,
        since: Revision,
        _: Refresh,
    ) -> StoreResult<Changes> {
        let project = project.clone();
        // The first question is about everything.
        let quick = since > Revision::default();
        self.look(quick, move |base| base.changes(&project, kind, since)).await
    }
}

#[cfg(test)]
mod tests;
