//! `delete_item`: replaces an item or entity by a tombstone, so that its reference is never issued
//! again.
//!
//! Children and relationships are read before the commit, because a commit names its documents. The
//! decision reads them again. If another one was added meanwhile, the deletion starts over.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, MENTIONS, Reference};
use reqlore_domain::bounded_types::{BoundedString, truncate_echo};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{BacklinkQuery, ReadSet};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::tombstone::{RecordRef, tombstone_text};
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item_lookup::{self, BacklogReader};
use crate::addresses::address::{AddressSpace, AddressTarget};
use crate::answers::answer::text_answer;
use crate::context::ToolContext;
use crate::documents::document_text;
use crate::tools::tool::{ToolRequest, write_tool};
use crate::writes::change::{Action, Change, ChangePlan, Decision, PlanContext, WriteTool};
use crate::writes::commit_state::{Claim, CommitState};
use crate::writes::local_names::LocalNames;
use crate::writes::stored_record::{StoredRecord, require_document};
use crate::writes::transaction::check_version;

pub(crate) struct DeleteItem;

#[derive(Serialize, JsonSchema)]
struct DeletedItem {
    project: String,
    reference_id: String,
    title: String,
    version: String,
    /// All deleted items, this one first.
    deleted: Vec<String>,
    /// Items that lost a relationship.
    unlinked: Vec<String>,
}

impl DeletedItem {
    fn render_text(&self, noun: &str) -> String {
        let Self { reference_id, title, version, deleted, unlinked, .. } = self;
        let (id, title) = (encode_id(reference_id), encode_line(title));
        let mut text = format!("Deleted {noun} {id}: {title} (version {})", &version[..8]);
        // The first one is the item itself.
        let descendants = deleted.get(1..).unwrap_or_default();
        for (label, references) in
            [("Also deleted", descendants), ("Relationships removed from", unlinked.as_slice())]
        {
            if !references.is_empty() {
                let ids: Vec<_> = references.iter().map(|id| encode_id(id)).collect();
                text = format!("{text}\n{label}: {}", ids.join(", "));
            }
        }
        text
    }
}

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

    fn decode(&self, request: &mut ToolRequest<'_>, _: &LocalNames) -> Result<Box<dyn Change>> {
        let arguments: Arguments = request.decode()?;
        let Arguments { cascade, if_version, .. } = arguments;
        let reference = arguments.reference.into_string();
        Ok(Box::new(RecordRemoval { reference, cascade, if_version }))
    }
}

/// Deletes an item or entity.
struct RecordRemoval {
    /// In any spelling.
    reference: String,
    cascade: bool,
    if_version: Option<VersionPrefix>,
}

#[async_trait]
impl Change for RecordRemoval {
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
        let (AddressTarget::Item(meta) | AddressTarget::Entity(meta)) = &target else {
            let message = format!("{}. Nothing was deleted.", target.right_tool(true));
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("reference"));
        };
        if is_unnamed(meta) {
            let message = format!("{}: the file name contains no reference; rename it", meta.id);
            return Err(Error::new(ErrorKind::Refused, message).field("reference"));
        }
        let mut link_kinds = link_kinds(&context.tools.ports.settings.toolsets);
        // Other documents only mention entities in their text, which a deletion does not edit.
        link_kinds.retain(|kind| meta.item.is_some() || *kind == DocumentKind::Entity);
        let mut deletion = Deletion {
            project: context.project.clone(),
            deleted: vec![Arc::clone(meta)],
            unlinked: Vec::new(),
            link_kinds,
            schema: context.schema().await?,
            cascade: self.cascade,
            if_version: self.if_version,
            user: context.write.caller.name.to_string(),
            at: context.write.at.whole_seconds(),
        };
        if self.cascade {
            deletion.add_dependents(context).await?;
        }
        Ok(Box::new(deletion))
    }
}

/// A record, its descendants, and the documents that link to any of them.
struct Deletion {
    project: ProjectKey,
    /// The record itself first.
    deleted: Vec<Arc<DocumentMeta>>,
    unlinked: Vec<Arc<DocumentMeta>>,
    /// The kinds of documents whose links protect the record.
    link_kinds: Vec<DocumentKind>,
    schema: Arc<RecordSchema>,
    cascade: bool,
    if_version: Option<VersionPrefix>,
    user: String,
    at: Timestamp,
}

