//! `delete_item`: replaces an item or entity by a tombstone, so that its reference is never issued
//! again.
//!
//! Children and relationships are read before the commit, because a commit names its documents. The
//! decision reads them again. If another one was added meanwhile, the deletion starts over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference};
use reqlore_domain::bounded_types::{BoundedString, truncate_echo};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{BacklinkQuery, ReadSet};
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::tombstone::tombstone_text;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_line;
use schemars::JsonSchema;
use serde::Deserialize;

use super::item_lookup::{self, BacklogReader, backlink_query};
use crate::addresses::address::{AddressSpace, AddressTarget};
use crate::answers::answer::text_answer;
use crate::backlog::deletion::{
    DeletedItem, added_link_error, depends_on, link_kinds, list_reasons,
};
use crate::context::ToolContext;
use crate::documents::document_text;
use crate::knowledge::delete_entity::{EntityDeletion, link_reasons, unlink_entities};
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Action, Change, ChangePlan, Decision, PlanContext, WriteTool};
use crate::writes::commit_state::{Claim, CommitState};
use crate::writes::local_names::LocalNames;
use crate::writes::transaction::check_version;

pub(crate) struct DeleteItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Such as REQ-047 or dec-1d2c8f.
    reference: BoundedString<1_000>,
    /// Also delete its children and remove its relationships.
    #[serde(default)]
    cascade: bool,
    /// Current version.
    if_version: Option<VersionPrefix>,
}

impl WriteTool for DeleteItem {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_destructive: true,
            ..write_tool::<Arguments, DeletedItem>(
                "delete_item",
                "Delete a story, decision or idea",
                "Deletes any item of the backlog or knowledge. Fails if it has children or \
                 relationships, unless cascade is true.",
            )
        }
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        _: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        let Arguments { cascade, if_version, .. } = arguments;
        let reference = arguments.reference.into_string();
        Ok(Box::new(ItemRemoval { reference, cascade, if_version }))
    }
}

/// Deletes an item or entity.
struct ItemRemoval {
    /// In any spelling.
    reference: String,
    cascade: bool,
    if_version: Option<VersionPrefix>,
}

#[async_trait]
impl Change for ItemRemoval {
    fn reason(&self) -> String {
        format!("delete {}", encode_line(truncate_echo(&self.reference)))
    }

    async fn project(&self, context: &ToolContext, caller: &Caller) -> Result<ProjectKey> {
        // An entity may be in a project above the caller's.
        let space = AddressSpace::of_caller(context, caller).await?;
        Ok(space.resolve(&self.reference, "reference").await?.project)
    }

    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>> {
        let space = context.address_space();
        let target = space.resolve(&self.reference, "reference").await?.target;
        let meta = match &target {
            AddressTarget::Item(meta) => Arc::clone(meta),
            AddressTarget::Entity(meta) => {
                return EntityDeletion::plan(context, meta, self.cascade, self.if_version).await;
            }
            other => {
                let message = format!("{}. Nothing was deleted.", other.right_tool(true));
                let error = Error::new(ErrorKind::InvalidArgument, message);
                return Err(error.field("reference"));
            }
        };
        let Some(reference) = item_lookup::item_meta(&meta).and_then(|item| item.reference) else {
            let message = format!("{}: the file name contains no reference; rename it", meta.id);
            return Err(Error::new(ErrorKind::Refused, message).field("reference"));
        };
        let mut deletion = ItemDeletion {
            project: context.project.clone(),
            deleted: vec![AffectedItem { reference, meta }],
            unlinked: Vec::new(),
            unlinked_entities: Vec::new(),
            link_kinds: link_kinds(&context.tools.ports.settings.toolsets),
            cascade: self.cascade,
            if_version: self.if_version,
            user: context.write.caller.name.to_string(),
            at: context.write.at.whole_seconds(),
        };
        if self.cascade {
            deletion.add_descendants(context, reference).await?;
        }
        Ok(Box::new(deletion))
    }
}

struct AffectedItem {
    reference: Reference,
    meta: Arc<DocumentMeta>,
}

/// An item, its descendants, and the documents that relate to any of them.
struct ItemDeletion {
    project: ProjectKey,
    /// The item itself first.
    deleted: Vec<AffectedItem>,
    unlinked: Vec<AffectedItem>,
    unlinked_entities: Vec<Arc<DocumentMeta>>,
    link_kinds: Vec<DocumentKind>,
    cascade: bool,
    if_version: Option<VersionPrefix>,
    user: String,
    at: Timestamp,
}

