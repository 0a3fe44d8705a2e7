//! Views of items for tools and resources: full records, summaries for lists, and relations.

use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, ItemMeta, MENTIONS, RelationshipType};
use reqlore_domain::document::{Document, DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::records::answers::items::{
    ItemRecord, ItemRelationships, ItemSummary, RelatedItem,
};
use reqlore_domain::records::answers::links::LinkList;
use reqlore_domain::records::schema::RecordSchema;

use super::claims::LiveClaims;
use super::item_lookup::{self, BacklogReader};
use crate::addresses::links::{IncomingLink, LinkReader};
use crate::answers::show_keys::EntryKeys;
use crate::documents::{MAX_READ_DOCUMENTS, document_text};

/// Parses the document only if its version differs from the metadata.
fn document_record(
    (backlog, schema): (BacklogReader<'_>, &RecordSchema),
    meta: &DocumentMeta,
    document: &Document,
) -> Result<ItemRecord> {
    let text = document_text(document)?;
    let item = item_lookup::parse_item(meta, document, text);
    let (name, description) = (&document.id.name, ItemMeta::description(text));
    Ok(ItemRecord::new(backlog.project, &item, name, document.version, description, schema))
}

/// `None` if the metadata does not hold the description because of its length.
fn meta_record(
    (backlog, schema): (BacklogReader<'_>, &RecordSchema),
    meta: &DocumentMeta,
) -> Option<ItemRecord> {
    let item = item_lookup::item_meta(meta)?;
    let (name, description) = (&meta.id.name, item.description.as_deref()?);
    Some(ItemRecord::new(backlog.project, item, name, meta.version, description, schema))
}

/// The records in the order of `metas`; `None` for a document that was removed after its metadata
/// was read. Reads only the documents with long descriptions.
pub(crate) async fn read_records(
    backlog: BacklogReader<'_>,
    schema: &RecordSchema,
    metas: &[Arc<DocumentMeta>],
) -> Result<Vec<Option<Result<ItemRecord>>>> {
    let mut records = Vec::with_capacity(metas.len());
    let mut unread_positions = Vec::new();
    let mut unread_metas: Vec<&DocumentMeta> = Vec::new();
    for (position, meta) in metas.iter().enumerate() {
        // The metadata does not hold long descriptions.
        let record = meta_record((backlog, schema), meta);
        if record.is_none() {
            unread_positions.push(position);
            unread_metas.push(meta);
        }
        records.push(record.map(Ok));
    }
    let documents = backlog.read_documents(&unread_metas).await?;
    for (position, document) in unread_positions.into_iter().zip(documents) {
        records[position] = document
            .map(|document| document_record((backlog, schema), &metas[position], &document));
    }
    let claims = LiveClaims::for_view(backlog, metas.iter().map(|meta| &**meta)).await;
    for (record, meta) in records.iter_mut().zip(metas) {
        if let Some(Ok(record)) = record {
            record.claim = claims.view(meta, schema);
        }
    }
    Ok(records)
}

pub(crate) async fn read_record(
    backlog: BacklogReader<'_>,
    schema: &RecordSchema,
    meta: &DocumentMeta,
) -> Result<ItemRecord> {
    let mut record = match meta_record((backlog, schema), meta) {
        Some(record) => record,
        None => document_record((backlog, schema), meta, &backlog.read_document(meta).await?)?,
    };
    record.claim = LiveClaims::for_view(backlog, [meta]).await.view(meta, schema);
    Ok(record)
}

/// The keys of [`ItemSummary`].
pub(crate) struct SummaryKeys;

impl EntryKeys for SummaryKeys {
    const KEYS: &'static [&'static str] = &[
        "title",
        "status",
        "priority",
        "type_name",
        "assignee_username",
        "tags",
        "description",
        "fields",
    ];
}

/// The summaries of items, with the whole texts of acceptance criteria: their titles are the
/// beginnings of their texts.
pub(crate) async fn read_summaries(
    backlog: BacklogReader<'_>,
    schema: &RecordSchema,
    metas: &[Arc<DocumentMeta>],
) -> Result<Vec<ItemSummary>> {
    let criteria = DocumentKind::Item(ItemKind::AcceptanceCriteria);
    let mut summaries = Vec::with_capacity(metas.len());
    let claims = LiveClaims::for_view(backlog, metas.iter().map(|meta| &**meta)).await;
    for batch in metas.chunks(MAX_READ_DOCUMENTS) {
        let mut read = batch.to_vec();
        read.retain(|meta| meta.id.kind == criteria);
        let mut records = read_records(backlog, schema, &read).await?.into_iter();
        for meta in batch {
            let Some(mut summary) = ItemSummary::from_meta(meta, schema) else { continue };
            // An unreadable or removed criterion keeps its title.
            if meta.id.kind == criteria
                && let Some(Some(Ok(record))) = records.next()
            {
                summary.description = Some(record.description);
            }
            summary.claim = claims.view(meta, schema);
            summaries.push(summary);
        }
    }
    Ok(summaries)
}

/// The children of an item, its relationships, and its other links in both directions.
///
/// A link has no title if its target does not exist or if several items have the reference.
#[derive(Debug, Default)]
pub(crate) struct ItemRelations {
    /// All kinds together, sorted like all lists.
    pub(crate) children: Vec<Arc<DocumentMeta>>,
    pub(crate) relationships: ItemRelationships,
    pub(crate) links: LinkList,
}

impl ItemRelations {
    pub(crate) async fn read(backlog: BacklogReader<'_>, meta: &DocumentMeta) -> Result<Self> {
        let links = LinkReader { ports: backlog.ports, project: backlog.project };
        let mut relations = Self::default();
        let mut incoming = Vec::new();
        let reference = item_lookup::item_meta(meta).and_then(|item| item.reference);
        // Links cannot name a file without a reference.
        let names = reference.iter().map(ToString::to_string).collect();
        let parent_relation = reference.map_or("", |reference| reference.kind.name());
        for link in links.incoming(names).await? {
            let IncomingLink { relation, source, .. } = &link;
            let item = source.meta.item.as_deref();
            // A child links to its parent under the name of the parent's kind.
            if item.is_some() && relation == parent_relation {
                relations.children.push(Arc::clone(&source.meta));
            } else if let Some(item) = item
                && let Some(kind) = relationship_type(relation)
            {
                let source = RelatedItem::new(kind, source.id(), Some(item));
                relations.relationships.incoming.push(source);
            } else {
                incoming.push(link.entry());
            }
        }
        relations.relationships.incoming_total = relations.relationships.incoming.len();
        item_lookup::sort_items(&mut relations.children);
        let mut outgoing = Vec::new();
        for link in links.outgoing(meta, None).await? {
            if let Some(kind) = relationship_type(&link.relation) {
                let target = link.target.as_ref().and_then(|target| target.meta.item.as_deref());
                relations.relationships.outgoing.push(RelatedItem::new(kind, link.id, target));
            } else if link.relation == MENTIONS {
                outgoing.push(link.entry());
            }
        }
        relations.links = LinkList::new(outgoing, incoming);
        Ok(relations)
    }

    pub(crate) fn children_of_kind(&self, kind: ItemKind) -> Vec<Arc<DocumentMeta>> {
        let mut children = self.children.clone();
        children.retain(|meta| meta.id.kind == DocumentKind::Item(kind));
        children
    }
}

fn relationship_type(relation: &str) -> Option<&'static str> {
    RelationshipType::ALL.map(RelationshipType::name).into_iter().find(|name| *name == relation)
}
