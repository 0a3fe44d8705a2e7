//! Databases that lost commits or files: correct data or a refusal, never a second use of a number.

use std::fs;
use std::path::{Path, PathBuf};

use reqlore_contract::Storage;
use reqlore_contract::audit::audited_context;
use reqlore_contract::run;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::{
    DocumentChange, DocumentFilter, DocumentRepository, StoreError,
};
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::project_key::ProjectKey;
use reqlore_durable_fs::commit_counter::{CommitCounter, CounterFile};
use reqlore_durable_fs::write_all_at;
use reqlore_row_store::row::{RowChange, TableRow};
use reqlore_row_store::tables::IDEMPOTENCY;
use tempfile::TempDir;

use super::{connect, database_path, error_text, open_file, run_sql, storage};
use crate::commit_count::CommitCount;
use crate::commit_count::sibling_path;
use crate::database_file::SqliteConfig;
use crate::{ReadOnlyOpen, accept_loss, open_read_only, rows};

const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-commits"];
const EPICS: u32 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatabaseState {
    Open,
    Killed,
    Closed,
}

pub(super) fn copy_files(from: &Path, to: &Path, suffixes: &[&str]) {
    for suffix in suffixes {
        let _ = fs::copy(sibling_path(from, suffix), sibling_path(to, suffix));
    }
}

async fn put_epics(s: &Storage, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers {
        let kind = DocumentKind::Item(ItemKind::Epic);
        let id = DocumentId { kind, name: format!("EP-{number:03}") };
        s.put(&id, "---\ntitle: Epic\n---\n").await;
    }
}

/// Copies the files of a database with acknowledged epics. Half of them are in the log, except in a
/// closed one.
fn copied_database(state: DatabaseState, suffixes: &[&str]) -> (TempDir, PathBuf) {
    let (folder, file) = database_path();
    let (_away, original) = database_path();
    run(async { put_epics(&storage(&original), 1..=EPICS / 2).await });
    run(async {
        let s = storage(&original);
        put_epics(&s, EPICS / 2 + 1..=EPICS).await;
        if state != DatabaseState::Closed {
            copy_files(&original, &file, suffixes);
        }
    });
    match state {
        DatabaseState::Closed => copy_files(&original, &file, suffixes),
        // No process recovers a log from the index of a killed one.
        DatabaseState::Killed => {
            fs::write(sibling_path(&file, "-shm"), vec![0xff; 32_768]).unwrap();
        }
        DatabaseState::Open => {}
    }
    if !suffixes.contains(&"-shm") {
        let _ = fs::remove_file(sibling_path(&file, "-shm"));
    }
    (folder, file)
}

fn next_epic(file: &Path) -> u32 {
    let select = "SELECT highest + 1 FROM sequences WHERE kind = ?1";
    connect(file).query_one(select, [ItemKind::Epic.name()], |row| row.get(0)).unwrap()
}

/// Asserts that the database has all epics, or that it is refused with a way out and unchanged.
/// Returns true if it was refused.
#[track_caller]
fn is_refused(file: &Path, case: &str) -> bool {
    let state = || {
        let mut files = Vec::new();
        for entry in fs::read_dir(file.parent().unwrap()).unwrap() {
            let entry = entry.unwrap();
            files.push((entry.file_name(), fs::read(entry.path()).unwrap()));
        }
        files.sort();
        files
    };
    let before = state();
    match open_file(file) {
        Ok(store) => {
            let filter = DocumentFilter::of_kind(DocumentKind::Item(ItemKind::Epic));
            let page = run(store.find(&ProjectKey::default(), &filter)).unwrap();
            assert_eq!(
                (page.metadata.len(), next_epic(file)),
                (EPICS as usize, EPICS + 1),
                "{case}"
            );
            false
        }
        Err(error) => {
            let message = error.to_string();
            assert!(matches!(error, StoreError::Refused { .. }), "{case}: {error:?}");
            assert!(message.starts_with(&file.display().to_string()), "{case}: {message}");
            assert!(message.contains("reqlore restore"), "{case}: {message}");
            let shm =
                |(name, _): &(std::ffi::OsString, _)| !name.to_string_lossy().ends_with("shm");
            let [before, after] =
                [before, state()].map(|files| files.into_iter().filter(shm).collect::<Vec<_>>());
            assert!(before == after, "{case}: a refused database changed");
            true
        }
    }
}

#[test]
fn database_without_one_of_its_files_is_refused() {
    use DatabaseState::{Closed, Killed, Open};
    for state in [Open, Killed, Closed] {
        for missing in SUFFIXES {
            let case = format!("{state:?} without {missing:?}");
            let kept: Vec<&str> = SUFFIXES.into_iter().filter(|kept| *kept != missing).collect();
            let (_folder, file) = copied_database(state, &kept);
            assert_eq!(is_refused(&file, &case), missing != "-shm", "{case}");
        }
    }
}

