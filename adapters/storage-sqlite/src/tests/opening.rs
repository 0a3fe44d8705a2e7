//! Refused files, other versions, and the settings of connections.

use std::fs;
use std::path::Path;

use reqlore_contract::run;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, StoreError};
use reqlore_domain::project_key::ProjectKey;
use rusqlite::StatementStatus;

use super::{closed_database, database_path, error_text, open_file, run_sql, storage, try_put};
use crate::commit_count::sibling_path;
use crate::connection::ConnectionUse;
use crate::schema::WHOLE_SCHEMA;

/// Asserts that opening fails with these words and changes no file.
#[track_caller]
fn assert_refused_unchanged(file: &Path, words: &[&str]) {
    let entries = || fs::read_dir(file.parent().unwrap()).unwrap().count();
    let state = || (Version::of_bytes(&fs::read(file).unwrap()), entries());
    let before = state();
    let (error, message) = error_text(open_file(file));
    let is_other_version = message.contains("another version");
    assert!(matches!(error, StoreError::Refused { .. }) || is_other_version, "{error:?}");
    assert!(message.starts_with(&file.display().to_string()), "{message}");
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert_eq!(state(), before);
}

#[test]
fn foreign_and_other_databases_are_refused_unchanged() {
    type Change<'a> = &'a dyn Fn(&Path);
    let text = "This is not a database but a text that is long enough. ".repeat(40);
    let link = |file: &Path| fs::hard_link(file, file.with_extension("second")).unwrap();
    let format = format!("supported: {})", WHOLE_SCHEMA.format.version);
    let cases: [(Change<'_>, &[&str]); 7] = [
        (&|file| run_sql(file, "PRAGMA user_version = 99"), &["another version", "99", &format]),
        (&|file| run_sql(file, "PRAGMA user_version = 4"), &["another version", "4", &format]),
        (&|file| run_sql(file, "PRAGMA application_id = 7"), &["another program", "another file"]),
        (&|file| run_sql(file, "PRAGMA application_id = 0"), &["another program"]),
        (&|file| fs::write(file, &text).unwrap(), &["not an SQLite database"]),
        // SQLite itself treats a file of one byte as empty.
        (&|file| fs::write(file, "x").unwrap(), &["not an SQLite database"]),
        (&link, &["second name", "remove the other name"]),
    ];
    for (change, words) in cases {
        let (_folder, file) = closed_database();
        change(&file);
        assert_refused_unchanged(&file, words);
    }
    let (folder, _file) = database_path();
    let (error, message) = error_text(open_file(folder.path()));
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(message.contains("not a regular file"), "{message}");
}

#[test]
fn refused_database_keeps_its_log() {
    let (folder, file) = closed_database();
    let newer = super::connect(&file);
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    // A copy of the files as a killed process leaves them.
    let copy = folder.path().join("copy.db");
    let log = copy.with_extension("db-wal");
    fs::copy(&file, &copy).unwrap();
    fs::copy(file.with_extension("db-wal"), &log).unwrap();
    let state = || [&copy, &log].map(|path| Version::of_bytes(&fs::read(path).unwrap()));
    let before = state();
    let (_, message) = error_text(open_file(&copy));
    assert!(message.contains("another version of Reqlore"), "{message}");
    assert_eq!(state(), before);
    fs::write(&copy, "").unwrap();
    assert_refused_unchanged(&copy, &["is an empty file", "reqlore restore"]);
    fs::remove_file(&copy).unwrap();
    let (_, message) = error_text(open_file(&copy));
    assert!(message.contains("is missing, but copy.db-wal is not"), "{message}");
    assert_eq!(Version::of_bytes(&fs::read(&log).unwrap()), before[1]);
}

#[test]
fn truncated_database_is_reported() {
    for keep in [10, 100, 4096, 5000, 20_000] {
        let (_folder, file) = closed_database();
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..keep]).unwrap();
        let outcome = open_file(&file).and_then(|store| {
            let ids = [DocumentId::section("kept")];
            run(store.get(&ProjectKey::default(), &ids)).map(drop)
        });
        let (error, message) = error_text(outcome);
        let is_reported =
            matches!(error, StoreError::Unreadable { .. } | StoreError::Refused { .. });
        assert!(is_reported, "{keep}: {error:?}");
        assert!(
            message.contains("restore") || message.contains("not an SQLite"),
            "{keep}: {message}"
        );
    }
}

