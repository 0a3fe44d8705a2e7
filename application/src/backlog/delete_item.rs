//! `delete_item`: replaces an item by a tombstone, so that its reference is never issued again.
//!
//! Children and relationships are read before the commit, because a commit names its documents. The
//! decision reads them again. If another one was added meanwhile, the deletion starts over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemEdit, ItemKind, ItemMeta, Reference, tombstone_text};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::ItemRef;
use super::item_lookup::{self, BacklogReader, backlink_query};
use super::write_item::{apply_edit, check_version};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments, reply, write_tool};
use crate::transaction::{commit_decision, write_context};

pub(crate) struct DeleteItem;

const MAX_ATTEMPTS: usize = 5;
const MAX_LISTED_DEPENDENTS: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    reference: ItemRef,
    /// Also delete its children and end relationships.
    #[serde(default)]
    cascade: bool,
    /// Expected current version.
    if_version: Option<Version>,
}

#[derive(Serialize, JsonSchema)]
struct DeletedItem {
    project: String,
    reference_id: String,
    title: String,
    version: String,
    /// All deleted items, this one first.
    deleted: Vec<String>,
    /// Requirements that lost a relationship.
    unlinked: Vec<String>,
}

#[async_trait]
impl Tool for DeleteItem {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_destructive: true,
            ..write_tool::<Arguments, DeletedItem>(
                "delete_item",
                "Delete an item",
                "Deletes a backlog item. Refuses if it has children or relationships, unless \
                 cascade is true.",
            )
        }
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let reference = arguments.reference.parse("reference")?;
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        let write_context = write_context(context, &call, spec, format!("delete {reference}"));
        for _ in 0..MAX_ATTEMPTS {
            let deletion = ItemDeletion::plan(backlog, reference, &arguments).await?;
            if let Some(deleted) = deletion.commit(backlog, write_context.clone()).await? {
                return reply(render_text(reference, &deleted), &deleted);
            }
        }
        let message = format!(
            "{reference}: other calls keep adding items to it; nothing was deleted, try again"
        );
        Err(Error::new(ErrorKind::Busy, message).reference(reference.to_string()))
    }
}

fn render_text(reference: Reference, item: &DeletedItem) -> String {
    let DeletedItem { title, version, deleted, unlinked, .. } = item;
    let noun = reference.kind.noun().to_lowercase();
    let mut text = format!("Deleted {noun} {reference}: {title} (version {})", &version[..8]);
    // The first one is the item itself.
    let descendants = deleted.get(1..).unwrap_or_default();
    for (label, references) in
        [("Also deleted", descendants), ("Relationships removed from", unlinked.as_slice())]
    {
        if !references.is_empty() {
            text = format!("{text}\n{label}: {}", references.join(", "));
        }
    }
    text
}

#[derive(Clone)]
struct AffectedItem {
    reference: Reference,
    meta: Arc<DocumentMeta>,
}

/// An item, its descendants, and the requirements that relate to any of them.
#[derive(Clone)]
struct ItemDeletion {
    project: ProjectKey,
    /// The item itself first.
    deleted: Vec<AffectedItem>,
    unlinked: Vec<AffectedItem>,
    cascade: bool,
    if_version: Option<Version>,
}

impl ItemDeletion {
    async fn plan(
        backlog: BacklogReader<'_>,
        reference: Reference,
        arguments: &Arguments,
    ) -> Result<Self> {
        let meta = backlog.find_argument(reference, "reference").await?;
        let mut deletion = Self {
            project: backlog.project.clone(),
            deleted: vec![AffectedItem { reference, meta }],
            unlinked: Vec::new(),
            cascade: arguments.cascade,
            if_version: arguments.if_version,
        };
        if deletion.cascade {
            deletion.add_descendants(backlog, reference).await?;
        }
        Ok(deletion)
    }

