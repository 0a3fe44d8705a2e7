//! Collects the neighbourhood of an item from answers of `get_item`, without calling it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::svg::picture_item::MAX_NODES;

/// A node of the relation graph.
#[derive(Debug, Clone, Default)]
pub struct GraphNode {
    pub id: String,
    /// Absent if the document does not exist.
    pub title: Option<String>,
    pub status: Option<String>,
    /// Distance from the focus: negative for documents that link to it, directly or not.
    pub column: i32,
    /// The link of its box; relative or absolute.
    pub href: Option<String>,
    /// True for a parent that was named without its title.
    is_unread: bool,
}

/// The relations of one node to another.
#[derive(Debug, Clone)]
pub struct GraphEdge {
    pub from: usize,
    pub to: usize,
    /// Such as `implements` or `user story`, sorted.
    pub relations: BTreeSet<String>,
}

/// Follows outgoing links to the right and incoming links to the left, breadth first.
///
/// While [`Self::next_reference`] returns a reference, call `get_item` with it and pass the answer
/// to [`Self::add_answer`].
#[derive(Debug)]
pub struct GraphWalk {
    /// The focus is the first. Nodes of one column are in the order of the links.
    pub nodes: Vec<GraphNode>,
    /// Links that the picture leaves out, by the column of their other end.
    pub hidden: BTreeMap<i32, usize>,
    /// The relations of all links, also of those that the filter excludes.
    pub relations: BTreeSet<String>,
    depth: u32,
    filter: Option<String>,
    indexes: HashMap<String, usize>,
    edges: BTreeMap<(usize, usize), BTreeSet<String>>,
    expanded: usize,
}

impl GraphWalk {
    /// A `relation` follows links of this relation only.
    pub fn new(focus: &str, depth: u32, relation: Option<&str>) -> Self {
        let node = GraphNode { id: focus.to_owned(), ..GraphNode::default() };
        Self {
            nodes: vec![node],
            hidden: BTreeMap::new(),
            relations: BTreeSet::new(),
            depth: depth.min(crate::svg::picture_item::MAX_GRAPH_DEPTH),
            filter: relation.map(relation_words),
            indexes: HashMap::new(),
            edges: BTreeMap::new(),
            expanded: 0,
        }
    }

    /// Returns the next document to read; `None` at the end.
    pub fn next_reference(&mut self) -> Option<String> {
        while let Some(node) = self.nodes.get(self.expanded) {
            let is_focus = self.expanded == 0;
            // A missing document has no links.
            let is_inner = node.column.unsigned_abs() < self.depth && node.title.is_some();
            if is_focus || is_inner || node.is_unread {
                return Some(node.id.clone());
            }
            self.expanded += 1;
        }
        None
    }

    /// Adds the links of the document that [`Self::next_reference`] returned. `None` if the call
    /// failed: the node stays without links.
    pub fn add_answer(&mut self, answer: Option<&Value>) {
        let index = self.expanded;
        self.expanded += 1;
        let Some(answer) = answer else { return };
        let item = &answer["item"];
        let Some(id) = text_of(item, &["reference_id", "id"]) else { return };
        let node = &mut self.nodes[index];
        if index == 0 {
            // The user may have written another form of the reference.
            node.id.clone_from(&id);
            self.indexes.insert(id, index);
        }
        node.title = text_of(item, &["title"]);
        node.status = text_of(item, &["status"]);
        node.is_unread = false;
        if node.column.unsigned_abs() >= self.depth {
            return;
        }
        self.add_outgoing(index, answer);
        self.add_incoming(index, answer);
    }

    /// The edges between the nodes, sorted.
    pub fn edges(&self) -> Vec<GraphEdge> {
        let mut edges = Vec::with_capacity(self.edges.len());
        for ((from, to), relations) in &self.edges {
            edges.push(GraphEdge { from: *from, to: *to, relations: relations.clone() });
        }
        edges
    }

