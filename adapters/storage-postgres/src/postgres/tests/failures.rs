//! Failures of the database and of its connections.

use std::thread;

use reqlore_contract::Storage;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::StoreError;
use reqlore_row_store::database::{CommitOutcome, Database, RowSource, SessionError};
use reqlore_row_store::row::{RowQuery, TableRow};
use reqlore_row_store::tables::USERS;
use reqlore_test_postgres::{PostgresCluster, StopMode};

use super::support::{TestServer, commit, open_pool, put};
use crate::postgres::connect_options::WriteIsolation;
use crate::postgres::errors::{DatabaseError, NextStep};
use crate::postgres::schema::update_schema;
use crate::postgres::session::PostgresDatabase;
use crate::{PasswordSources, PostgresConfig};

fn user(key: &str) -> TableRow {
    TableRow::of(&[key.into(), "text".into()])
}

fn open(url: &str) -> PostgresDatabase {
    PostgresDatabase::new(open_pool(url), WriteIsolation::default())
}

fn with_timeout(url: &str, milliseconds: u32) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options=-c%20statement_timeout%3D{milliseconds}")
}

#[test]
fn error_codes_lead_to_next_steps_and_messages() {
    use NextStep::{Reconnect, Repeat, Report};
    let server = TestServer::empty();
    let client = server.runtime.block_on(server.pool.get()).unwrap();
    for (code, next, part) in [
        ("08006", Reconnect, "the connection was lost; check that it runs"),
        ("0A000", Report, "error 0A000; see Reqlore's log"),
        ("25006", Reconnect, "can only be read, so nothing was written; connect to the primary"),
        ("25P03", Reconnect, "too long in a transaction; raise its"),
        ("26000", Reconnect, "through a pooler of sessions"),
        ("28P01", Report, "rejected the login; correct the user or its password"),
        ("3D000", Report, "does not exist; create it"),
        ("40001", Repeat, "nothing was written; try again"),
        ("40003", Reconnect, "the connection was lost"),
        ("40P01", Repeat, "nothing was written; try again"),
        ("42501", Report, "a permission is missing (the cause); grant it"),
        (
            "42P01",
            Report,
            "its schema is incomplete (the cause); run `reqlore migrate up`, or restore a backup \
             into a new database if nothing is pending",
        ),
        ("53100", Report, "no space is left on its disk, so nothing was written; free some"),
        ("53200", Report, "is short of a resource (the cause); raise its limit"),
        ("53300", Reconnect, "accepts no more connections; raise its `max_connections`"),
        ("54000", Report, "cannot store a change of this size (the cause); split"),
        ("55P03", Repeat, "longer than its `lock_timeout`, so nothing was written; try again"),
        ("57014", Report, "was cancelled, so nothing was written; try again, or raise its"),
        ("57P01", Reconnect, "ended the connection, for example for a restart; try again"),
        ("57P03", Reconnect, "is starting or shutting down; try again"),
        ("58030", Report, "cannot access its files; check its disk and its log"),
        ("OC000", Repeat, "nothing was written; try again"),
        (
            "XX002",
            Report,
            "is damaged (its structure: the cause); restore a backup into a new database",
        ),
    ] {
        let raise =
            format!("DO $$ BEGIN RAISE EXCEPTION 'the cause' USING ERRCODE = '{code}'; END $$");
        let error = server.runtime.block_on(client.batch_execute(&raise)).unwrap_err();
        let error = DatabaseError::from(error);
        let message = error.error.to_string();
        assert_eq!((error.next, error.has_code(&[code])), (next, true), "{code}");
        assert!(message.starts_with("the database: "), "{code}: {message}");
        assert!(message.contains(part), "{code}: {message}");
    }
}

