//! `delete_item`: replaces an item by a tombstone, so that its reference still answers.
//!
//! A commit names the documents that it changes, so children and relationships are read before it.
//! The decision reads them again. If another one was added in between, the deletion starts over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemEdit, ItemKind, ItemMeta, Reference, tombstone_text};
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::ItemRef;
use super::item_lookup::{self, BacklogReader, links_to};
use super::write_item::{change, check_version};
use crate::ToolContext;
use crate::tool::{Tool, decode, reply, write_tool};
use crate::transaction::{act, edit};

pub(crate) struct DeleteItem;

const MAX_ATTEMPTS: usize = 5;
const MAX_NAMED: usize = 10;

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
struct Answer {
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
            destructive: true,
            ..write_tool::<Arguments, Answer>(
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
        let given: Arguments = decode(&mut call, spec)?;
        let reference = given.reference.reference("reference")?;
        let backlog = BacklogReader::of(&context.ports, &call.caller);
        let act = act(context, &call, spec, format!("{reference} is deleted"));
        for _ in 0..MAX_ATTEMPTS {
            let deletion = Deletion::of(backlog, reference, &given).await?;
            if let Some(answer) = deletion.commit(backlog, act.clone()).await? {
                return reply(text(reference, &answer), &answer);
            }
        }
        let message = "Others kept adding to it. Nothing was deleted; try again.";
        Err(Error::new(ErrorKind::Busy, message).reference(reference.to_string()))
    }
}

fn text(reference: Reference, answer: &Answer) -> String {
    let Answer { title, version, deleted, unlinked, .. } = answer;
    let noun = reference.kind.noun().to_lowercase();
    let mut text = format!("Deleted {noun} {reference}: {title} (version {})", &version[..8]);
    let with_it = deleted.get(1..).unwrap_or_default();
    for (label, references) in [("With it", with_it), ("No longer related", unlinked.as_slice())] {
        if !references.is_empty() {
            text = format!("{text}\n{label}: {}", references.join(", "));
        }
    }
    text
}

type Items = Vec<(Reference, Arc<DocumentMeta>)>;

/// An item, its descendants, and the requirements that relate to any of them.
#[derive(Clone)]
struct Deletion {
    project: ProjectKey,
    /// The item itself first.
    deleted: Items,
    unlinked: Items,
    cascade: bool,
    if_version: Option<Version>,
}

impl Deletion {
    async fn of(
        backlog: BacklogReader<'_>,
        reference: Reference,
        given: &Arguments,
    ) -> Result<Self> {
        let head = backlog.find(reference, "reference").await?;
        let mut deletion = Self {
            project: backlog.project.clone(),
            deleted: vec![(reference, head)],
            unlinked: Vec::new(),
            cascade: given.cascade,
            if_version: given.if_version,
        };
        if deletion.cascade {
            deletion.add_descendants(backlog, reference).await?;
        }
        Ok(deletion)
    }

