//! Transactions and reads.

use std::thread;

use reqlore_row_store::database::{CommitOutcome, Database, RowSource, SessionError, WriteSession};
use reqlore_row_store::row::{RowChange, RowKey, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{DOCUMENTS, IDEMPOTENCY, LINKS, PROJECTS, STORE, TABLES, USERS};

use super::support::{TestServer, commit, key_of, put, row_of};
use crate::postgres::connect_options::WriteIsolation;

fn user(key: &str, text: &str) -> TableRow {
    TableRow::of(&[key.into(), text.into()])
}

#[test]
fn rows_of_all_tables_are_put_replaced_and_deleted() {
    let server = TestServer::new();
    let mut session = server.open().open_session();
    for table in TABLES {
        let rows = vec![row_of(table, 10), row_of(table, 20), row_of(table, 30)];
        let mut newer = rows.clone();
        for row in &mut newer {
            for (index, column) in table.columns.iter().enumerate() {
                if column.is_nullable {
                    *row = row.replace(index, Value::Null);
                }
            }
        }
        session.begin(&[]).unwrap();
        put(&mut *session, table, rows.clone());
        let mut keys = Vec::new();
        keys.extend(rows.iter().map(|row| key_of(table, row)));
        let mut found = session.read(&[RowQuery::keys(table, keys.clone())]).unwrap().remove(0);
        found.sort();
        assert_eq!(found, rows, "{}", table.name);
        put(&mut *session, table, newer.clone());
        commit(&mut *session);
        for (row, key) in newer.iter().zip(&keys) {
            let found = server.read(RowQuery::keys(table, vec![key.clone()]));
            assert_eq!(found, std::slice::from_ref(row), "{}", table.name);
        }
        session.begin(&[]).unwrap();
        let delete = |key: &RowKey| RowChange::Delete { key: key.clone(), before: None };
        let delete = vec![delete(&keys[0]), delete(&keys[2])];
        session.write(vec![(table, delete)]).unwrap();
        commit(&mut *session);
        let mut found = server.read(RowQuery::keys(table, keys));
        found.retain(|row| *table != STORE || row.value(0) != Value::Integer(1));
        assert_eq!(found, [newer[1].clone()], "{}", table.name);
    }
}

#[test]
fn query_conditions_select_sort_and_limit_rows() {
    let server = TestServer::new();
    let mut rows = Vec::new();
    for (project, at) in [("a", 1), ("a", 2), ("a", 3), ("B", 1), ("é", 9)] {
        let target = at.to_string();
        let link = [project.into(), (&target).into(), "k".into(), "n".into(), "r".into()];
        rows.push(TableRow::of(&link));
    }
    server.put(&LINKS, rows.clone());
    let all = server.read(RowQuery::all(&LINKS).sorted_by(&["project", "target"]));
    // By bytes, not by the order of a language.
    assert_eq!(all, [&rows[3], &rows[0], &rows[1], &rows[2], &rows[4]].map(Clone::clone));
    let of_a = || {
        RowQuery::any_of(&LINKS, &["project"], vec![TableRow::of(&["a".into()])])
            .sorted_by(&["target"])
    };
    assert_eq!(server.read(of_a().limited_to(2)), rows[..2]);
    let descending = RowQuery { is_descending: true, ..of_a().limited_to(2) };
    assert_eq!(server.read(descending), [rows[2].clone(), rows[1].clone()]);
    assert_eq!(server.read(of_a().within("target", "2".into().."3".into())), rows[1..2]);
    assert_eq!(server.read(RowQuery { tuples: Vec::new(), ..of_a() }), Vec::new());
    let keys = [["a", "3"], ["B", "1"]].map(|key| TableRow::of(&key.map(Value::from))).to_vec();
    assert_eq!(server.read(RowQuery::keys(&LINKS, keys)).len(), 2);
    let projects = ["é", "none"].map(|key| TableRow::of(&[key.into()])).to_vec();
    assert_eq!(server.read(RowQuery::keys(&LINKS, projects)), rows[4..]);

    server.put(&DOCUMENTS, vec![row_of(&DOCUMENTS, 1), row_of(&DOCUMENTS, 2)]);
    let present = RowQuery { not_null: Some("version"), ..RowQuery::all(&DOCUMENTS) };
    let found = server.read(present);
    assert_eq!(found.len(), 1);
    assert_ne!(found[0].value(5), Value::Null);
}

#[test]
fn texts_with_nul_are_stored_and_sorted() {
    let server = TestServer::new();
    let mut rows = Vec::new();
    for key in ["\0", "\0a", "\u{1}", "\u{1}\0", "\u{1}1", "\u{2}", "0", "a\0\u{1}b"] {
        rows.push(user(key, &format!("text of {key}")));
    }
    server.put(&USERS, rows.clone());
    assert_eq!(server.read(RowQuery::all(&USERS).sorted_by(&["key"])), rows);
    for row in &rows {
        let one = RowQuery::any_of(&USERS, &["key"], vec![TableRow::of(&[row.value(0)])]);
        assert_eq!(server.read(one), std::slice::from_ref(row));
    }
    let range = RowQuery::all(&USERS).within("key", "\0a".into().."\u{1}\0".into());
    assert_eq!(server.read(range.sorted_by(&["key"])), rows[1..3]);
}

#[test]
fn damaged_row_is_an_error_that_names_the_row() {
    for (change, key) in [("text = 'other'", "a"), ("key = 'b'", "b"), ("checksum = 7", "a")] {
        let server = TestServer::new();
        server.put(&USERS, vec![user("a", "one")]);
        server.database.query(&format!("UPDATE users SET {change}")).unwrap();
        let message = server.try_read(RowQuery::all(&USERS)).unwrap_err();
        let expected = format!(
            "the database: is damaged (row {key} of table users); restore a backup into a new \
             database with `reqlore restore`"
        );
        assert_eq!(message, expected, "{change}");
    }
}

#[test]
fn writers_lose_no_change_at_any_isolation() {
    use WriteIsolation::{ReadCommitted, RepeatableRead, Serializable};
    const WRITERS: usize = 6;
    const ROUNDS: i64 = 20;
    let server = TestServer::new();
    for (project, isolation) in [("a", ReadCommitted), ("b", RepeatableRead), ("c", Serializable)] {
        let row =
            || RowQuery::any_of(&PROJECTS, &["project"], vec![TableRow::of(&[project.into()])]);
        let database = server.open_with(isolation);
        let mut conflicts = 0;
        thread::scope(|scope| {
            let mut writers = Vec::new();
            for _ in 0..WRITERS {
                let mut session = database.open_session();
                writers.push(scope.spawn(move || {
                    let mut conflicts = 0;
                    for _ in 0..ROUNDS {
                        while !increment(&mut *session, project, &row()) {
                            conflicts += 1;
                        }
                    }
                    conflicts
                }));
            }
            for writer in writers {
                conflicts += writer.join().unwrap();
            }
        });
        let revision = i64::try_from(WRITERS).unwrap() * ROUNDS;
        assert_eq!(server.read(row())[0].value(1), Value::Integer(revision), "{isolation:?}");
        assert!(isolation != ReadCommitted || conflicts == 0, "{conflicts} conflicts");
    }
}

/// False after a conflict.
fn increment(session: &mut dyn WriteSession, project: &str, row: &RowQuery) -> bool {
    let found = match session.begin(std::slice::from_ref(row)) {
        Ok(mut begun) => begun.rows.remove(0),
        Err(SessionError::Conflict(_)) => return false,
        Err(error) => panic!("{error:?}"),
    };
    let revision = match found.first().map(|row| row.value(1)) {
        Some(Value::Integer(revision)) => revision,
        _ => 0,
    };
    let row = [project.into(), (revision + 1).into(), 0.into(), 0.into()];
    put(session, &PROJECTS, vec![TableRow::of(&row)]);
    match session.commit() {
        CommitOutcome::Committed => true,
        CommitOutcome::NotWritten(SessionError::Conflict(_)) => false,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn rejected_write_fails_and_cannot_be_committed() {
    let server = TestServer::new();
    let mut session = server.open().open_session();
    session.begin(&[]).unwrap();
    put(&mut *session, &USERS, vec![user("a", "one")]);
    let row = RowChange::Insert(TableRow::of(&["b".into(), Value::Null]));
    let error = session.write(vec![(&USERS, vec![row])]).unwrap_err();
    assert!(matches!(error, SessionError::Failed(_)), "{error:?}");
    assert!(matches!(session.commit(), CommitOutcome::NotWritten(SessionError::Failed(_))));
    session.roll_back();
    let begun = session.begin(&[RowQuery::all(&USERS)]).unwrap();
    assert_eq!(begun.rows, [Vec::new()]);
    assert!(!begun.was_interrupted);
    commit(&mut *session);
}

#[test]
fn lost_connection_of_a_writer_is_reported_and_replaced() {
    let server = TestServer::new();
    let mut session = server.open().open_session();
    session.begin(&[]).unwrap();
    put(&mut *session, &USERS, vec![user("a", "one")]);
    server.database.terminate_backends();
    let error = session.read(&[RowQuery::all(&USERS)]).unwrap_err();
    assert!(matches!(error, SessionError::Disconnected(_)), "{error:?}");
    let begun = session.begin(&[RowQuery::all(&USERS)]).unwrap();
    assert!(begun.was_interrupted);
    assert_eq!(begun.rows, [Vec::new()]);
    put(&mut *session, &USERS, vec![user("b", "two")]);
    server.database.terminate_backends();
    let outcome = session.commit();
    let is_lost = matches!(
        outcome,
        CommitOutcome::Unknown(_) | CommitOutcome::NotWritten(SessionError::Disconnected(_))
    );
    assert!(is_lost, "{outcome:?}");
    // Nothing was open.
    server.database.terminate_backends();
    let begun = loop {
        if let Ok(begun) = session.begin(&[]) {
            break begun;
        }
    };
    assert!(begun.was_interrupted);
    commit(&mut *session);
}

#[test]
fn reads_survive_the_end_of_all_connections() {
    let server = TestServer::new();
    server.put(&USERS, vec![user("a", "one")]);
    let database = server.open();
    for _ in 0..5 {
        let queries = vec![RowQuery::all(&USERS), RowQuery::all(&STORE)];
        let rows = server.runtime.block_on(database.read(queries)).unwrap();
        assert_eq!((rows[0].len(), rows[1].len()), (1, 1));
        server.database.terminate_backends();
    }
}

#[test]
fn snapshot_keeps_its_state_and_leaves_no_transaction() {
    let server = TestServer::new();
    let database = server.open();
    let count = |number: i64| vec![user(&number.to_string(), "text")];
    server.put(&USERS, count(1));
    let snapshot = server.runtime.block_on(database.begin_snapshot()).unwrap();
    server.put(&USERS, count(2));
    for _ in 0..2 {
        let rows = server.runtime.block_on(snapshot.read(vec![RowQuery::all(&USERS)])).unwrap();
        assert_eq!(rows[0], count(1));
    }
    assert_eq!(server.read(RowQuery::all(&USERS)).len(), 2);
    drop(snapshot);
    let open = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%'";
    let is_over = (0..1000).any(|_| server.database.query(open).unwrap().is_empty());
    assert!(is_over);
}

#[test]
fn limits_of_the_database_are_named() {
    let server = TestServer::new();
    let mut session = server.open().open_session();
    session.begin(&[]).unwrap();
    // Random, so that compression does not make it fit.
    let mut key = String::new();
    for number in 0..2000_u32 {
        key.push_str(&crc32fast::hash(&number.to_le_bytes()).to_string());
    }
    let row = TableRow::of(&[(&key).into(), 0.into(), "record".into(), Value::Null]);
    let error = session.write(vec![(&IDEMPOTENCY, vec![RowChange::Insert(row)])]).unwrap_err();
    let SessionError::Failed(error) = error else { panic!("{error:?}") };
    let message = error.to_string();
    assert!(message.contains("a change of this size") && message.contains("maximum"), "{message}");
}

#[test]
fn grown_table_is_analyzed() {
    let server = TestServer::new();
    let rows = "SELECT reltuples FROM pg_class WHERE relname = 'users'";
    assert_eq!(server.database.query(rows).unwrap(), ["-1"]);
    let mut users = Vec::new();
    users.extend((0..500).map(|seed| row_of(&USERS, seed)));
    server.put(&USERS, users);
    assert!((0..5000).any(|_| server.database.query(rows).unwrap() == ["500"]));
}
