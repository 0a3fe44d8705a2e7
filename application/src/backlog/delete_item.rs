//! `delete_item`: takes an item away, and leaves a tombstone so that its reference still answers.
//!
//! The trap: children and relationships are looked for before the commit, because a commit names
//! what it changes. The decision looks again, and where somebody added one in between, all of it is
//! looked for anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::{Edit, Item, ItemKind, Reference, tombstone};
use reqlore_domain::document::{DocumentId, DocumentMeta, Kind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{BacklinkQuery, Change, ReadSet, Snapshot};
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project::ProjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::ItemRef;
use super::find::{self, Backlog};
use super::update_item::{changed, check_version};
use crate::Context;
use crate::edit::{act, edit};
use crate::tool::{Tool, decode, reply, write_tool};

pub(crate) struct DeleteItem;

/// So often it is looked for anew.
const ATTEMPTS: usize = 5;
/// So many references are named in a refusal.
const NAMED: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Such as "EP-001", "US-047", "REQ-048" or "AC-003".
    reference: ItemRef,
    /// Delete what belongs to it too, and end relationships with it.
    #[serde(default)]
    cascade: bool,
    /// Delete only if it is still at this version.
    if_version: Option<Version>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    project: String,
    reference_id: String,
    title: String,
    /// Of the tombstone.
    version: String,
    /// Everything that was deleted, itself first.
    deleted: Vec<String>,
    /// Requirements that had a relationship with what was deleted, and have it no more.
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
                "Deletes an item of the backlog. Refuses while other items belong to it \
                          or relate to it, unless cascade is true. Its reference is never given \
                          again.",
            )
        }
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(&mut call, spec)?;
        let reference = given.reference.reference("reference")?;
        let backlog = Backlog::of(&context.ports, &call.caller);
        let act = act(context, &call, spec, format!("{reference} is deleted"));
        for _ in 0..ATTEMPTS {
            let closure = Closure::of(backlog, reference, given.cascade).await?;
            if let Some(answer) = closure.delete(backlog, &given, act.clone()).await? {
                let Answer { title, version, .. } = &answer;
                let noun = reference.kind.noun().to_lowercase();
                let sentence =
                    format!("Deleted {noun} {reference}: {title} (version {})", &version[..8]);
                return reply(format!("{sentence}{}", beside(&answer)), &answer);
            }
        }
        let message = "Others kept adding to it. Nothing was deleted; try again.";
        Err(Error::new(ErrorKind::Busy, message).reference(reference.to_string()))
    }
}

/// What went or changed with it, for a reader.
fn beside(answer: &Answer) -> String {
    let list = |what: &str, all: &[String]| match all {
        [] => String::new(),
        all => format!("\n{what}: {}", all.join(", ")),
    };
    let with = answer.deleted.get(1..).unwrap_or_default();
    list("With it", with) + &list("No longer related", &answer.unlinked)
}

/// An item, what belongs to it, and the requirements that relate to any of that.
struct Closure {
    /// Itself first.
    deleted: Vec<(Reference, Arc<DocumentMeta>)>,
    unlinked: Vec<(Reference, Arc<DocumentMeta>)>,
}

impl Closure {
    async fn of(backlog: Backlog<'_>, reference: Reference, cascade: bool) -> Result<Self> {
        let head = backlog.find(reference, "reference").await?;
        let mut closure = Self { deleted: vec![(reference, head)], unlinked: Vec::new() };
        if !cascade {
            return Ok(closure);
        }
        let mut level = vec![reference];
        while !level.is_empty() {
            let found = backlinks(backlog, &level).await?;
            let known = closure.deleted_ids();
            let mut below = Vec::new();
            for head in found.into_iter().filter(|head| !known.contains(&head.id)) {
                let Some(item) = find::item(&head) else { continue };
                let (Some(own), parent) = (item.reference, item.parent) else { continue };
                if parent.is_some_and(|parent| level.contains(&parent)) {
                    below.push(own);
                    closure.deleted.push((own, head));
                } else if item.relationships.iter().any(|link| level.contains(&link.target)) {
                    closure.unlinked.push((own, head));
                }
            }
            level = below;
        }
        closure.check_unambiguous(backlog).await?;
        // What relates to one part and belongs to another one goes.
        let deleted = closure.deleted_ids();
        closure.unlinked.retain(|(_, head)| !deleted.contains(&head.id));
        closure.unlinked.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id));
        closure.unlinked.dedup_by(|(_, a), (_, b)| a.id == b.id);
        Ok(closure)
    }

    /// Of two items of one reference nobody can say here whose children are whose.
    async fn check_unambiguous(&self, backlog: Backlog<'_>) -> Result<()> {
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

    fn ids(&self) -> impl Iterator<Item = DocumentId> {
        self.deleted.iter().chain(&self.unlinked).map(|(_, head)| head.id.clone())
    }

    /// `None` when more belongs to it than was known.
    async fn delete(
        &self,
        backlog: Backlog<'_>,
        given: &Arguments,
        act: WriteContext,
    ) -> Result<Option<Answer>> {
        let mut documents: Vec<DocumentId> = self.ids().collect();
        documents.extend(self.deleted.iter().map(|(_, head)| tomb(&head.id)));
        let targets = self.deleted.iter().map(|(reference, _)| reference.to_string()).collect();
        let links = BacklinkQuery { kinds: Kind::ITEMS.to_vec(), targets };
        let reads = ReadSet { links, ..ReadSet::of(documents) };
        let decide = Decide {
            project: backlog.project.clone(),
            deleted: self.deleted.clone(),
            unlinked: self.unlinked.clone(),
            cascade: given.cascade,
            if_version: given.if_version,
            by: act.caller.name.to_string(),
            at: act.at.whole(),
        };
        let decide = move |snapshot: &Snapshot| decide.decide(snapshot);
        let (answer, _) = edit(backlog.ports, backlog.project, reads, act, decide).await?;
        Ok(answer)
    }
}