impl ItemDeletion {
    async fn add_descendants(&mut self, context: PlanContext<'_>, root: Reference) -> Result<()> {
        // Breadth first: one query for each level instead of one for each item.
        let mut level = vec![root];
        while !level.is_empty() {
            let backlinks = context.backlinks(&self.backlink_query(&level)).await?;
            // Keyed by id, because one item may link to several items of the level.
            let mut unique_backlinks: BTreeMap<DocumentId, Arc<DocumentMeta>> = BTreeMap::new();
            for meta in backlinks {
                unique_backlinks.insert(meta.id.clone(), meta);
            }
            // A descendant may relate to items of several levels; it is added once.
            let already_deleted = self.deleted_ids();
            let mut next_level = Vec::new();
            for (id, meta) in unique_backlinks {
                if already_deleted.contains(&id) {
                    continue;
                }
                if meta.entity.is_some() {
                    self.unlinked_entities.push(meta);
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
        self.check_unambiguous(context.backlog()).await?;
        // An item may relate to one deleted item and be a child of another.
        let deleted = self.deleted_ids();
        self.unlinked.retain(|item| !deleted.contains(&item.meta.id));
        // An item may relate to several deleted ones.
        self.unlinked.sort_by(|a, b| a.meta.id.cmp(&b.meta.id));
        self.unlinked.dedup_by(|a, b| a.meta.id == b.meta.id);
        self.unlinked_entities.sort_by(|a, b| a.id.cmp(&b.id));
        self.unlinked_entities.dedup_by(|a, b| a.id == b.id);
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

    /// The documents that depend on a deleted item and are not part of this deletion.
    fn unplanned_dependents(
        &self,
        state: &CommitState<'_>,
        deleted: &BTreeSet<Reference>,
    ) -> Vec<Arc<DocumentMeta>> {
        let planned: BTreeSet<&DocumentId> =
            self.deleted.iter().chain(&self.unlinked).map(|item| &item.meta.id).collect();
        let mut dependents = state.backlinks(&self.deleted_query());
        dependents.retain(|meta| {
            depends_on(meta, deleted)
                && !planned.contains(&meta.id)
                && !self.unlinked_entities.iter().any(|entity| entity.id == meta.id)
        });
        dependents
    }

    fn backlink_query(&self, references: &[Reference]) -> BacklinkQuery {
        BacklinkQuery { kinds: self.link_kinds.clone(), ..backlink_query(references) }
    }

    /// The query for documents that link to any deleted item.
    fn deleted_query(&self) -> BacklinkQuery {
        let references: Vec<Reference> = self.deleted.iter().map(|item| item.reference).collect();
        self.backlink_query(&references)
    }
}

impl ChangePlan for ItemDeletion {
    fn read_set(&self) -> ReadSet {
        let mut documents = Vec::new();
        for item in self.deleted.iter().chain(&self.unlinked) {
            documents.push(item.meta.id.clone());
        }
        for item in &self.deleted {
            documents.push(item.meta.id.tombstone());
        }
        documents.extend(self.unlinked_entities.iter().map(|meta| meta.id.clone()));
        ReadSet { backlinks: self.deleted_query(), ..ReadSet::of_documents(documents) }
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let AffectedItem { reference, meta } = &self.deleted[0];
        // First, so that an earlier change of the item is reported before any other problem.
        state.claim(&meta.id, Claim::Deletion)?;
        let document = item_lookup::require_document(state.document(&meta.id), *reference)?;
        check_version(self.if_version, document, *reference)?;
        let (root, version) = (parse_document(meta, document)?, document.version);
        let deleted: BTreeSet<Reference> = self.deleted.iter().map(|item| item.reference).collect();
        let dependents = self.unplanned_dependents(state, &deleted);
        if !self.cascade && (!dependents.is_empty() || !root.relationships.is_empty()) {
            return Err(still_referenced_error(*reference, state, &dependents, &root));
        }
        if !dependents.is_empty() {
            // A new plan would not contain what an earlier entry of the same call adds.
            if dependents.iter().any(|meta| state.is_changed(&meta.id)) {
                return Err(added_link_error(&reference.to_string()));
            }
            // A plan never contains them: a child without a reference would have no tombstone.
            if let Some(unnamed) = dependents.iter().find(|meta| is_unnamed_item(meta)) {
                return Err(unnamed_item_error(*reference, &unnamed.id));
            }
            // They were added after the plan was made.
            return Ok(None);
        }
        let mut deleted_ids = Vec::new();
        for (position, affected) in self.deleted.iter().enumerate() {
            let id = &affected.meta.id;
            if position > 0 {
                // An earlier entry may have deleted a descendant.
                if state.is_changed(id) && state.document(id).is_none() {
                    continue;
                }
                state.claim(id, Claim::Deletion)?;
            }
            let document = item_lookup::require_document(state.document(id), affected.reference)?;
            let document = &document.clone();
            state.check_shown(self.if_version, document, None, version)?;
            let text = document_text(document)?;
            let item = item_lookup::parse_item(&affected.meta, document, text);
            let tombstone = tombstone_text(&item, text, self.at, &self.user);
            // In the same commit, so that the reference is never free in between.
            state.put(Document::new(id.tombstone(), tombstone.into()));
            state.delete(id.clone());
            deleted_ids.push(affected.reference.to_string());
        }
        let mut unlinked_ids = Vec::new();
        let names: Vec<String> = deleted.iter().map(Reference::to_string).collect();
        for affected in &self.unlinked {
            // A document that was removed meanwhile has no relationship any more.
            if state.document(&affected.meta.id).is_some() {
                state.unlink(&affected.meta, &names, self.at);
                unlinked_ids.push(affected.reference.to_string());
            }
        }
        unlinked_ids.extend(unlink_entities(state, &self.unlinked_entities, &names, self.at));
        state.report_deletion(deleted_ids.get(1..).unwrap_or_default(), &unlinked_ids);
        let item = DeletedItem {
            project: self.project.to_string(),
            reference_id: reference.to_string(),
            title: root.title,
            version: String::new(),
            deleted: deleted_ids,
            unlinked: unlinked_ids,
        };
        let reference = *reference;
        let render = move |tombstone: &Document| {
            let item = DeletedItem { version: tombstone.version.to_string(), ..item };
            text_answer(item.render_text(&reference.kind.noun().to_lowercase()), &item)
        };
        let id = meta.id.tombstone();
        Ok(Some(Decision { action: Action::Delete, id, render: Box::new(render) }))
    }
}

fn parse_document(meta: &DocumentMeta, document: &Document) -> Result<ItemMeta> {
    Ok(item_lookup::parse_item(meta, document, document_text(document)?))
}

fn is_unnamed_item(meta: &DocumentMeta) -> bool {
    item_lookup::item_meta(meta).is_some_and(|item| item.reference.is_none())
}

fn unnamed_item_error(reference: Reference, id: &DocumentId) -> Error {
    let message = format!(
        "{reference} cannot be deleted: {id} links to it, and its file name contains no reference; \
         rename that file, for example to REQ-012.md, with an unused number. Nothing was deleted."
    );
    Error::new(ErrorKind::Refused, message).reference(reference.to_string())
}

fn still_referenced_error(
    reference: Reference,
    state: &CommitState<'_>,
    dependents: &[Arc<DocumentMeta>],
    item: &ItemMeta,
) -> Error {
    let mut reasons = Vec::new();
    for meta in dependents {
        let Some(dependent) = item_lookup::item_meta(meta) else {
            let name = state.name_of(&meta.id, meta.reference().unwrap_or_default());
            reasons.extend(link_reasons(&name, meta, &[reference.to_string()]));
            continue;
        };
        let name = state.name_of(&meta.id, dependent.display_name(&meta.id.name));
        let relationship = dependent.relationships.iter().find(|link| link.target == reference);
        match relationship {
            Some(link) => reasons.push(format!("{name} {} it", link.kind.name())),
            None => reasons.push(format!("{name} belongs to it")),
        }
    }
    for link in &item.relationships {
        reasons.push(format!("it {} {}", link.kind.name(), link.target));
    }
    let message = format!(
        "{reference} cannot be deleted: {}. Delete these items and relationships first, or \
         pass cascade: true. Nothing was deleted.",
        list_reasons(reasons)
    );
    Error::new(ErrorKind::Refused, message).field("cascade").reference(reference.to_string())
}
