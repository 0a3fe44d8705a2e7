//! The audit's chain, behind what failed, what is damaged and what is gone.
//!
//! The trap: a group of the test's own writes beside the writer's, so the writer may not write too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqlore_contract::{act, run};
use reqlore_domain::audit::{AuditRow, ChainHead, Hash};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::time::Timestamp;
use tempfile::tempdir;

use super::team::{audited, chain, entry, open, write};
use super::{base, get};
use crate::base::{AUDIT, Batch};
use crate::write::Group;

#[test]
fn so_many_rows_are_pruned_at_once() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        store.record((0..120).map(|at| entry(at, 1)).collect()).await.unwrap();
        for gone in [50, 50, 20, 0] {
            assert_eq!(store.prune(Timestamp::new(200, 0), act().at).await.unwrap(), gone);
            chain(&store).await;
        }
        assert_eq!(chain(&store).await.len(), 3);
        store.close().unwrap();
        let store = open(&folder);
        store.record(vec![entry(1, 1)]).await.unwrap();
        assert_eq!(chain(&store).await.len(), 4);
    });
}

#[test]
fn a_damaged_row_is_told_and_nothing_is_chained_behind_it() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        store.record(vec![entry(1, 1), entry(2, 1)]).await.unwrap();
        store.close().unwrap();
        let store = open(&folder);
        let base = base(&store);
        let (key, first) = base.tree(AUDIT).first().unwrap().unwrap();
        let (last, _) = base.tree(AUDIT).last().unwrap().unwrap();
        assert!(key < last);
        base.tree(AUDIT).insert(&last, first).unwrap();
        let told = store.rows(1, 10).await.unwrap_err();
        assert!(matches!(told, StoreError::Unreadable { .. }), "{told:?}");
        assert!(told.to_string().contains("tree audit"), "{told}");
        assert!(store.record(vec![entry(3, 1)]).await.is_err());
        assert!(write(&store, "a", audited()).await.is_err());
        assert_eq!(get(&store, &DocumentId::section("a")).await.unwrap(), None);
        write(&store, "a", act()).await.expect("what is not audited needs no chain");
        assert_eq!(
            store.rows(1, 1).await.unwrap()[0].head(),
            AuditRow::after(ChainHead::default(), entry(1, 1)).head()
        );
    });
}

/// A transaction fails in the middle of a group, and its other jobs come after it.
#[test]
fn nothing_is_chained_behind_a_transaction_that_failed() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        store.record(vec![entry(1, 0)]).await.unwrap();
        let base = base(&store);
        let mut group = Group::new(Arc::clone(&base));
        let record = |group: &mut Group, second| {
            let mut batch = Batch::default();
            let newest = group.chained(&mut batch, [entry(second, 0)]).unwrap();
            group.take(batch, newest);
        };
        record(&mut group, 2);
        base.broken.store(true, Ordering::Relaxed);
        group.write().unwrap_err();
        assert_eq!(group.newest, None, "the row that is gone is not the newest");
        record(&mut group, 3);
        let told = group.write().unwrap_err();
        assert!(matches!(told, StoreError::Unavailable { .. }), "{told:?}");
        assert_eq!(chain(&store).await.len(), 1);
    });
}

#[test]
fn a_row_that_cannot_be_judged_stops_the_pruning_and_is_told_once() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        let mut sink = store.fill().await.unwrap();
        let unknown = AuditRow { number: 1, hash: Hash::FIRST, text: "{}".into() };
        sink.put(vec![ArchiveRecord::AuditRow(unknown)]).await.unwrap();
        sink.finish().await.unwrap();
        store.record(vec![entry(1, 1)]).await.unwrap();
        let mut group = Group::new(base(&store));
        for _ in 0..2 {
            assert_eq!(group.prune(act().at, act().at).unwrap(), 0);
            assert!(group.told_of_row);
        }
        assert_eq!(store.prune(act().at, act().at).await.unwrap(), 0);
        assert_eq!(store.rows(0, 9).await.unwrap().len(), 2);
    });
}
