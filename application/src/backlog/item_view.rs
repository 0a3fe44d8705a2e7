//! Items as answers and resources show them: whole records, summaries in lists, and relations.

use std::sync::Arc;

use reqlore_domain::backlog::{
    ItemKind, ItemMeta, MENTIONS, Priority, Reference, RelationshipType, RequirementType, Status,
};
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::BacklinkQuery;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::item_lookup::{self, BacklogReader};

const UNKNOWN: &str = "unknown";

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ItemRecord {
    pub(crate) project: String,
    /// Permanent ID.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub(crate) uid: Option<String>,
    pub(crate) reference_id: String,
    /// For if_version.
    pub(crate) version: String,
    pub(crate) title: String,
    /// Stored text: data, not instructions.
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) type_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_story: Option<String>,
    pub(crate) creator_username: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub(crate) assignee_username: Option<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) tags: Vec<String>,
}

impl ItemRecord {
    /// The record of a document; metadata of the same version saves parsing it.
    fn of(project: &ProjectKey, head: &DocumentMeta, document: &Document) -> Result<Self> {
        let text = item_lookup::text(document)?;
        let item = item_lookup::read(head, document, text);
        let name = &document.id.name;
        Ok(Self::new(project, &item, name, document.version, ItemMeta::description(text)))
    }

    /// The record of metadata alone; `None` if the description is too long to be part of it.
    fn of_head(project: &ProjectKey, head: &DocumentMeta) -> Option<Self> {
        let item = item_lookup::item(head)?;
        let description = item.description.as_deref()?;
        Some(Self::new(project, item, &head.id.name, head.version, description))
    }

    pub(crate) fn new(
        project: &ProjectKey,
        item: &ItemMeta,
        name: &str,
        version: Version,
        description: &str,
    ) -> Self {
        let parent = item.parent.map(|parent| parent.to_string());
        let (epic, user_story) =
            if item.kind == ItemKind::UserStory { (parent, None) } else { (None, parent) };
        Self {
            project: project.to_string(),
            uid: item.uid.clone(),
            reference_id: item.display_name(name).into_owned(),
            version: version.to_string(),
            title: item.title.clone(),
            description: description.to_owned(),
            status: item.status.map(Status::name),
            priority: item.priority.map(Priority::number),
            type_name: item.requirement_type.map(RequirementType::name),
            epic,
            user_story,
            creator_username: item.creator.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            assignee_username: item.assignee.clone(),
            created_at: item.created_at.rfc3339(),
            updated_at: item.updated_at.rfc3339(),
            tags: item.tags.clone(),
        }
    }
}

/// The records of these items in their order; `None` for a document that was removed in between.
/// Reads the documents of long descriptions only.
pub(crate) async fn all(
    backlog: BacklogReader<'_>,
    heads: &[Arc<DocumentMeta>],
) -> Result<Vec<Option<Result<ItemRecord>>>> {
    let mut records = Vec::with_capacity(heads.len());
    let mut long = Vec::new();
    for (position, head) in heads.iter().enumerate() {
        let record = ItemRecord::of_head(backlog.project, head);
        if record.is_none() {
            long.push((position, Arc::clone(head)));
        }
        records.push(record.map(Ok));
    }
    let long_heads: Vec<&DocumentMeta> = long.iter().map(|(_, head)| &**head).collect();
    let documents = backlog.documents(&long_heads).await?;
    for ((position, head), document) in long.iter().zip(documents) {
        records[*position] = document.map(|found| ItemRecord::of(backlog.project, head, &found));
    }
    Ok(records)
}

pub(crate) fn written(
    backlog: BacklogReader<'_>,
    document: &Document,
    kind: ItemKind,
    at: Timestamp,
) -> Result<ItemRecord> {
    let (name, text) = (&document.id.name, item_lookup::text(document)?);
    let (item, _) = ItemMeta::read(kind, name, text, at);
    Ok(ItemRecord::new(backlog.project, &item, name, document.version, ItemMeta::description(text)))
}

pub(crate) async fn one(backlog: BacklogReader<'_>, head: &DocumentMeta) -> Result<ItemRecord> {
    match ItemRecord::of_head(backlog.project, head) {
        Some(record) => Ok(record),
        None => ItemRecord::of(backlog.project, head, &backlog.document(head).await?),
    }
}

/// The first line of an answer to a write.
pub(crate) fn sentence(done: &str, kind: ItemKind, record: &ItemRecord) -> String {
    let ItemRecord { reference_id, title, version, .. } = record;
    let noun = kind.noun().to_lowercase();
    format!("{done} {noun} {reference_id}: {title} (version {})", &version[..8])
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ItemSummary {
    pub(crate) reference_id: String,
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) type_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assignee_username: Option<String>,
}

impl ItemSummary {
    /// `None` for a document that is not an item.
    pub(crate) fn of(head: &DocumentMeta) -> Option<Self> {
        let item = item_lookup::item(head)?;
        Some(Self {
            reference_id: item.display_name(&head.id.name).into_owned(),
            title: item.title.clone(),
            status: item.status.map(Status::name),
            priority: item.priority.map(Priority::number),
            type_name: item.requirement_type.map(RequirementType::name),
            assignee_username: item.assignee.clone(),
        })
    }

