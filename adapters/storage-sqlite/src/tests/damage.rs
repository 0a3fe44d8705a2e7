//! Full disks, removed and read-only files, damaged pages and bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use reqlore_contract::run;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::{DocumentChange, DocumentRepository, StoreError};
use reqlore_domain::ports::record_list::RecordQuery;
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use reqlore_durable_fs::write_all_at;
use reqlore_row_store::RowStore;
use reqlore_row_store::row::RowQuery;
use reqlore_row_store::tables::{DOCUMENTS, LINKS};
use tempfile::TempDir;

use crate::commit_count::sibling_path;
use crate::connection::{OpenFiles, ReadPool};
use crate::damage::{CheckStage, CheckWorker, DamageState};
use crate::database::SqliteDatabase;
use crate::error::damaged_object;
use crate::integrity_check::{IntegrityCheck, run_worker};
use crate::{open_for_writing, store_row};

use super::{closed_database, database_path, error_text, open_file, run_sql, storage, try_put};

#[test]
fn changed_bytes_are_reported_and_not_served() {
    let (_folder, file) = closed_database();
    let (kept, other) = (DocumentId::section("kept"), DocumentId::section("other"));
    run(async { storage(&file).put(&other, "fine").await });
    run_sql(&file, "UPDATE bodies SET bytes = x'6b657054' WHERE bytes = CAST('kept' AS BLOB)");
    let store = open_file(&file).unwrap();
    run(async {
        let project = ProjectKey::default();
        let (error, message) = error_text(store.get(&project, &[kept]).await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(
            message.contains("section kept") && message.contains("reqlore restore"),
            "{message}"
        );
        assert!(store.get(&project, &[other]).await.unwrap()[0].is_some(), "the rest is served");
        let (_, message) = error_text(store.export().await.unwrap().next_batch().await);
        assert!(message.contains("section kept"), "{message}");
    });
}

#[test]
fn full_disk_rejects_writes_until_space_is_free() {
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
        // Writes as many bytes as fit.
        let _ = fs::write(&filler, vec![0; 2 * 1024 * 1024]);
        let mut failed = None;
        for at in 0..100 {
            failed = try_put(&s, &format!("s{at}")).await.err();
            if failed.is_some() {
                break;
            }
        }
        let message = failed.expect("the disk is full").to_string();
        assert!(message.contains("no space"), "{message}");
        assert!(s.read_body(&DocumentId::section("kept")).await.is_some(), "reads continue");
        fs::remove_file(&filler).unwrap();
        try_put(&s, "after").await.unwrap();
    });
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(unmounted.unwrap().success());
}

// Windows refuses these while the file is open.
#[cfg(unix)]
#[test]
fn removed_or_replaced_database_rejects_writes() {
    type FileAction<'a> = &'a dyn Fn(&Path) -> std::io::Result<()>;
    let replace = |file: &Path| {
        let copy = file.with_extension("copy");
        fs::copy(file, &copy).and_then(|_| fs::rename(copy, file))
    };
    let actions: [(&str, FileAction<'_>); 4] = [
        ("deleted", &|file| fs::remove_file(file)),
        ("its log deleted", &|file| fs::remove_file(file.with_extension("db-wal"))),
        ("emptied", &|file| fs::write(file, "")),
        ("replaced", &replace),
    ];
    for (name, action) in actions {
        let (_folder, file) = closed_database();
        run(async {
            let s = storage(&file);
            s.put(&DocumentId::section("a"), "x").await;
            action(&file).unwrap();
            let (error, message) = error_text(try_put(&s, "b").await);
            assert!(matches!(error, StoreError::Unavailable { .. }), "{name}: {error:?}");
            assert!(message.contains("deleted, emptied, moved or replaced"), "{name}: {message}");
            assert!(!message.contains('/'), "{name}: {message}");
            if name != "its log deleted" {
                let read = s.store.get(&s.project, &[DocumentId::section("a")]).await;
                assert_eq!(error_text(read).1, message, "{name}");
            }
            assert_eq!(s.store.known_damage(), Some(message), "{name}");
        });
    }
}

/// Runs `action` as a user without root permissions.
#[cfg(unix)]
fn without_root(action: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if rustix::process::getuid().is_root() {
            let user = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        action();
    });
    thread.join().unwrap();
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[test]
fn read_only_database_is_served_for_reading() {
    for (folder_mode, file_mode) in [(0o555, 0o444), (0o777, 0o444)] {
        let (folder, file) = closed_database();
        for suffix in ["", "-wal", "-shm", "-commits"] {
            set_mode(&sibling_path(&file, suffix), file_mode);
        }
        set_mode(folder.path(), folder_mode);
        without_root(move || {
            run(async {
                let s = storage(&file);
                let kept = s.read_body(&DocumentId::section("kept")).await;
                assert_eq!(kept.as_deref(), Some(&b"kept"[..]));
                let (error, message) = error_text(try_put(&s, "b").await);
                assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
                assert!(message.contains("can only be read"), "{message}");
            });
        });
        set_mode(folder.path(), 0o777);
    }
}

#[cfg(unix)]
#[test]
fn read_only_folder_fails_to_open() {
    let (folder, file) = database_path();
    set_mode(folder.path(), 0o555);
    without_root(move || {
        let (error, message) = error_text(open_file(&file));
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(message.starts_with(&file.display().to_string()), "{message}");
    });
}

/// Returns a copy of the files as a killed process leaves them.
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
        for suffix in ["", "-wal", "-commits"] {
            let of = |path: &Path| format!("{}{suffix}", path.display());
            fs::copy(of(&original), of(&file)).unwrap();
        }
    });
    if damage {
        let page = "SELECT pageno FROM dbstat WHERE name = 'bodies' AND pagetype = 'leaf' LIMIT 1";
        let page = super::connect(&original).query_one(page, [], |row| row.get(0));
        let page: u64 = page.unwrap();
        let pages = fs::File::options().write(true).open(&file).unwrap();
        write_all_at(&pages, &[0xff; 200], (page - 1) * 4096).unwrap();
    }
    (folder, file)
}

