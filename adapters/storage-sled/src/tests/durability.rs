//! Acknowledged means durable, and only then.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqlore_contract::run;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::StoreError;
use tempfile::tempdir;

use super::{config, get, put, told};
use crate::gate::Gate;
use crate::{PATIENCE, SledStore};

#[test]
fn a_failed_sync_acknowledges_nothing() {
    let folder = tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&fails);
    let sync = Box::new(move |file: &File| {
        let broken = broken.load(Ordering::Relaxed);
        if broken { Err(io::ErrorKind::StorageFull.into()) } else { file.sync_all() }
    });
    let (a, b) = (DocumentId::section("a"), DocumentId::section("b"));
    run(async {
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        put(&store, &a, "kept").await.unwrap();
        fails.store(true, Ordering::Relaxed);
        let outcome = put(&store, &b, "lost").await;
        assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
        fails.store(false, Ordering::Relaxed);
        let text = told(put(&store, &b, "later").await);
        assert!(text.contains("until the server is started again"), "{text}");
        assert_eq!(get(&store, &a).await.unwrap().unwrap().body, "kept");
        store.close().unwrap();
        let store = SledStore::open(&config(folder.path())).unwrap();
        put(&store, &b, "after a restart").await.unwrap();
    });
}

/// Transaction, flush, sync, answer; and nobody sees what is not synced.
#[test]
fn the_sync_comes_after_the_flush_and_before_the_answer() {
    let folder = tempdir().unwrap();
    let (entered, at_sync) = channel();
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let db = folder.path().join("sled/db");
    let holds = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&holds);
    let sync = Box::new(move |file: &File| {
        if held.load(Ordering::Relaxed) {
            let text = fs::read(&db).unwrap();
            entered.send(text.windows(6).any(|bytes| bytes == b"needle")).unwrap();
            wait.lock().unwrap().recv().unwrap();
        }
        file.sync_all()
    });
    let id = DocumentId::section("a");
    run(async {
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        let store = Arc::new(store);
        holds.store(true, Ordering::Relaxed);
        let (writer, reader) = (Arc::clone(&store), Arc::clone(&store));
        let (written, read) = (id.clone(), id.clone());
        let writing = tokio::spawn(async move { put(&writer, &written, "needle").await });
        tokio::task::yield_now().await;
        let flushed = at_sync.recv_timeout(Duration::from_secs(10));
        let reading = tokio::spawn(async move { get(&reader, &read).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let early = (writing.is_finished(), reading.is_finished());
        // First this, or a failure would wait for itself.
        go.send(()).unwrap();
        assert_eq!(flushed, Ok(true), "synced, and what was written is in the file");
        assert_eq!(early, (false, false), "answered or seen before the sync");
        writing.await.unwrap().unwrap();
        assert!(reading.await.unwrap().unwrap().is_some());
    });
}

#[test]
fn many_commits_share_a_sync() {
    let folder = tempdir().unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&syncs);
    let sync = Box::new(move |file: &File| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        file.sync_all()
    });
    run(async {
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        let begin = syncs.load(Ordering::Relaxed);
        let ten = |writer: usize| {
            let store = &store;
            async move {
                for number in 0..10 {
                    let id = DocumentId::section(format!("{writer}-{number}"));
                    put(store, &id, "x").await.unwrap();
                }
            }
        };
        join_all((0..64).map(ten)).await;
        let syncs = syncs.load(Ordering::Relaxed) - begin;
        assert!(syncs * 10 <= 640, "640 commits took {syncs} syncs");
    });
}

#[test]
fn a_file_that_is_gone_takes_no_writes() {
    let folder = tempdir().unwrap();
    let db = folder.path().join("sled/db");
    let id = DocumentId::section("a");
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        put(&store, &id, "one").await.unwrap();
        let aside = folder.path().join("aside");
        fs::rename(&db, &aside).unwrap();
        let text = told(put(&store, &id, "two").await);
        assert!(text.contains("removed or replaced"), "{text}");
        fs::copy(&aside, &db).unwrap();
        let outcome = put(&store, &id, "two").await;
        assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
        fs::rename(&aside, &db).unwrap();
        put(&store, &id, "three").await.unwrap();
    });
}

#[test]
fn a_file_that_somebody_emptied_takes_no_writes() {
    let folder = tempdir().unwrap();
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        put(&store, &DocumentId::section("a"), "one").await.unwrap();
        fs::write(folder.path().join("sled/db"), "").unwrap();
        let outcome = put(&store, &DocumentId::section("b"), "two").await;
        assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
    });
}

#[test]
fn a_file_that_goes_while_it_is_written_acknowledges_nothing() {
    let folder = tempdir().unwrap();
    let db = folder.path().join("sled/db");
    let goes = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&goes);
    let sync = Box::new(
        move |_: &File| {
            if gone.load(Ordering::Relaxed) { fs::remove_file(&db) } else { Ok(()) }
        },
    );
    run(async {
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        goes.store(true, Ordering::Relaxed);
        let text = told(put(&store, &DocumentId::section("a"), "x").await);
        assert!(text.contains("removed or replaced"), "{text}");
    });
}

#[test]
fn a_copy_holds_commits_off_and_lets_others_read() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    run(async {
        let sync = Box::new(File::sync_all);
        let patience = Duration::from_millis(30);
        let store = SledStore::open_with(&config(folder.path()), sync, patience).unwrap();
        put(&store, &id, "one").await.unwrap();
        let mut source = store.read().await.unwrap();
        let (outcome, seen) = futures_util::join!(put(&store, &id, "two"), get(&store, &id));
        assert!(matches!(outcome, Err(StoreError::Busy { .. })), "{outcome:?}");
        assert_eq!(seen.unwrap().unwrap().body, "one");
        assert_eq!(source.next().await.unwrap().len(), 1);
        drop(source);
        put(&store, &id, "two").await.unwrap();
    });
}

#[test]
fn a_waiting_writer_gets_in_before_new_readers() {
    let gate = Gate::new(Duration::from_secs(60));
    let look = gate.look();
    let writer = std::thread::spawn({
        let gate = Arc::clone(&gate);
        move || gate.write()
    });
    let end = Instant::now() + Duration::from_secs(10);
    while gate.try_look().is_some() {
        assert!(Instant::now() < end, "the writer waits and others get in");
        std::thread::yield_now();
    }
    drop(look);
    assert!(writer.join().unwrap());
    assert!(gate.try_look().is_none(), "it is being written");
    gate.written();
    assert!(gate.try_look().is_some());
}
