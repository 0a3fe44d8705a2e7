//! The audit's chain, identities and keys, where several share a file and where a change is undone.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use reqlore_contract::{Storage, act, run};
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead, Hash, Verifier};
use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{Role, User, UserName};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::archive::ArchiveRecord;
use reqlore_domain::ports::documents::{Change, Commit, ReadSet, StoreError, StoreResult};
use reqlore_domain::ports::idempotency::IdempotencyKey;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::ports::write_context::{AuditScope, WriteContext};
use reqlore_domain::time::Timestamp;
use reqlore_group_commit::Engine as _;
use rusqlite::Connection;

use super::damage::engine;
use super::{place, sqlite, storage, told};

fn audited() -> WriteContext {
    WriteContext { audited: Some(AuditScope::begin(Arc::new(act().at))), ..act() }
}

/// A section, put under its name as key.
fn commit(name: &str, body: &'static str) -> Commit {
    let change = Change::put(DocumentId::section(name), body);
    let reads = ReadSet::of(vec![change.id().clone()]);
    let once = IdempotencyKey { key: name.to_owned(), request: "r".to_owned() };
    let act = WriteContext { once: Some(once), ..audited() };
    Commit { reads, decide: Box::new(move |_: &_| Ok(vec![change.clone()])), act }
}

async fn put(s: &Storage, name: &str, body: &'static str) -> StoreResult<()> {
    s.store.commit(&s.project, commit(name, body)).await.map(drop)
}

pub(super) fn ada() -> User {
    let (name, created_at) = (UserName::parse("Ada").unwrap(), Timestamp::new(1, 2));
    User { name, role: Role::User, created_at, disabled_at: None }
}

pub(super) async fn put_user(s: &Storage, user: User) -> StoreResult<()> {
    let (users, tokens) = (vec![user.name.clone()], Vec::new());
    let decide = Box::new(move |_: &_, _: &_| Ok(vec![IdentityChange::User(user.clone())]));
    s.store.commit_identities(IdentityCommit { users, tokens, decide, act: audited() }).await
}

/// All rows, of a chain that is whole.
async fn chain(store: &dyn Store) -> Vec<AuditRow> {
    let rows = store.rows(1, usize::MAX).await.unwrap();
    let mut verifier = Verifier::default();
    verifier.next(&rows).unwrap();
    assert_eq!(verifier.finish().unwrap(), (rows.len() as u64, store.newest().await.unwrap()));
    rows
}

fn entry(action: &str) -> AuditEvent {
    audited()
        .entry(None, Vec::new())
        .map(|entry| AuditEvent { action: action.to_owned(), ..entry })
        .unwrap()
}

