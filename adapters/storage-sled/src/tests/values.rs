//! Names, sizes, times, links and histories at their limits.

use std::fs;

use bytes::Bytes;
use reqlore_contract::archive::read_documents;
use reqlore_contract::{run, test_context};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, MAX_DOCUMENT_BYTES,
};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord};
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, DocumentFilter, DocumentRepository, Refresh, Revision,
    StoreError,
};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use tempfile::{TempDir, tempdir};

use super::{commit, commit_as, database, delete, get, open, put};
use crate::SledStore;
use crate::database::{BODIES, DELETIONS, DOCUMENTS, HISTORY, LINKS, WRITERS};
use crate::records::{PIECE_BYTES, document_key, link_prefix};
use crate::write::{MAX_DELETIONS, MAX_WRITERS};

fn assert_no_blobs(folder: &TempDir) {
    let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
    assert_eq!(blobs.count(), 0, "a page became a file of its own, which nothing syncs");
}

#[test]
fn names_with_any_characters_are_distinct() {
    let folder = tempdir().unwrap();
    let names = ["", "a", "a\0", "a\0\0\0\0", "a\0b", "b", "\u{7f}", "é", "\u{10ffff}"];
    let project = ProjectKey::default();
    run(async {
        let store = open(&folder);
        for name in names {
            put(&store, &DocumentId::entity(name), name).await.unwrap();
        }
        let page =
            store.find(&project, &DocumentFilter::of_kind(DocumentKind::Entity)).await.unwrap();
        let found: Vec<_> = page.metadata.iter().map(|meta| meta.id.name.as_str()).collect();
        assert_eq!(found, names);
        for name in names {
            let words = [name.to_owned()];
            let found = store.lookup(&project, DocumentKind::Entity, &words).await.unwrap();
            assert_eq!(found[0].len(), 1, "{name:?}");
            let found = get(&store, &DocumentId::entity(name)).await.unwrap().unwrap();
            assert_eq!(found.body, name);
        }
        delete(&store, &DocumentId::entity("a")).await;
        assert!(get(&store, &DocumentId::entity("a\0\0\0\0")).await.unwrap().is_some());
        let long = DocumentId::entity("x".repeat(1001));
        assert_eq!(get(&store, &long).await.unwrap(), None);
        let refused = put(&store, &long, "x").await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    });
}

#[test]
fn large_documents_never_become_blob_files() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("large");
    run(async {
        let store = open(&folder);
        for length in [MAX_DOCUMENT_BYTES, PIECE_BYTES, PIECE_BYTES + 1, 0, PIECE_BYTES * 3 - 1] {
            let body: Bytes = (0..=250).cycle().take(length).collect::<Vec<u8>>().into();
            commit(&store, vec![DocumentChange::put(id.clone(), body.clone())]).await.unwrap();
            assert_eq!(get(&store, &id).await.unwrap().unwrap().body, body);
        }
        assert_eq!(database(&store).tree(BODIES).len(), 3, "a piece of a longer body is left");
        delete(&store, &id).await;
        assert_eq!(database(&store).tree(BODIES).len(), 0);
        // Pages that are full of the largest values.
        let tags = (0..230).map(|tag| format!("a-tag-{tag:06}, ")).collect::<Vec<_>>().concat();
        let text = format!("---\nid: {}\ntags: [{tags}]\n---\n", "i".repeat(999));
        for number in 0..100 {
            let name = format!("{}{number}", "n".repeat(990));
            put(&store, &DocumentId::entity(&name), &text).await.unwrap();
        }
        let tags = tags.repeat(6);
        let id = DocumentId::entity("head");
        let body = Bytes::from(format!("---\ntags: [{tags}0]\n---\n"));
        commit(&store, vec![DocumentChange::put(id.clone(), body.clone())]).await.unwrap();
        let filter = DocumentFilter { kind: DocumentKind::Entity, after_name: None, limit: 1 };
        let page = store.find(&ProjectKey::default(), &filter).await.unwrap();
        let expected = DocumentMeta::from_document(&Document::new(id, body), test_context().at);
        assert_eq!(*page.metadata[0], expected, "metadata too large to be stored");
        assert_no_blobs(&folder);
    });
}

fn record(project: &ProjectKey, name: &str, text: &str, place: &str) -> ArchiveRecord {
    let document = Document::new(DocumentId::entity(name), Bytes::from(text.to_owned()));
    let (project, place) = (project.clone(), Some(place.into()));
    ArchiveRecord::Document(DocumentRecord {
        project,
        document,
        modified: Timestamp(1),
        path: place,
        entry: PresentEntry::default(),
    })
}

