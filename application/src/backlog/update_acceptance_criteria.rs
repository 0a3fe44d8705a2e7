//! `update_acceptance_criteria` (S5 7.3): changes an acceptance criterion.

use async_trait::async_trait;
use reqlore_domain::backlog::Edit;
use reqlore_domain::backlog::fields::MAX_DESCRIPTION;
use reqlore_domain::bounded::BoundedString;
use reqlore_domain::document::Version;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Written;
use super::arguments::AcceptanceCriteriaRef;
use super::update_item::UpdateItem;
use crate::Context;
use crate::tool::{Tool, decode, write_tool};

pub(crate) struct UpdateAcceptanceCriteria;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    acceptance_criteria: AcceptanceCriteriaRef,
    /// Markdown.
    description: BoundedString<MAX_DESCRIPTION>,
    /// Change only if it is still at this version.
    if_version: Option<Version>,
}

#[async_trait]
impl Tool for UpdateAcceptanceCriteria {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            idempotent: true,
            ..write_tool::<Arguments, Written>(
                "update_acceptance_criteria",
                "Update acceptance criteria",
                "Replaces the text of an acceptance criterion. Answers with the record and its new \
             version.",
            )
        }
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(&mut call, spec)?;
        let edit = Edit { description: Some(given.description.into_string()), ..Edit::default() };
        let item = given.acceptance_criteria.reference("acceptance_criteria")?;
        let update = UpdateItem { item, parent: None, edit, if_version: given.if_version };
        update.run(context, &call, spec).await
    }
}