#[test]
fn stores_on_one_file_make_one_whole_chain() {
    let (_folder, file) = place();
    let writers = [0, 1, 2].map(|writer| {
        let file = file.clone();
        std::thread::spawn(move || {
            run(async {
                let s = storage(&file);
                for round in 0..10 {
                    let names = [0, 1, 2].map(|at| format!("s{writer}-{round}-{at}"));
                    let puts = join_all(names.iter().map(|name| put(&s, name, "text")));
                    let record = s.store.record(vec![entry("a"), entry("b")]);
                    let (puts, record, user) =
                        futures_util::join!(puts, record, put_user(&s, ada()));
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
        assert_eq!(chain(&*s.store).await.len(), 3 * 10 * 6);
        assert_eq!(s.store.epoch().await.unwrap(), 30);
    });
}

#[test]
fn the_epoch_and_its_users_are_seen_by_another_store_at_once() {
    let (_folder, file) = place();
    run(async {
        let (a, b) = (storage(&file), storage(&file));
        let before = b.store.epoch().await.unwrap();
        put(&a, "a", "text").await.unwrap();
        assert_eq!(b.store.epoch().await.unwrap(), before);
        put_user(&a, ada()).await.unwrap();
        assert_ne!(b.store.epoch().await.unwrap(), before);
        assert_eq!(b.store.users().await.unwrap(), [ada()]);
    });
}

/// Nothing of the change is there, no row of it, and its key is free.
async fn check_undone(s: &Storage, names: &[&str]) {
    for name in names {
        assert_eq!(s.body(&DocumentId::section(*name)).await, None, "{name}");
        assert_eq!(s.store.find_record(name).await.unwrap(), None, "{name}");
    }
    assert_eq!(chain(&*s.store).await.len(), 1, "only what was kept");
}

#[test]
fn a_change_that_is_undone_leaves_no_row_and_no_key() {
    let no = "CREATE TRIGGER no BEFORE INSERT ON bodies WHEN NEW.body = x'626164' \
              BEGIN SELECT RAISE(ABORT, 'no'); END";
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        sqlite(&file, no);
        let (bad, kept) = futures_util::join!(put(&s, "bad", "bad"), put(&s, "kept", "text"));
        assert!(matches!(bad, Err(StoreError::Internal(_))), "{bad:?}");
        kept.unwrap();
        check_undone(&s, &["bad"]).await;
        put(&s, "bad", "good").await.expect("its key is free");
    });
}

/// Makes writing the one or the other fail.
fn refuse(file: &Path, table: &str) {
    let no =
        format!("CREATE TRIGGER no BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END");
    sqlite(file, &no);
}

#[test]
fn what_can_not_be_audited_or_kept_under_its_key_does_not_happen() {
    for table in ["audit", "answers"] {
        let (_folder, file) = place();
        run(async {
            let s = storage(&file);
            put(&s, "kept", "text").await.unwrap();
            refuse(&file, table);
            told(put(&s, "bad", "text").await);
            check_undone(&s, &["bad"]).await;
            let epoch = s.store.epoch().await.unwrap();
            if table == "audit" {
                told(put_user(&s, ada()).await);
                told(s.store.record(vec![entry("a")]).await);
                assert!(s.store.users().await.unwrap().is_empty());
                assert_eq!(s.store.epoch().await.unwrap(), epoch);
            }
        });
    }
}

#[test]
fn a_group_that_sqlite_undid_leaves_no_row_and_no_key() {
    let undo = "CREATE TRIGGER undo BEFORE INSERT ON bodies WHEN NEW.body = x'626164' \
                BEGIN SELECT RAISE(ROLLBACK, 'undone'); END";
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        put(&s, "kept", "text").await.unwrap();
        sqlite(&file, undo);
        let mut engine = engine(&file);
        engine.begin().unwrap();
        engine.apply(&s.project, commit("first", "text")).unwrap();
        for (name, body) in [("bad", "bad"), ("last", "text")] {
            told(engine.apply(&s.project, commit(name, body)));
        }
        told(engine.end());
        check_undone(&s, &["first", "bad", "last"]).await;
    });
}

#[test]
fn what_is_pruned_in_steps_leaves_a_chain() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        let old = Timestamp::new(1, 0);
        let entries = (0..20_500).map(|_| AuditEvent { at: old, ..entry("old") });
        s.store.record(entries.collect()).await.unwrap();
        let now = act().at;
        assert_eq!(s.store.prune(Timestamp(old.0 + 1), now).await.unwrap(), 20_500);
        let rows = chain(&*s.store).await;
        let said: Vec<_> = rows.iter().map(|row| row.entry().unwrap().reason).collect();
        assert_eq!(said, ["10000", "20000", "20500"]);
        s.store.record(vec![entry("new")]).await.unwrap();
        assert_eq!(chain(&*s.store).await.len(), 4);
    });
}

#[test]
fn pruning_stops_at_a_row_of_unknown_age() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        let mut sink = s.store.fill().await.unwrap();
        let unknown = AuditRow { number: 1, hash: Hash::FIRST, text: "{}".into() };
        sink.put(vec![ArchiveRecord::AuditRow(unknown)]).await.unwrap();
        sink.finish().await.unwrap();
        s.store.record(vec![entry("a")]).await.unwrap();
        let later = Timestamp(act().at.0 + 1);
        assert_eq!(s.store.prune(later, later).await.unwrap(), 0);
        assert_eq!(s.store.rows(0, 9).await.unwrap().len(), 2);
    });
}

#[test]
fn rows_are_never_changed() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        s.store.record(vec![entry("a")]).await.unwrap();
        let other = Connection::open(&file).unwrap();
        let changed = other.execute("UPDATE audit SET text = ''", []);
        assert!(changed.unwrap_err().to_string().contains("never changed"));
    });
}

#[test]
fn a_row_of_another_shape_is_told() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        sqlite(&file, "INSERT INTO audit (number, hash, text) VALUES (1, x'00', '{}')");
        let (error, words) = told(s.store.newest().await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(words.contains("a hash of the audit") && words.contains("restore"), "{words}");
        told(s.store.rows(1, 1).await);
        told(s.store.record(vec![entry("a")]).await);
        sqlite(&file, "DELETE FROM audit");
        assert_eq!(s.store.newest().await.unwrap(), ChainHead::default());
    });
}

#[test]
fn a_copy_has_the_audit_and_the_users_of_one_moment() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        put(&s, "before", "text").await.unwrap();
        put_user(&s, ada()).await.unwrap();
        let before = chain(&*s.store).await;
        let mut source = s.store.read().await.unwrap();
        put(&s, "after", "text").await.unwrap();
        put_user(&s, User { role: Role::Commenter, ..ada() }).await.unwrap();
        let now = act().at;
        s.store.prune(Timestamp(now.0 + 1), now).await.unwrap();
        assert_eq!(source.next().await.unwrap().len(), 1);
        assert_eq!(source.next().await.unwrap(), [ArchiveRecord::User(ada())]);
        let before: Vec<_> = before.into_iter().map(ArchiveRecord::AuditRow).collect();
        assert_eq!(source.next().await.unwrap(), before);
        assert!(source.next().await.unwrap().is_empty());
    });
}
