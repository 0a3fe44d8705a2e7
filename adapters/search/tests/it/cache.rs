//! The folder of the cache: kept, shared, damaged, lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use reqlore_domain::document::DocumentId;
use reqlore_domain::search::{DocumentProjection, IndexDifference, SearchFacet, SearchItem};

use crate::support::{Tester, Toy, document, gone, holding, item, query};

fn books() -> Vec<DocumentProjection> {
    let mut books: Vec<_> = (0..40)
        .map(|i| document(&format!("b-{i}"), &format!("Book {i}"), &format!("alpha beta cat {i}")))
        .collect();
    let facets = vec![
        SearchFacet::new(SearchFacet::STATUS, "Draft"),
        SearchFacet::new(SearchFacet::PRIORITY, 1),
    ];
    books.push(holding("faceted", vec![SearchItem { facets, ..item("faceted", "", "alpha") }]));
    books.push(holding("nothing", Vec::new()));
    books
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

#[test]
fn a_new_process_finds_what_the_last_one_left() {
    let folder = tempfile::tempdir().unwrap();
    let first = Tester::on_disk(folder.path());
    first.apply(books());
    first.apply(vec![gone("b-7"), document("b-8", "Other", "gamma")]);
    let (indexed, answer) = (first.indexed(), first.search(&query("alpha gamma 12")));
    drop(first);
    let second = Tester::on_disk(folder.path());
    assert_eq!(second.indexed(), indexed);
    assert!(indexed.contains_key(&DocumentId::entity("nothing")));
    assert_eq!(second.search(&query("alpha gamma 12")), answer);
    second.apply(vec![gone("b-9")]);
    drop(second);
    assert_eq!(Tester::on_disk(folder.path()).indexed().len(), indexed.len() - 1);
}

#[test]
fn what_a_killed_process_leaves_is_the_last_saved_state() {
    let folder = tempfile::tempdir().unwrap();
    let first = Tester::on_disk(folder.path());
    first.apply(books());
    let saved = first.indexed();
    drop(first);
    let second = Tester::on_disk(folder.path());
    second.apply(vec![gone("b-1"), document("more", "", "delta")]);
    assert_eq!(second.found("delta"), ["more"]);
    let left = tempfile::tempdir().unwrap();
    copy(folder.path(), left.path());
    let third = Tester::on_disk(left.path());
    assert_eq!(third.indexed(), saved);
    assert_eq!(third.found("delta"), [""; 0]);
}

#[test]
fn every_damaged_file_is_noticed_and_made_good() {
    let folder = tempfile::tempdir().unwrap();
    let model = || vec![Toy::instant() as _];
    let whole = Tester::new(Some(folder.path()), model());
    whole.apply(books());
    whole.apply(vec![gone("b-7"), document("b-8", "Other", "gamma")]);
    whole.checkpoint(whole.indexed());
    let (indexed, answer) = (whole.indexed(), whole.search(&query("alpha gamma 12")));
    drop(whole);
    let edited = |path: &Path, edit: fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).unwrap();
        if !bytes.is_empty() {
            edit(&mut bytes);
        }
        fs::write(path, bytes).unwrap();
    };
    let damages: [&dyn Fn(&Path); 6] = [
        &|path| fs::remove_file(path).unwrap(),
        &|path| edited(path, Vec::clear),
        &|path| edited(path, |bytes| bytes.truncate(bytes.len() / 2)),
        &|path| edited(path, |bytes| bytes.extend(b"more")),
        &|path| edited(path, |bytes| bytes.iter_mut().step_by(97).for_each(|byte| *byte ^= 0x40)),
        &|path| fs::write(path, b"reqlore search cache words 0.0.0\nfrom another time").unwrap(),
    ];
    for file in files(folder.path()) {
        for damage in damages {
            let copied = tempfile::tempdir().unwrap();
            copy(folder.path(), copied.path());
            let path = copied.path().join(file.strip_prefix(folder.path()).unwrap());
            damage(&path);
            let index = Tester::new(Some(copied.path()), model());
            let found = index.indexed();
            assert!(found.is_empty() || found == indexed, "{}", path.display());
            if found.is_empty() {
                index.apply(books());
                index.apply(vec![gone("b-7"), document("b-8", "Other", "gamma")]);
            }
            assert_eq!(index.search(&query("alpha gamma 12")), answer, "{}", path.display());
            drop(index);
            assert_eq!(Tester::new(Some(copied.path()), model()).indexed(), indexed);
        }
    }
}

