//! One entity with its links and backlinks, for `ixchel_show`, `ixchel_graph` and `ixchel_context`.
//!
//! A link target such as `REQ-48` is an item of the backlog; it is unresolved if two items have it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::bounded_types::{BoundedString, truncate_echo};
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::{self, EntityLookup, EntityNode, LinkEnd, OutgoingLinks};
use reqlore_domain::ports::documents::{BacklinkQuery, Refresh};
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{MaxTokens, Repo, TokenBudget, lookup_entities};
use crate::ToolContext;
use crate::backlog::item_lookup::BacklogReader;
use crate::tool::decode_arguments;

// The arguments of the three tools. A doc comment would appear in the schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityArguments {
    /// Entity ID, or path below .ixchel.
    id: BoundedString<1_000>,
    /// Path in the repository.
    repo: Option<Repo>,
    /// Approximate size limit.
    max_tokens: Option<MaxTokens>,
}

/// The decoded arguments: the entity and its project.
pub(super) struct EntityRequest {
    pub(super) project: ProjectKey,
    pub(super) node: EntityNode,
    pub(super) budget: TokenBudget,
}

impl EntityRequest {
    pub(super) async fn decode(
        context: &ToolContext,
        spec: &ToolSpec,
        call: &mut ToolCall,
    ) -> Result<Self> {
        let EntityArguments { id, repo, max_tokens } = decode_arguments(call, spec)?;
        let project = super::resolve_project(context, &call.caller, repo.as_ref()).await?;
        let node = find_entity(context, &project, id.as_str()).await?;
        Ok(Self { project, node, budget: TokenBudget::new(max_tokens) })
    }
}

async fn find_entity(context: &ToolContext, project: &ProjectKey, id: &str) -> Result<EntityNode> {
    let nodes = lookup_entities(context, project, &[id.to_owned()]).await?;
    match EntityLookup::find_among(id, nodes.first().map_or(&[], Vec::as_slice)) {
        EntityLookup::One(node) => Ok(node.clone()),
        EntityLookup::Several(names) => {
            let message = format!(
                "The id {id} is used by {} files: {}. Pass one of these names as the id, and \
                 correct the ids of the others.",
                names.len(),
                names.join(", ")
            );
            Err(Error::new(ErrorKind::Refused, message).field("id").reference(id))
        }
        // Only an unknown id needs the entity index, to suggest similar ids.
        EntityLookup::Nothing => {
            let cache =
                context.indexes.entities(&context.ports, project, Refresh::Incremental).await?;
            Err(unknown_entity(id, &cache.entity_index.similar_ids(id)))
        }
    }
}

fn unknown_entity(id: &str, similar: &[&str]) -> Error {
    let suggestion = match similar {
        [] => String::new(),
        similar => format!(" Did you mean {}?", similar.join(" or ")),
    };
    let shown = truncate_echo(id);
    let message = format!(
        "There is no entity {shown:?} in this project.{suggestion} ixchel_search finds ids."
    );
    Error::new(ErrorKind::NotFound, message).field("id").reference(shown)
}

/// The existing link targets of an entity.
pub(super) struct LinkedEntities {
    entities: BTreeMap<String, Vec<EntityNode>>,
    /// By printed reference, such as `REQ-048`.
    items: HashMap<String, Arc<DocumentMeta>>,
}

impl LinkedEntities {
    pub(super) async fn read_targets(
        context: &ToolContext,
        project: &ProjectKey,
        node: &EntityNode,
    ) -> Result<Self> {
        let targets: BTreeSet<&str> = node.entity.links.iter().map(|link| &*link.target).collect();
        let mut references = BTreeSet::new();
        for target in &targets {
            references.extend(Reference::parse(target));
        }
        let words = references.iter().map(ToString::to_string);
        let items = BacklogReader { ports: &context.ports, project }.find_by_ids(words).await?;
        // An entity may be named like a reference, so targets without an item are looked up too.
        let mut names = Vec::new();
        for target in targets {
            let reference = Reference::parse(target);
            if !reference.is_some_and(|reference| items.contains_key(&reference.to_string())) {
                names.push(target.to_owned());
            }
        }
        let nodes = match names.as_slice() {
            [] => Vec::new(),
            names => lookup_entities(context, project, names).await?,
        };
        Ok(Self { entities: names.into_iter().zip(nodes).collect(), items })
    }

