//! `create_relationship` (S5 7.6): relates two requirements.

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

pub(crate) struct CreateRelationship;

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
impl Tool for CreateRelationship {
    fn spec(&self) -> ToolSpec {
        super::writing::<Arguments>(
            "create_relationship",
            "Relate two requirements",
            "Relates a requirement to another one. The source's file keeps it, and its record is \
             the answer.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(std::mem::take(&mut call.arguments), spec)?;
        let relate = Relate {
            source: given.source.reference("source")?,
            target: given.target.reference("target")?,
            kind: given.kind.0,
            if_version: given.if_version,
            exists: true,
        };
        relate.run(context, &call, spec).await
    }
}
