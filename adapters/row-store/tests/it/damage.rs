//! A driver that returns wrong rows.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_contract::{Storage, run};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, StoreResult};

use reqlore_row_store::RowStore;
use reqlore_row_store::database::{Database, RowSource, WriteSession};
use reqlore_row_store::row::{RowQuery, TableRow};
use reqlore_storage_memory::database::MemoryDatabase;

/// A database that finds each row of a table by each query.
#[derive(Debug)]
struct WrongIndexes(Arc<dyn Database>);

fn without_conditions(queries: &[RowQuery]) -> Vec<RowQuery> {
    queries.iter().map(|query| RowQuery::all(query.table)).collect()
}

#[async_trait]
impl RowSource for WrongIndexes {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        self.0.read(without_conditions(&queries)).await
    }
}

#[async_trait]
impl Database for WrongIndexes {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        self.0.begin_snapshot().await
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        self.0.open_session()
    }
}

#[test]
fn row_that_does_not_match_its_query_is_damage() {
    let database: Arc<dyn Database> = MemoryDatabase::new(1, None);
    let store = run(RowStore::start(Arc::clone(&database))).unwrap();
    let storage = Storage::in_memory(store);
    let ids = ["a", "b"].map(DocumentId::section);
    run(storage.put(&ids[0], "# A"));
    let wrong = run(RowStore::start(Arc::new(WrongIndexes(database)))).unwrap();
    // Both find the only document.
    run(wrong.get(&storage.project, &ids[..1])).unwrap();
    let error = run(wrong.get(&storage.project, &ids[1..])).unwrap_err().to_string();
    assert!(error.contains("is damaged (an index of table bodies)"), "{error}");
    let none =
        DocumentFilter { after_name: Some("a".into()), ..DocumentFilter::of_kind(ids[0].kind) };
    run(wrong.find(&storage.project, &none)).unwrap_err();
}
