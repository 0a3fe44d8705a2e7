//! Index folders with arbitrary files.

use std::time::Duration;

use super::*;

const FORMAT: &str = "1.2";

fn open(project: &Path) -> IndexFolder {
    IndexFolder::open(project, FORMAT).unwrap()
}

fn write(folder: &IndexFolder, name: &str, content: &str) {
    let bytes = folder.id.with_trailer(Path::new(name), content.as_bytes());
    // Replaced and never changed, as tantivy does.
    fs::write(folder.path().join("content.new"), bytes).unwrap();
    fs::rename(folder.path().join("content.new"), folder.path().join(name)).unwrap();
}

fn commit(folder: &IndexFolder, state: &str) {
    write(folder, &format!("{state}.store"), state);
    write(folder, META_FILE, state);
}

fn read(folder: &IndexFolder, name: &str) -> Option<String> {
    let bytes = fs::read(folder.path().join(name)).ok()?;
    let content = folder.id.without_trailer(Path::new(name), bytes).unwrap();
    Some(String::from_utf8(content).unwrap())
}

fn folder_names(project: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for (name, path) in entries(project).unwrap() {
        if path.is_dir() {
            names.push(name);
        }
    }
    names.sort();
    names
}

fn set_age(project: &Path, name: &str, days: u64) {
    let lock = File::options().write(true).open(lock_path(project, name)).unwrap();
    let now = lock.metadata().unwrap().modified().unwrap();
    lock.set_modified(now - Duration::from_secs(days * 86_400)).unwrap();
}

#[test]
fn folder_of_ended_process_is_taken_with_its_files() {
    let project = tempfile::tempdir().unwrap();
    let first = open(project.path());
    assert!(!first.is_clean());
    commit(&first, "a");
    let path = first.path();
    drop(first);
    let second = open(project.path());
    assert_eq!((second.path(), read(&second, META_FILE).as_deref()), (path, Some("a")));
}

#[test]
fn second_process_starts_with_links_to_newest_complete_index() {
    let project = tempfile::tempdir().unwrap();
    let first = open(project.path());
    commit(&first, "a");
    // Unfinished indexes are not copied.
    assert_eq!(read(&open(project.path()), META_FILE), None);
    first.mark_clean(true).unwrap();
    commit(&first, "b");
    let second = open(project.path());
    assert_ne!(second.path(), first.path());
    assert!(!second.is_clean());
    assert_eq!(read(&second, META_FILE).as_deref(), Some("b"));
    let is_shared = |name| {
        let file = File::open(first.path().join(name)).unwrap();
        durable_fs::is_same_file(&file, &second.path().join(name)).unwrap()
    };
    assert!(is_shared("a.store"));
    assert!(!is_shared(META_FILE));
    // Independent from now on.
    commit(&second, "c");
    second.mark_clean(true).unwrap();
    assert_eq!(read(&first, META_FILE).as_deref(), Some("b"));
    assert_eq!(read(&first, "c.store"), None);
    let third = open(project.path());
    assert_eq!(read(&third, META_FILE).as_deref(), Some("c"));
    assert!(third.is_clean());
}

#[test]
fn folder_filled_by_killed_process_is_filled_again() {
    let project = tempfile::tempdir().unwrap();
    let first = open(project.path());
    commit(&first, "a");
    first.mark_clean(true).unwrap();
    let killed = open(project.path());
    fs::remove_file(killed.path().join(META_FILE)).unwrap();
    fs::write(killed.path().join("torn.store"), "torn").unwrap();
    drop(killed);
    let second = open(project.path());
    assert_eq!(read(&second, META_FILE).as_deref(), Some("a"));
    assert!(!second.path().join("torn.store").try_exists().unwrap());
}

#[test]
fn marker_is_valid_until_next_commit() {
    let project = tempfile::tempdir().unwrap();
    let folder = open(project.path());
    commit(&folder, "a");
    folder.mark_clean(false).unwrap();
    assert!(folder.is_clean());
    commit(&folder, "b");
    assert!(!folder.is_clean());
    drop(folder);
    let folder = open(project.path());
    assert!(!folder.is_clean());
    folder.mark_clean(true).unwrap();
    drop(folder);
    let folder = open(project.path());
    assert!(folder.is_clean());
    fs::write(folder.path().join(MARKER_FILE), "damaged").unwrap();
    assert!(!folder.is_clean());
}

#[test]
fn damaged_renamed_or_foreign_file_fails_verification() {
    let parent = tempfile::tempdir().unwrap();
    let folder = open(&parent.path().join("project"));
    let content = "x".repeat(300_000);
    write(&folder, "a.store", &content);
    let (path, name) = (folder.path().join("a.store"), Path::new("a.store"));
    folder.verify_file(name).unwrap();
    let bytes = fs::read(&path).unwrap();
    for position in [0, 1, 150_000, bytes.len() - 8, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[position] ^= 4;
        fs::write(&path, damaged).unwrap();
        folder.verify_file(name).unwrap_err();
    }
    for length in [0, 7, 8, 1_000, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        folder.verify_file(name).unwrap_err();
    }
    fs::write(folder.path().join("b.store"), &bytes).unwrap();
    folder.verify_file(Path::new("b.store")).unwrap_err();
    let other = open(&parent.path().join("other"));
    write(&other, "a.store", &content);
    fs::copy(other.path().join("a.store"), &path).unwrap();
    folder.verify_file(name).unwrap_err();
    fs::remove_file(path).unwrap();
    folder.verify_file(name).unwrap();
}

