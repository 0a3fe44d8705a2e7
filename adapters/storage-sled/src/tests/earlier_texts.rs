//! Space of earlier versions, and databases of older schemas.

use std::fs;

use reqlore_contract::run;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::history::{DocumentHistory, PresentEntry, TextHash};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_durable_fs::commit_counter::CommitCounter;
use tempfile::tempdir;

use super::{database, delete, get, open, open_error, put};
use crate::database::{
    BODIES, DOCUMENTS, META, OVERFLOW, TEXTS, TOTALS_KEY, VERSION_ENDS, VERSIONS,
};
use crate::files::ACKNOWLEDGED;
use crate::open::{DATABASE_ID_KEY, SCHEMA_KEY};
use crate::records::{
    DocumentRow, PIECE_BYTES, SCHEMA_VERSION, document_key, encode, piece_key, text_key,
};

#[test]
fn pruned_entries_leave_nothing() {
    let folder = tempdir().unwrap();
    let id = DocumentId::entity("a");
    let long = "x".repeat(3 * PIECE_BYTES);
    run(async {
        let store = open(&folder);
        let sizes = || {
            [VERSIONS, TEXTS, VERSION_ENDS, OVERFLOW].map(|tree| database(&store).tree(tree).len())
        };
        for text in ["one", &long, "one", &long, "one"] {
            put(&store, &id, text).await.unwrap();
        }
        // The same text is stored once, and the present one only with its document.
        assert_eq!(sizes(), [4, 2, 4, 2]);
        delete(&store, &id).await;
        assert_eq!(sizes(), [6, 2, 6, 2]);
        let mut pruned = 0;
        loop {
            match store.prune_history(Timestamp(i64::MAX)).await.unwrap() {
                0 => break,
                count => pruned += count,
            }
        }
        assert_eq!((pruned, sizes()), (6, [0, 0, 0, 0]));
        store.close().unwrap();
    });
    let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
    assert_eq!(blobs.count(), 0, "a page became a file of its own, which nothing syncs");
}

#[test]
fn damaged_earlier_text_is_reported() {
    let folder = tempdir().unwrap();
    let id = DocumentId::entity("a");
    run(async {
        let store = open(&folder);
        for text in ["one", "two"] {
            put(&store, &id, text).await.unwrap();
        }
        let hash = TextHash::of_bytes(b"one");
        database(&store).tree(TEXTS).insert(text_key(1, &id, &hash.0), b"other").unwrap();
        let one = Version::of_bytes(b"one");
        let read = store.document_at(&ProjectKey::default(), &id, one).await;
        assert!(matches!(read, Err(StoreError::Unreadable { .. })), "{read:?}");
    });
}

#[test]
fn database_of_an_older_schema_is_upgraded() {
    let id = DocumentId::section("a");
    for schema in 1..SCHEMA_VERSION {
        // The upgrade was interrupted after it wrote the identity.
        for is_interrupted in [false, true] {
            let folder = tempdir().unwrap();
            let count_file = folder.path().join("sled").join(ACKNOWLEDGED);
            run(async {
                let store = open(&folder);
                put(&store, &id, "kept").await.unwrap();
                let meta = database(&store).tree(META).clone();
                meta.insert(SCHEMA_KEY, &[schema]).unwrap();
                let database_id = meta.remove(DATABASE_ID_KEY).unwrap();
                meta.remove(TOTALS_KEY).unwrap();
                drop(meta);
                store.close().unwrap();
                let commits = CommitCounter::read(&count_file).unwrap().unwrap().commits;
                if !is_interrupted {
                    let commits = commits.to_be_bytes();
                    let checksum = crc32fast::hash(&commits).to_be_bytes();
                    fs::write(&count_file, [&commits[..], &checksum].concat()).unwrap();
                }
                for _ in 0..2 {
                    let store = open(&folder);
                    let database = database(&store);
                    let schema = database.tree(META).get(SCHEMA_KEY).unwrap();
                    assert_eq!(schema.as_deref(), Some(&[SCHEMA_VERSION][..]));
                    let new_id = database.tree(META).get(DATABASE_ID_KEY).unwrap();
                    assert_eq!(new_id == database_id, is_interrupted);
                    assert_eq!(get(&store, &id).await.unwrap().unwrap().body, "kept");
                    drop(database);
                    store.close().unwrap();
                }
                assert!(CommitCounter::read(&count_file).unwrap().is_some());
            });
        }
    }
}

#[test]
fn damaged_database_of_an_older_schema_is_refused() {
    let id = DocumentId::section("a");
    for tree in [DOCUMENTS, BODIES] {
        let folder = tempdir().unwrap();
        run(async {
            let store = open(&folder);
            put(&store, &id, "kept").await.unwrap();
            database(&store).tree(META).insert(SCHEMA_KEY, &[2]).unwrap();
            let key = document_key(1, &id);
            match tree {
                DOCUMENTS => database(&store).tree(tree).remove(key).unwrap(),
                _ => database(&store).tree(tree).insert(piece_key(&key, 0), "x").unwrap(),
            };
            store.close().unwrap();
        });
        let text = open_error(folder.path());
        assert!(text.contains("is damaged"), "{text}");
    }
}

#[test]
fn document_row_of_schema_1_is_read() {
    // The seven fields of schema 1.
    let version = Version::of_bytes(b"x");
    let row = (version, 7_u64, Timestamp(9), None::<String>, 1_u64, None::<String>, vec![1_u8, 2]);
    let key = b"key";
    let decoded = DocumentRow::decode(key, &encode(key, &row)).unwrap();
    assert_eq!(decoded.entry(), PresentEntry::default());
    assert_eq!((decoded.version, decoded.revision, decoded.meta.clone()), (version, 7, row.6));
    let again = DocumentRow::decode(key, &encode(key, &decoded)).unwrap();
    assert_eq!(again.entry(), PresentEntry::default());
    assert!(DocumentRow::decode(key, &encode(key, &7_u8)).is_none(), "damaged");
}
