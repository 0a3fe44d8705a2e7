//! `create_relationship` and `delete_relationship`. Both change the source's file alone.

use std::fmt;

use async_trait::async_trait;
use reqlore_domain::backlog::{Edit, Item, Reference, Relationship, RelationshipType};
use reqlore_domain::document::{Document, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use reqlore_domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{RelationshipTypeArgument, RequirementRef};
use super::find;
use super::item_view::Record;
use super::write_item::{ItemUpdate, LinkedDocument, Written};
use crate::Context;
use crate::tool::{Tool, decode, reply, write_tool};

// The arguments of both tools. (A doc comment would become part of the schema.)
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    source: RequirementRef,
    target: RequirementRef,
    #[serde(rename = "type")]
    kind: RelationshipTypeArgument,
    /// Change only if the source is still at this version.
    if_version: Option<Version>,
}

impl Arguments {
    fn read(&self) -> Result<RelationshipSpec> {
        let source = self.source.reference("source")?;
        let target = self.target.reference("target")?;
        Ok(RelationshipSpec { source, kind: self.kind.0, target })
    }
}

#[derive(Clone, Copy)]
struct RelationshipSpec {
    source: Reference,
    kind: RelationshipType,
    target: Reference,
}

impl fmt::Display for RelationshipSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.kind.name(), self.target)
    }
}

impl RelationshipSpec {
    /// The source's relationships with this one.
    fn add(self, item: &Item, target: &Document) -> Result<Vec<Relationship>> {
        let Self { source, kind, target: reference } = self;
        let mut relationships = item.relationships.clone();
        let wanted = Relationship { kind, target: reference };
        let is_mirrored = || -> Result<bool> {
            let (name, text) = (&target.id.name, find::text(target)?);
            let (target, _) = Item::read(reference.kind, name, text, Timestamp::default());
            let mirrored = Relationship { kind, target: source };
            Ok(kind.is_mutual() && target.relationships.contains(&mirrored))
        };
        if relationships.contains(&wanted) || is_mirrored()? {
            return Err(refused(format!("There is a relationship already: {self}."), source));
        }
        relationships.push(wanted);
        Ok(relationships)
    }

    /// The source's relationships without this one.
    fn remove(self, item: &Item) -> Result<Vec<Relationship>> {
        let Self { source, kind, target } = self;
        let mut relationships = item.relationships.clone();
        relationships.retain(|found| *found != Relationship { kind, target });
        if relationships.len() == item.relationships.len() {
            let message = format!("There is no relationship {self}. get_item shows all.");
            return Err(Error::new(ErrorKind::NotFound, message).reference(source.to_string()));
        }
        Ok(relationships)
    }

    fn reply(self, done: &str, record: &Record) -> Result<Reply> {
        reply(format!("{done}: {self} (version {})", &record.version[..8]), record)
    }
}

fn refused(message: String, source: Reference) -> Error {
    Error::new(ErrorKind::Refused, message).reference(source.to_string())
}

pub(crate) struct CreateRelationship;

#[async_trait]
impl Tool for CreateRelationship {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, Written>(
            "create_relationship",
            "Relate two requirements",
            "Relates a requirement to another one. The source's file keeps it, and its record is \
             the answer.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(&mut call, spec)?;
        let wanted = given.read()?;
        let RelationshipSpec { source, target, .. } = wanted;
        if source == target {
            let message = format!("{source} can't have a relationship with itself.");
            return Err(refused(message, source).field("target"));
        }
        let update = ItemUpdate {
            item: ("source", source),
            linked: Some(("target", target)),
            if_version: given.if_version,
        };
        let edit_item = move |item: &Item, target: Option<LinkedDocument<'_>>| {
            let Some((link, target)) = target else { return Ok(Edit::default()) };
            let relationships = Some(wanted.add(item, target)?);
            Ok(Edit { relationships, linked: vec![link.clone()], ..Edit::default() })
        };
        let (record, _) = update.run(context, &call, spec, wanted.to_string(), edit_item).await?;
        wanted.reply("Related", &record)
    }
}

pub(crate) struct DeleteRelationship;

#[async_trait]
impl Tool for DeleteRelationship {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, Written>(
            "delete_relationship",
            "End a relationship",
            "Ends a relationship between two requirements. Answers with the source's record.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(&mut call, spec)?;
        let unwanted = given.read()?;
        let item = ("source", unwanted.source);
        let update = ItemUpdate { item, linked: None, if_version: given.if_version };
        let edit_item = move |item: &Item, _: Option<LinkedDocument<'_>>| {
            Ok(Edit { relationships: Some(unwanted.remove(item)?), ..Edit::default() })
        };
        let (record, _) = update.run(context, &call, spec, unwanted.to_string(), edit_item).await?;
        unwanted.reply("Not related any more", &record)
    }
}