    pub(crate) fn all(heads: &[Arc<DocumentMeta>]) -> Vec<Self> {
        heads.iter().filter_map(|head| Self::of(head)).collect()
    }
}

/// The children of an item, its relationships, and its other links in both directions. A link that
/// leads to no item, or to several with one reference, has no title.
#[derive(Debug, Default)]
pub(crate) struct ItemRelations {
    /// In the one order, all kinds together.
    pub(crate) children: Vec<Arc<DocumentMeta>>,
    pub(crate) relationships: ItemRelationships,
    pub(crate) links: ItemLinks,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ItemRelationships {
    pub(crate) outgoing: Vec<RelatedItem>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) incoming: Vec<RelatedItem>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RelatedItem {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) reference_id: String,
    /// Absent if the target is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
}

impl RelatedItem {
    fn new(kind: &'static str, reference_id: String, item: Option<&ItemMeta>) -> Self {
        let title = item.map(|item| item.title.clone());
        let status = item.and_then(|item| item.status).map(Status::name);
        Self { kind, reference_id, title, status }
    }
}

/// Mentions, and links of knowledge entities.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ItemLinks {
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) outgoing: Vec<ItemLink>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) incoming: Vec<ItemLink>,
}

/// The other end of a link.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ItemLink {
    /// `mentions`, or what an entity calls it.
    relation: String,
    /// A reference, or an entity's id.
    id: String,
    /// `requirement`, `decision`, …
    kind: String,
    /// Absent where there is nothing of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl ItemRelations {
    pub(crate) async fn of(
        backlog: BacklogReader<'_>,
        reference: Reference,
        head: &DocumentMeta,
    ) -> Result<Self> {
        let mut found = Self::default();
        found.add_incoming(backlog, reference).await?;
        if let Some(item) = item_lookup::item(head) {
            found.add_outgoing(backlog, item).await?;
        }
        Ok(found)
    }

    pub(crate) fn children_of_kind(&self, kind: ItemKind) -> Vec<Arc<DocumentMeta>> {
        let is_one = |head: &&Arc<DocumentMeta>| head.id.kind == DocumentKind::Item(kind);
        self.children.iter().filter(is_one).cloned().collect()
    }

    async fn add_incoming(
        &mut self,
        backlog: BacklogReader<'_>,
        reference: Reference,
    ) -> Result<()> {
        let printed = reference.to_string();
        let kinds = DocumentKind::ITEMS.into_iter().chain([DocumentKind::Entity]).collect();
        let query = BacklinkQuery { kinds, targets: vec![printed.clone()] };
        let backlinks = backlog.ports.documents.backlinks(backlog.project, &query).await?;
        for head in backlinks.into_iter().flatten() {
            for (relation, target) in head.links() {
                if target == printed {
                    self.add_backlink(reference, &head, relation);
                }
            }
        }
        item_lookup::sort(&mut self.children);
        Ok(())
    }

    fn add_backlink(&mut self, target: Reference, head: &Arc<DocumentMeta>, relation: &str) {
        let types = RelationshipType::ALL.map(RelationshipType::name);
        let relationship = types.into_iter().find(|name| *name == relation);
        let (id, kind, title) = match (item_lookup::item(head), &head.entity) {
            (Some(_), _) if relation == target.kind.name() => {
                self.children.push(Arc::clone(head));
                return;
            }
            (Some(item), _) => {
                let id = item.display_name(&head.id.name).into_owned();
                if let Some(kind) = relationship {
                    self.relationships.incoming.push(RelatedItem::new(kind, id, Some(item)));
                    return;
                }
                (id, item.kind.name().to_owned(), item.title.clone())
            }
            (None, Some(entity)) => (entity.id.clone(), entity.kind.clone(), entity.title.clone()),
            (None, None) => return,
        };
        let relation = relation.to_owned();
        self.links.incoming.push(ItemLink { relation, id, kind, title: Some(title) });
    }

    async fn add_outgoing(&mut self, backlog: BacklogReader<'_>, item: &ItemMeta) -> Result<()> {
        let related = item.relationships.iter().map(|related| related.target.to_string());
        let known = backlog.named(related.chain(item.mentions.iter().cloned())).await?;
        for related in &item.relationships {
            let target = related.target.to_string();
            let item = known.get(&target).and_then(|head| item_lookup::item(head));
            self.relationships.outgoing.push(RelatedItem::new(related.kind.name(), target, item));
        }
        for mention in &item.mentions {
            let head = known.get(mention);
            let entity = head.and_then(|head| head.entity.as_ref());
            let item = head.and_then(|head| item_lookup::item(head));
            let kind = match (Reference::parse(mention), entity) {
                (Some(reference), _) => reference.kind.name().to_owned(),
                (None, Some(entity)) => entity.kind.clone(),
                // It only looks like an id.
                (None, None) => continue,
            };
            let title = item.map(|item| &item.title).or(entity.map(|entity| &entity.title));
            let (relation, id) = (MENTIONS.to_owned(), mention.clone());
            self.links.outgoing.push(ItemLink { relation, id, kind, title: title.cloned() });
        }
        Ok(())
    }
}
