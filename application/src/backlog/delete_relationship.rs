//! `delete_relationship`: removes a relationship from the source's file.

use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};

use super::relationship::RelationshipOutcome;
use super::relationship_arguments::Arguments;
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Change, WriteTool};
use crate::writes::local_names::LocalNames;

pub(crate) struct DeleteRelationship;

impl WriteTool for DeleteRelationship {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, RelationshipOutcome>(
            "delete_relationship",
            "Remove a link",
            "Removes the link between two requirements.",
        )
    }

    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        _: &LocalNames,
    ) -> Result<Box<dyn Change>> {
        let arguments: Arguments = decode_arguments(call, spec)?;
        Ok(Box::new(arguments.into_removal()?))
    }
}
