//! A large project, in which no call may visit many more rows than it returns.

use std::collections::BTreeSet;

use reqlore_domain::audit_log::{AuditRow, ChainHead};
use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::archive::{ArchiveRecord, DocumentRecord, HistoryRecord};
use reqlore_domain::ports::change_page::ChangePosition;
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, DocumentFilter, ReadSet, Refresh, Revision,
};
use reqlore_domain::ports::history::{
    ChangeOrigin, HistoryQuery, PastContent, PastEntry, PresentEntry,
};
use reqlore_domain::ports::item_list::{ItemFilter, ItemQuery};
use reqlore_domain::timestamp::Timestamp;

use crate::Storage;
use crate::audit::audit_event;

/// The work of calls since the last question.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Rows that the database visited.
    pub visited: u64,
    /// Rows of results, and searches.
    pub returned: u64,
}

/// Rows that a call may visit without returning them.
const FREE_VISITS: u64 = 20;
/// The environment variable with the number of requirements.
const ITEMS: &str = "REQLORE_LARGE_ITEMS";
const DEFAULT_ITEMS: u32 = 6_000;
/// Number of children of a story, and of links to a requirement.
const CHILDREN: u32 = 10;
const BATCH: usize = 200;

fn item(kind: ItemKind, number: u32) -> DocumentId {
    let name = Reference { kind, number }.to_string();
    DocumentId { kind: DocumentKind::Item(kind), name }
}

/// The documents of the project. Every list has a tenth or more of all items.
fn documents(items: u32) -> impl Iterator<Item = (DocumentId, String)> {
    let requirements = (1..=items).map(move |number| {
        let status = ["Draft", "Active", "Obsolete"][number as usize % 3];
        let kind = RequirementType::ALL[number as usize % RequirementType::ALL.len()].name();
        let story = Reference { kind: ItemKind::UserStory, number: number.div_ceil(CHILDREN) };
        let target = Reference { kind: ItemKind::Requirement, ..story };
        let text = format!(
            "---\ntitle: Item {number}\nstatus: {status}\ntype_name: {kind}\npriority: {}\n\
             user_story: {story}\ndepends_on: [{target}]\n---\nA text.\n",
            number % 4 + 1,
        );
        (item(ItemKind::Requirement, number), text)
    });
    let entities = (1..=items / 2).map(|number| {
        let tags = if number % 2 == 0 { "tags: [a]\n" } else { "" };
        let text = format!("---\nid: idea-{number}\ntitle: Word{number} one\n{tags}---\n");
        (DocumentId::entity(format!("ideas/{number}")), text)
    });
    let unreadable = (1..=items / 10)
        .map(move |number| (item(ItemKind::UserStory, number + items), "---\na: [\n".to_owned()));
    requirements.chain(entities).chain(unreadable)
}

fn entry(number: u64, text: &str) -> PastEntry {
    let at = Timestamp(number.cast_signed());
    let (ended, content) = (Timestamp(at.0 + 1), PastContent::Text(text.to_owned().into()));
    PastEntry { number, at, ended, origin: ChangeOrigin::default(), content }
}

/// Fills a store by an import. The first requirement has a tenth of all earlier versions.
async fn fill(s: &Storage, items: u32) {
    let project = || s.project.clone();
    let mut records = Vec::new();
    for (id, text) in documents(items) {
        let document = Document::new(id, text.into());
        let entry = PresentEntry { number: 1_000_000, ..PresentEntry::default() };
        let modified = Timestamp(i64::from(u32::MAX));
        let record = DocumentRecord { project: project(), document, modified, path: None, entry };
        records.push(ArchiveRecord::Document(record));
    }
    for number in 1..=items {
        let of = if number % 10 == 0 { 1 } else { number };
        let (document, entry) = (item(ItemKind::Requirement, of), entry(number.into(), "earlier"));
        records.push(ArchiveRecord::History(HistoryRecord { project: project(), document, entry }));
    }
    let mut head = ChainHead::default();
    for _ in 0..items / 10 {
        let row = AuditRow::seal_after(head, audit_event("a", 1));
        head = row.head();
        records.push(ArchiveRecord::AuditRow(row));
    }
    let mut writer = s.store.import().await.unwrap();
    for batch in records.chunks(BATCH) {
        writer.write_batch(batch.to_vec()).await.unwrap();
    }
    writer.finish().await.unwrap();
}

