//! Shared code of `create_relationship` and `delete_relationship`. Both change only the source's
//! file.

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
    pub(super) fn parse(&self) -> Result<RelationshipSpec> {
        let source = self.source.parse("source")?;
        let target = self.target.parse("target")?;
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
    /// Returns the source's relationships with this one added.
    pub(super) fn add(self, item: &ItemMeta, target: &Document) -> Result<Vec<Relationship>> {
        let mut relationships = item.relationships.clone();
        let relationship = Relationship { kind: self.kind, target: self.target };
        if relationships.contains(&relationship) || self.has_mirror(target)? {
            let message = format!("This relationship already exists: {self}");
            return Err(refused_error(message, self.source));
        }
        relationships.push(relationship);
        Ok(relationships)
    }

    /// True if the target already holds the same relationship of a mutual type.
    fn has_mirror(self, target: &Document) -> Result<bool> {
        // The metadata of the target may be older than the snapshot, so the document is parsed. An
        // unreadable target is an error for all types.
        let (name, text) = (&target.id.name, item_lookup::document_text(target)?);
        let (target, _) = ItemMeta::parse(self.target.kind, name, text, Timestamp::default());
        let mirror = Relationship { kind: self.kind, target: self.source };
        Ok(self.kind.is_mutual() && target.relationships.contains(&mirror))
    }

    /// Returns the source's relationships with this one removed.
    pub(super) fn remove(self, item: &ItemMeta) -> Result<Vec<Relationship>> {
        let Self { source, kind, target } = self;
        let mut relationships = item.relationships.clone();
        relationships.retain(|link| *link != Relationship { kind, target });
        if relationships.len() == item.relationships.len() {
            let message = format!("This relationship does not exist: {self}; get_item lists all");
            return Err(Error::new(ErrorKind::NotFound, message).reference(source.to_string()));
        }
        Ok(relationships)
    }

    pub(super) fn reply(self, outcome: &str, record: &ItemRecord) -> Result<ToolReply> {
        reply(format!("{outcome}: {self} (version {})", &record.version[..8]), record)
    }
}

pub(super) fn refused_error(message: String, source: Reference) -> Error {
    Error::new(ErrorKind::Refused, message).reference(source.to_string())
}