#[test]
fn copy_of_one_file_is_refused() {
    use DatabaseState::{Closed, Killed, Open};
    for state in [Open, Killed, Closed] {
        for copied in SUFFIXES {
            // Nothing shows that an empty log belonged to a database.
            if (state, copied) != (Closed, "-wal") {
                let (_folder, file) = copied_database(state, &[copied]);
                assert!(is_refused(&file, copied), "{state:?} {copied:?}");
            }
        }
    }
}

#[test]
fn empty_or_older_file_is_refused_or_harmless() {
    use DatabaseState::{Closed, Killed, Open};
    for state in [Open, Killed, Closed] {
        for emptied in SUFFIXES {
            let case = format!("{state:?} with an empty {emptied:?}");
            let (_folder, file) = copied_database(state, &SUFFIXES);
            fs::write(sibling_path(&file, emptied), "").unwrap();
            let is_harmless = emptied == "-shm" || (state, emptied) == (Closed, "-wal");
            assert_eq!(is_refused(&file, &case), !is_harmless, "{case}");
        }
    }
    let (_away, original) = database_path();
    let (_folder, file) = database_path();
    run(async {
        let s = storage(&original);
        put_epics(&s, 1..=EPICS / 2).await;
        copy_files(&original, &file, &["", "-wal"]);
        put_epics(&s, EPICS / 2 + 1..=EPICS).await;
        copy_files(&original, &file, &["-commits"]);
    });
    assert!(is_refused(&file, "older pair"));
    let (_, message) = error_text(open_file(&file));
    assert!(message.contains("it has 15 of 30 commits"), "{message}");
    let (_other, other) = copied_database(Closed, &["-commits"]);
    copy_files(&other, &file, &["-commits"]);
    assert!(is_refused(&file, "side file of another database"));
    let (_, message) = error_text(open_file(&file));
    assert!(message.contains("belongs to another database"), "{message}");
}

#[test]
fn files_copied_around_a_checkpoint_are_refused() {
    for has_checkpoint in [false, true] {
        let (_away, original) = database_path();
        let (_folder, file) = database_path();
        run(async {
            let s = storage(&original);
            put_epics(&s, 1..=10).await;
            copy_files(&original, &file, &[""]);
            put_epics(&s, 11..=20).await;
            if has_checkpoint {
                run_sql(&original, "PRAGMA wal_checkpoint(TRUNCATE)");
            }
            put_epics(&s, 21..=EPICS).await;
            copy_files(&original, &file, &["-wal", "-commits"]);
        });
        assert_eq!(is_refused(&file, "copied one after the other"), has_checkpoint);
        if has_checkpoint {
            let (_, message) = error_text(open_file(&file));
            assert!(message.contains("copy all files again"), "{message}");
            let accepted = accept_loss(&SqliteConfig { file }, audited_context());
            assert!(error_text(accepted).1.contains("copy all files again"));
        }
    }
}

