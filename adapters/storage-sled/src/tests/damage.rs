//! One damaged value is told, and harms nobody else.

use reqlore_contract::run;
use reqlore_domain::document::{DocumentId, Kind, Version};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{DocumentRepository, Filter, StoreError};
use reqlore_domain::project::ProjectKey;
use tempfile::tempdir;

use super::{base, config, get, put};
use crate::SledStore;
use crate::base::{BODIES, DOCUMENTS};

/// Two sections, of which `harm` did something to the first.
fn check(tree: usize, harm: impl Fn(&sled::Tree, &[u8])) {
    let folder = tempdir().unwrap();
    let project = ProjectKey::default();
    let (bad, good) = (DocumentId::section("bad"), DocumentId::section("good"));
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        put(&store, &bad, "# Bad\n").await.unwrap();
        put(&store, &good, "# Good\n").await.unwrap();
        let base = base(&store);
        let (key, _) = base.tree(tree).first().unwrap().unwrap();
        harm(base.tree(tree), &key);

        let error = get(&store, &bad).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("section bad: "), "{text}");
        assert!(text.contains("`reqlore restore`"), "{text}");
        let refused = put(&store, &bad, "new").await;
        assert!(matches!(refused, Err(StoreError::Unreadable { .. })), "{refused:?}");
        let mut source = store.read().await.unwrap();
        assert!(source.next().await.is_err(), "a copy is whole or none");
        drop(source);

        assert_eq!(get(&store, &good).await.unwrap().unwrap().body, "# Good\n");
        put(&store, &good, "# Better\n").await.unwrap();
        let page = store.find(&project, &Filter::all(Kind::Section)).await.unwrap();
        assert_eq!((page.heads.len(), page.total), (2, 2));
        assert_eq!(page.heads[1].title.as_deref(), Some("Better"));
        if tree == DOCUMENTS {
            assert!(page.heads[0].fault.is_some());
            let versions = store.versions(&project, &[bad, good]).await.unwrap();
            assert_eq!(versions, [Some(Version::UNREAD), Some(Version::of(b"# Better\n"))]);
        }
    });
}

#[test]
fn a_damaged_row_is_told_and_the_rest_served() {
    check(DOCUMENTS, |tree, key| {
        let mut value = tree.get(key).unwrap().unwrap().to_vec();
        let last = value.len() - 1;
        value[last] ^= 1;
        tree.insert(key, value).unwrap();
    });
}

#[test]
fn a_row_in_the_wrong_place_is_told() {
    check(DOCUMENTS, |tree, key| {
        let (_, other) = tree.last().unwrap().unwrap();
        tree.insert(key, other).unwrap();
    });
}

#[test]
fn a_damaged_body_is_told_and_the_rest_served() {
    check(BODIES, |tree, key| {
        let mut value = tree.get(key).unwrap().unwrap().to_vec();
        value[6] ^= 1;
        tree.insert(key, value).unwrap();
    });
}

#[test]
fn a_lost_body_is_told() {
    check(BODIES, |tree, key| drop(tree.remove(key).unwrap()));
}
