//! A database of a test, with its connections.

use reqlore_row_store::database::{CommitOutcome, Database, RowSource, WriteSession};
use reqlore_row_store::row::{RowBuffer, RowChange, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{ColumnType, Table};
use reqlore_test_postgres::TestDatabase;
use tokio::runtime::Runtime;

use crate::postgres::connect_options::WriteIsolation;
use crate::postgres::pool::ConnectionPool;
use crate::postgres::schema::{migrate, migrations};
use crate::postgres::session::PostgresDatabase;
use crate::postgres::{PasswordSources, PostgresConfig};

pub(crate) struct TestServer {
    pub(crate) database: TestDatabase,
    pub(crate) runtime: Runtime,
    pub(crate) pool: ConnectionPool,
}

impl TestServer {
    pub(crate) fn empty() -> Self {
        let database = TestDatabase::new();
        let runtime = Runtime::new().unwrap();
        let pool = open_pool(&database.url());
        Self { database, runtime, pool }
    }

    pub(crate) fn new() -> Self {
        let server = Self::empty();
        let migrations = migrations().unwrap();
        server.runtime.block_on(migrate(&server.pool, &migrations)).unwrap();
        server
    }

    pub(crate) fn open(&self) -> PostgresDatabase {
        self.open_with(WriteIsolation::default())
    }

    pub(crate) fn open_with(&self, isolation: WriteIsolation) -> PostgresDatabase {
        PostgresDatabase::new(self.pool.clone(), isolation)
    }

    /// Reads on the pool.
    pub(crate) fn read(&self, query: RowQuery) -> Vec<TableRow> {
        self.try_read(query).unwrap()
    }

    pub(crate) fn try_read(&self, query: RowQuery) -> Result<Vec<TableRow>, String> {
        let rows = self.runtime.block_on(self.open().read(vec![query]));
        Ok(rows.map_err(|error| error.to_string())?.remove(0))
    }

    /// Writes rows in a transaction of its own.
    pub(crate) fn put(&self, table: &'static Table, rows: Vec<TableRow>) {
        let mut session = self.open().open_session();
        session.begin(&[]).unwrap();
        put(&mut *session, table, rows);
        commit(&mut *session);
    }
}

pub(crate) fn put(session: &mut dyn WriteSession, table: &'static Table, rows: Vec<TableRow>) {
    let mut changes = Vec::new();
    changes.extend(rows.into_iter().map(RowChange::Insert));
    session.write(vec![(table, changes)]).unwrap();
}

pub(crate) fn commit(session: &mut dyn WriteSession) {
    let outcome = session.commit();
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
}

pub(crate) fn open_pool(url: &str) -> ConnectionPool {
    let config = PostgresConfig::parse(url, &PasswordSources::default()).unwrap();
    ConnectionPool::new(config).unwrap()
}

/// A row of any table. Each seed gives another key, in the order of the seeds. As in real data,
/// there are few projects and kinds.
pub(crate) fn row_of(table: &Table, seed: i64) -> TableRow {
    let mut row = RowBuffer::default();
    for (index, column) in table.columns.iter().enumerate() {
        let number = seed + i64::try_from(index).unwrap();
        match column.kind {
            ColumnType::Text if column.name == "project" && table.key_width > 1 => {
                row.push("p".into());
            }
            ColumnType::Text if column.name == "kind" && table.key_width > 2 => {
                row.push("k".into());
            }
            _ if column.is_nullable && number % 2 == 0 => row.push(Value::Null),
            ColumnType::Integer => row.push(number.into()),
            ColumnType::Text => row.push((&format!("{} {number:07}", column.name)).into()),
            ColumnType::Binary => row.push(number.to_be_bytes()[..].into()),
        }
    }
    row.take()
}

pub(crate) fn key_of(table: &Table, row: &TableRow) -> TableRow {
    row.prefix(table.key_width)
}
