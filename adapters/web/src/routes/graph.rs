//! The graph page: the links around an item as a picture and as a table.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::routing::get;
use reqlore_domain::error::Error;
use reqlore_domain::records::answers::details::ItemDetails;
use serde_json::json;

use crate::config::WebConfig;
use crate::form_fields::encode_component;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageResult, public_message};
use crate::session::PageSession;
use crate::svg::graph_walk::{GraphNode, GraphWalk};
use crate::svg::picture_item::MAX_GRAPH_DEPTH;
use crate::svg::{PictureStyle, draw_graph};

const DEFAULT_DEPTH: u32 = 1;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/graph", get(show_graph))
}

#[derive(Template)]
#[template(path = "graph.html")]
struct GraphPage {
    frame: PageFrame,
    /// As the user wrote it; empty for the page without a graph.
    focus: String,
    depth: u32,
    /// Empty for all relations.
    relation: String,
    relations: Vec<String>,
    error: String,
    picture: String,
    nodes: Vec<GraphNode>,
    edges: Vec<EdgeRow>,
}

/// A link in the table: the positions of both nodes, and the relation.
struct EdgeRow {
    from: usize,
    relation: String,
    to: usize,
}

async fn show_graph(session: PageSession) -> PageResult {
    let focus = session.query.text("focus").trim().to_owned();
    let relation = session.query.text("relation").trim().to_owned();
    let depth = session.query.text("depth").parse().unwrap_or(DEFAULT_DEPTH);
    let depth = depth.clamp(1, MAX_GRAPH_DEPTH);
    let title = if focus.is_empty() { "Graph".to_owned() } else { format!("Graph of {focus}") };
    let mut page = GraphPage {
        frame: PageFrame::new(&session, PageSection::Graph, title),
        focus,
        depth,
        relation,
        relations: Vec::new(),
        error: String::new(),
        picture: String::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
    };
    if !page.focus.is_empty() {
        match walk_links(&session, &page).await {
            Ok(walk) => page.add_graph(walk),
            // The form keeps the ID, so that the user can correct it.
            Err(error) => page.error = public_message(&error).into_owned(),
        }
    }
    render(&page)
}

async fn walk_links(session: &PageSession, page: &GraphPage) -> Result<GraphWalk, Error> {
    let relation = Some(page.relation.as_str()).filter(|relation| !relation.is_empty());
    let mut walk = GraphWalk::new(&page.focus, page.depth, relation);
    let mut is_first = true;
    while let Some(reference) = walk.next_reference() {
        let arguments = json!({ "reference": reference });
        match session.call_tool::<ItemDetails>("get_item", arguments).await {
            Ok(answer) => walk.add_answer(Some(&answer)),
            Err(error) if is_first => return Err(error),
            // A link may name a document that the caller cannot read.
            Err(_) => walk.add_answer(None),
        }
        is_first = false;
    }
    Ok(walk)
}

impl GraphPage {
    fn add_graph(&mut self, mut walk: GraphWalk) {
        for index in 0..walk.nodes.len() {
            if walk.nodes[index].title.is_some() {
                let id = &walk.nodes[index].id;
                // The link of the focus opens its page; the others move the focus.
                let href = if index == 0 { self.frame.item(id) } else { self.url_of(id) };
                walk.nodes[index].href = Some(href);
            }
        }
        self.picture = draw_graph(&walk, PictureStyle::Page);
        for edge in walk.edges() {
            for relation in edge.relations {
                self.edges.push(EdgeRow { from: edge.from, relation, to: edge.to });
            }
        }
        self.relations = walk.relations.into_iter().collect();
        self.nodes = walk.nodes;
    }

    /// The graph with another focus.
    fn url_of(&self, id: &str) -> String {
        let mut query = format!("graph?focus={}&depth={}", encode_component(id), self.depth);
        if !self.relation.is_empty() {
            query.extend(["&relation=", &encode_component(&self.relation)]);
        }
        // The picture gets the keyboard focus, so that arrow keys go on from the new item.
        self.frame.url(&query) + "#picture"
    }

    fn node(&self, index: usize) -> &GraphNode {
        &self.nodes[index]
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::error::ErrorKind;

    use super::*;
    use crate::test_support::PageClient;

    fn client() -> PageClient {
        PageClient::new(&["get_item"], |_, arguments| {
            let id = arguments["reference"].as_str().unwrap_or_default();
            if id == "none" {
                return Err(Error::new(ErrorKind::NotFound, "none <b> does not exist"));
            }
            let links = match id {
                "a" => json!([
                    { "relation": "based_on", "id": "b\"&<", "title": "<script>x</script>" },
                    { "relation": "cites", "id": "gone" },
                ]),
                _ => json!([]),
            };
            Ok(json!({
                "item": { "id": id, "title": "<script>x</script>" },
                "links": { "outgoing": links, "incoming": [], "incoming_total": 0 },
            }))
        })
    }

    #[tokio::test]
    async fn graph_page_has_a_picture_and_the_same_links_as_table() {
        let page = client().get("/p/default/graph?focus=a&depth=9").await;
        assert_eq!(page.status(), 200);
        let walk = "href=\"/p/default/graph?focus=b%22%26%3C&amp;depth=3#picture\"";
        let item = "href=\"/p/default/item/b%22%26%3C\"";
        for part in ["<svg", walk, item, "<td>based on</td>", "(missing)", "Open a"] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(!page.body.contains("<script>x") && !page.body.contains("style="), "{}", page.body);
        let filtered = client().get("/p/default/graph?focus=a&relation=cites").await.body;
        assert!(!filtered.contains("<td>based on</td>"), "{filtered}");
        assert!(filtered.contains("<option value=\"cites\" selected>cites</option>"), "{filtered}");
        assert!(filtered.contains("<option value=\"based on\">based on</option>"), "{filtered}");
    }

    #[tokio::test]
    async fn graph_page_without_an_item_keeps_the_form() {
        let empty = client().get("/p/default/graph").await;
        assert!(empty.status() == 200 && empty.body.contains("No item chosen"), "{}", empty.body);
        let unknown = client().get("/p/default/graph?focus=none").await;
        assert_eq!(unknown.status(), 200);
        for part in ["value=\"none\"", "none &#60;b&#62; does not exist", "aria-invalid"] {
            assert!(unknown.body.contains(part), "{part} is missing in {}", unknown.body);
        }
    }
}
