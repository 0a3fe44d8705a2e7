//! Folders that are refused, kept unchanged, recovered or made private.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use reqlore_contract::run;
use reqlore_domain::document::DocumentId;
use reqlore_durable_fs::commit_counter::CommitCounter;
use tempfile::tempdir;

use super::{close, config, get, open, open_both, open_error, put};
use crate::files::{ACKNOWLEDGED, CREATION_MARKER, DatabaseFile};
use crate::open::COPY_TIMEOUT;
use crate::open::{FORMAT, FORMAT_KEY, open_database, wait_until_closed};
use crate::{DatabaseState, inspect};

const UNFINISHED_SNAPSHOT: &str = "snap.00000000000000FF.generating";

/// Returns every entry below the folder with its bytes or its link target.
fn entries(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        let bytes = if kind.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if kind.is_dir() {
            found.extend(entries(&path));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        found.push((path, bytes));
    }
    found.sort();
    found
}

/// Asserts that opening and inspecting a folder fail and leave it unchanged.
#[track_caller]
fn assert_untouched(folder: &Path, message: &str) {
    let before = entries(folder);
    let text = open_error(folder);
    assert!(text.contains(message), "{text}");
    assert_eq!(inspect(&config(folder)).unwrap_err().to_string(), text);
    assert!(entries(folder) == before, "something was changed");
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn create(folder: &Path) -> PathBuf {
    drop(crate::open(&config(folder)).unwrap());
    let sled = folder.join("sled");
    wait_until_closed(&sled).unwrap();
    sled
}

/// Creates a closed database with sections of one kilobyte.
async fn fill(folder: &Path, sections: usize) {
    let store = crate::open(&config(folder)).unwrap();
    for number in 0..sections {
        put(&store, &DocumentId::section(number.to_string()), &text(number)).await.unwrap();
    }
    drop(store);
    wait_until_closed(&folder.join("sled")).unwrap();
}

fn text(number: usize) -> String {
    format!("{number} ").repeat(500)
}

/// Creates a sled database of another program.
fn make_foreign(sled: &Path, tree: &str) {
    let db = sled::Config::new().path(sled).open().unwrap();
    db.open_tree(tree).unwrap().insert("their", "own").unwrap();
    drop(db);
    wait_until_closed(sled).unwrap();
}

pub(super) fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("blobs")).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn foreign_files_are_refused_unchanged() {
    let thesis = "A thesis. ".repeat(20_000);
    for count in [None, Some(&b""[..]), Some(b"not twelve"), Some(b"twelve bytes")] {
        let folder = tempdir().unwrap();
        let sled = folder.path().join("sled");
        fs::create_dir(&sled).unwrap();
        fs::write(sled.join("db"), &thesis).unwrap();
        fs::write(sled.join(UNFINISHED_SNAPSHOT), "theirs").unwrap();
        if let Some(count) = count {
            fs::write(sled.join(ACKNOWLEDGED), count).unwrap();
        }
        assert_untouched(folder.path(), "is not known to be Reqlore's");
    }
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    make_foreign(&sled, "meta");
    assert_untouched(folder.path(), "is not known to be Reqlore's");
    fs::remove_file(sled.join("db")).unwrap();
    assert_untouched(folder.path(), "contains other files");
    fs::write(sled.join("db"), "").unwrap();
    assert_untouched(folder.path(), "contains other files");
    fs::remove_dir_all(&sled).unwrap();
    fs::write(&sled, "a file").unwrap();
    assert!(open_error(folder.path()).contains("instead of a file"));
}

#[test]
fn trees_of_another_program_are_refused() {
    let folder = tempdir().unwrap();
    let sled = create(folder.path());
    make_foreign(&sled, "theirs");
    assert!(open_error(folder.path()).contains("another program"));
    wait_until_closed(&sled).unwrap();
    let db = sled::Config::new().path(&sled).open().unwrap();
    assert!(db.tree_names().contains(&sled::IVec::from("theirs")));
}

#[test]
fn interrupted_creation_is_completed() {
    let inspect = |folder: &Path| inspect(&config(folder)).unwrap();
    // Killed before sled was opened, and while it was open.
    for has_db in [false, true] {
        let folder = tempdir().unwrap();
        let sled = folder.path().join("sled");
        fs::create_dir(&sled).unwrap();
        if has_db {
            make_foreign(&sled, "meta");
            fs::write(sled.join(ACKNOWLEDGED), "").unwrap();
        }
        fs::write(sled.join(CREATION_MARKER), "").unwrap();
        assert_eq!(inspect(folder.path()), DatabaseState::Unfinished);
        create(folder.path());
        assert_eq!(inspect(folder.path()), DatabaseState::Closed);
    }
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    let fails = AtomicBool::new(true);
    let sync = move |file: &fs::File| {
        // Only once: otherwise the database stays open.
        if fails.swap(false, Ordering::Relaxed) {
            Err(ErrorKind::Other.into())
        } else {
            file.sync_all()
        }
    };
    assert!(open_database(&sled, Box::new(sync), COPY_TIMEOUT).is_err());
    wait_until_closed(&sled).unwrap();
    assert!(fs::metadata(sled.join("db")).unwrap().len() > 0);
    assert_eq!(fs::read(sled.join(ACKNOWLEDGED)).unwrap(), b"");
    create(folder.path());
    // Now only the count identifies the database as ours.
    let count = fs::read(sled.join(ACKNOWLEDGED)).unwrap();
    assert!(CommitCounter::read(&sled.join(ACKNOWLEDGED)).unwrap().is_some());
    fs::write(sled.join(ACKNOWLEDGED), "").unwrap();
    assert_untouched(folder.path(), "is not known to be Reqlore's");
    fs::write(sled.join(ACKNOWLEDGED), count).unwrap();
    create(folder.path());
}

