//! Texts in the cache: which users can read them, and erased ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqlore_domain::project_key::ProjectKey;
use reqlore_search::rebuild::set_index_aside;

use crate::support::{TestIndex, ToyModel, all_files, document_with_text};

/// The paths below a folder that other users may use.
fn public_paths(folder: &Path) -> Vec<String> {
    let mut public = Vec::new();
    for file in all_files(folder) {
        for path in file.ancestors().take_while(|path| *path != folder) {
            if path.metadata().unwrap().permissions().mode() & 0o077 != 0 {
                public.push(path.display().to_string());
            }
        }
    }
    public
}

fn use_cache(cache: &Path) {
    let index = TestIndex::new(Some(cache), vec![ToyModel::instant()]);
    index.apply(vec![document_with_text("a", "Car", "alpha"), document_with_text("b", "", "cat")]);
    index.move_to(1);
    assert_eq!(index.found_references("alpha"), ["a"]);
    index.checkpoint(index.indexed());
    set_index_aside(cache, "store", &ProjectKey::default()).unwrap();
}

#[test]
fn cache_is_private_with_any_umask() {
    for umask in [0o000, 0o002, 0o007, 0o022, 0o027, 0o077] {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("search");
        let before = rustix::process::umask(umask.into());
        use_cache(&cache);
        // The copy of another process's index.
        let first = TestIndex::on_disk(&cache);
        first.move_to(2);
        first.indexed();
        let second = TestIndex::on_disk(&cache);
        second.indexed();
        rustix::process::umask(before);
        assert_eq!(public_paths(folder.path()), Vec::<String>::new(), "{umask:o}");
    }
}

/// The files that contain a text.
fn files_with(cache: &Path, text: &str) -> usize {
    let files = all_files(cache).into_iter().map(|file| fs::read(file).unwrap());
    files.filter(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes())).count()
}

#[test]
fn erased_text_is_in_no_folder_and_open_indexes_are_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path();
    let other = document_with_text("other", "", "beta");
    let (first, second) = (TestIndex::on_disk(cache), TestIndex::on_disk(cache));
    for index in [&first, &second] {
        index.apply(vec![document_with_text("a", "", "hunter2"), other.clone()]);
        index.move_to(1);
        assert_eq!(index.found_references("hunter2"), ["a"]);
        index.apply(vec![document_with_text("a", "", "alpha")]);
        assert_eq!(index.found_references("hunter2"), Vec::<String>::new());
    }
    assert!(files_with(cache, "hunter2") > 0);
    TestIndex::on_disk(cache).erase();
    assert_eq!(files_with(cache, "hunter2"), 0);
    for index in [&first, &second] {
        // The change of an erased index is lost, and so is its position.
        index.apply(vec![document_with_text("later", "", "gamma")]);
        index.search(&crate::support::query("gamma"));
        assert_eq!(index.position(), None);
        index.apply(vec![document_with_text("a", "", "alpha"), other.clone()]);
        index.move_to(2);
        assert_eq!(index.found_references("alpha beta").len(), 2);
    }
    drop((first, second));
    let reopened = TestIndex::on_disk(cache);
    assert_eq!(reopened.found_references("alpha"), ["a"]);
    assert!(reopened.position().is_some(), "it was saved");
    assert_eq!(files_with(cache, "hunter2"), 0);
}
