//! SQLite runs each query of the store as the driver plans it, without statistics of the data.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqlore_contract::{Storage, run};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_row_store::RowStore;
use reqlore_row_store::database::{
    BegunTransaction, CommitOutcome, Database, RowSource, SessionError, WriteSession,
};
use reqlore_row_store::row::{RowChange, RowQuery, TableRow};
use reqlore_row_store::tables::Table;

use super::corruption::{ask_everything, write_documents};
use super::{connect, database_path, open_driver};
use crate::rows::QueriedRows;
use crate::statements::{QueryPlan, select_text};

/// The queries of a store.
#[derive(Debug, Clone, Default)]
struct Queries(Arc<Mutex<Vec<RowQuery>>>);

impl Queries {
    fn add(&self, queries: &[RowQuery]) {
        self.0.lock().unwrap().extend_from_slice(queries);
    }
}

#[derive(Debug)]
struct RecordingDatabase(Arc<dyn Database>, Queries);

struct Recording<T: ?Sized>(Queries, Box<T>);

#[async_trait]
impl RowSource for RecordingDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<QueriedRows> {
        self.1.add(&queries);
        self.0.read(queries).await
    }
}

#[async_trait]
impl RowSource for Recording<dyn RowSource> {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<QueriedRows> {
        self.0.add(&queries);
        self.1.read(queries).await
    }
}

#[async_trait]
impl Database for RecordingDatabase {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        Ok(Box::new(Recording(self.1.clone(), self.0.begin_snapshot().await?)))
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        Box::new(Recording(self.1.clone(), self.0.open_session()))
    }
}

impl WriteSession for Recording<dyn WriteSession> {
    fn begin(&mut self, queries: &[RowQuery]) -> Result<BegunTransaction, SessionError> {
        self.0.add(queries);
        self.1.begin(queries)
    }

    fn read(&mut self, queries: &[RowQuery]) -> Result<Vec<Vec<TableRow>>, SessionError> {
        self.0.add(queries);
        self.1.read(queries)
    }

    fn write(
        &mut self,
        changes: Vec<(&'static Table, Vec<RowChange>)>,
    ) -> Result<(), SessionError> {
        self.1.write(changes)
    }

    fn commit(&mut self) -> CommitOutcome {
        self.1.commit()
    }

    fn roll_back(&mut self) {
        self.1.roll_back();
    }
}

#[test]
fn queries_run_as_they_are_planned() {
    let (_folder, file) = database_path();
    let queries = Queries::default();
    let database = RecordingDatabase(open_driver(&file), queries.clone());
    let store = run(RowStore::start(Arc::new(database))).unwrap();
    let storage = Storage::in_memory(store);
    run(async {
        write_documents(&storage).await;
        ask_everything(&storage).await;
    });
    let connection = connect(&file);
    let (mut texts, mut scans) = (Vec::new(), Vec::new());
    for query in queries.0.lock().unwrap().iter() {
        let plan = QueryPlan::of(query);
        let text = select_text(query, plan);
        if texts.contains(&text) {
            continue;
        }
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let (mut rows, mut explained) = (explain.raw_query(), String::new());
        while let Some(row) = rows.next().unwrap() {
            explained += &row.get::<_, String>(3).unwrap();
            explained += "; ";
        }
        let is_whole = query.columns.is_empty() && query.range.is_none();
        if explained.contains("SCAN") != is_whole {
            scans.push(format!("{text}: {explained}"));
        }
        // The last columns of a key are no column of an index.
        let is_sorted = explained.contains("TEMP B-TREE FOR ORDER BY");
        if plan.is_exact && !is_whole && is_sorted {
            scans.push(format!("{text}: {explained}"));
        }
        texts.push(text);
    }
    assert!(texts.len() > 25, "{texts:#?}");
    assert!(scans.is_empty(), "{}", scans.join("\n"));
}
