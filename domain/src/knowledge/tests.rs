//! Entities and their graph, as tables.

use super::*;
use crate::document::{Document, DocumentId, DocumentMeta, Version};
use crate::timestamp::Timestamp;

fn read(name: &str, text: &str) -> Entity {
    let (entity, fault) = Entity::read(name, text);
    assert_eq!(fault, None, "{name}");
    entity
}

fn links(entity: &Entity) -> Vec<(&str, &str)> {
    let links = entity.links.iter().filter(|link| link.certain);
    links.map(|link| (link.relation.as_str(), link.target.as_str())).collect()
}

// S4: AC-002.1, AC-002.3, AC-002.4
#[test]
fn an_entity_is_read_from_its_front_matter() {
    let entity = read(
        "decisions/dec-1d2c8f",
        "\u{feff}---\r\nid: dec-1d2c8f\r\ntype: decision\r\ntitle: 'ADR-001: Storage'\r\n\
         status: accepted\r\ntags: [storage, dx]\r\nlabels:\r\n- dx\r\n- '1.0'\r\n\
         supersedes: dec-aaaaaa\r\nimplements: [iss-bbbbbb, REQ-048]\r\n\
         depends_on:\r\n- id: bd-cccccc\r\n  type: blocks\r\n- id: bd-dddddd\r\n\
         because:\r\n  bd-ffffff: it came first\r\n  note: no id\r\n\
         parent: ''\r\npriority: 2\r\ncreated_by: dec-eeeeee\r\n---\r\n\r\n# Heading\r\n",
    );
    assert_eq!(
        (entity.id.as_str(), entity.kind.as_str(), entity.title.as_str()),
        ("dec-1d2c8f", "decision", "ADR-001: Storage")
    );
    assert_eq!(entity.status.as_deref(), Some("accepted"));
    assert_eq!(entity.tags, ["storage", "dx", "1.0"]);
    assert_eq!(
        links(&entity),
        [
            ("because", "bd-ffffff"),
            ("blocks", "bd-cccccc"),
            ("depends_on", "bd-dddddd"),
            ("implements", "iss-bbbbbb"),
            ("implements", "REQ-048"),
            ("supersedes", "dec-aaaaaa"),
        ]
    );
}

// S4: AC-002.1
#[test]
fn a_file_without_an_id_is_an_entity_all_the_same() {
    for (name, text, id, kind, title) in [
        ("ideas/old/specs/cli", "# The CLI\n\ntext", "ideas/old/specs/cli", "idea", "The CLI"),
        ("notes/x", "no heading", "notes/x", "notes", "x"),
        ("readme", "", "readme", "note", "readme"),
        ("issues/bd-016416", "---\ntype: Bug\n---\n# T\n", "issues/bd-016416", "bug", "T"),
        ("x/y", "---\nid: rpt-00ff00\n---\n", "rpt-00ff00", "report", "y"),
        ("x/y", "---\nid: 123\n---\n", "123", "x", "y"),
        ("a", "---\ntags: one, two\ntitle: \"two\\nlines\"\n---\n", "a", "note", "two lines"),
    ] {
        let entity = read(name, text);
        assert_eq!(
            (entity.id.as_str(), entity.kind.as_str(), entity.title.as_str()),
            (id, kind, title),
            "{name}"
        );
    }
}

// Catalogue 46, 67
#[test]
fn a_broken_front_matter_is_a_fault_with_its_line_and_no_more() {
    for (text, line, says, id) in [
        ("---\nid: dec-1d2c8f\ntags: [a, b\n---\n# T\n", 3, "front matter", "dec-1d2c8f"),
        ("---\nid: dec-1d2c8f\nid: x\n---\n# T\n", 3, "duplicated", "dec-1d2c8f"),
        ("---\ntitle: x\nno end\n# T\n", 1, "closing", "dec-1d2c8f"),
        ("---\nid: ../x\n---\n# T\n", 2, "invalid id", "decisions/dec-1d2c8f"),
        ("---\ntitle: x\nid: \"a\\0b\"\n---\n# T\n", 3, "invalid id", "decisions/dec-1d2c8f"),
        ("---\n- a\n---\n# T\n", 2, "keys", "dec-1d2c8f"),
    ] {
        let (entity, fault) = Entity::read("decisions/dec-1d2c8f", text);
        let fault = fault.unwrap_or_else(|| panic!("{text:?} has no fault"));
        assert_eq!((fault.line.unwrap(), entity.id.as_str()), (line, id), "{text:?} {fault:?}");
        assert!(fault.message.contains(says), "{fault:?}");
        assert_eq!(entity.kind, "decision");
    }
}

