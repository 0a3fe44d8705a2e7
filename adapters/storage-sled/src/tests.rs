//! The contract on real folders, and what only a database can do wrong.

mod chain;
mod damage;
mod durability;
mod folders;
mod history;
mod links;
mod opening;
mod oracle;
mod team;
mod values;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_contract::{Storage, act};
use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, DocumentRepository, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;

use crate::base::Base;
use crate::{Config, SledStore};

fn config(folder: &Path) -> Config {
    Config { folder: folder.join("sled") }
}

fn open() -> Storage {
    let guard = tempfile::tempdir().unwrap();
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

reqlore_contract::suite!(async { open() });

fn base(store: &SledStore) -> Arc<Base> {
    Arc::clone(&store.opened().unwrap().base)
}

async fn commit(store: &SledStore, changes: Vec<Change>) -> StoreResult<Committed> {
    commit_to(store, &ProjectKey::default(), changes).await
}

async fn commit_to(
    store: &SledStore,
    project: &ProjectKey,
    changes: Vec<Change>,
) -> StoreResult<Committed> {
    let documents = changes.iter().map(|change| change.id().clone()).collect();
    let reads = ReadSet::of(documents);
    let decide = Box::new(move |_: &_| Ok(changes.clone()));
    store.commit(project, Commit { reads, decide, act: act() }).await
}

async fn put(store: &SledStore, id: &DocumentId, body: &str) -> StoreResult<Committed> {
    commit(store, vec![Change::put(id.clone(), Bytes::copy_from_slice(body.as_bytes()))]).await
}

async fn delete(store: &SledStore, id: &DocumentId) -> Committed {
    commit(store, vec![Change::Delete { id: id.clone() }]).await.unwrap()
}

async fn get(store: &SledStore, id: &DocumentId) -> StoreResult<Option<Document>> {
    let found = store.get(&ProjectKey::default(), std::slice::from_ref(id)).await;
    found.map(|mut found| found.remove(0))
}

fn told<T>(outcome: StoreResult<T>) -> String {
    outcome.err().expect("it is refused").to_string()
}

fn refused(folder: &Path) -> String {
    let outcome = SledStore::open(&config(folder));
    let error = outcome.expect_err("it is not opened");
    assert!(!matches!(error, StoreError::Internal(_)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&folder.join("sled").display().to_string()), "{text}");
    text
}