#[test]
fn damage_is_found_before_the_first_write() {
    for damage in [false, true] {
        let (_folder, file) = killed_database(damage);
        run(async {
            let s = storage(&file);
            assert!(s.read_body(&DocumentId::section("last")).await.is_some());
            let refused = try_put(&s, "next").await.err();
            assert_eq!(refused.is_some(), damage, "{refused:?}");
            if let Some(refused) = refused {
                let message = refused.to_string();
                assert!(message.contains("so writes and answers"), "{message}");
                assert!(message.contains("reqlore restore"), "{message}");
                assert!(message.contains("the database reqlore.db"), "{message}");
                assert_eq!(s.store.known_damage().as_deref(), Some(&*message));
            }
            assert!(s.read_body(&DocumentId::section("last")).await.is_some(), "reads continue");
        });
    }
}

#[test]
fn damaged_header_found_by_a_call_stops_writes() {
    let damage = DamageState::new("reqlore.db");
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB);
    let error = damage.record(rusqlite::Error::SqliteFailure(code, None).into());
    assert!(error.to_string().contains("its first page is damaged"), "{error}");
    let refused = damage.permit_write().unwrap_err().to_string();
    assert!(refused.contains("so writes and answers"), "{refused}");
}

// Windows refuses to rename an open file.
#[cfg(unix)]
#[test]
fn check_that_could_not_read_is_repeated() {
    let (_folder, file) = closed_database();
    let (connector, _connection) = open_for_writing(&file).unwrap();
    let away = file.with_extension("away");
    fs::rename(&file, &away).unwrap();
    let damage = Arc::new(DamageState::new("reqlore.db"));
    let _check = IntegrityCheck::start(&connector, &damage).unwrap();
    for _ in 0..2 {
        let (error, message) = error_text(damage.permit_write());
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(message.contains("cannot be read or written"), "{message}");
    }
    assert!(damage.known.write_error().is_none(), "no damage was found");
    fs::rename(&away, &file).unwrap();
    // Each worker may have failed once more before that.
    while damage.permit_write().is_err() {}
}

/// A closed database with an active requirement and one that is the parent of no other.
fn database_with_items() -> (TempDir, PathBuf) {
    let (folder, file) = database_path();
    run(async {
        let s = storage(&file);
        for (name, status) in [("REQ-001", "Active"), ("REQ-002", "Draft")] {
            let kind = DocumentKind::Item(ItemKind::Requirement);
            let id = DocumentId { kind, name: name.to_owned() };
            let text = format!("---\ntitle: A\nstatus: {status}\nuser_story: US-001\n---\n");
            s.put(&id, &*text.leak()).await;
        }
    });
    (folder, file)
}

#[test]
fn changed_row_of_a_list_is_not_served() {
    for change in ["UPDATE item_counts SET number = 7", "UPDATE documents SET status = 'Active'"] {
        let (_folder, file) = database_with_items();
        run_sql(&file, change);
        let store = open_file(&file).unwrap();
        let query = RecordQuery::of_items(ItemKind::Requirement, 10);
        let (_, message) = error_text(run(store.list(&ProjectKey::default(), &query)));
        assert!(message.contains("damaged") && message.contains("restore"), "{message}");
        assert!(!run(store.find_damage()).unwrap().is_empty(), "{change}");
    }
}

