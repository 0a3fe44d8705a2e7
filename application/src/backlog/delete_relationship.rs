//! `delete_relationship`: removes a relationship from the source's file.

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemEdit, ItemMeta};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};

use super::relationship::Arguments;
use super::write_item::{ItemUpdate, LinkedDocument, WriteOutcome};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments, write_tool};

pub(crate) struct DeleteRelationship;

#[async_trait]
impl Tool for DeleteRelationship {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, WriteOutcome>(
            "delete_relationship",
            "Delete a relationship",
            "Deletes a relationship between two requirements.",
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
        let item = ("source", relationship.source);
        let update = ItemUpdate { item, linked: None, if_version: arguments.if_version };
        let edit_item = move |item: &ItemMeta, _: Option<LinkedDocument<'_>>| {
            Ok(ItemEdit { relationships: Some(relationship.remove(item)?), ..ItemEdit::default() })
        };
        let reason = format!("delete relationship {relationship}");
        let (record, _) = update.commit(context, &call, spec, reason, edit_item).await?;
        relationship.reply("Relationship removed", &record)
    }
}
