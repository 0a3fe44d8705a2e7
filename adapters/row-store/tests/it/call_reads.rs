//! Reads of calls: their round trips, and the states that they see.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqlore_contract::Storage;
use reqlore_contract::faulty::{FaultPlan, FaultyDatabase};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, DocumentFilter, Refresh, Snapshot, StoreResult,
};
use reqlore_domain::ports::record_list::{RecordQuery, RecordSelection};
use reqlore_row_store::database::{Database, RowSource, WriteSession};
use reqlore_row_store::row::{RowQuery, TableRow};
use reqlore_row_store::{RowStore, in_read_scope};
use reqlore_storage_memory::database::MemoryDatabase;
use reqlore_storage_memory::seeded_random::SeededRandom;

#[derive(Debug, Clone)]
struct CountingDatabase {
    database: Arc<MemoryDatabase>,
    reads: Arc<AtomicUsize>,
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

    fn open_session(&self) -> Box<dyn WriteSession> {
        self.database.open_session()
    }
}

impl CountingDatabase {
    fn new() -> Self {
        Self { database: MemoryDatabase::new(1, None), reads: Arc::default() }
    }

    /// A server with a cache of its own.
    async fn open_storage(&self) -> Storage {
        Storage::in_memory(RowStore::start(Arc::new(self.clone())).await.unwrap())
    }

    fn take_reads(&self) -> usize {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

/// Reads as tools do.
async fn read_as_tool(storage: &Storage) {
    let (store, project, id) = (&storage.store, &storage.project, DocumentId::section("linked"));
    let found = store.lookup(project, DocumentKind::Section, &["linked".to_owned()]).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(storage.read_body(&id).await.is_some());
    let targets = vec!["REQ-001".to_owned()];
    let links = BacklinkQuery { kinds: vec![DocumentKind::Section], targets };
    assert_eq!(store.backlinks(project, &links).await.unwrap()[0].len(), 1);
    let selection = RecordSelection::WithDiagnostic;
    let diagnostics = RecordQuery::select(DocumentKind::Section, selection, 10);
    store.list(project, &diagnostics).await.unwrap();
    store.find(project, &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
    // Of another port: it does not end the state that the call has seen.
    store.identity_epoch().await.unwrap();
}

#[test]
fn repeated_call_takes_one_round_trip() {
    reqlore_contract::run(async {
        let database = CountingDatabase::new();
        let storage = database.open_storage().await;
        storage.put(&DocumentId::section("linked"), "# Linked\n\nSee REQ-001.").await;
        let read_in_scope = || in_read_scope(Box::pin(read_as_tool(&storage)));
        database.take_reads();
        read_in_scope().await;
        let first = database.take_reads();
        assert!(first > 3, "{first}");
        read_in_scope().await;
        // The documents, and the epoch.
        assert_eq!(database.take_reads(), 2);
        // A change of the project.
        storage.put(&DocumentId::section("other"), "# Other").await;
        read_in_scope().await;
        assert_eq!(database.take_reads(), first);
        // No call, so each read asks.
        read_as_tool(&storage).await;
        assert!(database.take_reads() >= first);
    });
}

#[test]
fn call_sees_commits_before_it_and_before_its_changes() {
    reqlore_contract::run(async {
        let database = CountingDatabase::new();
        let [reader, writer] = [database.open_storage().await, database.open_storage().await];
        let id = DocumentId::section("a");
        for text in ["1", "2"] {
            writer.put(&id, text).await;
            in_read_scope(Box::pin(async {
                // The second read may come from the cache.
                assert_eq!(reader.read_body(&id).await.unwrap(), text);
                assert_eq!(reader.read_body(&id).await.unwrap(), text);
                writer.put(&id, "changed").await;
                let store = &reader.store;
                store.changes_since(&reader.project, None, 1, Refresh::Incremental).await.unwrap();
                assert_eq!(reader.read_body(&id).await.unwrap(), "changed");
            }))
            .await;
        }
    });
}

#[test]
fn results_of_an_earlier_state_are_not_mixed_with_newer_ones() {
    reqlore_contract::run(async {
        let storage = CountingDatabase::new().open_storage().await;
        let id = DocumentId::section("a");
        storage.put(&id, "one").await;
        in_read_scope(Box::pin(async {
            // Reads the row of the document, but not its text.
            let ids = std::slice::from_ref(&id);
            storage.store.versions(&storage.project, ids).await.unwrap();
            storage.put(&id, "two").await;
            assert_eq!(storage.read_body(&id).await.unwrap(), "two");
        }))
        .await;
    });
}

async fn open_server(database: &FaultyDatabase) -> Storage {
    loop {
        let database = database.for_server(Arc::new(std::thread::yield_now));
        if let Ok(store) = RowStore::start(Arc::new(database)).await {
            return Storage::in_memory(store);
        }
    }
}

/// Two servers write numbers and read them in calls that last over writes of the other one. Some
/// calls fail.
#[test]
fn calls_of_two_servers_never_go_back() {
    const DOCUMENTS: usize = 3;
    for seed in 0..20 {
        reqlore_contract::run(async {
            let plan = FaultPlan { rate: 80, series: 40, is_visible: true };
            let faulty = FaultyDatabase::new(MemoryDatabase::new(seed, None), plan, seed);
            let servers = [open_server(&faulty).await, open_server(&faulty).await];
            let ids: [DocumentId; DOCUMENTS] = ["a", "b", "c"].map(DocumentId::section);
            let random = Mutex::new(SeededRandom::new(seed));
            let next = |limit: usize| random.lock().unwrap().within(0..limit);
            let written = Mutex::new([0_usize; DOCUMENTS]);
            let write = async || {
                let (server, id) = (next(2), next(DOCUMENTS));
                let number = written.lock().unwrap()[id] + 1;
                let change = DocumentChange::put(ids[id].clone(), number.to_string());
                let decide = move |_: &Snapshot| Ok(vec![change.clone()]);
                if servers[server].commit_from(&ids[id..=id], decide).await.is_ok() {
                    written.lock().unwrap()[id] = number;
                }
            };
            for _ in 0..50 {
                write().await;
                in_read_scope(Box::pin(async {
                    let server = next(2);
                    let mut oldest = *written.lock().unwrap();
                    for _ in 0..next(6) {
                        let id = next(DOCUMENTS);
                        let Storage { store, project, .. } = &servers[server];
                        let Ok(mut read) = store.get(project, &ids[id..=id]).await else {
                            continue;
                        };
                        let number = read.pop().unwrap().map_or(0, |document| {
                            str::from_utf8(&document.body).unwrap().parse().unwrap()
                        });
                        assert!(number >= oldest[id], "seed {seed}: {number} after {oldest:?}");
                        oldest[id] = number;
                        if next(3) == 0 {
                            write().await;
                        }
                    }
                }))
                .await;
            }
        });
    }
}
