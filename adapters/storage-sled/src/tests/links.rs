//! Who links to what, and numbers, where a group or a hash could get them wrong.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use reqlore_contract::archive::read_records;
use reqlore_contract::{act, run};
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::ports::archive::{ArchiveRecord, HighWaterMark};
use reqlore_domain::ports::documents::{
    BacklinkQuery, Change, Commit, DocumentRepository, ReadSet, Snapshot, StoreResult,
};
use reqlore_domain::project::ProjectKey;
use tempfile::tempdir;

use super::{base, config, delete, put};
use crate::base::{DOCUMENTS, LINKS};
use crate::{PATIENCE, SledStore, keys};

const REQ: ItemKind = ItemKind::Requirement;

async fn backlinks(store: &SledStore, target: &str) -> Vec<String> {
    let links = BacklinkQuery { kinds: Kind::ALL.to_vec(), targets: vec![target.to_owned()] };
    let found = store.backlinks(&ProjectKey::default(), &links).await.unwrap();
    found[0].iter().map(|head| head.id.name.clone()).collect()
}

#[test]
fn a_target_is_found_as_a_whole() {
    let folder = tempdir().unwrap();
    let long = |end: &str| format!("{}{end}", "\u{fc}".repeat(99));
    let targets = ["dec-1d2c8f", "dec-1d2c8", "a", "a/b", &long("x"), &long("y")];
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        for (number, target) in targets.iter().enumerate() {
            // Twice, by two relations: it is one place among the links.
            let text = format!("---\nof: {target}\nby: [{target}]\n---\n");
            put(&store, &DocumentId::entity(number.to_string()), &text).await.unwrap();
        }
        for (number, target) in targets.iter().enumerate() {
            assert_eq!(backlinks(&store, target).await, [number.to_string()], "{target}");
        }
        assert_eq!(base(&store).tree(LINKS).len(), targets.len());
        // As if two targets had one hash, or a document had gone.
        for name in ["0", "gone"] {
            let key = [keys::link(1, Kind::Entity, "a"), name.into()].concat();
            base(&store).tree(LINKS).insert(key, &[][..]).unwrap();
        }
        assert_eq!(backlinks(&store, "a").await, ["2"]);
        for number in 0..targets.len() {
            delete(&store, &DocumentId::entity(number.to_string())).await;
        }
        assert_eq!(base(&store).tree(LINKS).len(), 2, "only what was put there by hand");
    });
}

#[test]
fn a_damaged_document_still_links() {
    let folder = tempdir().unwrap();
    let id = DocumentId { kind: Kind::Item(REQ), name: "REQ-001".to_owned() };
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        put(&store, &id, "---\ntitle: T\nuser_story: US-1\n---\n").await.unwrap();
        let key = keys::document(1, &id);
        base(&store).tree(DOCUMENTS).insert(key, b"damaged").unwrap();
        assert_eq!(backlinks(&store, "US-001").await, ["REQ-001"]);
        assert_eq!(backlinks(&store, "US-002").await, [""; 0]);
    });
}

/// Makes a requirement with the next number that links to the first one.
async fn create(store: &SledStore, reads: ReadSet) -> StoreResult<usize> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let mut tell = Some(tell);
    let decide = move |snapshot: &Snapshot| {
        let reference = Reference { kind: REQ, number: snapshot.numbers[0] };
        let seen = snapshot.links.first().map_or(0, Vec::len);
        tell.take().map(|tell| tell.send(seen));
        let text = "---\ntitle: T\nuser_story: US-001\n---\n";
        Ok(vec![Change::put(reference.document("aaaaaa"), text)])
    };
    let commit = Commit { reads, decide: Box::new(decide), act: act() };
    store.commit(&ProjectKey::default(), commit).await?;
    Ok(told.await.unwrap())
}

#[test]
fn items_are_made_in_groups() {
    let folder = tempdir().unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&syncs);
    let sync = Box::new(move |file: &File| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        file.sync_all()
    });
    run(async {
        let store = SledStore::open_with(&config(folder.path()), sync, PATIENCE).unwrap();
        let begin = syncs.load(Ordering::Relaxed);
        let transactions = || base(&store).commits.load(Ordering::Relaxed);
        let first = transactions();
        let ten = |_| async {
            for _ in 0..10 {
                let reads = ReadSet { numbers: vec![REQ], ..ReadSet::default() };
                create(&store, reads).await.unwrap();
            }
        };
        join_all((0..64).map(ten)).await;
        let syncs = syncs.load(Ordering::Relaxed) - begin;
        assert!(syncs * 10 <= 640, "640 items took {syncs} syncs");
        let transactions = transactions() - first;
        assert!(transactions * 10 <= 640, "640 items took {transactions} transactions");
        let mark = HighWaterMark { project: ProjectKey::default(), kind: REQ, number: 640 };
        let records = read_records(&store).await.unwrap();
        assert!(records.contains(&ArchiveRecord::HighWaterMark(mark)));
        assert_eq!(backlinks(&store, "US-001").await.len(), 640, "none was written over another");
    });
}

#[test]
fn a_group_sees_its_own_links() {
    let folder = tempdir().unwrap();
    run(async {
        let store = SledStore::open(&config(folder.path())).unwrap();
        let create = |_| {
            let links =
                BacklinkQuery { kinds: vec![Kind::Item(REQ)], targets: vec!["US-001".to_owned()] };
            create(&store, ReadSet { links, numbers: vec![REQ], ..ReadSet::default() })
        };
        let seen = join_all((0..20).map(create)).await;
        let seen: Vec<usize> = seen.into_iter().map(Result::unwrap).collect();
        assert_eq!(seen, (0..20).collect::<Vec<_>>(), "each saw all before it");
    });
}
