//! `delete_relationship` (S5 7.6): ends a relationship.

use async_trait::async_trait;
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::endpoint::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::choice::{One, RelationshipTypes};
use super::given::{Given, Requirement};
use super::relationship::Relate;
use crate::Context;
use crate::arguments::{decode, present};
use crate::tool::Tool;

pub(crate) struct DeleteRelationship;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    source: Given<Requirement>,
    target: Given<Requirement>,
    #[serde(rename = "type")]
    kind: One<RelationshipTypes>,
    /// Change only if the source is still at this version.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Version")]
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for DeleteRelationship {
    fn spec(&self) -> ToolSpec {
        super::writing::<Arguments>(
            "delete_relationship",
            "End a relationship",
            "Ends a relationship between two requirements. Answers with the source's record.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(std::mem::take(&mut call.arguments), spec)?;
        let relate = Relate {
            source: given.source.reference("source")?,
            target: given.target.reference("target")?,
            kind: given.kind.0,
            if_version: given.if_version,
            exists: false,
        };
        relate.run(context, &call, spec).await
    }
}
