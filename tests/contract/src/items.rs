//! Backlog items: backlinks and numbers that are never reused.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, HighWaterMark};
use reqlore_domain::ports::documents::{
    BacklinkQuery, CommitRequest, DocumentChange, DocumentFilter, DocumentRepository, ReadSet,
    Snapshot, StoreError,
};

use crate::archive::read_records;
use crate::{Storage, test_context};

const REQ: ItemKind = ItemKind::Requirement;

fn item(kind: ItemKind, name: &str) -> DocumentId {
    DocumentId { kind: DocumentKind::Item(kind), name: name.to_owned() }
}

fn deleted(name: &str) -> DocumentId {
    DocumentId { kind: DocumentKind::Deleted, name: name.to_owned() }
}

/// Returns the names of the documents that link to each target.
async fn backlink_names(s: &Storage, kinds: &[DocumentKind], targets: &[&str]) -> Vec<Vec<String>> {
    let targets = targets.iter().map(|target| (*target).to_owned()).collect();
    let links = BacklinkQuery { kinds: kinds.to_vec(), targets };
    meta_names(&s.store.backlinks(&s.project, &links).await.unwrap())
}

fn meta_names(lists: &[Vec<Arc<DocumentMeta>>]) -> Vec<Vec<String>> {
    lists.iter().map(|list| list.iter().map(|meta| meta.id.name.clone()).collect()).collect()
}

const CHILD: &str =
    "---\ntitle: C\nuser_story: US-1\ndepends_on: [REQ-002]\n---\nSee dec-1d2c8f.\n";
const ENTITY: &str = "---\nid: dec-aaaaaa\nimplements: [REQ-2, US-001]\n---\n";

pub async fn item_metadata_matches_the_body(s: &Storage) {
    s.put(&item(REQ, "REQ-048-3f9a1c"), CHILD).await;
    s.put(&item(REQ, "REQ-500"), "---\ntitle: [\n---\n").await;
    let page =
        s.store.find(&s.project, &DocumentFilter::of_kind(DocumentKind::Item(REQ))).await.unwrap();
    let item = page.metadata[0].item.as_ref().expect("an item");
    assert_eq!((item.title.as_str(), item.reference), ("C", Reference::parse("REQ-048")));
    assert!(page.metadata[1].diagnostic.is_some() && page.metadata[1].item.is_some());
    let words = ["REQ-048".to_owned(), "REQ-048-3f9a1c".to_owned(), "REQ-48".to_owned()];
    let named = s.store.lookup(&s.project, DocumentKind::Item(REQ), &words).await.unwrap();
    let own = vec!["REQ-048-3f9a1c".to_owned()];
    assert_eq!(
        meta_names(&named),
        [own.clone(), own, vec![]],
        "by the printed reference and the name"
    );
}

pub async fn backlinks_are_found_by_target(s: &Storage) {
    s.put(&item(REQ, "REQ-003"), CHILD).await;
    s.put(&item(REQ, "REQ-001"), CHILD).await;
    s.put(&DocumentId::entity("decisions/a"), ENTITY).await;
    s.put(&item(ItemKind::AcceptanceCriteria, "AC-001"), "---\nuser_story: US-001\n---\n").await;
    let all = DocumentKind::ALL;
    let found =
        backlink_names(s, &all, &["US-001", "REQ-002", "dec-1d2c8f", "REQ-2", "nothing"]).await;
    let [a, one, three, criteria] =
        ["decisions/a", "REQ-001", "REQ-003", "AC-001"].map(String::from);
    let both = vec![one.clone(), three.clone()];
    let story = vec![a.clone(), one.clone(), three.clone(), criteria];
    assert_eq!(found, [story, vec![a, one, three], both.clone(), vec![], vec![]]);
    assert_eq!(backlink_names(s, &[DocumentKind::Item(REQ)], &["US-001"]).await, [both]);
    assert_eq!(backlink_names(s, &[], &["US-001"]).await, [Vec::<String>::new()]);
    assert_eq!(backlink_names(s, &all, &[]).await, Vec::<Vec<String>>::new());
    let links = BacklinkQuery { kinds: all.to_vec(), targets: vec!["US-001".to_owned()] };
    let other = s.store.backlinks(&s.other, &links).await.unwrap();
    assert_eq!(meta_names(&other), [Vec::<String>::new()], "projects are isolated");
}