impl Deletion {
    async fn add_dependents(&mut self, context: PlanContext<'_>) -> Result<()> {
        // Breadth first: one query for each level instead of one for each item.
        let mut level = link_names(&self.deleted);
        // Keyed by ID, because a document may link to several records.
        let mut unlinked = BTreeMap::new();
        while !level.is_empty() {
            let names: BTreeSet<&str> = level.iter().map(String::as_str).collect();
            let known: BTreeSet<_> = self.deleted.iter().map(|meta| meta.id.clone()).collect();
            let mut next_level = BTreeMap::new();
            for meta in context.backlinks(&self.backlink_query(&level)).await? {
                let relations = relations_to(&meta, &names);
                if relations.is_empty() || known.contains(&meta.id) || is_unnamed(&meta) {
                    continue;
                }
                let is_child = relations.iter().any(|relation| is_parent(&meta, relation));
                let list = if is_child { &mut next_level } else { &mut unlinked };
                list.insert(meta.id.clone(), meta);
            }
            let children: Vec<_> = next_level.into_values().collect();
            level = link_names(&children);
            self.deleted.extend(children);
        }
        self.check_unambiguous(context.backlog()).await?;
        // An item may relate to one deleted item and be a child of another.
        for meta in &self.deleted {
            unlinked.remove(&meta.id);
        }
        self.unlinked = unlinked.into_values().collect();
        Ok(())
    }

    /// Rejects duplicate references: the children of such items cannot be distinguished.
    async fn check_unambiguous(&self, backlog: BacklogReader<'_>) -> Result<()> {
        for kind in ItemKind::ALL {
            let items = self.deleted.iter().filter_map(|meta| item_lookup::item_meta(meta));
            let references: Vec<Reference> =
                items.filter(|item| item.kind == kind).filter_map(|item| item.reference).collect();
            for item in backlog.find_items(&references).await? {
                item?;
            }
        }
        Ok(())
    }

    /// The documents that depend on a deleted record and are not part of this deletion.
    fn unplanned_dependents(
        &self,
        state: &CommitState<'_>,
        names: &[String],
    ) -> Vec<Arc<DocumentMeta>> {
        let targets = names.iter().map(String::as_str).collect();
        let mut known: BTreeSet<DocumentId> =
            self.deleted.iter().chain(&self.unlinked).map(|meta| meta.id.clone()).collect();
        let mut dependents = state.backlinks(&self.backlink_query(names));
        self.schema.remove_field_links(&mut dependents);
        // A source that links by ID and by path is in the list twice.
        dependents.retain(|meta| {
            !relations_to(meta, &targets).is_empty() && known.insert(meta.id.clone())
        });
        dependents
    }

    fn backlink_query(&self, names: &[String]) -> BacklinkQuery {
        BacklinkQuery { kinds: self.link_kinds.clone(), targets: names.to_vec() }
    }

    /// Fails if other documents depend on the record; `false` if the plan does not contain them.
    fn check_dependents(
        &self,
        state: &CommitState<'_>,
        root: RecordRef<'_>,
        names: &[String],
    ) -> Result<bool> {
        let reference = &*name_of(&self.deleted[0]);
        let dependents = self.unplanned_dependents(state, names);
        let own = match root {
            RecordRef::Item(item) if !self.cascade => &item.relationships[..],
            _ => &[],
        };
        if dependents.is_empty() && own.is_empty() {
            return Ok(true);
        }
        let refused = |message: String| {
            let message = format!("{reference} cannot be deleted: {message} Nothing was deleted.");
            Error::new(ErrorKind::Refused, message).reference(reference)
        };
        if !self.cascade {
            let mut reasons = Vec::new();
            for meta in &dependents {
                reasons.extend(reasons_of(state, meta, names));
            }
            for link in own {
                reasons.push(format!("it {} {}", link.kind.name(), link.target));
            }
            let remedy = match root {
                RecordRef::Item(_) => "Delete these items and relationships",
                RecordRef::Entity(_) => "Remove these links",
            };
            let reasons = list_reasons(reasons);
            let message = format!("{reasons}. {remedy} first, or pass cascade: true.");
            return Err(refused(message).field("cascade"));
        }
        // A new plan would not contain what an earlier entry of the same call adds.
        if dependents.iter().any(|meta| state.is_changed(&meta.id)) {
            return Err(refused("an earlier entry adds an item or relationship to it.".to_owned()));
        }
        // A plan never contains them: a child without a reference would have no tombstone.
        if let Some(unnamed) = dependents.iter().find(|meta| is_unnamed(meta)) {
            return Err(refused(format!(
                "{} links to it, and its file name contains no reference; rename that file, for \
                 example to REQ-012.md, with an unused number.",
                unnamed.id
            )));
        }
        // They were added after the plan was made.
        Ok(false)
    }
}

