//! Names, sizes and times that are easily got wrong.

use std::fs;

use bytes::Bytes;
use reqlore_contract::archive::read_documents;
use reqlore_contract::{act, run};
use reqlore_domain::document::{Document, DocumentId, DocumentMeta, Kind, MAX_BYTES};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord};
use reqlore_domain::ports::documents::{Change, DocumentRepository, Filter, StoreError};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use tempfile::tempdir;

use super::{base, commit, commit_to, config, delete, get, put};
use crate::base::BODIES;
use crate::values::PIECE_BYTES;
use crate::{PATIENCE, SledStore};

#[test]
fn names_of_any_text_are_kept_apart() {
    let folder = tempdir().unwrap();
    let names = ["", "a", "a\0", "a\0\0\0\0", "a\0b", "b", "\u{7f}", "é", "\u{10ffff}"];
    let project = ProjectKey::default();
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        for name in names {
            put(&store, &DocumentId::entity(name), name).await.unwrap();
        }
        let page = store.find(&project, &Filter::all(Kind::Entity)).await.unwrap();
        let found: Vec<_> = page.heads.iter().map(|head| head.id.name.as_str()).collect();
        assert_eq!(found, names);
        for name in names {
            let words = [name.to_owned()];
            let heads = store.lookup(&project, Kind::Entity, &words).await.unwrap();
            assert_eq!(heads[0].len(), 1, "{name:?}");
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

/// Nobody would sync such a file.
#[test]
fn no_document_becomes_a_file_of_its_own() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("large");
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        for length in [MAX_BYTES, PIECE_BYTES, PIECE_BYTES + 1, 0, PIECE_BYTES * 3 - 1] {
            let body: Bytes = (0..=250).cycle().take(length).collect::<Vec<u8>>().into();
            commit(&store, vec![Change::put(id.clone(), body.clone())]).await.unwrap();
            assert_eq!(get(&store, &id).await.unwrap().unwrap().body, body);
        }
        assert_eq!(base(&store).tree(BODIES).len(), 3, "no piece of a longer body is left");
        delete(&store, &id).await;
        assert_eq!(base(&store).tree(BODIES).len(), 0);
        // Pages full of the largest values there are.
        let project = ProjectKey::default();
        let tags = (0..230).map(|tag| format!("a-tag-{tag:06}, ")).collect::<Vec<_>>().concat();
        let text = format!("---\nid: {}\ntags: [{tags}]\n---\n", "i".repeat(999));
        for number in 0..100 {
            let name = format!("{}{number}", "n".repeat(990));
            put(&store, &DocumentId::entity(&name), &text).await.unwrap();
        }
        let tags = tags.repeat(3);
        let id = DocumentId::entity("head");
        let body = Bytes::from(format!("---\ntags: [{tags}{tags}0]\n---\n"));
        commit(&store, vec![Change::put(id.clone(), body.clone())]).await.unwrap();
        let filter = Filter { kind: Kind::Entity, after: None, limit: Some(1) };
        let page = store.find(&project, &filter).await.unwrap();
        assert_eq!(
            *page.heads[0],
            DocumentMeta::of(&Document::new(id, body), act().at),
            "too large to be kept"
        );
        let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
        assert_eq!(blobs.count(), 0);
    });
}

#[test]
fn overwriting_does_not_grow_the_file() {
    let folder = tempdir().unwrap();
    let text = "x".repeat(2000);
    run(async {
        let sync = Box::new(|_: &fs::File| Ok(()));
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        for round in 0..200 {
            let change = |number| {
                let id = DocumentId::section(format!("{number}"));
                Change::put(id, Bytes::from(format!("{round}{text}")))
            };
            commit(&store, (0..20).map(change).collect()).await.unwrap();
        }
        let length = fs::metadata(folder.path().join("sled/db")).unwrap().len();
        assert!(length < 8 << 20, "8 MB were written over 40 kB: {length}");
    });
}

#[test]
fn a_put_keeps_the_place_and_takes_the_time() {
    let folder = tempdir().unwrap();
    let id = DocumentId::section("a");
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        let mut sink = store.fill().await.unwrap();
        let record = DocumentRecord {
            project: ProjectKey::default(),
            document: Document::new(id.clone(), Bytes::from_static(b"one")),
            modified: Timestamp(1),
            place: Some("docs/a.md".into()),
        };
        sink.put(vec![ArchiveRecord::Document(record)]).await.unwrap();
        sink.finish().await.unwrap();
        let both = vec![Change::Delete { id: id.clone() }, Change::put(id, "two")];
        commit(&store, both).await.unwrap();
        let records = read_documents(&store).await.unwrap();
        assert_eq!((records.len(), records[0].modified), (1, act().at));
        assert_eq!(records[0].place.as_deref(), Some("docs/a.md"));
    });
}

