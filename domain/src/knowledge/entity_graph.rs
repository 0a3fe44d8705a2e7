//! The graph of a project's entities, and an inventory of their tags, kinds, diagnostics and ids.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Entity;
use crate::diagnostic::Diagnostic;
use crate::document::{DocumentId, DocumentMeta, Version};

/// All entities of a project.
#[derive(Debug, Clone, Default)]
pub struct EntityGraph {
    nodes: BTreeMap<String, EntityNode>,
    /// Ids to the names of their documents.
    ids: HashMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityNode {
    /// The document's name.
    pub name: String,
    pub entity: Arc<Entity>,
    pub version: Version,
    pub fault: Option<Diagnostic>,
}

impl EntityNode {
    /// `None` for a document of another kind.
    pub fn of(head: &DocumentMeta) -> Option<Self> {
        let entity = head.entity.clone()?;
        let (name, fault) = (head.id.name.clone(), head.fault.clone());
        Some(Self { name, entity, version: head.version, fault })
    }
}

/// The entity of an id.
#[derive(Debug, PartialEq, Eq)]
pub enum EntityLookup<'a> {
    One(&'a EntityNode),
    /// The names of the documents that claim the id.
    Several(Vec<&'a str>),
    Nothing,
}

impl<'a> EntityLookup<'a> {
    /// The entity of a word among the nodes with this id or name. An id that several nodes claim is
    /// ambiguous unless it is the name of one of them.
    pub fn among(word: &str, nodes: &'a [EntityNode]) -> Self {
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
pub struct OutgoingLinks<'a> {
    pub relation: &'a str,
    pub targets: Vec<LinkEnd<'a>>,
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnd<'a> {
    pub id: &'a str,
    /// `None` if the target is missing or ambiguous.
    pub node: Option<&'a EntityNode>,
}

/// The targets of an entity's links, sorted by relation. A certain link to a missing target is
/// kept.
pub fn outgoing<'a>(
    entity: &'a Entity,
    find: impl Fn(&'a str) -> EntityLookup<'a>,
) -> Vec<OutgoingLinks<'a>> {
    let mut outgoing: Vec<OutgoingLinks<'a>> = Vec::new();
    for link in &entity.links {
        let found = find(&link.target);
        if !link.certain && found == EntityLookup::Nothing {
            continue;
        }
        let node = if let EntityLookup::One(node) = found { Some(node) } else { None };
        let edge = LinkEnd { id: &link.target, node };
        match outgoing.last_mut().filter(|last| last.relation == link.relation) {
            Some(last) => last.targets.push(edge),
            None => outgoing.push(OutgoingLinks { relation: &link.relation, targets: vec![edge] }),
        }
    }
    outgoing
}

/// An entity and its link targets, each once, itself first.
pub fn one_hop<'a>(node: &'a EntityNode, outgoing: &[OutgoingLinks<'a>]) -> Vec<&'a EntityNode> {
    let mut nodes = vec![node];
    for edge in outgoing.iter().flat_map(|outgoing| &outgoing.targets) {
        if let Some(node) = edge.node.filter(|node| nodes.iter().all(|n| n.name != node.name)) {
            nodes.push(node);
        }
    }
    nodes
}

impl EntityGraph {
    /// Adds an entity of a new document.
    pub fn put(&mut self, node: EntityNode) {
        let EntityNode { name, entity, .. } = &node;
        let names = self.ids.entry(entity.id.clone()).or_default();
        let at = names.binary_search(name).unwrap_or_else(|at| at);
        names.insert(at, name.clone());
        self.nodes.insert(name.clone(), node);
    }

    /// The entity of an id, else of a document's name.
    pub fn find(&self, id: &str) -> EntityLookup<'_> {
        let names = self.ids.get(id).map_or(&[][..], Vec::as_slice);
        let name = if let [name] = names { name } else { id };
        match self.nodes.get(name) {
            Some(node) => EntityLookup::One(node),
            None if names.is_empty() => EntityLookup::Nothing,
            None => EntityLookup::Several(names.iter().map(String::as_str).collect()),
        }
    }

    /// At most three ids that contain the last part of this one.
    pub fn similar(&self, id: &str) -> Vec<&str> {
        similar(id, self.ids.keys().map(String::as_str))
    }

    pub fn outgoing<'a>(&'a self, node: &'a EntityNode) -> Vec<OutgoingLinks<'a>> {
        outgoing(&node.entity, |target| self.find(target))
    }

    /// All entities, by name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &EntityNode> {
        self.nodes.values()
    }
}

/// A short record of each entity, updated document by document. There may be 100,000 entities, so
/// titles and links are left to the storage.
#[derive(Debug, Default)]
pub struct EntityIndex {
    /// By the document's name.
    records: BTreeMap<Box<str>, EntityRecord>,
    /// Numbers of entities by tag and kind.
    tags: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
    /// Numbers of entities by kind; interns the word.
    kinds: BTreeMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct EntityRecord {
    version: Version,
    kind: Arc<str>,
    /// `None` if it is the document's name.
    id: Option<Box<str>>,
    tags: Box<[Arc<str>]>,
    fault: Option<Box<Diagnostic>>,
}

/// A tag and its number of entities.
#[derive(Debug, PartialEq, Eq)]
pub struct TagCount<'a> {
    pub tag: &'a str,
    pub count: usize,
}

impl EntityIndex {
    /// Adds or replaces a document. Other kinds than entities are ignored.
    pub fn put(&mut self, head: &DocumentMeta) {
        self.remove(&head.id.name);
        let Some(entity) = &head.entity else { return };
        let kind = shared(&mut self.kinds, &entity.kind, |count| *count += 1);
        let tags = entity.tags.iter().map(|tag| {
            shared(&mut self.tags, tag, |kinds| *kinds.entry(Arc::clone(&kind)).or_default() += 1)
        });
        let tags = tags.collect();
        let id = (entity.id != head.id.name).then(|| entity.id.as_str().into());
        let fault = head.fault.clone().map(Box::new);
        let record = EntityRecord { version: head.version, kind, id, tags, fault };
        self.records.insert(head.id.name.as_str().into(), record);
    }

