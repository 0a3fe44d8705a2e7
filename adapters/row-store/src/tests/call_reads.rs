//! Round trips of the reads of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use reqlore_contract::Storage;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentFilter, StoreResult};

use crate::RowStore;
use crate::database::{Database, RowSource, WriteSession};
use crate::row::{RowQuery, TableRow};
use crate::test_support::simulated::SimulatedDatabase;

#[derive(Debug)]
struct CountingDatabase {
    database: Arc<SimulatedDatabase>,
    reads: AtomicUsize,
}

#[async_trait]
impl RowSource for CountingDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.database.read(queries).await
    }
}

#[async_trait]
impl Database for CountingDatabase {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        self.database.begin_snapshot().await
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        self.database.open_session()
    }
}

/// Reads in one call as tools do.
async fn read_as_tool(storage: &Storage) {
    let (project, id) = (&storage.project, DocumentId::section("linked"));
    let call = storage.store.for_call().unwrap();
    let found = call.lookup(project, DocumentKind::Section, &["linked".to_owned()]).await.unwrap();
    assert_eq!(found.len(), 1);
    let documents = call.get(project, std::slice::from_ref(&id)).await.unwrap();
    assert!(documents[0].is_some());
    let targets = vec!["REQ-001".to_owned()];
    let links = BacklinkQuery { kinds: vec![DocumentKind::Section], targets };
    assert_eq!(call.backlinks(project, &links).await.unwrap()[0].len(), 1);
    call.diagnostics(project, DocumentKind::Section, 10).await.unwrap();
    call.find(project, &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
}

#[test]
fn repeated_call_takes_one_round_trip() {
    reqlore_contract::run(async {
        let database = SimulatedDatabase::new(1, None);
        let counting = Arc::new(CountingDatabase { database, reads: AtomicUsize::new(0) });
        let store = RowStore::start(Arc::clone(&counting) as _).await.unwrap();
        let storage = Storage::in_memory(store);
        storage.put(&DocumentId::section("linked"), "# Linked\n\nSee REQ-001.").await;
        counting.reads.store(0, Ordering::Relaxed);
        read_as_tool(&storage).await;
        let first = counting.reads.swap(0, Ordering::Relaxed);
        assert!(first > 2, "{first}");
        read_as_tool(&storage).await;
        assert_eq!(counting.reads.swap(0, Ordering::Relaxed), 1);
        // A change of the project.
        storage.put(&DocumentId::section("other"), "# Other").await;
        read_as_tool(&storage).await;
        assert_eq!(counting.reads.load(Ordering::Relaxed), first);
    });
}

#[test]
fn results_of_an_earlier_state_are_not_mixed_with_newer_ones() {
    reqlore_contract::run(async {
        let store = RowStore::start(SimulatedDatabase::new(2, None)).await.unwrap();
        let storage = Storage::in_memory(store);
        let (project, id) = (&storage.project, DocumentId::section("a"));
        let ids = std::slice::from_ref(&id);
        storage.put(&id, "one").await;
        let call = storage.store.for_call().unwrap();
        // Reads the row of the document, but not its text.
        call.versions(project, ids).await.unwrap();
        storage.put(&id, "two").await;
        let document = call.get(project, ids).await.unwrap().remove(0).unwrap();
        assert_eq!(document.body, "two");
    });
}
