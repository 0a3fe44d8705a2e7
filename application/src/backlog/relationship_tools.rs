//! `create_relationship` and `delete_relationship`: change a relationship in the source's file.

use reqlore_domain::backlog::{ItemKind, RelationshipType};
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::edit::RecordEdit;
use reqlore_domain::records::fields::relationship_types;
use schemars::JsonSchema;
use serde::Deserialize;

use super::arguments::{ItemTarget, RelatedRef, RelationshipTypeArgument};
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
    source: RelatedRef,
    target: RelatedRef,
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
            ["delete_relationship", "Remove a link", "Removes a link of a requirement or story."]
        } else {
            [
                "create_relationship",
                "Link two requirements or two stories",
                "Links two requirements or stories, such as source depends_on target.",
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
            check_kinds(source.kind(), kind.0, target.kind())?;
            (source, LinkChange::AddRelationship(kind.0, Target::Item(target)))
        };
        let (target, fields) = (RecordTarget::Item(source), RecordEdit::default());
        Ok(Box::new(RecordChange { target, fields, links, if_version, repo: None }))
    }
}

/// Fails for two items that cannot have a relationship of this type.
fn check_kinds(source: ItemKind, kind: RelationshipType, target: ItemKind) -> Result<()> {
    let invalid = |field: &str, problem: String| {
        let message = format!("{field}: {problem}");
        Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
    };
    let types = relationship_types(source);
    if source != target {
        let [noun, prefix] = [source.row().words[0], source.prefix()];
        return invalid(
            "target",
            format!("a {noun} relates to another one; send {prefix}- and digits"),
        );
    }
    if !types.contains(&kind) {
        let names: Vec<&str> = types.iter().map(|one| one.name()).collect();
        let problem = format!("two {} can have {}", source.row().words[1], names.join(" or "));
        return invalid("type", problem);
    }
    Ok(())
}