#[test]
fn put_keeps_the_path_and_updates_the_time() {
    let folder = tempdir().unwrap();
    let id = DocumentId::entity("a");
    run(async {
        let store = open(&folder);
        let mut writer = store.import().await.unwrap();
        let place = ".ixchel/a.md";
        writer.write_batch(vec![record(&ProjectKey::default(), "a", "one", place)]).await.unwrap();
        writer.finish().await.unwrap();
        let both = vec![DocumentChange::Delete { id: id.clone() }, DocumentChange::put(id, "two")];
        commit(&store, both).await.unwrap();
        let records = read_documents(&store).await.unwrap();
        assert_eq!((records.len(), records[0].modified), (1, test_context().at));
        assert_eq!(records[0].path.as_deref(), Some(place));
    });
}

#[test]
fn long_places_and_projects_are_refused() {
    let long = |length| ProjectKey::new("p".repeat(length));
    let records = [
        (record(&ProjectKey::default(), "a", "text", &"p".repeat(4097)), "4096"),
        (record(&long(1001), "a", "text", "p"), "1000"),
    ];
    for (record, limit) in records {
        let folder = tempdir().unwrap();
        run(async {
            let store = open(&folder);
            let mut writer = store.import().await.unwrap();
            let refused = writer.write_batch(vec![record]).await.unwrap_err();
            assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
            assert!(refused.to_string().contains(limit), "{refused}");
        });
    }
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        let change = || vec![DocumentChange::put(DocumentId::entity("a"), "text")];
        let refused = commit_as(&store, &long(1001), change(), test_context()).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
        for number in 0..100 {
            let key = ProjectKey::new(format!("{}{number:03}", "p".repeat(997)));
            commit_as(&store, &key, change(), test_context()).await.unwrap();
        }
        assert_no_blobs(&folder);
    });
}

#[test]
fn longest_places_never_become_blob_files() {
    let folder = tempdir().unwrap();
    let project = ProjectKey::default();
    let tags = (0..65).map(|tag| format!("a-tag-{tag:06}, ")).collect::<Vec<_>>().concat();
    let text = format!("---\nid: {}\ntags: [{tags}]\n---\n", "i".repeat(999));
    run(async {
        let store = open(&folder);
        let mut writer = store.import().await.unwrap();
        let name = |number: i32| format!("{}{number}", "n".repeat(990));
        let place = "p".repeat(4096);
        let records = (0..16).map(|number| record(&project, &name(number), &text, &place));
        writer.write_batch(records.collect()).await.unwrap();
        writer.finish().await.unwrap();
        // One page holds all documents, and sled sometimes writes the whole page.
        for number in (0..16).cycle().take(100) {
            put(&store, &DocumentId::entity(name(number)), &text).await.unwrap();
        }
        assert_no_blobs(&folder);
        let page =
            store.find(&project, &DocumentFilter::of_kind(DocumentKind::Entity)).await.unwrap();
        assert!(
            page.metadata.iter().all(|meta| meta.diagnostic.is_none() && meta.entity.is_some())
        );
    });
}

async fn backlinks(store: &SledStore, target: &str) -> Vec<String> {
    let links =
        BacklinkQuery { kinds: DocumentKind::ALL.to_vec(), targets: vec![target.to_owned()] };
    let found = store.backlinks(&ProjectKey::default(), &links).await.unwrap();
    found[0].iter().map(|meta| meta.id.name.clone()).collect()
}

#[test]
fn backlinks_match_whole_targets() {
    let folder = tempdir().unwrap();
    let long = |end: &str| format!("{}{end}", "\u{fc}".repeat(99));
    let targets = ["dec-1d2c8f", "dec-1d2c8", "a", "a/b", &long("x"), &long("y")];
    run(async {
        let store = open(&folder);
        for (number, target) in targets.iter().enumerate() {
            // Two relations to one target share one key in the tree.
            let text = format!("---\nof: {target}\nby: [{target}]\n---\n");
            put(&store, &DocumentId::entity(number.to_string()), &text).await.unwrap();
        }
        for (number, target) in targets.iter().enumerate() {
            assert_eq!(backlinks(&store, target).await, [number.to_string()], "{target}");
        }
        assert_eq!(database(&store).tree(LINKS).len(), targets.len());
        // A hash collision, and a document that does not exist.
        for name in ["0", "gone"] {
            let key = [link_prefix(1, DocumentKind::Entity, "a"), name.into()].concat();
            database(&store).tree(LINKS).insert(key, &[][..]).unwrap();
        }
        assert_eq!(backlinks(&store, "a").await, ["2"]);
        for number in 0..targets.len() {
            delete(&store, &DocumentId::entity(number.to_string())).await;
        }
        assert_eq!(database(&store).tree(LINKS).len(), 2, "the keys that the test put");
    });
}

