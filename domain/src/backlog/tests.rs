//! What files of any make say.

mod edit;

use super::*;

const AT: Timestamp = Timestamp(1_700_000_000_500_000_000);

fn requirement(name: &str, text: &str) -> (ItemMeta, Option<crate::diagnostic::Diagnostic>) {
    ItemMeta::read(ItemKind::Requirement, name, text, AT)
}

#[test]
fn a_title_alone_makes_an_item() {
    let (item, fault) = requirement("REQ-500", "---\ntitle: By hand\n---\n");
    assert_eq!(fault, None);
    assert_eq!(item.reference, Reference::parse("REQ-500"));
    assert_eq!((item.title.as_str(), item.uid), ("By hand", None));
    assert_eq!(item.status, Some(Status::Draft));
    assert_eq!(item.priority, Some(Priority::DEFAULT));
    assert_eq!(item.requirement_type, Some(RequirementType::Functional));
    assert_eq!((item.created_at, item.updated_at), (AT.whole(), AT.whole()));
}

#[test]
fn all_keys_are_read_however_they_are_spelled() {
    let text = "---\nuid: u\ntitle: T\nstatus: active\npriority: high\ntype_name: non-functional\n\
                user_story: US-7\ntags: [a, b]\ncreator_username: ann\nassignee_username: bob\n\
                created_at: 2026-11-22T07:48:05Z\nupdated_at: 2026-11-23\n\
                depends_on: [REQ-2, REQ-002, REQ-3]\nblocks: REQ-4\nlinked: {REQ-2: 3f9a1c}\n\
                mine: kept\n---\n\nAs EP-1 and dec-1d2c8f say.\n";
    let (item, fault) = requirement("REQ-001-3f9a1c", text);
    assert_eq!(fault, None);
    assert_eq!(item.status, Some(Status::Active));
    assert_eq!(item.priority.map(Priority::number), Some(2));
    assert_eq!(item.requirement_type, Some(RequirementType::NonFunctional));
    let links: Vec<(&str, String)> = item.links().collect();
    let links: Vec<(&str, &str)> = links.iter().map(|(r, t)| (*r, t.as_str())).collect();
    assert_eq!(
        links,
        [
            ("user_story", "US-007"),
            ("depends_on", "REQ-002"),
            ("depends_on", "REQ-003"),
            ("blocks", "REQ-004"),
            ("mentions", "EP-001"),
            ("mentions", "dec-1d2c8f"),
        ]
    );
    assert_eq!(item.updated_at.rfc3339(), "2026-11-23T00:00:00Z");
    assert_eq!(item.linked, [(Reference::parse("REQ-2").unwrap(), "3f9a1c".to_owned())]);
    assert_eq!(ItemMeta::description(text), "As EP-1 and dec-1d2c8f say.");
}

#[test]
fn what_can_t_be_used_is_a_fault_with_its_line_and_reads_as_the_default() {
    for (text, line, says) in [
        ("---\ntitle: T\nstatus: Doing\n---\n", Some(3), "none of Draft, Active, Obsolete"),
        ("---\ntitle: T\npriority: 9\n---\n", Some(3), "none of 1, 2, 3 and 4"),
        ("---\ntitle: T\ntype_name: Odd\n---\n", Some(3), "Business Rule"),
        ("---\ntitle: T\nuser_story: EP-1\n---\n", Some(3), "no reference like US-012"),
        ("---\ntitle: T\ncreated_at: soon\n---\n", Some(3), "2026-01-31T23:59:59Z"),
        ("---\ntitle: T\nblocks:\n  - US-1\n---\n", Some(4), "no reference like REQ-012"),
        ("---\nstatus: Draft\n---\nWords", None, "`title` is missing"),
        ("---\ntitle: [\n---\n", None, ""),
    ] {
        let (item, fault) = requirement("REQ-1", text);
        let fault = fault.unwrap_or_else(|| panic!("{text:?} has no fault"));
        assert!(fault.message.contains(says), "{text:?}: {}", fault.message);
        assert!(line.is_none() || fault.line == line, "{text:?}: {:?}", fault.line);
        assert_eq!(item.status, Some(Status::Draft));
    }
    let (item, fault) = requirement("notes", "---\ntitle: T\n---\n");
    assert_eq!(item.reference, None);
    assert!(fault.unwrap().message.contains("REQ-012.md"));
}

