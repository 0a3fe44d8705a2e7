//! The graph of a project's entities, and an index of their tags, kinds, ids and diagnostics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::{Entity, EntityKind};
use crate::bounded_types::truncate_echo;
use crate::diagnostic::Diagnostic;
use crate::document::{DocumentId, DocumentMeta, Version};

/// All entities of a project.
#[derive(Debug, Clone, Default)]
pub struct EntityGraph {
    /// By document name.
    nodes: BTreeMap<String, EntityNode>,
    /// Document names by id, sorted.
    names_by_id: HashMap<String, Vec<String>>,
}

/// An entity with its document's name and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityNode {
    /// The document's name.
    pub name: String,
    pub entity: Arc<Entity>,
    pub version: Version,
    pub diagnostic: Option<Diagnostic>,
}

impl EntityNode {
    /// `None` if the document is not an entity.
    pub fn from_metadata(meta: &DocumentMeta) -> Option<Self> {
        let entity = meta.entity.clone()?;
        let (name, diagnostic) = (meta.id.name.clone(), meta.diagnostic.clone());
        Some(Self { name, entity, version: meta.version, diagnostic })
    }
}

/// The result of looking up an id.
#[derive(Debug, PartialEq, Eq)]
pub enum EntityLookup<'a> {
    One(&'a EntityNode),
    /// Names of the documents that have the id.
    Several(Vec<&'a str>),
    Nothing,
}

/// The targets of one relation.
#[derive(Debug, PartialEq, Eq)]
pub struct OutgoingLinks<'a> {
    pub relation: &'a str,
    pub targets: Vec<LinkEnd<'a>>,
}

/// The target or source of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnd<'a> {
    pub id: &'a str,
    /// `None` if the id is missing or ambiguous.
    pub node: Option<&'a EntityNode>,
}

impl EntityGraph {
    /// Adds the entity of a document that is not in the graph.
    pub fn insert(&mut self, node: EntityNode) {
        let EntityNode { name, entity, .. } = &node;
        let names = self.names_by_id.entry(entity.id.clone()).or_default();
        let at = names.binary_search(name).unwrap_or_else(|at| at);
        names.insert(at, name.clone());
        self.nodes.insert(name.clone(), node);
    }

    /// Looks up an id, or else a document name.
    pub fn find(&self, id: &str) -> EntityLookup<'_> {
        let names = self.names_by_id.get(id).map_or(&[][..], Vec::as_slice);
        // No document has the id, or several do: it may be a document name instead.
        let name = if let [name] = names { name } else { id };
        match self.nodes.get(name) {
            Some(node) => EntityLookup::One(node),
            None if names.is_empty() => EntityLookup::Nothing,
            None => EntityLookup::Several(names.iter().map(String::as_str).collect()),
        }
    }

    /// At most three ids that contain the last part of the given id.
    pub fn similar_ids(&self, id: &str) -> Vec<&str> {
        similar_ids(id, self.names_by_id.keys().map(String::as_str))
    }

    /// The targets of an entity's links, grouped by relation. A link to a missing target is
    /// included only if it is certain to be a link.
    pub fn outgoing<'a>(&'a self, node: &'a EntityNode) -> Vec<OutgoingLinks<'a>> {
        let mut outgoing: Vec<OutgoingLinks<'a>> = Vec::new();
        for link in &node.entity.links {
            let node = match self.find(&link.target) {
                EntityLookup::One(node) => Some(node),
                EntityLookup::Nothing if !link.is_certain => continue,
                EntityLookup::Several(_) | EntityLookup::Nothing => None,
            };
            let target = LinkEnd { id: &link.target, node };
            // Links are sorted by relation.
            match outgoing.last_mut() {
                Some(last) if last.relation == link.relation => last.targets.push(target),
                _ => {
                    let relation = &link.relation;
                    outgoing.push(OutgoingLinks { relation, targets: vec![target] });
                }
            }
        }
        outgoing
    }

    /// All entities, sorted by document name.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &EntityNode> {
        self.nodes.values()
    }
}

/// Compact records of all entities, updated one document at a time. A project may have 100,000
/// entities, so titles and links stay in the storage.
#[derive(Debug, Default)]
pub struct EntityIndex {
    /// By document name.
    records: BTreeMap<Box<str>, EntityRecord>,
    /// Number of entities by tag and kind. The keys are shared by all records.
    tags: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
    /// Number of entities by kind. The keys are shared by all records.
    kinds: BTreeMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct EntityRecord {
    version: Version,
    kind: Arc<str>,
    /// `None` if it equals the document's name.
    id: Option<Box<str>>,
    tags: Box<[Arc<str>]>,
    diagnostic: Option<Box<Diagnostic>>,
}

/// A tag and the number of entities that have it.
#[derive(Debug, PartialEq, Eq)]
pub struct TagCount<'a> {
    pub tag: &'a str,
    pub count: usize,
}

impl EntityIndex {
    /// Replaces the record of a document. A document that is not an entity has none, so its old
    /// record is only removed.
    pub fn put(&mut self, meta: &DocumentMeta) {
        // Before the check of the kind, so that the counts of an old entity are removed.
        self.remove(&meta.id.name);
        let Some(entity) = &meta.entity else { return };
        let kind = shared_key(&self.kinds, &entity.kind);
        *self.kinds.entry(Arc::clone(&kind)).or_default() += 1;
        let mut tags = Vec::with_capacity(entity.tags.len());
        for tag in &entity.tags {
            let tag = shared_key(&self.tags, tag);
            let kinds = self.tags.entry(Arc::clone(&tag)).or_default();
            *kinds.entry(Arc::clone(&kind)).or_default() += 1;
            tags.push(tag);
        }
        let record = EntityRecord {
            version: meta.version,
            kind,
            // An entity without an id in its front matter usually has the document's name as its
            // id.
            id: (entity.id != meta.id.name).then(|| entity.id.as_str().into()),
            tags: tags.into(),
            diagnostic: meta.diagnostic.clone().map(Box::new),
        };
        self.records.insert(meta.id.name.as_str().into(), record);
    }

