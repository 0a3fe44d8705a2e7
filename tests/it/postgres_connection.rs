//! Connections to PostgreSQL that fail: at the start of a server, while it serves, in commands.

use std::path::Path;

use reqlore_test_postgres::{PostgresCluster, StopMode};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{project, reqlore};
use crate::http::{Client, Server, wait_until};
use crate::init::output;

/// Exit code and both outputs of a command line.
fn run(folder: &Path, line: &str, variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = reqlore();
    command.current_dir(folder).args(line.split(' ')).envs(variables.iter().copied());
    let (code, stdout, stderr) = output(&mut command);
    (code, stdout + &stderr)
}

fn serve(folder: &TempDir, url: &str) -> Server {
    let mut command = reqlore();
    command.current_dir(folder.path()).env("REQLORE_STORAGE", url);
    Server::start(command)
}

/// Waits until `/readyz` has this status.
fn wait_for_status(client: &mut Client, status: u16) {
    wait_until("/readyz", || client.get("/readyz").status == status);
}

#[track_caller]
fn assert_unavailable(client: &mut Client) {
    let answer = client.call("create_epic", json!({ "title": "Checkout", "priority": 1 }));
    assert_eq!((answer.status, answer.code()), (503, Some(-32016)), "{answer:?}");
    assert!(answer.head.contains("retry-after: "), "{answer:?}");
    assert!(!answer.body.contains("127.0.0.1"), "clients see no address: {answer:?}");
    assert_eq!(client.get("/livez").status, 200);
}

#[test]
fn server_that_starts_before_its_database_recovers() {
    let (folder, cluster) = (project(), PostgresCluster::start());
    let url = cluster.url("postgres");
    let variables = [("REQLORE_STORAGE", url.as_str())];
    let (code, text) = run(folder.path(), "user add ann --role administrator", &variables);
    assert_eq!(code, 0, "{text}");
    let mut create = reqlore();
    create.args(["token", "create", "--user", "ann"]).envs(variables);
    let token = output(&mut create).1;
    cluster.stop(StopMode::Fast);

    let server = serve(&folder, &url);
    let mut client = server.client(token.trim());
    wait_for_status(&mut client, 503);
    assert_unavailable(&mut client);
    cluster.start_again();
    wait_for_status(&mut client, 200);
    client.data("create_epic", json!({ "title": "Checkout", "priority": 1 }));

    cluster.stop(StopMode::Immediate);
    wait_for_status(&mut client, 503);
    assert_unavailable(&mut client);
    cluster.start_again();
    wait_for_status(&mut client, 200);
    client.data("create_epic", json!({ "title": "Payment", "priority": 1 }));
    let log = server.end();
    let warning = format!("reason=\"the database 127.0.0.1:{}: cannot be reach", cluster.port());
    assert!(log.contains("WARN no connection to the database; trying again"), "{log}");
    assert!(log.contains(&warning), "{log}");
    assert!(log.contains("INFO connected to the database"), "{log}");
    // One for each outage, though the server tried many times. The second is left out if it
    // follows soon.
    assert!(log.matches("no connection to the database").count() <= 2, "{log}");
    assert!(log.contains("waiting for the database; audit on"), "{log}");
}

#[test]
fn server_that_waited_creates_the_tables() {
    let (folder, cluster) = (project(), PostgresCluster::start());
    cluster.stop(StopMode::Fast);
    let server = serve(&folder, &cluster.url("postgres"));
    cluster.start_again();
    wait_for_status(&mut server.client(""), 200);
    let version = cluster.query("SELECT version FROM schema_version");
    assert_eq!(version, ["4"]);
    let log = server.end();
    assert_eq!(log.matches("the schema of the database").count(), 1, "{log}");
    assert!(log.contains("updated the schema of the database version=4 statements="), "{log}");
}