#[test]
fn lost_row_of_a_list_is_found_by_the_check() {
    for table in ["links", "item_fields", "item_counts"] {
        let (_folder, file) = database_with_items();
        let find = || run(open_file(&file).unwrap().find_damage()).unwrap();
        assert_eq!(find(), Vec::<String>::new());
        run_sql(&file, &format!("DELETE FROM {table}"));
        assert_eq!(find(), [format!("the list {table} differs from the documents")]);
    }
}

/// SQLite itself does not miss an index or a trigger.
#[test]
fn missing_index_or_trigger_is_damage() {
    for (kind, name) in [
        ("INDEX", "documents_by_position"),
        ("TRIGGER", "audit_is_never_changed"),
        ("TABLE", "links"),
    ] {
        let (_folder, file) = database_with_items();
        run_sql(&file, &format!("DROP {kind} {name}"));
        run(async {
            let s = storage(&file);
            let query = RecordQuery::of_items(ItemKind::Requirement, 10);
            let (_, message) = error_text(s.store.list(&s.project, &query).await);
            let expected = format!("its schema: {name}");
            assert!(message.contains(&expected) && message.contains("restore"), "{message}");
            let (_, message) = error_text(try_put(&s, "b").await);
            assert!(message.contains(&expected), "{message}");
            assert_eq!(s.store.find_damage().await.unwrap()[0], expected);
        });
    }
}

#[test]
fn first_list_waits_only_for_documents_and_counts() {
    let (_folder, file) = database_with_items();
    let (connector, connection) = open_for_writing(&file).unwrap();
    let check = IntegrityCheck::start(&connector, &Arc::new(DamageState::new("other"))).unwrap();
    let damage = Arc::new(DamageState::new("reqlore.db"));
    for worker in
        [CheckWorker::DocumentStructure, CheckWorker::OtherStructure, CheckWorker::Checksums]
    {
        damage.pass(worker, CheckStage::Documents);
    }
    // A call that needs a later stage fails.
    damage.end();
    let row = store_row(&connector.file, &connection).unwrap();
    let files = Arc::new(OpenFiles { connector, damage: Arc::clone(&damage) });
    let database = Arc::new(SqliteDatabase::new(files, check, connection));
    let store = RowStore::start_with(database, &row, Arc::clone(&damage.known)).unwrap();
    let mut query = RecordQuery::of_items(ItemKind::Requirement, 10);
    let page = run(store.list(&ProjectKey::default(), &query)).unwrap();
    assert_eq!((page.total, page.metadata.len()), (2, 2));
    let parent = Reference { kind: ItemKind::UserStory, number: 1 };
    query.filter.parents = Some([parent].into());
    let (_, message) = error_text(run(store.list(&ProjectKey::default(), &query)));
    assert!(message.contains("is being closed"), "{message}");
}

/// Workers and reads run at the same time, so any of them may report it first.
#[test]
fn each_worker_and_read_names_what_is_missing() {
    let (_folder, file) = database_with_items();
    run_sql(&file, "DROP TABLE links");
    let (connector, _connection) = open_for_writing(&file).unwrap();
    let expected = "its schema: links";
    for worker in
        [CheckWorker::DocumentStructure, CheckWorker::OtherStructure, CheckWorker::Checksums]
    {
        let damage = DamageState::new("reqlore.db");
        let found =
            run_worker(worker, &connector, &Mutex::default(), &AtomicBool::default(), &damage);
        assert_eq!(damaged_object(&found.unwrap_err()), expected, "{worker:?}");
    }
    let damage = Arc::new(DamageState::new("reqlore.db"));
    let files = Arc::new(OpenFiles { connector, damage });
    let pool = Arc::new(ReadPool::new(Arc::clone(&files)));
    let (_, message) = error_text(run(pool.read(&[RowQuery::all(&LINKS)])));
    assert!(message.contains(expected), "{message}");
    let known = files.damage.known.write_error().unwrap().to_string();
    assert!(known.contains(expected), "{known}");
}

/// An index that leads to another row is damage, although the row is intact.
#[test]
fn document_of_another_name_is_damage() {
    let (_folder, file) = closed_database();
    super::change_rows(&file, &DOCUMENTS, |row| row.replace(DOCUMENTS.key_width, 9.into()));
    run_sql(&file, "UPDATE bodies SET name = 'other'");
    let store = open_file(&file).unwrap();
    let read = run(store.get(&ProjectKey::default(), &[DocumentId::section("kept")]));
    let (error, message) = error_text(read);
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
    assert!(message.contains("the database reqlore.db"), "{message}");
    assert!(store.known_damage().is_some());
}
