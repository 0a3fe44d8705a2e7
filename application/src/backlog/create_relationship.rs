//! `create_relationship`: adds a relationship to the source's file.

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemEdit, ItemMeta};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};

use super::relationship::{Arguments, RelationshipSpec, refused_error};
use super::write_item::{ItemUpdate, LinkedDocument, WriteOutcome};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments, write_tool};

pub(crate) struct CreateRelationship;

#[async_trait]
impl Tool for CreateRelationship {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "create_relationship",
            "Relate two requirements",
            "Relates two requirements, such as source depends_on target.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let relationship = arguments.parse()?;
        let RelationshipSpec { source, target, .. } = relationship;
        if source == target {
            let message = format!("{source} cannot have a relationship with itself");
            return Err(refused_error(message, source).field("target"));
        }
        let update = ItemUpdate {
            item: ("source", source),
            linked: Some(("target", target)),
            if_version: arguments.if_version,
        };
        let edit_item = move |item: &ItemMeta, target: Option<LinkedDocument<'_>>| {
            // `linked` above is set, so there is always a target.
            let Some((link, target)) = target else { return Ok(ItemEdit::default()) };
            let relationships = Some(relationship.add(item, target)?);
            Ok(ItemEdit { relationships, new_targets: vec![link.clone()], ..ItemEdit::default() })
        };
        let reason = format!("create relationship {relationship}");
        let (record, _) = update.commit(context, &call, spec, reason, edit_item).await?;
        relationship.reply("Relationship created", &record)
    }
}