#[test]
fn damaged_document_keeps_its_backlinks() {
    let folder = tempdir().unwrap();
    let id =
        DocumentId { kind: DocumentKind::Item(ItemKind::Requirement), name: "REQ-001".to_owned() };
    run(async {
        let store = open(&folder);
        put(&store, &id, "---\ntitle: T\nuser_story: US-1\n---\n").await.unwrap();
        database(&store).tree(DOCUMENTS).insert(document_key(1, &id), b"damaged").unwrap();
        assert_eq!(backlinks(&store, "US-001").await, ["REQ-001"]);
        assert_eq!(backlinks(&store, "US-002").await, [""; 0]);
    });
}

/// Returns the names of changed documents, or `None` for a reset.
async fn names_since(store: &SledStore, revision: u64) -> Option<Vec<String>> {
    let project = ProjectKey::default();
    let read = async |since| {
        store.changes_since(&project, since, usize::MAX, Refresh::Incremental).await.unwrap()
    };
    let row = database(store).project_row(&project).unwrap();
    // The position as an earlier process stored it.
    let writer_id = match database(store).writer_of(row.id, Revision(revision)) {
        _ if revision == 0 => 0,
        writer_id => writer_id.unwrap(),
    };
    let position = read(None).await.position();
    let since = ChangePosition { writer_id, revision: Revision(revision), ..position };
    match read(Some(since)).await {
        ChangePage::Since { ids, .. } => Some(ids.into_iter().map(|id| id.name).collect()),
        ChangePage::Reset { .. } => None,
    }
}

#[test]
fn changes_survive_restart() {
    let folder = tempdir().unwrap();
    run(async {
        let store = open(&folder);
        for name in ["a", "b", "c", "a"] {
            put(&store, &DocumentId::section(name), "x").await.unwrap();
        }
        delete(&store, &DocumentId::section("b")).await;
        store.close().unwrap();
        let store = open(&folder);
        for (revision, names) in [(0, &["c", "a", "b"][..]), (3, &["a", "b"]), (4, &["b"])] {
            assert_eq!(names_since(&store, revision).await.unwrap(), names);
        }
        put(&store, &DocumentId::section("b"), "back").await.unwrap();
        assert_eq!(names_since(&store, 4).await.unwrap(), ["b", "b"], "its deletion, and the put");
        assert_eq!(names_since(&store, 5).await.unwrap(), ["b"]);
        assert_eq!(names_since(&store, 7).await, None);
    });
}

#[test]
fn oldest_writers_are_forgotten() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    run(async {
        let revisions = MAX_WRITERS as u64 + 3;
        for _ in 0..revisions {
            let store = open(&folder);
            put(&store, &id, "x").await.unwrap();
            store.close().unwrap();
        }
        let store = open(&folder);
        assert_eq!(database(&store).tree(WRITERS).len(), MAX_WRITERS);
        assert_eq!(names_since(&store, 3).await, None);
        assert_eq!(names_since(&store, 4).await.unwrap(), ["a"]);
        assert_eq!(names_since(&store, revisions).await.unwrap(), [""; 0]);
    });
}

#[test]
fn pruned_deletions_return_a_reset() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    run(async {
        let store = open(&folder);
        for _ in 0..MAX_DELETIONS + 10 {
            put(&store, &id, "x").await.unwrap();
            delete(&store, &id).await;
        }
        let database = database(&store);
        assert!(database.tree(DELETIONS).len() <= MAX_DELETIONS + 1);
        assert_eq!(database.tree(HISTORY).len(), 0);
        let row = database.project_row(&ProjectKey::default()).unwrap();
        assert_eq!(row.deletions, database.tree(DELETIONS).len() as u64);
        assert!(row.complete_from > 0);
        assert_eq!(names_since(&store, row.complete_from - 1).await, None);
        let names = names_since(&store, row.complete_from).await.unwrap();
        assert_eq!(names.len(), database.tree(DELETIONS).len());
    });
}
