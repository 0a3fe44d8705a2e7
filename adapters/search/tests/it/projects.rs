//! Many projects in one index, and one project by many ways.

use reqlore_domain::project_key::ProjectKey;

use crate::support::{Tester, document};

#[test]
fn many_projects_take_turns_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = Tester::on_disk(folder.path());
    let keys: Vec<_> = (0..20).map(|i| ProjectKey::new(format!("/p/{i}"))).collect();
    let mut known = Vec::new();
    for key in &keys {
        index.key = key.clone();
        index.apply(vec![document(&format!("in-{key}"), "", "alpha")]);
        known.push((index.indexed(), index.losses()));
    }
    for (key, (indexed, losses)) in keys.iter().zip(known) {
        index.key = key.clone();
        assert_ne!(index.losses(), losses, "{key}");
        assert_eq!(index.indexed(), indexed);
        assert_eq!(index.found("alpha"), [format!("in-{key}")]);
    }
}

#[test]
fn in_memory_a_project_that_made_room_is_empty_and_says_so() {
    let mut index = Tester::in_memory();
    index.apply(vec![document("a", "", "alpha")]);
    let losses = index.losses();
    for number in 0..20 {
        index.key = ProjectKey::new(format!("/p/{number}"));
        index.indexed();
    }
    index.key = ProjectKey::default();
    assert_ne!(index.losses(), losses);
    assert!(index.indexed().is_empty());
    index.apply(vec![document("a", "", "alpha")]);
    assert_eq!(index.found("alpha"), ["a"]);
}

#[test]
fn a_folder_has_one_cache_under_both_of_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let there = Tester::of_store("/home/a", Some(folder.path()), Vec::new());
    there.apply(vec![document("a", "", "alpha")]);
    let indexed = there.indexed();
    drop(there);
    let mut elsewhere = Tester::of_store("/home", Some(folder.path()), Vec::new());
    elsewhere.key = ProjectKey::new("/home/a");
    assert_eq!(elsewhere.indexed(), indexed);
    elsewhere.key = ProjectKey::default();
    assert!(elsewhere.indexed().is_empty());
}
