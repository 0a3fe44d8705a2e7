//! Rendering of new, edited and deleted items.

use proptest::prelude::*;

use super::*;
use crate::backlog::{ItemKind, ItemMeta, RelationshipType};
use crate::name_form::compose;
use crate::records::item_links::replace_links;
use crate::records::tombstone::tombstone_text;

const AT: Timestamp = Timestamp(1_795_335_043_500_000_000);

fn link_target(reference: &str, suffix: Option<&str>) -> LinkTarget {
    let reference = Reference::parse(reference).unwrap();
    LinkTarget { reference, file_suffix: suffix.map(str::to_owned) }
}

const BODY: &str = "As a user I want a new password, so that I can work again.";

fn new_fields() -> RecordEdit {
    let title = Some("Reset the password by mail".to_owned());
    RecordEdit { title, body: Some(BODY.to_owned()), ..RecordEdit::default() }
}

fn new_item(kind: ItemKind, fields: &RecordEdit) -> NewRecord<'_> {
    let id = "019a9b1e-22f4-7d3c-b8a1-5d0e3f3f9a1c";
    NewRecord { kind: kind.row(), id, fields, creator: "ann", created_at: AT }
}

/// Checks the text of a new item; `keys` precede and `end` follows the keys that all items have.
#[track_caller]
fn check_text(kind: ItemKind, fields: &RecordEdit, keys: &str, end: &str, description: &str) {
    let item = new_item(kind, fields);
    let text = item.text().unwrap();
    let expected = format!(
        "---\n{keys}creator_username: ann\ncreated_at: 2026-11-22T08:10:43Z\nuid: {}\n{end}---\n\n\
         {description}\n",
        item.id
    );
    assert_eq!(text, expected);
    let name = format!("{}-1", kind.prefix());
    let (parsed, diagnostic) = ItemMeta::parse(kind, &name, &text, AT);
    assert_eq!(diagnostic, None);
    assert_eq!(parsed.title, fields.title.as_deref().unwrap_or(description));
    let status = fields.status.as_deref().or(kind.statuses().first().map(Status::name));
    assert_eq!(parsed.status.as_ref().map(Status::name), status);
    assert_eq!(parsed.updated_at, AT.whole_seconds());
}

#[test]
fn new_item_writes_no_key_that_equals_its_default() {
    let kind = ItemKind::Requirement;
    let explicit = RecordEdit {
        status: Some("Draft".to_owned()),
        priority: Some(Priority::DEFAULT),
        requirement_type: Some(RequirementType::DEFAULT),
        ..new_fields()
    };
    check_text(kind, &explicit, "title: Reset the password by mail\n", "", BODY);
    let text = new_item(kind, &explicit).text();
    assert_eq!(text, new_item(kind, &new_fields()).text());
    let text = text.unwrap();
    for key in ["status", "priority", "type_name", "updated_at", "reference_id", "tags"] {
        assert!(!text.contains(&format!("\n{key}:")), "{key}: {text}");
    }
}

#[test]
fn new_item_renders_its_keys_in_order() {
    let keys = "title: Reset the password by mail\n";
    check_text(ItemKind::Epic, &new_fields(), keys, "", BODY);
    let parent = Some(link_target("EP-1", Some("0c44d2")));
    check_text(
        ItemKind::UserStory,
        &RecordEdit { parent, priority: Priority::new(1), ..new_fields() },
        &format!("{keys}priority: 1\nepic: EP-001\n"),
        "linked: {EP-001: 0c44d2}\n",
        BODY,
    );
    let parent = Some(link_target("US-12", None));
    let criteria = RecordEdit { title: None, parent, ..new_fields() };
    check_text(ItemKind::AcceptanceCriteria, &criteria, "user_story: US-012\n", "", BODY);
    let tags = ["auth", "area: mail", "auth", " "].map(str::to_owned).to_vec();
    check_text(
        ItemKind::Requirement,
        &RecordEdit {
            title: Some("Mail: one link, \"valid\" for an hour".to_owned()),
            body: Some("\r\n---\nnot: front matter\n---\n\n- a list\n\n".to_owned()),
            status: Some("Active".to_owned()),
            requirement_type: Some(RequirementType::BusinessRule),
            parent: Some(link_target("US-12", Some("123456"))),
            assignee: Some("bob".to_owned()),
            tags: Some(tags),
            custom: vec![("risk".to_owned(), Value::from("High"))],
            ..RecordEdit::default()
        },
        "title: \"Mail: one link, \\\"valid\\\" for an hour\"\nstatus: Active\n\
         type_name: Business Rule\nuser_story: US-012\nassignee_username: bob\n\
         tags: [auth, \"area: mail\"]\nrisk: High\n",
        "linked: {US-012: \"123456\"}\n",
        "---\nnot: front matter\n---\n\n- a list",
    );
}

