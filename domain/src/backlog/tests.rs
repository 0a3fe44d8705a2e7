//! Parsing of item files, including files written by hand.

use super::*;
use crate::records::edit::{RecordEdit, edit_record};
use crate::records::parse::{find_argument_keys, find_mentions};

const AT: Timestamp = Timestamp(1_700_000_000_500_000_000);

fn requirement(name: &str, text: &str) -> (ItemMeta, Option<crate::diagnostic::Diagnostic>) {
    ItemMeta::parse(ItemKind::Requirement, name, text, AT)
}

#[test]
fn item_with_only_a_title_gets_defaults() {
    let (item, diagnostic) = requirement("REQ-500", "---\ntitle: By hand\n---\n");
    assert_eq!(diagnostic, None);
    assert_eq!(item.reference, Reference::parse("REQ-500"));
    assert_eq!((item.title.as_str(), item.uid), ("By hand", None));
    assert_eq!(item.status, Some(Status::Draft));
    assert_eq!(item.priority, Some(Priority::DEFAULT));
    assert_eq!(item.requirement_type, Some(RequirementType::Functional));
    assert_eq!((item.created_at, item.updated_at), (AT.whole_seconds(), AT.whole_seconds()));
}

#[test]
fn item_keys_are_parsed_in_any_spelling() {
    let text = "---\nuid: u\ntitle: T\nstatus: active\npriority: high\ntype_name: non-functional\n\
                user_story: US-7\ntags: [a, b]\ncreator_username: ann\nassignee_username: bob\n\
                created_at: 2026-11-22T07:48:05Z\nupdated_at: 2026-11-23\n\
                depends_on: [REQ-2, REQ-002, REQ-3]\nblocks: REQ-4\nlinked: {REQ-2: 3f9a1c}\n\
                mine: kept\n---\n\nAs EP-1 and dec-1d2c8f say.\n";
    let (item, diagnostic) = requirement("REQ-001-3f9a1c", text);
    assert_eq!(diagnostic, None);
    assert_eq!(item.status, Some(Status::Active));
    assert_eq!(item.priority.map(Priority::number), Some(2));
    assert_eq!(item.requirement_type, Some(RequirementType::NonFunctional));
    assert_eq!(
        item.links(),
        [
            ("user_story", "US-007".to_owned()),
            ("depends_on", "REQ-002".to_owned()),
            ("depends_on", "REQ-003".to_owned()),
            ("blocks", "REQ-004".to_owned()),
            ("mentions", "EP-001".to_owned()),
            ("mentions", "dec-1d2c8f".to_owned()),
        ]
    );
    assert_eq!(item.updated_at.to_rfc3339(), "2026-11-23T00:00:00Z");
    assert_eq!(item.link_suffixes, [(Reference::parse("REQ-2").unwrap(), "3f9a1c".to_owned())]);
    assert_eq!(ItemMeta::description(text), "As EP-1 and dec-1d2c8f say.");
}

#[test]
fn invalid_value_is_reported_and_replaced_by_its_default() {
    for (text, line, message) in [
        ("---\ntitle: T\nstatus: Doing\n---\n", Some(3), "use one of Draft, Active, Obsolete"),
        ("---\ntitle: T\npriority: 9\n---\n", Some(3), "is not 1, 2, 3 or 4"),
        ("---\ntitle: T\ntype_name: Odd\n---\n", Some(3), "Business Rule"),
        ("---\ntitle: T\nuser_story: EP-1\n---\n", Some(3), "write one like US-012"),
        ("---\ntitle: T\ncreated_at: soon\n---\n", Some(3), "2026-01-31T23:59:59Z"),
        ("---\ntitle: T\nblocks:\n  - US-1\n---\n", Some(4), "write one like REQ-012"),
        ("---\ntitle: T\nblocks:\n  - [US-1]\n---\n", Some(4), "write one like REQ-012"),
        ("---\ntitle: T\nuser_story: {a: US-1}\n---\n", Some(3), "is a map without `id`"),
        ("---\ntitle: T\nuser_story: [US-1, US-2]\n---\n", Some(3), "has 2 values; keep one"),
        ("---\ntitle: T\npriority: [1]\n---\n", Some(3), "is a list or a map"),
        ("---\nstatus: Draft\n---\nWords", None, "`title` is missing"),
        ("---\ntitle: [\n---\n", None, ""),
    ] {
        let (item, diagnostic) = requirement("REQ-1", text);
        let diagnostic = diagnostic.unwrap_or_else(|| panic!("{text:?} has no diagnostic"));
        assert!(diagnostic.message.contains(message), "{text:?}: {}", diagnostic.message);
        assert!(line.is_none() || diagnostic.line == line, "{text:?}: {:?}", diagnostic.line);
        assert_eq!(item.status, Some(Status::Draft));
    }
    let (item, diagnostic) = requirement("notes", "---\ntitle: T\n---\n");
    assert_eq!(item.reference, None);
    assert!(diagnostic.unwrap().message.contains("REQ-012.md"));
}

