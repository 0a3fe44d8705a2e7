//! Creates and updates items, each in one commit that is decided on the newest state.

use std::sync::Arc;

use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{ItemEdit, ItemKind, ItemMeta, LinkTarget, NewItem, Reference};
use reqlore_domain::document::{Document, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde_json::Value;

use super::item_lookup::{self, BacklogReader};
use super::item_view::{self, ItemRecord};
use crate::ToolContext;
use crate::tool::{reply, write_tool};
use crate::transaction::{commit_decision, write_context};

/// Characters of the uid that become the suffix of the file name.
const SUFFIX_CHARS: usize = 6;

// The guaranteed part of a write tool's result, which is the whole record. A schema with every key
// in each of nine tools would cost models too many tokens. (A doc comment would enter the schema.)
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
pub(super) struct WriteOutcome {
    project: String,
    reference_id: String,
    version: String,
}

pub(super) fn update_tool<Arguments: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    ToolSpec {
        is_idempotent: true,
        ..write_tool::<Arguments, WriteOutcome>(name, title, description)
    }
}

/// Creates an item. `fields` must hold only fields that the kind has.
pub(super) async fn create_item(
    context: &ToolContext,
    call: &ToolCall,
    spec: &ToolSpec,
    kind: ItemKind,
    parent: Option<Reference>,
    fields: ItemEdit,
) -> Result<ToolReply> {
    let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
    let reason = format!("create {}", kind.noun().to_lowercase());
    let write_context = write_context(context, call, spec, reason);
    let parent = match parent {
        Some(parent) => Some((parent, backlog.find_argument(parent, parent.kind.name()).await?)),
        None => None,
    };
    // The uid orders two items of the same second.
    let uid = backlog.ports.ids.new_uid(write_context.at);
    let at = write_context.at.whole_seconds();
    let documents = parent.iter().map(|(_, meta)| meta.id.clone()).collect();
    let read_set = ReadSet { sequences: vec![kind], ..ReadSet::of_documents(documents) };
    let creator = call.caller.name.to_string();
    let draft = ItemDraft { kind, parent, fields, uid, creator, at };
    let decide = move |snapshot: &Snapshot| draft.decide(snapshot);
    let (document, _) =
        commit_decision(backlog.ports, backlog.project, read_set, write_context, decide).await?;
    let record = item_view::written_record(backlog, &document, kind, at)?;
    reply(item_view::outcome_line("Created", kind, &record), &record)
}

/// A new item without its reference, which the commit issues.
struct ItemDraft {
    kind: ItemKind,
    parent: Option<(Reference, Arc<DocumentMeta>)>,
    fields: ItemEdit,
    uid: String,
    creator: String,
    at: Timestamp,
}