#[test]
fn clean_shutdown_leaves_an_empty_log() {
    let (folder, file) = closed_database();
    let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["reqlore.db", "reqlore.db-commits", "reqlore.db-shm", "reqlore.db-wal"]);
    assert_eq!(fs::metadata(sibling_path(&file, "-wal")).unwrap().len(), 0);
}

#[cfg(unix)]
#[test]
fn files_are_readable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, _) = database_path();
    let file = folder.path().join("new/deep/reqlore.db");
    let _store = open_file(&file).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("new")), 0o700);
    assert_eq!(mode(&folder.path().join("new/deep")), 0o700);
    for suffix in ["", "-wal", "-shm", "-commits"] {
        assert_eq!(mode(&folder.path().join(format!("new/deep/reqlore.db{suffix}"))), 0o600);
    }
}

#[test]
fn every_connection_has_safe_settings() {
    let (_folder, file) = database_path();
    let (connector, _writer) = crate::open_for_writing(&file).unwrap();
    for purpose in [ConnectionUse::Write, ConnectionUse::Read] {
        let connection = connector.open(purpose).unwrap();
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let [full, on, off] = [2, 1, 0];
        let wanted = [
            ("synchronous", full),
            ("foreign_keys", on),
            ("trusted_schema", off),
            ("cell_size_check", on),
            ("query_only", i64::from(purpose == ConnectionUse::Read)),
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
        // A statement is prepared once.
        let join = "SELECT u.text FROM tokens t JOIN users u ON u.key = t.owner WHERE t.id = ?1";
        for name in ["a", "b", "c"] {
            let mut select = connection.prepare_cached(join).unwrap();
            assert!(!select.exists([name]).unwrap());
            assert_eq!(select.get_status(StatementStatus::RePrepare), 0, "{purpose:?} {name}");
        }
    }
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_refused() {
    for suffix in ["", "-wal", "-shm", "-journal", "-commits"] {
        for is_created in [false, true] {
            let (folder, file) = if is_created { closed_database() } else { database_path() };
            let elsewhere = folder.path().join("elsewhere");
            let link = folder.path().join(format!("reqlore.db{suffix}"));
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
            let before = fs::read_dir(folder.path()).unwrap().count();
            let (error, message) = error_text(open_file(&file));
            assert!(matches!(error, StoreError::Refused { .. }), "{suffix}: {error:?}");
            assert!(message.contains("is a link"), "{message}");
            assert!(fs::metadata(&elsewhere).is_err(), "{suffix}: it was created");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
            fs::write(&elsewhere, "").unwrap();
            error_text(open_file(&file));
            assert_eq!(fs::read(&elsewhere).unwrap(), b"");
        }
    }
}

#[test]
fn database_that_changed_its_format_is_not_written() {
    let (_folder, file) = closed_database();
    run(async {
        let s = storage(&file);
        // Waits for the check at the start.
        s.store.rows(1, 1).await.unwrap();
        run_sql(&file, "UPDATE documents SET modified = 1; PRAGMA user_version = 99");
        let (_, message) = error_text(
            s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Section)).await,
        );
        assert!(message.contains("another version"), "{message}");
        let (error, message) = error_text(try_put(&s, "a").await);
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(message.contains("(format 99, supported: "), "{message}");
        // Other processes can still write.
        run_sql(&file, "UPDATE store SET id = 1");
    });
    let (_folder, file) = closed_database();
    run(async {
        let s = storage(&file);
        run_sql(&file, "UPDATE documents SET modified = 1");
        let (_, message) = error_text(
            s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Section)).await,
        );
        assert!(message.contains("reqlore restore"), "{message}");
    });
}
