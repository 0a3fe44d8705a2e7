//! The cache directory: saved, shared by processes, damaged or lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use reqlore_domain::document::DocumentId;
use reqlore_domain::search::{DocumentProjection, IndexDifference, SearchFacet, SearchItem};

use crate::support::{
    TestIndex, ToyModel, all_files, document_with_items, document_with_text, item, query,
    removed_document,
};

fn books() -> Vec<DocumentProjection> {
    let mut books: Vec<_> = (0..40)
        .map(|i| {
            document_with_text(
                &format!("b-{i}"),
                &format!("Book {i}"),
                &format!("alpha beta cat {i}"),
            )
        })
        .collect();
    let facets = vec![
        SearchFacet::new(SearchFacet::STATUS, "Draft"),
        SearchFacet::new(SearchFacet::PRIORITY, 1),
    ];
    books.push(document_with_items(
        "faceted",
        vec![SearchItem { facets, ..item("faceted", "", "alpha") }],
    ));
    books.push(document_with_items("nothing", Vec::new()));
    books
}

fn copy(from: &Path, to: &Path) {
    for file in all_files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

#[test]
fn restart_finds_saved_documents() {
    let folder = tempfile::tempdir().unwrap();
    let first = TestIndex::on_disk(folder.path());
    first.apply(books());
    first.apply(vec![removed_document("b-7"), document_with_text("b-8", "Other", "gamma")]);
    let (indexed, answer) = (first.indexed(), first.search(&query("alpha gamma 12")));
    drop(first);
    let second = TestIndex::on_disk(folder.path());
    assert_eq!(second.indexed(), indexed);
    assert!(indexed.contains_key(&DocumentId::entity("nothing")));
    assert_eq!(second.search(&query("alpha gamma 12")), answer);
    second.apply(vec![removed_document("b-9")]);
    drop(second);
    assert_eq!(TestIndex::on_disk(folder.path()).indexed().len(), indexed.len() - 1);
}

#[test]
fn kill_leaves_last_committed_index() {
    let folder = tempfile::tempdir().unwrap();
    let first = TestIndex::on_disk(folder.path());
    first.apply(books());
    drop(first);
    let second = TestIndex::on_disk(folder.path());
    second.apply(vec![removed_document("b-1"), document_with_text("more", "", "delta")]);
    assert_eq!(second.found_references("delta"), ["more"]);
    let searched = second.indexed();
    second.apply(vec![document_with_text("later", "", "delta")]);
    let left = tempfile::tempdir().unwrap();
    copy(folder.path(), left.path());
    let third = TestIndex::on_disk(left.path());
    assert_eq!(third.indexed(), searched);
    assert_eq!(third.found_references("delta"), ["more"]);
}

fn edit_file(path: &Path, edit: fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    if !bytes.is_empty() {
        edit(&mut bytes);
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_file_is_detected_and_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let model = || vec![ToyModel::instant() as _];
    let whole = TestIndex::new(Some(folder.path()), model());
    whole.apply(books());
    whole.apply(vec![removed_document("b-7"), document_with_text("b-8", "Other", "gamma")]);
    whole.checkpoint(whole.indexed());
    let (indexed, answer) = (whole.indexed(), whole.search(&query("alpha gamma 12")));
    drop(whole);
    let damages: [&dyn Fn(&Path); 6] = [
        &|path| fs::remove_file(path).unwrap(),
        &|path| edit_file(path, Vec::clear),
        &|path| edit_file(path, |bytes| bytes.truncate(bytes.len() / 2)),
        &|path| edit_file(path, |bytes| bytes.extend(b"more")),
        &|path| {
            edit_file(path, |bytes| bytes.iter_mut().step_by(97).for_each(|byte| *byte ^= 0x40));
        },
        &|path| fs::write(path, b"reqlore search cache words 0.0.0\nfrom another time").unwrap(),
    ];
    for file in all_files(folder.path()) {
        for damage in damages {
            let copied = tempfile::tempdir().unwrap();
            copy(folder.path(), copied.path());
            let path = copied.path().join(file.strip_prefix(folder.path()).unwrap());
            damage(&path);
            let index = TestIndex::new(Some(copied.path()), model());
            let found = index.indexed();
            assert!(found.is_empty() || found == indexed, "{}", path.display());
            if found.is_empty() {
                index.apply(books());
                index.apply(vec![
                    removed_document("b-7"),
                    document_with_text("b-8", "Other", "gamma"),
                ]);
            }
            assert_eq!(index.search(&query("alpha gamma 12")), answer, "{}", path.display());
            drop(index);
            assert_eq!(TestIndex::new(Some(copied.path()), model()).indexed(), indexed);
        }
    }
}

#[test]
fn two_indexes_on_one_directory_are_independent() {
    let folder = tempfile::tempdir().unwrap();
    let first = TestIndex::on_disk(folder.path());
    first.apply(books());
    let saved = first.indexed();
    drop(first);
    let writer = TestIndex::on_disk(folder.path());
    writer.position();
    let other = TestIndex::on_disk(folder.path());
    assert_eq!((writer.indexed(), other.indexed()), (saved, BTreeMap::new()));
    writer.apply(vec![document_with_text("by-writer", "", "gamma")]);
    other.apply(vec![document_with_text("by-other", "", "gamma")]);
    assert_eq!(writer.found_references("gamma"), ["by-writer"]);
    assert_eq!(other.found_references("gamma"), ["by-other"]);
    let at_writer = writer.indexed();
    drop(other);
    drop(writer);
    assert_eq!(TestIndex::on_disk(folder.path()).indexed(), at_writer);
}

#[test]
fn checkpoint_reports_changes_since_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let index = TestIndex::on_disk(folder.path());
    index.apply(books());
    let before = index.indexed();
    let added = IndexDifference { added: before.len(), ..IndexDifference::default() };
    assert_eq!(index.checkpoint(before.clone()), added);
    index.apply(vec![
        removed_document("b-1"),
        document_with_text("b-2", "New", ""),
        document_with_text("c", "", ""),
    ]);
    drop(index);
    let index = TestIndex::on_disk(folder.path());
    let unchanged = before.len() - 2;
    let changed = IndexDifference { added: 1, modified: 1, deleted: 1, unchanged };
    assert_eq!(index.checkpoint(index.indexed()), changed);
    assert_eq!(index.checkpoint(index.indexed()).unchanged, before.len());
}

#[test]
fn second_process_shares_checkpoints_and_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let model = ToyModel::instant();
    let open = || TestIndex::new(Some(folder.path()), vec![model.clone() as _]);
    let (first, second) = (open(), open());
    first.apply(books());
    let seen = first.indexed();
    assert!(second.indexed().is_empty());
    first.checkpoint(seen.clone());
    let unchanged = IndexDifference { unchanged: seen.len(), ..IndexDifference::default() };
    assert_eq!(second.checkpoint(seen.clone()), unchanged);
    second.apply(vec![document_with_text("c", "", "delta")]);
    second.checkpoint(second.indexed());
    let back = IndexDifference { added: seen.len(), deleted: 1, ..IndexDifference::default() };
    assert_eq!(first.checkpoint(seen), back);
    drop(first);
    second.apply(vec![document_with_text("d", "", "delta")]);
    drop(second);
    let read = model.passage_count();
    let third = open();
    // The second process took over the vectors of the first.
    third.apply(books());
    assert_eq!(model.passage_count(), read);
}

#[test]
fn vectors_survive_loss_of_lexical_index() {
    let folder = tempfile::tempdir().unwrap();
    let model = ToyModel::instant();
    let open = || TestIndex::new(Some(folder.path()), vec![model.clone() as _]);
    open().apply(books());
    let read = model.passage_count();
    assert_eq!(open().search(&query("feline")).pending, 0);
    let meta = all_files(folder.path()).into_iter().find(|path| path.ends_with("meta.json"));
    fs::remove_file(meta.unwrap()).unwrap();
    let index = open();
    assert_eq!(index.indexed(), BTreeMap::new());
    index.apply(books());
    assert_eq!(index.search(&query("feline")).pending, 0);
    assert_eq!(model.passage_count(), read);
}
