//! Space of earlier versions, and their damage.

use std::fs;

use reqlore_contract::run;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::history::{DocumentHistory, TextHash};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use tempfile::tempdir;

use super::{database, delete, open, put};
use crate::database::{OVERFLOW, TEXTS, VERSION_ENDS, VERSIONS};
use crate::records::{PIECE_BYTES, text_key};

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
