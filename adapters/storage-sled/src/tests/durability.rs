//! A change is durable before its commit is acknowledged.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use reqlore_contract::{run, test_context};
use reqlore_domain::audit_log::AuditRow;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, HighWaterMark};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, DocumentChange, DocumentFilter, DocumentRepository, ReadSet,
    Snapshot, StoreError,
};
use reqlore_domain::ports::idempotency::IdempotencyStore;
use reqlore_domain::project_key::ProjectKey;
use reqlore_row_store::RowStore;
use tempfile::tempdir;

use super::files::copy_files;
use super::{
    PausingStore, audited, close, failing_sync, get, keyed, open, open_with, put, verified_rows,
    write,
};
use crate::database::lock;
use crate::open::COPY_TIMEOUT;

// S5: 4.5
#[test]
fn failed_sync_disables_writes_until_restart() {
    let folder = tempdir().unwrap();
    let (fails, sync) = failing_sync();
    run(async {
        let (store, database) = open_with(folder.path(), sync, COPY_TIMEOUT);
        drop(database);
        write(&store, "a", keyed("k", audited())).await.unwrap();
        fails.store(true, Ordering::Relaxed);
        let outcomes = join_all([
            write(&store, "b", keyed("l", audited())).boxed_local(),
            store.save_answer("k", "{}".to_owned()).boxed_local(),
        ]);
        for outcome in outcomes.await {
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
        }
        fails.store(false, Ordering::Relaxed);
        let error = write(&store, "c", test_context()).await.unwrap_err().to_string();
        assert!(error.contains("restart the server"), "{error}");
        assert!(get(&store, &DocumentId::section("a")).await.unwrap().is_some());
        assert!(get(&store, &DocumentId::section("b")).await.unwrap().is_none());
        let sections = DocumentFilter::of_kind(DocumentKind::Section);
        let page = store.find(&ProjectKey::default(), &sections).await.unwrap();
        assert_eq!(page.metadata.len(), 1, "reads do not show the change that failed");
        assert!(store.find_record("l").await.unwrap().is_none());
        close(&folder, store);

        let store = open(&folder);
        let before = verified_rows(&store).await;
        assert_eq!(before[0].parse_event().unwrap().targets[0].name, "section a");
        // The unacknowledged change may be stored. Its audit row and its key are stored with it.
        let is_kept = get(&store, &DocumentId::section("b")).await.unwrap().is_some();
        let names_b = |row: &AuditRow| {
            row.parse_event().unwrap().targets.iter().any(|t| t.name == "section b")
        };
        assert_eq!(before.iter().any(names_b), is_kept);
        assert_eq!(store.find_record("l").await.unwrap().is_some(), is_kept);
        write(&store, "c", audited()).await.unwrap();
        assert_eq!(verified_rows(&store).await.len(), before.len() + 1);
    });
}

#[test]
fn sync_follows_flush_and_precedes_answers_and_reads() {
    let folder = tempdir().unwrap();
    run(async {
        let pausing = PausingStore::open(&folder);
        pausing.pauses.store(true, Ordering::Relaxed);
        let id = DocumentId::section("a");
        let mut writing = Box::pin(put(&pausing.store, &id, "needle"));
        assert!(writing.as_mut().now_or_never().is_none());
        pausing.wait_for_sync();
        let db = fs::read(folder.path().join("sled/db")).unwrap();
        let mut reading = Box::pin(get(&pausing.store, &id));
        let early = (writing.as_mut().now_or_never(), reading.as_mut().now_or_never());
        // Before the assertions: after a failed one, the store would wait for its own sync.
        pausing.resume.send(()).unwrap();
        assert!(early.0.is_none() && early.1.is_none(), "answered or read before the sync");
        assert!(db.windows(6).any(|bytes| bytes == b"needle"), "synced before the flush");
        writing.await.unwrap();
        assert!(reading.await.unwrap().is_some());
    });
}

/// Creates a requirement with the next number. Returns the number of backlinks that it saw.
async fn create(store: &RowStore, links: BacklinkQuery) -> usize {
    let (sender, seen) = tokio::sync::oneshot::channel();
    let mut sender = Some(sender);
    let decide = move |snapshot: &Snapshot| {
        let reference = Reference { kind: ItemKind::Requirement, number: snapshot.next_numbers[0] };
        let links = snapshot.backlinks.first().map_or(0, Vec::len);
        sender.take().map(|sender| sender.send(links));
        let text = "---\ntitle: T\nuser_story: US-001\n---\n";
        Ok(vec![DocumentChange::put(reference.document_id("", "aaaaaa"), text)])
    };
    let reads =
        ReadSet { backlinks: links, sequences: vec![ItemKind::Requirement], ..ReadSet::default() };
    let commit =
        CommitRequest { read_set: reads, decide: Box::new(decide), context: test_context() };
    store.commit(&ProjectKey::default(), commit).await.unwrap();
    seen.await.unwrap()
}

