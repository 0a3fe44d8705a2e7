//! `delete_relationship` (S5 7.6): ends a relationship.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};

use super::Written;
use super::relationship::Arguments;
use crate::Context;
use crate::tool::{Tool, decode, write_tool};

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
        given.relate(false)?.run(context, &call, spec).await
    }
}
