//! The contract suite and the rules of the seam on real folders, and tests of what only this driver
//! does.

mod corruption;
mod damage;
mod durability;
mod files;
mod loss;
mod values;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, maybe_done};
use reqlore_contract::{Storage, test_context};
use reqlore_domain::audit_log::{AuditRow, ChainVerifier};
use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::idempotency::IdempotencyKey;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    CommitRequest, CommitResult, DocumentChange, DocumentRepository, ReadSet, StoreError,
    StoreResult,
};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::project_key::ProjectKey;
use reqlore_row_store::RowStore;
use tempfile::{TempDir, tempdir};

use crate::database::OpenDatabase;
use crate::files::SyncFn;
use crate::open::COPY_TIMEOUT;
use crate::open::{open_database, wait_until_closed};
use crate::row_source::SledDatabase;
use crate::{SledConfig, start};
use files::copy_files;

fn config(folder: &Path) -> SledConfig {
    SledConfig { folder: folder.join("sled") }
}

fn storage() -> Storage {
    let guard = tempdir().unwrap();
    let (store, root) = (open(&guard), guard.path().to_owned());
    let number = AtomicUsize::new(0);
    // The first store stays open, so a copy of its folder is opened, as after `kill -9`.
    let reopen = move || {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let folder = |number: usize| match number {
            0 => root.clone(),
            _ => root.join(number.to_string()),
        };
        let (from, to) = (folder(number), folder(number + 1));
        copy_files(&from.join("sled"), &to.join("sled"));
        let opened = crate::open(&config(&to)).map(|store| Arc::new(store) as Arc<dyn Store>);
        Box::pin(async move { opened }) as _
    };
    Storage { reopen: Some(Box::new(reopen)), guard: Box::new(guard), ..Storage::in_memory(store) }
}

mod seam {
    use super::*;
    use reqlore_row_store::database::Database;

    fn open() -> (Arc<dyn Database>, TempDir) {
        let folder = tempdir().unwrap();
        let sync = Box::new(File::sync_all);
        // A transaction waits this long for the end of a copy.
        let database = open_database(&folder.path().join("sled"), sync, Duration::from_secs(2));
        (Arc::new(SledDatabase::new(Arc::new(database.unwrap()))), folder)
    }

    reqlore_contract::seam_suite!(open());
}

reqlore_contract::suite!(async { storage() });
reqlore_contract::history_suite!(async { storage() });

fn open(folder: &TempDir) -> RowStore {
    crate::open(&config(folder.path())).unwrap()
}

/// A store, and its database below the driver.
fn open_with(folder: &Path, sync: SyncFn, copy_timeout: Duration) -> (RowStore, Arc<OpenDatabase>) {
    let folder = config(folder).folder;
    let database = Arc::new(open_database(&folder, sync, copy_timeout).unwrap());
    (start(&folder, Arc::clone(&database)).unwrap(), database)
}

fn open_both(folder: &TempDir) -> (RowStore, Arc<OpenDatabase>) {
    open_with(folder.path(), Box::new(File::sync_all), COPY_TIMEOUT)
}

/// Closes a store, and waits for it.
fn close(folder: &TempDir, store: RowStore) {
    drop(store);
    wait_until_closed(&folder.path().join("sled")).unwrap();
}

fn keyed(key: &str, context: WriteContext) -> WriteContext {
    let idempotency_key =
        Some(IdempotencyKey { key: key.to_owned(), request_hash: "r".to_owned() });
    WriteContext { idempotency_key, ..context }
}

fn audited() -> WriteContext {
    WriteContext { audited: Some(AuditScope::begin(Arc::new(test_context().at))), ..test_context() }
}

async fn commit_as(
    store: &RowStore,
    project: &ProjectKey,
    changes: Vec<DocumentChange>,
    act: WriteContext,
) -> StoreResult<CommitResult> {
    let reads = ReadSet::of_documents(changes.iter().map(|change| change.id().clone()).collect());
    let decide = Box::new(move |_: &_| Ok(changes.clone()));
    store.commit(project, CommitRequest { read_set: reads, decide, context: act }).await
}