#[test]
fn damaged_index_stays_aside_until_new_one_is_complete() {
    let project = tempfile::tempdir().unwrap();
    let first = open(project.path());
    commit(&first, "a");
    first.mark_clean(true).unwrap();
    let second = open(project.path());
    first.set_aside().unwrap();
    // Not linked from the second folder, whose files may be damaged too.
    assert_eq!(read(&first, META_FILE), None);
    assert_eq!(folder_names(project.path()), ["aside-1.2-0", "index-1.2-0", "index-1.2-1"]);
    second.set_aside().unwrap();
    assert_eq!(folder_names(project.path()), ["aside-1.2-1", "index-1.2-0", "index-1.2-1"]);
    commit(&second, "b");
    second.mark_clean(false).unwrap();
    assert_eq!(folder_names(project.path()).len(), 3);
    second.mark_clean(true).unwrap();
    assert_eq!(folder_names(project.path()), ["index-1.2-0", "index-1.2-1"]);
}

#[test]
fn folder_unused_for_a_week_is_removed() {
    let project = tempfile::tempdir().unwrap();
    let folders: Vec<_> = (0..4).map(|_| open(project.path())).collect();
    let other_format = IndexFolder::open(project.path(), "1.1").unwrap();
    let [_first, _second, third, fourth] = folders.try_into().unwrap();
    drop((third, fourth, other_format));
    set_age(project.path(), "1.2-1", 30);
    set_age(project.path(), "1.2-2", 8);
    set_age(project.path(), "1.2-3", 6);
    set_age(project.path(), "1.1-0", 8);
    // Takes the third folder, which is a recent one then.
    drop(open(project.path()));
    assert_eq!(
        folder_names(project.path()),
        ["index-1.2-0", "index-1.2-1", "index-1.2-2", "index-1.2-3"]
    );
    set_age(project.path(), "1.2-2", 8);
    drop(IndexFolder::open(project.path(), "1.3").unwrap());
    // The second one is old and locked.
    let names = ["index-1.2-0", "index-1.2-1", "index-1.2-3", "index-1.3-0"];
    assert_eq!(folder_names(project.path()), names);
}

#[test]
fn removed_cache_folder_is_noticed_before_a_commit() {
    let parent = tempfile::tempdir().unwrap();
    let project = parent.path().join("project");
    let first = open(&project);
    commit(&first, "a");
    first.check_lock().unwrap();
    fs::remove_dir_all(&project).unwrap();
    first.check_lock().unwrap_err();
    let second = open(&project);
    assert_eq!(second.path(), first.path());
    first.check_lock().unwrap_err();
    first.mark_clean(true).unwrap_err();
    first.set_aside().unwrap_err();
}

fn memory(location: &IndexLocation) -> &RamDirectory {
    match location {
        IndexLocation::Memory(directory) => directory,
        IndexLocation::Folder(folder) => panic!("{folder:?}"),
    }
}

#[test]
fn index_in_read_only_folder_is_copied_to_memory_if_it_fits() {
    let parent = tempfile::tempdir().unwrap();
    let project = parent.path().join("project");
    let folder = open(&project);
    commit(&folder, "a");
    folder.mark_clean(true).unwrap();
    commit(&folder, "b");
    fs::write(folder.path().join("torn.store"), "torn").unwrap();
    drop(folder);
    // A folder in location of the lock cannot be opened for writing, even as root.
    fs::remove_file(lock_path(&project, "1.2-0")).unwrap();
    fs::create_dir(lock_path(&project, "1.2-0")).unwrap();
    let location = IndexLocation::open(Some(&project), FORMAT, 10_000).unwrap();
    let meta = memory(&location).atomic_read(Path::new(META_FILE)).unwrap();
    assert_eq!(meta, b"b");
    for (file, is_copied) in [("a.store", true), ("b.store", true), ("torn.store", false)] {
        assert_eq!(memory(&location).exists(Path::new(file)).unwrap(), is_copied, "{file}");
    }
    let location = IndexLocation::open(Some(&project), FORMAT, 10).unwrap();
    assert!(!memory(&location).exists(Path::new(META_FILE)).unwrap());
    let location = IndexLocation::open(None, FORMAT, 10).unwrap();
    assert!(!memory(&location).exists(Path::new(META_FILE)).unwrap());
}

#[test]
fn index_damaged_again_during_its_rebuild_moves_into_memory() {
    let project = tempfile::tempdir().unwrap();
    let mut location = IndexLocation::open(Some(project.path()), FORMAT, 10_000).unwrap();
    location.replace(FORMAT, 10_000, &"first");
    assert!(matches!(location, IndexLocation::Folder(_)));
    location.replace(FORMAT, 10_000, &"second");
    assert!(matches!(location, IndexLocation::Memory(_)));
    location.replace(FORMAT, 10_000, &"third");
    assert!(matches!(location, IndexLocation::Memory(_)));
}
