//! Parsing of entities, and the graph and index of entities.

use super::entity_graph::{EntityGraph, EntityLookup, EntityNode, find_kind, sort_tags};
use super::*;
use crate::backlog::reference::looks_like_id;
use crate::document::{Document, DocumentId, DocumentMeta};
use crate::link_values::MAX_LINKS;
use crate::records::edit::{edit_record, unlink_edit};
use crate::records::parse::MAX_TAGS;
use crate::timestamp::Timestamp;

fn parse_valid(name: &str, text: &str) -> Entity {
    let (entity, diagnostic) = Entity::parse(name, text);
    assert_eq!(diagnostic, None, "{name}");
    entity
}

fn certain_links(entity: &Entity) -> Vec<(&str, &str)> {
    let links = entity.links.iter().filter(|link| link.is_certain);
    links.map(|link| (link.relation.as_str(), link.target.as_str())).collect()
}

// S4: AC-002.1, AC-002.3, AC-002.4
#[test]
fn entity_is_parsed_from_its_front_matter() {
    let entity = parse_valid(
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
        certain_links(&entity),
        [
            ("because", "bd-ffffff"),
            ("depends_on", "bd-cccccc"),
            ("depends_on", "bd-dddddd"),
            ("implements", "iss-bbbbbb"),
            ("implements", "REQ-048"),
            ("supersedes", "dec-aaaaaa"),
        ]
    );
    let attributes: Vec<&str> =
        entity.links.iter().filter_map(|link| link.attribute.as_deref()).collect();
    assert_eq!(attributes, ["blocks"]);
}

// S4: AC-002.1
#[test]
fn entity_without_an_id_gets_its_name_as_id() {
    for (name, text, id, kind, title) in [
        ("ideas/old/specs/cli", "# The CLI\n\ntext", "ideas/old/specs/cli", "idea", "The CLI"),
        ("notes/x", "no heading", "notes/x", "notes", "x"),
        ("readme", "", "readme", "note", "readme"),
        ("issues/bd-016416", "---\ntype: Bug\n---\n# T\n", "issues/bd-016416", "bug", "T"),
        ("x/y", "---\nid: rpt-00ff00\n---\n", "rpt-00ff00", "report", "y"),
        ("x/y", "---\nid: 123\n---\n", "123", "x", "y"),
        ("a", "---\ntags: one, two\ntitle: \"two\\nlines\"\n---\n", "a", "note", "two lines"),
    ] {
        let entity = parse_valid(name, text);
        assert_eq!(
            (entity.id.as_str(), entity.kind.as_str(), entity.title.as_str()),
            (id, kind, title),
            "{name}"
        );
    }
}

// Catalogue 46, 67
#[test]
fn entity_with_invalid_front_matter_has_a_diagnostic() {
    for (text, line, message, id) in [
        ("---\nid: dec-1d2c8f\ntags: [a, b\n---\n# T\n", 3, "front matter", "dec-1d2c8f"),
        ("---\nid: dec-1d2c8f\nid: x\n---\n# T\n", 3, "duplicated", "dec-1d2c8f"),
        ("---\ntitle: x\nno end\n# T\n", 1, "closing", "dec-1d2c8f"),
        ("---\nid: ../x\n---\n# T\n", 2, "invalid id", "decisions/dec-1d2c8f"),
        ("---\ntitle: x\nid: \"a\\0b\"\n---\n# T\n", 3, "invalid id", "decisions/dec-1d2c8f"),
        ("---\n- a\n---\n# T\n", 2, "keys", "dec-1d2c8f"),
    ] {
        let (entity, diagnostic) = Entity::parse("decisions/dec-1d2c8f", text);
        let diagnostic = diagnostic.unwrap_or_else(|| panic!("{text:?} has no diagnostic"));
        assert_eq!((diagnostic.line.unwrap(), entity.id.as_str()), (line, id), "{text:?}");
        assert!(diagnostic.message.contains(message), "{diagnostic:?}");
        assert_eq!(entity.kind, "decision");
    }
}

#[test]
fn id_form_has_a_known_prefix_and_digits() {
    for valid in ["dec-1d2c8f", "bd-016416", "cite-0a1b2c3d4e5f", "REQ-048", "EP-1", "ses-00ff"] {
        assert!(looks_like_id(valid), "{valid}");
    }
    for invalid in
        ["dec-", "dec-next", "decision-1d2c8f", "req-1", "REQ-", "REQ-x", "high", "2026-01-04"]
    {
        assert!(!looks_like_id(invalid), "{invalid}");
    }
}

