//! One entity, and what links to and from it: what `ixchel_show`, `ixchel_graph` and
//! `ixchel_context` share.
//!
//! A target `REQ-48` has several spellings and names an item of the backlog. Of two items with one
//! reference none is meant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::bounded_types::BoundedString;
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
use crate::tool::decode;

// The arguments of the three tools. (A doc comment would become part of the schema.)
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
        let EntityArguments { id, repo, max_tokens } = decode(call, spec)?;
        let project = super::resolve_project(context, &call.caller, repo.as_ref()).await?;
        let node = find_entity(context, &project, id.as_str()).await?;
        Ok(Self { project, node, budget: TokenBudget::new(max_tokens) })
    }
}

async fn find_entity(context: &ToolContext, project: &ProjectKey, id: &str) -> Result<EntityNode> {
    let nodes = lookup_entities(context, project, &[id.to_owned()]).await?;
    match EntityLookup::among(id, nodes.first().map_or(&[], Vec::as_slice)) {
        EntityLookup::One(node) => Ok(node.clone()),
        EntityLookup::Several(names) => {
            let message = format!(
                "{} files claim the id {id}: {}. Give one of these names as the id, and correct \
                 the others.",
                names.len(),
                names.join(", ")
            );
            Err(Error::new(ErrorKind::Refused, message).field("id").reference(id))
        }
        EntityLookup::Nothing => {
            let known =
                context.indexes.entities(&context.ports, project, Refresh::Incremental).await?;
            Err(unknown_entity(id, &known.entity_index.similar(id)))
        }
    }
}

fn unknown_entity(id: &str, similar: &[&str]) -> Error {
    let meant = match similar {
        [] => String::new(),
        similar => format!(" Did you mean {}?", similar.join(" or ")),
    };
    let shown: String = id.chars().take(100).collect();
    let message =
        format!("There is no entity {shown:?} in this project.{meant} ixchel_search finds ids.");
    Error::new(ErrorKind::NotFound, message).field("id").reference(shown)
}

/// The entities and items that the links of an entity lead to, as far as they exist.
pub(super) struct LinkedEntities {
    entities: BTreeMap<String, Vec<EntityNode>>,
    /// By their references as they are printed.
    items: HashMap<String, Arc<DocumentMeta>>,
}

impl LinkedEntities {
    pub(super) async fn read_targets(
        context: &ToolContext,
        project: &ProjectKey,
        node: &EntityNode,
    ) -> Result<Self> {
        let targets: BTreeSet<&String> = node.entity.links.iter().map(|l| &l.target).collect();
        let targets: Vec<String> = targets.into_iter().cloned().collect();
        let references: BTreeSet<Reference> =
            targets.iter().filter_map(|target| Reference::parse(target)).collect();
        let words = references.iter().map(ToString::to_string);
        let items = BacklogReader { ports: &context.ports, project }.named(words).await?;
        let is_item = |target: &String| {
            Reference::parse(target).is_some_and(|found| items.contains_key(&found.to_string()))
        };
        let targets: Vec<String> = targets.into_iter().filter(|t| !is_item(t)).collect();
        let nodes = match targets.as_slice() {
            [] => Vec::new(),
            targets => lookup_entities(context, project, targets).await?,
        };
        Ok(Self { entities: targets.into_iter().zip(nodes).collect(), items })
    }

    pub(super) fn outgoing<'a>(&'a self, node: &'a EntityNode) -> Vec<OutgoingLinks<'a>> {
        let nodes = |target| self.entities.get(target).map_or(&[][..], Vec::as_slice);
        knowledge::outgoing(&node.entity, |target| EntityLookup::among(target, nodes(target)))
    }

    fn linked_item(&self, edge: &LinkEnd<'_>) -> Option<&DocumentMeta> {
        self.items.get(&Reference::parse(edge.id)?.to_string()).map(|head| &**head)
    }

    pub(super) fn target_title<'a>(&'a self, edge: &LinkEnd<'a>) -> Option<&'a str> {
        let entity = edge.node.map(|node| node.entity.title.as_str());
        entity.or_else(|| Some(&*self.linked_item(edge)?.item.as_ref()?.title))
    }

    /// The items that links lead to, each once, in the order of the links.
    pub(super) fn linked_items(&self, outgoing: &[OutgoingLinks<'_>]) -> Vec<&DocumentMeta> {
        let mut heads: Vec<&DocumentMeta> = Vec::new();
        for edge in outgoing.iter().flat_map(|outgoing| &outgoing.targets) {
            if let Some(head) =
                self.linked_item(edge).filter(|head| heads.iter().all(|h| h.id != head.id))
            {
                heads.push(head);
            }
        }
        heads
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
        let links = BacklinkQuery {
            kinds,
            targets: entity_names(node).into_iter().map(str::to_owned).collect(),
        };
        let mut heads: Vec<Arc<DocumentMeta>> = Vec::new();
        for head in context.ports.documents.backlinks(project, &links).await?.into_iter().flatten()
        {
            // By id and by name it may be the same one.
            if heads.iter().all(|known| known.id != head.id) {
                heads.push(head);
            }
        }
        Ok(Self(heads))
    }

    /// Id and title of the sources of each relation, by id.
    pub(super) fn by_relation(&self, node: &EntityNode) -> BTreeMap<&str, Vec<(String, &str)>> {
        let names = entity_names(node);
        let mut relations: BTreeMap<&str, Vec<(String, &str)>> = BTreeMap::new();
        for head in &self.0 {
            let Some(source) = backlink_source(head) else { continue };
            let links = head.links().into_iter().filter(|(_, target)| names.contains(&&**target));
            for (relation, _) in links {
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

/// The names by which links may call an entity.
fn entity_names(node: &EntityNode) -> Vec<&str> {
    let mut names = vec![node.entity.id.as_str(), node.name.as_str()];
    names.dedup();
    names
}

fn backlink_source(head: &DocumentMeta) -> Option<(String, &str)> {
    if let Some(entity) = &head.entity {
        return Some((entity.id.clone(), &entity.title));
    }
    let item = head.item.as_ref()?;
    Some((item.display_name(&head.id.name).into_owned(), &item.title))
}
