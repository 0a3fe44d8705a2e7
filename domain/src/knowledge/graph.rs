//! The graph of a project's entities: what ids name, and where links lead.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Entity;
use super::inventory::similar;
use crate::document::{DocumentMeta, Version};
use crate::fault::Fault;

/// All entities of a project.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// By the document's name.
    nodes: BTreeMap<String, Node>,
    /// The names of the documents that claim an id.
    ids: HashMap<String, Vec<String>>,
}

/// An entity and its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The document's name.
    pub name: String,
    pub entity: Arc<Entity>,
    pub version: Version,
    pub fault: Option<Fault>,
}

impl Node {
    /// The node of an entity's head; `None` for a document of another kind.
    pub fn of(head: &DocumentMeta) -> Option<Self> {
        let entity = head.entity.clone()?;
        let (name, fault) = (head.id.name.clone(), head.fault.clone());
        Some(Self { name, entity, version: head.version, fault })
    }
}

/// What an id names.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    One(&'a Node),
    /// Several documents claim it; these are their names.
    Several(Vec<&'a str>),
    Nothing,
}

impl<'a> Found<'a> {
    /// What a word names among the nodes whose id or name it is, sorted by name. An id that several
    /// claim is nobody's, unless it is the name of one of them.
    pub fn among(word: &str, nodes: &'a [Node]) -> Self {
        let mut claims = nodes.iter().filter(|node| node.entity.id == word);
        if let (Some(node), None) = (claims.next(), claims.next()) {
            return Self::One(node);
        }
        match nodes.iter().find(|node| node.name == word) {
            Some(node) => Self::One(node),
            None if nodes.is_empty() => Self::Nothing,
            None => Self::Several(nodes.iter().map(|node| node.name.as_str()).collect()),
        }
    }
}

/// The targets of one relation.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    pub relation: &'a str,
    pub targets: Vec<Edge<'a>>,
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<'a> {
    pub id: &'a str,
    /// The entity there, where there is one and only one.
    pub node: Option<&'a Node>,
}

/// Where an entity's links lead, sorted by relation; `find` tells what a target names. A certain
/// link to nothing is kept: its target has no node.
pub fn outgoing<'a>(entity: &'a Entity, find: impl Fn(&'a str) -> Found<'a>) -> Vec<Outgoing<'a>> {
    let mut outgoing: Vec<Outgoing<'a>> = Vec::new();
    for link in &entity.links {
        let found = find(&link.target);
        if !link.certain && found == Found::Nothing {
            continue;
        }
        let node = if let Found::One(node) = found { Some(node) } else { None };
        let edge = Edge { id: &link.target, node };
        match outgoing.last_mut().filter(|last| last.relation == link.relation) {
            Some(last) => last.targets.push(edge),
            None => outgoing.push(Outgoing { relation: &link.relation, targets: vec![edge] }),
        }
    }
    outgoing
}

/// An entity and those that its links lead to, each once, itself first.
pub fn one_hop<'a>(node: &'a Node, outgoing: &[Outgoing<'a>]) -> Vec<&'a Node> {
    let mut nodes = vec![node];
    for edge in outgoing.iter().flat_map(|outgoing| &outgoing.targets) {
        if let Some(node) = edge.node.filter(|node| nodes.iter().all(|n| n.name != node.name)) {
            nodes.push(node);
        }
    }
    nodes
}

impl Graph {
    /// Takes an entity in; its document is no other one's.
    pub fn put(&mut self, node: Node) {
        let Node { name, entity, .. } = &node;
        let names = self.ids.entry(entity.id.clone()).or_default();
        let at = names.binary_search(name).unwrap_or_else(|at| at);
        names.insert(at, name.clone());
        self.nodes.insert(name.clone(), node);
    }

    /// The entity of an id, or of a document's name.
    pub fn find(&self, id: &str) -> Found<'_> {
        match self.ids.get(id).map(Vec::as_slice) {
            Some([name]) => self.nodes.get(name).map_or(Found::Nothing, Found::One),
            Some(names @ [_, ..]) => match self.nodes.get(id) {
                Some(node) => Found::One(node),
                None => Found::Several(names.iter().map(String::as_str).collect()),
            },
            _ => self.nodes.get(id).map_or(Found::Nothing, Found::One),
        }
    }

    /// Ids that somebody may have meant who typed this one.
    pub fn similar(&self, id: &str) -> Vec<&str> {
        similar(id, self.ids.keys().map(String::as_str))
    }

    /// Where an entity's links lead.
    pub fn outgoing<'a>(&'a self, node: &'a Node) -> Vec<Outgoing<'a>> {
        outgoing(&node.entity, |target| self.find(target))
    }

    /// All entities, by name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.nodes.values()
    }
}
