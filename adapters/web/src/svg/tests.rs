//! Pictures: limits, layout and hostile text.

use reqlore_domain::records::answers::details::ItemDetails;
use reqlore_domain::records::answers::lists::ProgressView;
use serde_json::{Value, json};

use super::*;
use crate::test_support::complete;

fn item(reference: &str, parent: Option<&str>) -> PictureItem {
    PictureItem {
        reference_id: reference.to_owned(),
        title: format!("Title of {reference}"),
        status: Some("Draft".to_owned()),
        parent: parent.map(str::to_owned),
        ..PictureItem::default()
    }
}

fn backlog(epics: usize, stories: usize) -> Vec<PictureItem> {
    let mut items: Vec<_> = (0..epics).map(|epic| item(&format!("EP-{epic}"), None)).collect();
    for epic in 0..epics {
        let parent = format!("EP-{epic}");
        items.extend((0..stories).map(|story| item(&format!("US-{epic}-{story}"), Some(&parent))));
    }
    items
}

fn count(svg: &str, part: &str) -> usize {
    svg.matches(part).count()
}

/// The answer of `get_item`, with links as triples of relation, ID and title.
fn answer(id: &str, outgoing: &[(&str, &str)], incoming: &[(&str, &str)]) -> ItemDetails {
    let links = |list: &[(&str, &str)]| -> Vec<Value> {
        let link = |(relation, id): &(&str, &str)| json!({ "relation": relation, "id": id, "title": format!("Title of {id}") });
        list.iter().map(link).collect()
    };
    let (outgoing, incoming) = (links(outgoing), links(incoming));
    let total = incoming.len();
    let links = json!({ "outgoing": outgoing, "incoming": incoming, "incoming_total": total });
    details(json!({ "item": { "id": id, "title": format!("Title of {id}") }, "links": links }))
}

fn details(answer: Value) -> ItemDetails {
    serde_json::from_value(complete(answer)).unwrap()
}

fn walk(answers: &[ItemDetails], depth: u32, relation: Option<&str>) -> GraphWalk {
    let mut walk = GraphWalk::new("a", depth, relation);
    while let Some(id) = walk.next_reference() {
        walk.add_answer(answers.iter().find(|answer| answer.item.id() == id));
    }
    walk
}

fn columns(walk: &GraphWalk) -> Vec<(&str, i32)> {
    walk.nodes.iter().map(|node| (node.id.as_str(), node.column)).collect()
}

#[test]
fn tree_over_the_limit_counts_the_rest_per_parent() {
    let svg = draw_tree(&backlog(10, 100), 3, PictureStyle::File);
    // 290 places for the stories of 10 epics.
    assert_eq!(count(&svg, "class=\"id\""), 300);
    assert_eq!(count(&svg, ">+ 71 more<"), 10);
    let svg = draw_tree(&backlog(400, 1), 3, PictureStyle::File);
    assert_eq!((count(&svg, "class=\"id\""), count(&svg, ">+ 100 more<")), (300, 1));
    assert_eq!(count(&svg, "(+ 1 more)"), 300, "children without a place");
}

#[test]
fn tree_with_a_depth_counts_the_levels_below() {
    let svg = draw_tree(&backlog(2, 5), 1, PictureStyle::File);
    assert_eq!((count(&svg, "class=\"id\""), count(&svg, "(+ 5 more)")), (2, 2));
}

#[test]
fn tree_focus_keeps_the_item_and_its_children() {
    let mut items = backlog(2, 2);
    items.push(item("REQ-1", Some("US-1-0")));
    let kept: Vec<_> =
        tree_focus(items, "EP-1").into_iter().map(|item| item.reference_id).collect();
    assert_eq!(kept, ["EP-1", "US-1-0", "US-1-1", "REQ-1"]);
}

#[test]
fn progress_bar_has_done_and_active_segments() {
    let mut epic = item("EP-1", None);
    epic.progress = Some(ProgressView { done: Some(1), met: None, total: 4 });
    let mut story = item("US-1", Some("EP-1"));
    story.status = Some("In Progress".to_owned());
    let svg = draw_progress(&[epic], &[story], PictureStyle::File);
    assert!(svg.contains("x=\"16\"") && svg.contains("1/4 done, 1 in progress"), "{svg}");
    assert_eq!(count(&svg, "width=\"24\" height=\"8\""), 2, "a quarter each: {svg}");
    assert!(svg.contains("1 of 4 user stories are done."), "{svg}");
}

#[test]
fn graph_follows_outgoing_links_right_and_incoming_left() {
    let answers = [
        answer("a", &[("implements", "b")], &[("mentions", "c")]),
        answer("b", &[("blocks", "d")], &[("mentions", "a"), ("mentions", "other")]),
        answer("c", &[("mentions", "a"), ("mentions", "b"), ("cites", "z")], &[("affects", "e")]),
    ];
    let found = walk(&answers, 2, None);
    assert_eq!(columns(&found), [("a", 0), ("b", 1), ("c", -1), ("d", 2), ("e", -2)]);
    let edges = found.edges();
    let ends: Vec<_> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    assert_eq!(ends, [(0, 1), (1, 3), (2, 0), (2, 1), (4, 2)]);
    assert_eq!(found.edges()[0].relations.iter().collect::<Vec<_>>(), ["implements", "mentions"]);
    let filtered = walk(&answers, 2, Some("Mentions"));
    assert_eq!(columns(&filtered), [("a", 0), ("c", -1)]);
    assert!(filtered.relations.contains("affects"), "{:?}", filtered.relations);
    let svg = draw_graph(&found, PictureStyle::File);
    assert_eq!((count(&svg, "class=\"node"), count(&svg, "class=\"arrow\"")), (5, 5));
}

