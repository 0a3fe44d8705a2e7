//! Plans of queries on a real server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference, Status};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::change_page::ChangePage;
use reqlore_domain::ports::documents::{DocumentRepository as _, Refresh, StoreResult};
use reqlore_domain::ports::record_list::{OrderField, RecordCounts, RecordQuery, SortField};
use reqlore_domain::project_key::ProjectKey;
use tokio_postgres::SimpleQueryMessage;

use super::support::{TestServer, key_of, row_of};
use crate::postgres::session::PostgresDatabase;
use crate::postgres::statements::SqlStatement;
use reqlore_row_store::RowStore;
use reqlore_row_store::database::{Database, RowSource, WriteSession};
use reqlore_row_store::row::{RowQuery, TableRow, Value};
use reqlore_row_store::tables::{DOCUMENTS, HISTORY, IDEMPOTENCY, ITEM_COUNTS, TABLES};

/// The plan that a connection keeps for any parameters.
fn generic_plan(server: &TestServer, sql: &SqlStatement<'_>) -> String {
    let nulls = vec!["NULL"; sql.parameters.len()].join(", ");
    let script = [
        "SET plan_cache_mode = force_generic_plan".to_owned(),
        format!("PREPARE one AS {}", sql.text),
        format!("EXPLAIN EXECUTE one ({nulls})"),
        "DEALLOCATE one".to_owned(),
    ];
    let client = server.runtime.block_on(server.pool.get()).unwrap();
    let mut plan = String::new();
    for statement in script {
        for message in server.runtime.block_on(client.simple_query(&statement)).unwrap() {
            if let SimpleQueryMessage::Row(row) = message {
                plan.push_str(row.get(0).unwrap());
                plan.push('\n');
            }
        }
    }
    plan
}

#[test]
fn lookups_use_the_primary_key_of_an_analyzed_table() {
    let server = TestServer::new();
    for count in [0, 5, 2000] {
        for table in TABLES {
            let mut rows = Vec::new();
            rows.extend((0..count).map(|seed| row_of(table, 10 * seed + 1)));
            // In sessions that are too short to analyze the table.
            for part in rows.chunks(400) {
                server.put(table, part.to_vec());
            }
            // With statistics of a few rows, PostgreSQL may take an index on project and kind.
            if count > 0 {
                server.database.query(&format!("ANALYZE {}", table.name)).unwrap();
            }
            let keys = vec![key_of(table, &row_of(table, 1)), key_of(table, &row_of(table, 2))];
            let one = RowQuery::keys(table, keys[..1].to_vec());
            let many = RowQuery::keys(table, keys.clone());
            let all_keys: Vec<_> = keys.iter().collect();
            for sql in [
                SqlStatement::select(std::slice::from_ref(&one)).unwrap(),
                SqlStatement::select(std::slice::from_ref(&many)).unwrap(),
                SqlStatement::delete(table, &all_keys).unwrap(),
            ] {
                let plan = generic_plan(&server, &sql);
                assert!(!plan.contains("Seq Scan"), "{count} {plan}");
                if count == 2000 {
                    let key = format!("{}_pkey", table.name);
                    assert!(plan.contains(&key) && plan.contains("Index Cond"), "{plan}");
                }
            }
        }
    }
}

/// A database that remembers the queries of all reads.
#[derive(Debug)]
pub(super) struct RecordingDatabase {
    pub(super) database: PostgresDatabase,
    pub(super) queries: Arc<Mutex<Vec<RowQuery>>>,
}

#[async_trait]
impl RowSource for RecordingDatabase {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        self.queries.lock().unwrap().extend(queries.clone());
        self.database.read(queries).await
    }
}

#[async_trait]
impl Database for RecordingDatabase {
    async fn begin_snapshot(&self) -> StoreResult<Box<dyn RowSource>> {
        self.database.begin_snapshot().await
    }

    fn open_session(&self) -> Box<dyn WriteSession> {
        self.database.open_session()
    }
}

/// Calls that read documents by more than their keys.
async fn read_by_indexes(store: &RowStore) {
    let (project, kind) = (ProjectKey::default(), ItemKind::Requirement);
    let parent = Reference { kind: ItemKind::UserStory, number: 7 };
    let words = ["REQ-001".to_owned(), "REQ-002".to_owned()];
    store.lookup(&project, DocumentKind::Item(kind), &words).await.unwrap();
    let all = RecordQuery::of_items(kind, 50);
    store.list(&project, &all).await.unwrap();
    let mut by_time = all.clone();
    by_time.order.field = OrderField::Builtin(SortField::Updated);
    store.list(&project, &by_time).await.unwrap();
    let mut of_group = all.clone();
    of_group.filter.status = Some(Status::Draft);
    store.list(&project, &of_group).await.unwrap();
    let mut of_parents = all;
    of_parents.filter.parents = Some(BTreeSet::from([parent, Reference { number: 8, ..parent }]));
    store.list(&project, &of_parents).await.unwrap();
    let children = RecordQuery { filter: of_parents.filter, ..RecordQuery::of_items(kind, 0) };
    store.list(&project, &children.count_by(RecordCounts::ChildStatus)).await.unwrap();
    let newest = store.changes_since(&project, None, 9, Refresh::Full).await.unwrap();
    let ChangePage::Reset { position } = newest else { panic!("{newest:?}") };
    store.changes_since(&project, Some(position), 9, Refresh::Full).await.unwrap();
    store.versions(&project, &[DocumentId::section("a")]).await.unwrap();
}

/// The text of a plan names an index after the word `using`.
#[test]
fn each_index_serves_a_query_and_no_list_scans_its_table() {
    let server = TestServer::new();
    for table in [&DOCUMENTS, &HISTORY, &IDEMPOTENCY] {
        for seed in 0..5 {
            let rows = (0..400).map(|row| row_of(table, 10 * (400 * seed + row) + 1)).collect();
            server.put(table, rows);
        }
        server.database.query(&format!("ANALYZE {}", table.name)).unwrap();
    }
    // A list reads the groups that have items.
    let group = ["default", "", "", "requirement", "Draft", "Functional"].map(Value::from);
    let counts = TableRow::of(&group).with(&[3.into(), 3.into()]);
    server.put(&ITEM_COUNTS, vec![counts]);
    let database = Arc::new(RecordingDatabase { database: server.open(), queries: Arc::default() });
    server.runtime.block_on(async {
        let store = RowStore::start(Arc::clone(&database) as Arc<dyn Database>);
        read_by_indexes(&store.await.unwrap()).await;
    });
    let mut queries = std::mem::take(&mut *database.queries.lock().unwrap());
    queries.retain(|query| *query.table == DOCUMENTS);
    // The writer removes what is old.
    for (table, column) in [(&HISTORY, "ended"), (&IDEMPOTENCY, "at")] {
        let old = RowQuery::all(table).within(column, 0.into()..9.into());
        queries.push(old.sorted_by(&[column]).limited_to(100));
    }
    let mut plans = String::new();
    for query in &queries {
        let sql = SqlStatement::select(std::slice::from_ref(query)).unwrap();
        let plan = generic_plan(&server, &sql);
        assert!(!plan.contains("Seq Scan"), "{query:?}\n{plan}");
        plans.push_str(&plan);
    }
    for index in TABLES.iter().flat_map(|table| table.indexes) {
        assert!(plans.contains(&format!("using {} ", index.name)), "{}\n{plans}", index.name);
    }
}
