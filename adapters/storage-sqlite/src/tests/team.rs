//! Audit rows, users and idempotency keys: several stores on one file, and failed commits.

use futures_util::future::join_all;
use reqlore_contract::audit::{audit_event, audited_context, verified_rows};
use reqlore_contract::identity::{put_identities_as, user};
use reqlore_contract::{Storage, run};
use reqlore_domain::document::DocumentId;
use reqlore_domain::idempotency::IdempotencyKey;
use reqlore_domain::identity::User;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_row_store::database::{CommitOutcome, SessionError, WriteSession as _};
use reqlore_row_store::row::{RowChange, RowQuery, TableRow};
use reqlore_row_store::tables::{BODIES, STORE};

use super::{database_path, error_text, run_sql, storage};
use crate::session::SqliteSession;

/// Returns a commit of these sections; the name of the first one is the idempotency key.
fn commit(sections: &[(&str, &str)]) -> CommitRequest {
    let put = |(name, body): &(&str, &str)| {
        DocumentChange::put(DocumentId::section(*name), (*body).to_owned())
    };
    let changes: Vec<DocumentChange> = sections.iter().map(put).collect();
    let reads = ReadSet::of_documents(changes.iter().map(|change| change.id().clone()).collect());
    let idempotency_key =
        Some(IdempotencyKey { key: sections[0].0.to_owned(), request_hash: "r".to_owned() });
    let act = WriteContext { idempotency_key, ..audited_context() };
    CommitRequest {
        read_set: reads,
        decide: Box::new(move |_: &_| Ok(changes.clone())),
        context: act,
    }
}

async fn put(s: &Storage, name: &str, body: &str) -> StoreResult<()> {
    s.store.commit(&s.project, commit(&[(name, body)])).await.map(drop)
}

async fn put_user(s: &Storage, user: User) -> StoreResult<()> {
    put_identities_as(&*s.store, vec![IdentityChange::User(user)], audited_context()).await
}

#[test]
fn concurrent_stores_append_to_one_audit_chain() {
    let (_folder, file) = database_path();
    let writers = [0, 1, 2].map(|writer| {
        let file = file.clone();
        std::thread::spawn(move || {
            run(async {
                let s = storage(&file);
                for round in 0..10 {
                    let names = [0, 1, 2].map(|at| format!("s{writer}-{round}-{at}"));
                    let puts = join_all(names.iter().map(|name| put(&s, name, "text")));
                    let record =
                        s.store.append_events(vec![audit_event("a", 1), audit_event("b", 1)]);
                    let (puts, record, user) =
                        futures_util::join!(puts, record, put_user(&s, user("ada")));
                    puts.into_iter().chain([record, user]).for_each(|done| done.unwrap());
                }
            });
        })
    });
    for writer in writers {
        writer.join().unwrap();
    }
    run(async {
        let s = storage(&file);
        assert_eq!(verified_rows(&*s.store).await.len(), 3 * 10 * 6);
    });
}

/// Asserts that the commits left no sections, audit rows or keys.
async fn assert_rolled_back(s: &Storage, names: &[&str]) {
    for name in names {
        assert_eq!(s.read_body(&DocumentId::section(*name)).await, None, "{name}");
        assert_eq!(s.store.find_record(name).await.unwrap(), None, "{name}");
    }
    assert_eq!(verified_rows(&*s.store).await.len(), 1, "only the first row");
}

/// Makes the insertion of the body `bad` fail. `action` is the rollback that SQLite performs.
fn reject_bad_body(file: &std::path::Path, action: &str) {
    let trigger = format!(
        "CREATE TRIGGER no BEFORE INSERT ON bodies WHEN NEW.bytes = x'626164' \
         BEGIN SELECT RAISE({action}, 'no'); END"
    );
    run_sql(file, &trigger);
}