async fn commit(store: &RowStore, changes: Vec<DocumentChange>) -> StoreResult<CommitResult> {
    commit_as(store, &ProjectKey::default(), changes, test_context()).await
}

async fn put(store: &RowStore, id: &DocumentId, body: &str) -> StoreResult<CommitResult> {
    commit(store, vec![DocumentChange::put(id.clone(), body.to_owned())]).await
}

/// Puts a section.
async fn write(store: &RowStore, name: &str, act: WriteContext) -> StoreResult<()> {
    let changes = vec![DocumentChange::put(DocumentId::section(name), "text")];
    commit_as(store, &ProjectKey::default(), changes, act).await.map(drop)
}

async fn get(store: &RowStore, id: &DocumentId) -> StoreResult<Option<Document>> {
    let mut documents = store.get(&ProjectKey::default(), std::slice::from_ref(id)).await?;
    Ok(documents.remove(0))
}

/// Returns all audit rows after verifying their chain.
async fn verified_rows(store: &RowStore) -> Vec<AuditRow> {
    let rows = store.rows(0, usize::MAX).await.unwrap();
    let mut verifier = ChainVerifier::default();
    verifier.verify_rows(&rows).unwrap();
    assert_eq!(verifier.finish().unwrap().1, store.newest().await.unwrap());
    rows
}

/// Asserts that the folder is not opened. Returns the message.
fn open_error(folder: &Path) -> String {
    let error = crate::open(&config(folder)).expect_err("the folder is refused");
    assert!(!matches!(error, StoreError::Internal(_)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&folder.join("sled").display().to_string()), "{text}");
    text
}

/// A store that counts its syncs and can pause one.
struct PausingStore {
    store: RowStore,
    database: Arc<OpenDatabase>,
    sync_count: Arc<AtomicUsize>,
    /// Pauses the next sync.
    pauses: Arc<AtomicBool>,
    sync_started: Receiver<()>,
    resume: Sender<()>,
}

impl PausingStore {
    fn open(folder: &TempDir) -> Self {
        let (started, sync_started) = channel();
        let (resume, resumed) = channel::<()>();
        let resumed = Mutex::new(resumed);
        let sync_count = Arc::new(AtomicUsize::new(0));
        let pauses = Arc::new(AtomicBool::new(false));
        let (counter, pause_flag) = (Arc::clone(&sync_count), Arc::clone(&pauses));
        let sync = Box::new(move |file: &File| {
            counter.fetch_add(1, Ordering::Relaxed);
            if pause_flag.swap(false, Ordering::Relaxed) {
                started.send(()).unwrap();
                resumed.lock().unwrap().recv().unwrap();
            }
            file.sync_all()
        });
        let (store, database) = open_with(folder.path(), sync, COPY_TIMEOUT);
        Self { store, database, sync_count, pauses, sync_started, resume }
    }

    fn wait_for_sync(&self) {
        self.sync_started.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    /// Queues jobs during the sync of another group, so that all of them are in the next group.
    async fn in_one_group<T>(&self, jobs: impl Future<Output = T>) -> T {
        self.pauses.store(true, Ordering::Relaxed);
        let mut first = Box::pin(write(&self.store, "first", test_context()));
        assert!(first.as_mut().now_or_never().is_none());
        self.wait_for_sync();
        let mut jobs = Box::pin(maybe_done(jobs));
        // The first poll puts each job into the queue.
        let _ = jobs.as_mut().now_or_never();
        self.resume.send(()).unwrap();
        let (first, ()) = join(first, jobs.as_mut()).await;
        first.unwrap();
        jobs.as_mut().take_output().unwrap()
    }
}

/// Returns a sync that fails while the flag is set.
fn failing_sync() -> (Arc<AtomicBool>, SyncFn) {
    let fails = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&fails);
    let sync = move |file: &File| {
        let fails = flag.load(Ordering::Relaxed);
        if fails { Err(std::io::ErrorKind::StorageFull.into()) } else { file.sync_all() }
    };
    (fails, Box::new(sync))
}
