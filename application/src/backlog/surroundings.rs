//! What stands around an item: its children, its relationships, and who else speaks of whom.
//!
//! One question to the storage tells all that leads here; what leads from here is in the head. The
//! trap: a link may lead to nothing, or to several items that claim one reference; then it has no
//! title.

use std::sync::Arc;

use reqlore_domain::backlog::{Item, ItemKind, MENTIONS, Reference, RelationshipType, Status};
use reqlore_domain::document::{DocumentMeta, Kind};
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::find::{self, Backlog};

/// All that leads to an item and from it.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// In the one order, all kinds together.
    pub(crate) children: Vec<Arc<DocumentMeta>>,
    pub(crate) relationships: Relationships,
    pub(crate) links: Links,
}

/// Relationships between requirements.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Relationships {
    /// Those that begin here.
    pub(crate) outgoing: Vec<Related>,
    /// Those that end here.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) incoming: Vec<Related>,
}

/// The other end of a relationship.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Related {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) reference_id: String,
    /// Absent where there is no such requirement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
}

/// Who speaks of whom: items whose texts name others, and entities of the knowledge graph.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Links {
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) outgoing: Vec<Link>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) incoming: Vec<Link>,
}

/// The other end of a link.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// `mentions`, or what an entity calls it.
    pub(crate) relation: String,
    /// A reference, or an entity's id.
    pub(crate) id: String,
    /// `requirement`, `decision`, …
    pub(crate) kind: String,
    /// Absent where there is nothing of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
}

impl Surroundings {
    pub(crate) async fn of(
        backlog: Backlog<'_>,
        reference: Reference,
        head: &DocumentMeta,
    ) -> Result<Self> {
        let mut found = Self::default();
        found.lead_here(backlog, reference).await?;
        if let Some(item) = find::item(head) {
            found.lead_away(backlog, item).await?;
        }
        Ok(found)
    }

    /// The children of one kind.
    pub(crate) fn of_kind(&self, kind: ItemKind) -> Vec<Arc<DocumentMeta>> {
        let is_one = |head: &&Arc<DocumentMeta>| head.id.kind == Kind::Item(kind);
        self.children.iter().filter(is_one).cloned().collect()
    }

    async fn lead_here(&mut self, backlog: Backlog<'_>, reference: Reference) -> Result<()> {
        let printed = reference.to_string();
        let kinds = Kind::ITEMS.into_iter().chain([Kind::Entity]).collect();
        let links = documents::BacklinkQuery { kinds, targets: vec![printed.clone()] };
        let linking = backlog.ports.documents.backlinks(backlog.project, &links).await?;
        for head in linking.into_iter().flatten() {
            for (relation, target) in head.links() {
                if target == printed {
                    self.leads_here(reference, &head, relation);
                }
            }
        }
        find::sort(&mut self.children);
        Ok(())
    }

    fn leads_here(&mut self, reference: Reference, head: &Arc<DocumentMeta>, relation: &str) {
        let Some(item) = find::item(head) else {
            let Some(entity) = &head.entity else { return };
            self.links.incoming.push(Link {
                relation: relation.to_owned(),
                id: entity.id.clone(),
                kind: entity.kind.clone(),
                title: Some(entity.title.clone()),
            });
            return;
        };
        let id = item.called(&head.id.name).into_owned();
        if relation == reference.kind.name() {
            self.children.push(Arc::clone(head));
        } else if let Some(kind) = relationship(relation) {
            self.relationships.incoming.push(Related {
                kind,
                reference_id: id,
                title: Some(item.title.clone()),
                status: item.status.map(Status::name),
            });
        } else {
            self.links.incoming.push(Link {
                relation: relation.to_owned(),
                id,
                kind: item.kind.name().to_owned(),
                title: Some(item.title.clone()),
            });
        }
    }

    async fn lead_away(&mut self, backlog: Backlog<'_>, item: &Item) -> Result<()> {
        let related = item.relationships.iter().map(|related| related.target.to_string());
        let known = backlog.named(related.chain(item.mentions.iter().cloned())).await?;
        self.relationships.outgoing = item
            .relationships
            .iter()
            .map(|related| {
                let reference_id = related.target.to_string();
                let item = known.get(&reference_id).and_then(|head| find::item(head));
                Related {
                    kind: related.kind.name(),
                    title: item.map(|item| item.title.clone()),
                    status: item.and_then(|item| item.status).map(Status::name),
                    reference_id,
                }
            })
            .collect();
        let links = item.mentions.iter().filter_map(|mention| {
            let head = known.get(mention);
            let entity = head.and_then(|head| head.entity.as_ref());
            let item = head.and_then(|head| find::item(head));
            let kind = match (Reference::parse(mention), entity) {
                (Some(reference), _) => reference.kind.name().to_owned(),
                (None, Some(entity)) => entity.kind.clone(),
                // It only looks like an id.
                (None, None) => return None,
            };
            let title = item.map(|item| &item.title).or(entity.map(|entity| &entity.title));
            let (relation, id) = (MENTIONS.to_owned(), mention.clone());
            Some(Link { relation, id, kind, title: title.cloned() })
        });
        self.links.outgoing = links.collect();
        Ok(())
    }
}

/// The relationship type of this name, as a constant.
fn relationship(name: &str) -> Option<&'static str> {
    RelationshipType::ALL.into_iter().map(RelationshipType::name).find(|known| *known == name)
}
