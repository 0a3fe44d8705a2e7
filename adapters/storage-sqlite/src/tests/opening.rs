//! What is opened, what is refused, and what is brought up to date.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use reqlore_contract::{Storage, run};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, Kind, Version};
use reqlore_domain::ports::documents::{BacklinkQuery, Filter, StoreError};

use rusqlite::{Connection, StatementStatus};

use super::team::{ada, put_user};
use super::{at, made, place, sqlite, storage, told};

use crate::connection::Use;
use crate::schema::MIGRATIONS;
use crate::{Config, SqliteStore};

/// Refused in these words, and left as it was.
#[track_caller]
fn untouched(file: &Path, words: &[&str]) {
    let entries = || fs::read_dir(file.parent().unwrap()).unwrap().count();
    let state = || (Version::of(&fs::read(file).unwrap()), entries());
    let before = state();
    let (error, told) = told(at(file));
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(told.starts_with(&file.display().to_string()), "{told}");
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    assert_eq!(state(), before);
}

#[test]
fn a_newer_schema_is_refused() {
    let (_folder, file) = made();
    sqlite(&file, "PRAGMA user_version = 99");
    untouched(&file, &["newer reqlore", "99", "Update reqlore"]);
}

#[test]
fn what_is_refused_keeps_its_log() {
    let (folder, file) = made();
    let newer = Connection::open(&file).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    // As a killed process leaves it.
    let copy = folder.path().join("copy.db");
    let files = [("db", copy.clone()), ("db-wal", copy.with_extension("db-wal"))];
    for (extension, copy) in &files {
        fs::copy(file.with_extension(extension), copy).unwrap();
    }
    let state = || files.clone().map(|(_, path)| Version::of(&fs::read(path).unwrap()));
    let before = state();
    let (_, words) = told(at(&copy));
    assert!(words.contains("newer reqlore"), "{words}");
    assert_eq!(state(), before);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let (_folder, file) = place();
    sqlite(&file, "PRAGMA journal_mode = WAL; PRAGMA application_id = 7");
    untouched(&file, &["another program", "Name another file"]);
    let (_folder, file) = place();
    sqlite(&file, "CREATE TABLE theirs (x)");
    untouched(&file, &["another program"]);
}

#[test]
fn what_is_no_database_is_refused() {
    let (_folder, file) = place();
    fs::write(&file, "This is no database, but a text that is long enough. ".repeat(40)).unwrap();
    untouched(&file, &["not an SQLite database"]);
    // SQLite itself takes a file of one byte for an empty one.
    fs::write(&file, "x").unwrap();
    untouched(&file, &["not an SQLite database"]);
    let (folder, _file) = place();
    let (error, told) = told(at(folder.path()));
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(told.contains("no regular file"), "{told}");
}

#[test]
fn a_database_with_two_names_is_refused() {
    let (folder, file) = made();
    fs::hard_link(&file, folder.path().join("second.db")).unwrap();
    untouched(&file, &["second name", "Remove the other name"]);
    untouched(&folder.path().join("second.db"), &["second name"]);
}

#[test]
fn an_emptied_database_keeps_its_log() {
    let (_folder, file) = made();
    let log = file.with_extension("db-wal");
    fs::write(&file, "").unwrap();
    fs::write(&log, "what was not moved yet").unwrap();
    untouched(&file, &["is missing or empty", "reqlore restore"]);
    fs::remove_file(&file).unwrap();
    told(at(&file));
    assert!(fs::metadata(log).unwrap().len() > 0);
}

#[test]
fn a_cut_database_is_told_and_no_panic() {
    for keep in [10, 100, 4096, 5000, 20_000] {
        let (_folder, file) = made();
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..keep]).unwrap();
        let opened = at(&file);
        let outcome = match opened {
            Ok(_) => run_find(&file),
            Err(error) => Err(error),
        };
        let (error, words) = told(outcome);
        let is_told = matches!(error, StoreError::Unreadable { .. } | StoreError::Refused { .. });
        assert!(is_told, "{keep}: {error:?}");
        assert!(words.contains("restore") || words.contains("not an SQLite"), "{keep}: {words}");
    }
}