    async fn add_descendants(&mut self, backlog: BacklogReader<'_>, root: Reference) -> Result<()> {
        let mut level = vec![root];
        while !level.is_empty() {
            let query = backlink_query(&level);
            let backlinks = backlog.ports.documents.backlinks(backlog.project, &query).await?;
            // Keyed by id, because one item may link to several items of the level.
            let mut unique_backlinks: BTreeMap<DocumentId, Arc<DocumentMeta>> = BTreeMap::new();
            for meta in backlinks.into_iter().flatten() {
                unique_backlinks.insert(meta.id.clone(), meta);
            }
            let already_deleted = self.deleted_ids();
            let mut next_level = Vec::new();
            for (id, meta) in unique_backlinks {
                if already_deleted.contains(&id) {
                    continue;
                }
                let Some(item) = item_lookup::item_meta(&meta) else { continue };
                let Some(reference) = item.reference else { continue };
                if item.parent.is_some_and(|parent| level.contains(&parent)) {
                    next_level.push(reference);
                    self.deleted.push(AffectedItem { reference, meta });
                } else if item.relationships.iter().any(|link| level.contains(&link.target)) {
                    self.unlinked.push(AffectedItem { reference, meta });
                }
            }
            level = next_level;
        }
        self.check_unambiguous(backlog).await?;
        // An item may relate to one deleted item and be a child of another.
        let deleted = self.deleted_ids();
        self.unlinked.retain(|item| !deleted.contains(&item.meta.id));
        // An item may relate to several deleted ones.
        self.unlinked.sort_by(|a, b| a.meta.id.cmp(&b.meta.id));
        self.unlinked.dedup_by(|a, b| a.meta.id == b.meta.id);
        Ok(())
    }

    /// Rejects duplicate references: the children of such items cannot be distinguished.
    async fn check_unambiguous(&self, backlog: BacklogReader<'_>) -> Result<()> {
        for kind in ItemKind::ALL {
            let mut references = Vec::new();
            for item in &self.deleted {
                if item.reference.kind == kind {
                    references.push(item.reference);
                }
            }
            for item in backlog.find_items(&references).await? {
                item?;
            }
        }
        Ok(())
    }

    fn deleted_ids(&self) -> BTreeSet<DocumentId> {
        self.deleted.iter().map(|item| item.meta.id.clone()).collect()
    }

    /// Returns `None` if another item was added after the plan was made.
    async fn commit(
        &self,
        backlog: BacklogReader<'_>,
        write_context: WriteContext,
    ) -> Result<Option<DeletedItem>> {
        let mut references = Vec::with_capacity(self.deleted.len());
        // `decide` relies on this order of documents: deleted items, unlinked items, tombstones.
        let mut documents = Vec::new();
        for item in &self.deleted {
            references.push(item.reference);
            documents.push(item.meta.id.clone());
        }
        for item in &self.unlinked {
            documents.push(item.meta.id.clone());
        }
        for item in &self.deleted {
            documents.push(tombstone_id(&item.meta.id));
        }
        let read_set =
            ReadSet { backlinks: backlink_query(&references), ..ReadSet::of_documents(documents) };
        let deletion = self.clone();
        let (caller, at) = (Arc::clone(&write_context.caller), write_context.at.whole_seconds());
        let decide = move |snapshot: &Snapshot| deletion.decide(snapshot, &caller.name, at);
        let (deleted, _) =
            commit_decision(backlog.ports, backlog.project, read_set, write_context, decide)
                .await?;
        Ok(deleted)
    }