fn parse_item(kind: ItemKind, text: &str) -> ItemMeta {
    ItemMeta::parse(kind, &format!("{}-001-3f9a1c", kind.prefix()), text, AT).0
}

fn edit_requirement(text: &str, changes: &RecordEdit) -> Option<String> {
    edit_record(&parse_item(ItemKind::Requirement, text), text, changes, AT).unwrap()
}

const BY_HAND: &str = "\u{feff}---\r\n\
    # Moved from the wiki\r\n\
    \"title\": 'Old title'   # keep it short\r\n\
    created_at: 2026-01-04\r\n\
    status: active\r\n\
    depends_on:\r\n\
    \x20 - REQ-2   # needs its table\r\n\
    \x20 - 'REQ-3'\r\n\
    \x20 - US-4\r\n\
    notes: |\r\n\
    \x20 status: Draft\r\n\
    \r\n\
    linked: {REQ-2: 0c44d2, REQ-3: aa11bb}\r\n\
    reviewed: yes\r\n\
    ---\r\n\
    Text  \r\n\
    without end";

#[test]
fn edit_of_a_hand_written_file_keeps_all_other_bytes() {
    let changes = RecordEdit {
        title: Some("New: title".to_owned()),
        status: Some("Active".to_owned()),
        priority: Some(Priority::DEFAULT),
        requirement_type: Some(RequirementType::Data),
        assignee: Some("bob".to_owned()),
        ..RecordEdit::default()
    };
    let expected = BY_HAND.replace("'Old title'", "\"New: title\"").replace(
        "reviewed: yes\r\n",
        "reviewed: yes\r\ntype_name: Data\r\nassignee_username: bob\r\n\
         updated_at: 2026-11-22T08:10:43Z\r\n",
    );
    assert_eq!(edit_requirement(BY_HAND, &changes), Some(expected));
}

#[test]
fn edit_of_a_list_of_one_parent_replaces_the_list() {
    let text = "---\ntitle: T\nuser_story: [US-7]   # moved\ncreated_at: 2026-01-04\n---\n";
    let same = RecordEdit { parent: Some(link_target("US-7", None)), ..RecordEdit::default() };
    assert_eq!(edit_requirement(text, &same), None);
    let other = RecordEdit { parent: Some(link_target("US-8", None)), ..RecordEdit::default() };
    let edited = edit_requirement(text, &other).unwrap();
    assert!(edited.contains("\nuser_story: US-008"), "{edited}");
    let item = parse_item(ItemKind::Requirement, text);
    let (from, to) = (link_target("US-7", None), link_target("US-9", None));
    let renumbered = replace_links(&item, text, &from, &to).unwrap().unwrap();
    assert!(renumbered.contains("\nuser_story: US-009"), "{renumbered}");
}

fn relationship(kind: RelationshipType, number: u32) -> Relationship {
    Relationship { kind, target: Reference { kind: ItemKind::Requirement, number } }
}

#[test]
fn kept_links_keep_their_lines_and_removed_ones_their_suffix() {
    let changes = RecordEdit {
        relationships: Some(vec![
            relationship(RelationshipType::DependsOn, 2),
            relationship(RelationshipType::DependsOn, 5),
            relationship(RelationshipType::Blocks, 9),
        ]),
        new_targets: vec![link_target("REQ-5", Some("55eeff")), link_target("REQ-9", None)],
        ..RecordEdit::default()
    };
    let expected = BY_HAND
        .replace("  - 'REQ-3'\r\n", "")
        .replace("US-4\r\n", "US-4\r\n  - REQ-005\r\n")
        .replace("REQ-2: 0c44d2, REQ-3: aa11bb", "REQ-002: 0c44d2, REQ-005: 55eeff")
        .replace(
            "reviewed: yes\r\n",
            "reviewed: yes\r\nblocks: [REQ-009]\r\nupdated_at: 2026-11-22T08:10:43Z\r\n",
        );
    assert_eq!(edit_requirement(BY_HAND, &changes), Some(expected));
    let none = RecordEdit { relationships: Some(Vec::new()), ..RecordEdit::default() };
    let text =
        "---\ntitle: T\nblocks: REQ-4\nlinked:\n  REQ-4: aa11bb\ncreated_at: 2026-01-04\n---\n";
    let expected = "---\ntitle: T\ncreated_at: 2026-01-04\nupdated_at: 2026-11-22T08:10:43Z\n---\n";
    assert_eq!(edit_requirement(text, &none).as_deref(), Some(expected));
}

