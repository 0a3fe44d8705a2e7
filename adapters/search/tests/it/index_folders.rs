//! Index folders of several processes, and damage to their files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use reqlore_domain::error::ErrorKind;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{DocumentProjection, SearchHits};
use reqlore_search::inspect::inspect_cache;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{TestIndex, all_files, document_with_text, query};

fn books() -> Vec<DocumentProjection> {
    let mut books = Vec::new();
    for number in 0..30 {
        let text = format!("alpha beta cat {number}");
        books.push(document_with_text(&format!("b-{number}"), "Book", &text));
    }
    books
}

/// Applies all books, as the application does after the index was lost.
fn build(index: &TestIndex) {
    index.apply(books());
    index.move_to(1);
}

/// Searches as the application does: an index without a position is built first.
fn search(index: &TestIndex) -> SearchHits {
    loop {
        if index.position().is_none() {
            build(index);
        }
        let hits = index.search(&query("alpha 12"));
        // Damage may have been found by this search.
        if index.position().is_some() {
            return SearchHits { state: 0, ..hits };
        }
    }
}

/// Returns a cache folder with a complete index of the books, and the expected answer.
fn built_cache() -> (tempfile::TempDir, SearchHits) {
    let folder = tempfile::tempdir().unwrap();
    let index = TestIndex::on_disk(folder.path());
    // Two segments, and a record that was replaced.
    index.apply(books());
    search(&index);
    index.apply(books().split_off(20));
    let answer = search(&index);
    drop(index);
    (folder, answer)
}

fn references(hits: &SearchHits) -> Vec<&str> {
    hits.hits.iter().map(|hit| &*hit.reference).collect()
}

/// Returns the segment files, whose names begin with the ID of their segment.
fn segment_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = all_files(folder);
    files.retain(|path| path.file_stem().is_some_and(|stem| stem.len() >= 32));
    assert!(files.len() > 10, "{files:?}");
    files
}

fn copy(from: &Path) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    for file in all_files(from) {
        let target = copied.path().join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
    copied
}

#[test]
fn second_process_shares_files_and_has_changes_of_its_own() {
    let (folder, answer) = built_cache();
    let (first, second) = (TestIndex::on_disk(folder.path()), TestIndex::on_disk(folder.path()));
    assert_eq!((search(&first), search(&second)), (answer.clone(), answer));
    for file in segment_files(folder.path()) {
        assert_eq!(fs::metadata(&file).unwrap().nlink(), 2, "{}", file.display());
    }
    first.apply(vec![document_with_text("by-first", "", "gamma")]);
    second.apply(vec![document_with_text("by-second", "", "gamma")]);
    assert_eq!(first.found_references("gamma"), ["by-first"]);
    assert_eq!(second.found_references("gamma"), ["by-second"]);
    drop((first, second));
    let third = TestIndex::on_disk(folder.path());
    assert_eq!(third.found_references("gamma"), ["by-first"]);
}

#[test]
fn file_cut_under_open_index_ends_in_right_answer() {
    let (folder, answer) = built_cache();
    let expected = references(&answer);
    let damages: [&dyn Fn(&Path); 2] = [&|path| fs::remove_file(path).unwrap(), &|path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }];
    for file in all_files(folder.path()) {
        for (number, damage) in damages.iter().enumerate() {
            let copied = copy(folder.path());
            let index = TestIndex::on_disk(copied.path());
            search(&index);
            damage(&copied.path().join(file.strip_prefix(folder.path()).unwrap()));
            let name = file.display();
            assert_eq!(references(&search(&index)), expected, "{name} {number}");
            // A commit opens the files again.
            index.apply(vec![document_with_text("more", "", "gamma")]);
            index.found_references("gamma");
            assert_eq!(references(&search(&index)), expected, "{name} {number}");
            if number == 0 {
                drop(index);
                let next = TestIndex::on_disk(copied.path());
                assert_eq!(references(&search(&next)), expected, "{name}");
            }
        }
    }
}

/// A copy of the folder in which one bit of a file is changed, and the path of this file.
fn copy_with_flipped_bit(folder: &Path, file: &Path) -> (tempfile::TempDir, PathBuf) {
    let copied = copy(folder);
    let path = copied.path().join(file.strip_prefix(folder).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    (copied, path)
}

#[test]
fn flipped_bit_is_found_by_background_check() {
    let (folder, answer) = built_cache();
    for file in segment_files(folder.path()) {
        let (copied, _) = copy_with_flipped_bit(folder.path(), &file);
        let index = TestIndex::on_disk(copied.path());
        while index.position().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(search(&index), answer);
        drop(index);
        assert_eq!(search(&TestIndex::on_disk(copied.path())), answer);
        let aside = all_files(copied.path()).into_iter().any(|path| {
            path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("aside-"))
        });
        assert!(!aside, "the damaged index is removed after the rebuild");
    }
}

#[test]
fn flipped_bit_after_kill_is_found_before_first_answer() {
    let (folder, answer) = built_cache();
    for file in segment_files(folder.path()) {
        let (copied, path) = copy_with_flipped_bit(folder.path(), &file);
        fs::remove_file(path.with_file_name("marker")).unwrap();
        let index = TestIndex::on_disk(copied.path());
        assert_eq!(index.position(), None, "{}", file.display());
        assert_eq!(search(&index), answer);
    }
}

