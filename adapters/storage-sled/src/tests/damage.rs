//! Damaged values are reported and disable writes; all other values are served.

use reqlore_contract::{run, test_context};
use reqlore_domain::audit_log::{AuditRow, ChainHead, RowHash};
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, StoreError};
use reqlore_domain::project_key::ProjectKey;
use tempfile::tempdir;

use super::team::event;
use super::{audited, database, get, open, open_error, put, write};
use crate::database::{AUDIT, BODIES, DOCUMENTS};

/// Puts two sections, damages the first and checks all operations on both.
fn check_damage(tree: usize, damage: impl Fn(&sled::Tree, &[u8])) {
    let folder = tempdir().unwrap();
    let project = ProjectKey::default();
    let (bad, good) = (DocumentId::section("bad"), DocumentId::section("good"));
    run(async {
        let store = open(&folder);
        put(&store, &bad, "# Bad\n").await.unwrap();
        put(&store, &good, "# Good\n").await.unwrap();
        let database = database(&store);
        let (key, _) = database.tree(tree).first().unwrap().unwrap();
        damage(database.tree(tree), &key);

        let error = get(&store, &bad).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("section bad: "), "{text}");
        assert!(text.contains("`reqlore restore`"), "{text}");
        let refused = put(&store, &bad, "new").await;
        assert!(matches!(refused, Err(StoreError::Unreadable { .. })), "{refused:?}");
        let mut reader = store.export().await.unwrap();
        assert!(reader.next_batch().await.is_err(), "a copy is complete or fails");
        assert!(reader.next_batch().await.is_err(), "an error is not the end");
        drop(reader);

        assert_eq!(get(&store, &good).await.unwrap().unwrap().body, "# Good\n");
        let refused = put(&store, &good, "# Better\n").await.unwrap_err().to_string();
        assert!(refused.contains("writes are disabled"), "{refused}");
        let page =
            store.find(&project, &DocumentFilter::of_kind(DocumentKind::Section)).await.unwrap();
        assert_eq!(page.metadata.len(), 2);
        assert_eq!(page.metadata[1].title.as_deref(), Some("Good"));
        if tree == DOCUMENTS {
            assert!(page.metadata[0].diagnostic.is_some());
            let versions = store.versions(&project, &[bad, good]).await.unwrap();
            assert_eq!(versions, [Some(Version::UNREADABLE), Some(Version::of_bytes(b"# Good\n"))]);
        }
        drop(database);
        store.close().unwrap();
        let text = open_error(folder.path());
        assert!(text.contains("rows are missing or changed"), "{text}");
    });
}

/// Flips one bit of the byte at the position that `position` returns for the value's length.
fn flip_bit(tree: &sled::Tree, key: &[u8], position: impl Fn(usize) -> usize) {
    let mut value = tree.get(key).unwrap().unwrap().to_vec();
    let position = position(value.len());
    value[position] ^= 1;
    tree.insert(key, value).unwrap();
}

#[test]
fn damaged_document_is_reported_and_others_are_served() {
    check_damage(DOCUMENTS, |tree, key| flip_bit(tree, key, |length| length - 1));
    // A row stored under the key of another row.
    check_damage(DOCUMENTS, |tree, key| {
        let (_, other) = tree.last().unwrap().unwrap();
        tree.insert(key, other).unwrap();
    });
    check_damage(BODIES, |tree, key| flip_bit(tree, key, |_| 6));
    check_damage(BODIES, |tree, key| drop(tree.remove(key).unwrap()));
}

#[test]
fn damaged_audit_row_is_reported_and_ends_the_chain() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        store.append_events(vec![event(1, 1), event(2, 1)]).await.unwrap();
        store.close().unwrap();
        let store = open(&folder);
        let database = database(&store);
        let (_, first) = database.tree(AUDIT).first().unwrap().unwrap();
        let (last, _) = database.tree(AUDIT).last().unwrap().unwrap();
        database.tree(AUDIT).insert(&last, first).unwrap();
        let error = store.rows(1, 10).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(error.to_string().contains("tree audit"), "{error}");
        assert!(store.append_events(vec![event(3, 1)]).await.is_err());
        assert!(write(&store, "a", audited()).await.is_err());
        assert_eq!(get(&store, &DocumentId::section("a")).await.unwrap(), None);
        let refused = write(&store, "a", test_context()).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unreadable { .. }), "{refused:?}");
        let readable = store.rows(1, 1).await.unwrap()[0].head();
        assert_eq!(readable, AuditRow::seal_after(ChainHead::default(), event(1, 1)).head());
    });
}

#[test]
fn unreadable_audit_row_stops_pruning() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        let mut writer = store.import().await.unwrap();
        let unknown = AuditRow { number: 1, hash: RowHash::FIRST, text: "{}".into() };
        writer.write_batch(vec![ArchiveRecord::AuditRow(unknown)]).await.unwrap();
        writer.finish().await.unwrap();
        store.append_events(vec![event(1, 1)]).await.unwrap();
        assert_eq!(store.prune(test_context().at, test_context().at).await.unwrap(), 0);
        assert_eq!(store.rows(0, 9).await.unwrap().len(), 2);
    });
}
