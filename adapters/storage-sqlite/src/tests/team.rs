//! Audit rows, users and idempotency keys: several stores on one file, and failed commits.

use futures_util::future::join_all;
use reqlore_contract::audit::{audit_event, audited_context, verified_rows};
use reqlore_contract::identity::{put_identities_as, user};
use reqlore_contract::{Storage, run, test_context};
use reqlore_domain::audit_log::{AuditEvent, AuditRow, RowHash};
use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{User, UserRole};
use reqlore_domain::ports::archive::ArchiveRecord;
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::ports::idempotency::IdempotencyKey;
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::GroupEngine as _;

use super::{database_path, error_text, run_sql, storage};
use crate::SqliteEngine;
use crate::connection::{Connector, OpenMode};
use crate::damage::{CheckStage, CheckWorker, DamageState};
use crate::database_file::DatabaseFile;

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

fn engine(file: &std::path::Path) -> SqliteEngine {
    let place = DatabaseFile::prepare(file).unwrap().into();
    let mut connector = Connector { file: place, mode: OpenMode::Shared };
    let connection = crate::open_for_writing(&mut connector).unwrap();
    let place = connector.file;
    let damage = std::sync::Arc::new(DamageState::new(String::new()));
    for worker in
        [CheckWorker::DocumentStructure, CheckWorker::OtherStructure, CheckWorker::Checksums]
    {
        damage.pass(worker, CheckStage::WholeFile);
    }
    SqliteEngine {
        connection,
        file: place,
        damage,
        group_error: None,
        changes: 0,
        has_steps: false,
    }
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
        assert_eq!(s.store.identity_epoch().await.unwrap(), 30);
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
        "CREATE TRIGGER no BEFORE INSERT ON bodies WHEN NEW.body = x'626164' \
         BEGIN SELECT RAISE({action}, 'no'); END"
    );
    run_sql(file, &trigger);
}

#[test]
fn failed_commit_is_rolled_back_without_its_group() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        reject_bad_body(&file, "ABORT");
        let bad = s.store.commit(&s.project, commit(&[("first", "text"), ("second", "bad")]));
        let (bad, kept) = futures_util::join!(bad, put(&s, "kept", "text"));
        assert!(matches!(bad, Err(StoreError::Internal(_))), "{bad:?}");
        kept.unwrap();
        assert_rolled_back(&s, &["first", "second"]).await;
        assert!(s.read_body(&DocumentId::section("kept")).await.is_some());
        put(&s, "first", "good").await.expect("its key is free");
    });
}

#[test]
fn commit_without_its_audit_row_or_key_is_rolled_back() {
    for table in ["audit", "answers"] {
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

/// Asserts that the failing commit `bad` rolls back its group, and that the next group works.
async fn assert_group_lost(
    s: &Storage,
    engine: &mut SqliteEngine,
    bad: &str,
) -> (StoreError, String) {
    engine.begin_group(&[]).unwrap();
    engine.apply_commit(&s.project, commit(&[("first", "text")])).unwrap();
    let failed = error_text(engine.apply_commit(&s.project, commit(&[("bad", bad)])));
    error_text(engine.apply_commit(&s.project, commit(&[("last", "text")])));
    error_text(engine.finish_group());
    assert_rolled_back(s, &["first", "bad", "last"]).await;
    engine.begin_group(&[]).unwrap();
    engine.apply_commit(&s.project, commit(&[("next", "text")])).unwrap();
    engine.finish_group().unwrap();
    assert!(s.read_body(&DocumentId::section("next")).await.is_some());
    failed
}

#[test]
fn failed_steps_of_a_group_leave_the_others() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        put(&s, "old", "text").await.unwrap();
        reject_bad_body(&file, "ABORT");
        let mut engine = engine(&file);
        engine.begin_group(&[]).unwrap();
        // The first steps have no savepoint, the last ones have.
        for (name, body) in
            [("one", "bad"), ("two", "bad"), ("three", "text"), ("four", "bad"), ("five", "text")]
        {
            let changes = [("with", "text"), (name, body)];
            let applied =
                engine.apply_commit(&s.project, commit(&changes[usize::from(body != "bad")..]));
            assert_eq!(applied.is_ok(), body == "text", "{name}: {applied:?}");
        }
        engine.finish_group().unwrap();
        drop(engine);
        for name in ["with", "one", "two", "four"] {
            assert_eq!(s.read_body(&DocumentId::section(name)).await, None, "{name}");
        }
        for name in ["old", "three", "five"] {
            assert!(s.read_body(&DocumentId::section(name)).await.is_some(), "{name}");
        }
        assert_eq!(verified_rows(&*s.store).await.len(), 3);
    });
}