#[test]
fn edit_without_changes_returns_none() {
    let item = parse_item(ItemKind::Requirement, BY_HAND);
    let changes = RecordEdit {
        title: Some(" Old  title".to_owned()),
        body: Some("\nText  \r\nwithout end\r\n".to_owned()),
        status: item.status.map(|status| status.name().to_owned()),
        priority: item.priority,
        requirement_type: item.requirement_type,
        parent: None,
        assignee: Some(String::new()),
        custom: vec![("risk".to_owned(), Value::Null)],
        extra: Vec::new(),
        tags: Some(Vec::new()),
        rank: Some(String::new()),
        relationships: Some(item.relationships.clone()),
        new_targets: vec![link_target("REQ-3", Some("aa11bb"))],
        links: Vec::new(),
    };
    assert_eq!(edit_requirement(BY_HAND, &changes), None);
    // An invalid status is replaced, although it already reads as the default.
    let text = "---\ntitle: T\nstatus: Doing\n---\n";
    let changes = RecordEdit { status: Some("Draft".to_owned()), ..RecordEdit::default() };
    assert!(edit_requirement(text, &changes).unwrap().contains("status: Draft\n"));
}

#[test]
fn first_edit_of_a_file_without_created_at_adds_it() {
    let tags = ["a", "b, c", "a"].map(str::to_owned).to_vec();
    let changes = RecordEdit { tags: Some(tags), ..RecordEdit::default() };
    let item = ItemMeta::parse(ItemKind::Epic, "EP-1", "Just words\n", Timestamp(0)).0;
    assert_eq!(
        edit_record(&item, "Just words\n", &changes, AT).unwrap().unwrap(),
        "---\ntags: [a, \"b, c\"]\ncreated_at: 1970-01-01T00:00:00Z\n\
         updated_at: 2026-11-22T08:10:43Z\n---\n\nJust words\n"
    );
}

#[test]
fn edited_tags_are_written_to_tags_or_labels() {
    let only_labels = "---\ntitle: T\nlabels: a, b # ours\n---\n";
    let both = "---\ntitle: T\nlabels: [a]\ntags:\n- b # mine\n---\n";
    for (text, tags, expected) in [
        (only_labels, &["a"][..], "title: T\nlabels: [a] # ours\n"),
        (both, &["b", "c"], "title: T\ntags:\n- b # mine\n- c\n"),
        (both, &[], "title: T\n"),
    ] {
        let changes = RecordEdit {
            tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
            ..RecordEdit::default()
        };
        let edited = edit_requirement(text, &changes).unwrap();
        assert!(edited.starts_with(&format!("---\n{expected}created_at: ")), "{edited}");
        assert_eq!(parse_item(ItemKind::Requirement, &edited).tags, tags);
    }
}

#[test]
fn tombstone_keeps_the_text() {
    let item = parse_item(ItemKind::Requirement, BY_HAND);
    let expected = BY_HAND.replace(
        "reviewed: yes\r\n",
        "reviewed: yes\r\ndeleted_at: 2026-11-22T08:10:43Z\r\ndeleted_username: ann\r\n",
    );
    assert_eq!(tombstone_text(&item, BY_HAND, AT, "ann"), expected);

    let invalid = "---\ntitle: T: x\nuid: u\ntags: [\n---\nText";
    let item = parse_item(ItemKind::Requirement, invalid);
    let text = tombstone_text(&item, invalid, AT, "ann: b");
    assert_eq!(
        text,
        "---\ntitle: \"T: x\"\nuid: u\ndeleted_at: 2026-11-22T08:10:43Z\n\
         deleted_username: \"ann: b\"\n---\n\n---\ntitle: T: x\nuid: u\ntags: [\n---\nText"
    );
    let deleted = parse_item(ItemKind::Requirement, &text).deletion.unwrap();
    assert_eq!((deleted.at, deleted.by.as_deref()), (AT.whole_seconds(), Some("ann: b")));
}

#[test]
fn links_with_the_same_suffix_follow_a_renumbering() {
    let text = "---\ntitle: T\nuser_story: US-1 # mine\ndepends_on: [REQ-1, REQ-4]\n\
                linked: {US-1: 3f9a1c, REQ-4: bb22cc}\n---\nUS-1\n";
    let item = ItemMeta::parse(ItemKind::Requirement, "REQ-009", text, AT).0;
    let from = link_target("US-1", Some("3f9a1c"));
    let to = link_target("US-7", Some("3f9a1c"));
    assert_eq!(
        replace_links(&item, text, &from, &to).unwrap().unwrap(),
        text.replace("US-1 # mine", "US-007 # mine")
            .replace("US-1: 3f9a1c, REQ-4: bb22cc", "REQ-004: bb22cc, US-007: 3f9a1c")
    );
    let from = link_target("REQ-1", None);
    let to = link_target("REQ-8", Some("aa11bb"));
    assert_eq!(
        replace_links(&item, text, &from, &to).unwrap().unwrap(),
        text.replace("[REQ-1, REQ-4]", "[REQ-008, REQ-4]").replace(
            "{US-1: 3f9a1c, REQ-4: bb22cc}",
            "{US-001: 3f9a1c, REQ-004: bb22cc, REQ-008: aa11bb}"
        )
    );
    for (reference, suffix) in [("US-1", Some("ffffff")), ("US-1", None), ("US-2", None)] {
        let (from, to) = (link_target(reference, suffix), link_target("US-7", suffix));
        assert_eq!(replace_links(&item, text, &from, &to), Ok(None), "{reference} {suffix:?}");
    }
}

