//! The stored content of a prompt: an item with its parents, siblings, children, relationships and
//! links.
//!
//! `left_out` and `notes` describe truncated lists and texts. A missing parent becomes a note, but
//! a missing item is an error.

use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::Result;
use reqlore_domain::records::answers::items::{ItemRecord, ItemRelationships, ItemSummary};
use reqlore_domain::records::answers::links::LinkList;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::task_context::sentences::first_sentences;
use serde::Serialize;

use crate::backlog::item_lookup::{self, BacklogReader};
use crate::backlog::item_view::{self, ItemRelations};
use crate::backlog::resources::uri::{ItemView, item_uri};

const MAX_LIST_ITEMS: usize = 50;
/// All descriptions of a list together.
const MAX_LIST_BYTES: usize = 64 * 1024;
/// The description of the prompt's item.
const MAX_OWN_DESCRIPTION_CHARS: usize = 50_000;
/// The description of any other item.
const MAX_OTHER_DESCRIPTION_CHARS: usize = 4_000;
/// Also the limit for titles that tools write.
const MAX_TITLE_CHARS: usize = 500;

/// The stored content of one prompt; which fields are set depends on the kind of the item.
#[derive(Default, Serialize)]
pub(super) struct PromptContext {
    /// The version of the item, for `if_version`.
    #[serde(skip)]
    pub(super) version: String,
    #[serde(skip)]
    schema: Arc<RecordSchema>,
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
    links: LinkList,
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
    /// `full_list_uri` is the resource with all `count` items.
    fn new(items: Vec<T>, count: usize, full_list_uri: &str) -> Self {
        let left_out = match count.saturating_sub(items.len()) {
            0 => None,
            more => Some(format!("{more} more; read {full_list_uri}")),
        };
        Self { count, items, left_out }
    }
}

impl PromptContext {
    pub(super) async fn read(backlog: BacklogReader<'_>, reference: Reference) -> Result<Self> {
        let meta = backlog.find_item(reference).await?;
        let schema = backlog.ports.schema(backlog.project).await?;
        let mut record = item_view::read_record(backlog, &schema, &meta).await?;
        let mut content = Self { version: record.version.clone(), schema, ..Self::default() };
        content.notes.extend(item_lookup::diagnostic_with_path(&meta));
        content.truncate_record(&mut record, MAX_OWN_DESCRIPTION_CHARS);
        let relations = ItemRelations::read(backlog, &meta).await?;
        let parent = item_lookup::item_meta(&meta).and_then(|item| item.parent);
        match reference.kind {
            ItemKind::Epic => {
                content.epic = Some(record);
                let metas = relations.children_of_kind(ItemKind::UserStory);
                content.user_stories =
                    Some(content.read_children(backlog, reference, &metas).await?);
            }
            ItemKind::UserStory => {
                content.user_story = Some(record);
                let metas = relations.children_of_kind(ItemKind::Requirement);
                content.requirements =
                    Some(content.read_children(backlog, reference, &metas).await?);
                let metas = relations.children_of_kind(ItemKind::AcceptanceCriteria);
                content.acceptance_criteria =
                    Some(content.read_children(backlog, reference, &metas).await?);
            }
            _ => {
                content.requirement = Some(record);
                let metas = match parent {
                    Some(story) => backlog.children(story, ItemKind::AcceptanceCriteria).await?,
                    None => Vec::new(),
                };
                let story = parent.unwrap_or(reference);
                content.acceptance_criteria =
                    Some(content.read_children(backlog, story, &metas).await?);
                let ItemRelationships { outgoing, incoming, incoming_total } =
                    relations.relationships;
                content.relationships = Some(ItemRelationships {
                    incoming_total,
                    outgoing: content.truncate_list("relationships.outgoing", outgoing),
                    incoming: content.truncate_list("relationships.incoming", incoming),
                });
            }
        }
        content.links = LinkList {
            incoming_total: relations.links.incoming_total,
            outgoing: content.truncate_list("links.outgoing", relations.links.outgoing),
            incoming: content.truncate_list("links.incoming", relations.links.incoming),
        };
        content.add_siblings(backlog, reference, parent).await?;
        content.add_parents(backlog, reference, parent).await?;
        Ok(content)
    }

    /// Adds the item's parent and the parent's parent.
    async fn add_parents(
        &mut self,
        backlog: BacklogReader<'_>,
        mut child: Reference,
        parent: Option<Reference>,
    ) -> Result<()> {
        for (reference, found) in backlog.parents(parent).await {
            let record = match found {
                Ok(meta) => item_view::read_record(backlog, &self.schema, &meta).await,
                Err(error) => Err(error),
            };
            let mut record = match record {
                Ok(record) => record,
                // A faulty parent must not prevent the prompt for its child.
                Err(error) if item_lookup::is_item_error(error.kind) => {
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
            item_lookup::item_meta(meta).is_some_and(|item| item.reference != Some(reference))
        });
        // The count includes the siblings that the limit excludes.
        let count = metas.len();
        metas.truncate(MAX_LIST_ITEMS);
        let full_list_uri = item_uri(parent, ItemView::Children(reference.kind));
        let mut summaries = ItemSummary::from_metas(&metas, &self.schema);
        for summary in &mut summaries {
            truncate_title(&mut summary.title);
        }
        let siblings = Some(ContextList::new(summaries, count, &full_list_uri));
        match reference.kind {
            ItemKind::UserStory => self.sibling_user_stories = siblings,
            ItemKind::Requirement => self.sibling_requirements = siblings,
            _ => {}
        }
        Ok(())
    }

    /// Reads the first children with their descriptions. All children must have the same kind.
    async fn read_children(
        &mut self,
        backlog: BacklogReader<'_>,
        parent: Reference,
        metas: &[Arc<DocumentMeta>],
    ) -> Result<ContextList<ItemRecord>> {
        let full_list_uri = match metas.first().and_then(|meta| item_lookup::item_meta(meta)) {
            Some(item) => item_uri(parent, ItemView::Children(item.kind)),
            None => String::new(),
        };
        let first = &metas[..metas.len().min(MAX_LIST_ITEMS)];
        let (mut records, mut bytes) = (Vec::new(), 0);
        for record in
            item_view::read_records(backlog, &self.schema, first).await?.into_iter().flatten()
        {
            let mut record = match record {
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
        Ok(ContextList::new(records, metas.len(), &full_list_uri))
    }

    fn truncate_record(&mut self, record: &mut ItemRecord, max_chars: usize) {
        truncate_title(&mut record.title);
        let text = &record.description;
        let Some((end, _)) = text.char_indices().nth(max_chars) else { return };
        let sentences = first_sentences(text, end).trim_end();
        let shown = if sentences.is_empty() { &text[..end] } else { sentences };
        self.notes.push(format!(
            "the description of {} is cut after {} characters; get_item returns all",
            record.reference_id,
            shown.chars().count()
        ));
        record.description = shown.to_owned();
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
    if let Some((end, _)) = title.char_indices().nth(MAX_TITLE_CHARS) {
        title.truncate(end);
        title.push('…');
    }
}
