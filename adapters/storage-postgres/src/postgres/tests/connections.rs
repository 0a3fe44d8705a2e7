//! Pool, sessions and passwords on real servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use reqlore_domain::ports::documents::StoreError;
use reqlore_test_postgres::{PostgresCluster, TestDatabase};
use tokio::runtime::{Builder, Runtime};

use super::connect_options::parse;
use crate::postgres::connect_options::{PasswordSources, PostgresConfig};
use crate::postgres::connector::SessionKind;
use crate::postgres::pool::ConnectionPool;
use crate::postgres::session::PostgresDatabase;
use reqlore_row_store::database::RowSource;
use reqlore_row_store::row::{RowQuery, TableRow, Value};
use reqlore_row_store::tables::STORE;

/// The smallest runtime that a caller may have: without a timer and without sockets.
pub(super) fn small_runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn show(pool: &ConnectionPool, setting: &str) -> Result<String, StoreError> {
    small_runtime().block_on(async {
        let client = pool.get().await?;
        let row = client.query_one(&format!("SHOW {setting}"), &[]).await.unwrap();
        Ok(row.get(0))
    })
}

pub(super) fn connect_error(config: PostgresConfig) -> String {
    let pool = ConnectionPool::new(config).unwrap();
    let outcome = small_runtime().block_on(pool.connect(SessionKind::Reader));
    outcome.unwrap_err().operator_text()
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn pool_outlives_the_runtimes_of_its_callers() {
    let database = TestDatabase::new();
    let pool = ConnectionPool::new(parse(&database.url())).unwrap();
    for _ in 0..3 {
        assert_eq!(show(&pool, "application_name").unwrap(), "reqlore");
    }
    // Dropped inside a runtime, as tests and servers do.
    small_runtime().block_on(async { drop(pool) });
}

#[test]
fn session_settings_depend_on_the_job_and_yield_to_the_url() {
    let database = TestDatabase::new();
    let pool = ConnectionPool::new(parse(&database.url())).unwrap();
    assert_eq!(show(&pool, "statement_timeout").unwrap(), "30s");
    assert_eq!(show(&pool, "idle_in_transaction_session_timeout").unwrap(), "5min");
    let writer = small_runtime().block_on(pool.connect(SessionKind::Writer)).unwrap();
    let shown = small_runtime()
        .block_on(writer.query_one("SHOW idle_in_transaction_session_timeout", &[]))
        .unwrap();
    assert_eq!(shown.get::<_, String>(0), "10s");
    let separator = if database.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20statement_timeout%3D7s", database.url());
    let pool = ConnectionPool::new(parse(&url)).unwrap();
    assert_eq!(show(&pool, "statement_timeout").unwrap(), "7s");
    assert_eq!(show(&pool, "lock_timeout").unwrap(), "10s");
}

#[test]
fn expired_connection_is_replaced() {
    let database = TestDatabase::new();
    let pool = ConnectionPool::new(parse(&database.url())).unwrap();
    let backend = || {
        small_runtime().block_on(async {
            let client = pool.get().await.unwrap();
            client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0)
        })
    };
    let first = backend();
    assert_eq!(backend(), first);
    pool.expire_connections();
    assert_ne!(backend(), first);
    database.terminate_backends();
    // A connection that the server ended is noticed at the latest by the statement after it.
    let pool = ConnectionPool::new(parse(&database.url())).unwrap();
    assert_eq!(show(&pool, "application_name").unwrap(), "reqlore");
}

#[test]
fn password_file_is_read_for_every_connection() {
    let cluster = PostgresCluster::start();
    cluster.execute("CREATE ROLE r LOGIN PASSWORD 'first'");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pgpass");
    let write = |password: &str| {
        let port = cluster.port();
        let lines = format!("# a\n*:1:*:*:wrong\n127.0.0.1:{port}:postgres:r:{password}\n*:*\n");
        fs::write(&file, lines).unwrap();
        set_mode(&file, 0o600);
    };
    let sources = PasswordSources { password_file: Some(file.clone()), ..Default::default() };
    let url = format!("postgres://r@127.0.0.1:{}/postgres", cluster.port());
    let config = PostgresConfig::parse(&url, &sources).unwrap();
    let pool = ConnectionPool::new(config.clone()).unwrap();
    write("first");
    assert_eq!(show(&pool, "session_authorization").unwrap(), "r");
    cluster.execute("ALTER ROLE r PASSWORD 'se:co\\nd'");
    pool.expire_connections();
    let error = show(&pool, "session_authorization").unwrap_err();
    assert!(error.to_string().contains("rejected the login"), "{error}");
    write("se\\:co\\\\nd");
    assert_eq!(show(&pool, "session_authorization").unwrap(), "r");

    set_mode(&file, 0o644);
    let message = connect_error(config.clone());
    assert!(message.contains("pgpass: other users can read it; run `chmod 600`"), "{message}");
    let error = ConnectionPool::new(config).unwrap();
    let error = show(&error, "port").unwrap_err().to_string();
    assert!(!error.contains("pgpass"), "clients see no paths: {error}");
}

#[test]
fn missing_host_reports_its_address_to_operators_only() {
    let pool = ConnectionPool::new(parse("postgres://u:s3cret@127.0.0.1:1/n")).unwrap();
    let error = small_runtime().block_on(pool.connect(SessionKind::Writer)).unwrap_err();
    let text = error.operator_text();
    assert!(
        text.starts_with("the database 127.0.0.1:1: cannot be reached (Connection refu"),
        "{text}"
    );
    let error = show(&pool, "port").unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }));
    assert!(!error.to_string().contains("127.0.0.1"), "{error}");
}