#[test]
fn creation_marker_left_by_a_kill_keeps_the_data() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    let sled = create(folder.path());
    run(async {
        for torn_count in [None, Some([0; 12])] {
            let store = open(&folder);
            put(&store, &id, "kept").await.unwrap();
            close(&folder, store);
            fs::write(sled.join(CREATION_MARKER), "").unwrap();
            if let Some(count) = torn_count {
                fs::write(sled.join(ACKNOWLEDGED), count).unwrap();
            }
            let store = open(&folder);
            assert_eq!(get(&store, &id).await.unwrap().unwrap().body, "kept");
            close(&folder, store);
            assert!(!exists(&sled.join(CREATION_MARKER)));
            create(folder.path());
        }
    });
}

#[test]
fn symbolic_links_are_refused_and_not_followed() {
    for name in ["db", "conf", ACKNOWLEDGED, "blobs", "snap.0000000000000001", "any"] {
        for is_created in [false, true] {
            let folder = tempdir().unwrap();
            let (sled, target) = (folder.path().join("sled"), folder.path().join("elsewhere"));
            if is_created {
                create(folder.path());
                let _ = fs::rename(sled.join(name), &target);
            } else {
                fs::create_dir(&sled).unwrap();
            }
            symlink(&target, sled.join(name)).unwrap();
            assert_untouched(folder.path(), "symbolic link");
            if !is_created {
                fs::write(&target, "mine, and long enough").unwrap();
                assert_untouched(folder.path(), "symbolic link");
            }
        }
    }
    let folder = tempdir().unwrap();
    let sled = create(folder.path());
    let target = folder.path().join("elsewhere");
    fs::rename(sled.join(ACKNOWLEDGED), &target).unwrap();
    symlink(&target, sled.join(ACKNOWLEDGED)).unwrap();
    let opened = DatabaseFile::open(&sled, Box::new(fs::File::sync_all));
    assert!(opened.is_err(), "a link that came after the check");
}

#[test]
fn files_are_private_and_foreign_files_keep_their_mode() {
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    fs::create_dir(&sled).unwrap();
    set_mode(&sled, 0o755);
    let assert_private = || {
        let names = fs::read_dir(&sled).unwrap().map(|entry| entry.unwrap().path());
        let names: Vec<PathBuf> = names.collect();
        for path in &names {
            assert_eq!(mode(path) & 0o077, 0, "{}", path.display());
        }
        names
    };
    run(fill(folder.path(), 20));
    assert_private();
    create(folder.path());
    let names = assert_private();
    let is_snapshot = |path: &PathBuf| path.to_string_lossy().contains("snap.");
    assert!(names.iter().any(is_snapshot), "{names:?}");
    for path in &names {
        set_mode(path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    let foreign = sled.join("notes.txt");
    fs::write(&foreign, "mine").unwrap();
    set_mode(&foreign, 0o644);
    create(folder.path());
    assert_eq!((mode(&foreign), mode(&sled)), (0o644, 0o755));
    fs::remove_file(&foreign).unwrap();
    assert_private();
    let new = crate::SledConfig { folder: folder.path().join("a/b") };
    crate::open(&new).unwrap();
    assert_eq!(mode(&new.folder), 0o700);
}

#[test]
fn second_open_is_refused_then_stale_snapshot_is_removed() {
    let folder = tempdir().unwrap();
    let first = open(&folder);
    // The process that has the database open may be writing a snapshot.
    let snapshot = folder.path().join("sled").join(UNFINISHED_SNAPSHOT);
    fs::write(&snapshot, "half").unwrap();
    let text = open_error(folder.path());
    assert!(text.contains("already served by another process"), "{text}");
    assert_eq!(inspect(&config(folder.path())).unwrap(), DatabaseState::InUse);
    assert!(exists(&snapshot));
    run(put(&first, &DocumentId::section("a"), "kept")).unwrap();
    close(&folder, first);
    let store = open(&folder);
    assert!(!exists(&snapshot));
    assert!(run(get(&store, &DocumentId::section("a"))).unwrap().is_some());
}

#[test]
fn other_format_is_refused() {
    for format in [FORMAT - 1, FORMAT + 1] {
        let folder = tempdir().unwrap();
        let (store, database) = open_both(&folder);
        database.tree().0.insert(FORMAT_KEY, &*format.to_string()).unwrap();
        drop(database);
        close(&folder, store);
        // The other version may have other trees.
        make_foreign(&folder.path().join("sled"), "later");
        let db = folder.path().join("sled/db");
        fs::set_permissions(&db, Permissions::from_mode(0o644)).unwrap();
        let expected = format!("another version of Reqlore (format {format}, supported: {FORMAT})");
        let text = open_error(folder.path());
        assert!(text.contains(&expected), "{text}");
        let mode = fs::metadata(&db).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "a refused database is private too");
    }
}

#[test]
fn truncated_database_is_refused_unchanged() {
    let folder = tempdir().unwrap();
    run(fill(folder.path(), 400));
    let whole = folder.path().join("sled");
    let length = fs::metadata(whole.join("db")).unwrap().len();
    for part in 0..8 {
        let cut = tempdir().unwrap();
        let sled = cut.path().join("sled");
        copy_files(&whole, &sled);
        let db = fs::File::options().write(true).open(sled.join("db")).unwrap();
        db.set_len(length * part / 8).unwrap();
        let text = open_error(cut.path());
        assert!(text.contains("`reqlore restore`"), "{part}: {text}");
        assert!(exists(&sled.join("db")));
    }
    fs::remove_file(whole.join("db")).unwrap();
    assert!(open_error(folder.path()).contains("lacks its file db"));
    assert!(!exists(&whole.join("db")), "an empty file must not take its place");
}
