//! The contract suite on real folders, and the faults that only a database can have.

mod damage;
mod durability;
mod files;
mod model;
mod team;
mod values;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, maybe_done};
use reqlore_contract::{Storage, act};
use reqlore_domain::audit_log::{AuditRow, ChainVerifier};
use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    CommitRequest, CommitResult, DocumentChange, DocumentRepository, ReadSet, StoreError,
    StoreResult,
};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use tempfile::{TempDir, tempdir};

use crate::database::SledDatabase;
use crate::files::SyncFn;
use crate::{COPY_TIMEOUT, Config, SledStore};

fn config(folder: &Path) -> Config {
    Config { folder: folder.join("sled") }
}

fn storage() -> Storage {
    let guard = tempdir().unwrap();
    let config = config(guard.path());
    let store = Arc::new(SledStore::open(&config).unwrap());
    let first = Arc::clone(&store);
    Storage {
        store,
        reopen: Some(Box::new(move || {
            let again = first.close().and_then(|()| SledStore::open(&config));
            Box::pin(async { again.map(|again| Arc::new(again) as Arc<dyn Store>) })
        })),
        project: ProjectKey::default(),
        other: ProjectKey::new("/other"),
        guard: Box::new(guard),
    }
}

reqlore_contract::suite!(async { storage() });

fn open(folder: &TempDir) -> SledStore {
    SledStore::open(&config(folder.path())).unwrap()
}

fn open_with(folder: &TempDir, sync: SyncFn) -> SledStore {
    SledStore::open_with(&config(folder.path()), sync, COPY_TIMEOUT).unwrap()
}

fn database(store: &SledStore) -> Arc<SledDatabase> {
    Arc::clone(&store.open_store().unwrap().database)
}

fn audited() -> WriteContext {
    WriteContext { audited: Some(AuditScope::begin(Arc::new(act().at))), ..act() }
}

async fn commit_as(
    store: &SledStore,
    project: &ProjectKey,
    changes: Vec<DocumentChange>,
    act: WriteContext,
) -> StoreResult<CommitResult> {
    let reads = ReadSet::of(changes.iter().map(|change| change.id().clone()).collect());
    let decide = Box::new(move |_: &_| Ok(changes.clone()));
    store.commit(project, CommitRequest { reads, decide, context: act }).await
}

async fn commit(store: &SledStore, changes: Vec<DocumentChange>) -> StoreResult<CommitResult> {
    commit_as(store, &ProjectKey::default(), changes, act()).await
}

async fn put(store: &SledStore, id: &DocumentId, body: &str) -> StoreResult<CommitResult> {
    commit(store, vec![DocumentChange::put(id.clone(), body.to_owned())]).await
}

/// Puts a section.
async fn write(store: &SledStore, name: &str, act: WriteContext) -> StoreResult<()> {
    let changes = vec![DocumentChange::put(DocumentId::section(name), "text")];
    commit_as(store, &ProjectKey::default(), changes, act).await.map(drop)
}

async fn delete(store: &SledStore, id: &DocumentId) {
    commit(store, vec![DocumentChange::Delete { id: id.clone() }]).await.unwrap();
}

async fn get(store: &SledStore, id: &DocumentId) -> StoreResult<Option<Document>> {
    let found = store.get(&ProjectKey::default(), std::slice::from_ref(id)).await;
    found.map(|mut found| found.remove(0))
}

/// All audit rows, of a chain without gaps.
async fn chain(store: &SledStore) -> Vec<AuditRow> {
    let rows = store.rows(0, usize::MAX).await.unwrap();
    let mut verifier = ChainVerifier::default();
    verifier.next(&rows).unwrap();
    assert_eq!(verifier.finish().unwrap().1, store.newest().await.unwrap());
    rows
}

/// The message with which a folder is not opened.
fn refused(folder: &Path) -> String {
    let error = SledStore::open(&config(folder)).expect_err("the folder is refused");
    assert!(!matches!(error, StoreError::Internal(_)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&folder.join("sled").display().to_string()), "{text}");
    text
}

/// A store whose syncs are counted, and can be held back.
struct HeldStore {
    store: SledStore,
    syncs: Arc<AtomicUsize>,
    holds: Arc<AtomicBool>,
    at_sync: Receiver<()>,
    go: Sender<()>,
}

impl HeldStore {
    fn open(folder: &TempDir) -> Self {
        let (entered, at_sync) = channel();
        let (go, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let (syncs, holds) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, held) = (Arc::clone(&syncs), Arc::clone(&holds));
        let sync = Box::new(move |file: &File| {
            counted.fetch_add(1, Ordering::Relaxed);
            if held.swap(false, Ordering::Relaxed) {
                entered.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
            file.sync_all()
        });
        Self { store: open_with(folder, sync), syncs, holds, at_sync, go }
    }

    /// Starts jobs while a group is being synced, so that all of them are in the next group.
    async fn in_one_group<T>(&self, jobs: impl Future<Output = T>) -> T {
        self.holds.store(true, Ordering::Relaxed);
        let mut first = Box::pin(write(&self.store, "first", act()));
        assert!(first.as_mut().now_or_never().is_none());
        self.at_sync.recv_timeout(Duration::from_secs(10)).unwrap();
        let mut jobs = Box::pin(maybe_done(jobs));
        // The first poll puts each job into the queue.
        let _ = jobs.as_mut().now_or_never();
        self.go.send(()).unwrap();
        let (first, ()) = join(first, jobs.as_mut()).await;
        first.unwrap();
        jobs.as_mut().take_output().unwrap()
    }
}

/// A sync that fails while the flag is set.
fn failing_sync() -> (Arc<AtomicBool>, SyncFn) {
    let fails = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&fails);
    let sync = move |file: &File| {
        let fails = flag.load(Ordering::Relaxed);
        if fails { Err(std::io::ErrorKind::StorageFull.into()) } else { file.sync_all() }
    };
    (fails, Box::new(sync))
}
