//! `delete_relationship`.

use async_trait::async_trait;
use reqlore_domain::backlog::{Edit, Item};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};

use super::relationship::Arguments;
use super::write_item::{ItemUpdate, LinkedDocument, Written};
use crate::Context;
use crate::tool::{Tool, decode, write_tool};

pub(crate) struct DeleteRelationship;

#[async_trait]
impl Tool for DeleteRelationship {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, Written>(
            "delete_relationship",
            "Delete a relationship",
            "Deletes a relationship between two requirements.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(&mut call, spec)?;
        let unwanted = given.read()?;
        let item = ("source", unwanted.source);
        let update = ItemUpdate { item, linked: None, if_version: given.if_version };
        let edit_item = move |item: &Item, _: Option<LinkedDocument<'_>>| {
            Ok(Edit { relationships: Some(unwanted.remove(item)?), ..Edit::default() })
        };
        let (record, _) = update.run(context, &call, spec, unwanted.to_string(), edit_item).await?;
        unwanted.reply("Not related any more", &record)
    }
}