pub async fn mentions_in_sections_are_backlinks(s: &Storage) {
    let id = DocumentId::section("general");
    let text = "# Rules\n\n**1.** As dec-aaaaaa says.\n\n**2.1.** See REQ-7 and dec-aaaaaa.\n";
    s.put(&id, text).await;
    let kinds = [DocumentKind::Section];
    let targets = ["REQ-007", "dec-aaaaaa", "REQ-7"];
    let own = vec![id.name.clone()];
    assert_eq!(backlink_names(s, &kinds, &targets).await, [own.clone(), own.clone(), vec![]]);
    let links = BacklinkQuery { kinds: kinds.to_vec(), targets: vec!["REQ-007".to_owned()] };
    let found = s.store.backlinks(&s.project, &links).await.unwrap();
    let mentions = &found[0][0].mentions;
    let indices: Vec<Option<&str>> = mentions.iter().map(|one| one.index.as_deref()).collect();
    assert_eq!(indices, [Some("1"), Some("2.1")]);
    assert_eq!(mentions[1].title, "See REQ-7 and dec-aaaaaa.");
    s.put(&id, "**1.** As dec-aaaaaa says.\n").await;
    assert_eq!(backlink_names(s, &kinds, &targets).await, [vec![], own, vec![]]);
    s.delete(&id).await;
    assert_eq!(backlink_names(s, &kinds, &["dec-aaaaaa"]).await, [Vec::<String>::new()]);
}

/// One document may link to a hundred targets, and its metadata has all its links.
pub async fn backlinks_of_several_targets_share_metadata(s: &Storage) {
    let id = item(REQ, "REQ-001");
    s.put(&id, CHILD).await;
    let targets = vec!["US-001".to_owned(), "REQ-002".to_owned()];
    let links = BacklinkQuery { kinds: vec![id.kind], targets };
    let read = s.store.backlinks(&s.project, &links).await.unwrap();
    let snapshot = Arc::new(Mutex::new(Vec::new()));
    let decided = Arc::clone(&snapshot);
    let decide = move |snapshot: &Snapshot| {
        decided.lock().unwrap().clone_from(&snapshot.backlinks);
        Ok(Vec::new())
    };
    let read_set = ReadSet { backlinks: links, ..ReadSet::default() };
    let commit = CommitRequest { read_set, decide: Box::new(decide), context: test_context() };
    s.store.commit(&s.project, commit).await.unwrap();
    for found in [&read, &*snapshot.lock().unwrap()] {
        assert_eq!(meta_names(found), [[id.name.clone()], [id.name.clone()]]);
        assert!(Arc::ptr_eq(&found[0][0], &found[1][0]));
    }
}

pub async fn backlinks_reflect_every_commit(s: &Storage) {
    let id = item(REQ, "REQ-001");
    s.put(&id, CHILD).await;
    s.put(&id, "---\ntitle: C\nuser_story: US-2\n---\n").await;
    let all = DocumentKind::ALL;
    let found = backlink_names(s, &all, &["US-001", "REQ-002", "US-002"]).await;
    assert_eq!(found, [vec![], vec![], vec![id.name.clone()]]);
    s.delete(&id).await;
    s.put(&deleted("REQ-001"), "---\ntitle: C\nuser_story: US-2\ndeleted_at: 2026-01-01\n---\n")
        .await;
    let found = backlink_names(s, &all, &["US-001", "US-002"]).await;
    assert_eq!(found, [Vec::<String>::new(), vec![]], "a tombstone has no links");
}

