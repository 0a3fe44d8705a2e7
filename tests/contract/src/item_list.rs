//! Lists of items: their order, filters, totals and pages.

use std::collections::BTreeSet;

use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::documents::DocumentFilter;
use reqlore_domain::ports::record_list::{
    AssigneeFilter, DetailFilter, FieldOrder, OrderField, RecordCounts, RecordFilter, RecordOrder,
    RecordPage, RecordQuery, RecordSelection, SortField, StatusCounts,
};
use reqlore_domain::records::values::value_key;
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

async fn read(s: &Storage, query: &RecordQuery) -> RecordPage {
    s.store.list(&s.project, query).await.unwrap()
}

fn names(page: &RecordPage) -> Vec<&str> {
    page.metadata.iter().map(|meta| meta.id.name.as_str()).collect()
}

fn count_statuses(page: &RecordPage) -> StatusCounts {
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
        let mut query = RecordQuery::of_items(REQ, size);
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
    let page = read(s, &RecordQuery::of_items(REQ, 0)).await;
    assert_eq!((names(&page).len(), page.total), (0, NAMES.len()));
    let other = s.store.list(&s.other, &RecordQuery::of_items(REQ, 10)).await.unwrap();
    assert_eq!(other, RecordPage::default(), "projects are isolated");
}

/// Items of one priority and story. A rank goes before the creation.
async fn put_ranked(s: &Storage, ranks: &[(u32, &str)]) {
    for (number, rank) in ranks {
        let text = format!(
            "---\ntitle: A\nuser_story: US-001\nrisk: High\nstatus: {}\n{rank}\n\
             created_at: 2026-01-01\n---\n",
            if number % 2 == 0 { "Draft" } else { "Active" }
        );
        s.put(&item(&format!("REQ-{number:03}")), text).await;
    }
}

pub async fn items_have_the_order_by_hand(s: &Storage) {
    put_ranked(s, &[(1, ""), (2, ""), (3, "rank: a"), (4, "rank: B"), (5, "rank: '0'")]).await;
    put_ranked(s, &[(6, "rank: a"), (7, "rank: '-'"), (8, "rank: a0"), (9, "rank: 007")]).await;
    s.put(&item("REQ-010"), "---\ntitle: A\npriority: 4\nrank: '0'\n---\n").await;
    // An invalid rank counts as none.
    let first: &[u32] = &[5, 9, 1, 2, 7, 4, 3, 6, 8, 10];
    expect_order(s, first).await;
    // A move changes one item.
    put_ranked(s, &[(8, "rank: 008"), (5, "")]).await;
    expect_order(s, &[9, 8, 1, 2, 5, 7, 4, 3, 6, 10]).await;
}

/// Checks the order of all lists with these numbers, in pages of each size and of some items.
async fn expect_order(s: &Storage, numbers: &[u32]) {
    let story = Reference { kind: ItemKind::UserStory, number: 1 };
    let in_story = RecordFilter { parents: Some([story].into()), ..RecordFilter::default() };
    let fields = vec![("risk".to_owned(), value_key("high"))];
    let risky = RecordFilter { fields, ..RecordFilter::default() };
    let active = RecordFilter { status: Some(Status::Active), ..RecordFilter::default() };
    let medium = RecordFilter { priority: Priority::new(3), ..RecordFilter::default() };
    for filter in [RecordFilter::default(), in_story, risky, active, medium] {
        let is_listed = |number: &u32| match filter.status {
            Some(_) => number % 2 == 1,
            None => *number < 10 || filter == RecordFilter::default(),
        };
        let mut expected: Vec<_> = numbers.iter().copied().filter(is_listed).collect();
        for is_reversed in [false, true] {
            for size in [1, 3, 20] {
                let order = RecordOrder { is_reversed, ..RecordOrder::ALL_LISTS };
                let (filter, after) = (filter.clone(), None);
                let of_kind = RecordQuery::of_items(REQ, size);
                let mut query = RecordQuery { filter, order, after, ..of_kind };
                let mut listed = Vec::new();
                loop {
                    let page = read(s, &query).await;
                    let items = page.metadata.iter().filter_map(|meta| meta.item.as_ref());
                    listed.extend(items.map(|item| item.reference.unwrap().number));
                    query.after = page.next;
                    if query.after.is_none() {
                        break;
                    }
                }
                assert_eq!(listed, expected, "{query:?}");
            }
            expected.reverse();
        }
    }
}

