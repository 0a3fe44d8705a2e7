//! The cluster that all tests of a worktree share. The first test starts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokio_postgres::Config;

use crate::cluster::{PostgresCluster, write_password_file};
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

/// The server for the databases of tests.
pub(crate) struct SharedServer {
    /// With the password. The path is the database for administration.
    pub(crate) url: String,
    pub(crate) password_file: PathBuf,
}

pub(crate) fn shared_server() -> &'static SharedServer {
    static SERVER: OnceLock<SharedServer> = OnceLock::new();
    SERVER.get_or_init(find_or_start)
}

#[expect(clippy::disallowed_methods, reason = "a developer names another server")]
fn find_or_start() -> SharedServer {
    let named = std::env::var("REQLORE_TEST_POSTGRES").ok();
    // One folder for each version of PostgreSQL.
    let server = match named {
        Some(_) => "named".to_owned(),
        None => programs().display().to_string().replace('/', "-"),
    };
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-postgres");
    let folder = target.join(server);
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let record = folder.join("cluster");
    let url = named.or_else(|| join_running(&record)).unwrap_or_else(|| start_new(&record));
    let password_file = folder.join("passfile");
    let config: Config = url.parse().unwrap();
    let password = config.get_password().unwrap_or_default();
    write_password_file(&password_file, &String::from_utf8_lossy(password));
    SharedServer { url, password_file }
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
