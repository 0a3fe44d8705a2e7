//! Migrations.

use std::fmt::Write as _;

use expect_test::expect_file;

use super::support::{TestServer, commit, key_of, open_pool, put, row_of};
use crate::postgres::schema::{LATEST_VERSION, Migration, migrate, migrations, read_schema_status};
use reqlore_row_store::database::{Database, RowSource};
use reqlore_row_store::row::RowQuery;
use reqlore_row_store::tables::DOCUMENTS;

const NEXT_VERSION: i64 = LATEST_VERSION + 1;

/// A diff needs a migration from each published version, with the same effect.
#[test]
fn empty_database_gets_these_statements() {
    let mut text = String::new();
    for step in &migrations().unwrap()[0].steps {
        let _ = writeln!(text, "{step};\n");
    }
    // The ID and the epoch are random.
    let row = text.lines().find(|line| line.starts_with("INSERT INTO store ")).unwrap();
    let (columns, values) = row.split_once(" VALUES (").unwrap();
    assert!(values.starts_with(r"1, 'complete', '\x"), "{values}");
    let text = text.replace(row, &format!("{columns} VALUES …"));
    expect_file!["schema.sql"].assert_eq(&text);
}

fn next_version(min_server_version: i64) -> Vec<Migration> {
    let mut all = migrations().unwrap();
    all.push(Migration {
        from: LATEST_VERSION,
        version: NEXT_VERSION,
        steps: vec![
            "ALTER TABLE documents ADD COLUMN IF NOT EXISTS rank BIGINT".to_owned(),
            "CREATE INDEX IF NOT EXISTS documents_by_rank ON documents (project, rank)".to_owned(),
            format!(
                "UPDATE schema_version SET version = {NEXT_VERSION}, \
                 min_server_version = {min_server_version} WHERE id = 1"
            ),
        ],
    });
    all
}

#[test]
fn many_servers_at_once_migrate_each_step_once() {
    let server = TestServer::empty();
    let all = next_version(LATEST_VERSION);
    let mut threads = Vec::new();
    for _ in 0..8 {
        let (pool, all) = (server.pool.clone(), all.clone());
        let handle = server.runtime.spawn(async move { migrate(&pool, &all).await });
        threads.push(handle);
    }
    let mut counts = Vec::new();
    for thread in threads {
        counts.push(server.runtime.block_on(thread).unwrap().unwrap());
    }
    let steps: usize = all.iter().map(|migration| migration.steps.len()).sum();
    assert_eq!(counts.iter().sum::<usize>(), steps, "{counts:?}");
    assert_eq!(server.database.query("SELECT name FROM leases").unwrap(), [""; 0]);
    let state = server.runtime.block_on(read_schema_status(&server.pool, &all)).unwrap();
    assert_eq!((state.version, state.latest, state.pending.len()), (NEXT_VERSION, NEXT_VERSION, 0));
}

#[test]
fn interrupted_migration_continues_at_its_step() {
    let server = TestServer::new();
    let all = next_version(LATEST_VERSION);
    // The other server ended after the first step, with the lease.
    let first = &all[1].steps[0];
    server.database.query(first).unwrap();
    let record = format!(
        "INSERT INTO migrations (version, step, statement) VALUES ({NEXT_VERSION}, 1, '{first}'); \
         INSERT INTO leases (name, holder, expires) VALUES ('schema', 'dead', 1)"
    );
    server.database.query(&record).unwrap();
    let state = server.runtime.block_on(read_schema_status(&server.pool, &all)).unwrap();
    assert_eq!(state.pending.iter().map(|one| one.step).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(server.runtime.block_on(migrate(&server.pool, &all)).unwrap(), 2);
}

#[test]
fn dropped_index_is_pending_until_it_is_created_again() {
    let server = TestServer::new();
    let all = migrations().unwrap();
    let pending = || {
        let status = server.runtime.block_on(read_schema_status(&server.pool, &all)).unwrap();
        status.pending.into_iter().map(|one| one.text).collect::<Vec<_>>()
    };
    assert_eq!(pending(), [""; 0]);
    // An index of the same name in another schema does not replace it.
    let drop = "DROP INDEX documents_by_group; CREATE SCHEMA other; \
                CREATE TABLE other.a (b BIGINT); CREATE INDEX documents_by_group ON other.a (b)";
    server.database.query(drop).unwrap();
    let text = "CREATE INDEX IF NOT EXISTS documents_by_group ON documents (project, kind, \
                status, type, position) WHERE position IS NOT NULL";
    assert_eq!(pending(), [text]);
    assert_eq!(server.runtime.block_on(migrate(&server.pool, &all)).unwrap(), 1);
    assert_eq!(pending(), [""; 0]);
}

#[test]
fn newer_schema_is_refused_unless_it_allows_this_version() {
    for (min_server_version, is_refused) in [(LATEST_VERSION, false), (NEXT_VERSION, true)] {
        let server = TestServer::empty();
        server.runtime.block_on(migrate(&server.pool, &next_version(min_server_version))).unwrap();
        let old = migrations().unwrap();
        match server.runtime.block_on(migrate(&server.pool, &old)) {
            Ok(0) => assert!(!is_refused),
            Ok(count) => panic!("{count}"),
            Err(error) => {
                assert!(is_refused);
                let message = error.error.to_string();
                assert!(
                    message.contains(&format!("newer version of Reqlore (schema {NEXT_VERSION}")),
                    "{message}"
                );
                assert!(message.ends_with("update Reqlore"), "{message}");
            }
        }
    }
}

#[test]
fn schema_of_an_earlier_build_is_refused() {
    let server = TestServer::new();
    server.database.query("UPDATE schema_version SET version = 1, min_server_version = 1").unwrap();
    let migrations = migrations().unwrap();
    let refused = server.runtime.block_on(migrate(&server.pool, &migrations)).unwrap_err();
    let message = refused.error.to_string();
    assert!(message.contains("has schema 1 of a build before the first release"), "{message}");
}

#[test]
fn role_without_ddl_rights_is_told_to_migrate() {
    let server = TestServer::empty();
    let role = format!("role_{}", server.database.name());
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'");
    server.database.query(&create).unwrap();
    let url = server.database.url();
    let (_, address) = url.split_once('@').unwrap();
    let pool = open_pool(&format!("postgresql://{role}:secret@{address}"));
    let all = migrations().unwrap();
    let error = server.runtime.block_on(migrate(&pool, &all)).unwrap_err();
    let message = error.error.to_string();
    assert!(message.contains("reqlore migrate up"), "{message}");
    assert!(message.contains("this role may not change it"), "{message}");

    server.runtime.block_on(migrate(&server.pool, &all)).unwrap();
    let grant =
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}");
    server.database.query(&grant).unwrap();
    assert_eq!(server.runtime.block_on(migrate(&pool, &all)).unwrap(), 0);
    server.database.query("DROP INDEX documents_by_group").unwrap();
    let error = server.runtime.block_on(migrate(&pool, &all)).unwrap_err();
    assert_eq!(error.error.to_string(), message);
    drop(pool);
    server.database.query(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).unwrap();
}

