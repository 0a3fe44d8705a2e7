//! A database for one test.

use tokio_postgres::Config;

use crate::cluster::random_text;
use crate::shared::shared_server;
use crate::sql::run_sql;

/// An empty database on the shared server. It is dropped with this value.
pub struct TestDatabase {
    server: &'static str,
    name: String,
}

impl TestDatabase {
    #[expect(clippy::new_without_default, reason = "starts a server")]
    pub fn new() -> Self {
        let database = Self { server: shared_server(), name: format!("test_{}", random_text()) };
        database.administrate(&format!("CREATE DATABASE {}", database.name)).unwrap();
        database
    }

    /// URL with user and password.
    pub fn url(&self) -> String {
        let (server, options) = self.server.split_once('?').unwrap_or((self.server, ""));
        let (server, _) = server.rsplit_once('/').expect("a URL names a database");
        format!("{server}/{}?{options}", self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements in this database and returns the first column of all rows. `Err` is the
    /// server's message.
    pub fn query(&self, statements: &str) -> Result<Vec<String>, String> {
        run_sql(&self.url().parse::<Config>().unwrap(), statements)
    }

    /// Ends all connections to this database. Returns their number.
    pub fn terminate_backends(&self) -> usize {
        let terminated = self.administrate(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
        terminated.unwrap().len()
    }

    fn administrate(&self, statements: &str) -> Result<Vec<String>, String> {
        run_sql(&self.server.parse::<Config>().unwrap(), statements)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // Also while a server that the test started is still connected.
        let _ = self.administrate(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_separate_and_dropped() {
        let (one, other) = (TestDatabase::new(), TestDatabase::new());
        one.query("CREATE TABLE here (id BIGINT)").unwrap();
        assert_eq!(one.query("SELECT id FROM here").unwrap(), [""; 0]);
        assert!(other.query("SELECT id FROM here").is_err());
        let list = format!("SELECT datname FROM pg_database WHERE datname = '{}'", one.name());
        assert_eq!(other.query(&list).unwrap(), [one.name()]);
        drop(one);
        assert_eq!(other.query(&list).unwrap(), [""; 0]);
    }

    #[test]
    fn database_order_is_that_of_a_language() {
        let database = TestDatabase::new();
        let sorted = database.query("SELECT * FROM (VALUES ('B'), ('a')) v (t) ORDER BY t");
        assert_eq!(sorted.unwrap(), ["a", "B"]);
    }
}