    pub(super) fn outgoing<'a>(&'a self, node: &'a EntityNode) -> Vec<OutgoingLinks<'a>> {
        knowledge::outgoing_links(&node.entity, |target| {
            let nodes = self.entities.get(target).map_or(&[][..], Vec::as_slice);
            EntityLookup::find_among(target, nodes)
        })
    }

    fn linked_item(&self, edge: &LinkEnd<'_>) -> Option<&DocumentMeta> {
        let reference = Reference::parse(edge.id)?;
        self.items.get(&reference.to_string()).map(|meta| &**meta)
    }

    pub(super) fn target_title<'a>(&'a self, edge: &LinkEnd<'a>) -> Option<&'a str> {
        if let Some(node) = edge.node {
            return Some(&node.entity.title);
        }
        Some(&self.linked_item(edge)?.item.as_ref()?.title)
    }

    /// The linked items, each once, in the order of the links.
    pub(super) fn linked_items(&self, outgoing: &[OutgoingLinks<'_>]) -> Vec<&DocumentMeta> {
        let mut items: Vec<&DocumentMeta> = Vec::new();
        for edge in outgoing.iter().flat_map(|links| &links.targets) {
            let Some(meta) = self.linked_item(edge) else { continue };
            if items.iter().all(|item| item.id != meta.id) {
                items.push(meta);
            }
        }
        items
    }
}

/// The entities and items that link to an entity.
pub(super) struct EntityBacklinks(Vec<Arc<DocumentMeta>>);

impl EntityBacklinks {
    pub(super) async fn read_sources(
        context: &ToolContext,
        project: &ProjectKey,
        node: &EntityNode,
    ) -> Result<Self> {
        let kinds = [DocumentKind::Entity].into_iter().chain(DocumentKind::ITEMS).collect();
        let targets = entity_names(node).into_iter().map(str::to_owned).collect();
        let query = BacklinkQuery { kinds, targets };
        let backlinks = context.ports.documents.backlinks(project, &query).await?;
        let mut sources: Vec<Arc<DocumentMeta>> = Vec::new();
        for meta in backlinks.into_iter().flatten() {
            // A document that links by id and by name is in both lists.
            if sources.iter().all(|source| source.id != meta.id) {
                sources.push(meta);
            }
        }
        Ok(Self(sources))
    }

    /// Returns id and title of the sources of each relation, sorted by id.
    pub(super) fn by_relation(&self, node: &EntityNode) -> BTreeMap<&str, Vec<(String, &str)>> {
        let names = entity_names(node);
        let mut relations: BTreeMap<&str, Vec<(String, &str)>> = BTreeMap::new();
        for meta in &self.0 {
            let Some(source) = backlink_source(meta) else { continue };
            for (relation, target) in meta.links() {
                if !names.contains(&&*target) {
                    continue;
                }
                // One source may link by id and by name.
                let sources = relations.entry(relation).or_default();
                if sources.last() != Some(&source) {
                    sources.push(source.clone());
                }
            }
        }
        for sources in relations.values_mut() {
            sources.sort_unstable();
        }
        relations
    }
}

/// The names that links may use for an entity.
fn entity_names(node: &EntityNode) -> Vec<&str> {
    let mut names = vec![node.entity.id.as_str(), node.name.as_str()];
    // The id is often the name.
    names.dedup();
    names
}

/// Id and title of a document that links to an entity.
fn backlink_source(meta: &DocumentMeta) -> Option<(String, &str)> {
    if let Some(entity) = &meta.entity {
        return Some((entity.id.clone(), &entity.title));
    }
    let item = meta.item.as_ref()?;
    Some((item.display_name(&meta.id.name).into_owned(), &item.title))
}
