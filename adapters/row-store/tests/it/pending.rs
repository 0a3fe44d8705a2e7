//! Intents of commits that replace files outside of the database.

use std::sync::Arc;

use reqlore_contract::audit::{audit_event, verified_rows};
use reqlore_contract::run;
use reqlore_domain::audit_log::AuditTarget;
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use reqlore_row_store::RowStore;
use reqlore_row_store::pending::PendingCommit;
use reqlore_storage_memory::database::MemoryDatabase;

const NOW: Timestamp = Timestamp(1);

fn open() -> RowStore {
    RowStore::without_thread(MemoryDatabase::new(1, None), Arc::default()).unwrap()
}

async fn prepare(store: &RowStore, project: &str) -> StoreResult<PendingCommit> {
    let target = AuditTarget { name: "section a".to_owned(), before: None, after: None };
    let (request, targets) = ("r".to_owned(), vec![target]);
    let record = IdempotencyRecord { request, at: NOW, targets, answer: None };
    let (project, record) = (ProjectKey::new(project), Some(("key".to_owned(), record)));
    store.prepare_commit(&project, Some(audit_event("a", 100)), record, NOW).await
}

#[test]
fn key_of_a_pending_commit_is_busy_until_it_is_confirmed() {
    run(async {
        let store = open();
        let commit = prepare(&store, "one").await.unwrap();
        assert!(store.confirmed_record("key").await.unwrap().is_none());
        let busy = prepare(&store, "two").await;
        assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
        let pending = store.pending_commits().await.unwrap();
        assert_eq!(pending.len(), 1);
        assert_eq!(pending[0].project, ProjectKey::new("one"));
        store.confirm_commit(&commit).await.unwrap();
        assert!(store.pending_commits().await.unwrap().is_empty());
        assert!(store.confirmed_record("key").await.unwrap().is_some());
        let repeated = prepare(&store, "two").await;
        assert!(matches!(repeated, Err(StoreError::Repeated(_))), "{repeated:?}");
        assert_eq!(verified_rows(&store).await.len(), 1);
    });
}

#[test]
fn rolled_back_commit_releases_its_key_once() {
    run(async {
        let store = open();
        let commit = prepare(&store, "one").await.unwrap();
        store.mark_rolled_back(&commit).await.unwrap();
        assert!(store.pending_commits().await.unwrap()[0].is_rolled_back);
        for _ in 0..2 {
            store.roll_back_commit(&commit, NOW).await.unwrap();
            store.mark_rolled_back(&commit).await.unwrap();
            assert!(store.pending_commits().await.unwrap().is_empty());
        }
        assert_eq!(prepare(&store, "two").await.unwrap().audit_number, Some(3));
        let rows = verified_rows(&store).await;
        assert_eq!(rows[1].parse_event().unwrap().action, "audit/unconfirmed");
    });
}
