//! The graph of a project's entities, and filters by kind and tag.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::{Entity, EntityKind};
use crate::bounded_types::truncate_echo;
use crate::diagnostic::Diagnostic;
use crate::document::{DocumentMeta, Version};
use crate::knowledge::entity_words::{id_parts, similar_prefix};
use crate::name_form::fold_name;

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

    /// An ID of which a part begins with the last part of the given one.
    pub fn similar_id(&self, id: &str) -> Option<&str> {
        let prefix = similar_prefix(id)?;
        let has_part = |id: &&str| id_parts(id).iter().any(|part| part.starts_with(&prefix));
        self.names_by_id.keys().map(String::as_str).filter(has_part).min()
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

/// Returns the kind that a filter names in any case: a kind of a stored entity, or a known kind by
/// its name, plural or prefix. `stored` has the kinds of all entities. The error lists the kinds.
pub fn find_kind(stored: &BTreeMap<String, usize>, text: &str) -> Result<String, String> {
    let word = fold_name(text.trim());
    let singular = word.strip_suffix('s').unwrap_or(&word);
    let find_stored = |word: &str| stored.keys().find(|kind| fold_name(kind) == word).cloned();
    if let Some(kind) = find_stored(&word) {
        return Ok(kind);
    }
    if let Some(kind) = EntityKind::parse(&word) {
        return Ok(kind.name().to_owned());
    }
    if let Some(kind) = find_stored(singular) {
        return Ok(kind);
    }
    let mut kinds: Vec<&str> = EntityKind::all().into_iter().map(EntityKind::name).collect();
    kinds.extend(stored.keys().map(String::as_str));
    kinds.sort_unstable();
    kinds.dedup();
    Err(format!("kind: {:?} is not a kind; use one of {}", truncate_echo(text), kinds.join(", ")))
}

/// Sorts tags for readers, without regard to case and accents.
pub fn sort_tags(counts: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut tags: Vec<(String, usize)> = counts.into_iter().collect();
    tags.sort_by_cached_key(|(tag, _)| (fold(tag), tag.clone()));
    tags
}

/// Lower case without accents, so that readers find `Écran` between `disk` and `file`.
fn fold(text: &str) -> String {
    let plain = text.nfkd().filter(|letter| !is_combining_mark(*letter));
    plain.flat_map(char::to_lowercase).collect()
}
