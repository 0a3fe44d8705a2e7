//! An answer means that the change is durable.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use reqlore_contract::{act, run};
use reqlore_domain::audit_log::AuditRow;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, DocumentChange, DocumentRepository, ReadSet, Snapshot, StoreError,
};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::project_key::ProjectKey;
use tempfile::tempdir;

use super::team::{change, event, keyed, user};
use super::{
    HeldStore, audited, chain, config, database, failing_sync, get, open, open_with, put, write,
};
use crate::{COPY_TIMEOUT, SledStore};

// S5: 4.5
#[test]
fn failed_sync_acknowledges_nothing_until_a_restart() {
    let folder = tempdir().unwrap();
    let (fails, sync) = failing_sync();
    run(async {
        let store = open_with(&folder, sync);
        write(&store, "a", keyed("k", audited())).await.unwrap();
        fails.store(true, Ordering::Relaxed);
        let outcomes = join_all([
            write(&store, "b", keyed("l", audited())).boxed_local(),
            store.record(vec![event(1, 1)]).boxed_local(),
            change(&store, IdentityChange::User(user("ada")), audited()).boxed_local(),
            store.save_response("k", "{}".to_owned()).boxed_local(),
            store.prune(act().at, act().at).map(|pruned| pruned.map(drop)).boxed_local(),
        ]);
        for outcome in outcomes.await {
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
        }
        fails.store(false, Ordering::Relaxed);
        let later = write(&store, "c", act()).await.unwrap_err().to_string();
        assert!(later.contains("until the server is started again"), "{later}");
        assert!(get(&store, &DocumentId::section("a")).await.unwrap().is_some());
        store.close().unwrap();

        let store = open(&folder);
        let before = chain(&store).await;
        assert_eq!(before[0].entry().unwrap().targets[0].name, "section a");
        // It is open whether the change was kept. Its row and its key share its fate.
        let is_kept = get(&store, &DocumentId::section("b")).await.unwrap().is_some();
        let of_b =
            |row: &AuditRow| row.entry().unwrap().targets.iter().any(|t| t.name == "section b");
        assert_eq!(before.iter().any(of_b), is_kept);
        assert_eq!(store.find_record("l").await.unwrap().is_some(), is_kept);
        write(&store, "c", audited()).await.unwrap();
        assert_eq!(chain(&store).await.len(), before.len() + 1);
    });
}

#[test]
fn sync_comes_after_the_flush_and_before_answers_and_reads() {
    let folder = tempdir().unwrap();
    run(async {
        let held = HeldStore::open(&folder);
        held.holds.store(true, Ordering::Relaxed);
        let id = DocumentId::section("a");
        let mut writing = Box::pin(put(&held.store, &id, "needle"));
        assert!(writing.as_mut().now_or_never().is_none());
        held.at_sync.recv_timeout(Duration::from_secs(10)).unwrap();
        let db = fs::read(folder.path().join("sled/db")).unwrap();
        let mut reading = Box::pin(get(&held.store, &id));
        let early = (writing.as_mut().now_or_never(), reading.as_mut().now_or_never());
        // Before the assertions, or the store would wait for itself when one fails.
        held.go.send(()).unwrap();
        assert!(early.0.is_none() && early.1.is_none(), "answered or read before the sync");
        assert!(db.windows(6).any(|bytes| bytes == b"needle"), "synced before the flush");
        writing.await.unwrap();
        assert!(reading.await.unwrap().is_some());
    });
}

/// Creates a requirement with the next number. Returns how many link to the same story.
async fn create(store: &SledStore, links: BacklinkQuery) -> usize {
    let (sender, seen) = tokio::sync::oneshot::channel();
    let mut sender = Some(sender);
    let decide = move |snapshot: &Snapshot| {
        let reference = Reference { kind: ItemKind::Requirement, number: snapshot.next_numbers[0] };
        let links = snapshot.backlinks.first().map_or(0, Vec::len);
        sender.take().map(|sender| sender.send(links));
        let text = "---\ntitle: T\nuser_story: US-001\n---\n";
        Ok(vec![DocumentChange::put(reference.document("aaaaaa"), text)])
    };
    let reads =
        ReadSet { backlinks: links, sequences: vec![ItemKind::Requirement], ..ReadSet::default() };
    let commit = CommitRequest { reads, decide: Box::new(decide), context: act() };
    store.commit(&ProjectKey::default(), commit).await.unwrap();
    seen.await.unwrap()
}