#[test]
fn failed_commit_is_rolled_back_without_its_group() {
    for action in ["ABORT", "ROLLBACK"] {
        let (_folder, file) = database_path();
        run(async {
            let s = storage(&file);
            reject_bad_body(&file, action);
            let bad = s.store.commit(&s.project, commit(&[("first", "text"), ("second", "bad")]));
            let (bad, kept) = futures_util::join!(bad, put(&s, "kept", "text"));
            assert!(matches!(bad, Err(StoreError::Internal(_))), "{bad:?}");
            kept.unwrap();
            assert_rolled_back(&s, &["first", "second"]).await;
            assert!(s.read_body(&DocumentId::section("kept")).await.is_some());
            put(&s, "first", "good").await.expect("its key is free");
        });
    }
}

#[test]
fn commit_without_its_audit_row_or_key_is_rolled_back() {
    for table in ["audit", "idempotency"] {
        let (_folder, file) = database_path();
        run(async {
            let s = storage(&file);
            put(&s, "kept", "text").await.unwrap();
            let no = format!(
                "CREATE TRIGGER no BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END"
            );
            run_sql(&file, &no);
            error_text(put(&s, "bad", "text").await);
            assert_rolled_back(&s, &["bad"]).await;
            let epoch = s.store.identity_epoch().await.unwrap();
            if table == "audit" {
                error_text(put_user(&s, user("ada")).await);
                error_text(s.store.append_events(vec![audit_event("a", 1)]).await);
                assert!(s.store.list_users().await.unwrap().is_empty());
                assert_eq!(s.store.identity_epoch().await.unwrap(), epoch);
            }
        });
    }
}

#[test]
fn audit_rows_cannot_be_changed() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        s.store.append_events(vec![audit_event("a", 1)]).await.unwrap();
        let other = super::connect(&file);
        let changed = other.execute("UPDATE audit SET text = ''", []);
        assert!(changed.unwrap_err().to_string().contains("never changed"));
    });
}

/// The number of the newest row was damaged, or is of an older copy.
#[test]
fn existing_audit_row_is_never_replaced() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        s.store.append_events(vec![audit_event("a", 1), audit_event("b", 1)]).await.unwrap();
        let before = verified_rows(&*s.store).await;
        let number = STORE.index_of("audit_number").unwrap();
        super::change_rows(&file, &STORE, |row| row.replace(number, 1.into()));
        let (error, message) = error_text(s.store.append_events(vec![audit_event("c", 1)]).await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(message.contains("table audit"), "{message}");
        assert_eq!(s.store.rows(1, 9).await.unwrap(), before);
        assert!(s.store.known_damage().is_some(), "writes stop");
    });
}

/// SQLite rolls back the transaction itself.
#[test]
fn full_database_fails_the_whole_group() {
    let (_folder, file) = database_path();
    let (connector, connection) = crate::open_for_writing(&file).unwrap();
    connection.pragma_update(None, "max_page_count", 100).unwrap();
    let mut session = SqliteSession::exclusive(connector, connection).unwrap();
    let row =
        |bytes: &[u8]| TableRow::of(&["p".into(), "k".into(), "n".into(), 0.into(), bytes.into()]);
    let put = |bytes: &[u8]| vec![(&BODIES as _, vec![RowChange::Insert(row(bytes))])];
    session.begin(&[]).unwrap();
    session.write(put(b"small")).unwrap();
    let SessionError::Failed(error) = session.write(put(&vec![b'x'; 500_000])).unwrap_err() else {
        panic!("a full disk is no conflict");
    };
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("no space") && message.contains("nothing was written"), "{message}");
    session.write(put(b"later")).unwrap_err();
    assert!(matches!(session.commit(), CommitOutcome::NotWritten(_)));
    let all = [RowQuery::all(&BODIES)];
    assert_eq!(session.begin(&all).unwrap().rows, [Vec::new()]);
    session.write(put(b"next")).unwrap();
    assert!(matches!(session.commit(), CommitOutcome::Committed));
    assert_eq!(session.begin(&all).unwrap().rows, [vec![row(b"next")]]);
}

#[test]
fn damaged_audit_row_is_reported() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        run_sql(&file, "INSERT INTO audit VALUES (1, x'00', '{}', 0)");
        let (error, message) = error_text(s.store.rows(1, 1).await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(message.contains("table audit") && message.contains("restore"), "{message}");
        error_text(s.store.append_events(vec![audit_event("a", 1)]).await);
    });
}