/// Creates an item with the next free number. Returns the number.
pub async fn create_item(
    store: &dyn DocumentRepository,
    s: &Storage,
    kind: ItemKind,
    mark: &str,
) -> u32 {
    let number_cell = Arc::new(AtomicU32::new(0));
    let (decided, mark) = (Arc::clone(&number_cell), mark.to_owned());
    let reads = ReadSet { sequences: vec![kind], ..ReadSet::default() };
    let decide = move |snapshot: &Snapshot| {
        let number = snapshot.next_numbers[0];
        decided.store(number, Ordering::Relaxed);
        Ok(vec![DocumentChange::put(
            Reference { kind, number }.document_id("", &mark),
            "---\ntitle: T\n---\n",
        )])
    };
    let commit =
        CommitRequest { read_set: reads, decide: Box::new(decide), context: test_context() };
    store.commit(&s.project, commit).await.expect("the item is created");
    number_cell.load(Ordering::Relaxed)
}

pub async fn new_item_needs_no_read(s: &Storage) {
    assert_eq!(create_item(&*s.store, s, REQ, "aaaaaa").await, 1);
    assert_eq!(create_item(&*s.store, s, REQ, "bbbbbb").await, 2);
    assert_eq!(
        create_item(&*s.store, s, ItemKind::Epic, "cccccc").await,
        1,
        "each kind has its own sequence"
    );
    for (kinds, name) in [(vec![REQ], "REQ-002"), (vec![REQ], "notes"), (vec![], "REQ-003")] {
        let change = DocumentChange::put(item(REQ, name), "---\ntitle: T\n---\n");
        let reads = ReadSet { sequences: kinds, ..ReadSet::default() };
        let refused = s.commit(reads, move |_| Ok(vec![change.clone()])).await;
        assert!(matches!(refused, Err(StoreError::Internal(_))), "{name}: {refused:?}");
    }
}

pub async fn numbers_are_never_reused(s: &Storage) {
    let number = create_item(&*s.store, s, REQ, "aaaaaa").await;
    s.delete(&item(REQ, "REQ-001-aaaaaa")).await;
    assert_eq!(
        create_item(&*s.store, s, REQ, "bbbbbb").await,
        number + 1,
        "not even after a deletion"
    );
    let marks = [0, 1, 2, 3, 4, 5, 6, 7].map(|at| format!("{at:06}"));
    let many = marks.iter().map(|mark| create_item(&*s.store, s, REQ, mark));
    let mut numbers = futures_util::future::join_all(many).await;
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4, 5, 6, 7, 8, 9, 10]);
}

pub async fn several_new_items_of_a_commit_raise_the_sequence(s: &Storage) {
    const KINDS: [ItemKind; 2] = [ItemKind::Epic, REQ];
    let reads = ReadSet { sequences: KINDS.to_vec(), ..ReadSet::default() };
    let decide = |snapshot: &Snapshot| {
        let mut changes = Vec::new();
        for (kind, first) in KINDS.into_iter().zip(&snapshot.next_numbers) {
            for number in *first..*first + 3 {
                let id = Reference { kind, number }.document_id("", "aaaaaa");
                changes.push(DocumentChange::put(id, "---\ntitle: T\n---\n"));
            }
        }
        Ok(changes)
    };
    s.commit(reads.clone(), decide).await.unwrap();
    // Without the newest item, only the high-water mark has its number.
    s.delete(&item(REQ, "REQ-003-aaaaaa")).await;
    s.commit(reads, decide).await.unwrap();
    let reopened = s.reopen_store().await;
    let store = reopened.as_deref().unwrap_or(&*s.store);
    for kind in KINDS {
        assert_eq!(create_item(store, s, kind, "bbbbbb").await, 7, "{kind:?}");
    }
}

