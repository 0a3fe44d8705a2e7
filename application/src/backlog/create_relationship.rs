//! `create_relationship` (S5 7.6): relates two requirements.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};

use super::Written;
use super::relationship::Arguments;
use crate::Context;
use crate::tool::{Tool, decode, write_tool};

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
        given.relate(true)?.run(context, &call, spec).await
    }
}