#[test]
fn edit_of_unsupported_yaml_fails_with_instructions() {
    let text = "---\ntitle: &t T\nalso: *t\n---\n";
    let item = parse_item(ItemKind::Epic, text);
    let changes = RecordEdit { title: Some("New".to_owned()), ..RecordEdit::default() };
    let error = edit_record(&item, text, &changes, AT).unwrap_err();
    assert!(error.contains("`title` has an anchor") && error.contains("by hand"), "{error}");
}

/// Titles with YAML indicators and values that YAML parses as other types.
fn any_title() -> impl Strategy<Value = String> {
    const ODD: [&str; 9] =
        ["yes", "1.0", "null", "---", "- x", "a: b", "a #b", "0x1F", "2026-11-22"];
    prop_oneof![
        "[ \\PC]{0,3}[\u{2028}\u{feff}#:,\\[\\]{}'\"\\\\&*!|>%@`~?=<-]{0,3}\\PC{1,9}",
        prop::sample::select(&ODD[..]).prop_map(str::to_owned),
    ]
    .prop_filter("a title is not blank", |title| !title.trim().is_empty())
}

fn any_description() -> impl Strategy<Value = String> {
    prop_oneof![
        "(\\PC|\r?\n|---\n|\\.\\.\\.\r\n|[\r\t\u{85}\u{feff}]){0,30}",
        "---\n\\PC{0,9}\n---\n"
    ]
}

proptest! {
    #[test]
    fn rendered_item_parses_to_the_same_values(
        title in any_title(),
        description in any_description(),
        new_description in any_description(),
        tags in prop::collection::vec(any_title(), 0..3),
        name in "\\PC{1,9}",
    ) {
        let parent = link_target("US-7", Some("123456"));
        let fields = RecordEdit {
            title: Some(title.clone()),
            body: Some(description.clone()),
            tags: Some(tags.clone()),
            parent: Some(parent.clone()),
            ..RecordEdit::default()
        };
        let new = NewRecord { creator: &name, ..new_item(ItemKind::Requirement, &fields) };
        let text = new.text().unwrap();
        let (item, diagnostic) = ItemMeta::parse(ItemKind::Requirement, "REQ-1", &text, AT);
        let one_line = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let edges = ['\r', '\n'];
        prop_assert_eq!(diagnostic, None);
        prop_assert_eq!(&item.title, &one_line);
        for tag in &tags {
            let tag = compose(tag.trim());
            prop_assert!(item.tags.iter().any(|found| *found == tag), "{:?}", item.tags);
        }
        prop_assert_eq!(item.creator.as_deref().unwrap_or_default(), name.trim());
        prop_assert_eq!(item.parent, Some(parent.reference));
        prop_assert_eq!(ItemMeta::description(&text), description.trim_matches(edges));

        let changes = RecordEdit {
            title: Some(title),
            body: Some(new_description.clone()),
            ..RecordEdit::default()
        };
        if let Some(text) = edit_record(&item, &text, &changes, AT).unwrap() {
            prop_assert_eq!(ItemMeta::description(&text), new_description.trim_matches(edges));
            let edited = ItemMeta::parse(ItemKind::Requirement, "REQ-1", &text, AT).0;
            prop_assert_eq!(edited.title, item.title);
        } else {
            let one_line_end = |text: &str| text.trim_matches(edges).replace("\r\n", "\n");
            prop_assert_eq!(one_line_end(&new_description), one_line_end(&description));
        }
    }

    #[test]
    fn tombstone_of_any_text_keeps_its_lines(
        text in "(---\r?\n)?(title: x\n|\\PC{0,9}\r?\n|a: [\\[{&*!]?x\n|---\n){0,8}\\PC{0,3}",
    ) {
        let item = parse_item(ItemKind::Epic, &text);
        let tombstone = tombstone_text(&item, &text, AT, "ann");
        let mut lines = tombstone.lines();
        for line in text.lines() {
            prop_assert!(lines.any(|kept| kept == line), "{line:?} of {text:?}: {tombstone:?}");
        }
        prop_assert!(parse_item(ItemKind::Epic, &tombstone).deletion.is_some(), "{tombstone}");
    }
}
