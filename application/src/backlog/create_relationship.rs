//! `create_relationship`: adds a relationship to the source's file.

use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};

use super::relationship::RelationshipOutcome;
use super::relationship_arguments::Arguments;
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Change, WriteTool};
use crate::writes::local_names::LocalNames;

pub(crate) struct CreateRelationship;

impl WriteTool for CreateRelationship {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, RelationshipOutcome>(
            "create_relationship",
            "Link two requirements",
            "Links two requirements, such as source depends_on target.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        names: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        Ok(Box::new(arguments.into_addition(names)?))
    }
}