fn build_graph(files: &[(&str, &str)]) -> EntityGraph {
    let mut graph = EntityGraph::default();
    for (name, text) in files {
        graph.insert(EntityNode::from_metadata(&entity_meta(name, text)).unwrap());
    }
    graph
}

fn entity_meta(name: &str, text: &str) -> DocumentMeta {
    let document = Document::new(DocumentId::entity(name), text.to_owned().into());
    DocumentMeta::from_document(&document, Timestamp::default())
}

fn find_one<'a>(graph: &'a EntityGraph, id: &str) -> &'a EntityNode {
    match graph.find(id) {
        EntityLookup::One(node) => node,
        other => panic!("{id}: {other:?}"),
    }
}

#[test]
fn kind_filter_takes_plurals_and_prefixes_of_known_kinds() {
    let stored = ["specs", "guide"].map(|kind| (kind.to_owned(), 1)).into();
    for (given, kind) in [
        ("decision", "decision"),
        ("Decisions", "decision"),
        ("DEC", "decision"),
        ("bd", "issue"),
        ("specs", "specs"),
        ("guides", "guide"),
    ] {
        assert_eq!(find_kind(&stored, given).as_deref(), Ok(kind), "{given}");
    }
    let error = find_kind(&stored, "adr").unwrap_err();
    assert_eq!(
        error,
        "kind: \"adr\" is not a kind; use one of agent, citation, decision, guide, idea, issue, \
         report, session, source, specs"
    );
}

#[test]
fn tags_sort_without_regard_to_case_and_accents() {
    let tags = ["zebra", "Écran", "disk", "Disk", "file", "éclair", "API"];
    let sorted = sort_tags(tags.map(|tag| (tag.to_owned(), 1)).into());
    let sorted: Vec<&str> = sorted.iter().map(|(tag, _)| tag.as_str()).collect();
    assert_eq!(sorted, ["API", "Disk", "disk", "éclair", "Écran", "file", "zebra"]);
}

// Catalogue 46
#[test]
fn entities_with_the_same_id_are_found_by_name() {
    let text = "---\nid: dec-aaaaaa\n---\n";
    let graph = build_graph(&[("a/x", text), ("b/x", text)]);
    assert_eq!(graph.find("dec-aaaaaa"), EntityLookup::Several(vec!["a/x", "b/x"]));
    assert_eq!(find_one(&graph, "b/x").name, "b/x");
    assert_eq!(graph.similar_id("DEC-AAAAAA"), Some("dec-aaaaaa"));
    assert_eq!(graph.find("dec-000000"), EntityLookup::Nothing);
}

#[test]
fn links_and_tags_of_generated_file_are_limited() {
    let list = |prefix: &str| {
        let ids = (0..5_000).map(|i| format!("{prefix}-{i:06x}"));
        ids.collect::<Vec<_>>().join(", ")
    };
    let text = format!("---\nrefs: [{}]\ntags: [{}]\n---\n", list("dec"), list("t"));
    let (entity, diagnostic) = Entity::parse("a", &text);
    assert_eq!((entity.links.len(), entity.tags.len()), (MAX_LINKS, MAX_TAGS));
    assert!(diagnostic.unwrap().message.contains("2000 links"));
    // An edit must not remove the links that are ignored.
    let unlink = unlink_edit(&entity, &["dec-000001".to_owned()]);
    let error = edit_record(&entity, &text, &unlink, Timestamp::default()).unwrap_err();
    assert!(error.contains("by hand"), "{error}");
}

