//! The stored content of a prompt: an item with its parents, siblings, children, relationships and
//! links.
//!
//! Long lists and texts are cut, and say so. A missing parent is noted; a missing item is an error.

use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::{ErrorKind, Result};
use serde::Serialize;

use crate::backlog::item_lookup::{self, BacklogReader};
use crate::backlog::item_view::{
    self, ItemLinks, ItemRecord, ItemRelations, ItemRelationships, ItemSummary,
};
use crate::backlog::resources::uri::{ItemView, item_uri};

const MAX_LIST_ITEMS: usize = 50;
/// Descriptions of a list, in bytes.
const MAX_LIST_BYTES: usize = 64 * 1024;
/// The description of the item itself, in characters.
const MAX_OWN_DESCRIPTION_CHARS: usize = 50_000;
/// Each other description, in characters.
const MAX_OTHER_DESCRIPTION_CHARS: usize = 4_000;
/// In characters; tools write no longer titles.
const MAX_TITLE_CHARS: usize = 500;

/// Fields that the item's kind does not have are left out.
#[derive(Default, Serialize)]
pub(super) struct PromptContext {
    /// The item's; for `if_version`.
    #[serde(skip)]
    pub(super) version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    requirement: Option<ItemRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_story: Option<ItemRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epic: Option<ItemRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_stories: Option<ContextList<ItemRecord>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requirements: Option<ContextList<ItemRecord>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acceptance_criteria: Option<ContextList<ItemRecord>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sibling_user_stories: Option<ContextList<ItemSummary>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sibling_requirements: Option<ContextList<ItemSummary>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relationships: Option<ItemRelationships>,
    links: ItemLinks,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ContextList<T> {
    count: usize,
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

impl<T> ContextList<T> {
    fn new(items: Vec<T>, count: usize, whole: &str) -> Self {
        let more = count.saturating_sub(items.len());
        let left_out = (more > 0).then(|| format!("{more} more; read {whole}"));
        Self { count, items, left_out }
    }
}

impl PromptContext {
    pub(super) async fn read(backlog: BacklogReader<'_>, reference: Reference) -> Result<Self> {
        let (meta, mut record) = find_record(backlog, reference).await?;
        let mut stored = Self { version: record.version.clone(), ..Self::default() };
        stored.notes.extend(item_lookup::fault_with_place(&meta));
        stored.truncate_record(&mut record, MAX_OWN_DESCRIPTION_CHARS);
        let around = ItemRelations::read(backlog, reference, &meta).await?;
        let parent = item_lookup::item_meta(&meta).and_then(|item| item.parent);
        match reference.kind {
            ItemKind::Epic => {
                stored.epic = Some(record);
                let metas = around.children_of_kind(ItemKind::UserStory);
                stored.user_stories = Some(stored.read_children(backlog, reference, &metas).await?);
            }
            ItemKind::UserStory => {
                stored.user_story = Some(record);
                let metas = around.children_of_kind(ItemKind::Requirement);
                stored.requirements = Some(stored.read_children(backlog, reference, &metas).await?);
                let metas = around.children_of_kind(ItemKind::AcceptanceCriteria);
                stored.acceptance_criteria =
                    Some(stored.read_children(backlog, reference, &metas).await?);
            }
            ItemKind::Requirement | ItemKind::AcceptanceCriteria => {
                stored.requirement = Some(record);
                let metas = match parent {
                    Some(story) => backlog.children(story, ItemKind::AcceptanceCriteria).await?,
                    None => Vec::new(),
                };
                let story = parent.unwrap_or(reference);
                stored.acceptance_criteria =
                    Some(stored.read_children(backlog, story, &metas).await?);
                let ItemRelationships { outgoing, incoming } = around.relationships;
                stored.relationships = Some(ItemRelationships {
                    outgoing: stored.truncate_list("relationships.outgoing", outgoing),
                    incoming: stored.truncate_list("relationships.incoming", incoming),
                });
            }
        }
        stored.links = ItemLinks {
            outgoing: stored.truncate_list("links.outgoing", around.links.outgoing),
            incoming: stored.truncate_list("links.incoming", around.links.incoming),
        };
        stored.add_siblings(backlog, reference, parent).await?;
        stored.add_parents(backlog, reference, parent).await?;
        Ok(stored)
    }

    /// Adds the item's parent, and the parent's.
    async fn add_parents(
        &mut self,
        backlog: BacklogReader<'_>,
        child: Reference,
        parent: Option<Reference>,
    ) -> Result<()> {
        let (mut child, mut parent) = (child, parent);
        while let Some(reference) = parent {
            let (meta, mut record) = match find_record(backlog, reference).await {
                Ok(found) => found,
                Err(error) if is_item_error(error.kind) => {
                    self.notes.push(format!("parent of {child}: {}", error.message));
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.truncate_record(&mut record, MAX_OTHER_DESCRIPTION_CHARS);
            match reference.kind {
                ItemKind::Epic => self.epic = Some(record),
                _ => self.user_story = Some(record),
            }
            child = reference;
            parent = item_lookup::item_meta(&meta).and_then(|item| item.parent);
        }
        if let Some(kind) = child.kind.parent() {
            self.notes.push(format!("{child} has no {}", kind.noun().to_lowercase()));
        }
        Ok(())
    }

    /// Adds the other children of the parent.
    async fn add_siblings(
        &mut self,
        backlog: BacklogReader<'_>,
        reference: Reference,
        parent: Option<Reference>,
    ) -> Result<()> {
        let Some(parent) = parent else { return Ok(()) };
        let mut metas = backlog.children(parent, reference.kind).await?;
        metas.retain(|meta| {
            item_lookup::item_meta(meta).is_some_and(|it| it.reference != Some(reference))
        });
        let count = metas.len();
        metas.truncate(MAX_LIST_ITEMS);
        let whole = item_uri(parent, ItemView::Children(reference.kind));
        let mut briefs = ItemSummary::from_metas(&metas);
        for brief in &mut briefs {
            truncate_title(&mut brief.title);
        }
        let part = Some(ContextList::new(briefs, count, &whole));
        match reference.kind {
            ItemKind::UserStory => self.sibling_user_stories = part,
            ItemKind::Requirement => self.sibling_requirements = part,
            ItemKind::Epic | ItemKind::AcceptanceCriteria => {}
        }
        Ok(())
    }

    /// The first children, with their texts.
    async fn read_children(
        &mut self,
        backlog: BacklogReader<'_>,
        parent: Reference,
        metas: &[Arc<DocumentMeta>],
    ) -> Result<ContextList<ItemRecord>> {
        let kind =
            metas.first().and_then(|meta| item_lookup::item_meta(meta)).map(|item| item.kind);
        let whole =
            kind.map_or_else(String::new, |kind| item_uri(parent, ItemView::Children(kind)));
        let first = &metas[..metas.len().min(MAX_LIST_ITEMS)];
        let (mut records, mut bytes) = (Vec::new(), 0);
        for found in item_view::read_records(backlog, first).await?.into_iter().flatten() {
            let mut record = match found {
                Ok(record) => record,
                Err(error) => {
                    self.notes.push(error.message);
                    continue;
                }
            };
            self.truncate_record(&mut record, MAX_OTHER_DESCRIPTION_CHARS);
            bytes += record.description.len();
            if bytes > MAX_LIST_BYTES {
                break;
            }
            records.push(record);
        }
        Ok(ContextList::new(records, metas.len(), &whole))
    }

    fn truncate_record(&mut self, record: &mut ItemRecord, most: usize) {
        truncate_title(&mut record.title);
        let Some((at, _)) = record.description.char_indices().nth(most) else { return };
        record.description.truncate(at);
        let reference = &record.reference_id;
        self.notes.push(format!(
            "the description of {reference} ends here after {most} characters; get_item reads all"
        ));
    }

    fn truncate_list<T>(&mut self, name: &str, mut list: Vec<T>) -> Vec<T> {
        if list.len() > MAX_LIST_ITEMS {
            self.notes.push(format!("{name}: the first {MAX_LIST_ITEMS} of {}", list.len()));
            list.truncate(MAX_LIST_ITEMS);
        }
        list
    }
}

/// A file made by hand may have a title of any length.
fn truncate_title(title: &mut String) {
    if let Some((at, _)) = title.char_indices().nth(MAX_TITLE_CHARS) {
        title.truncate(at);
        title.push('…');
    }
}

/// True for an error that concerns one item alone.
fn is_item_error(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::Refused | ErrorKind::Unreadable)
}

async fn find_record(
    backlog: BacklogReader<'_>,
    reference: Reference,
) -> Result<(Arc<DocumentMeta>, ItemRecord)> {
    let meta = backlog.find_item(reference).await?;
    let record = item_view::read_record(backlog, &meta).await?;
    Ok((meta, record))
}