    fn decide(
        &self,
        snapshot: &Snapshot,
        user: &str,
        at: Timestamp,
    ) -> Result<(Vec<DocumentChange>, Option<DeletedItem>)> {
        let AffectedItem { reference, meta } = &self.deleted[0];
        let mut documents = snapshot.documents.iter();
        let document = item_lookup::require_document(snapshot.documents.first(), *reference)?;
        check_version(self.if_version, document, *reference)?;
        let root = parse_document(meta, document)?;
        let deleted: BTreeSet<Reference> = self.deleted.iter().map(|item| item.reference).collect();
        let dependents = self.unplanned_dependents(snapshot, &deleted);
        if !self.cascade && (!dependents.is_empty() || !root.relationships.is_empty()) {
            return Err(still_referenced_error(*reference, &dependents, &root));
        }
        if !dependents.is_empty() {
            // They were added after the plan was made.
            return Ok((Vec::new(), None));
        }
        let mut changes = Vec::new();
        for (affected, document) in self.deleted.iter().zip(documents.by_ref()) {
            let document = item_lookup::require_document(Some(document), affected.reference)?;
            let text = item_lookup::document_text(document)?;
            let item = item_lookup::parse_item(&affected.meta, document, text);
            let tombstone = tombstone_text(&item, text, at, user);
            changes.push(DocumentChange::put(tombstone_id(&document.id), tombstone));
            changes.push(DocumentChange::Delete { id: document.id.clone() });
        }
        for (affected, document) in self.unlinked.iter().zip(documents) {
            // A document that was removed meanwhile has no relationship any more.
            let Some(document) = document else { continue };
            let item = parse_document(&affected.meta, document)?;
            let mut relationships = item.relationships.clone();
            relationships.retain(|link| !deleted.contains(&link.target));
            let item_edit = ItemEdit { relationships: Some(relationships), ..ItemEdit::default() };
            changes.extend(apply_edit(&item, document, &item_edit, at)?.0);
        }
        // The first change is the tombstone of the item itself.
        let version = changes.first().and_then(DocumentChange::version);
        let deleted_item = DeletedItem {
            project: self.project.to_string(),
            reference_id: reference.to_string(),
            title: root.title,
            version: version.map(|version| version.to_string()).unwrap_or_default(),
            deleted: reference_ids(&self.deleted),
            unlinked: reference_ids(&self.unlinked),
        };
        Ok((changes, Some(deleted_item)))
    }

    /// The items that depend on a deleted one and are not part of this deletion.
    fn unplanned_dependents<'a>(
        &self,
        snapshot: &'a Snapshot,
        deleted: &BTreeSet<Reference>,
    ) -> Vec<&'a DocumentMeta> {
        let planned: BTreeSet<&DocumentId> =
            self.deleted.iter().chain(&self.unlinked).map(|item| &item.meta.id).collect();
        let mut dependents: Vec<&DocumentMeta> = Vec::new();
        for meta in snapshot.backlinks.iter().flatten() {
            if depends_on(meta, deleted) && !planned.contains(&meta.id) {
                dependents.push(meta);
            }
        }
        dependents
    }
}

fn parse_document(meta: &DocumentMeta, document: &Document) -> Result<ItemMeta> {
    Ok(item_lookup::parse_item(meta, document, item_lookup::document_text(document)?))
}

fn reference_ids(items: &[AffectedItem]) -> Vec<String> {
    items.iter().map(|item| item.reference.to_string()).collect()
}

fn tombstone_id(id: &DocumentId) -> DocumentId {
    DocumentId { kind: DocumentKind::Deleted, name: id.name.clone() }
}

/// True for a child of any of these items and for a requirement that relates to one. False for an
/// item that only mentions one.
fn depends_on(meta: &DocumentMeta, references: &BTreeSet<Reference>) -> bool {
    let Some(item) = item_lookup::item_meta(meta) else { return false };
    item.parent.is_some_and(|parent| references.contains(&parent))
        || item.relationships.iter().any(|link| references.contains(&link.target))
}

fn still_referenced_error(
    reference: Reference,
    dependents: &[&DocumentMeta],
    item: &ItemMeta,
) -> Error {
    let mut reasons = Vec::new();
    for meta in dependents {
        let Some(dependent) = item_lookup::item_meta(meta) else { continue };
        let name = dependent.display_name(&meta.id.name);
        let relationship = dependent.relationships.iter().find(|link| link.target == reference);
        match relationship {
            Some(link) => reasons.push(format!("{name} {} it", link.kind.name())),
            None => reasons.push(format!("{name} belongs to it")),
        }
    }
    for link in &item.relationships {
        reasons.push(format!("it {} {}", link.kind.name(), link.target));
    }
    let count = reasons.len();
    reasons.truncate(MAX_LISTED_DEPENDENTS);
    let more = if count > MAX_LISTED_DEPENDENTS {
        format!(" and {} more", count - MAX_LISTED_DEPENDENTS)
    } else {
        String::new()
    };
    let message = format!(
        "{reference} cannot be deleted: {}{more}. Delete these items and relationships first, or \
         pass cascade: true. Nothing was deleted.",
        reasons.join(", ")
    );
    Error::new(ErrorKind::Refused, message).field("cascade").reference(reference.to_string())
}