/// The pages of two databases are compatible unless one was rewritten.
#[test]
fn log_of_another_database_is_named() {
    for is_rewritten in [false, true] {
        let (_folder, file) = database_path();
        run(async {
            let ids: Vec<_> = (0..1_000).map(|n| DocumentId::section(format!("s{n}"))).collect();
            let puts: Vec<_> =
                ids.iter().map(|id| DocumentChange::put(id.clone(), "text")).collect();
            let s = storage(&file);
            s.commit_from(&ids, move |_| Ok(puts.clone())).await.unwrap();
        });
        if is_rewritten {
            run_sql(&file, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
        }
        let (_away, other) = database_path();
        run(async {
            let s = storage(&other);
            put_epics(&s, 1..=EPICS).await;
            copy_files(&other, &file, &["-wal"]);
        });
        let config = SqliteConfig { file: file.clone() };
        let accepted = accept_loss(&config, audited_context()).map(drop);
        for refused in [open_file(&file).map(drop), accepted] {
            let (_, message) = error_text(refused);
            assert!(message.contains("put its own -wal file back"), "{is_rewritten}: {message}");
        }
        fs::write(sibling_path(&file, "-wal"), "").unwrap();
        assert!(run(open_file(&file).unwrap().find_damage()).unwrap().is_empty());
    }
}

#[test]
fn accepted_loss_raises_numbers_and_is_audited() {
    // The content of the log is lost, which the side file shows.
    let (_folder, file) = copied_database(DatabaseState::Killed, &SUFFIXES);
    fs::write(sibling_path(&file, "-wal"), "").unwrap();
    let config = SqliteConfig { file: file.clone() };
    let old = CommitCount::read(&connect(&file)).unwrap().counter;
    let accepted = accept_loss(&config, audited_context()).unwrap();
    assert!(accepted.loss.contains("it has 15 of 30 commits"), "{}", accepted.loss);
    let store = open_file(&file).unwrap();
    assert_eq!(next_epic(&file), EPICS + 1, "no lost number is issued again");
    let row = run(store.rows(1, 10)).unwrap().pop().unwrap().parse_event().unwrap();
    assert_eq!((row.reason, &*row.targets[0].name), (accepted.loss, "numbers up to EP-030"));
    let (error, message) = error_text(accept_loss(&config, audited_context()));
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(message.contains("is open in another process; stop the server"), "{message}");
    drop(store);
    let (_, message) = error_text(accept_loss(&config, audited_context()));
    assert!(
        message.contains("there is no loss to accept") || message.contains("no loss to accept")
    );
    assert_ne!(CommitCount::read(&connect(&file)).unwrap().counter.database_id, old.database_id);
}

#[test]
fn accepted_copy_has_numbers_after_every_mention() {
    let (_folder, file) = copied_database(DatabaseState::Closed, &[""]);
    let connection = connect(&file);
    let row = TableRow::of(&["k".into(), 1.into(), "{}".into(), "created EP-041".into()]);
    rows::apply(&connection, &IDEMPOTENCY, &[RowChange::Insert(row)]).unwrap();
    drop(connection);
    run_sql(&file, "PRAGMA wal_checkpoint(TRUNCATE)");
    fs::remove_file(sibling_path(&file, "-wal")).unwrap();
    let config = SqliteConfig { file: file.clone() };
    let accepted = accept_loss(&config, audited_context()).unwrap();
    assert!(accepted.loss.contains("-wal file is missing"), "{}", accepted.loss);
    assert_eq!(next_epic(&file), 42);
}

#[test]
fn loss_of_a_damaged_database_is_not_accepted() {
    let (_folder, file) = copied_database(DatabaseState::Closed, &[""]);
    let page = "SELECT pageno FROM dbstat WHERE name = 'bodies' LIMIT 1";
    let page: u64 = connect(&file).query_one(page, [], |row| row.get(0)).unwrap();
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(sibling_path(&file, suffix)).unwrap();
    }
    let pages = fs::File::options().write(true).open(&file).unwrap();
    write_all_at(&pages, &[0xff; 200], (page - 1) * 4096).unwrap();
    let config = SqliteConfig { file };
    let (error, message) = error_text(accept_loss(&config, audited_context()));
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
    assert!(message.contains("restore a backup"), "{message}");
}

#[test]
fn start_does_not_count_commits_that_may_be_unsynced() {
    let (_folder, file) = copied_database(DatabaseState::Killed, &SUFFIXES);
    let commits = sibling_path(&file, "-commits");
    let id = CommitCounter::read(&commits).unwrap().unwrap().database_id;
    let lagging = CommitCounter { database_id: id, commits: 3 };
    fs::remove_file(&commits).unwrap();
    CounterFile::open(&commits).unwrap().write(lagging).unwrap();
    drop(open_file(&file).unwrap());
    assert_eq!(CommitCounter::read(&commits).unwrap(), Some(lagging));
    run(async { put_epics(&storage(&file), EPICS + 1..=EPICS + 1).await });
    assert_eq!(CommitCounter::read(&commits).unwrap().unwrap().commits, u64::from(EPICS) + 1);
}

#[test]
fn interrupted_creation_is_repeated() {
    // In the order in which the files are created.
    for left in 0..3 {
        let (_folder, file) = database_path();
        let (_other, complete) = database_path();
        drop(open_file(&complete).unwrap());
        fs::write(sibling_path(&file, ".unfinished"), "partial").unwrap();
        copy_files(&complete, &file, &["-wal", "-commits"][..left]);
        run(async { put_epics(&storage(&file), 1..=EPICS).await });
        assert!(!is_refused(&file, "created"), "{left}");
    }
}

#[test]
fn inspection_reports_a_loss_and_changes_nothing() {
    let (_folder, file) = copied_database(DatabaseState::Closed, &SUFFIXES);
    let config = SqliteConfig { file: file.clone() };
    assert!(matches!(open_read_only(&config).unwrap(), ReadOnlyOpen::Open(_)));
    fs::remove_file(sibling_path(&file, "-wal")).unwrap();
    let (_, message) = error_text(open_read_only(&config));
    assert!(message.contains("--accept-loss"), "{message}");
    assert!(fs::metadata(sibling_path(&file, "-wal")).is_err());
}