    fn add_outgoing(&mut self, index: usize, answer: &Value) {
        for parent in ["epic", "user_story"] {
            if let Some(id) = text_of(&answer["item"], &[parent]) {
                let end = LinkEnd { id, is_unread: true, ..LinkEnd::default() };
                self.add_link(index, parent, end, true);
            }
        }
        self.add_list(index, &answer["relationships"]["outgoing"], true);
        self.add_list(index, &answer["links"]["outgoing"], true);
    }

    fn add_incoming(&mut self, index: usize, answer: &Value) {
        let id = &self.nodes[index].id;
        let parent = if id.starts_with("EP-") { "epic" } else { "user_story" };
        for child in list_of(&answer["children"]) {
            if let Some(end) = LinkEnd::new(child) {
                self.add_link(index, parent, end, false);
            }
        }
        for links in [&answer["relationships"], &answer["links"]] {
            self.add_list(index, &links["incoming"], false);
            let total = links["incoming_total"].as_u64().and_then(|total| total.try_into().ok());
            let hidden = total.unwrap_or(0_usize).saturating_sub(list_of(&links["incoming"]).len());
            if self.filter.is_none() {
                self.hide(index, false, hidden);
            }
        }
    }

    fn add_list(&mut self, index: usize, links: &Value, is_outgoing: bool) {
        for link in list_of(links) {
            if let (Some(relation), Some(end)) =
                (text_of(link, &["relation", "type"]), LinkEnd::new(link))
            {
                self.add_link(index, &relation, end, is_outgoing);
            }
        }
    }

    fn add_link(&mut self, index: usize, relation: &str, end: LinkEnd, is_outgoing: bool) {
        let relation = relation_words(relation);
        self.relations.insert(relation.clone());
        if self.filter.as_ref().is_some_and(|filter| *filter != relation) {
            return;
        }
        let other = match self.indexes.get(&end.id) {
            Some(other) => *other,
            None if self.is_followed(index, is_outgoing) => {
                if self.nodes.len() >= MAX_NODES {
                    self.hide(index, is_outgoing, 1);
                    return;
                }
                let column = self.nodes[index].column + if is_outgoing { 1 } else { -1 };
                let LinkEnd { id, title, status, is_unread } = end;
                self.indexes.insert(id.clone(), self.nodes.len());
                let node = GraphNode { id, title, status, column, href: None, is_unread };
                self.nodes.push(node);
                self.nodes.len() - 1
            }
            None => return,
        };
        if other != index {
            let ends = if is_outgoing { (index, other) } else { (other, index) };
            self.edges.entry(ends).or_default().insert(relation);
        }
    }

    /// The right side follows outgoing links and the left side incoming ones, so that a picture
    /// shows what the focus is based on, and what depends on it.
    fn is_followed(&self, index: usize, is_outgoing: bool) -> bool {
        let column = self.nodes[index].column;
        if is_outgoing { column >= 0 } else { column <= 0 }
    }

    fn hide(&mut self, index: usize, is_outgoing: bool, count: usize) {
        if count > 0 && self.depth > 0 && self.is_followed(index, is_outgoing) {
            let column = self.nodes[index].column + if is_outgoing { 1 } else { -1 };
            *self.hidden.entry(column).or_default() += count;
        }
    }
}

/// The other end of a link, in the forms of relationships, links and children.
#[derive(Default)]
struct LinkEnd {
    id: String,
    title: Option<String>,
    status: Option<String>,
    is_unread: bool,
}

impl LinkEnd {
    fn new(link: &Value) -> Option<Self> {
        let id = text_of(link, &["reference_id", "id"])?;
        let (title, status) = (text_of(link, &["title"]), text_of(link, &["status"]));
        Some(Self { id, title, status, is_unread: false })
    }
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The first of these members that is text.
fn text_of(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| value[*name].as_str()).map(str::to_owned)
}

/// A relation as people read it: `user_story` becomes `user story`.
fn relation_words(relation: &str) -> String {
    relation.to_lowercase().replace('_', " ")
}
