//! Tests of the text that is written, and of edits of files written by hand.

use super::*;

const AT: Timestamp = Timestamp(1_764_000_000 * 1_000_000_000);
const LATER: Timestamp = Timestamp(1_764_000_060 * 1_000_000_000);
/// A file as Ixchel's own tools write it.
const IMPORTED: &str = "---\n# imported\nid: bd-025b15\ntitle: 'Replace: the toolbar'\nstatus: closed\n\
                        priority: 3\ncreated_at: 2026-01-04T02:35:21.978271+00:00\n\
                        parent: bd-0cb44a # the epic\nlabels:\n- ui\ndepends_on:\n- id: bd-6af4f1\n  \
                        type: blocks\nrelated: [REQ-7, dec-1d2c8f]\n---\n\nUse a group.\n";

fn new_fields(links: &[RelationTargets], tags: &[String]) -> RecordEdit {
    RecordEdit {
        title: Some("Files first".to_owned()),
        body: Some("Because of Git.".to_owned()),
        status: Some("accepted".to_owned()),
        tags: Some(tags.to_vec()),
        links: links.to_vec(),
        ..RecordEdit::default()
    }
}

fn text_of(kind: EntityKind, fields: &RecordEdit) -> String {
    let id = &kind.id("1d2c8f");
    NewRecord { kind: kind.row(), id, fields, creator: "ann", created_at: AT }.text().unwrap()
}

fn relation(relation: &str, targets: &[&str]) -> RelationTargets {
    let targets = targets.iter().map(|&target| target.to_owned()).collect();
    RelationTargets { relation: relation.to_owned(), targets }
}

fn edit(text: &str, edit: &RecordEdit) -> Result<Option<String>, String> {
    edit_record(&Entity::parse("x/y", text).0, text, edit, LATER)
}

fn edit_links(text: &str, links: &[RelationTargets]) -> Result<Option<String>, String> {
    edit(text, &RecordEdit { links: links.to_vec(), ..RecordEdit::default() })
}

#[test]
fn new_entity_has_only_keys_that_cannot_be_derived() {
    let links = [relation("affects", &["REQ-048", "dec-aaaaaa"]), relation("none", &[])];
    let tags = ["storage".to_owned(), " storage ".to_owned()];
    assert_eq!(
        text_of(EntityKind::parse("decision").unwrap(), &new_fields(&links, &tags)),
        "---\nid: dec-1d2c8f\ntitle: Files first\nstatus: accepted\ntags: [storage]\n\
         affects: [REQ-048, dec-aaaaaa]\ncreated_at: 2025-11-24T16:00:00Z\ncreated_by: ann\n\
         ---\n\nBecause of Git.\n"
    );
    let short = RecordEdit { status: None, body: None, ..new_fields(&[], &[]) };
    assert_eq!(
        text_of(EntityKind::parse("decision").unwrap(), &short),
        "---\nid: dec-1d2c8f\ntitle: Files first\ncreated_at: 2025-11-24T16:00:00Z\n\
         created_by: ann\n---\n"
    );
}

#[test]
fn new_entity_of_each_kind_reads_as_its_kind() {
    for kind in EntityKind::all() {
        let id = kind.document_id("1d2c8f");
        let text = text_of(kind, &new_fields(&[], &[]));
        let (entity, diagnostic) = Entity::parse(&id.name, &text);
        assert_eq!((entity.kind.as_str(), diagnostic), (kind.name(), None));
        assert_eq!(entity.id, kind.id("1d2c8f"));
        assert!(crate::knowledge::is_entity_id(&entity.id), "{}", entity.id);
        assert_eq!(id.check(), Ok(()));
    }
}

#[test]
fn new_entity_with_any_text_reads_back_unchanged() {
    let texts = [
        "plain",
        "a: b # c",
        "---",
        "'quoted' \"twice\"",
        "[x, y]",
        "yes",
        "2026-01-04",
        "é🦀 – \u{200b}\u{a0}x",
        "*bold* & <b>",
        "null",
        "x\\ty",
        "- item",
    ];
    for text in texts {
        let body = format!("---\nid: dec-ffffff\n---\n\n# {text}\r\n\n    code\n\ttab {text}");
        let tags = [text.to_owned(), "b, c".to_owned()];
        let links = [relation("affects", &["REQ-048"])];
        let fields = RecordEdit {
            title: Some(text.to_owned()),
            body: Some(body.clone()),
            status: Some(text.to_owned()),
            ..new_fields(&links, &tags)
        };
        let written = text_of(EntityKind::parse("decision").unwrap(), &fields);
        let (entity, diagnostic) = Entity::parse("x/y", &written);
        assert_eq!(diagnostic, None, "{written}");
        assert_eq!(entity.id, "dec-1d2c8f");
        assert_eq!(
            (entity.title.as_str(), entity.status.as_deref()),
            (&*one_line(text), Some(text))
        );
        assert_eq!(entity.tags, unique_tags(&tags));
        assert_eq!(entity.links.len(), 1);
        assert_eq!(front_matter::body(&written), body);
        // The same values again change nothing.
        assert_eq!(edit_record(&entity, &written, &fields, LATER), Ok(None), "{written}");
    }
}