#[test]
fn group_rolled_back_by_sqlite_is_not_acknowledged() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        put(&s, "kept", "text").await.unwrap();
        reject_bad_body(&file, "ROLLBACK");
        assert_group_lost(&s, &mut engine(&file), "bad").await;
    });
}

#[test]
fn full_database_fails_the_whole_group() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        put(&s, "kept", "text").await.unwrap();
        let mut engine = engine(&file);
        let connection = &engine.connection;
        let used: rusqlite::Result<u32> =
            connection.pragma_query_value(None, "page_count", |row| row.get(0));
        connection.pragma_update(None, "max_page_count", used.unwrap() + 4).unwrap();
        let (error, message) = assert_group_lost(&s, &mut engine, &"x".repeat(100_000)).await;
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(
            message.contains("no space") && message.contains("nothing was written"),
            "{message}"
        );
    });
}

#[test]
fn pruning_in_steps_keeps_the_chain() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        let old = Timestamp::new(1, 0);
        let old_entry = AuditEvent { at: old, ..audit_event("old", 1) };
        s.store.append_events(vec![old_entry; 20_500]).await.unwrap();
        let now = test_context().at;
        assert_eq!(s.store.prune(Timestamp(old.0 + 1), now).await.unwrap(), 20_500);
        let rows = verified_rows(&*s.store).await;
        let said: Vec<_> = rows.iter().map(|row| row.parse_event().unwrap().reason).collect();
        assert_eq!(said, ["10000", "20000", "20500"]);
        s.store.append_events(vec![audit_event("new", 1)]).await.unwrap();
        assert_eq!(verified_rows(&*s.store).await.len(), 4);
    });
}

#[test]
fn unreadable_audit_row_stops_pruning() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        let mut writer = s.store.import().await.unwrap();
        let unknown = AuditRow { number: 1, hash: RowHash::FIRST, text: "{}".into() };
        writer.write_batch(vec![ArchiveRecord::AuditRow(unknown)]).await.unwrap();
        writer.finish().await.unwrap();
        s.store.append_events(vec![audit_event("a", 1)]).await.unwrap();
        let later = Timestamp(test_context().at.0 + 1);
        assert_eq!(s.store.prune(later, later).await.unwrap(), 0);
        assert_eq!(s.store.rows(0, 9).await.unwrap().len(), 2);
    });
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

#[test]
fn damaged_audit_row_is_reported() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        run_sql(&file, "INSERT INTO audit VALUES (1, x'00', '{}', 0)");
        let (error, message) = error_text(s.store.newest().await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(message.contains("table audit") && message.contains("restore"), "{message}");
        error_text(s.store.rows(1, 1).await);
        error_text(s.store.append_events(vec![audit_event("a", 1)]).await);
    });
}

#[test]
fn export_has_audit_and_users_of_one_snapshot() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        put(&s, "before", "text").await.unwrap();
        put_user(&s, user("ada")).await.unwrap();
        let before = verified_rows(&*s.store).await;
        let mut reader = s.store.export().await.unwrap();
        put(&s, "after", "text").await.unwrap();
        put_user(&s, User { role: UserRole::Commenter, ..user("ada") }).await.unwrap();
        let now = test_context().at;
        s.store.prune(Timestamp(now.0 + 1), now).await.unwrap();
        assert_eq!(reader.next_batch().await.unwrap().len(), 1);
        assert_eq!(reader.next_batch().await.unwrap(), [ArchiveRecord::User(user("ada"))]);
        let before: Vec<_> = before.into_iter().map(ArchiveRecord::AuditRow).collect();
        assert_eq!(reader.next_batch().await.unwrap(), before);
        assert!(reader.next_batch().await.unwrap().is_empty());
    });
}