/// Fills the store, runs each kind of call, and compares what the database visited with what it
/// returned. `work` returns the work since its last call.
pub async fn check_work(s: &Storage, work: impl Fn() -> Work) {
    #[expect(clippy::disallowed_methods, reason = "the environment sets the size of a test")]
    let items = std::env::var(ITEMS).ok().and_then(|items| items.parse().ok());
    fill(s, items.unwrap_or(DEFAULT_ITEMS)).await;
    s.put(&DocumentId::section("last"), "x").await;
    let mut wrong = Vec::new();
    let mut check = |name: &str| {
        let Work { visited, returned } = work();
        println!("{name}: {visited} visited, {returned} returned");
        if visited > returned + FREE_VISITS {
            wrong.push(format!("{name}: {visited} rows visited, {returned} returned"));
        }
    };
    work();
    read_documents(s, &mut check).await;
    read_lists(s, &mut check).await;
    read_changes(s, &mut check).await;
    change_documents(s, &mut check).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn read_documents(s: &Storage, check: &mut impl FnMut(&str)) {
    let (store, project) = (&s.store, &s.project);
    let kind = ItemKind::Requirement;
    let ids: Vec<_> = (100..150).map(|number| item(kind, number)).collect();
    assert!(store.get(project, &ids).await.unwrap().iter().all(Option::is_some));
    check("get");
    store.get(project, &[DocumentId::section("none")]).await.unwrap();
    check("get of a missing document");
    store.versions(project, &ids).await.unwrap();
    check("versions");
    let words = ["REQ-100".to_owned(), "REQ-101".to_owned()];
    let found = store.lookup(project, DocumentKind::Item(kind), &words).await.unwrap();
    assert!(found.iter().all(|found| found.len() == 1));
    check("lookup");
    let links = BacklinkQuery {
        kinds: DocumentKind::ALL.to_vec(),
        targets: vec!["REQ-003".to_owned(), "US-004".to_owned()],
    };
    let linked = store.backlinks(project, &links).await.unwrap();
    let counts: Vec<_> = linked.iter().map(Vec::len).collect();
    assert_eq!(counts, [CHILDREN as usize; 2]);
    check("backlinks");
    let filter = DocumentFilter { limit: 50, ..DocumentFilter::of_kind(DocumentKind::Item(kind)) };
    for after_name in [None, Some("REQ-300".to_owned())] {
        let filter = DocumentFilter { after_name, ..filter.clone() };
        assert_eq!(store.find(project, &filter).await.unwrap().metadata.len(), 50);
        check("find");
    }
}

async fn read_lists(s: &Storage, check: &mut impl FnMut(&str)) {
    let (store, project, kind) = (&s.store, &s.project, ItemKind::Requirement);
    let parent = Reference { kind: ItemKind::UserStory, number: 7 };
    let all = ItemFilter::default();
    let status = Some(Status::Active);
    let requirement_type = Some(RequirementType::ALL[1]);
    let priority = Priority::new(2);
    let parents = Some(BTreeSet::from([parent, Reference { number: 8, ..parent }]));
    for (name, filter) in [
        ("items", all.clone()),
        ("items of a status", ItemFilter { status, ..all.clone() }),
        ("items of a type", ItemFilter { requirement_type, ..all.clone() }),
        ("items of a priority", ItemFilter { priority, ..all.clone() }),
        ("items of a status and a priority", ItemFilter { status, priority, ..all.clone() }),
        ("children", ItemFilter { parents: parents.clone(), ..all.clone() }),
        ("children of a status", ItemFilter { parents, status, ..all }),
    ] {
        let mut query = ItemQuery { filter, ..ItemQuery::of_kind(kind, 20) };
        let page = store.items(project, &query).await.unwrap();
        assert!(!page.metadata.is_empty(), "{name}");
        check(name);
        query.after = page.next;
        store.items(project, &query).await.unwrap();
        check(name);
    }
    store.child_statuses(project, kind, &[parent]).await.unwrap();
    check("child statuses");
    let stories = DocumentKind::Item(ItemKind::UserStory);
    assert_eq!(store.diagnostics(project, stories, 20).await.unwrap().metadata.len(), 20);
    check("diagnostics");
    for kind in [None, Some("idea".to_owned())] {
        assert_eq!(store.untagged(project, kind.clone(), 20).await.unwrap().metadata.len(), 20);
        check("untagged");
        assert_eq!(store.tag_counts(project, kind).await.unwrap().len(), 1);
        check("tag counts");
    }
    store.entity_kinds(project).await.unwrap();
    check("entity kinds");
    let similar = store.similar_entities(project, "ideas/77").await.unwrap();
    assert_eq!(similar.same.len(), 1);
    check("similar entities");
}

async fn read_changes(s: &Storage, check: &mut impl FnMut(&str)) {
    let (store, project) = (&s.store, &s.project);
    let page = store.changes_since(project, None, 20, Refresh::Full).await.unwrap();
    check("newest position");
    let position = page.position();
    for revision in [position.revision, Revision(position.revision.0 - 1)] {
        let since = Some(ChangePosition { revision, ..position });
        store.changes_since(project, since, 20, Refresh::Full).await.unwrap();
        check("changes");
    }
    for since in [Timestamp::default(), Timestamp(i64::from(u32::MAX))] {
        assert_eq!(store.recent_changes(project, since, 20).await.unwrap().len(), 20);
        check("recent changes");
    }
    let long = item(ItemKind::Requirement, 1);
    let mut query = HistoryQuery { after: None, limit: 20 };
    for _ in 0..2 {
        let page = store.history(project, &long, &query).await.unwrap();
        assert_eq!(page.entries.len(), 20);
        check("history");
        query.after = page.next;
    }
    let earlier = Version::of_bytes(b"earlier");
    assert!(store.document_at(project, &long, earlier).await.unwrap().is_some());
    check("earlier text");
    assert_eq!(store.rows(100, 20).await.unwrap().len(), 20);
    store.newest().await.unwrap();
    check("audit rows");
    store.identity_epoch().await.unwrap();
    store.find_record("none").await.unwrap();
    check("users and idempotency");
}

async fn change_documents(s: &Storage, check: &mut impl FnMut(&str)) {
    let id = item(ItemKind::Requirement, 200);
    let replace = DocumentChange::put(id.clone(), "---\ntitle: New\nuser_story: US-001\n---\n");
    let delete = DocumentChange::Delete { id: id.clone() };
    let reads = ReadSet {
        sequences: vec![ItemKind::Epic],
        backlinks: BacklinkQuery {
            kinds: DocumentKind::ALL.to_vec(),
            targets: vec!["US-001".to_owned()],
        },
        ..ReadSet::of_documents(vec![id])
    };
    let create = DocumentChange::put(item(ItemKind::Epic, 9), "---\ntitle: New\n---\n");
    for (name, change) in [("replacement", replace), ("deletion", delete), ("creation", create)] {
        s.commit(reads.clone(), move |_| Ok(vec![change.clone()])).await.unwrap();
        check(name);
    }
    s.store.append_events(vec![audit_event("a", 1)]).await.unwrap();
    check("audit row");
}
