//! What lies in the folder: others' files, links, and who may read ours.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use reqlore_contract::run;
use reqlore_domain::document::DocumentId;
use tempfile::tempdir;

use super::{config, get, put, refused, told};
use crate::open::wait_until_free;
use crate::{PATIENCE, SledStore};

const COUNT: &str = "acknowledged";

/// Every entry below the folder, with its bytes or where it leads to.
fn state(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        let bytes = if kind.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if kind.is_dir() {
            found.extend(state(&path));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        found.push((path, bytes));
    }
    found.sort();
    found
}

/// Refused in these words, with everything left as it was.
#[track_caller]
fn untouched(folder: &Path, words: &str) {
    let before = state(folder);
    let text = refused(folder);
    assert!(text.contains(words), "{text}");
    assert!(state(folder) == before, "something was changed");
}

fn made(folder: &Path) -> PathBuf {
    SledStore::open(&config(folder)).unwrap().close().unwrap();
    folder.join("sled")
}

#[test]
fn a_db_of_others_is_refused_and_left_alone() {
    let text = "A thesis. ".repeat(20_000);
    for count in [None, Some(&b""[..]), Some(b"not twelve"), Some(b"twelve bytes")] {
        let folder = tempdir().unwrap();
        let sled = folder.path().join("sled");
        fs::create_dir(&sled).unwrap();
        fs::write(sled.join("db"), &text).unwrap();
        fs::write(sled.join("snap.0000000000000001.generating"), "theirs").unwrap();
        if let Some(count) = count {
            fs::write(sled.join(COUNT), count).unwrap();
        }
        untouched(folder.path(), "is not known to be Reqlore's");
    }
}

#[test]
fn a_sled_of_another_program_is_refused_and_left_alone() {
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    let theirs = sled::Config::new().path(&sled).open().unwrap();
    theirs.open_tree("meta").unwrap().insert("their", "own").unwrap();
    drop(theirs);
    wait_until_free(&sled).unwrap();
    untouched(folder.path(), "is not known to be Reqlore's");
    fs::remove_file(sled.join("db")).unwrap();
    untouched(folder.path(), "holds other files");
    fs::write(sled.join("db"), "").unwrap();
    untouched(folder.path(), "holds other files");
}

#[test]
fn trees_of_another_program_are_refused() {
    let folder = tempdir().unwrap();
    let sled = made(folder.path());
    sled::Config::new().path(&sled).open().unwrap().open_tree("theirs").unwrap();
    wait_until_free(&sled).unwrap();
    assert!(refused(folder.path()).contains("another program"));
    wait_until_free(&sled).unwrap();
    let db = sled::Config::new().path(&sled).open().unwrap();
    assert!(db.tree_names().contains(&sled::IVec::from("theirs")));
}

#[test]
fn a_making_that_failed_goes_on() {
    let folder = tempdir().unwrap();
    let fails = Box::new(|_: &fs::File| Err(io::ErrorKind::StorageFull.into()));
    told(SledStore::open_with(&config(folder.path()), fails, PATIENCE));
    let sled = folder.path().join("sled");
    wait_until_free(&sled).unwrap();
    assert!(fs::metadata(sled.join("db")).unwrap().len() > 0);
    assert_eq!(fs::read(sled.join(COUNT)).unwrap(), b"");
    made(folder.path());
    let count = fs::read(sled.join(COUNT)).unwrap();
    assert_eq!(count.len(), 12);
    // From now on the count is what tells, and nothing else does.
    fs::write(sled.join(COUNT), "").unwrap();
    untouched(folder.path(), "is not known to be Reqlore's");
    fs::write(sled.join(COUNT), count).unwrap();
    made(folder.path());
}

#[test]
fn a_making_that_was_killed_at_its_very_end_goes_on() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    let mark = folder.path().join("sled").join(crate::folder::MARK);
    run(async {
        for harm in [None, Some(&[0; 12][..])] {
            let store = SledStore::open(&config(folder.path())).unwrap();
            put(&store, &id, "kept").await.unwrap();
            store.close().unwrap();
            fs::write(&mark, "").unwrap();
            if let Some(harm) = harm {
                fs::write(mark.with_file_name(COUNT), harm).unwrap();
            }
            let store = SledStore::open(&config(folder.path())).unwrap();
            assert_eq!(get(&store, &id).await.unwrap().unwrap().body, "kept");
            store.close().unwrap();
            assert!(fs::symlink_metadata(&mark).is_err());
            made(folder.path());
        }
    });
}

#[test]
fn links_are_refused_and_not_followed() {
    for name in ["db", "conf", COUNT, "blobs", "snap.0000000000000001", "any"] {
        for is_made in [false, true] {
            let folder = tempdir().unwrap();
            let sled = folder.path().join("sled");
            if is_made {
                made(folder.path());
                let _ = fs::rename(sled.join(name), folder.path().join("elsewhere"));
            } else {
                fs::create_dir(&sled).unwrap();
            }
            symlink(folder.path().join("elsewhere"), sled.join(name)).unwrap();
            untouched(folder.path(), "symbolic link");
            if !is_made {
                fs::write(folder.path().join("elsewhere"), "mine, and long enough").unwrap();
                untouched(folder.path(), "symbolic link");
            }
        }
    }
}

#[test]
fn the_count_is_not_opened_through_a_link() {
    let folder = tempdir().unwrap();
    let sled = made(folder.path());
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(sled.join(COUNT), &elsewhere).unwrap();
    symlink(&elsewhere, sled.join(COUNT)).unwrap();
    let opened = crate::disk::Disk::open(&sled, Box::new(fs::File::sync_all));
    assert!(opened.is_err());
}

#[test]
fn only_its_owner_reads_it() {
    let folder = tempdir().unwrap();
    let sled = folder.path().join("sled");
    let open_to_all = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir(&sled).unwrap();
    open_to_all(&sled, 0o755);
    let check = || {
        let names = fs::read_dir(&sled).unwrap().map(|entry| entry.unwrap().path());
        let names: Vec<PathBuf> = names.collect();
        for path in &names {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
        names
    };
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        check();
        for number in 0..20 {
            put(&store, &DocumentId::section(number.to_string()), "text").await.unwrap();
        }
        store.close().unwrap();
        check();
        let store = SledStore::open(&config(folder.path())).unwrap();
        store.close().unwrap();
        let names = check();
        let is_snapshot = |path: &PathBuf| path.to_string_lossy().contains("snap.");
        assert!(names.iter().any(is_snapshot), "{names:?}");
        // As older versions left it.
        for path in &names {
            open_to_all(path, if path.is_dir() { 0o755 } else { 0o644 });
        }
        fs::write(sled.join("notes.txt"), "mine").unwrap();
        open_to_all(&sled.join("notes.txt"), 0o644);
        SledStore::open(&config(folder.path())).unwrap().close().unwrap();
        let notes = fs::metadata(sled.join("notes.txt")).unwrap().permissions();
        assert_eq!(notes.mode() & 0o777, 0o644, "what is not ours keeps its rights");
        fs::remove_file(sled.join("notes.txt")).unwrap();
        check();
        let mode = fs::metadata(&sled).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "the folder was there before");
    });
}