#[test]
fn graph_reads_hierarchy_and_missing_targets() {
    let story = json!({
        "item": { "reference_id": "US-001", "title": "Pay", "epic": "EP-001" },
        "children": [{ "reference_id": "REQ-001", "title": "Mail", "status": "Draft" }],
        "relationships": {
            "outgoing": [{ "type": "blocks", "reference_id": "US-009" }],
            "incoming": [], "incoming_total": 3,
        },
    });
    let mut found = GraphWalk::new("us-1", 1, None);
    assert_eq!(found.next_reference().as_deref(), Some("us-1"));
    found.add_answer(Some(&details(story)));
    assert_eq!(found.next_reference().as_deref(), Some("EP-001"), "only for its title");
    let epic = json!({ "item": { "reference_id": "EP-001", "title": "Shop" } });
    found.add_answer(Some(&details(epic)));
    assert_eq!(found.next_reference(), None);
    let expected = [("US-001", 0), ("EP-001", 1), ("US-009", 1), ("REQ-001", -1)];
    assert_eq!(columns(&found), expected);
    assert_eq!(found.hidden.get(&-1), Some(&3));
    let svg = draw_graph(&found, PictureStyle::File);
    for part in ["(missing)", "Shop", "+ 3 more", "user story", "REQ-001 · Draft"] {
        assert!(svg.contains(part), "{part} is missing in {svg}");
    }
}

#[test]
fn graph_over_the_limit_counts_the_rest() {
    let ids: Vec<String> = (0..400).map(|number| format!("x{number:03}")).collect();
    let links: Vec<_> = ids.iter().map(|id| ("cites", id.as_str())).collect();
    let found = walk(&[answer("a", &links, &[])], 3, None);
    assert_eq!((found.nodes.len(), found.hidden.get(&1)), (300, Some(&101)));
    assert!(draw_graph(&found, PictureStyle::File).contains("+ 101 more"));
}

#[test]
fn graph_sorting_removes_crossings() {
    // Each column lists its nodes in the order that crosses all edges.
    let answers = [
        answer("a", &[("r", "b1"), ("r", "b2"), ("r", "b3")], &[]),
        answer("b1", &[("r", "c3")], &[]),
        answer("b2", &[("r", "c2")], &[]),
        answer("b3", &[("r", "c1")], &[]),
        answer("c3", &[("r", "d3")], &[]),
    ];
    let mut found = walk(&answers, 2, None);
    found.nodes[4..].reverse();
    let svg = draw_graph(&found, PictureStyle::File);
    let middle = |id: &str| {
        let before = svg.split(&format!(">{id}<")).next().unwrap();
        let y = before.rsplit("y=\"").next().unwrap().split('"').next().unwrap();
        y.parse::<usize>().unwrap()
    };
    for (from, to) in [("b1", "c1"), ("b2", "c2"), ("b3", "c3")] {
        assert_eq!(middle(from), middle(to), "{svg}");
    }
}

#[test]
fn picture_escapes_hostile_text_in_all_places() {
    let mut hostile = item("EP-1\"><script>", None);
    hostile.title = "</title><script>alert(1)</script>\u{1b}[2J\u{202e}&\"'\u{0}".to_owned();
    hostile.status = Some("\"><script>".to_owned());
    hostile.href = Some("x\"onload=\"y".to_owned());
    hostile.progress = Some(ProgressView { done: Some(usize::MAX), met: None, total: 1 });
    let items = [hostile];
    let graph_answer = answer("a", &[("\"><script>", "</svg><script>")], &[]);
    let pictures = [
        draw_tree(&items, 3, PictureStyle::Page),
        draw_progress(&items, &items, PictureStyle::Page),
        draw_graph(&walk(&[graph_answer], 1, None), PictureStyle::Page),
    ];
    for svg in pictures {
        assert!(!svg.contains("<script") && !svg.contains("\"onload"), "{svg}");
        assert!(!svg.contains(['\u{1b}', '\u{202e}', '\u{0}']), "{svg}");
        assert!(!svg.contains("style"), "pages have a stylesheet: {svg}");
    }
}

#[test]
fn picture_cuts_long_titles_at_the_width() {
    let mut long = item("EP-1", None);
    long.title = "界".repeat(500);
    let svg = draw_tree(&[long], 3, PictureStyle::File);
    let shown = svg.matches('界').count();
    assert!(svg.contains('…') && (20..=40).contains(&shown), "{shown}");
}

#[test]
fn picture_file_has_light_and_dark_colours() {
    let svg = draw_tree(&[], 3, PictureStyle::File);
    assert!(svg.contains("No items yet.") && svg.contains("prefers-color-scheme: dark"), "{svg}");
    assert!(!svg.contains("var("), "{svg}");
}
