//! `create_relationship`.

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemEdit, ItemMeta};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};

use super::relationship::{Arguments, RelationshipSpec, refused};
use super::write_item::{ItemUpdate, LinkedDocument, WriteOutcome};
use crate::ToolContext;
use crate::tool::{Tool, decode, write_tool};

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
        let given: Arguments = decode(&mut call, spec)?;
        let wanted = given.read()?;
        let RelationshipSpec { source, target, .. } = wanted;
        if source == target {
            let message = format!("{source} can't have a relationship with itself.");
            return Err(refused(message, source).field("target"));
        }
        let update = ItemUpdate {
            item: ("source", source),
            linked: Some(("target", target)),
            if_version: given.if_version,
        };
        let edit_item = move |item: &ItemMeta, target: Option<LinkedDocument<'_>>| {
            let Some((link, target)) = target else { return Ok(ItemEdit::default()) };
            let relationships = Some(wanted.add(item, target)?);
            Ok(ItemEdit { relationships, linked: vec![link.clone()], ..ItemEdit::default() })
        };
        let (record, _) = update.run(context, &call, spec, wanted.to_string(), edit_item).await?;
        wanted.reply("Related", &record)
    }
}
