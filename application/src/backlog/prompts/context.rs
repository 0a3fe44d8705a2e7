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
use crate::backlog::resources::uri::{ItemView, uri};

const MAX_LIST: usize = 50;
/// Descriptions of a list, in bytes.
const MAX_LIST_BYTES: usize = 64 * 1024;
/// The description of the item itself, in characters.
const MAX_OWN_DESCRIPTION: usize = 50_000;
/// Each other description, in characters.
const MAX_OTHER_DESCRIPTION: usize = 4_000;
/// In characters; tools write no longer titles.
const MAX_TITLE: usize = 500;

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
    user_stories: Option<Part<ItemRecord>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requirements: Option<Part<ItemRecord>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acceptance_criteria: Option<Part<ItemRecord>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sibling_user_stories: Option<Part<ItemSummary>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sibling_requirements: Option<Part<ItemSummary>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relationships: Option<ItemRelationships>,
    links: ItemLinks,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Part<T> {
    count: usize,
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

impl<T> Part<T> {
    fn new(items: Vec<T>, count: usize, whole: &str) -> Self {
        let more = count.saturating_sub(items.len());
        let left_out = (more > 0).then(|| format!("{more} more; read {whole}"));
        Self { count, items, left_out }
    }
}

impl PromptContext {
    pub(super) async fn of(backlog: BacklogReader<'_>, reference: Reference) -> Result<Self> {
        let (head, mut record) = found(backlog, reference).await?;
        let mut stored = Self { version: record.version.clone(), ..Self::default() };
        stored.notes.extend(item_lookup::fault(&head));
        stored.cut(&mut record, MAX_OWN_DESCRIPTION);
        let around = ItemRelations::of(backlog, reference, &head).await?;
        let parent = item_lookup::item(&head).and_then(|item| item.parent);
        match reference.kind {
            ItemKind::Epic => {
                stored.epic = Some(record);
                let heads = around.children_of_kind(ItemKind::UserStory);
                stored.user_stories = Some(stored.children(backlog, reference, &heads).await?);
            }
            ItemKind::UserStory => {
                stored.user_story = Some(record);
                let heads = around.children_of_kind(ItemKind::Requirement);
                stored.requirements = Some(stored.children(backlog, reference, &heads).await?);
                let heads = around.children_of_kind(ItemKind::AcceptanceCriteria);
                stored.acceptance_criteria =
                    Some(stored.children(backlog, reference, &heads).await?);
            }
            ItemKind::Requirement | ItemKind::AcceptanceCriteria => {
                stored.requirement = Some(record);
                let heads = match parent {
                    Some(story) => backlog.children(story, ItemKind::AcceptanceCriteria).await?,
                    None => Vec::new(),
                };
                let story = parent.unwrap_or(reference);
                stored.acceptance_criteria = Some(stored.children(backlog, story, &heads).await?);
                let ItemRelationships { outgoing, incoming } = around.relationships;
                stored.relationships = Some(ItemRelationships {
                    outgoing: stored.shorten_list("relationships.outgoing", outgoing),
                    incoming: stored.shorten_list("relationships.incoming", incoming),
                });
            }
        }
        stored.links = ItemLinks {
            outgoing: stored.shorten_list("links.outgoing", around.links.outgoing),
            incoming: stored.shorten_list("links.incoming", around.links.incoming),
        };
        stored.siblings(backlog, reference, parent).await?;
        stored.parents(backlog, reference, parent).await?;
        Ok(stored)
    }

    /// Adds the item's parent, and the parent's.
    async fn parents(
        &mut self,
        backlog: BacklogReader<'_>,
        child: Reference,
        parent: Option<Reference>,
    ) -> Result<()> {
        let (mut child, mut parent) = (child, parent);
        while let Some(reference) = parent {
            let (head, mut record) = match found(backlog, reference).await {
                Ok(found) => found,
                Err(error) if is_gone(error.kind) => {
                    self.notes.push(format!("parent of {child}: {}", error.message));
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.cut(&mut record, MAX_OTHER_DESCRIPTION);
            match reference.kind {
                ItemKind::Epic => self.epic = Some(record),
                _ => self.user_story = Some(record),
            }
            child = reference;
            parent = item_lookup::item(&head).and_then(|item| item.parent);
        }
        if let Some(kind) = child.kind.parent() {
            self.notes.push(format!("{child} has no {}", kind.noun().to_lowercase()));
        }
        Ok(())
    }

    /// Adds the other children of the parent.
    async fn siblings(
        &mut self,
        backlog: BacklogReader<'_>,
        reference: Reference,
        parent: Option<Reference>,
    ) -> Result<()> {
        let Some(parent) = parent else { return Ok(()) };
        let mut heads = backlog.children(parent, reference.kind).await?;
        heads.retain(|head| {
            item_lookup::item(head).is_some_and(|it| it.reference != Some(reference))
        });
        let count = heads.len();
        heads.truncate(MAX_LIST);
        let whole = uri(parent, ItemView::Children(reference.kind));
        let mut briefs = ItemSummary::all(&heads);
        for brief in &mut briefs {
            shorten(&mut brief.title);
        }
        let part = Some(Part::new(briefs, count, &whole));
        match reference.kind {
            ItemKind::UserStory => self.sibling_user_stories = part,
            ItemKind::Requirement => self.sibling_requirements = part,
            ItemKind::Epic | ItemKind::AcceptanceCriteria => {}
        }
        Ok(())
    }

    /// The first children, with their texts.
    async fn children(
        &mut self,
        backlog: BacklogReader<'_>,
        parent: Reference,
        heads: &[Arc<DocumentMeta>],
    ) -> Result<Part<ItemRecord>> {
        let kind = heads.first().and_then(|head| item_lookup::item(head)).map(|item| item.kind);
        let whole = kind.map_or_else(String::new, |kind| uri(parent, ItemView::Children(kind)));
        let first = &heads[..heads.len().min(MAX_LIST)];
        let (mut records, mut bytes) = (Vec::new(), 0);
        for found in item_view::all(backlog, first).await?.into_iter().flatten() {
            let mut record = match found {
                Ok(record) => record,
                Err(error) => {
                    self.notes.push(error.message);
                    continue;
                }
            };
            self.cut(&mut record, MAX_OTHER_DESCRIPTION);
            bytes += record.description.len();
            if bytes > MAX_LIST_BYTES {
                break;
            }
            records.push(record);
        }
        Ok(Part::new(records, heads.len(), &whole))
    }

    fn cut(&mut self, record: &mut ItemRecord, most: usize) {
        shorten(&mut record.title);
        let Some((at, _)) = record.description.char_indices().nth(most) else { return };
        record.description.truncate(at);
        let reference = &record.reference_id;
        self.notes.push(format!(
            "the description of {reference} ends here after {most} characters; get_item reads all"
        ));
    }

    fn shorten_list<T>(&mut self, name: &str, mut list: Vec<T>) -> Vec<T> {
        if list.len() > MAX_LIST {
            self.notes.push(format!("{name}: the first {MAX_LIST} of {}", list.len()));
            list.truncate(MAX_LIST);
        }
        list
    }
}

/// A file made by hand may have a title of any length.
fn shorten(title: &mut String) {
    if let Some((at, _)) = title.char_indices().nth(MAX_TITLE) {
        title.truncate(at);
        title.push('…');
    }
}

/// True for an error that concerns one item alone.
fn is_gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::Refused | ErrorKind::Unreadable)
}

async fn found(
    backlog: BacklogReader<'_>,
    reference: Reference,
) -> Result<(Arc<DocumentMeta>, ItemRecord)> {
    let head = backlog.head(reference).await?;
    let record = item_view::one(backlog, &head).await?;
    Ok((head, record))
}