#[test]
fn two_projects_hold_the_same_names() {
    let folder = tempdir().unwrap();
    let id = DocumentId::entity("a");
    let projects = [ProjectKey::default(), ProjectKey::new("/other"), ProjectKey::new("")];
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        for project in &projects {
            let text = format!("---\nid: dec-1d2c8f\n---\n{project}");
            let changes = vec![Change::put(id.clone(), text)];
            commit_to(&store, project, changes).await.unwrap();
        }
        commit_to(&store, &projects[1], vec![Change::Delete { id: id.clone() }]).await.unwrap();
        for (project, count) in projects.iter().zip([1, 0, 1]) {
            let page = store.find(project, &Filter::all(Kind::Entity)).await.unwrap();
            assert_eq!((page.heads.len(), page.total), (count, count), "{project}");
            let words = ["dec-1d2c8f".to_owned()];
            let named = store.lookup(project, Kind::Entity, &words).await.unwrap();
            assert_eq!(named[0].len(), count);
            let found = store.get(project, std::slice::from_ref(&id)).await.unwrap();
            let text = found[0].as_ref().map(|document| document.text().unwrap());
            assert!(text.is_none_or(|text| text.ends_with(&format!("\n{project}"))));
        }
    });
}

fn with_place(project: &ProjectKey, name: &str, text: &str, place: usize) -> ArchiveRecord {
    let document = Document::new(DocumentId::entity(name), Bytes::from(text.to_owned()));
    let place = Some("p".repeat(place).into());
    let (project, modified) = (project.clone(), Timestamp(1));
    ArchiveRecord::Document(DocumentRecord { project, document, modified, place })
}

#[test]
fn a_long_place_or_project_is_refused() {
    let project = ProjectKey::default();
    let long = |length| ProjectKey::new("p".repeat(length));
    let records =
        [with_place(&project, "a", "text", 4097), with_place(&long(1001), "a", "text", 1)];
    for (record, words) in records.into_iter().zip(["4096", "1000"]) {
        let folder = tempdir().unwrap();
        run(async {
            let store = SledStore::open(&config(folder.path())).unwrap();
            let mut sink = store.fill().await.unwrap();
            let refused = sink.put(vec![record]).await.err();
            assert!(matches!(refused, Some(StoreError::Refused { .. })), "{refused:?}");
            let text = refused.unwrap().to_string();
            assert!(text.contains(words), "{text}");
        });
    }
    let folder = tempdir().unwrap();
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        let change = || vec![Change::put(DocumentId::entity("a"), "text")];
        let refused = commit_to(&store, &long(1001), change()).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
        for number in 0..100 {
            let key = ProjectKey::new(format!("{}{number:03}", "p".repeat(997)));
            commit_to(&store, &key, change()).await.unwrap();
        }
        let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
        assert_eq!(blobs.count(), 0);
    });
}

#[test]
fn the_longest_places_become_no_files() {
    let folder = tempdir().unwrap();
    let project = ProjectKey::default();
    let tags = (0..65).map(|tag| format!("a-tag-{tag:06}, ")).collect::<Vec<_>>().concat();
    let text = format!("---\nid: {}\ntags: [{tags}]\n---\n", "i".repeat(999));
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        let mut sink = store.fill().await.unwrap();
        let name = |number: i32| format!("{}{number}", "n".repeat(990));
        let records = (0..16).map(|number| with_place(&project, &name(number), &text, 4096));
        sink.put(records.collect()).await.unwrap();
        sink.finish().await.unwrap();
        // One page holds them all, and sled writes it as a whole now and then.
        for number in (0..16).cycle().take(100) {
            put(&store, &DocumentId::entity(name(number)), &text).await.unwrap();
        }
        let blobs = fs::read_dir(folder.path().join("sled/blobs")).unwrap();
        assert_eq!(blobs.count(), 0);
        let page = store.find(&project, &Filter::all(Kind::Entity)).await.unwrap();
        assert!(page.heads.iter().all(|head| head.fault.is_none() && head.entity.is_some()));
    });
}
