//! What files look like after a write.

use proptest::prelude::*;

use super::super::*;

const AT: Timestamp = Timestamp(1_795_335_043_500_000_000);

fn linked(reference: &str, mark: Option<&str>) -> LinkTarget {
    let reference = Reference::parse(reference).unwrap();
    LinkTarget { reference, mark: mark.map(str::to_owned) }
}

fn new(kind: ItemKind) -> NewItem<'static> {
    NewItem {
        kind,
        uid: "019a9b1e-22f4-7d3c-b8a1-5d0e3f3f9a1c",
        title: Some("Reset the password by mail"),
        description: "As a user I want a new password, so that I can work again.",
        status: None,
        priority: None,
        requirement_type: None,
        parent: None,
        assignee: None,
        tags: &[],
        creator: "ann",
        at: AT,
    }
}

/// Compares the text of a new item; `keys` precede and `end` follows what all items have.
fn check(item: &NewItem<'_>, keys: &str, end: &str, description: &str) {
    let text = item.text().unwrap();
    let expected = format!(
        "---\n{keys}creator_username: ann\ncreated_at: 2026-11-22T08:10:43Z\n\
         updated_at: 2026-11-22T08:10:43Z\nuid: {}\n{end}---\n\n{description}\n",
        item.uid
    );
    assert_eq!(text, expected);
    let (read, fault) = ItemMeta::read(item.kind, &format!("{}-1", item.kind.prefix()), &text, AT);
    assert_eq!(fault, None);
    assert_eq!(read.title, item.title.unwrap_or(item.description));
}

#[test]
fn new_items_have_their_keys_in_order() {
    let plain = new(ItemKind::Epic).description;
    let keys = "title: Reset the password by mail\nstatus: Backlog\n";
    check(&new(ItemKind::Epic), &format!("{keys}priority: 3\n"), "", plain);
    let epic = linked("EP-1", Some("0c44d2"));
    check(
        &NewItem { parent: Some(&epic), priority: Priority::new(1), ..new(ItemKind::UserStory) },
        &format!("{keys}priority: 1\nepic: EP-001\n"),
        "linked: {EP-001: 0c44d2}\n",
        plain,
    );
    let story = linked("US-12", None);
    let criteria =
        NewItem { title: None, parent: Some(&story), ..new(ItemKind::AcceptanceCriteria) };
    check(&criteria, "user_story: US-012\n", "", plain);
    let story = linked("US-12", Some("123456"));
    let tags = ["auth", "area: mail", "auth", " "].map(str::to_owned);
    check(
        &NewItem {
            title: Some("Mail: one link, \"valid\" for an hour"),
            description: "\r\n---\nnot: front matter\n---\n\n- a list\n\n",
            status: Some(Status::Active),
            requirement_type: Some(RequirementType::BusinessRule),
            parent: Some(&story),
            assignee: Some("bob"),
            tags: &tags,
            ..new(ItemKind::Requirement)
        },
        "title: \"Mail: one link, \\\"valid\\\" for an hour\"\nstatus: Active\npriority: 3\n\
         type_name: Business Rule\nuser_story: US-012\nassignee_username: bob\n\
         tags: [auth, \"area: mail\"]\n",
        "linked: {US-012: \"123456\"}\n",
        "---\nnot: front matter\n---\n\n- a list",
    );
}

fn read(kind: ItemKind, text: &str) -> ItemMeta {
    ItemMeta::read(kind, &format!("{}-001-3f9a1c", kind.prefix()), text, AT).0
}

