//! Damaged values are reported and disable writes.

use reqlore_contract::run;
use reqlore_domain::document::{Document, DocumentId, DocumentKind};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{
    DocumentFilter, DocumentRepository, StoreError, StoreResult,
};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use reqlore_row_store::RowStore;
use reqlore_row_store::tables::{BODIES, DOCUMENTS, TABLES, Table};
use sled::{IVec, Tree};
use tempfile::tempdir;

use super::{close, get, open_both, open_error, put};

/// The keys of the rows of a table, or of the entries of an index.
fn keys(tree: &Tree, table: &'static Table, index: u8) -> Vec<IVec> {
    let table = TABLES.iter().position(|one| *one == table).unwrap();
    let prefix = [u8::try_from(table).unwrap(), index];
    tree.scan_prefix(prefix).keys().map(Result::unwrap).collect()
}

/// Reads the row of a document and its body.
async fn read(store: &RowStore, id: &DocumentId) -> StoreResult<Option<Document>> {
    store.versions(&ProjectKey::default(), std::slice::from_ref(id)).await?;
    get(store, id).await
}

/// Puts two sections, damages the first and checks all operations on both.
fn check_damage(table: &'static Table, damage: impl Fn(&Tree, &[IVec])) {
    let folder = tempdir().unwrap();
    let (bad, good) = (DocumentId::section("bad"), DocumentId::section("good"));
    run(async {
        let (store, database) = open_both(&folder);
        put(&store, &bad, "# Bad\n").await.unwrap();
        put(&store, &good, "# Good\n").await.unwrap();
        let tree = &database.tree().0;
        damage(tree, &keys(tree, table, 0));

        let error = read(&store, &bad).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("bad") && text.contains("`reqlore restore`"), "{text}");
        let refused = put(&store, &bad, "new").await;
        assert!(matches!(refused, Err(StoreError::Unreadable { .. })), "{refused:?}");
        // A damaged row of a document is found before the first batch.
        if let Ok(mut reader) = store.export().await {
            assert!(reader.next_batch().await.is_err(), "a copy is complete or fails");
            assert!(reader.next_batch().await.is_err(), "an error is not the end");
        }

        assert_eq!(get(&store, &good).await.unwrap().unwrap().body, "# Good\n");
        let refused = put(&store, &good, "# Better\n").await;
        assert!(matches!(refused, Err(StoreError::Unreadable { .. })), "{refused:?}");
        assert!(store.known_damage().is_some());
        let found = store.find_damage().await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        drop(database);
        close(&folder, store);
        let text = open_error(folder.path());
        assert!(text.contains("rows are missing or changed"), "{text}");
    });
}

/// Flips one bit of the byte at the position that `position` returns for the value's length.
fn flip_bit(tree: &Tree, key: &[u8], position: impl Fn(usize) -> usize) {
    let mut value = tree.get(key).unwrap().unwrap().to_vec();
    let position = position(value.len());
    value[position] ^= 1;
    tree.insert(key, value).unwrap();
}

#[test]
fn damaged_document_is_reported_and_others_are_served() {
    check_damage(&DOCUMENTS, |tree, keys| flip_bit(tree, &keys[0], |length| length - 1));
    // A row stored under the key of another row.
    check_damage(&DOCUMENTS, |tree, keys| {
        let other = tree.get(&keys[1]).unwrap().unwrap();
        tree.insert(&keys[0], other).unwrap();
    });
    check_damage(&BODIES, |tree, keys| flip_bit(tree, &keys[0], |_| 6));
    check_damage(&BODIES, |tree, keys| drop(tree.remove(&keys[0]).unwrap()));
}

/// A direct change of the tree, as a defect of this program would leave it.
fn check_index_damage(damage: impl Fn(&Tree, &[IVec])) {
    let folder = tempdir().unwrap();
    run(async {
        let (store, database) = open_both(&folder);
        for name in ["a", "b"] {
            put(&store, &DocumentId::section(name), "text").await.unwrap();
        }
        let tree = &database.tree().0;
        damage(tree, &keys(tree, &DOCUMENTS, 1));
        assert_eq!(store.find_damage().await.unwrap(), ["rows are missing or changed"]);
        let sections = DocumentFilter::of_kind(DocumentKind::Section);
        let error = store.find(&ProjectKey::default(), &sections).await.unwrap_err();
        assert!(error.to_string().contains("so writes and answers that may be"), "{error}");
    });
}

#[test]
fn wrong_entry_of_an_index_is_found_by_the_check() {
    check_index_damage(|tree, keys| drop(tree.remove(&keys[0]).unwrap()));
    check_index_damage(|tree, keys| {
        tree.insert([&keys[0][..], b"x"].concat(), b"").unwrap();
    });
}
