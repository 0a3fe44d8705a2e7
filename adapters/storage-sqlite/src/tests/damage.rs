//! Full disks, deleted and read-only files, damaged pages and bytes.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqlore_contract::run;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{DocumentChange, DocumentRepository, StoreError};
use reqlore_domain::project_key::ProjectKey;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{closed_database, database_path, error_text, open_file, run_sql, storage, try_put};

#[test]
fn changed_bytes_are_not_served() {
    let (_folder, file) = closed_database();
    let (kept, other) = (DocumentId::section("kept"), DocumentId::section("other"));
    run(async { storage(&file).put(&other, "fine").await });
    run_sql(&file, "UPDATE bodies SET body = x'6b657054' WHERE body = CAST('kept' AS BLOB)");
    let store = open_file(&file).unwrap();
    run(async {
        let project = ProjectKey::default();
        let (error, words) = error_text(store.get(&project, &[kept]).await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(words.contains("section kept") && words.contains("reqlore restore"), "{words}");
        assert!(store.get(&project, &[other]).await.unwrap()[0].is_some(), "the rest is served");
        let (_, words) = error_text(store.read().await.unwrap().next().await);
        assert!(words.contains("section kept"), "{words}");
    });
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(folder.path())
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user can't mount a tmpfs");
        return;
    }
    let file = folder.path().join("reqlore.db");
    let filler = folder.path().join("filler");
    run(async {
        let s = storage(&file);
        s.put(&DocumentId::section("kept"), "kept").await;
        // It writes as much as fits.
        let _ = fs::write(&filler, vec![0; 2 * 1024 * 1024]);
        let mut failed = None;
        for at in 0..100 {
            failed = try_put(&s, &format!("s{at}")).await.err();
            if failed.is_some() {
                break;
            }
        }
        let words = failed.expect("the disk is full").to_string();
        assert!(words.contains("no space"), "{words}");
        assert!(s.read_body(&DocumentId::section("kept")).await.is_some(), "reads go on");
        fs::remove_file(&filler).unwrap();
        try_put(&s, "after").await.unwrap();
    });
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(unmounted.unwrap().success());
}

#[test]
fn a_database_that_went_away_is_not_written() {
    type Act<'a> = &'a dyn Fn(&Path) -> std::io::Result<()>;
    let replace = |file: &Path| {
        let copy = file.with_extension("copy");
        fs::copy(file, &copy).and_then(|_| fs::rename(copy, file))
    };
    let acts: [(&str, Act<'_>); 4] = [
        ("deleted", &|file| fs::remove_file(file)),
        ("its log deleted", &|file| fs::remove_file(file.with_extension("db-wal"))),
        ("emptied", &|file| fs::write(file, "")),
        ("replaced", &replace),
    ];
    for (name, act) in acts {
        let (_folder, file) = closed_database();
        run(async {
            let s = storage(&file);
            s.put(&DocumentId::section("a"), "x").await;
            act(&file).unwrap();
            let (error, words) = error_text(try_put(&s, "b").await);
            assert!(matches!(error, StoreError::Unavailable { .. }), "{name}: {error:?}");
            assert!(words.contains("deleted, emptied, moved or replaced"), "{name}: {words}");
            assert!(!words.contains('/'), "{name}: {words}");
        });
    }
}

/// Runs `act` as a user without root's rights.
fn without_root(act: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if rustix::process::getuid().is_root() {
            let user = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        act();
    });
    thread.join().unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_read_only_database_is_read() {
    for (folder_mode, file_mode) in [(0o555, 0o444), (0o777, 0o444), (0o555, 0o666)] {
        let (folder, file) = closed_database();
        set_mode(&file, file_mode);
        set_mode(folder.path(), folder_mode);
        without_root(move || {
            run(async {
                let s = storage(&file);
                let kept = s.read_body(&DocumentId::section("kept")).await;
                assert_eq!(kept.as_deref(), Some(&b"kept"[..]));
                let (error, words) = error_text(try_put(&s, "b").await);
                assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
                assert!(words.contains("can only be read"), "{words}");
            });
        });
        set_mode(folder.path(), 0o777);
    }
}

#[test]
fn a_read_only_folder_is_an_error() {
    let (folder, file) = database_path();
    set_mode(folder.path(), 0o555);
    without_root(move || {
        let (error, words) = error_text(open_file(&file));
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(words.starts_with(&file.display().to_string()), "{words}");
    });
}

/// A copy of the files as a killed process leaves them.
fn killed_database(damage: bool) -> (TempDir, PathBuf) {
    let (folder, file) = database_path();
    let (_away, original) = closed_database();
    run(async {
        let s = storage(&original);
        let ids: Vec<_> = (0..20).map(|at| DocumentId::entity(format!("e{at}"))).collect();
        let put = |id: &DocumentId| DocumentChange::put(id.clone(), vec![b'x'; 2_000]);
        let changes: Vec<DocumentChange> = ids.iter().map(put).collect();
        s.commit_from(&ids, move |_| Ok(changes.clone())).await.unwrap();
    });
    run(async {
        let s = storage(&original);
        s.put(&DocumentId::section("last"), "x").await;
        for suffix in ["", "-wal"] {
            let of = |path: &Path| format!("{}{suffix}", path.display());
            fs::copy(of(&original), of(&file)).unwrap();
        }
    });
    if damage {
        let page = "SELECT pageno FROM dbstat WHERE name = 'bodies' AND pagetype = 'leaf' LIMIT 1";
        let page = Connection::open(&original).unwrap().query_one(page, [], |row| row.get(0));
        let page: u64 = page.unwrap();
        let pages = fs::File::options().write(true).open(&file).unwrap();
        pages.write_all_at(&[0xff; 200], (page - 1) * 4096).unwrap();
    }
    (folder, file)
}

#[test]
fn an_unclean_end_is_checked_at_once() {
    for damage in [false, true] {
        let (_folder, file) = killed_database(damage);
        run(async {
            let s = storage(&file);
            assert!(s.read_body(&DocumentId::section("last")).await.is_some());
            let mut refused = None;
            for _ in 0..if damage { 500 } else { 20 } {
                refused = try_put(&s, "next").await.err();
                if refused.is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(refused.is_some(), damage, "{refused:?}");
            if let Some(refused) = refused {
                let words = refused.to_string();
                assert!(words.contains("nothing is written to it any more"), "{words}");
                assert!(words.contains("reqlore restore"), "{words}");
            }
            assert!(s.read_body(&DocumentId::section("last")).await.is_some(), "reads go on");
        });
    }
}
