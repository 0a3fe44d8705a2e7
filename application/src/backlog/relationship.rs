//! Making and ending a relationship: both change the source's file alone.

use reqlore_domain::backlog::{Edit, Item, Reference, Relationship, RelationshipType};
use reqlore_domain::document::{Document, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Change, ReadSet, Snapshot};
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use reqlore_domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{RelationshipTypeArgument, RequirementRef};
use super::find::{self, Backlog};
use super::item_view;
use super::update_item::{changed, check_version};
use crate::Context;
use crate::edit::{act, edit};
use crate::tool::reply;

// What both tools take. (A doc comment would become part of the schema.)
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    source: RequirementRef,
    target: RequirementRef,
    #[serde(rename = "type")]
    kind: RelationshipTypeArgument,
    /// Change only if the source is still at this version.
    if_version: Option<Version>,
}

impl Arguments {
    /// The relationship shall exist, or not any more.
    pub(super) fn relate(self, exists: bool) -> Result<Relate> {
        Ok(Relate {
            source: self.source.reference("source")?,
            target: self.target.reference("target")?,
            kind: self.kind.0,
            if_version: self.if_version,
            exists,
        })
    }
}

/// A relationship that shall be there, or not any more.
pub(super) struct Relate {
    source: Reference,
    target: Reference,
    kind: RelationshipType,
    if_version: Option<Version>,
    exists: bool,
}

impl Relate {
    pub(crate) async fn run(
        self,
        context: &Context,
        call: &Call,
        spec: &ToolSpec,
    ) -> Result<Reply> {
        let Self { source, target, kind, if_version, exists } = self;
        if exists && source == target {
            let message = format!("{source} can't have a relationship with itself.");
            return Err(refused(message, source).field("target"));
        }
        let backlog = Backlog::of(&context.ports, &call.caller);
        let sentence = format!("{source} {} {target}", kind.name());
        let act = act(context, call, spec, sentence);
        let head = backlog.find(source, "source").await?;
        let mut ids = vec![head.id.clone()];
        let mut linked = Vec::new();
        if exists {
            let found = backlog.find(target, "target").await?;
            linked.push(find::linked(target, &found.id.name));
            ids.push(found.id.clone());
        }
        let at = act.at.whole();
        let wanted = Relationship { kind, target };
        let decide = move |snapshot: &Snapshot| -> Result<(Vec<Change>, Document)> {
            let mut documents = snapshot.documents.iter();
            let document = find::still_there(documents.next(), source)?;
            check_version(if_version, document, source)?;
            let item = find::read(&head, document, find::text(document)?);
            let mut relationships = item.relationships;
            let is_there = relationships.contains(&wanted);
            if exists {
                let other = find::still_there(documents.next(), target)?;
                let back = Relationship { kind, target: source };
                let is_mirrored = || -> Result<bool> {
                    let other = read_requirement(target, other)?;
                    Ok(kind.is_mutual() && other.contains(&back))
                };
                if is_there || is_mirrored()? {
                    return Err(twice(source, kind, target));
                }
                relationships.push(wanted);
            } else {
                if !is_there {
                    return Err(none(source, kind, target));
                }
                relationships.retain(|found| *found != wanted);
            }
            let linked = linked.clone();
            let relationships = Some(relationships);
            let wanted = Edit { relationships, linked, ..Edit::default() };
            changed(&head, document, &wanted, at)
        };
        let (document, _) =
            edit(backlog.ports, backlog.project, ReadSet::of(ids), act, decide).await?;
        let record = item_view::written(backlog, &document, source.kind, at)?;
        let done = if exists { "Related" } else { "Not related any more" };
        let version = &record.version[..8];
        reply(format!("{done}: {source} {} {target} (version {version})", kind.name()), &record)
    }
}

fn read_requirement(reference: Reference, document: &Document) -> Result<Vec<Relationship>> {
    let (name, text) = (&document.id.name, find::text(document)?);
    Ok(Item::read(reference.kind, name, text, Timestamp::default()).0.relationships)
}

fn twice(source: Reference, kind: RelationshipType, target: Reference) -> Error {
    let message = format!("There is a relationship already: {source} {} {target}.", kind.name());
    refused(message, source)
}

fn none(source: Reference, kind: RelationshipType, target: Reference) -> Error {
    let name = kind.name();
    let message = format!("There is no relationship {source} {name} {target}. get_item shows all.");
    Error::new(ErrorKind::NotFound, message).reference(source.to_string())
}

fn refused(message: String, source: Reference) -> Error {
    Error::new(ErrorKind::Refused, message).reference(source.to_string())
}