#[test]
fn list_of_one_parent_is_that_parent() {
    for text in [
        "---\ntitle: T\nuser_story: [US-7]\n---\n",
        "---\ntitle: T\nuser_story:\n  - US-007\n---\n",
    ] {
        let (item, diagnostic) = requirement("REQ-1", text);
        assert_eq!((item.parent, diagnostic), (Reference::parse("US-7"), None), "{text}");
    }
    for none in ["[]", "", "~"] {
        let text = format!("---\ntitle: T\nuser_story: {none}\n---\n");
        let (item, diagnostic) = requirement("REQ-1", &text);
        assert_eq!((item.parent, diagnostic), (None, None), "{text}");
    }
}

#[test]
fn parent_that_cannot_be_read_is_mentioned() {
    for parent in ["[US-7, US-8]", "US-7 and US-8", "\"US-7,US-8\""] {
        let text = format!("---\ntitle: T\nuser_story: {parent}\n---\nSee EP-1.\n");
        let (item, diagnostic) = requirement("REQ-1", &text);
        assert!(item.parent.is_none() && diagnostic.is_some(), "{text}");
        assert_eq!(item.mentions, ["US-?", "EP-001", "US-007", "US-008"], "{text}");
    }
    for parent in ["Guest checkout", "EP-7", "US-", "{a: b}", "[[x]]", "US7", "US-7x", "'#7'"] {
        let text = format!("---\ntitle: T\nuser_story: {parent}\n---\n");
        let (item, diagnostic) = requirement("REQ-1", &text);
        assert!(item.parent.is_none() && diagnostic.is_some(), "{text}");
        assert!(item.mentions.contains(&"US-?".to_owned()), "{text}");
    }
    // Also in front matter that cannot be read at all.
    let (item, _) = requirement("REQ-1", "---\ntitle: T\nuser_story:\n  [US-7\n---\n");
    assert_eq!((item.parent, &*item.mentions), (None, &["US-?".to_owned()][..]));
    let unreadable = ItemMeta::placeholder(ItemKind::Requirement, "REQ-1", AT);
    assert_eq!(unreadable.mentions, ["US-?"]);
}

// S2: 1.1
#[test]
fn links_of_items_are_read_in_any_spelling() {
    for value in [
        "US-7",
        "us-7",
        "Us-0007",
        "\"[[US-007]]\"",
        "[[US-7]]",
        "[us-7]",
        "\n  - \"[[us-7]]\"",
        "\"[[US-007|Guest checkout]]\"",
        "\"[[US-007#Notes]]\"",
        "\"[[US-007-guest-checkout-3f9a1c]]\"",
        "\"[Guest checkout](../stories/US-007.md)\"",
        "US-007-guest-checkout-3f9a1c.md",
        "{id: US-7}",
        "{id: \"[[US-7]]\", type: parent}",
        "\n  - id: us-7\n    type: parent",
        "\"<US-7>\"",
        "\"`US-7`\"",
        "\"US-7,\"",
    ] {
        let text = format!("---\ntitle: T\nuser_story: {value}\n---\n");
        let (item, diagnostic) = requirement("REQ-1", &text);
        assert_eq!((item.parent, diagnostic), (Reference::parse("US-7"), None), "{text}");
    }
    for value in [
        "[REQ-2, REQ-3]",
        "REQ-2, REQ-3",
        "req-2; req-0003",
        "\"[[REQ-2]], [[REQ-3]]\"",
        "[[REQ-2], [REQ-3]]",
        "[[[REQ-2]], [[REQ-3]]]",
        "[{id: REQ-2, type: blocks}, REQ-3]",
        "\n  - REQ-2, REQ-3\n  - REQ-2",
        "\n  - req-002.md\n  - \"[[REQ-3]]\"",
        "|\n  REQ-2\n  REQ-3",
    ] {
        let text = format!("---\ntitle: T\ndepends_on: {value}\n---\n");
        let (item, diagnostic) = requirement("REQ-1", &text);
        let targets: Vec<String> =
            item.relationships.iter().map(|link| link.target.to_string()).collect();
        assert_eq!(
            (&targets[..], diagnostic),
            (&["REQ-002", "REQ-003"].map(str::to_owned)[..], None)
        );
        // An edit of the links keeps the others.
        let one = RecordEdit {
            relationships: Some(vec![item.relationships[1]]),
            ..RecordEdit::default()
        };
        let edited = edit_record(&item, &text, &one, AT).unwrap().unwrap();
        let (item, diagnostic) = requirement("REQ-1", &edited);
        assert_eq!(
            (item.relationships, diagnostic),
            (one.relationships.unwrap(), None),
            "{edited}"
        );
    }
}

