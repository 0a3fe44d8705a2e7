//! A database of a test, with its connections.

use reqlore_test_postgres::TestDatabase;
use tokio::runtime::Runtime;

use crate::postgres::pool::ConnectionPool;
use crate::postgres::schema::{migrate, migrations};
use crate::postgres::session::{PostgresDatabase, WriteIsolation};
use crate::postgres::{PasswordSources, PostgresConfig};
use crate::row::{TableRow, Value};
use crate::tables::{ColumnType, Table};

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
        PostgresDatabase::new(self.pool.clone(), WriteIsolation::ReadCommitted)
    }
}

pub(crate) fn open_pool(url: &str) -> ConnectionPool {
    let config = PostgresConfig::parse(url, &PasswordSources::default()).unwrap();
    ConnectionPool::new(config).unwrap()
}

/// A row of any table, different for each seed.
pub(crate) fn row_of(table: &Table, seed: i64) -> TableRow {
    let mut row = Vec::new();
    for (index, column) in table.columns.iter().enumerate() {
        row.push(match column.kind {
            _ if column.is_nullable && (seed + index as i64) % 2 == 0 => Value::Null,
            ColumnType::Integer => Value::Integer(seed),
            ColumnType::Text => format!("{} {seed:05}", column.name).into(),
            ColumnType::Binary => Value::Binary(vec![0, 1, 255, seed as u8].into()),
        });
    }
    // Integers of a key may not be unique for each seed above: the first column is.
    row
}