#[test]
fn update_keeps_unknown_keys_comments_and_order() {
    let change = RecordEdit {
        title: Some("Replace the menu".to_owned()),
        status: Some("open".to_owned()),
        tags: Some(vec!["ui".to_owned(), "menu".to_owned()]),
        links: vec![relation("parent", &["bd-111111"]), relation("affects", &["REQ-048"])],
        ..RecordEdit::default()
    };
    let expected = IMPORTED
        .replace("'Replace: the toolbar'", "Replace the menu")
        .replace("closed", "open")
        .replace("- ui\n", "- ui\n- menu\n")
        .replace("bd-0cb44a", "bd-111111")
        .replace(
            "dec-1d2c8f]\n",
            "dec-1d2c8f]\naffects: [REQ-048]\nupdated_at: 2025-11-24T16:01:00Z\n",
        );
    assert_eq!(edit(IMPORTED, &change).unwrap().unwrap(), expected);
}

#[test]
fn update_of_body_keeps_front_matter() {
    let change = RecordEdit { body: Some("New\n\ntext\n".to_owned()), ..RecordEdit::default() };
    let edited = edit(IMPORTED, &change).unwrap().unwrap();
    let expected = IMPORTED
        .replace("Use a group.", "New\n\ntext")
        .replace("8f]\n", "8f]\nupdated_at: 2025-11-24T16:01:00Z\n");
    assert_eq!(edited, expected);
    let plain = edit("# Heading\n", &change).unwrap().unwrap();
    assert_eq!(plain, "---\nupdated_at: 2025-11-24T16:01:00Z\n---\n\nNew\n\ntext\n");
}

#[test]
fn update_of_links_replaces_only_named_relations() {
    for (links, old, new) in [
        (relation("related", &["REQ-007"]), "[REQ-7, dec-1d2c8f]", "[REQ-7]"),
        (relation("related", &["dec-aaaaaa"]), "[REQ-7, dec-1d2c8f]", "[dec-aaaaaa]"),
        (relation("related", &[]), "related: [REQ-7, dec-1d2c8f]\n", ""),
        (relation("parent", &[]), "parent: bd-0cb44a # the epic\n", ""),
        // The type of a map is not the relation.
        (relation("blocks", &["bd-6af4f1"]), "dec-1d2c8f]\n", "dec-1d2c8f]\nblocks: [bd-6af4f1]\n"),
        (
            relation("depends_on", &["bd-6af4f1", "bd-111111"]),
            "depends_on:\n- id: bd-6af4f1\n  type: blocks\n",
            "depends_on: [{id: bd-6af4f1, type: blocks}, bd-111111]\n",
        ),
        (relation("depends_on", &[]), "depends_on:\n- id: bd-6af4f1\n  type: blocks\n", ""),
    ] {
        let edited = edit_links(IMPORTED, &[links]).unwrap().unwrap();
        let edited = edited.replace("updated_at: 2025-11-24T16:01:00Z\n", "");
        assert_eq!(edited, IMPORTED.replace(old, new));
    }
    let same =
        [relation("related", &["DEC-1d2c8f", "REQ-007"]), relation("depends_on", &["bd-6af4f1"])];
    assert_eq!(edit_links(IMPORTED, &same), Ok(None));
}

#[test]
fn update_that_would_lose_content_is_rejected() {
    let remarks = "---\nrelated:\n- dec-1d2c8f: why\n  dec-cccccc: why\n- dec-aaaaaa\n---\n";
    let error = edit_links(remarks, &[relation("related", &["dec-bbbbbb"])]).unwrap_err();
    assert!(error.contains("related: its value is not a list of IDs"), "{error}");
    let error = edit_links(remarks, &[relation("related", &["dec-aaaaaa"])]).unwrap_err();
    assert!(error.contains("related: the form of dec-1d2c8f is unknown"), "{error}");
    let error = edit_links(IMPORTED, &[relation("priority", &["bd-111111"])]).unwrap_err();
    let problem = "priority: its value is not a list of IDs; edit the file by hand";
    assert_eq!(error, problem);
    let broken = "---\nid: [\n---\n\ntext\n";
    let change = RecordEdit { status: Some("x".to_owned()), ..RecordEdit::default() };
    let error = edit(broken, &change).unwrap_err();
    assert!(error.contains("can't be edited safely"), "{error}");
}

#[test]
fn relation_that_is_metadata_or_not_a_word_is_rejected() {
    for good in ["affects", "depends_on", "Related-To", "a1"] {
        assert_eq!(check_relation(good), Ok(()));
    }
    for bad in ["", "id", "tags", "updated_at", "a b", "a:", "1a", "é", "a\nb", &"x".repeat(65)] {
        assert!(check_relation(bad).is_err(), "{bad}");
    }
}
