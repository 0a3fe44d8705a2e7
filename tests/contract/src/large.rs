//! A large project, in which no call may visit many more rows than it returns.

use std::collections::BTreeSet;

use reqlore_domain::audit_log::{AuditRow, ChainHead};
use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::ports::archive::{ArchiveRecord, DocumentRecord, HistoryRecord};
use reqlore_domain::ports::change_page::ChangePosition;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, DocumentFilter, ReadSet, Refresh,
};
use reqlore_domain::ports::history::{HistoryQuery, PastContent, PastEntry, PresentEntry};
use reqlore_domain::ports::record_list::{
    FieldOrder, OrderField, RecordCounts, RecordFilter, RecordOrder, RecordQuery, RecordSelection,
};
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::records::values::value_key;
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
             user_story: {story}\ndepends_on: [{target}]\nrisk: {}\neffort: {}\n---\nA text.\n",
            number % 4 + 1,
            ["Low", "High"][number as usize % 2],
            number / 7 % 50,
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
    let all = RecordFilter::default();
    let status = Some(Status::Active);
    let requirement_type = Some(RequirementType::ALL[1]);
    let priority = Priority::new(2);
    let parents = Some(BTreeSet::from([parent, Reference { number: 8, ..parent }]));
    let fields = vec![("risk".to_owned(), value_key("High"))];
    let by = |name: &str, choices: &[&str]| {
        let choices = choices.iter().map(|choice| value_key(choice)).collect();
        let field = OrderField::Custom(FieldOrder { name: name.to_owned(), choices });
        RecordOrder { field, is_reversed: true }
    };
    let lists = RecordOrder::default;
    for (name, filter, order) in [
        ("items", all.clone(), lists()),
        ("items of a status", RecordFilter { status, ..all.clone() }, lists()),
        ("items of a type", RecordFilter { requirement_type, ..all.clone() }, lists()),
        ("items of a priority", RecordFilter { priority, ..all.clone() }, lists()),
        (
            "items of a status and a priority",
            RecordFilter { status, priority, ..all.clone() },
            lists(),
        ),
        ("children", RecordFilter { parents: parents.clone(), ..all.clone() }, lists()),
        ("children of a status", RecordFilter { parents, status, ..all.clone() }, lists()),
        ("items with a value", RecordFilter { fields: fields.clone(), ..all.clone() }, lists()),
        (
            "items of a status with a value",
            RecordFilter { status, fields: fields.clone(), ..all.clone() },
            lists(),
        ),
        ("items by a choice", all.clone(), by("risk", &["Low", "High"])),
        ("items by status", all.clone(), by("status", &["Active", "Draft"])),
        ("items of a status by a field", RecordFilter { status, ..all.clone() }, by("effort", &[])),
        (
            "items with a value by another field",
            RecordFilter { status, fields, ..all },
            by("effort", &[]),
        ),
    ] {
        let mut query = RecordQuery { filter, order, ..RecordQuery::of_items(kind, 20) };
        let page = store.list(project, &query).await.unwrap();
        assert!(!page.metadata.is_empty(), "{name}");
        check(name);
        query.after = page.next;
        store.list(project, &query).await.unwrap();
        check(name);
    }
    read_counts(s, check).await;
}

async fn read_counts(s: &Storage, check: &mut impl FnMut(&str)) {
    let (store, project, kind) = (&s.store, &s.project, ItemKind::Requirement);
    let parent = Reference { kind: ItemKind::UserStory, number: 7 };
    let mut children = RecordQuery::of_items(kind, 0).count_by(RecordCounts::ChildStatus);
    children.filter.parents = Some([parent].into());
    let select = async |query: RecordQuery| store.list(project, &query).await.unwrap();
    assert_eq!(select(children).await.by_parent.len(), 1);
    check("child statuses");
    let stories = DocumentKind::Item(ItemKind::UserStory);
    let diagnostics = RecordQuery::select(stories, RecordSelection::WithDiagnostic, 20);
    assert_eq!(select(diagnostics).await.metadata.len(), 20);
    check("diagnostics");
    for kind in [None, Some("idea".to_owned())] {
        let query = RecordQuery::of_entities(kind, 20);
        let untagged = RecordQuery { selection: RecordSelection::Untagged, ..query.clone() };
        assert_eq!(select(untagged).await.metadata.len(), 20);
        check("untagged");
        assert_eq!(select(query.count_by(RecordCounts::Tag)).await.by_text.len(), 1);
        check("tag counts");
    }
    select(RecordQuery::of_entities(None, 0).count_by(RecordCounts::Kind)).await;
    check("entity kinds");
    for selection in [
        RecordSelection::Spelled("Ideas/77".to_owned()),
        RecordSelection::Similar("x-1000".to_owned()),
    ] {
        let similar = RecordQuery::select(DocumentKind::Entity, selection, 1);
        assert_eq!(select(similar).await.metadata.len(), 1);
        check("similar entities");
    }
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