pub async fn number_in_a_name_raises_the_sequence(s: &Storage) {
    s.put(&item(REQ, "REQ-500"), "---\ntitle: By hand\n---\n").await;
    s.put(&item(REQ, "REQ-099-3f9a1c"), "---\ntitle: By hand\n---\n").await;
    s.put(&item(REQ, "REQ-1000000001"), "---\ntitle: Beyond all numbers\n---\n").await;
    s.put(&item(REQ, "EP-900"), "---\ntitle: In the wrong place\n---\n").await;
    assert_eq!(create_item(&*s.store, s, REQ, "aaaaaa").await, 501);
    s.delete(&item(REQ, "REQ-500")).await;
    s.delete(&item(REQ, "REQ-501-aaaaaa")).await;
    assert_eq!(create_item(&*s.store, s, REQ, "bbbbbb").await, 502);
    // A name may hold folders.
    let nested = item(REQ, "auth/web/REQ-600-login-3f9a1c");
    s.put(&nested, "---\ntitle: In a folder\n---\n").await;
    let found = s.store.lookup(&s.project, nested.kind, &["REQ-600".to_owned()]).await.unwrap();
    assert_eq!(found[0][0].id, nested);
    assert_eq!(create_item(&*s.store, s, REQ, "cccccc").await, 601);
}

pub async fn tombstone_keeps_its_number(s: &Storage) {
    s.put(&deleted("REQ-030-3f9a1c"), "---\ntitle: T\ndeleted_at: 2026-01-01\n---\n").await;
    assert_eq!(create_item(&*s.store, s, REQ, "aaaaaa").await, 31);
    assert_eq!(create_item(&*s.store, s, ItemKind::Epic, "aaaaaa").await, 1);
    let words = ["REQ-030".to_owned()];
    let found = s.store.lookup(&s.project, DocumentKind::Deleted, &words).await.unwrap();
    assert!(found[0][0].item.as_ref().is_some_and(|item| item.deletion.is_some()));
}

pub async fn numbers_survive_restart(s: &Storage) {
    create_item(&*s.store, s, REQ, "aaaaaa").await;
    create_item(&*s.store, s, REQ, "bbbbbb").await;
    s.delete(&item(REQ, "REQ-002-bbbbbb")).await;
    let Some(reopened) = s.reopen_store().await else { return };
    assert_eq!(create_item(&*reopened, s, REQ, "cccccc").await, 3);
}

pub async fn decision_reads_backlinks(s: &Storage) {
    s.put(&item(REQ, "REQ-001"), CHILD).await;
    let kinds = DocumentKind::ITEMS.to_vec();
    let links = BacklinkQuery { kinds, targets: vec!["US-001".to_owned(), "US-009".to_owned()] };
    let reads = ReadSet { backlinks: links, ..ReadSet::default() };
    let decide = |snapshot: &Snapshot| {
        assert_eq!(meta_names(&snapshot.backlinks), [vec!["REQ-001".to_owned()], vec![]]);
        Ok(Vec::new())
    };
    s.commit(reads, decide).await.unwrap();
}

pub async fn marks_survive_a_round_trip(s: &Storage) {
    let mark = |kind, number| {
        let project = s.project.clone();
        ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number })
    };
    let marks = vec![mark(ItemKind::Epic, 7), mark(REQ, 1_000_000_000)];
    let mut writer = s.store.import().await.unwrap();
    writer.write_batch(marks.clone()).await.unwrap();
    writer.finish().await.unwrap();
    assert_eq!(high_water_marks(&*s.store).await, marks);
    assert_eq!(create_item(&*s.store, s, ItemKind::Epic, "aaaaaa").await, 8);
    let Some(reopened) = s.reopen_store().await else { return };
    assert_eq!(
        high_water_marks(&*reopened).await,
        [mark(ItemKind::Epic, 8), mark(REQ, 1_000_000_000)]
    );
}

async fn high_water_marks(archive: &dyn Archive) -> Vec<ArchiveRecord> {
    let mut records = read_records(archive).await.unwrap();
    records.retain(|record| matches!(record, ArchiveRecord::HighWaterMark(_)));
    records
}