#[test]
fn server_ends_if_waiting_for_its_database_is_futile() {
    let (folder, cluster) = (project(), PostgresCluster::start());
    let url = cluster.url("postgres");
    let wrong = url.replace(cluster.password(), "wr0ng");
    let missing = cluster.url("missing");
    cluster.execute("CREATE ROLE server LOGIN PASSWORD 's3cret'");
    for database in ["newer", "bare"] {
        cluster.execute(&format!("CREATE DATABASE {database}"));
    }
    let newer = cluster.url("newer");
    let (code, text) = run(folder.path(), "migrate up", &[("REQLORE_STORAGE", &newer)]);
    assert_eq!(code, 0, "{text}");
    cluster.query_in("newer", "UPDATE schema_version SET min_server_version = 99").unwrap();
    let bare = format!("postgres://server:s3cret@127.0.0.1:{}/bare", cluster.port());
    let encrypted = url.replace("sslmode=disable", "sslmode=require");
    let down = "postgres://u:s3cret@127.0.0.1:1/n";
    for (transport, url, expected) in [
        ("http", wrong.as_str(), "rejected the login"),
        ("http", &missing, "database \"missing\" does not exist; create it, or correct its name"),
        ("http", &newer, "was written by a newer version of Reqlore"),
        ("http", &bare, "this role may not change it; run `reqlore migrate up`"),
        ("http", &encrypted, "it does not offer TLS"),
        ("stdio", down, "cannot be reached (Connection refused"),
    ] {
        let line = format!("serve --transport {transport} --listen 127.0.0.1:0");
        let (code, text) = run(folder.path(), &line, &[("REQLORE_STORAGE", url)]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    }
}

#[test]
fn connection_errors_name_their_cause_and_remedy() {
    let (folder, cluster) = (project(), PostgresCluster::start());
    let certificates = cluster.enable_tls();
    cluster.add_client_rule(
        "hostnossl all encrypted all reject\nhost all refused all reject\n\
         hostssl all certified all cert",
    );
    cluster.reload();
    for role in ["plain", "encrypted", "refused", "certified", "full"] {
        cluster.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 's3cret'"));
    }
    cluster.execute("ALTER ROLE full CONNECTION LIMIT 0; CREATE ROLE closed PASSWORD 's3cret'");
    for database in ["locked", "hidden", "tables"] {
        cluster.execute(&format!("CREATE DATABASE {database}"));
    }
    cluster.execute("REVOKE ALL ON DATABASE locked FROM PUBLIC");
    cluster.query_in("hidden", "REVOKE ALL ON SCHEMA public FROM PUBLIC").unwrap();
    let tables = cluster.url("tables");
    let (code, text) = run(folder.path(), "migrate up", &[("REQLORE_STORAGE", &tables)]);
    assert_eq!(code, 0, "{text}");
    let root = certificates.authority.display();
    let server = format!("127.0.0.1:{}", cluster.port());
    for (account, place, expected) in [
        ("plain:wr0ng", format!("{server}/tables"), "correct the user or its password"),
        (
            "plain",
            format!("{server}/tables"),
            "it requires a password for the role plain, but none is configured; set PGPASSWORD, or \
             add the line `127.0.0.1:PORT:tables:plain:PASSWORD` to /nonexistent/.pgpass",
        ),
        ("unknown:s3cret", format!("{server}/tables"), "(password authentication failed for user"),
        ("closed:s3cret", format!("{server}/tables"), "(role \"closed\" is not permitted to log"),
        ("plain:s3cret", format!("{server}/none"), "create it, or correct its name in the URL"),
        ("plain:s3cret", format!("{server}/locked"), "permission denied for database \"locked\""),
        ("plain:s3cret", format!("{server}/tables"), "permission denied for table schema_version"),
        ("plain:s3cret", format!("{server}/hidden"), "has no tables of Reqlore that this role may"),
        ("full:s3cret", format!("{server}/tables"), "(too many connections for role \"full\")"),
        ("encrypted:s3cret", format!("{server}/tables"), "set sslmode=verify-full in the URL, or"),
        ("refused:s3cret", format!("{server}/tables?sslmode=require"), "`pg_hba.conf`"),
        (
            "certified:s3cret",
            format!("{server}/tables?sslmode=verify-full&sslrootcert={root}"),
            "name a certificate for this role as sslcert and sslkey in the URL",
        ),
        (
            "plain:s3cret",
            format!("{server}/tables?sslmode=verify-full"),
            "name the authority's certificate as sslrootcert in the URL",
        ),
        (
            "plain:s3cret",
            format!("127.0.0.2:PORT/tables?sslmode=verify-full&sslrootcert={root}"),
            "cannot be reached (Connection refused",
        ),
        ("plain:s3cret", "no.invalid/tables".to_owned(), "cannot be reached (failed to lookup"),
        ("plain:s3cret", "127.0.0.1:1,127.0.0.1:2/n".to_owned(), ". 127.0.0.1:2: cannot be reach"),
        (
            "plain:s3cret",
            format!("{server}/tables?options=-c%20unknown%3D1"),
            "unrecognized configuration parameter \"unknown\"",
        ),
    ] {
        let port = cluster.port().to_string();
        let url = format!("postgres://{account}@{}", place.replace("PORT", &port));
        let expected = expected.replace("PORT", &port);
        let (code, text) = run(folder.path(), "list", &[("REQLORE_STORAGE", &url)]);
        assert_eq!(code, 1, "{place}: {text}");
        assert!(text.contains(&expected), "{account}@{place}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    }
}
