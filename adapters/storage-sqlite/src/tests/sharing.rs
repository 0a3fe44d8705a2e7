//! Several writers and several stores on one file, as in several processes.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use reqlore_contract::archive::read_documents;
use reqlore_contract::{run, test_context};
use reqlore_domain::document::{Document, DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{ArchiveRecord, DocumentRecord};
use reqlore_domain::ports::documents::{DocumentFilter, StoreError, StoreResult};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::timestamp::Timestamp;
use reqlore_row_store::StoreRow;
use reqlore_row_store::row::RowQuery;
use reqlore_row_store::tables::STORE;

use crate::connection::{Connector, OpenFiles, OpenMode, ReadPool};
use crate::damage::DamageState;
use crate::database_file::{DatabaseFile, FileGuard};
use crate::schema::WHOLE_SCHEMA;

use super::{closed_database, database_path, error_text, open_file, storage, try_put};

thread_local! {
    static WAITS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a wait of this thread for a lock.
pub(crate) fn count_wait() {
    WAITS.set(WAITS.get() + 1);
}

/// Counts the transactions in the log. The last frame of each holds the size of the database.
fn transactions_in_log(file: &Path) -> usize {
    let log = fs::read(file.with_extension("db-wal")).unwrap();
    let frames = log[32..].chunks(24 + 4096);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[test]
fn queued_commits_share_one_sync() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        s.put(&DocumentId::section("first"), "x").await;
        let before = transactions_in_log(&file);
        let names: Vec<String> = (0..256).map(|at| format!("s{at}")).collect();
        for outcome in join_all(names.iter().map(|name| try_put(&s, name))).await {
            outcome.unwrap();
        }
        let synced = transactions_in_log(&file) - before;
        assert!((1..=25).contains(&synced), "{synced} transactions for 256 commits");
    });
}

#[test]
fn locked_database_is_busy_until_released() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        s.put(&DocumentId::section("a"), "x").await;
        let other = super::connect(&file);
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (error, message) = error_text(try_put(&s, "b").await);
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
        assert!(message.contains("Nothing was written; try again"), "{message}");
        assert!(s.read_body(&DocumentId::section("a")).await.is_some(), "reads continue");
        other.execute_batch("ROLLBACK").unwrap();
        try_put(&s, "b").await.unwrap();
    });
}

#[test]
fn opening_waits_for_locks_of_another_process() {
    for lock in ["PRAGMA locking_mode = EXCLUSIVE; UPDATE store SET id = 1", "BEGIN IMMEDIATE"] {
        let is_held = lock.starts_with("PRAGMA");
        let (_folder, file) = closed_database();
        let other = super::connect(&file);
        other.execute_batch(lock).unwrap();
        if is_held {
            let (error, message) = error_text(open_file(&file));
            assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
            assert!(message.contains("try again"), "{message}");
        }
        let closing = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            drop(other);
        });
        run(async { try_put(&storage(&file), "a").await.unwrap() });
        closing.join().unwrap();
    }
}

#[derive(Debug)]
struct NoChecks;

impl FileGuard for NoChecks {
    fn check(&self, _: bool) -> StoreResult<()> {
        Ok(())
    }
}

#[test]
fn first_poll_of_a_read_never_waits_for_locks() {
    for guard in [None, Some(Arc::new(NoChecks) as Arc<dyn FileGuard>)] {
        let (_folder, path) = closed_database();
        let file = DatabaseFile::new(path.clone(), String::new(), &WHOLE_SCHEMA, guard);
        let connector = Connector { file: Arc::new(file), mode: OpenMode::Shared };
        let damage = Arc::new(DamageState::passed(""));
        // Without connections, so that the lock excludes the reader.
        let pool = Arc::new(ReadPool::new(Arc::new(OpenFiles { connector, damage })));
        let other = super::connect(&path);
        other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; UPDATE store SET id = 1").unwrap();
        run(async {
            let queries = [RowQuery::keys(&STORE, vec![StoreRow::key()])];
            let mut read = Box::pin(pool.read(&queries));
            assert!(read.as_mut().now_or_never().is_none());
            assert_eq!(WAITS.get(), 0);
            drop(other);
            assert_eq!(read.await.unwrap()[0].len(), 1);
        });
    }
}

#[test]
fn put_keeps_the_path_and_updates_the_time() {
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&file);
        let id = DocumentId::entity("first");
        let mut writer = s.store.import().await.unwrap();
        let place: Option<Arc<str>> = Some(".ixchel/first.md".into());
        let document = Document::new(id.clone(), "old".into());
        let project = s.project.clone();
        let modified = Timestamp::default();
        let (path, entry) = (place.clone(), PresentEntry::default());
        let record = DocumentRecord { project, document, modified, path, entry };
        writer.write_batch(vec![ArchiveRecord::Document(record)]).await.unwrap();
        writer.finish().await.unwrap();
        s.put(&id, "new").await;
        let records = read_documents(&*s.store).await.unwrap();
        assert_eq!((&records[0].path, records[0].modified), (&place, test_context().at));
    });
}

#[test]
fn concurrent_processes_create_one_database() {
    for _ in 0..10 {
        let (_folder, file) = database_path();
        let openers = [0, 1, 2, 3].map(|at: usize| {
            let file = file.clone();
            std::thread::spawn(move || {
                run(async { try_put(&storage(&file), &format!("s{at}")).await.unwrap() });
            })
        });
        for opener in openers {
            opener.join().unwrap();
        }
        run(async {
            let s = storage(&file);
            let page = s
                .store
                .find(&s.project, &DocumentFilter::of_kind(DocumentKind::Section))
                .await
                .unwrap();
            assert_eq!(page.metadata.len(), 4);
        });
    }
}