impl ChangePlan for Deletion {
    fn read_set(&self) -> ReadSet {
        let records = self.deleted.iter().chain(&self.unlinked);
        let mut documents: Vec<DocumentId> = records.map(|meta| meta.id.clone()).collect();
        documents.extend(self.deleted.iter().map(|meta| meta.id.tombstone()));
        let backlinks = self.backlink_query(&link_names(&self.deleted));
        ReadSet { backlinks, ..ReadSet::of_documents(documents) }
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let root = &self.deleted[0];
        let (reference, names) = (name_of(root).into_owned(), link_names(&self.deleted));
        // First, so that an earlier change of the record is reported before any other problem.
        state.claim(&root.id, Claim::Deletion)?;
        let document = require_document(state.document(&root.id), &reference, "reference")?;
        check_version(self.if_version, document, &reference)?;
        let (record, version) = (StoredRecord::parse(root, document)?, document.version);
        if !self.check_dependents(state, record.as_ref(), &names)? {
            return Ok(None);
        }
        let mut deleted = Vec::new();
        for (position, meta) in self.deleted.iter().enumerate() {
            if position > 0 {
                // An earlier entry may have deleted a descendant.
                if state.is_changed(&meta.id) && state.document(&meta.id).is_none() {
                    continue;
                }
                state.claim(&meta.id, Claim::Deletion)?;
            }
            let name = name_of(meta);
            let document = require_document(state.document(&meta.id), &name, "reference")?.clone();
            state.check_shown(self.if_version, &document, None, version)?;
            let record = StoredRecord::parse(meta, &document)?;
            let text = document_text(&document)?;
            let tombstone = tombstone_text(record.as_ref(), text, self.at, &self.user);
            // In the same commit, so that the reference is never free in between.
            state.put(Document::new(meta.id.tombstone(), tombstone.into()));
            state.delete(meta.id.clone());
            deleted.push(name.into_owned());
        }
        let mut unlinked = Vec::new();
        for source in &self.unlinked {
            if state.unlink(source, &names, &self.schema, self.at) {
                unlinked.push(name_of(source).into_owned());
            }
        }
        state.report_deletion(deleted.get(1..).unwrap_or_default(), &unlinked);
        let (noun, title) = match record.as_ref() {
            RecordRef::Item(item) => (item.kind.noun().to_lowercase(), item.title.clone()),
            RecordRef::Entity(entity) => (entity.kind.clone(), entity.title.clone()),
        };
        let (project, version) = (self.project.to_string(), String::new());
        let item =
            DeletedItem { project, reference_id: reference, title, version, deleted, unlinked };
        let render = move |tombstone: &Document| {
            let item = DeletedItem { version: tombstone.version.to_string(), ..item };
            text_answer(item.render_text(&noun), &item)
        };
        let id = root.id.tombstone();
        Ok(Some(Decision { action: Action::Delete, id, render: Box::new(render) }))
    }
}

/// The name of a record in answers.
fn name_of(meta: &DocumentMeta) -> Cow<'_, str> {
    meta.reference().unwrap_or_default()
}

/// The names that links to these records use.
fn link_names(records: &[Arc<DocumentMeta>]) -> Vec<String> {
    let mut names = Vec::new();
    for meta in records {
        names.push(name_of(meta).into_owned());
        // The ID often equals the path.
        if meta.entity.is_some() && names.last() != Some(&meta.id.name) {
            names.push(meta.id.name.clone());
        }
    }
    names
}

fn is_unnamed(meta: &DocumentMeta) -> bool {
    item_lookup::item_meta(meta).is_some_and(|item| item.reference.is_none())
}

/// The kinds of documents that may link to items. Disabled toolsets are not read.
pub(crate) fn link_kinds(toolsets: &[Toolset]) -> Vec<DocumentKind> {
    let mut kinds = DocumentKind::ITEMS.to_vec();
    if toolsets.contains(&Toolset::Knowledge) {
        kinds.push(DocumentKind::Entity);
    }
    kinds
}

/// The relations of a document's links to records with these names, without mentions.
pub(crate) fn relations_to<'m>(meta: &'m DocumentMeta, names: &BTreeSet<&str>) -> Vec<&'m str> {
    let mut links = meta.links();
    links.retain(|(relation, target)| *relation != MENTIONS && names.contains(&**target));
    links.into_iter().map(|(relation, _)| relation).collect()
}

/// True for the relation of an item to its parent.
fn is_parent(meta: &DocumentMeta, relation: &str) -> bool {
    let parent = item_lookup::item_meta(meta).and_then(|item| item.kind.parent());
    parent.is_some_and(|kind| kind.name() == relation)
}

/// Describes the links of a document to a record that has these names.
fn reasons_of(state: &CommitState<'_>, meta: &DocumentMeta, names: &[String]) -> Vec<String> {
    let name = match &meta.item {
        Some(item) => item.display_name(&meta.id.name),
        None => name_of(meta),
    };
    let name = state.name_of(&meta.id, name);
    let name = encode_id(&name);
    let mut reasons = Vec::new();
    for relation in relations_to(meta, &names.iter().map(String::as_str).collect()) {
        let reason = match meta.item {
            Some(_) if is_parent(meta, relation) => format!("{name} belongs to it"),
            Some(_) => format!("{name} {relation} it"),
            None => format!("{name} links to it ({})", encode_line(relation)),
        };
        // One source may link by ID and by path.
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Joins the first reasons against a deletion.
pub(crate) fn list_reasons(mut reasons: Vec<String>) -> String {
    const MAX_LISTED_DEPENDENTS: usize = 10;
    let count = reasons.len();
    reasons.truncate(MAX_LISTED_DEPENDENTS);
    match count.saturating_sub(MAX_LISTED_DEPENDENTS) {
        0 => reasons.join(", "),
        more => format!("{} and {more} more", reasons.join(", ")),
    }
}
