//! Lists of items: their order, filters, totals and pages.

use std::collections::BTreeSet;

use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::ports::item_list::{
    AssigneeFilter, DetailFilter, ItemFilter, ItemOrder, ItemPage, ItemQuery, SortField,
    StatusCounts,
};
use reqlore_domain::timestamp::Timestamp;

use crate::Storage;

const REQ: ItemKind = ItemKind::Requirement;

fn item(name: &str) -> DocumentId {
    DocumentId { kind: DocumentKind::Item(REQ), name: name.to_owned() }
}

/// In the order of lists. A name without a reference and another kind are not listed.
const NAMES: [&str; 6] = ["REQ-002", "REQ-001-b", "REQ-001-c", "REQ-003", "REQ-004", "sub/REQ-005"];

async fn put_items(s: &Storage) {
    for (name, text) in [
        ("REQ-001-b", "---\ntitle: A\npriority: 2\ncreated_at: 2026-01-01\n---\n"),
        ("REQ-001-c", "---\ntitle: B\npriority: 2\ncreated_at: 2026-01-01\n---\n"),
        (
            "REQ-002",
            "---\ntitle: C\npriority: 1\nstatus: Active\nuser_story: US-1\n\
             created_at: 2026-01-01\n---\n",
        ),
        (
            "REQ-003",
            "---\ntitle: D\npriority: 2\ntype_name: Data\nuser_story: US-002\n\
             created_at: 2026-01-01\n---\n",
        ),
        (
            "REQ-004",
            "---\ntitle: E\npriority: 2\nstatus: Active\nuser_story: US-001\n\
             created_at: 2026-01-02\n---\n",
        ),
        ("sub/REQ-005", "---\ntitle: F\npriority: 4\ncreated_at: 2026-01-03\n---\n"),
        ("notes", "---\ntitle: G\npriority: 1\n---\n"),
    ] {
        s.put(&item(name), text).await;
    }
    let story = DocumentId { kind: DocumentKind::Item(ItemKind::UserStory), name: "US-001".into() };
    s.put(&story, "---\ntitle: H\n---\n").await;
}

async fn read(s: &Storage, query: &ItemQuery) -> ItemPage {
    s.store.items(&s.project, query).await.unwrap()
}

fn names(page: &ItemPage) -> Vec<&str> {
    page.metadata.iter().map(|meta| meta.id.name.as_str()).collect()
}

fn count_statuses(page: &ItemPage) -> StatusCounts {
    let mut counts = StatusCounts::new();
    for meta in &page.metadata {
        let status = meta.item.as_ref().and_then(|item| item.status).unwrap();
        *counts.entry(status).or_default() += 1;
    }
    counts
}

