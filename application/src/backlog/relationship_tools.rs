//! `create_relationship` and `delete_relationship`: change a relationship in the source's file.

use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::edit::RecordEdit;
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{ItemTarget, RelationshipTypeArgument, RequirementRef};
use super::relationship::RelationshipOutcome;
use crate::tools::tool::{ToolRequest, write_tool};
use crate::writes::change::{Change, WriteTool};
use crate::writes::local_names::LocalNames;
use crate::writes::record_change::{RecordChange, RecordTarget};
use crate::writes::record_links::{LinkChange, Target};

// The arguments of both tools. (A doc comment would become part of the schema.)
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    source: RequirementRef,
    target: RequirementRef,
    #[serde(rename = "type")]
    kind: RelationshipTypeArgument,
    /// Version of source.
    if_version: Option<VersionPrefix>,
}

pub(crate) struct RelationshipTool {
    pub(crate) is_removal: bool,
}

impl WriteTool for RelationshipTool {
    fn spec(&self) -> ToolSpec {
        let [name, title, description] = if self.is_removal {
            ["delete_relationship", "Remove a link", "Removes the link between two requirements."]
        } else {
            [
                "create_relationship",
                "Link two requirements",
                "Links two requirements, such as source depends_on target.",
            ]
        };
        write_tool::<Arguments, RelationshipOutcome>(name, title, description)
    }

    fn decode(&self, request: &mut ToolRequest<'_>, names: &LocalNames) -> Result<Box<dyn Change>> {
        let Arguments { source, target, kind, if_version } = request.decode()?;
        let (source, links) = if self.is_removal {
            let source = ItemTarget::Stored(source.parse("source")?);
            (source, LinkChange::RemoveRelationship(kind.0, target.parse("target")?))
        } else {
            let source = source.resolve("source", names)?;
            let target = target.resolve("target", names)?;
            if source == target {
                let message = format!("{source} cannot have a relationship with itself");
                let error = Error::new(ErrorKind::Refused, message).field("target");
                return Err(error.reference(source.to_string()));
            }
            (source, LinkChange::AddRelationship(kind.0, Target::Item(target)))
        };
        let (target, fields) = (RecordTarget::Item(source), RecordEdit::default());
        Ok(Box::new(RecordChange { target, fields, links, if_version, repo: None }))
    }
}