/// Who links to any of these.
async fn backlinks(backlog: Backlog<'_>, to: &[Reference]) -> Result<Vec<Arc<DocumentMeta>>> {
    let targets = to.iter().map(ToString::to_string).collect();
    let links = BacklinkQuery { kinds: Kind::ITEMS.to_vec(), targets };
    let found = backlog.ports.documents.backlinks(backlog.project, &links).await?;
    let by_id = found.into_iter().flatten().map(|head| (head.id.clone(), head));
    Ok(by_id.collect::<BTreeMap<_, _>>().into_values().collect())
}

fn tomb(id: &DocumentId) -> DocumentId {
    DocumentId { kind: Kind::Deleted, name: id.name.clone() }
}

struct Decide {
    project: ProjectKey,
    deleted: Vec<(Reference, Arc<DocumentMeta>)>,
    unlinked: Vec<(Reference, Arc<DocumentMeta>)>,
    cascade: bool,
    if_version: Option<Version>,
    by: String,
    at: reqlore_domain::time::Timestamp,
}

impl Decide {
    fn decide(&self, snapshot: &Snapshot) -> Result<(Vec<Change>, Option<Answer>)> {
        let gone: BTreeSet<Reference> = self.deleted.iter().map(|(found, _)| *found).collect();
        let known: BTreeSet<&DocumentId> =
            self.deleted.iter().chain(&self.unlinked).map(|(_, head)| &head.id).collect();
        let holders = snapshot.links.iter().flatten().filter(|head| holds(head, &gone));
        let holders: Vec<&Arc<DocumentMeta>> =
            holders.filter(|head| !known.contains(&head.id)).collect();
        let (reference, head) = &self.deleted[0];
        let mut documents = snapshot.documents.iter();
        let first = find::still_there(snapshot.documents.first(), *reference)?;
        check_version(self.if_version, first, *reference)?;
        let first = find::read(head, first, find::text(first)?);
        if !self.cascade && (!holders.is_empty() || !first.relationships.is_empty()) {
            return Err(held(*reference, &holders, &first));
        }
        if !holders.is_empty() {
            return Ok((Vec::new(), None));
        }
        let mut changes = Vec::new();
        for ((reference, head), document) in self.deleted.iter().zip(documents.by_ref()) {
            let document = find::still_there(Some(document), *reference)?;
            let text = find::text(document)?;
            let item = find::read(head, document, text);
            let kept = tombstone(&item, text, self.at, &self.by);
            changes.push(Change::put(tomb(&document.id), kept));
            changes.push(Change::Delete { id: document.id.clone() });
        }
        for ((_, head), document) in self.unlinked.iter().zip(documents) {
            // One that went meanwhile relates to nothing.
            let Some(document) = document else { continue };
            let mut relationships = find::read(head, document, find::text(document)?).relationships;
            relationships.retain(|link| !gone.contains(&link.target));
            let wanted = Edit { relationships: Some(relationships), ..Edit::default() };
            changes.extend(changed(head, document, &wanted, self.at)?.0);
        }
        let names = |all: &[(Reference, Arc<DocumentMeta>)]| -> Vec<String> {
            all.iter().map(|(reference, _)| reference.to_string()).collect()
        };
        let version = changes.first().and_then(Change::version);
        let answer = Answer {
            project: self.project.to_string(),
            reference_id: reference.to_string(),
            title: first.title,
            version: version.map(|version| version.to_string()).unwrap_or_default(),
            deleted: names(&self.deleted),
            unlinked: names(&self.unlinked),
        };
        Ok((changes, Some(answer)))
    }
}

/// Does it belong to any of these, or relate to one? Whoever only speaks of them does not hold.
fn holds(head: &DocumentMeta, gone: &BTreeSet<Reference>) -> bool {
    find::item(head).is_some_and(|item| {
        item.parent.is_some_and(|parent| gone.contains(&parent))
            || item.relationships.iter().any(|link| gone.contains(&link.target))
    })
}

fn held(reference: Reference, holders: &[&Arc<DocumentMeta>], item: &Item) -> Error {
    let mut by = Vec::new();
    for (head, holder) in holders.iter().filter_map(|head| Some((head, find::item(head)?))) {
        let called = holder.called(&head.id.name);
        let related = holder.relationships.iter().filter(|link| link.target == reference);
        match related.map(|link| link.kind.name()).next() {
            Some(kind) => by.push(format!("{called} {kind} it")),
            None => by.push(format!("{called} belongs to it")),
        }
    }
    let own = item.relationships.iter();
    by.extend(own.map(|link| format!("it {} {}", link.kind.name(), link.target)));
    let all = by.len();
    by.truncate(NAMED);
    let more = if all > NAMED { format!(" and {} more", all - NAMED) } else { String::new() };
    let message = format!(
        "{reference} can't be deleted yet: {}{more}. Delete these, or end them with \
         delete_relationship, or do all of that with cascade: true. Nothing was deleted.",
        by.join(", ")
    );
    Error::new(ErrorKind::Refused, message).field("cascade").reference(reference.to_string())
}