    pub fn remove(&mut self, name: &str) {
        let Some(EntityRecord { kind, tags, .. }) = self.records.remove(name) else { return };
        for tag in tags {
            if let Some(kinds) = self.tags.get_mut(&tag) {
                decrement(kinds, &kind);
                if kinds.is_empty() {
                    self.tags.remove(&tag);
                }
            }
        }
        decrement(&mut self.kinds, &kind);
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

    /// The tags of all entities or of one kind, in alphabetical order.
    pub fn tags(&self, kind: Option<&str>) -> Vec<TagCount<'_>> {
        let mut tags = Vec::new();
        for (tag, kinds) in &self.tags {
            let count = match kind {
                Some(kind) => kinds.get(kind).copied().unwrap_or_default(),
                None => kinds.values().sum(),
            };
            if count > 0 {
                tags.push(TagCount { tag, count });
            }
        }
        tags.sort_by_cached_key(|tag| (fold(tag.tag), tag.tag));
        tags
    }

    /// Returns the kind that a filter names in any case: a kind of a stored entity, or a known kind
    /// by its name, plural or prefix. The error lists the kinds.
    pub fn find_kind(&self, text: &str) -> Result<String, String> {
        let word = text.trim().to_lowercase();
        let singular = word.strip_suffix('s').unwrap_or(&word);
        if self.kinds.contains_key(word.as_str()) {
            return Ok(word);
        }
        if let Some(kind) = EntityKind::parse(&word) {
            return Ok(kind.name().to_owned());
        }
        if self.kinds.contains_key(singular) {
            return Ok(singular.to_owned());
        }
        let mut kinds: Vec<&str> = EntityKind::ALL.map(EntityKind::name).to_vec();
        kinds.extend(self.kinds.keys().map(|kind| &**kind));
        kinds.sort_unstable();
        kinds.dedup();
        Err(format!(
            "kind: {:?} is not a kind; use one of {}",
            truncate_echo(text),
            kinds.join(", ")
        ))
    }

    /// The names of documents without tags, sorted.
    pub fn untagged(&self, kind: Option<&str>) -> Vec<String> {
        let mut names = Vec::new();
        for (name, record) in &self.records {
            let is_of_kind = kind.is_none_or(|kind| *record.kind == *kind);
            if record.tags.is_empty() && is_of_kind {
                names.push(name.to_string());
            }
        }
        names
    }

    /// Diagnostics with the names of their documents.
    pub fn diagnostics(&self) -> impl Iterator<Item = (&str, &Diagnostic)> {
        let records = self.records.iter();
        records.filter_map(|(name, record)| Some((&**name, record.diagnostic.as_deref()?)))
    }

    /// Ids that several documents have, with the names of these documents.
    pub fn duplicates(&self) -> Vec<(&str, Vec<&str>)> {
        let mut ids: Vec<(&str, &str)> = self.ids().collect();
        ids.sort_unstable();
        let mut duplicates = Vec::new();
        for same_id in ids.chunk_by(|a, b| a.0 == b.0) {
            if same_id.len() > 1 {
                let names = same_id.iter().map(|(_, name)| *name).collect();
                duplicates.push((same_id[0].0, names));
            }
        }
        duplicates
    }

    /// At most three ids that contain the last part of the given id.
    pub fn similar_ids(&self, id: &str) -> Vec<&str> {
        similar_ids(id, self.ids().map(|(id, _)| id))
    }

    /// The names of the documents that have this id or name, regardless of case.
    pub fn find_any_case(&self, id: &str) -> Vec<String> {
        let id = id.to_lowercase();
        let mut names = Vec::new();
        for (other, name) in self.ids() {
            if other.to_lowercase() == id || name.to_lowercase() == id {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// All ids with the names of their documents.
    fn ids(&self) -> impl Iterator<Item = (&str, &str)> {
        let records = self.records.iter();
        records.map(|(name, record)| (record.id.as_deref().unwrap_or(name), &**name))
    }
}

/// Lower case without accents, so that readers find `Écran` between `disk` and `file`.
fn fold(text: &str) -> String {
    let plain = text.nfkd().filter(|letter| !is_combining_mark(*letter));
    plain.flat_map(char::to_lowercase).collect()
}

fn similar_ids<'a>(id: &str, ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const MAX_IDS: usize = 3;
    const MIN_PART_BYTES: usize = 3;
    let id = id.to_lowercase();
    let part = id.rsplit(['-', '/']).next().unwrap_or(&id);
    // A shorter part would match nearly every id.
    if part.len() < MIN_PART_BYTES {
        return Vec::new();
    }
    let mut similar: Vec<&str> = ids.filter(|id| id.to_lowercase().contains(part)).collect();
    similar.sort_unstable();
    similar.dedup();
    similar.truncate(MAX_IDS);
    similar
}

/// Returns the map's own key if it has one, so that all records share one allocation.
fn shared_key<T>(map: &BTreeMap<Arc<str>, T>, key: &str) -> Arc<str> {
    match map.get_key_value(key) {
        Some((shared, _)) => Arc::clone(shared),
        None => key.into(),
    }
}

/// Decrements a count and removes the key at 0.
fn decrement(counts: &mut BTreeMap<Arc<str>, usize>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