#[test]
fn values_of_link_keys_are_read_in_any_spelling() {
    for (value, targets) in [
        ("\"[[REQ-001]]\"", "REQ-001"),
        ("[[REQ-001]]", "REQ-001"),
        ("REQ-001, REQ-002", "REQ-001 REQ-002"),
        ("REQ-001; dec-aaaaaa", "REQ-001 dec-aaaaaa"),
        ("dec-aaaaaa.md", "dec-aaaaaa"),
        ("../decisions/dec-aaaaaa.md", "decisions/dec-aaaaaa"),
        ("[dec-aaaaaa.md, iss-bbbbbb]", "dec-aaaaaa iss-bbbbbb"),
        ("\n  - \"[[dec-aaaaaa|Why]]\"\n  - \"[[REQ-1#Notes]]\"", "dec-aaaaaa REQ-1"),
        ("\"[Why](decisions/dec-aaaaaa.md)\"", "decisions/dec-aaaaaa"),
        ("req-1", "REQ-001"),
        ("DEC-AAAAAA", "dec-aaaaaa"),
        ("\"[[REQ-001-guest-3f9a1c]]\"", "REQ-001"),
        ("\"`REQ-001`\"", "REQ-001"),
        ("REQ-001 because of the law", "REQ-001"),
        ("both dec-aaaaaa and REQ-2", "dec-aaaaaa REQ-002"),
        ("[{id: \"[[dec-aaaaaa]]\", type: blocks}]", "dec-aaaaaa"),
        ("[dec-aaaaaa: why]", "dec-aaaaaa"),
        ("billing, checkout", "billing checkout"),
        ("money:2", "money:2"),
        ("https://example.org/REQ-001", ""),
        ("https://example.org/REQ-001.md", ""),
        ("", ""),
    ] {
        let text = format!("---\nid: dec-000001\naffects: {value}\n---\n");
        let entity = parse_valid("a", &text);
        let found: Vec<&str> = entity.links.iter().map(|link| &*link.target).collect();
        assert_eq!(found.join(" "), targets, "{text}");
        // Without its first target, the others stay.
        let Some(first) = entity.links.first() else { continue };
        let unlink = unlink_edit(&entity, std::slice::from_ref(&first.target));
        let edited = edit_record(&entity, &text, &unlink, Timestamp::default()).unwrap().unwrap();
        let links = parse_valid("a", &edited).links;
        let rest: Vec<&str> = links.iter().map(|link| &*link.target).collect();
        assert_eq!(rest, found[1..], "{edited}");
    }
}

#[test]
fn value_of_a_known_relation_that_names_nothing_is_reported() {
    for value in ["the billing module", "{a: b}", "\"REQ 1\"", "12", "\"? ?\"", "[x y]"] {
        let text = format!("---\nid: dec-000001\naffects: {value}\n---\n");
        let (entity, problem) = Entity::parse("a", &text);
        assert_eq!(entity.links, [], "{text}");
        let problem = problem.unwrap_or_else(|| panic!("{text} has no diagnostic"));
        assert_eq!(problem.line, Some(3), "{text}");
        assert!(problem.message.contains("names nothing; write an ID like"), "{problem:?}");
    }
    // Another key may have any text, also one with an id in it.
    for value in ["the billing module", "see REQ-001", "{a: b}", "a, b", "REQ-001, REQ-002"] {
        let text = format!("---\nid: dec-000001\nsummary: {value}\n---\n");
        assert_eq!(parse_valid("a", &text).links, [], "{text}");
    }
    for (value, count) in [("[REQ-001, dec-aaaaaa]", 2), ("\"[[REQ-001]]\"", 1), ("high", 1)] {
        let text = format!("---\nid: dec-000001\nblocked: {value}\n---\n");
        assert_eq!(parse_valid("a", &text).links.len(), count, "{text}");
    }
}

#[test]
fn time_of_an_entity_that_cannot_be_read_is_reported() {
    for key in ["date", "created_at", "updated_at"] {
        for value in ["26.11.2026", "yesterday", "2026-13-01", "11/26/2026", "2026"] {
            let text = format!("---\nid: dec-000001\n{key}: {value}\n---\n");
            let (entity, problem) = Entity::parse("a", &text);
            let problem = problem.unwrap_or_else(|| panic!("{text} has no diagnostic"));
            assert_eq!((entity.updated_at, problem.line), (None, Some(3)), "{text}");
            assert!(problem.message.contains("is not a time; write it like 2026-"), "{problem:?}");
        }
        for value in ["2026-11-26 09:00", "\"2026-11-26T09:00\"", "2026-11-26 11:00 +02:00"] {
            let text = format!("---\nid: dec-000001\n{key}: {value}\n---\n");
            let time = parse_valid("a", &text).updated_at.unwrap();
            assert_eq!(time.to_rfc3339(), "2026-11-26T09:00:00Z", "{text}");
        }
    }
    // Another time takes its place, and the problem is reported all the same.
    let (entity, problem) = Entity::parse("a", "---\nupdated_at: now\ndate: 2026-11-26\n---\n");
    assert!(entity.updated_at.is_some() && problem.is_some());
}