#[test]
fn a_colon_too_many_parts_no_item_from_its_story() {
    let text = "---\ntitle: Pay: by card\nstatus: Active\nuser_story: US-7\nblocks: [REQ-2]\n---\n";
    let (item, fault) = requirement("REQ-1", text);
    assert_eq!(fault.unwrap().line, Some(2));
    assert_eq!(item.title, "Pay: by card");
    assert_eq!((item.status, item.parent), (Some(Status::Active), Reference::parse("US-7")));
    assert_eq!(item.relationships.len(), 1);
}

#[test]
fn criteria_borrow_their_title() {
    let text = "---\nuser_story: US-1\n---\n\nWHEN it rains\nTHEN it is wet\n";
    let (item, fault) = ItemMeta::read(ItemKind::AcceptanceCriteria, "AC-1", text, AT);
    assert_eq!((item.title.as_str(), fault), ("WHEN it rains", None));
    assert_eq!((item.status, item.priority), (None, None));
}

#[test]
fn a_deleted_item_leads_nowhere() {
    let text = "---\ntitle: T\nuser_story: US-1\ndeleted_at: 2026-11-22T07:48:05Z\n\
                deleted_username: ann\n---\n";
    let (item, _) = requirement("REQ-1", text);
    assert_eq!(item.deleted.as_ref().and_then(|deleted| deleted.by.as_deref()), Some("ann"));
    assert_eq!(item.links().count(), 0);
}

// S2: 1.6, 3.3
#[test]
fn lists_go_by_priority_then_newest_then_the_higher_number() {
    let item = |name: &str, priority: u8, day: u8| {
        let text =
            format!("---\ntitle: T\npriority: {priority}\ncreated_at: 2026-01-0{day}\n---\n");
        requirement(name, &text).0
    };
    let mut items = [
        item("REQ-1", 2, 1),
        item("REQ-2", 1, 1),
        item("REQ-3", 2, 2),
        item("REQ-4", 2, 1),
        item("REQ-5", 1, 1),
    ];
    items.sort_by(compare_items);
    let numbers = items.map(|item| item.reference.unwrap().number);
    assert_eq!(numbers, [5, 2, 3, 4, 1]);
}

#[test]
fn references_and_ids_are_mentioned_as_words() {
    let text =
        "As `REQ-48`, (dec-1d2c8f) and EP-001. Not REQ-48x, pre-REQ-1, REQ-9; twice REQ-048.";
    let own = Reference::parse("REQ-9");
    assert_eq!(parse::mentions(text, own), ["REQ-048", "dec-1d2c8f", "EP-001"]);
}

#[test]
fn argument_names_are_reported_where_the_key_is_missing() {
    let text = "---\ntitle: T\ntype: Data\nassignee: ann\ncreator: bob\ncreator_username: eve\n\
                parent: US-1\nstory: US-1\nmine: kept\n---\ntype: in the text\n";
    let shown = |kind| -> Vec<String> {
        let all = check_keys(kind, text).into_iter();
        all.map(|found| format!("{}: {}", found.line.unwrap(), found.message)).collect()
    };
    let assignee = "4: assignee is not read here; the key is assignee_username";
    assert_eq!(
        shown(ItemKind::Requirement),
        [
            "3: type is not read here; the key is type_name",
            assignee,
            "7: parent is not read here; the key is user_story",
            "8: story is not read here; the key is user_story"
        ]
    );
    let parent = "7: parent is not read here; the key is epic";
    assert_eq!(shown(ItemKind::UserStory), [assignee, parent]);
    assert_eq!(shown(ItemKind::Epic), [assignee]);
    assert_eq!(check_keys(ItemKind::Epic, "---\n- no: map\n---\n"), []);
}