pub async fn items_have_the_order_of_lists(s: &Storage) {
    put_items(s).await;
    for size in 1..=7 {
        let mut query = ItemQuery::of_kind(REQ, size);
        let mut listed = Vec::new();
        loop {
            let page = read(s, &query).await;
            assert_eq!(page.total, NAMES.len());
            listed.extend(names(&page).into_iter().map(str::to_owned));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(listed, NAMES, "in pages of {size}");
    }
    let page = read(s, &ItemQuery::of_kind(REQ, 0)).await;
    assert_eq!((names(&page).len(), page.total), (0, NAMES.len()));
    let other = s.store.items(&s.other, &ItemQuery::of_kind(REQ, 10)).await.unwrap();
    assert_eq!(other, ItemPage::default(), "projects are isolated");
}

pub async fn items_are_filtered_and_counted(s: &Storage) {
    put_items(s).await;
    let stories = |numbers: &[u32]| {
        let kind = ItemKind::UserStory;
        let numbers = numbers.iter().map(|number| Reference { kind, number: *number });
        Some(numbers.collect::<BTreeSet<_>>())
    };
    let none = ItemFilter::default();
    let active = Some(Status::Active);
    for (filter, expected) in [
        (ItemFilter { status: active, ..none.clone() }, &["REQ-002", "REQ-004"][..]),
        (
            ItemFilter { priority: Priority::new(2), ..none.clone() },
            &["REQ-001-b", "REQ-001-c", "REQ-003", "REQ-004"],
        ),
        (
            ItemFilter { requirement_type: Some(RequirementType::Data), ..none.clone() },
            &["REQ-003"],
        ),
        (ItemFilter { parents: stories(&[1]), ..none.clone() }, &["REQ-002", "REQ-004"]),
        (
            ItemFilter { parents: stories(&[1, 2]), priority: Priority::new(2), ..none.clone() },
            &["REQ-003", "REQ-004"],
        ),
        (ItemFilter { parents: stories(&[]), ..none.clone() }, &[]),
        (ItemFilter { status: active, priority: Priority::new(4), ..none.clone() }, &[]),
    ] {
        let query = ItemQuery { filter, ..ItemQuery::of_kind(REQ, 10) };
        let page = read(s, &query).await;
        assert_eq!((names(&page), page.total), (expected.to_vec(), expected.len()), "{query:?}");
        let mut without = query.clone();
        without.filter.status = None;
        assert_eq!(page.by_status, count_statuses(&read(s, &without).await), "{query:?}");
        let first = read(s, &ItemQuery { limit: 1, ..query }).await;
        assert_eq!((names(&first).len(), first.total), (expected.len().min(1), expected.len()));
    }
}

/// Items with the values that only metadata has.
async fn put_detailed(s: &Storage) {
    for (name, text) in [
        (
            "REQ-001",
            "---\ntitle: Pay by CARD\nstatus: Draft\nassignee_username: Ann\n\
             tags: [Web, pay]\ncreated_at: 2026-01-01\nupdated_at: 2026-02-01\n---\n",
        ),
        (
            "REQ-002-x",
            "---\ntitle: Äpfel\nstatus: Active\nassignee_username: bob\ntags: [pay]\n\
             created_at: 2026-01-02\nupdated_at: 2026-01-15T12:00:00Z\n---\n",
        ),
        (
            "REQ-010",
            "---\ntitle: basket\nstatus: Draft\npriority: 1\n\
             created_at: 2026-01-03\nupdated_at: 2026-03-01\n---\n",
        ),
    ] {
        s.put(&item(name), text).await;
    }
}

pub async fn items_are_filtered_by_details(s: &Storage) {
    put_detailed(s).await;
    let none = DetailFilter::default();
    let user = |name: &str| Some(AssigneeFilter::User(name.to_owned()));
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
    let text = |text: &str| Some(text.to_owned());
    let since = |text| Timestamp::parse(text);
    for (details, expected) in [
        (DetailFilter { assignee: user("ann"), ..none.clone() }, &["REQ-001"][..]),
        (DetailFilter { assignee: Some(AssigneeFilter::Unassigned), ..none.clone() }, &["REQ-010"]),
        (DetailFilter { tags: tags(&["pay"]), ..none.clone() }, &["REQ-001", "REQ-002-x"]),
        (DetailFilter { tags: tags(&["pay", "web"]), ..none.clone() }, &["REQ-001"]),
        (DetailFilter { text: text("äpf"), ..none.clone() }, &["REQ-002-x"]),
        (DetailFilter { text: text("q-00"), ..none.clone() }, &["REQ-001", "REQ-002-x"]),
        // The name of a file is not part of the ID.
        (DetailFilter { text: text("-x"), ..none.clone() }, &[]),
        (
            DetailFilter { updated_since: since("2026-02-01"), ..none.clone() },
            &["REQ-010", "REQ-001"],
        ),
    ] {
        let filter = ItemFilter { details, ..ItemFilter::default() };
        let query = ItemQuery { filter, ..ItemQuery::of_kind(REQ, 10) };
        let page = read(s, &query).await;
        assert_eq!((names(&page), page.total), (expected.to_vec(), expected.len()), "{query:?}");
        let mut draft = query.clone();
        draft.filter.status = Some(Status::Draft);
        let drafts = read(s, &draft).await;
        assert_eq!(drafts.by_status, page.by_status, "the counts ignore the status");
        let expected = page.by_status.get(&Status::Draft).copied().unwrap_or_default();
        assert_eq!((drafts.metadata.len(), drafts.total), (expected, expected), "{draft:?}");
    }
}

pub async fn items_are_sorted_in_each_order(s: &Storage) {
    put_detailed(s).await;
    for (field, expected) in [
        (SortField::Priority, ["REQ-010", "REQ-001", "REQ-002-x"]),
        (SortField::Updated, ["REQ-010", "REQ-001", "REQ-002-x"]),
        (SortField::Reference, ["REQ-001", "REQ-002-x", "REQ-010"]),
        (SortField::Title, ["REQ-010", "REQ-001", "REQ-002-x"]),
        (SortField::Status, ["REQ-010", "REQ-001", "REQ-002-x"]),
        (SortField::Assignee, ["REQ-001", "REQ-002-x", "REQ-010"]),
    ] {
        for is_reversed in [false, true] {
            let order = ItemOrder { field, is_reversed };
            let mut query = ItemQuery { order, ..ItemQuery::of_kind(REQ, 1) };
            let mut listed = Vec::new();
            loop {
                let page = read(s, &query).await;
                assert_eq!(page.total, 3);
                listed.extend(names(&page).into_iter().map(str::to_owned));
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            if is_reversed {
                listed.reverse();
            }
            assert_eq!(listed, expected, "{order:?}");
        }
    }
}

pub async fn children_are_counted_by_status(s: &Storage) {
    put_items(s).await;
    // A document may mention a story that is not its parent.
    s.put(&item("REQ-020"), "---\ntitle: I\nuser_story: US-003\n---\nSee US-001.\n").await;
    let kind = ItemKind::UserStory;
    let stories = [2, 1, 9].map(|number| Reference { kind, number });
    let counts = s.store.child_statuses(&s.project, REQ, &stories).await.unwrap();
    let expected = [
        StatusCounts::from([(Status::Draft, 1)]),
        StatusCounts::from([(Status::Active, 2)]),
        StatusCounts::new(),
    ];
    assert_eq!(counts, expected);
    let other = s.store.child_statuses(&s.other, REQ, &stories).await.unwrap();
    assert_eq!(other, vec![StatusCounts::new(); 3], "projects are isolated");
}

pub async fn items_need_a_reference(s: &Storage) {
    s.put(&item("notes"), "---\ntitle: G\npriority: 1\n---\n").await;
    s.put(&item("REQ-001 copy"), "---\ntitle: G\npriority: 1\n---\n").await;
    assert_eq!(read(s, &ItemQuery::of_kind(REQ, 10)).await, ItemPage::default());
}

pub async fn item_pages_survive_changes(s: &Storage) {
    put_items(s).await;
    let first = read(s, &ItemQuery::of_kind(REQ, 2)).await;
    assert_eq!(names(&first), NAMES[..2]);
    // The last item of the page is deleted, and the first one moves behind all others.
    s.delete(&item("REQ-001-b")).await;
    s.put(&item("REQ-002"), "---\ntitle: C\npriority: 4\ncreated_at: 2026-02-01\n---\n").await;
    let rest = read(s, &ItemQuery { after: first.next, ..ItemQuery::of_kind(REQ, 10) }).await;
    let expected = [&NAMES[2..], &["REQ-002"]].concat();
    assert_eq!((names(&rest), rest.total, &rest.next), (expected, 5, &None));
}

pub async fn documents_with_diagnostics_are_listed(s: &Storage) {
    put_items(s).await;
    for name in ["REQ-020", "REQ-010", "REQ-030"] {
        s.put(&item(name), "---\ntitle: [\n---\n").await;
    }
    let kind = DocumentKind::Item(REQ);
    let diagnostics = s.store.diagnostics(&s.project, kind, 2).await.unwrap();
    let listed: Vec<&str> = diagnostics.metadata.iter().map(|meta| meta.id.name.as_str()).collect();
    // A name without a reference is a diagnostic as well.
    assert_eq!((listed, diagnostics.total), (vec!["REQ-010", "REQ-020"], 4));
    assert!(diagnostics.metadata.iter().all(|meta| meta.diagnostic.is_some()));
    s.put(&item("REQ-010"), "---\ntitle: A\n---\n").await;
    s.delete(&item("REQ-020")).await;
    s.delete(&item("notes")).await;
    let diagnostics = s.store.diagnostics(&s.project, kind, 0).await.unwrap();
    assert_eq!((diagnostics.metadata.len(), diagnostics.total), (0, 1));
    let other = s.store.diagnostics(&s.other, kind, 2).await.unwrap();
    assert_eq!(other.total, 0, "projects are isolated");
}