impl ItemDraft {
    fn decide(&self, snapshot: &Snapshot) -> Result<(Vec<DocumentChange>, Document)> {
        let Self { kind, parent, fields, uid, creator, at } = self;
        // Another call may have deleted the parent after the lookup.
        if let Some((parent, _)) = parent {
            item_lookup::require_document(snapshot.documents.first(), *parent)?;
        }
        let number = snapshot.next_numbers.first().copied().unwrap_or(1);
        if number > MAX_NUMBER {
            let message = format!(
                "{}: this is the highest possible reference; nothing was written",
                Reference { kind: *kind, number: MAX_NUMBER }
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let parent =
            parent.as_ref().map(|(parent, meta)| item_lookup::link_target(*parent, &meta.id.name));
        let new = NewItem {
            kind: *kind,
            uid,
            title: fields.title.as_deref(),
            description: fields.description.as_deref().unwrap_or_default(),
            // The first status of a kind is its initial one.
            status: fields.status.or_else(|| kind.statuses().first().copied()),
            priority: fields.priority,
            requirement_type: fields.requirement_type,
            parent: parent.as_ref(),
            assignee: fields.assignee.as_ref().and_then(Option::as_deref),
            tags: fields.tags.as_deref().unwrap_or_default(),
            creator,
            created_at: *at,
        };
        let text = new.text().map_err(|problem| Error::new(ErrorKind::Refused, problem))?;
        // Two Git branches may issue the same number; the suffix keeps their files apart.
        let suffix = uid.get(uid.len().saturating_sub(SUFFIX_CHARS)..).unwrap_or(uid);
        let document =
            Document::new(Reference { kind: *kind, number }.document_id(suffix), text.into());
        Ok((vec![DocumentChange::Put { document: document.clone() }], document))
    }
}

/// Updates the given fields of an item. A given parent replaces the current one.
pub(super) async fn update_fields(
    context: &ToolContext,
    call: &ToolCall,
    spec: &ToolSpec,
    item: Reference,
    parent: Option<Reference>,
    fields: ItemEdit,
    if_version: Option<Version>,
) -> Result<ToolReply> {
    if fields == ItemEdit::default() && parent.is_none() {
        return Err(nothing_to_change_error(spec));
    }
    let update = ItemUpdate {
        item: (item.kind.name(), item),
        linked: parent.map(|parent| (parent.kind.name(), parent)),
        if_version,
    };
    // A conflict repeats the decision, so the closure keeps the fields and clones them.
    let edit_item = move |_: &ItemMeta, parent: Option<LinkedDocument<'_>>| {
        let parent = parent.map(|(parent, _)| parent.clone());
        Ok(ItemEdit { parent, ..fields.clone() })
    };
    let reason = format!("update {item}");
    let (record, is_changed) = update.commit(context, call, spec, reason, edit_item).await?;
    let outcome = if is_changed { "Updated" } else { "No change in" };
    reply(item_view::outcome_line(outcome, item.kind, &record), &record)
}

fn nothing_to_change_error(spec: &ToolSpec) -> Error {
    let mut optional_fields = Vec::new();
    if let Some(Value::Object(properties)) = spec.input_schema.get("properties") {
        let required = spec.input_schema.get("required").and_then(Value::as_array);
        for name in properties.keys() {
            let is_required = required.is_some_and(|names| names.iter().any(|key| key == name));
            if !is_required && name != "if_version" {
                optional_fields.push(name.as_str());
            }
        }
    }
    let names = optional_fields.join(", ");
    let message = format!("No field to change was given; pass at least one of {names}");
    Error::new(ErrorKind::InvalidArgument, message)
        .field(optional_fields.first().copied().unwrap_or_default())
}

/// A link target and its document.
pub(super) type LinkedDocument<'a> = (&'a LinkTarget, &'a Document);

/// An update of one item. References come with the names of their arguments, for errors.
pub(super) struct ItemUpdate {
    pub(super) item: (&'static str, Reference),
    /// An item that the updated item links to; it must exist.
    pub(super) linked: Option<(&'static str, Reference)>,
    pub(super) if_version: Option<Version>,
}

impl ItemUpdate {
    /// Applies `edit_item` to the newest state and commits the result. Returns the item's record
    /// and true if the item changed.
    pub(super) async fn commit<F>(
        self,
        context: &ToolContext,
        call: &ToolCall,
        spec: &ToolSpec,
        reason: String,
        edit_item: F,
    ) -> Result<(ItemRecord, bool)>
    where
        F: Fn(&ItemMeta, Option<LinkedDocument<'_>>) -> Result<ItemEdit> + Send + 'static,
    {
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        let write_context = write_context(context, call, spec, reason);
        let at = write_context.at.whole_seconds();
        let Self { item: (argument, reference), linked, if_version } = self;
        let meta = backlog.find_argument(reference, argument).await?;
        let mut ids = vec![meta.id.clone()];
        let mut link = None;
        if let Some((argument, linked)) = linked {
            let linked_meta = backlog.find_argument(linked, argument).await?;
            link = Some(item_lookup::link_target(linked, &linked_meta.id.name));
            // The decision checks that the target still exists.
            ids.push(linked_meta.id.clone());
        }
        let decide = move |snapshot: &Snapshot| {
            let mut documents = snapshot.documents.iter();
            let document = item_lookup::require_document(documents.next(), reference)?;
            check_version(if_version, document, reference)?;
            let linked = match &link {
                Some(link) => {
                    Some((link, item_lookup::require_document(documents.next(), link.reference)?))
                }
                None => None,
            };
            let text = item_lookup::document_text(document)?;
            let item = item_lookup::parse_item(&meta, document, text);
            apply_edit(&item, document, &edit_item(&item, linked)?, at)
        };
        let (document, committed) = commit_decision(
            backlog.ports,
            backlog.project,
            ReadSet::of_documents(ids),
            write_context,
            decide,
        )
        .await?;
        let record = item_view::written_record(backlog, &document, reference.kind, at)?;
        // An edit without an effect commits no document.
        Ok((record, !committed.versions.is_empty()))
    }
}

/// Returns the change and the edited document; no change if the edit has no effect.
pub(super) fn apply_edit(
    item: &ItemMeta,
    document: &Document,
    item_edit: &ItemEdit,
    at: Timestamp,
) -> Result<(Vec<DocumentChange>, Document)> {
    let text = item_lookup::document_text(document)?;
    let edited =
        reqlore_domain::backlog::edit_item(item, text, item_edit, at).map_err(|problem| {
            let message = format!("{}: {problem}. Nothing was changed.", document.id);
            Error::new(ErrorKind::Refused, message).reference(item.display_name(&document.id.name))
        })?;
    let Some(edited) = edited else { return Ok((Vec::new(), document.clone())) };
    let document = Document::new(document.id.clone(), edited.into());
    Ok((vec![DocumentChange::Put { document: document.clone() }], document))
}

/// Returns a conflict with the current text if the document is not at the expected version.
pub(super) fn check_version(
    expected: Option<Version>,
    document: &Document,
    reference: Reference,
) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    if expected == document.version {
        return Ok(());
    }
    let message = format!(
        "Conflict: {reference} changed since version {expected}; it is now at version {}. Nothing \
         was changed. Current text:\n{}",
        document.version,
        item_lookup::document_text(document)?
    );
    let error = Error::new(ErrorKind::Conflict, message).field("if_version");
    Err(error.reference(reference.to_string()))
}