/// A failover would lose the commit. A timeout ends no wait for a standby.
#[test]
fn commit_without_its_standby_is_not_acknowledged() {
    let cluster = PostgresCluster::start();
    let server = open(&cluster.url("postgres"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(update_schema(&open_pool(&cluster.url("postgres")))).unwrap();
    let waiting = open(&with_timeout(&cluster.url("postgres"), 1000));
    cluster.configure("synchronous_standby_names", "missing");
    cluster.reload();
    while cluster.query("SHOW synchronous_standby_names") != ["missing"] {}
    let mut session = waiting.open_session();
    session.begin(&[]).unwrap();
    put(&mut *session, &USERS, vec![user("a")]);
    let outcome = thread::scope(|scope| {
        let writer = scope.spawn(|| session.commit());
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE wait_event = 'SyncRep' AND now() - query_start > interval '2 s'";
        while !writer.is_finished() && cluster.query(end).is_empty() {}
        writer.join().unwrap()
    });
    assert!(matches!(outcome, CommitOutcome::Unknown(_)), "{outcome:?}");
    // It was written indeed, and the next writer sees it.
    let mut session = server.open_session();
    let rows = session.begin(&[RowQuery::all(&USERS)]).unwrap().rows;
    assert_eq!(rows, [[user("a")]]);
    session.roll_back();
}

/// A commit that is not answered does not hold the writer for ever.
#[test]
fn commit_that_is_not_answered_has_an_unknown_outcome() {
    let cluster = PostgresCluster::start();
    let url = cluster.url("postgres");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(update_schema(&open_pool(&url))).unwrap();
    let mut session = open(&url).open_session();
    session.begin(&[]).unwrap();
    put(&mut *session, &USERS, vec![user("a")]);
    cluster.configure("synchronous_standby_names", "missing");
    cluster.reload();
    while cluster.query("SHOW synchronous_standby_names") != ["missing"] {}
    let outcome = session.commit();
    assert!(matches!(&outcome, CommitOutcome::Unknown(reason) if reason == "does not answer"));
}

/// The store finds the lost commit, and waits for the standby again.
#[test]
fn found_commit_is_not_acknowledged_without_its_standby() {
    let cluster = PostgresCluster::start();
    let config = PostgresConfig::parse(&cluster.url("postgres"), &PasswordSources::default());
    let store = reqlore_contract::run(crate::open(config.unwrap())).unwrap();
    let storage = Storage::in_memory(store);
    cluster.configure("synchronous_standby_names", "missing");
    cluster.reload();
    while cluster.query("SHOW synchronous_standby_names") != ["missing"] {}
    let id = DocumentId::section("a");
    thread::scope(|scope| {
        let writer = scope.spawn(|| reqlore_contract::run(storage.put(&id, "text")));
        let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let wait_for = |other: &str| loop {
            let found = cluster.query(waiting);
            assert!(!writer.is_finished());
            if let [pid] = &found[..]
                && pid != other
            {
                return pid.clone();
            }
        };
        let first = wait_for("");
        cluster.query(&format!("SELECT pg_terminate_backend({first})"));
        wait_for(&first);
        cluster.configure("synchronous_standby_names", "");
        cluster.reload();
        writer.join().unwrap();
    });
    assert_eq!(reqlore_contract::run(storage.read_body(&id)).unwrap(), "text");
}

#[test]
fn writer_that_waits_too_long_is_busy() {
    let server = TestServer::new();
    let mut holder = server.open().open_session();
    holder.begin(&[]).unwrap();
    let mut waiting = open(&with_timeout(&server.database.url(), 200)).open_session();
    let error = waiting.begin(&[]).unwrap_err();
    assert!(matches!(error, SessionError::Failed(StoreError::Busy { .. })), "{error:?}");
    holder.roll_back();
    assert!(!waiting.begin(&[]).unwrap().was_interrupted);
    commit(&mut *waiting);
}

#[test]
fn read_is_repeated_after_its_connection_was_lost() {
    let server = TestServer::new();
    server.put(&USERS, vec![user("a")]);
    let lock = server.runtime.block_on(server.pool.get()).unwrap();
    server.runtime.block_on(lock.batch_execute("BEGIN; LOCK TABLE users")).unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| server.read(RowQuery::all(&USERS)));
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while !reader.is_finished() && server.database.query(end).unwrap().is_empty() {}
        server.runtime.block_on(lock.batch_execute("ROLLBACK")).unwrap();
        assert_eq!(reader.join().unwrap(), [user("a")]);
    });
}

#[test]
fn restart_of_the_database_is_survived() {
    let cluster = PostgresCluster::start();
    let url = cluster.url("postgres");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(update_schema(&open_pool(&url))).unwrap();
    let database = open(&url);
    let mut session = database.open_session();
    for mode in [StopMode::Fast, StopMode::Immediate] {
        session.begin(&[]).unwrap();
        put(&mut *session, &USERS, vec![user("a")]);
        commit(&mut *session);
        session.begin(&[]).unwrap();
        put(&mut *session, &USERS, vec![user("b")]);
        runtime.block_on(database.read(vec![RowQuery::all(&USERS)])).unwrap();
        cluster.stop(mode);
        let error = runtime.block_on(database.read(vec![RowQuery::all(&USERS)])).unwrap_err();
        let expected = "the database: cannot be reached; check that it runs, then try again";
        assert_eq!(error.to_string(), expected);
        let outcome = session.commit();
        assert!(!matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
        let error = session.begin(&[]).unwrap_err();
        assert!(matches!(error, SessionError::Disconnected(_)), "{error:?}");
        cluster.start_again();
        let rows = runtime.block_on(database.read(vec![RowQuery::all(&USERS)])).unwrap();
        assert_eq!(rows, [[user("a")]]);
        let begun = session.begin(&[RowQuery::all(&USERS)]).unwrap();
        assert_eq!(begun.rows, [[user("a")]]);
        assert!(begun.was_interrupted);
    }
}
