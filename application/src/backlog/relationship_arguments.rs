//! The arguments of `create_relationship` and `delete_relationship`.

use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::{Error, ErrorKind, Result};
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{ItemTarget, RelationshipTypeArgument, RequirementRef};
use super::write_item::{ItemEffect, ItemUpdate};
use crate::writes::local_names::LocalNames;

// The arguments of both tools. (A doc comment would become part of the schema.)
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    source: RequirementRef,
    target: RequirementRef,
    #[serde(rename = "type")]
    kind: RelationshipTypeArgument,
    /// Version of source.
    if_version: Option<VersionPrefix>,
}

impl Arguments {
    pub(super) fn into_addition(self, names: &LocalNames) -> Result<ItemUpdate> {
        let source = self.source.resolve("source", names)?;
        let target = self.target.resolve("target", names)?;
        if source == target {
            let message = format!("{source} cannot have a relationship with itself");
            let error = Error::new(ErrorKind::Refused, message).field("target");
            return Err(error.reference(source.to_string()));
        }
        let effect = ItemEffect::AddRelationship(self.kind.0, target);
        Ok(ItemUpdate { item: source, effect, if_version: self.if_version })
    }

    pub(super) fn into_removal(self) -> Result<ItemUpdate> {
        let item = ItemTarget::Stored(self.source.parse("source")?);
        let target = self.target.parse("target")?;
        let effect = ItemEffect::RemoveRelationship(self.kind.0, target);
        Ok(ItemUpdate { item, effect, if_version: self.if_version })
    }
}
