//! Purged texts are gone from the files, and damaged earlier texts are reported.

use std::fs;
use std::path::Path;

use reqlore_contract::{Storage, run, test_context};
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::timestamp::Timestamp;

use super::{database_path, error_text, open_file, run_sql, storage};

const SECRET: &str = "---\ntitle: token-4f1a20c9\nlinks: [token-4f1a20c9]\n---\nhunter2-8c41";

/// True if the database or its log contains these bytes.
fn files_contain(file: &Path, text: &str) -> bool {
    let mut bytes = fs::read(file).unwrap();
    bytes.extend(fs::read(file.with_extension("db-wal")).unwrap_or_default());
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

async fn write_secret(s: &Storage, id: &DocumentId) -> Version {
    // Also in a text with pages of its own.
    let long: &'static str = Box::leak(format!("{SECRET}{}", "x".repeat(50_000)).into());
    for text in ["before", SECRET, "between", long, "after"] {
        s.put(id, text).await;
    }
    Version::of_bytes(SECRET.as_bytes())
}

#[test]
fn purged_text_is_gone_from_the_file() {
    let (_folder, file) = database_path();
    let id = DocumentId::entity("decisions/dec-1d2c8f");
    run(async {
        let s = storage(&file);
        // Another server has the database open.
        let other = open_file(&file).unwrap();
        let version = write_secret(&s, &id).await;
        assert!(files_contain(&file, "hunter2-8c41"));
        let purge = s.store.purge_history(&s.project, &id, Some(version), test_context()).await;
        assert_eq!(purge.unwrap(), 1);
        assert!(files_contain(&file, "hunter2-8c41"), "the long text has it too");
        let purge = s.store.purge_history(&s.project, &id, None, test_context()).await;
        assert_eq!(purge.unwrap(), 4);
        for part in ["token-4f1a20c9", "hunter2-8c41", "before", "between"] {
            assert!(!files_contain(&file, part), "{part}");
        }
        assert_eq!(s.read_body(&id).await.as_deref(), Some(&b"after"[..]));
        s.put(&id, "later").await;
        drop(other);
    });
}

#[test]
fn purge_that_another_process_blocks_is_repeated() {
    let (_folder, file) = database_path();
    let id = DocumentId::section("a");
    run(async {
        let s = storage(&file);
        let version = write_secret(&s, &id).await;
        // A backup reads the state before the purge.
        let mut backup = open_file(&file).unwrap().export().await.unwrap();
        backup.next_batch().await.unwrap();
        let blocked = s.store.purge_history(&s.project, &id, Some(version), test_context()).await;
        let (error, message) = error_text(blocked);
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(message.contains("purge again"), "{message}");
        drop(backup);
        let purge = s.store.purge_history(&s.project, &id, None, test_context()).await;
        assert_eq!(purge.unwrap(), 4);
        assert!(!files_contain(&file, "hunter2-8c41"));
    });
}

#[test]
fn damaged_earlier_text_is_reported() {
    let (_folder, file) = database_path();
    let id = DocumentId::section("a");
    run(async {
        let s = storage(&file);
        s.put(&id, "one").await;
        s.put(&id, "two").await;
        run_sql(&file, "UPDATE texts SET bytes = CAST('other' AS BLOB)");
        let one = Version::of_bytes(b"one");
        let (error, message) = error_text(s.store.document_at(&s.project, &id, one).await);
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        assert!(message.contains("section a"), "{message}");
    });
}

#[test]
fn texts_are_stored_once_under_their_full_hash() {
    let (_folder, file) = database_path();
    let id = DocumentId::section("a");
    run(async {
        let s = storage(&file);
        for text in ["one", "two", "one", "two", "one"] {
            s.put(&id, text).await;
        }
    });
    let connection = super::connect(&file);
    let select = "SELECT count(*), min(length(hash)), (SELECT count(*) FROM history), \
                  (SELECT count(*) FROM bodies) FROM texts";
    let counts = connection.query_one(select, [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get(3)?))
    });
    // The present text is stored with its document only.
    assert_eq!(counts, Ok((2, 32, 4, 1_i64)));
    run(async {
        let s = storage(&file);
        s.delete(&id).await;
        while s.store.prune_history(Timestamp(i64::MAX)).await.unwrap() > 0 {}
    });
    let left = "SELECT (SELECT count(*) FROM history) + (SELECT count(*) FROM texts)";
    assert_eq!(connection.query_one(left, [], |row| row.get(0)), Ok(0_i64));
}