#[test]
fn two_indexes_on_one_folder_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let first = Tester::on_disk(folder.path());
    first.apply(books());
    let saved = first.indexed();
    drop(first);
    let writer = Tester::on_disk(folder.path());
    writer.indexed();
    let other = Tester::on_disk(folder.path());
    assert_eq!(other.indexed(), saved);
    writer.apply(vec![document("by-writer", "", "gamma")]);
    other.apply(vec![document("by-other", "", "gamma")]);
    assert_eq!(writer.found("gamma"), ["by-writer"]);
    assert_eq!(other.found("gamma"), ["by-other"]);
    let at_writer = writer.indexed();
    drop(other);
    drop(writer);
    assert_eq!(Tester::on_disk(folder.path()).indexed(), at_writer);
}

#[test]
fn a_checkpoint_tells_what_changed_since() {
    let folder = tempfile::tempdir().unwrap();
    let index = Tester::on_disk(folder.path());
    index.apply(books());
    let before = index.indexed();
    let added = IndexDifference { added: before.len(), ..IndexDifference::default() };
    assert_eq!(index.checkpoint(before.clone()), added);
    index.apply(vec![gone("b-1"), document("b-2", "New", ""), document("c", "", "")]);
    drop(index);
    let index = Tester::on_disk(folder.path());
    let unchanged = before.len() - 2;
    let changed = IndexDifference { added: 1, modified: 1, deleted: 1, unchanged };
    assert_eq!(index.checkpoint(index.indexed()), changed);
    assert_eq!(index.checkpoint(index.indexed()).unchanged, before.len());
}

#[test]
fn a_second_process_counts_on_and_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let model = Toy::instant();
    let open = || Tester::new(Some(folder.path()), vec![model.clone() as _]);
    let (first, second) = (open(), open());
    first.apply(books());
    let seen = first.indexed();
    assert!(second.indexed().is_empty());
    first.checkpoint(seen.clone());
    let unchanged = IndexDifference { unchanged: seen.len(), ..IndexDifference::default() };
    assert_eq!(second.checkpoint(seen.clone()), unchanged);
    second.apply(vec![document("c", "", "delta")]);
    second.checkpoint(second.indexed());
    let back = IndexDifference { added: seen.len(), deleted: 1, ..IndexDifference::default() };
    assert_eq!(first.checkpoint(seen), back);
    drop(first);
    second.apply(vec![document("d", "", "delta")]);
    let indexed = second.indexed();
    drop(second);
    let read = model.texts();
    let third = open();
    assert_eq!(third.indexed(), indexed);
    assert_eq!(third.found("delta"), ["c", "d"]);
    // Vectors of the first one are there as well.
    third.apply(books());
    assert_eq!(model.texts(), read);
}

#[test]
fn vectors_outlive_the_words_and_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let model = Toy::instant();
    let open = || Tester::new(Some(folder.path()), vec![model.clone() as _]);
    open().apply(books());
    let read = model.texts();
    assert_eq!(open().search(&query("feline")).pending, 0);
    let manifest = files(folder.path()).into_iter().find(|path| path.ends_with("manifest"));
    fs::remove_file(manifest.unwrap()).unwrap();
    let index = open();
    assert_eq!(index.indexed(), BTreeMap::new());
    index.apply(books());
    assert_eq!(index.search(&query("feline")).pending, 0);
    assert_eq!(model.texts(), read);
}
