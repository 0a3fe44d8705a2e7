//! Many projects in one index.

use reqlore_domain::project_key::ProjectKey;

use crate::support::{TestIndex, document_with_text};

#[test]
fn closed_projects_are_opened_again_from_cache() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = TestIndex::on_disk(folder.path());
    let keys: Vec<_> = (0..20).map(|i| ProjectKey::new(format!("/p/{i}"))).collect();
    let mut known = Vec::new();
    for key in &keys {
        index.key = key.clone();
        index.apply(vec![document_with_text(&format!("in-{key}"), "", "alpha")]);
        known.push(index.indexed());
    }
    for (key, indexed) in keys.iter().zip(known) {
        index.key = key.clone();
        assert_eq!(index.indexed(), indexed);
        assert_eq!(index.found_references("alpha"), [format!("in-{key}")]);
    }
}

#[test]
fn closed_project_without_cache_is_empty_and_has_no_position() {
    let mut index = TestIndex::in_memory();
    index.apply(vec![document_with_text("a", "", "alpha")]);
    index.move_to(7);
    assert_eq!(index.position().map(|position| position.revision.0), Some(7));
    // A project that is used while the background thread closes it stays open.
    while index.position().is_some() {
        for number in 0..20 {
            index.key = ProjectKey::new(format!("/p/{number}"));
            index.indexed();
        }
        index.key = ProjectKey::default();
    }
    assert!(index.indexed().is_empty());
    index.apply(vec![document_with_text("a", "", "alpha")]);
    assert_eq!(index.found_references("alpha"), ["a"]);
}

#[test]
fn path_key_and_default_project_share_one_cache() {
    let folder = tempfile::tempdir().unwrap();
    let default = TestIndex::with_store("/home/a", Some(folder.path()), Vec::new());
    default.apply(vec![document_with_text("a", "", "alpha")]);
    let indexed = default.indexed();
    drop(default);
    let mut by_path = TestIndex::with_store("/home", Some(folder.path()), Vec::new());
    by_path.key = ProjectKey::new("/home/a");
    assert_eq!(by_path.indexed(), indexed);
    by_path.key = ProjectKey::default();
    assert!(by_path.indexed().is_empty());
}
