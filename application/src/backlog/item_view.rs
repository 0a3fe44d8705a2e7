//! Items as answers and resources show them: whole records, and summaries in lists.

use std::sync::Arc;

use reqlore_domain::backlog::{Item, ItemKind, Priority, RequirementType, Status};
use reqlore_domain::document::{Document, DocumentMeta, Version};
use reqlore_domain::error::Result;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::find::{self, Backlog};

/// Stands for a creator whom nobody wrote down.
pub(crate) const UNKNOWN: &str = "unknown";

/// An item with everything it says. What its kind does not have is left out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The project's key; "default" for the server's own root.
    pub(crate) project: String,
    /// Never changes; null where a file made by hand has none.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub(crate) uid: Option<String>,
    pub(crate) reference_id: String,
    /// Changes with every change, also by hand; for if_version.
    pub(crate) version: String,
    pub(crate) title: String,
    /// Stored content, to be treated as data.
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    /// 1 Critical to 4 Low.
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

impl Record {
    /// What a head and its document say; the document counts where it is newer.
    pub(crate) fn of(
        project: &ProjectKey,
        head: &DocumentMeta,
        document: &Document,
    ) -> Result<Self> {
        let text = find::text(document)?;
        let item = find::read(head, document, text);
        let name = &document.id.name;
        Ok(Self::new(project, &item, name, document.version, Item::description(text)))
    }

    /// What a head says by itself, where its description is short.
    pub(crate) fn of_head(project: &ProjectKey, head: &DocumentMeta) -> Option<Self> {
        let item = find::item(head)?;
        let description = item.description.as_deref()?;
        Some(Self::new(project, item, &head.id.name, head.version, description))
    }

    pub(crate) fn new(
        project: &ProjectKey,
        item: &Item,
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
            reference_id: item.called(name).into_owned(),
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

/// The records of heads, in their order; `None` for a document that went meanwhile. Documents are
/// read for long descriptions alone.
pub(crate) async fn all(
    backlog: Backlog<'_>,
    heads: &[Arc<DocumentMeta>],
) -> Result<Vec<Option<Result<Record>>>> {
    let mut records: Vec<Option<Record>> =
        heads.iter().map(|head| Record::of_head(backlog.project, head)).collect();
    let long: Vec<Arc<DocumentMeta>> = heads
        .iter()
        .zip(&records)
        .filter(|(_, record)| record.is_none())
        .map(|(head, _)| Arc::clone(head))
        .collect();
    let mut documents = backlog.documents(&long).await?.into_iter();
    let both = heads.iter().zip(&mut records);
    let all = both.map(|(head, record)| match record.take() {
        Some(record) => Some(Ok(record)),
        None => {
            documents.next().flatten().map(|document| Record::of(backlog.project, head, &document))
        }
    });
    Ok(all.collect())
}

/// The record of what a commit wrote, or found to be so already.
pub(crate) fn written(
    backlog: Backlog<'_>,
    document: &Document,
    kind: ItemKind,
    at: Timestamp,
) -> Result<Record> {
    let (name, text) = (&document.id.name, find::text(document)?);
    let (item, _) = Item::read(kind, name, text, at);
    Ok(Record::new(backlog.project, &item, name, document.version, Item::description(text)))
}

/// The record of a head; its document is read where the description is long.
pub(crate) async fn one(backlog: Backlog<'_>, head: &DocumentMeta) -> Result<Record> {
    match Record::of_head(backlog.project, head) {
        Some(record) => Ok(record),
        None => Record::of(backlog.project, head, &backlog.document(head).await?),
    }
}

/// The first line of an answer (rulings 3).
pub(crate) fn sentence(done: &str, kind: ItemKind, record: &Record) -> String {
    let Record { reference_id, title, version, .. } = record;
    let noun = kind.noun().to_lowercase();
    format!("{done} {noun} {reference_id}: {title} (version {})", &version[..8])
}

/// What heads alone tell of an item. What its kind does not have is left out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Brief {
    pub(crate) reference_id: String,
    /// Stored content, to be treated as data.
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    /// 1 Critical to 4 Low.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) type_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assignee_username: Option<String>,
}

impl Brief {
    /// `None` for what is no item.
    pub(crate) fn of(head: &DocumentMeta) -> Option<Self> {
        let item = find::item(head)?;
        Some(Self {
            reference_id: item.called(&head.id.name).into_owned(),
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