/// A host that accepts connections and never answers delays only the first connection.
#[test]
fn last_host_that_worked_is_tried_first() {
    let database = TestDatabase::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let url = database.url();
    let (account, place) = url.split_once('@').unwrap();
    let url = format!("{account}@127.0.0.1:{silent_port},{place}&connect_timeout=1");
    let config = parse(&url);
    assert_eq!(config.connect_timeout(), Duration::from_secs(2));
    let pool = ConnectionPool::new(config).unwrap();
    for _ in 0..3 {
        // Each needs a new connection.
        pool.expire_connections();
        show(&pool, "port").unwrap();
    }
    silent.set_nonblocking(true).unwrap();
    let tried = silent.incoming().take_while(Result::is_ok).count();
    assert_eq!(tried, 1);
}

#[test]
fn busy_pool_names_its_size() {
    let database = TestDatabase::new();
    let separator = if database.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}pool_size=1", database.url());
    let pool = ConnectionPool::new(parse(&url)).unwrap();
    let held = small_runtime().block_on(pool.get()).unwrap();
    let error = small_runtime().block_on(pool.get_within(Duration::ZERO)).unwrap_err();
    assert!(error.error.to_string().contains("all 1 connections to it are in use"));
    drop(held);
    assert!(small_runtime().block_on(pool.get()).is_ok());
}

/// Each place of each setting. The sentence names the setting, its value and the next step.
#[test]
fn settings_that_lose_writes_are_refused() {
    let cluster = PostgresCluster::start();
    cluster.execute("CREATE ROLE r LOGIN SUPERUSER");
    cluster.add_client_rule("host all r 127.0.0.1/32 trust");
    cluster.reload();
    let url = format!("postgres://r@127.0.0.1:{}/postgres?", cluster.port());
    let connect = |parameters: &str| connect_error(parse(&format!("{url}{parameters}")));
    for value in ["off", "local", "remote_write"] {
        let expected = format!(
            "synchronous_commit = {value} loses acknowledged writes in a crash; turn it on for the \
             server, the database, the role and the URL"
        );
        let option = format!("options=-c%20synchronous_commit%3D{value}");
        assert!(connect(&option).ends_with(&expected), "{}", connect(&option));
        for place in ["ROLE r", "DATABASE postgres", "ROLE r IN DATABASE postgres"] {
            cluster.execute(&format!("ALTER {place} SET synchronous_commit = {value}"));
            assert!(connect("").ends_with(&expected), "{place}: {}", connect(""));
            cluster.execute(&format!("ALTER {place} RESET synchronous_commit"));
        }
    }
    for value in ["on", "remote_apply"] {
        cluster.execute(&format!("ALTER ROLE r SET synchronous_commit = {value}"));
        let pool = ConnectionPool::new(parse(&url)).unwrap();
        assert_eq!(show(&pool, "synchronous_commit").unwrap(), value);
    }
    let pool = ConnectionPool::new(parse(&url)).unwrap();
    assert_eq!(show(&pool, "synchronous_commit").unwrap(), "remote_apply");
    cluster.execute("ALTER ROLE r RESET synchronous_commit");
    for name in ["synchronous_commit", "fsync", "full_page_writes"] {
        let lossy = format!("{name} = off");
        set_and_wait(&cluster, name, "off", || connect_error_of_writer(&url).contains(&lossy));
        assert_eq!(show(&pool, "synchronous_commit").unwrap(), "remote_apply", "kept");
        let accepted = ConnectionPool::new(parse(&format!("{url}lossy_settings=accept"))).unwrap();
        assert_eq!(show(&accepted, name).unwrap(), "off");
        set_and_wait(&cluster, name, "on", || connect_error_of_writer(&url).is_empty());
    }
}

fn connect_error_of_writer(url: &str) -> String {
    let pool = ConnectionPool::new(parse(url)).unwrap();
    let outcome = small_runtime().block_on(pool.connect(SessionKind::Writer));
    outcome.err().map(|error| error.operator_text()).unwrap_or_default()
}

/// Sessions read a changed configuration soon after the reload.
fn set_and_wait(cluster: &PostgresCluster, name: &str, value: &str, is_seen: impl Fn() -> bool) {
    cluster.configure(name, value);
    cluster.reload();
    assert!((0..1_000_000).any(|_| is_seen()), "{name} = {value}");
}

#[test]
fn running_server_notices_settings_that_lose_writes() {
    let cluster = PostgresCluster::start();
    let config = parse(&cluster.url("postgres"));
    let database = PostgresDatabase::of_config(config).unwrap();
    let read = || {
        let query = RowQuery::any_of(&STORE, &["id"], vec![TableRow::of(&[Value::Integer(1)])]);
        let rows = small_runtime().block_on(database.read(vec![query]));
        rows.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(read(), "");
    for name in ["fsync", "full_page_writes"] {
        // An existing session is checked each second.
        let problem = "its settings lose acknowledged writes; see Reqlore's log";
        set_and_wait(&cluster, name, "off", || read().ends_with(problem));
        set_and_wait(&cluster, name, "on", || read().is_empty());
    }
}