fn run_find(file: &Path) -> Result<(), StoreError> {
    let mut found = Ok(());
    run(async {
        let s = storage(file);
        let ids = [DocumentId::section("kept")];
        found = s.store.get(&s.project, &ids).await.map(drop);
    });
    found
}

#[test]
fn a_clean_end_leaves_one_file() {
    let (folder, _file) = made();
    let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["reqlore.db"]);
}

#[test]
fn an_older_schema_is_backed_up_and_brought_up_to_date() {
    let (folder, file) = made();
    let later = [MIGRATIONS, &["CREATE TABLE later (x INTEGER) STRICT"]].concat();
    let config = Config { file: file.clone() };
    drop(SqliteStore::open_with(&config, &later).unwrap());
    untouched(&file, &["newer reqlore (schema 3, this one knows 2)"]);
    let copy = folder.path().join("reqlore.db.schema-2.backup");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    run(async {
        let kept = storage(&copy).body(&DocumentId::section("kept")).await;
        assert_eq!(kept.as_deref(), Some(&b"kept"[..]));
    });
}

/// As it was before there were users.
#[test]
fn a_database_of_the_first_schema_keeps_its_documents_and_takes_users() {
    let (folder, file) = place();
    let config = Config { file: file.clone() };
    let names = ["a", "b", "c"];
    run(async {
        let old = SqliteStore::open_with(&config, &MIGRATIONS[..1]).unwrap();
        let s = Storage::fleeting(old);
        for name in names {
            s.put(&DocumentId::section(name), name).await;
        }
    });
    run(async {
        let s = storage(&file);
        for name in names {
            let body = s.body(&DocumentId::section(name)).await;
            assert_eq!(body.as_deref(), Some(name.as_bytes()));
        }
        let found = s.store.find(&s.project, &Filter::all(Kind::Section)).await.unwrap();
        assert_eq!(found.total, names.len());
        assert_eq!(s.store.epoch().await.unwrap(), 0);
        put_user(&s, ada()).await.unwrap();
        assert_eq!(s.store.users().await.unwrap(), [ada()]);
        assert_eq!(
            (s.store.epoch().await.unwrap(), s.store.newest().await.unwrap().number),
            (1, 1)
        );
    });
    let copy = fs::metadata(folder.path().join("reqlore.db.schema-1.backup"));
    assert!(copy.unwrap().len() > 0);
}

#[test]
fn a_failed_migration_changes_nothing() {
    let (_folder, file) = made();
    let wrong = [MIGRATIONS, &["CREATE TABLE later (x INTEGER) STRICT; no SQL"]].concat();
    let config = Config { file: file.clone() };
    told(SqliteStore::open_with(&config, &wrong));
    sqlite(&file, "CREATE TABLE later (x)");
    assert!(at(&file).is_ok());
}

#[test]
fn heads_of_another_format_are_made_anew() {
    let (_folder, file) = place();
    run(async {
        let s = storage(&file);
        for name in ["a", "b"] {
            s.put(&DocumentId::entity(name), "---\nid: dec-1d2c8f\nof: EP-1\n---\n").await;
        }
        let kind = Kind::Item(ItemKind::UserStory);
        let story = DocumentId { kind, name: "US-001".to_owned() };
        s.put(&story, "---\ntitle: T\nepic: EP-001\n---\n").await;
    });
    sqlite(
        &file,
        "UPDATE store SET heads = 0; DELETE FROM links; \
         UPDATE documents SET head = x'', reference = NULL, modified = 7000000000",
    );
    run(async {
        let s = storage(&file);
        let words = ["dec-1d2c8f".to_owned()];
        let found = s.store.lookup(&s.project, Kind::Entity, &words).await.unwrap();
        assert_eq!(found[0].len(), 2);
        let links = BacklinkQuery { kinds: Kind::ALL.to_vec(), targets: vec!["EP-001".to_owned()] };
        let found = s.store.backlinks(&s.project, &links).await.unwrap();
        assert_eq!(found[0].len(), 3, "links are made anew too");
        let made = found[0][2].item.as_ref().unwrap().created_at;
        assert_eq!(made.seconds(), 7, "with the time that is known of the document");
    });
}

