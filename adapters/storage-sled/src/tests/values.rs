//! Values and keys at their limits.

use std::fs;

use bytes::Bytes;
use reqlore_contract::{run, test_context};
use reqlore_domain::document::MAX_DOCUMENT_BYTES;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord};
use reqlore_domain::ports::documents::{
    DocumentChange, DocumentFilter, DocumentRepository, StoreError,
};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_ordered_rows::OrderedTree;
use tempfile::{TempDir, tempdir};

use super::{commit, commit_as, get, open, open_both, put};
use crate::database::SledTree;

const PIECE_BYTES: usize = SledTree::MAX_VALUE_BYTES;

fn assert_no_blobs(folder: &TempDir) {
    let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
    assert_eq!(blobs.count(), 0, "a page became a file of its own");
}

#[test]
fn large_documents_never_become_blob_files() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("large");
    run(async {
        let (store, database) = open_both(&folder);
        let sizes = [MAX_DOCUMENT_BYTES, 512 << 10, PIECE_BYTES, 0, PIECE_BYTES * 3 - 1];
        for length in sizes {
            let body: Bytes = (0..=250).cycle().take(length).collect::<Vec<u8>>().into();
            commit(&store, vec![DocumentChange::put(id.clone(), body.clone())]).await.unwrap();
            assert_eq!(get(&store, &id).await.unwrap().unwrap().body, body);
        }
        for entry in &database.tree().0 {
            let (key, value) = entry.unwrap();
            assert!(value.len() <= PIECE_BYTES, "{key:?}");
        }
        // Pages that are full of the largest values.
        let tags = (0..230).map(|tag| format!("a-tag-{tag:06}, ")).collect::<Vec<_>>().concat();
        let text = format!("---\nid: {}\ntags: [{tags}]\n---\n", "i".repeat(500));
        for number in 0..100 {
            let name = format!("{}{number}", "n".repeat(500));
            put(&store, &DocumentId::entity(&name), &text).await.unwrap();
        }
        let tags = tags.repeat(6);
        let id = DocumentId::entity("head");
        let body = Bytes::from(format!("---\ntags: [{tags}0]\n---\n"));
        commit(&store, vec![DocumentChange::put(id.clone(), body.clone())]).await.unwrap();
        let filter = DocumentFilter { kind: DocumentKind::Entity, after_name: None, limit: 1 };
        let page = store.find(&ProjectKey::default(), &filter).await.unwrap();
        let expected = DocumentMeta::from_document(&Document::new(id, body), test_context().at);
        assert_eq!(*page.metadata[0], expected, "metadata of several pieces");
        assert_no_blobs(&folder);
    });
}

#[test]
fn longest_keys_are_stored_and_longer_ones_refused() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        let change = || vec![DocumentChange::put(DocumentId::entity("a"), "text")];
        let long = |length| ProjectKey::new("p".repeat(length));
        let refused = commit_as(&store, &long(1401), change(), test_context()).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
        for number in 0..100 {
            let key = ProjectKey::new(format!("{}{number:03}", "p".repeat(1300)));
            commit_as(&store, &key, change(), test_context()).await.unwrap();
        }
        // Inner pages with keys that share no beginning.
        for number in 0..300 {
            let key = ProjectKey::new(format!("{number:03}{}", "p".repeat(400)));
            commit_as(&store, &key, change(), test_context()).await.unwrap();
        }
        // Pages with many of them are files, which each commit syncs.
        let key = ProjectKey::new(format!("299{}", "p".repeat(400)));
        let found = store.get(&key, &[DocumentId::entity("a")]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().body, "text");
    });
}

#[test]
fn large_import_is_one_transaction() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        let mut writer = store.import().await.unwrap();
        let record = |number: usize| {
            let text = format!("---\ntitle: T{number}\n---\n{}", "x".repeat(6_000));
            let document = Document::new(DocumentId::entity(number.to_string()), text.into());
            ArchiveRecord::Document(DocumentRecord {
                project: ProjectKey::default(),
                document,
                modified: Timestamp(1),
                path: Some("p".repeat(4096).into()),
                entry: PresentEntry::default(),
            })
        };
        writer.write_batch((0..2_000).map(record).collect()).await.unwrap();
        writer.finish().await.unwrap();
        assert_no_blobs(&folder);
        super::close(&folder, store);
        let store = open(&folder);
        assert!(get(&store, &DocumentId::entity("1999")).await.unwrap().is_some());
    });
}
