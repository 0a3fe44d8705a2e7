//! The trees of lists: compared by the check, never shown wrongly.

use reqlore_contract::run;
use reqlore_domain::backlog::{ItemKind, Status};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::documents::{DocumentRepository, StoreError};
use reqlore_domain::ports::item_list::{ItemFilter, ItemQuery};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use tempfile::{TempDir, tempdir};

use super::{database, delete, open, put};
use crate::SledStore;
use crate::database::{CHILDREN, DIAGNOSTICS, ITEMS, PROJECTS};
use crate::records::{encode, kind_prefix};

const KIND: DocumentKind = DocumentKind::Item(ItemKind::Requirement);

fn id(name: &str) -> DocumentId {
    DocumentId { kind: KIND, name: name.to_owned() }
}

/// Three requirements, of which one is active and one has a diagnostic.
async fn put_items(store: &SledStore) {
    for (name, text) in [
        ("REQ-001", "---\ntitle: A\nstatus: Active\nuser_story: US-001\n---\n"),
        ("REQ-002", "---\ntitle: B\npriority: 1\n---\n"),
        ("REQ-003", "---\ntitle: [\n---\n"),
    ] {
        put(store, &id(name), text).await.unwrap();
    }
}

async fn names(store: &SledStore, filter: ItemFilter) -> Vec<String> {
    let query = ItemQuery { filter, ..ItemQuery::of_kind(ItemKind::Requirement, 10) };
    let page = store.items(&ProjectKey::default(), &query).await.unwrap();
    assert_eq!(page.total, page.metadata.len());
    page.metadata.iter().map(|meta| meta.id.name.clone()).collect()
}

fn active() -> ItemFilter {
    ItemFilter { status: Some(Status::Active), ..ItemFilter::default() }
}

#[test]
fn lists_leave_no_key_of_a_deleted_item() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        put_items(&store).await;
        put(&store, &id("REQ-001"), "---\ntitle: A\nstatus: Draft\n---\n").await.unwrap();
        assert_eq!(names(&store, active()).await, Vec::<String>::new());
        for name in ["REQ-001", "REQ-002", "REQ-003"] {
            delete(&store, &id(name)).await;
        }
        let database = database(&store);
        for tree in [ITEMS, CHILDREN, DIAGNOSTICS] {
            assert_eq!(database.tree(tree).len(), 0, "{tree}");
        }
        let project = database.project_row(&ProjectKey::default()).unwrap();
        assert!(project.item_counts.is_empty(), "{:?}", project.item_counts);
    });
}

/// A store after a direct change of its trees, as a defect of this program would leave them.
async fn changed_store(folder: &TempDir, change: &str) -> SledStore {
    let store = open(folder);
    put_items(&store).await;
    let database = database(&store);
    let first = |tree: usize| database.tree(tree).first().unwrap().unwrap().0;
    match change {
        "lost" => drop(database.tree(ITEMS).remove(first(ITEMS)).unwrap()),
        "without its parent" => drop(database.tree(CHILDREN).remove(first(CHILDREN)).unwrap()),
        "extra" => {
            let key = [&kind_prefix(1, KIND)[..], &[2, 0, 1, 0, 0]].concat();
            drop(database.tree(ITEMS).insert(key, &[][..]).unwrap());
        }
        "other status" => {
            let prefix = kind_prefix(1, KIND).len();
            let mut key = database.tree(ITEMS).last().unwrap().unwrap().0.to_vec();
            database.tree(ITEMS).remove(&key).unwrap();
            key[prefix] = 2;
            database.tree(ITEMS).insert(key, &[][..]).unwrap();
        }
        "miscounted" => {
            let project = ProjectKey::default();
            let mut row = database.project_row(&project).unwrap();
            for count in row.item_counts.values_mut() {
                *count += 1;
            }
            let key = project.as_str().as_bytes();
            drop(database.tree(PROJECTS).insert(key, encode(key, &row)).unwrap());
        }
        _ => drop(database.tree(DIAGNOSTICS).remove(first(DIAGNOSTICS)).unwrap()),
    }
    drop(database);
    store
}

#[test]
fn wrong_key_of_a_list_is_found_by_the_check() {
    for change in
        ["lost", "without its parent", "extra", "other status", "miscounted", "no diagnostic"]
    {
        let folder = tempdir().unwrap();
        run(async {
            let store = changed_store(&folder, change).await;
            let differences = database(&store).list_differences().unwrap();
            assert_eq!(differences.len(), 1, "{change}: {differences:?}");
            assert!(!store.find_damage().await.unwrap().is_empty(), "{change}");
        });
    }
}

#[test]
fn wrong_key_of_a_list_is_not_served() {
    let folder = tempdir().unwrap();
    run(async {
        let store = changed_store(&folder, "other status").await;
        let filter = ItemFilter { status: Some(Status::Draft), ..ItemFilter::default() };
        let query = ItemQuery { filter, ..ItemQuery::of_kind(ItemKind::Requirement, 10) };
        let read = store.items(&ProjectKey::default(), &query).await;
        assert!(matches!(read, Err(StoreError::Unreadable { .. })), "{read:?}");
    });
}
