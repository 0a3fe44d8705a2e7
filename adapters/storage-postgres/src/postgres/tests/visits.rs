//! The rows that PostgreSQL visits for each read in a large database.

use std::sync::{Arc, Mutex};

use reqlore_contract::Storage;
use reqlore_contract::large::{self, Work};
use reqlore_row_store::RowStore;
use reqlore_row_store::row::RowQuery;

use super::plans::RecordingDatabase;
use super::support::TestServer;
use crate::postgres::statements::SqlStatement;

/// Runs a query again. Returns its plan with the numbers of rows.
async fn analyze(server: &TestServer, query: &RowQuery) -> Vec<String> {
    let statement = SqlStatement::select(std::slice::from_ref(query)).unwrap();
    let client = server.pool.get().await.unwrap();
    let mut parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = Vec::new();
    for parameter in &statement.parameters {
        parameters.push(&**parameter);
    }
    let text = format!("EXPLAIN (ANALYZE, TIMING OFF) {}", statement.text);
    let rows = client.query(&text, &parameters).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn number_after(line: &str, label: &str) -> Option<u64> {
    let digits = line.split_once(label)?.1;
    let end = digits.find(|one: char| !one.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// Adds the rows of scans, also those that a filter removed.
fn add_work(work: &mut Work, plan: &[String], query: &RowQuery) {
    work.returned += query.tuples.len() as u64;
    work.returned += number_after(&plan[0], "(actual rows=").unwrap_or_default();
    for line in plan {
        // The rows of an index are those of the scan above it.
        let is_scan = line.contains("Scan ") && !line.contains("Bitmap Index Scan");
        if is_scan && !line.contains("Function Scan") {
            let rows = number_after(line, "(actual rows=").unwrap_or_default();
            work.visited += rows * number_after(line, "loops=").unwrap_or(1);
        }
        work.visited += number_after(line, "Rows Removed by Filter: ").unwrap_or_default();
    }
}

#[test]
fn no_read_visits_many_more_rows_than_it_returns() {
    let server = TestServer::new();
    let queries = Arc::<Mutex<Vec<RowQuery>>>::default();
    let database = RecordingDatabase { database: server.open(), queries: Arc::clone(&queries) };
    let is_analyzed = Mutex::new(false);
    let work = || {
        let queries = std::mem::take(&mut *queries.lock().unwrap());
        if !std::mem::replace(&mut *is_analyzed.lock().unwrap(), true) {
            server.database.query("ANALYZE").unwrap();
        }
        let mut work = Work { visited: 0, returned: 0 };
        let mut explain = || {
            for query in &queries {
                let plan = server.runtime.block_on(analyze(&server, query));
                add_work(&mut work, &plan, query);
            }
        };
        // A runtime cannot wait on one of its own threads.
        std::thread::scope(|scope| scope.spawn(&mut explain).join().unwrap());
        work
    };
    server.runtime.block_on(async {
        let store = RowStore::start(Arc::new(database)).await.unwrap();
        large::check_work(&Storage::in_memory(store), work).await;
    });
}