#[test]
fn file_of_another_project_is_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = TestIndex::on_disk(folder.path());
    build(&index);
    let answer = search(&index);
    index.key = ProjectKey::new("/other");
    index.apply(vec![document_with_text("foreign", "", "alpha 12")]);
    index.move_to(1);
    search(&index);
    drop(index);
    let mut projects: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    projects.sort();
    assert_eq!(projects.len(), 2);
    // All files of a project, and each one in place of a file with the same extension.
    for (from, to) in [(0, 1), (1, 0)] {
        let copied = copy(folder.path());
        let target = copied.path().join(projects[to].file_name().unwrap());
        for file in all_files(&projects[from]) {
            fs::copy(&file, target.join(file.strip_prefix(&projects[from]).unwrap())).unwrap();
        }
        let index = TestIndex::on_disk(copied.path());
        assert!(index.found_references("foreign").is_empty());
        assert_eq!(search(&index), answer);
    }
    for foreign in segment_files_of(&projects[0]) {
        for own in segment_files_of(&projects[1]) {
            if foreign.extension() != own.extension() {
                continue;
            }
            for (from, to) in [(&foreign, &own), (&own, &foreign)] {
                let copied = copy(folder.path());
                fs::copy(from, copied.path().join(to.strip_prefix(folder.path()).unwrap()))
                    .unwrap();
                let index = TestIndex::on_disk(copied.path());
                assert_eq!(search(&index), answer);
            }
        }
    }
}

fn segment_files_of(project: &Path) -> Vec<PathBuf> {
    let mut files = all_files(project);
    files.retain(|path| path.file_stem().is_some_and(|stem| stem.len() >= 32));
    files
}

#[test]
fn cache_folder_off_missing_or_unusable_gives_same_answer() {
    let (folder, answer) = built_cache();
    assert_eq!(search(&TestIndex::in_memory()).hits, answer.hits);
    let missing = folder.path().join("a/b/c");
    assert_eq!(search(&TestIndex::on_disk(&missing)).hits, answer.hits);
    assert!(missing.try_exists().unwrap());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(search(&TestIndex::on_disk(&file)).hits, answer.hits);
}

#[test]
fn index_in_unwritable_folder_is_copied_into_memory() {
    let (folder, answer) = built_cache();
    let locks: Vec<_> = all_files(folder.path())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "lock"))
        .collect();
    assert_eq!(locks.len(), 1);
    // Nothing can be written to it, even as root.
    fs::remove_file(&locks[0]).unwrap();
    fs::create_dir(&locks[0]).unwrap();
    let index = TestIndex::on_disk(folder.path());
    assert!(index.position().is_some());
    assert_eq!(search(&index), answer);
    index.apply(vec![document_with_text("more", "", "gamma")]);
    assert_eq!(index.found_references("gamma"), ["more"]);
    drop(index);
    assert!(TestIndex::on_disk(folder.path()).found_references("gamma").is_empty());
}

#[test]
fn unfinished_build_is_neither_shown_nor_linked() {
    let folder = tempfile::tempdir().unwrap();
    let shown_bytes = || {
        let status = inspect_cache(folder.path(), "store", &ProjectKey::default());
        status.unwrap().unwrap().index_bytes
    };
    let index = TestIndex::on_disk(folder.path());
    index.apply(books());
    // The position of a build.
    index.move_to(0);
    drop(index);
    assert_eq!(shown_bytes(), None);
    let index = TestIndex::on_disk(folder.path());
    assert_eq!(index.indexed().len(), 30);
    let other = TestIndex::on_disk(folder.path());
    assert_eq!((other.indexed().len(), other.position()), (0, None));
    build(&index);
    drop(index);
    assert!(shown_bytes().is_some());
}

#[test]
fn process_waits_for_another_build_and_copies_it() {
    let folder = tempfile::tempdir().unwrap();
    let builder = TestIndex::on_disk(folder.path());
    assert!(builder.begin_build());
    let waiting = [0, 1].map(|_| TestIndex::on_disk(folder.path()));
    for index in &waiting {
        // It may index changes meanwhile, which the copy has as well.
        index.apply(books().split_off(25));
        assert!(!index.begin_build() && index.position().is_none());
    }
    build(&builder);
    let answer = search(&builder);
    // Saves it, unless a slow machine has done so before.
    drop(builder);
    for index in &waiting {
        assert!(index.begin_build());
        assert!(index.position().is_some(), "it is a copy");
        assert_eq!(references(&index.search(&query("alpha 12"))), references(&answer));
    }
}

#[test]
fn process_builds_alone_after_the_builder_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let builder = TestIndex::on_disk(folder.path());
    assert!(builder.begin_build());
    builder.apply(books().split_off(20));
    let waiting = TestIndex::on_disk(folder.path());
    assert!(!waiting.begin_build());
    // Its index is saved, but it is not complete.
    drop(builder);
    // It is not the writer of the vectors, which may still begin.
    assert!((0..20).any(|_| waiting.begin_build()) && waiting.position().is_none());
    let third = TestIndex::on_disk(folder.path());
    assert!(!third.begin_build());
}

/// Limits the open files to the present ones and some more.
fn limit_files(free: u64) -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + free), ..before }).unwrap();
    before
}

#[test]
fn missing_file_descriptors_are_an_error_and_no_damage() {
    let (folder, answer) = built_cache();
    let mut failed = 0;
    for free in 0..24 {
        let index = TestIndex::on_disk(folder.path());
        let before = limit_files(free);
        let found = index.try_search(&query("alpha 12"));
        setrlimit(Resource::Nofile, before).unwrap();
        match found {
            Ok(found) => assert_eq!(references(&found), references(&answer), "{free}"),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unavailable, "{free}: {error}");
                failed += 1;
            }
        }
        assert_eq!(references(&index.search(&query("alpha 12"))), references(&answer), "{free}");
        assert!(index.position().is_some(), "{free}");
    }
    assert!((10..24).contains(&failed), "{failed}");
    assert!(
        !all_files(folder.path()).iter().any(|file| file.display().to_string().contains("aside-"))
    );
}