#[test]
fn only_its_owner_reads_it() {
    let (folder, _) = place();
    let file = folder.path().join("new/deep/reqlore.db");
    let _store = at(&file).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("new")), 0o700);
    assert_eq!(mode(&folder.path().join("new/deep")), 0o700);
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(&folder.path().join(format!("new/deep/reqlore.db{suffix}"))), 0o600);
    }
}

#[test]
fn every_connection_is_set_up_for_safety() {
    let (_folder, file) = place();
    let store = at(&file).unwrap();
    for purpose in [Use::Write, Use::Read] {
        let connection = store.connector.open(purpose).unwrap();
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let [full, on, off] = [2, 1, 0];
        let wanted = [
            ("synchronous", full),
            ("foreign_keys", on),
            ("trusted_schema", off),
            ("cell_size_check", on),
            ("query_only", i64::from(purpose == Use::Read)),
        ];
        for (name, value) in wanted {
            assert_eq!(pragma(name).unwrap(), value, "{name}");
        }
        assert_eq!(pragma("mmap_size").unwrap_or_default(), 0);
        let mode = connection.pragma_query_value(None, "journal_mode", |row| row.get(0));
        assert_eq!(mode, Ok("wal".to_owned()));
        assert!(connection.execute_batch("PRAGMA writable_schema = ON").is_ok());
        let defended = connection.execute("UPDATE sqlite_schema SET sql = ''", []);
        assert!(defended.is_err());
    }
}

#[test]
fn a_statement_is_planned_once() {
    let (_folder, file) = place();
    let store = at(&file).unwrap();
    for purpose in [Use::Write, Use::Read] {
        let connection = store.connector.open(purpose).unwrap();
        let join = "SELECT u.text FROM tokens t JOIN users u ON u.key = t.user WHERE t.id = ?1";
        for name in ["a", "b", "c"] {
            let mut select = connection.prepare_cached(join).unwrap();
            assert!(!select.exists([name]).unwrap());
            assert_eq!(select.get_status(StatementStatus::RePrepare), 0, "{purpose:?} {name}");
        }
    }
}

#[test]
fn links_are_refused_and_not_followed() {
    for suffix in ["", "-wal", "-shm"] {
        for is_made in [false, true] {
            let (folder, file) = if is_made { made() } else { place() };
            let elsewhere = folder.path().join("elsewhere");
            let link = folder.path().join(format!("reqlore.db{suffix}"));
            let _ = fs::remove_file(&link);
            symlink(&elsewhere, &link).unwrap();
            let (error, words) = told(at(&file));
            assert!(matches!(error, StoreError::Refused { .. }), "{suffix}: {error:?}");
            assert!(words.contains("symbolic link"), "{words}");
            assert!(fs::metadata(&elsewhere).is_err(), "{suffix}: it was made");
            let names = fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(names, 1 + usize::from(is_made && !suffix.is_empty()));
            fs::write(&elsewhere, "").unwrap();
            told(at(&file));
            assert_eq!(fs::read(&elsewhere).unwrap(), b"");
        }
    }
}

#[test]
fn a_read_says_that_a_newer_version_took_over() {
    let newer_heads = "UPDATE documents SET head = x'ff'; UPDATE store SET heads = 99";
    let newer_schema = "ALTER TABLE documents RENAME COLUMN head TO other; PRAGMA user_version = 9";
    for (change, word) in [
        (newer_heads, "another version"),
        (newer_schema, "another version"),
        ("UPDATE documents SET head = x'ff'", "reqlore restore"),
    ] {
        let (_folder, file) = made();
        run(async {
            let s = storage(&file);
            sqlite(&file, change);
            let (_, words) = told(s.store.find(&s.project, &Filter::all(Kind::Section)).await);
            assert!(words.contains(word), "{change}: {words}");
        });
    }
}