#[test]
fn missing_update_time_is_the_creation_time() {
    let text = "---\ntitle: T\ncreated_at: 2026-11-22T07:48:05Z\n---\n";
    let (item, _) = requirement("REQ-1", text);
    assert_eq!(item.updated_at, item.created_at);
    assert_ne!(item.updated_at, AT.whole_seconds());
}

#[test]
fn item_with_invalid_yaml_keeps_its_parent() {
    let text = "---\ntitle: Pay: by card\nstatus: Active\nuser_story: US-7\nblocks: [REQ-2]\n---\n";
    let (item, diagnostic) = requirement("REQ-1", text);
    assert_eq!(diagnostic.unwrap().line, Some(2));
    assert_eq!(item.title, "Pay: by card");
    assert_eq!((item.status, item.parent), (Some(Status::Active), Reference::parse("US-7")));
    assert_eq!(item.relationships.len(), 1);
}

#[test]
fn criteria_title_is_the_first_line_of_the_description() {
    let text = "---\nuser_story: US-1\n---\n\nWHEN it rains\nTHEN it is wet\n";
    let (item, diagnostic) = ItemMeta::parse(ItemKind::AcceptanceCriteria, "AC-1", text, AT);
    assert_eq!((item.title.as_str(), diagnostic), ("WHEN it rains", None));
    assert_eq!((item.status, item.priority), (Some(Status::Open), None));
    let met = text.replacen("---", "---\nstatus: met", 1);
    let (item, _) = ItemMeta::parse(ItemKind::AcceptanceCriteria, "AC-1", &met, AT);
    assert_eq!(item.status, Some(Status::Met));
    let wrong = text.replacen("---", "---\nstatus: Done", 1);
    let (item, diagnostic) = ItemMeta::parse(ItemKind::AcceptanceCriteria, "AC-1", &wrong, AT);
    assert_eq!(item.status, Some(Status::Open));
    assert!(diagnostic.unwrap().message.contains("Open, Met"));
}

#[test]
fn deleted_item_has_no_links() {
    let text = "---\ntitle: T\nuser_story: US-1\ndeleted_at: 2026-11-22T07:48:05Z\n\
                deleted_username: ann\n---\n";
    let (item, _) = requirement("REQ-1", text);
    assert_eq!(item.deletion.as_ref().and_then(|deleted| deleted.by.as_deref()), Some("ann"));
    assert_eq!(item.links(), []);
}

#[test]
fn items_sort_by_priority_then_oldest_then_number() {
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
    items.sort_by_key(sort_key);
    let numbers = items.map(|item| item.reference.unwrap().number);
    assert_eq!(numbers, [2, 5, 1, 4, 3]);
}

#[test]
fn mentions_are_whole_words_without_duplicates() {
    let text =
        "As `REQ-48`, (dec-1d2c8f) and EP-001. Not REQ-48x, pre-REQ-1, REQ-9; twice REQ-048.";
    let own = Reference::parse("REQ-9");
    assert_eq!(find_mentions(text, own), ["REQ-048", "dec-1d2c8f", "EP-001"]);
}

#[test]
fn argument_name_as_key_is_reported_if_the_key_is_missing() {
    let text = "---\ntitle: T\ntype: Data\nassignee: ann\ncreator: bob\ncreator_username: eve\n\
                parent: US-1\nstory: US-1\nmine: kept\n---\ntype: in the text\n";
    let assignee = "4: assignee has no effect here; rename it to assignee_username";
    assert_eq!(
        reported_keys(ItemKind::Requirement, text),
        [
            "3: type has no effect here; rename it to type_name",
            assignee,
            "7: parent has no effect here; rename it to user_story",
            "8: story has no effect here; rename it to user_story"
        ]
    );
    let parent = "7: parent has no effect here; rename it to epic";
    assert_eq!(reported_keys(ItemKind::UserStory, text), [assignee, parent]);
    assert_eq!(reported_keys(ItemKind::Epic, text), [assignee]);
    assert_eq!(find_argument_keys(ItemKind::Epic, "---\n- no: map\n---\n"), []);
}

fn reported_keys(kind: ItemKind, text: &str) -> Vec<String> {
    let diagnostics = find_argument_keys(kind, text).into_iter();
    diagnostics.map(|found| format!("{}: {}", found.line.unwrap(), found.message)).collect()
}
