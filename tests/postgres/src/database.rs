//! A database for one test.

use std::process::{Command, Stdio};

use tokio_postgres::Config;

use crate::cluster::{command_url, random_text};
use crate::shared::{SharedServer, shared_server};
use crate::sql::run_sql;

const PREFIX: &str = "test_";

/// An empty database on the shared server. It is dropped with this value, or when another test
/// begins after the end of this process.
pub struct TestDatabase {
    server: &'static SharedServer,
    name: String,
}

impl TestDatabase {
    #[expect(clippy::new_without_default, reason = "starts a server")]
    pub fn new() -> Self {
        let name = format!("{PREFIX}{}_{}", std::process::id(), random_text());
        let database = Self { server: shared_server(), name };
        database.drop_abandoned();
        database.administrate(&format!("CREATE DATABASE {}", database.name)).unwrap();
        database
    }

    /// URL with user and password. The shared server may lose the databases of tests.
    pub fn url(&self) -> String {
        self.plain_url() + "lossy_settings=accept"
    }

    /// URL without parameters of Reqlore, to which one can be appended.
    pub(crate) fn plain_url(&self) -> String {
        let url = &self.server.url;
        let (server, options) = url.split_once('?').unwrap_or((url, ""));
        let (server, _) = server.rsplit_once('/').expect("a URL names a database");
        let separator = if options.is_empty() { "" } else { "&" };
        format!("{server}/{}?{options}{separator}", self.name)
    }

    /// URL for a command line: the password is in a file that it names.
    pub fn command_url(&self) -> String {
        command_url(&self.url(), &self.server.password_file)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements in this database and returns the first column of all rows. `Err` is the
    /// server's message.
    pub fn query(&self, statements: &str) -> Result<Vec<String>, String> {
        run_sql(&self.plain_url().parse::<Config>().unwrap(), statements)
    }

    /// Ends all connections to this database. Returns their number.
    pub fn terminate_backends(&self) -> usize {
        let terminated = self.administrate(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
        terminated.unwrap().len()
    }

    /// Drops the databases of processes that have ended without it.
    fn drop_abandoned(&self) {
        let list = format!("SELECT datname FROM pg_database WHERE datname LIKE '{PREFIX}%'");
        for name in self.administrate(&list).unwrap() {
            let owner = name.trim_start_matches(PREFIX).split('_').next().unwrap_or_default();
            if !is_running(owner) {
                // Another test may do the same.
                let _ = self.administrate(&format!("DROP DATABASE {name} WITH (FORCE)"));
            }
        }
    }

    fn administrate(&self, statements: &str) -> Result<Vec<String>, String> {
        run_sql(&self.server.url.parse::<Config>().unwrap(), statements)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // Also while a server that the test started is still connected.
        let _ = self.administrate(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn is_running(process: &str) -> bool {
    let check = Command::new("kill").args(["-0", process]).stderr(Stdio::null()).status();
    check.unwrap().success()
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

    #[test]
    fn database_of_a_killed_test_is_dropped() {
        let mut owner = Command::new("sleep").arg("1000").spawn().unwrap();
        let one = TestDatabase::new();
        let abandoned = format!("{PREFIX}{}_x", owner.id());
        one.administrate(&format!("CREATE DATABASE {abandoned}")).unwrap();
        let list = format!("SELECT datname FROM pg_database WHERE datname = '{abandoned}'");
        assert_eq!(TestDatabase::new().query(&list).unwrap(), [abandoned]);
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(TestDatabase::new().query(&list).unwrap(), [""; 0]);
    }
}