#[test]
fn group_shares_a_sync_and_a_transaction() {
    let folder = tempdir().unwrap();
    run(async {
        let held = HeldStore::open(&folder);
        let transactions = || database(&held.store).commits.load(Ordering::Relaxed);
        let before = (held.syncs.load(Ordering::Relaxed), transactions());
        let creates = (0..50).map(|_| create(&held.store, BacklinkQuery::default()));
        held.in_one_group(join_all(creates)).await;
        let after = (held.syncs.load(Ordering::Relaxed), transactions());
        assert_eq!((after.0 - before.0, after.1 - before.1), (2, 2), "the first one and the group");
        let kinds = vec![DocumentKind::Item(ItemKind::Requirement)];
        let links = BacklinkQuery { kinds, targets: vec!["US-001".to_owned()] };
        let seen = held.in_one_group(join_all((0..5).map(|_| create(&held.store, links.clone()))));
        assert_eq!(seen.await, [50, 51, 52, 53, 54], "each commit sees the ones before it");
    });
}

#[test]
fn database_file_that_is_gone_takes_no_writes() {
    let folder = tempdir().unwrap();
    let (db, aside) = (folder.path().join("sled/db"), folder.path().join("aside"));
    let id = DocumentId::section("a");
    run(async {
        let store = open(&folder);
        put(&store, &id, "one").await.unwrap();
        let refused = async || {
            let outcome = put(&store, &id, "two").await;
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
            outcome.unwrap_err().to_string()
        };
        fs::rename(&db, &aside).unwrap();
        assert!(refused().await.contains("removed or replaced"));
        fs::copy(&aside, &db).unwrap();
        refused().await;
        fs::rename(&aside, &db).unwrap();
        put(&store, &id, "three").await.unwrap();
        fs::write(&db, "").unwrap();
        refused().await;
    });
}

#[test]
fn database_file_that_goes_during_the_sync_acknowledges_nothing() {
    let folder = tempdir().unwrap();
    let db = folder.path().join("sled/db");
    run(async {
        let held = HeldStore::open(&folder);
        held.holds.store(true, Ordering::Relaxed);
        let mut writing = Box::pin(write(&held.store, "a", act()));
        assert!(writing.as_mut().now_or_never().is_none());
        held.at_sync.recv_timeout(Duration::from_secs(10)).unwrap();
        fs::remove_file(&db).unwrap();
        held.go.send(()).unwrap();
        let error = writing.await.unwrap_err().to_string();
        assert!(error.contains("removed or replaced"), "{error}");
    });
}

#[test]
fn copy_holds_commits_off_and_admits_reads() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    let open_with_timeout = |timeout| {
        let sync = Box::new(fs::File::sync_all);
        SledStore::open_with(&config(folder.path()), sync, timeout).unwrap()
    };
    run(async {
        let timeout = Duration::from_millis(30);
        assert!(timeout < COPY_TIMEOUT);
        let store = open_with_timeout(timeout);
        put(&store, &id, "one").await.unwrap();
        let mut reader = store.read().await.unwrap();
        let outcome = put(&store, &id, "two").await;
        assert!(matches!(outcome, Err(StoreError::Busy { .. })), "{outcome:?}");
        assert_eq!(reader.next().await.unwrap().len(), 1);
        drop(reader);
        store.close().unwrap();

        let store = open_with_timeout(Duration::from_secs(60));
        let reader = store.read().await.unwrap();
        let read_meanwhile = async {
            while database(&store).copy_lock.try_read().is_ok() {
                std::thread::yield_now();
            }
            // The commit waits for the copy now; the read does not.
            let seen = get(&store, &id).await;
            drop(reader);
            seen
        };
        let (outcome, seen) = futures_util::join!(put(&store, &id, "two"), read_meanwhile);
        outcome.unwrap();
        assert_eq!(seen.unwrap().unwrap().body, "one");
    });
}
