//! Full disks, files that go away, files that can't be written, pages that went bad.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use reqlore_contract::{act, run};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::documents::{
    Change, Commit, Committed, ReadSet, StoreError, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use reqlore_group_commit::Engine as _;
use rusqlite::Connection;

use super::{at, made, place, storage, told, try_put};
use crate::connection::{Connector, Mode};
use crate::place::Place;
use crate::schema::MIGRATIONS;
use crate::write::Engine;

pub(super) fn engine(file: &Path) -> Engine {
    let place = Arc::new(Place::prepare(file).unwrap());
    let mut connector = Connector { place, mode: Mode::Shared };
    let (connection, _) = crate::open(&mut connector, MIGRATIONS).unwrap();
    let place = connector.place;
    let schema = MIGRATIONS.len();
    let damaged = Arc::default();
    Engine { connection, place, damaged, schema, lost: None }
}

fn write(engine: &mut Engine, name: &str, size: usize) -> StoreResult<Committed> {
    let change = Change::put(DocumentId::section(name), vec![b'x'; size]);
    let reads = ReadSet::of(vec![change.id().clone()]);
    let decide = Box::new(move |_: &_| Ok(vec![change.clone()]));
    engine.apply(&ProjectKey::default(), Commit { reads, decide, act: act() })
}

#[test]
fn a_full_database_undoes_the_group_and_the_next_one_works() {
    let (_folder, file) = place();
    let mut engine = engine(&file);
    let pages: u32 =
        engine.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    engine.connection.pragma_update(None, "max_page_count", pages + 4).unwrap();
    engine.begin().unwrap();
    write(&mut engine, "small", 10).unwrap();
    let (error, words) = told(write(&mut engine, "large", 100_000));
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(words.contains("no space") && words.contains("Nothing was written"), "{words}");
    // SQLite undid the whole group, and all of it is told so.
    assert!(write(&mut engine, "later", 10).is_err());
    assert!(engine.end().is_err());
    run(async {
        let s = storage(&file);
        for name in ["small", "later"] {
            assert_eq!(s.body(&DocumentId::section(name)).await, None, "{name}");
        }
        assert_eq!(s.body(&DocumentId::section("large")).await, None);
    });
    engine.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    engine.begin().unwrap();
    write(&mut engine, "large", 100_000).unwrap();
    engine.end().unwrap();
}

#[test]
fn a_group_that_sqlite_undid_is_acknowledged_to_nobody() {
    let (_folder, file) = place();
    let mut engine = engine(&file);
    let undo = "CREATE TRIGGER undo BEFORE INSERT ON bodies WHEN length(NEW.body) = 3 \
                BEGIN SELECT RAISE(ROLLBACK, 'undone'); END";
    engine.connection.execute_batch(undo).unwrap();
    engine.begin().unwrap();
    write(&mut engine, "first", 10).unwrap();
    assert!(write(&mut engine, "undone", 3).is_err());
    assert!(write(&mut engine, "later", 10).is_err());
    assert!(engine.end().is_err());
    engine.begin().unwrap();
    write(&mut engine, "next", 10).unwrap();
    engine.end().unwrap();
    run(async {
        let s = storage(&file);
        let names = ["first", "later", "next"].map(DocumentId::section);
        let found = s.store.versions(&s.project, &names).await.unwrap();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
    });
}

#[test]
fn a_full_disk_is_told_and_the_next_write_works() {
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
        // As much as fits.
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
        assert!(s.body(&DocumentId::section("kept")).await.is_some(), "reads go on");
        fs::remove_file(&filler).unwrap();
        try_put(&s, "after").await.unwrap();
    });
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(unmounted.unwrap().success());
}

fn make_unusable(file: &Path, how: &str) {
    let copy = file.with_extension("copy");
    match how {
        "deleted" => fs::remove_file(file),
        "its log deleted" => fs::remove_file(file.with_extension("db-wal")),
        "emptied" => fs::write(file, ""),
        _ => fs::copy(file, &copy).and_then(|_| fs::rename(copy, file)),
    }
    .unwrap();
}

#[test]
fn a_file_that_went_away_is_told_and_not_written() {
    let acts = ["deleted", "replaced", "its log deleted", "emptied"];
    for name in acts {
        let (_folder, file) = made();
        run(async {
            let s = storage(&file);
            s.put(&DocumentId::section("a"), "x").await;
            make_unusable(&file, name);
            let (error, words) = told(try_put(&s, "b").await);
            assert!(matches!(error, StoreError::Unavailable { .. }), "{name}: {error:?}");
            assert!(words.contains("deleted, emptied, moved or replaced"), "{name}: {words}");
            assert!(!words.contains('/'), "{name}: {words}");
        });
    }
}

/// Does this as a user who may not write everywhere. Root would.
fn as_nobody(act: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if rustix::process::getuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
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
fn what_can_only_be_read_is_read() {
    for (folder_mode, file_mode) in [(0o555, 0o444), (0o777, 0o444), (0o555, 0o666)] {
        let (folder, file) = made();
        set_mode(&file, file_mode);
        set_mode(folder.path(), folder_mode);
        as_nobody(move || {
            run(async {
                let s = storage(&file);
                let kept = s.body(&DocumentId::section("kept")).await;
                assert_eq!(kept.as_deref(), Some(&b"kept"[..]));
                let (error, words) = told(try_put(&s, "b").await);
                assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
                assert!(words.contains("can only be read"), "{words}");
            });
        });
        set_mode(folder.path(), 0o777);
    }
}

#[test]
fn a_folder_that_can_not_be_written_is_told() {
    let (folder, file) = place();
    set_mode(folder.path(), 0o555);
    as_nobody(move || {
        let (error, words) = told(at(&file));
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(words.starts_with(&file.display().to_string()), "{words}");
    });
}

/// A copy of the files as a killed process leaves them.
fn killed(damage: bool) -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, file) = place();
    let (_away, original) = made();
    run(async {
        let s = storage(&original);
        let ids: Vec<_> = (0..20).map(|at| DocumentId::entity(format!("e{at}"))).collect();
        let put = |id: &DocumentId| Change::put(id.clone(), vec![b'x'; 2_000]);
        let changes: Vec<Change> = ids.iter().map(put).collect();
        s.decide(&ids, move |_| Ok(changes.clone())).await.unwrap();
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
        let (_folder, file) = killed(damage);
        run(async {
            let s = storage(&file);
            assert!(s.body(&DocumentId::section("last")).await.is_some());
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
            assert!(s.body(&DocumentId::section("last")).await.is_some(), "reads go on");
        });
    }
}
