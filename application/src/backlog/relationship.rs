//! What `create_relationship` and `delete_relationship` share. Both change the source's file alone.

use std::fmt;

use reqlore_domain::backlog::{ItemMeta, Reference, Relationship, RelationshipType};
use reqlore_domain::document::{Document, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::ToolReply;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{RelationshipTypeArgument, RequirementRef};
use super::item_lookup;
use super::item_view::ItemRecord;
use crate::tool::reply;

// The arguments of both tools. (A doc comment would become part of the schema.)
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    source: RequirementRef,
    target: RequirementRef,
    #[serde(rename = "type")]
    kind: RelationshipTypeArgument,
    /// Expected source version.
    pub(super) if_version: Option<Version>,
}

impl Arguments {
    pub(super) fn read(&self) -> Result<RelationshipSpec> {
        let source = self.source.reference("source")?;
        let target = self.target.reference("target")?;
        Ok(RelationshipSpec { source, kind: self.kind.0, target })
    }
}

#[derive(Clone, Copy)]
pub(super) struct RelationshipSpec {
    pub(super) source: Reference,
    kind: RelationshipType,
    pub(super) target: Reference,
}

impl fmt::Display for RelationshipSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.kind.name(), self.target)
    }
}

impl RelationshipSpec {
    /// The source's relationships with this one.
    pub(super) fn add(self, item: &ItemMeta, target: &Document) -> Result<Vec<Relationship>> {
        let Self { source, kind, target: reference } = self;
        let mut relationships = item.relationships.clone();
        let wanted = Relationship { kind, target: reference };
        let is_mirrored = || -> Result<bool> {
            let (name, text) = (&target.id.name, item_lookup::text(target)?);
            let (target, _) = ItemMeta::read(reference.kind, name, text, Timestamp::default());
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
    pub(super) fn remove(self, item: &ItemMeta) -> Result<Vec<Relationship>> {
        let Self { source, kind, target } = self;
        let mut relationships = item.relationships.clone();
        relationships.retain(|found| *found != Relationship { kind, target });
        if relationships.len() == item.relationships.len() {
            let message = format!("There is no relationship {self}. get_item shows all.");
            return Err(Error::new(ErrorKind::NotFound, message).reference(source.to_string()));
        }
        Ok(relationships)
    }

    pub(super) fn reply(self, done: &str, record: &ItemRecord) -> Result<ToolReply> {
        reply(format!("{done}: {self} (version {})", &record.version[..8]), record)
    }
}

pub(super) fn refused(message: String, source: Reference) -> Error {
    Error::new(ErrorKind::Refused, message).reference(source.to_string())
}