pub async fn items_are_filtered_and_counted(s: &Storage) {
    put_items(s).await;
    let stories = |numbers: &[u32]| {
        let kind = ItemKind::UserStory;
        let numbers = numbers.iter().map(|number| Reference { kind, number: *number });
        Some(numbers.collect::<BTreeSet<_>>())
    };
    let none = RecordFilter::default();
    let active = Some(Status::Active);
    for (filter, expected) in [
        (RecordFilter { status: active, ..none.clone() }, &["REQ-002", "REQ-004"][..]),
        (
            RecordFilter { priority: Priority::new(2), ..none.clone() },
            &["REQ-001-b", "REQ-001-c", "REQ-003", "REQ-004"],
        ),
        (
            RecordFilter { requirement_type: Some(RequirementType::Data), ..none.clone() },
            &["REQ-003"],
        ),
        (RecordFilter { parents: stories(&[1]), ..none.clone() }, &["REQ-002", "REQ-004"]),
        (
            RecordFilter { parents: stories(&[1, 2]), priority: Priority::new(2), ..none.clone() },
            &["REQ-003", "REQ-004"],
        ),
        (RecordFilter { parents: stories(&[]), ..none.clone() }, &[]),
        (RecordFilter { status: active, priority: Priority::new(4), ..none.clone() }, &[]),
    ] {
        let query = RecordQuery { filter, ..RecordQuery::of_items(REQ, 10) };
        let page = read(s, &query).await;
        assert_eq!((names(&page), page.total), (expected.to_vec(), expected.len()), "{query:?}");
        let mut without = query.clone();
        without.filter.status = None;
        assert_eq!(page.by_status, count_statuses(&read(s, &without).await), "{query:?}");
        let first = read(s, &RecordQuery { limit: 1, ..query }).await;
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
        let filter = RecordFilter { details, ..RecordFilter::default() };
        let query = RecordQuery { filter, ..RecordQuery::of_items(REQ, 10) };
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
        (SortField::Assignee, ["REQ-001", "REQ-002-x", "REQ-010"]),
    ] {
        for is_reversed in [false, true] {
            let order = RecordOrder { field: OrderField::Builtin(field), is_reversed };
            let mut query = RecordQuery { order: order.clone(), ..RecordQuery::of_items(REQ, 1) };
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
    let mut query = RecordQuery::of_items(REQ, 0).count_by(RecordCounts::ChildStatus);
    query.filter.parents = Some(stories.into());
    let expected = [
        (stories[0], StatusCounts::from([(Status::Draft, 1)])),
        (stories[1], StatusCounts::from([(Status::Active, 2)])),
    ];
    assert_eq!(read(s, &query).await.by_parent, expected.into());
    let other = s.store.list(&s.other, &query).await.unwrap();
    assert_eq!(other.by_parent.len(), 0, "projects are isolated");
}

pub async fn items_need_a_reference(s: &Storage) {
    s.put(&item("notes"), "---\ntitle: G\npriority: 1\n---\n").await;
    s.put(&item("REQ-001 copy"), "---\ntitle: G\npriority: 1\n---\n").await;
    assert_eq!(read(s, &RecordQuery::of_items(REQ, 10)).await, RecordPage::default());
}

pub async fn item_pages_survive_changes(s: &Storage) {
    put_items(s).await;
    let first = read(s, &RecordQuery::of_items(REQ, 2)).await;
    assert_eq!(names(&first), NAMES[..2]);
    // The last item of the page is deleted, and the first one moves behind all others.
    s.delete(&item("REQ-001-b")).await;
    s.put(&item("REQ-002"), "---\ntitle: C\npriority: 4\ncreated_at: 2026-02-01\n---\n").await;
    let rest = read(s, &RecordQuery { after: first.next, ..RecordQuery::of_items(REQ, 10) }).await;
    let expected = [&NAMES[2..], &["REQ-002"]].concat();
    assert_eq!((names(&rest), rest.total, &rest.next), (expected, 5, &None));
}

pub async fn documents_with_diagnostics_are_listed(s: &Storage) {
    put_items(s).await;
    for name in ["REQ-020", "REQ-010", "REQ-030"] {
        s.put(&item(name), "---\ntitle: [\n---\n").await;
    }
    let kind = DocumentKind::Item(REQ);
    let with_diagnostic = |limit| RecordQuery::select(kind, RecordSelection::WithDiagnostic, limit);
    let diagnostics = read(s, &with_diagnostic(2)).await;
    let listed: Vec<&str> = diagnostics.metadata.iter().map(|meta| meta.id.name.as_str()).collect();
    // A name without a reference is a diagnostic as well.
    assert_eq!((listed, diagnostics.total), (vec!["REQ-010", "REQ-020"], 4));
    assert!(diagnostics.metadata.iter().all(|meta| meta.diagnostic.is_some()));
    s.put(&item("REQ-010"), "---\ntitle: A\n---\n").await;
    s.delete(&item("REQ-020")).await;
    s.delete(&item("notes")).await;
    let diagnostics = read(s, &with_diagnostic(0)).await;
    assert_eq!((diagnostics.metadata.len(), diagnostics.total), (0, 1));
    let other = s.store.list(&s.other, &with_diagnostic(2)).await.unwrap();
    assert_eq!(other.total, 0, "projects are isolated");
}

/// Items with custom values; the last one is of another kind of list.
async fn put_custom(s: &Storage) {
    for (number, fields) in [
        (1, "risk: High\neffort: 10"),
        (2, "risk: low\neffort: 9\nstatus: Active"),
        (3, "status: Active\ntype_name: Data"),
        (4, "risk: High\neffort: 9\npriority: 1\ntype_name: Data"),
        (5, "risk: odd\nareas: [web, API]"),
        (6, "risk: HIGH\nstatus: Active\nareas: [api]\nuser_story: US-1"),
        (7, "risk: even\neffort: big\nuser_story: US-1"),
    ] {
        let text = format!("---\ntitle: T\n{fields}\ncreated_at: 2026-01-0{number}\n---\n");
        s.put(&item(&format!("REQ-00{number}")), text).await;
    }
    s.put(&item("notes"), "---\ntitle: G\nrisk: High\n---\n").await;
}

/// The numbers of all listed items, read in pages of each size.
async fn numbers(s: &Storage, query: &RecordQuery) -> String {
    let mut first: Option<String> = None;
    for limit in [1, 2, 3, 100] {
        let mut query = RecordQuery { limit, ..query.clone() };
        let (mut listed, mut total) = (String::new(), 0);
        loop {
            let page = read(s, &query).await;
            listed.extend(names(&page).iter().filter_map(|name| name.chars().last()));
            total = total.max(page.total);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(listed.len(), total, "{query:?}");
        assert_eq!(*first.get_or_insert_with(|| listed.clone()), listed, "{query:?}");
    }
    first.unwrap()
}

fn with_field(name: &str, value: &str) -> RecordFilter {
    let fields = vec![(name.to_owned(), value_key(value))];
    RecordFilter { fields, ..RecordFilter::default() }
}

fn by_field(name: &str, choices: &[&str], is_reversed: bool) -> RecordOrder {
    let choices = choices.iter().map(|choice| value_key(choice)).collect();
    RecordOrder {
        field: OrderField::Custom(FieldOrder { name: name.into(), choices }),
        is_reversed,
    }
}

pub async fn items_are_filtered_by_custom_fields(s: &Storage) {
    put_custom(s).await;
    let high = with_field("risk", "High");
    let mut both = high.clone();
    both.fields.extend(with_field("effort", "9.0").fields);
    let story = Reference { kind: ItemKind::UserStory, number: 1 };
    let high_with = |change: fn(&mut RecordFilter)| {
        let mut filter = high.clone();
        change(&mut filter);
        filter
    };
    for (filter, expected) in [
        (high.clone(), "416"),
        (both, "4"),
        (with_field("areas", "api"), "56"),
        (with_field("areas", "none"), ""),
        (high_with(|filter| filter.status = Some(Status::Active)), "6"),
        (high_with(|filter| filter.priority = Priority::new(3)), "16"),
        (high_with(|filter| filter.requirement_type = Some(RequirementType::Data)), "4"),
        (RecordFilter { parents: Some([story].into()), ..high.clone() }, "6"),
        (high_with(|filter| filter.details.text = Some("q-004".to_owned())), "4"),
    ] {
        let query = RecordQuery { filter, ..RecordQuery::of_items(REQ, 10) };
        assert_eq!(numbers(s, &query).await, expected, "{query:?}");
        let mut without = query.clone();
        without.filter.status = None;
        let counts = count_statuses(&read(s, &without).await);
        assert_eq!(read(s, &query).await.by_status, counts, "{query:?}");
    }
    s.put(&item("REQ-004"), "---\ntitle: T\nrisk: low\n---\n").await;
    s.delete(&item("REQ-001")).await;
    let query = RecordQuery { filter: high, ..RecordQuery::of_items(REQ, 10) };
    assert_eq!(numbers(s, &query).await, "6");
    let other = s.store.list(&s.other, &query).await.unwrap();
    assert_eq!(other, RecordPage::default(), "projects are isolated");
}

pub async fn items_are_sorted_by_a_custom_field(s: &Storage) {
    put_custom(s).await;
    let none = RecordFilter::default();
    let active = RecordFilter { status: Some(Status::Active), ..none.clone() };
    let data = RecordFilter { requirement_type: Some(RequirementType::Data), ..none.clone() };
    let urgent = RecordFilter { priority: Priority::new(1), ..none.clone() };
    let story = Reference { kind: ItemKind::UserStory, number: 1 };
    let children = RecordFilter { parents: Some([story].into()), ..none.clone() };
    for (field, choices, filter, ascending, descending) in [
        // The choices, then other values, then none; each value in the order of all lists.
        ("risk", &["Low", "High"][..], &none, "2416753", "4162573"),
        ("risk", &[], &none, "7416253", "5241673"),
        ("effort", &[], &none, "4217356", "7142356"),
        ("areas", &[], &none, "6541237", "5641237"),
        ("none", &["x"], &none, "4123567", "4123567"),
        ("risk", &["Low", "High"], &active, "263", "623"),
        ("risk", &["Low", "High"], &data, "43", "43"),
        ("risk", &["Low", "High"], &urgent, "4", "4"),
        ("risk", &["even", "high"], &children, "76", "67"),
        ("status", &["Active", "Draft"], &none, "2364157", "4157236"),
        ("status", &["draft"], &none, "4157236", "4157236"),
        ("status", &["Active", "Draft"], &children, "67", "76"),
        ("status", &["Active", "Draft"], &with_field("risk", "high"), "641", "416"),
        ("effort", &[], &with_field("risk", "high"), "416", "146"),
        ("areas", &[], &with_field("risk", "high"), "641", "641"),
        // The values of the field are equal.
        ("risk", &["High"], &with_field("risk", "high"), "416", "416"),
        ("areas", &[], &with_field("areas", "api"), "56", "56"),
    ] {
        for (is_reversed, expected) in [(false, ascending), (true, descending)] {
            let (order, filter) = (by_field(field, choices, is_reversed), filter.clone());
            let query = RecordQuery { filter, order, ..RecordQuery::of_items(REQ, 10) };
            assert_eq!(numbers(s, &query).await, expected, "{query:?}");
        }
    }
}

pub async fn pages_by_field_survive_changes(s: &Storage) {
    put_custom(s).await;
    let order = by_field("risk", &["Low", "High"], false);
    let mut query = RecordQuery { order, ..RecordQuery::of_items(REQ, 3) };
    let first = read(s, &query).await;
    assert_eq!(names(&first), ["REQ-002", "REQ-004", "REQ-001"]);
    // The last item of the page loses its value, and one before it moves to the end of the values.
    s.put(&item("REQ-001"), "---\ntitle: T\ncreated_at: 2026-01-09\n---\n").await;
    s.put(&item("REQ-002"), "---\ntitle: T\nrisk: zero\n---\n").await;
    query.after = first.next;
    query.limit = 10;
    let rest = read(s, &query).await;
    assert_eq!(names(&rest), ["REQ-006", "REQ-007", "REQ-005", "REQ-002", "REQ-003", "REQ-001"]);
}

pub async fn entities_are_filtered_and_sorted(s: &Storage) {
    for (name, text) in [
        ("decisions/a", "---\nid: dec-1\nstatus: Open\nrisk: high\ntags: [x]\n---\n"),
        ("decisions/b", "---\nid: dec-2\nstatus: open\nrisk: Low\n---\n"),
        ("decisions/c", "---\nid: dec-0\nstatus: done\ntitle: Z\n---\n"),
        ("ideas/d", "---\nid: idea-1\n---\n"),
    ] {
        s.put(&DocumentId::entity(name), text).await;
    }
    let decisions = RecordQuery::of_entities(Some("decision".to_owned()), 2);
    let page = read(s, &decisions).await;
    assert_eq!((names(&page), page.total), (vec!["decisions/c", "decisions/a"], 3));
    let counts = [("Open", 1), ("done", 1), ("open", 1)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(page.by_text, counts.into());
    let page = read(s, &RecordQuery { after: page.next, ..decisions.clone() }).await;
    assert_eq!(names(&page), ["decisions/b"]);
    let filter = RecordFilter { entity_status: Some("open".to_owned()), ..RecordFilter::default() };
    let open = RecordQuery { filter, ..RecordQuery::of_entities(None, 5) };
    assert_eq!(names(&read(s, &open).await), ["decisions/a", "decisions/b"]);
    let order = by_field("risk", &["low", "high"], false);
    let sorted = RecordQuery { order, ..RecordQuery::of_entities(None, 5) };
    let page = read(s, &sorted).await;
    assert_eq!(names(&page), ["decisions/b", "decisions/a", "decisions/c", "ideas/d"]);
    let low = RecordQuery { filter: with_field("risk", "LOW"), ..sorted };
    assert_eq!(names(&read(s, &low).await), ["decisions/b"]);
}

/// Each list, page by page, has the records that a filter of all metadata selects.
pub async fn entity_lists_equal_a_plain_filter(s: &Storage) {
    for number in 0..24 {
        let kind = ["decision", "idea", "odd \u{e4}"][number % 3];
        let status = ["", "Open", "open", "done", "Wait\u{df}"][number % 5];
        let risk = ["", "High", "low", "[mid, High]", "7", "-2"][number % 6];
        let mut text = format!("---\nid: x-{}\ntype: {kind}\n", number * 7 % 24);
        for (key, value) in [("status", status), ("risk", risk), ("areas", "ui")] {
            if !value.is_empty() {
                text.extend([key, ": ", value, "\n"]);
            }
        }
        let day = (number % 9 + 1).to_string();
        text.extend(["updated_at: 2026-01-0", &day, "T00:00:00Z\n---\n"]);
        s.put(&DocumentId::entity(format!("things/{number}")), text).await;
    }
    // An entity that changed, one that was deleted, and one without front matter.
    let changed = "---\nid: y\ntype: idea\nstatus: open\nrisk: high\n---\n";
    s.put(&DocumentId::entity("things/3"), changed).await;
    s.delete(&DocumentId::entity("things/4")).await;
    s.put(&DocumentId::entity("things/bare"), "text\n").await;
    let kinds = [None, Some("idea"), Some("odd \u{e4}"), Some("none")];
    compare_entity_lists(s, &kinds, &[None, Some("open"), Some("wait\u{df}"), Some("none")]).await;
    // Longer than keys of indexes may be.
    let long = |end: &str| "long ".repeat(90) + end;
    for end in ["a", "b"] {
        let (name, status) = (long(end).replace(' ', "-"), long(end));
        let text = format!("---\nid: {name}\ntype: {status}\nstatus: {status}\nrisk: high\n---\n");
        let folder = &name[..240];
        for name in [format!("{folder}/{folder}{end}"), format!("things/{end}")] {
            s.put(&DocumentId::entity(name), text.clone()).await;
        }
    }
    compare_entity_lists(s, &[None, Some(&long("a"))], &[None, Some(&long("b"))]).await;
}

async fn compare_entity_lists(s: &Storage, kinds: &[Option<&str>], statuses: &[Option<&str>]) {
    let entities = DocumentFilter::of_kind(DocumentKind::Entity);
    let all = s.store.find(&s.project, &entities).await.unwrap().metadata;
    let (none, high) = (RecordFilter::default(), with_field("risk", "high"));
    let both = [&high.fields[..], &with_field("areas", "ui").fields].concat();
    let text = DetailFilter { text: Some("x-1".to_owned()), ..DetailFilter::default() };
    let filters = [
        none.clone(),
        high.clone(),
        RecordFilter { fields: both, ..none.clone() },
        RecordFilter { details: text, ..none },
    ];
    let orders = [
        RecordOrder::default(),
        by_field("risk", &["Low", "High"], false),
        by_field("risk", &[], true),
        by_field(FieldOrder::STATUS, &["open", "Done"], false),
        RecordOrder { field: OrderField::Builtin(SortField::Updated), is_reversed: true },
        RecordOrder { field: OrderField::Builtin(SortField::Title), is_reversed: false },
    ];
    for kind in kinds {
        for status in statuses {
            for (filter, order) in
                filters.iter().flat_map(|one| orders.iter().map(move |o| (one, o)))
            {
                let mut filter = filter.clone();
                filter.entity_kind = kind.map(str::to_owned);
                filter.entity_status = status.map(fold_name);
                let order = order.clone();
                let listed = RecordQuery { filter, order, ..RecordQuery::of_entities(None, 4) };
                let counted = RecordQuery { limit: 0, ..listed.clone() };
                for mut query in [listed, counted] {
                    loop {
                        let expected = RecordPage::select(all.iter().cloned(), &query);
                        let found = read(s, &query).await;
                        assert_eq!(names(&found), names(&expected), "{query:?}");
                        assert_eq!(
                            (found.total, &found.by_text, &found.next),
                            (expected.total, &expected.by_text, &expected.next),
                            "{query:?}"
                        );
                        query.after = found.next;
                        if query.after.is_none() || query.limit == 0 {
                            break;
                        }
                    }
                }
            }
        }
    }
}