fn edited(text: &str, changes: &ItemEdit) -> Option<String> {
    edit_item(&read(ItemKind::Requirement, text), text, changes, AT).unwrap()
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
fn an_edit_of_a_file_made_by_hand_leaves_all_else_as_it_is() {
    let changes = ItemEdit {
        title: Some("New: title".to_owned()),
        status: Some(Status::Active),
        priority: Some(Priority::DEFAULT),
        requirement_type: Some(RequirementType::Data),
        assignee: Some(Some("bob".to_owned())),
        ..ItemEdit::default()
    };
    let expected = BY_HAND.replace("'Old title'", "\"New: title\"").replace(
        "reviewed: yes\r\n",
        "reviewed: yes\r\ntype_name: Data\r\nassignee_username: bob\r\n\
         updated_at: 2026-11-22T08:10:43Z\r\n",
    );
    assert_eq!(edited(BY_HAND, &changes), Some(expected));
}

#[test]
fn links_that_stay_keep_their_lines_and_those_that_go_take_their_marks() {
    let to = |number| Reference { kind: ItemKind::Requirement, number };
    let depends = |number| Relationship { kind: RelationshipType::DependsOn, target: to(number) };
    let blocks = Relationship { kind: RelationshipType::Blocks, target: to(9) };
    let changes = ItemEdit {
        relationships: Some(vec![depends(2), depends(5), blocks]),
        linked: vec![linked("REQ-5", Some("55eeff")), linked("REQ-9", None)],
        ..ItemEdit::default()
    };
    let expected = BY_HAND
        .replace("  - 'REQ-3'\r\n", "")
        .replace("US-4\r\n", "US-4\r\n  - REQ-005\r\n")
        .replace("REQ-2: 0c44d2, REQ-3: aa11bb", "REQ-002: 0c44d2, REQ-005: 55eeff")
        .replace(
            "reviewed: yes\r\n",
            "reviewed: yes\r\nblocks: [REQ-009]\r\nupdated_at: 2026-11-22T08:10:43Z\r\n",
        );
    assert_eq!(edited(BY_HAND, &changes), Some(expected));
    let none = ItemEdit { relationships: Some(Vec::new()), ..ItemEdit::default() };
    let text =
        "---\ntitle: T\nblocks: REQ-4\nlinked:\n  REQ-4: aa11bb\ncreated_at: 2026-01-04\n---\n";
    let expected = "---\ntitle: T\ncreated_at: 2026-01-04\nupdated_at: 2026-11-22T08:10:43Z\n---\n";
    assert_eq!(edited(text, &none).as_deref(), Some(expected));
}

#[test]
fn an_edit_that_changes_nothing_is_none() {
    let item = read(ItemKind::Requirement, BY_HAND);
    let changes = ItemEdit {
        title: Some(" Old  title".to_owned()),
        description: Some("\nText  \r\nwithout end\r\n".to_owned()),
        status: item.status,
        priority: item.priority,
        requirement_type: item.requirement_type,
        parent: None,
        assignee: Some(Some(String::new())),
        tags: Some(Vec::new()),
        relationships: Some(item.relationships.clone()),
        linked: vec![linked("REQ-3", Some("aa11bb"))],
    };
    assert_eq!(edited(BY_HAND, &changes), None);
    // What can't be read is not the default that it reads as.
    let text = "---\ntitle: T\nstatus: Doing\n---\n";
    let changes = ItemEdit { status: Some(Status::Draft), ..ItemEdit::default() };
    assert!(edited(text, &changes).unwrap().contains("status: Draft\n"));
}

#[test]
fn the_first_edit_keeps_the_time_of_a_file_that_did_not_say_it() {
    let tags = ["a", "b, c", "a"].map(str::to_owned).to_vec();
    let changes = ItemEdit { tags: Some(tags), ..ItemEdit::default() };
    let item = ItemMeta::read(ItemKind::Epic, "EP-1", "Just words\n", Timestamp(0)).0;
    assert_eq!(
        edit_item(&item, "Just words\n", &changes, AT).unwrap().unwrap(),
        "---\ntags: [a, \"b, c\"]\ncreated_at: 1970-01-01T00:00:00Z\n\
         updated_at: 2026-11-22T08:10:43Z\n---\n\nJust words\n"
    );
}

#[test]
fn tags_are_written_where_a_file_has_them() {
    let only_labels = "---\ntitle: T\nlabels: a, b # ours\n---\n";
    let both = "---\ntitle: T\nlabels: [a]\ntags:\n- b # mine\n---\n";
    for (text, tags, expected) in [
        (only_labels, &["a"][..], "title: T\nlabels: [a] # ours\n"),
        (both, &["b", "c"], "title: T\ntags:\n- b # mine\n- c\n"),
        (both, &[], "title: T\n"),
    ] {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let edited =
            edited(text, &ItemEdit { tags: Some(tags.clone()), ..ItemEdit::default() }).unwrap();
        assert!(edited.starts_with(&format!("---\n{expected}created_at: ")), "{edited}");
        assert_eq!(read(ItemKind::Requirement, &edited).tags, tags);
    }
}

#[test]
fn a_tombstone_keeps_the_text() {
    let item = read(ItemKind::Requirement, BY_HAND);
    let expected = BY_HAND.replace(
        "reviewed: yes\r\n",
        "reviewed: yes\r\ndeleted_at: 2026-11-22T08:10:43Z\r\ndeleted_username: ann\r\n",
    );
    assert_eq!(tombstone_text(&item, BY_HAND, AT, "ann"), expected);

    let broken = "---\ntitle: T: x\nuid: u\ntags: [\n---\nText";
    let item = read(ItemKind::Requirement, broken);
    let text = tombstone_text(&item, broken, AT, "ann: b");
    assert_eq!(
        text,
        "---\ntitle: \"T: x\"\nuid: u\ndeleted_at: 2026-11-22T08:10:43Z\n\
         deleted_username: \"ann: b\"\n---\n\n---\ntitle: T: x\nuid: u\ntags: [\n---\nText"
    );
    let deleted = read(ItemKind::Requirement, &text).deleted.unwrap();
    assert_eq!((deleted.at, deleted.by.as_deref()), (AT.whole(), Some("ann: b")));
}

#[test]
fn links_follow_a_renumbering_where_they_mean_the_document() {
    let text = "---\ntitle: T\nuser_story: US-1 # mine\ndepends_on: [REQ-1, REQ-4]\n\
                linked: {US-1: 3f9a1c, REQ-4: bb22cc}\n---\nUS-1\n";
    let item = ItemMeta::read(ItemKind::Requirement, "REQ-009", text, AT).0;
    let follow = |from: LinkTarget, to: LinkTarget| replace_links(&item, text, &from, &to).unwrap();
    assert_eq!(
        follow(linked("US-1", Some("3f9a1c")), linked("US-7", Some("3f9a1c"))).unwrap(),
        text.replace("US-1 # mine", "US-007 # mine")
            .replace("US-1: 3f9a1c, REQ-4: bb22cc", "REQ-004: bb22cc, US-007: 3f9a1c")
    );
    assert_eq!(
        follow(linked("REQ-1", None), linked("REQ-8", Some("aa11bb"))).unwrap(),
        text.replace("[REQ-1, REQ-4]", "[REQ-008, REQ-4]").replace(
            "{US-1: 3f9a1c, REQ-4: bb22cc}",
            "{US-001: 3f9a1c, REQ-004: bb22cc, REQ-008: aa11bb}"
        )
    );
    for (from, mark) in [("US-1", Some("ffffff")), ("US-1", None), ("US-2", None)] {
        assert_eq!(follow(linked(from, mark), linked("US-7", mark)), None, "{from} {mark:?}");
    }
}

#[test]
fn front_matter_that_can_t_be_edited_says_what_to_do() {
    let text = "---\ntitle: &t T\nalso: *t\n---\n";
    let item = read(ItemKind::Epic, text);
    let changes = ItemEdit { title: Some("New".to_owned()), ..ItemEdit::default() };
    let refused = edit_item(&item, text, &changes, AT).unwrap_err();
    assert!(refused.contains("`title` has an anchor") && refused.contains("by hand"), "{refused}");
}

/// Titles with all that YAML gives a meaning to.
fn title() -> impl Strategy<Value = String> {
    const ODD: [&str; 9] =
        ["yes", "1.0", "null", "---", "- x", "a: b", "a #b", "0x1F", "2026-11-22"];
    prop_oneof![
        "[ \\PC]{0,3}[\u{2028}\u{feff}#:,\\[\\]{}'\"\\\\&*!|>%@`~?=<-]{0,3}\\PC{1,9}",
        prop::sample::select(&ODD[..]).prop_map(str::to_owned),
    ]
    .prop_filter("a title is not blank", |title| !title.trim().is_empty())
}

fn description() -> impl Strategy<Value = String> {
    prop_oneof![
        "(\\PC|\r?\n|---\n|\\.\\.\\.\r\n|[\r\t\u{85}\u{feff}]){0,30}",
        "---\n\\PC{0,9}\n---\n"
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        title in title(),
        description in description(),
        other in description(),
        tags in prop::collection::vec(title(), 0..3),
        name in "\\PC{1,9}",
    ) {
        let parent = linked("US-7", Some("123456"));
        let new = NewItem {
            title: Some(&title),
            description: &description,
            tags: &tags,
            creator: &name,
            parent: Some(&parent),
            ..new(ItemKind::Requirement)
        };
        let text = new.text().unwrap();
        let (item, fault) = ItemMeta::read(ItemKind::Requirement, "REQ-1", &text, AT);
        let one_line = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let tags = tags.iter().map(|tag| tag.trim().to_owned()).collect::<Vec<_>>();
        let edges = ['\r', '\n'];
        prop_assert_eq!(fault, None);
        prop_assert_eq!(&item.title, &one_line);
        prop_assert!(tags.iter().all(|tag| item.tags.contains(tag)), "{:?}", item.tags);
        prop_assert_eq!(item.creator.as_deref().unwrap_or_default(), name.trim());
        prop_assert_eq!(item.parent, Some(parent.reference));
        prop_assert_eq!(ItemMeta::description(&text), description.trim_matches(edges));

        let changes = ItemEdit { title: Some(title), description: Some(other.clone()), ..ItemEdit::default() };
        if let Some(text) = edit_item(&item, &text, &changes, AT).unwrap() {
            prop_assert_eq!(ItemMeta::description(&text), other.trim_matches(edges));
            let again = ItemMeta::read(ItemKind::Requirement, "REQ-1", &text, AT).0;
            prop_assert_eq!(again.title, item.title);
        } else {
            prop_assert_eq!(other.trim_matches(edges), description.trim_matches(edges));
        }
    }

    #[test]
    fn a_tombstone_of_any_text_keeps_its_lines(
        text in "(---\r?\n)?(title: x\n|\\PC{0,9}\r?\n|a: [\\[{&*!]?x\n|---\n){0,8}\\PC{0,3}",
    ) {
        let item = read(ItemKind::Epic, &text);
        let stone = tombstone_text(&item, &text, AT, "ann");
        let mut lines = stone.lines();
        for line in text.lines() {
            prop_assert!(lines.any(|kept| kept == line), "{line:?} of {text:?} in {stone:?}");
        }
        prop_assert!(read(ItemKind::Epic, &stone).deleted.is_some(), "{stone}");
    }
}
