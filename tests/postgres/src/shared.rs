//! The cluster that all tests of a worktree share. The first test starts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokio_postgres::Config;

use crate::cluster::PostgresCluster;
use crate::programs::{programs, set_mode};
use crate::sql::run_sql;

/// The cluster ends after this time without a test.
const PATIENCE_SECONDS: u32 = 20;

/// Databases live for one test, so that a loss of power may lose them.
const FAST_SETTINGS: [(&str, &str); 8] = [
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("max_wal_size", "4GB"),
    ("autovacuum", "off"),
    ("bgwriter_lru_maxpages", "0"),
];

/// URL of the shared server, whose path is the database `postgres`.
pub(crate) fn shared_server() -> &'static str {
    static SERVER: OnceLock<String> = OnceLock::new();
    SERVER.get_or_init(find_or_start)
}

#[expect(clippy::disallowed_methods, reason = "a developer names another server")]
fn find_or_start() -> String {
    if let Ok(url) = std::env::var("REQLORE_TEST_POSTGRES") {
        return url;
    }
    let folder = record_folder();
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let record = folder.join("cluster");
    join_running(&record).unwrap_or_else(|| start_new(&record))
}

/// One record for each version of PostgreSQL.
fn record_folder() -> PathBuf {
    let version = programs().display().to_string().replace('/', "-");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-postgres").join(version)
}

fn join_running(record: &Path) -> Option<String> {
    let text = fs::read_to_string(record).ok()?;
    let (folder, url) = text.trim_end().split_once('\n')?;
    let user = Path::new(folder).join("users").join(std::process::id().to_string());
    fs::write(user, "").ok()?;
    // The watcher removes the record before it looks for users for the last time.
    if fs::read_to_string(record).ok()? != text {
        return None;
    }
    let config: Config = url.parse().ok()?;
    run_sql(&config, "SELECT 1").ok()?;
    Some(url.to_owned())
}

fn start_new(record: &Path) -> String {
    let cluster = PostgresCluster::create();
    for (name, value) in FAST_SETTINGS {
        cluster.configure(name, value);
    }
    let cluster = cluster.finish_start(record, PATIENCE_SECONDS);
    let url = cluster.url("postgres");
    let text = format!("{}\n{url}\n", cluster.place.folder.display());
    let unfinished = record.with_extension("new");
    fs::write(&unfinished, "").unwrap();
    set_mode(&unfinished, 0o600);
    fs::write(&unfinished, text).unwrap();
    fs::rename(&unfinished, record).unwrap();
    cluster.keep();
    url
}