    async fn add_descendants(&mut self, backlog: BacklogReader<'_>, root: Reference) -> Result<()> {
        let mut level = vec![root];
        while !level.is_empty() {
            let links = links_to(&level);
            let found = backlog.ports.documents.backlinks(backlog.project, &links).await?;
            // By id, because one item may link to several of them.
            let found = found.into_iter().flatten().map(|head| (head.id.clone(), head));
            let found: BTreeMap<DocumentId, Arc<DocumentMeta>> = found.collect();
            let known = self.deleted_ids();
            let mut below = Vec::new();
            for head in found.into_values().filter(|head| !known.contains(&head.id)) {
                let Some(item) = item_lookup::item(&head) else { continue };
                let (Some(own), parent) = (item.reference, item.parent) else { continue };
                if parent.is_some_and(|parent| level.contains(&parent)) {
                    below.push(own);
                    self.deleted.push((own, head));
                } else if item.relationships.iter().any(|link| level.contains(&link.target)) {
                    self.unlinked.push((own, head));
                }
            }
            level = below;
        }
        self.check_unambiguous(backlog).await?;
        // An item may relate to one part and belong to another.
        let deleted = self.deleted_ids();
        self.unlinked.retain(|(_, head)| !deleted.contains(&head.id));
        self.unlinked.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id));
        self.unlinked.dedup_by(|(_, a), (_, b)| a.id == b.id);
        Ok(())
    }

    /// Two items with one reference cannot tell their children apart.
    async fn check_unambiguous(&self, backlog: BacklogReader<'_>) -> Result<()> {
        for kind in ItemKind::ALL {
            let of_kind = self.deleted.iter().filter(|(reference, _)| reference.kind == kind);
            let references: Vec<Reference> = of_kind.map(|(reference, _)| *reference).collect();
            for found in backlog.heads(&references).await? {
                found?;
            }
        }
        Ok(())
    }

    fn deleted_ids(&self) -> BTreeSet<DocumentId> {
        self.deleted.iter().map(|(_, head)| head.id.clone()).collect()
    }

    /// Returns `None` if another item was added in between.
    async fn commit(
        &self,
        backlog: BacklogReader<'_>,
        act: WriteContext,
    ) -> Result<Option<Answer>> {
        let involved = self.deleted.iter().chain(&self.unlinked);
        let mut documents: Vec<DocumentId> = involved.map(|(_, head)| head.id.clone()).collect();
        documents.extend(self.deleted.iter().map(|(_, head)| tombstone_id(&head.id)));
        let references: Vec<Reference> = self.deleted.iter().map(|(found, _)| *found).collect();
        let reads = ReadSet { backlinks: links_to(&references), ..ReadSet::of(documents) };
        let (deletion, by, at) = (self.clone(), Arc::clone(&act.caller), act.at.whole());
        let decide = move |snapshot: &Snapshot| deletion.decide(snapshot, &by.name, at);
        let (answer, _) = edit(backlog.ports, backlog.project, reads, act, decide).await?;
        Ok(answer)
    }

    fn decide(
        &self,
        snapshot: &Snapshot,
        by: &str,
        at: Timestamp,
    ) -> Result<(Vec<DocumentChange>, Option<Answer>)> {
        let gone: BTreeSet<Reference> = self.deleted.iter().map(|(found, _)| *found).collect();
        let known: BTreeSet<&DocumentId> =
            self.deleted.iter().chain(&self.unlinked).map(|(_, head)| &head.id).collect();
        let holders = snapshot.backlinks.iter().flatten().filter(|head| depends_on(head, &gone));
        let holders: Vec<&Arc<DocumentMeta>> =
            holders.filter(|head| !known.contains(&head.id)).collect();
        let (reference, head) = &self.deleted[0];
        let mut documents = snapshot.documents.iter();
        let first = item_lookup::still_there(snapshot.documents.first(), *reference)?;
        check_version(self.if_version, first, *reference)?;
        let first = item_lookup::read(head, first, item_lookup::text(first)?);
        if !self.cascade && (!holders.is_empty() || !first.relationships.is_empty()) {
            return Err(still_referenced(*reference, &holders, &first));
        }
        if !holders.is_empty() {
            return Ok((Vec::new(), None));
        }
        let mut changes = Vec::new();
        for ((reference, head), document) in self.deleted.iter().zip(documents.by_ref()) {
            let document = item_lookup::still_there(Some(document), *reference)?;
            let text = item_lookup::text(document)?;
            let kept = tombstone_text(&item_lookup::read(head, document, text), text, at, by);
            changes.push(DocumentChange::put(tombstone_id(&document.id), kept));
            changes.push(DocumentChange::Delete { id: document.id.clone() });
        }
        for ((_, head), document) in self.unlinked.iter().zip(documents) {
            // A document that was removed in between relates to nothing.
            let Some(document) = document else { continue };
            let item = item_lookup::read(head, document, item_lookup::text(document)?);
            let mut relationships = item.relationships.clone();
            relationships.retain(|link| !gone.contains(&link.target));
            let wanted = ItemEdit { relationships: Some(relationships), ..ItemEdit::default() };
            changes.extend(change(&item, document, &wanted, at)?.0);
        }
        let version = changes.first().and_then(DocumentChange::version);
        let answer = Answer {
            project: self.project.to_string(),
            reference_id: reference.to_string(),
            title: first.title,
            version: version.map(|version| version.to_string()).unwrap_or_default(),
            deleted: self.deleted.iter().map(|(reference, _)| reference.to_string()).collect(),
            unlinked: self.unlinked.iter().map(|(reference, _)| reference.to_string()).collect(),
        };
        Ok((changes, Some(answer)))
    }
}

fn tombstone_id(id: &DocumentId) -> DocumentId {
    DocumentId { kind: DocumentKind::Deleted, name: id.name.clone() }
}

/// True for an item that belongs or relates to any of these. A mention does not count.
fn depends_on(head: &DocumentMeta, gone: &BTreeSet<Reference>) -> bool {
    item_lookup::item(head).is_some_and(|item| {
        item.parent.is_some_and(|parent| gone.contains(&parent))
            || item.relationships.iter().any(|link| gone.contains(&link.target))
    })
}

fn still_referenced(
    reference: Reference,
    holders: &[&Arc<DocumentMeta>],
    item: &ItemMeta,
) -> Error {
    let mut by = Vec::new();
    for (head, holder) in holders.iter().filter_map(|head| Some((head, item_lookup::item(head)?))) {
        let called = holder.display_name(&head.id.name);
        let related = holder.relationships.iter().find(|link| link.target == reference);
        match related.map(|link| link.kind.name()) {
            Some(kind) => by.push(format!("{called} {kind} it")),
            None => by.push(format!("{called} belongs to it")),
        }
    }
    let own = item.relationships.iter();
    by.extend(own.map(|link| format!("it {} {}", link.kind.name(), link.target)));
    let all = by.len();
    by.truncate(MAX_NAMED);
    let more =
        if all > MAX_NAMED { format!(" and {} more", all - MAX_NAMED) } else { String::new() };
    let message = format!(
        "{reference} can't be deleted yet: {}{more}. Delete these, or end them with \
         delete_relationship, or do all of that with cascade: true. Nothing was deleted.",
        by.join(", ")
    );
    Error::new(ErrorKind::Refused, message).field("cascade").reference(reference.to_string())
}