#[test]
fn what_looks_like_an_id() {
    for yes in ["dec-1d2c8f", "bd-016416", "cite-0a1b2c3d4e5f", "REQ-048", "EP-1", "ses-00ff"] {
        assert!(looks_like_id(yes), "{yes}");
    }
    for no in
        ["dec-", "dec-next", "decision-1d2c8f", "req-1", "REQ-", "REQ-x", "high", "2026-01-04"]
    {
        assert!(!looks_like_id(no), "{no}");
    }
}

fn graph(files: &[(&str, &str)]) -> EntityGraph {
    let mut graph = EntityGraph::default();
    for (name, text) in files {
        put(&mut graph, name, text);
    }
    graph
}

fn put(graph: &mut EntityGraph, name: &str, text: &str) {
    let (entity, fault) = Entity::read(name, text);
    let version = Version::of(text.as_bytes());
    graph.put(EntityNode { name: name.to_owned(), entity: entity.into(), version, fault });
}

fn one<'a>(graph: &'a EntityGraph, id: &str) -> &'a EntityNode {
    match graph.find(id) {
        EntityLookup::One(node) => node,
        other => panic!("{id}: {other:?}"),
    }
}

// S4: AC-004.1, AC-004.3
#[test]
fn tags_are_counted_in_order_and_follow_every_change() {
    let mut inventory = EntityIndex::default();
    let put = |inventory: &mut EntityIndex, name: &str, text: &str| {
        let document = Document::new(DocumentId::entity(name), text.to_owned().into());
        inventory.put(&DocumentMeta::of(&document, Timestamp::default()));
    };
    put(&mut inventory, "issues/a", "---\ntags: [z, a]\n---\n");
    put(&mut inventory, "issues/b", "---\nlabels: [a]\n---\n");
    put(&mut inventory, "ideas/c", "---\ntags: [a]\n---\n");
    put(&mut inventory, "ideas/d", "");
    let shown = |inventory: &EntityIndex, kind| -> Vec<(String, usize)> {
        inventory.tags(kind).iter().map(|tag| (tag.tag.to_owned(), tag.count)).collect()
    };
    assert_eq!(shown(&inventory, None), [("a".to_owned(), 3), ("z".to_owned(), 1)]);
    assert_eq!(shown(&inventory, Some("idea")), [("a".to_owned(), 1)]);
    assert_eq!(inventory.untagged(None), ["ideas/d"]);
    assert_eq!(inventory.untagged(Some("issue")), Vec::<String>::new());
    put(&mut inventory, "issues/a", "---\ntags: [b]\n---\n");
    inventory.remove("ideas/c");
    assert_eq!(shown(&inventory, None), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    assert_eq!(shown(&inventory, Some("idea")), []);
    for name in ["issues/a", "issues/b", "ideas/d"] {
        inventory.remove(name);
    }
    let nothing = EntityIndex::default();
    assert_eq!(format!("{inventory:?}"), format!("{nothing:?}"), "no word is kept");
}

// Catalogue 46
#[test]
fn two_files_with_one_id_are_told_apart_by_their_names() {
    let text = "---\nid: dec-aaaaaa\n---\n";
    let graph = graph(&[("a/x", text), ("b/x", text)]);
    assert_eq!(graph.find("dec-aaaaaa"), EntityLookup::Several(vec!["a/x", "b/x"]));
    assert_eq!(one(&graph, "b/x").name, "b/x");
    assert_eq!(graph.similar("DEC-AAAAAA"), ["dec-aaaaaa"]);
    assert_eq!(graph.find("dec-000000"), EntityLookup::Nothing);
    let mut inventory = EntityIndex::default();
    for name in ["a/x", "b/x", "dec-bbbbbb"] {
        inventory.put(&DocumentMeta::of(
            &Document::new(DocumentId::entity(name), text.into()),
            Timestamp::default(),
        ));
    }
    assert_eq!(inventory.duplicates(), [("dec-aaaaaa", vec!["a/x", "b/x", "dec-bbbbbb"])]);
    assert_eq!(inventory.similar("DEC-AAAAAA"), ["dec-aaaaaa"]);
}