#[test]
fn database_in_another_encoding_is_refused() {
    let server = TestServer::empty();
    let name = format!("{}_latin", server.database.name());
    let create = format!(
        "CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc \
         TEMPLATE template0"
    );
    server.database.query(&create).unwrap();
    let url = server.database.url().replace(server.database.name(), &name);
    let pool = open_pool(&url);
    let result = server.runtime.block_on(migrate(&pool, &migrations().unwrap()));
    drop(pool);
    server.database.query(&format!("DROP DATABASE {name} WITH (FORCE)")).unwrap();
    let message = result.unwrap_err().error.to_string();
    assert!(message.contains("SQL_ASCII") && message.contains("ENCODING 'UTF8'"), "{message}");
}

#[test]
fn old_server_works_while_and_after_the_schema_is_extended() {
    let server = TestServer::new();
    let database = server.open();
    let mut session = database.open_session();
    let mut write = |seed: i64| {
        session.begin(&[RowQuery::all(&DOCUMENTS)]).unwrap();
        put(&mut *session, &DOCUMENTS, vec![row_of(&DOCUMENTS, seed)]);
        commit(&mut *session);
        let key = key_of(&DOCUMENTS, &row_of(&DOCUMENTS, seed));
        assert_eq!(server.read(RowQuery::keys(&DOCUMENTS, vec![key])).len(), 1);
    };
    // More often than it takes to keep a plan.
    (0..10).for_each(&mut write);
    let all = next_version(LATEST_VERSION);
    for step in &all[1].steps {
        server.database.query(step).unwrap();
        (10..20).for_each(&mut write);
    }
    server.database.query("UPDATE documents SET rank = 7").unwrap();
    (0..30).for_each(&mut write);
    let ranks = server.database.query("SELECT DISTINCT rank FROM documents ORDER BY rank").unwrap();
    // A replaced row keeps the value that the old server does not know.
    assert_eq!(ranks, ["7", ""]);
}

#[test]
fn outdated_server_stops_reading_and_writing() {
    let server = TestServer::new();
    let database = server.open();
    // The first read checks the schema.
    assert!(server.runtime.block_on(database.current_time()).unwrap().is_some());
    let mut session = database.open_session();
    session.begin(&[]).unwrap();
    put(&mut *session, &DOCUMENTS, vec![row_of(&DOCUMENTS, 1)]);
    commit(&mut *session);
    let read = || server.runtime.block_on(database.read(vec![RowQuery::all(&DOCUMENTS)]));
    assert_eq!(read().unwrap()[0].len(), 1);

    let update = |column: &str, version: i64| {
        let statement = format!("UPDATE schema_version SET {column} = {version}");
        server.database.query(&statement).unwrap();
    };
    update("version", NEXT_VERSION);
    update("min_server_version", NEXT_VERSION);
    let expected = "its schema needs a newer version of Reqlore; update this server";
    let error = session.begin(&[]).unwrap_err().to_store_error().to_string();
    assert!(error.ends_with(expected), "{error}");
    // It checks once a second.
    let error = loop {
        if let Err(error) = read() {
            break error.to_string();
        }
    };
    assert!(error.ends_with(expected), "{error}");
    assert!(read().is_err());
    update("min_server_version", LATEST_VERSION);
    read().unwrap();
    session.begin(&[]).unwrap();
}