#[test]
fn group_shares_one_sync_and_commit() {
    let folder = tempdir().unwrap();
    run(async {
        let pausing = PausingStore::open(&folder);
        let commits = || lock(&pausing.database.state).commits;
        let before = (pausing.sync_count.load(Ordering::Relaxed), commits());
        let creates = (0..50).map(|_| create(&pausing.store, BacklinkQuery::default()));
        pausing.in_one_group(join_all(creates)).await;
        let after = (pausing.sync_count.load(Ordering::Relaxed), commits());
        assert_eq!((after.0 - before.0, after.1 - before.1), (2, 2), "the first one and the group");
        let kinds = vec![DocumentKind::Item(ItemKind::Requirement)];
        let links = BacklinkQuery { kinds, targets: vec!["US-001".to_owned()] };
        let seen =
            pausing.in_one_group(join_all((0..5).map(|_| create(&pausing.store, links.clone()))));
        assert_eq!(seen.await, [50, 51, 52, 53, 54], "each commit sees the ones before it");
    });
}

#[test]
fn import_is_synced_at_its_end() {
    let folder = tempdir().unwrap();
    run(async {
        let pausing = PausingStore::open(&folder);
        let syncs = || pausing.sync_count.load(Ordering::Relaxed);
        let mut writer = pausing.store.import().await.unwrap();
        let before = syncs();
        for number in 1..=3 {
            let (project, kind) = (ProjectKey::default(), ItemKind::Epic);
            let mark = ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number });
            writer.write_batch(vec![mark]).await.unwrap();
        }
        assert_eq!(syncs(), before);
        writer.finish().await.unwrap();
        assert_eq!(syncs(), before + 1);
    });
}

#[test]
fn removed_database_file_rejects_writes() {
    let folder = tempdir().unwrap();
    let (db, aside) = (folder.path().join("sled/db"), folder.path().join("aside"));
    let id = DocumentId::section("a");
    run(async {
        let store = open(&folder);
        put(&store, &id, "one").await.unwrap();
        let put_error = async || {
            let outcome = put(&store, &id, "two").await;
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
            outcome.unwrap_err().to_string()
        };
        fs::rename(&db, &aside).unwrap();
        assert!(put_error().await.contains("removed or replaced"));
        fs::copy(&aside, &db).unwrap();
        put_error().await;
        fs::rename(&aside, &db).unwrap();
        put(&store, &id, "three").await.unwrap();
        fs::write(&db, "").unwrap();
        put_error().await;
    });
}

#[test]
fn database_file_removed_during_sync_fails_the_commit() {
    let folder = tempdir().unwrap();
    let db = folder.path().join("sled/db");
    run(async {
        let pausing = PausingStore::open(&folder);
        pausing.pauses.store(true, Ordering::Relaxed);
        let mut writing = Box::pin(write(&pausing.store, "a", test_context()));
        assert!(writing.as_mut().now_or_never().is_none());
        pausing.wait_for_sync();
        fs::remove_file(&db).unwrap();
        pausing.resume.send(()).unwrap();
        let error = writing.await.unwrap_err().to_string();
        assert!(error.contains("removed or replaced"), "{error}");
    });
}

#[test]
fn copy_blocks_commits_and_allows_reads() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    let open_with_timeout =
        |timeout| open_with(folder.path(), Box::new(fs::File::sync_all), timeout);
    run(async {
        let timeout = Duration::from_millis(30);
        assert!(timeout < COPY_TIMEOUT);
        let (store, database) = open_with_timeout(timeout);
        drop(database);
        put(&store, &id, "one").await.unwrap();
        let mut reader = store.export().await.unwrap();
        let outcome = put(&store, &id, "two").await;
        assert!(matches!(outcome, Err(StoreError::Busy { .. })), "{outcome:?}");
        assert_eq!(reader.next_batch().await.unwrap().len(), 1);
        drop(reader);
        close(&folder, store);

        let (store, database) = open_with_timeout(Duration::from_secs(60));
        let reader = store.export().await.unwrap();
        let read_meanwhile = async {
            while database.copy_lock.try_read().is_ok() {
                std::thread::yield_now();
            }
            // The commit waits for the copy; the read does not.
            let document = get(&store, &id).await;
            drop(reader);
            document
        };
        let (outcome, document) = futures_util::join!(put(&store, &id, "two"), read_meanwhile);
        outcome.unwrap();
        assert_eq!(document.unwrap().unwrap().body, "one");
    });
}

#[test]
fn failed_last_sync_is_reported_without_a_panic() {
    let folder = tempdir().unwrap();
    let (fails, sync) = failing_sync();
    let (store, database) = open_with(folder.path(), sync, COPY_TIMEOUT);
    drop(database);
    run(put(&store, &DocumentId::section("a"), "kept")).unwrap();
    fails.store(true, Ordering::Relaxed);
    drop(store);
    assert!(crate::has_failed_close());
    let copy = tempdir().unwrap();
    copy_files(&folder.path().join("sled"), &copy.path().join("sled"));
    assert!(run(get(&open(&copy), &DocumentId::section("a"))).unwrap().is_some());
}