    pub fn remove(&mut self, name: &str) {
        let Some(EntityRecord { kind, tags, .. }) = self.records.remove(name) else { return };
        for tag in tags {
            release(&mut self.tags, &tag, |kinds| {
                release(kinds, &kind, count_down);
                kinds.is_empty()
            });
        }
        release(&mut self.kinds, &kind, count_down);
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn versions(&self) -> BTreeMap<DocumentId, Version> {
        let records = self.records.iter();
        records.map(|(name, record)| (DocumentId::entity(&**name), record.version)).collect()
    }

    /// All tags in alphabetical order, or those of one kind.
    pub fn tags(&self, kind: Option<&str>) -> Vec<TagCount<'_>> {
        let count = |kinds: &BTreeMap<Arc<str>, usize>| match kind {
            Some(kind) => kinds.get(kind).copied().unwrap_or_default(),
            None => kinds.values().sum(),
        };
        let tags = self.tags.iter().map(|(tag, kinds)| TagCount { tag, count: count(kinds) });
        tags.filter(|tag| tag.count > 0).collect()
    }

    /// Names of documents without tags, sorted.
    pub fn untagged(&self, kind: Option<&str>) -> Vec<String> {
        let is_meant = |record: &EntityRecord| kind.is_none_or(|kind| *record.kind == *kind);
        let records = self.records.iter();
        let untagged = records.filter(|(_, record)| record.tags.is_empty() && is_meant(record));
        untagged.map(|(name, _)| name.to_string()).collect()
    }

    /// Diagnostics by document name.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &Diagnostic)> {
        self.records.iter().filter_map(|(name, record)| Some((&**name, record.fault.as_deref()?)))
    }

    /// Ids that several documents claim, with the documents' names.
    pub fn duplicates(&self) -> Vec<(&str, Vec<&str>)> {
        let mut ids: Vec<(&str, &str)> = self.ids().collect();
        ids.sort_unstable();
        let claims = ids.chunk_by(|a, b| a.0 == b.0).filter(|claims| claims.len() > 1);
        claims.map(|claims| (claims[0].0, claims.iter().map(|claim| claim.1).collect())).collect()
    }

    /// At most three ids that contain the last part of this one.
    pub fn similar(&self, id: &str) -> Vec<&str> {
        similar(id, self.ids().map(|(id, _)| id))
    }

    /// All ids, with the documents' names.
    fn ids(&self) -> impl Iterator<Item = (&str, &str)> {
        let records = self.records.iter();
        records.map(|(name, record)| (record.id.as_deref().unwrap_or(name), &**name))
    }
}

fn similar<'a>(id: &str, ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const MAX: usize = 3;
    let wanted = id.to_lowercase();
    let part = wanted.rsplit(['-', '/']).next().unwrap_or(&wanted);
    if part.len() < 3 {
        return Vec::new();
    }
    let mut near: Vec<&str> = ids.filter(|id| id.to_lowercase().contains(part)).collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(MAX);
    near
}

/// Interns a word and counts this use.
fn shared<T: Default>(
    words: &mut BTreeMap<Arc<str>, T>,
    word: &str,
    use_it: impl FnOnce(&mut T),
) -> Arc<str> {
    let word = match words.get_key_value(word) {
        Some((known, _)) => Arc::clone(known),
        None => word.into(),
    };
    use_it(words.entry(Arc::clone(&word)).or_default());
    word
}

/// True for the last use.
fn count_down(count: &mut usize) -> bool {
    *count -= 1;
    *count == 0
}

/// Removes a use, and the word after its last one.
fn release<T>(words: &mut BTreeMap<Arc<str>, T>, word: &str, is_last: impl FnOnce(&mut T) -> bool) {
    if words.get_mut(word).is_some_and(is_last) {
        words.remove(word);
    }
}
