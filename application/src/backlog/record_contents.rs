//! The contents of records in lists: links, texts and extra keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::Result;
use reqlore_domain::front_matter;
use reqlore_domain::records::answers::lists::ListedItem;
use reqlore_domain::records::extra::extra_keys;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::tombstone::RecordRef;

use super::item_lookup::BacklogReader;
use crate::documents::{MAX_READ_DOCUMENTS, document_text};

/// Records with their links, texts and extra keys.
pub(crate) async fn listed_records(
    backlog: BacklogReader<'_>,
    schema: &RecordSchema,
    metas: &[Arc<DocumentMeta>],
) -> Result<Vec<ListedItem>> {
    let listed = metas.iter().filter_map(|meta| ListedItem::of_record(meta, schema));
    let mut items: Vec<ListedItem> = listed.collect();
    add_contents((backlog, schema), [true; 3], metas, &mut items).await?;
    Ok(items)
}

/// Adds the links, texts and extra keys, if they are wanted.
pub(super) async fn add_contents(
    (backlog, schema): (BacklogReader<'_>, &RecordSchema),
    [has_links, has_text, has_extra]: [bool; 3],
    metas: &[Arc<DocumentMeta>],
    items: &mut [ListedItem],
) -> Result<()> {
    if has_links {
        for (item, meta) in items.iter_mut().zip(metas) {
            item.links = outgoing_links(meta, schema);
        }
    }
    if !has_text && !has_extra {
        return Ok(());
    }
    for (items, metas) in items.chunks_mut(MAX_READ_DOCUMENTS).zip(metas.chunks(MAX_READ_DOCUMENTS))
    {
        let documents = backlog.read_documents(metas).await?;
        for ((item, meta), document) in items.iter_mut().zip(metas).zip(documents) {
            let Some(document) = document else { continue };
            let text = document_text(&document)?;
            if has_text {
                item.description = Some(front_matter::body(text).replace("\r\n", "\n"));
            }
            if has_extra && let Some(record) = RecordRef::of_meta(meta) {
                item.extra = extra_keys(record, text, schema);
            }
        }
    }
    Ok(())
}

/// The targets of a record's links by relation, without its parent.
fn outgoing_links(meta: &DocumentMeta, schema: &RecordSchema) -> BTreeMap<String, Vec<String>> {
    let mut links: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if let Some(item) = &meta.item {
        for link in &item.relationships {
            links.entry(link.kind.name().to_owned()).or_default().push(link.target.to_string());
        }
    }
    if let Some(entity) = &meta.entity {
        for link in entity.links.iter().filter(|link| schema.field(&link.relation).is_none()) {
            links.entry(link.relation.clone()).or_default().push(link.target.clone());
        }
    }
    links
}
