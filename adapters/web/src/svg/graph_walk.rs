//! Collects the neighbourhood of an item from answers of `get_item`, without calling it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::records::answers::details::{ItemDetails, LinkEnd};

use crate::page::name_words;
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
            filter: relation.map(name_words),
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
    pub fn add_answer(&mut self, answer: Option<&ItemDetails>) {
        let index = self.expanded;
        self.expanded += 1;
        let Some(answer) = answer else { return };
        let node = &mut self.nodes[index];
        if index == 0 {
            // The user may have written another form of the reference.
            answer.item.id().clone_into(&mut node.id);
            self.indexes.insert(node.id.clone(), index);
        }
        node.title = Some(answer.item.title().to_owned());
        node.status = answer.item.status().map(str::to_owned);
        node.is_unread = false;
        if node.column.unsigned_abs() >= self.depth {
            return;
        }
        self.add_links(index, answer);
    }

    /// The edges between the nodes, sorted.
    pub fn edges(&self) -> Vec<GraphEdge> {
        let mut edges = Vec::with_capacity(self.edges.len());
        for ((from, to), relations) in &self.edges {
            edges.push(GraphEdge { from: *from, to: *to, relations: relations.clone() });
        }
        edges
    }

    fn add_links(&mut self, index: usize, answer: &ItemDetails) {
        if let Some(record) = answer.item.record() {
            for (relation, parent) in [("epic", &record.epic), ("user_story", &record.user_story)] {
                let Some(id) = parent.clone() else { continue };
                let end = LinkEnd { relation: relation.to_owned(), id, ..LinkEnd::default() };
                self.add_link(index, end, true, true);
            }
        }
        let relation = answer.item.item_kind().map_or("", ItemKind::name);
        let [related, linked] = answer.link_ends();
        for end in related.outgoing.into_iter().chain(linked.outgoing) {
            self.add_link(index, end, true, false);
        }
        for child in answer.children.iter().flatten() {
            let end = LinkEnd {
                relation: relation.to_owned(),
                id: child.reference_id.clone(),
                title: Some(child.title.clone()),
                status: child.status.clone(),
                ..LinkEnd::default()
            };
            self.add_link(index, end, false, false);
        }
        for ends in [related.incoming, linked.incoming] {
            for end in ends {
                self.add_link(index, end, false, false);
            }
        }
        if self.filter.is_none() {
            self.hide(index, false, related.hidden);
            self.hide(index, false, linked.hidden);
        }
    }

    fn add_link(&mut self, index: usize, end: LinkEnd, is_outgoing: bool, is_unread: bool) {
        let relation = name_words(&end.relation);
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
                let LinkEnd { id, title, status, .. } = end;
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
