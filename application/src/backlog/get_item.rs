//! `get_item`: returns an item with its children, relationships, links and backlinks.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arguments::ItemRef;
use super::item_lookup::{self, BacklogReader};
use super::item_view::{
    self, ItemLinks, ItemRecord, ItemRelations, ItemRelationships, ItemSummary, RelatedItem,
};
use crate::ToolContext;
use crate::tool::{Tool, decode_arguments, read_tool, reply};

pub(crate) struct GetItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    reference: ItemRef,
}

#[derive(Serialize, JsonSchema)]
struct ItemDetails {
    item: ItemRecord,
    #[schemars(with = "Vec<Map<String, Value>>")]
    children: Vec<ItemSummary>,
    relationships: ItemRelationships,
    links: ItemLinks,
    /// A problem in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

#[async_trait]
impl Tool for GetItem {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, ItemDetails>(
            "get_item",
            "Read an item",
            "Returns a backlog item by its reference, with its children, relationships, links and \
             backlinks.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let reference = arguments.reference.parse("reference")?;
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        let meta = backlog.find_argument(reference, "reference").await?;
        let relations = ItemRelations::read(backlog, reference, &meta).await?;
        let details = ItemDetails {
            item: item_view::read_record(backlog, &meta).await?,
            children: ItemSummary::from_metas(&relations.children),
            relationships: relations.relationships,
            links: relations.links,
            fault: item_lookup::diagnostic_with_place(&meta),
        };
        reply(render_text(&details), &details)
    }
}

fn render_text(details: &ItemDetails) -> String {
    let ItemDetails { item, children, relationships, fault, .. } = details;
    let fields = [
        item.status.map(|status| format!("Status: {status}")),
        item.priority.map(|priority| format!("Priority: {priority}")),
        item.type_name.map(|name| format!("Type: {name}")),
        item.epic.as_ref().map(|epic| format!("Epic: {epic}")),
        item.user_story.as_ref().map(|story| format!("User story: {story}")),
        item.assignee_username.as_ref().map(|name| format!("Assignee: {name}")),
    ];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    let mut parts = vec![
        format!("{}: {} (version {})", item.reference_id, item.title, &item.version[..8]),
        fields.join(", "),
        item.description.clone(),
    ];
    for child in children {
        parts.push(format!("- {}: {}", child.reference_id, child.title));
    }
    for target in &relationships.outgoing {
        parts.push(format!("- {} {}", target.kind, related_item_text(target)));
    }
    for source in &relationships.incoming {
        parts.push(format!("- {} {} it", related_item_text(source), source.kind));
    }
    parts.extend(fault.iter().map(|fault| diagnostic_text(fault)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

pub(super) fn diagnostic_text(fault: &str) -> String {
    format!("Problem in the file: {fault}")
}

fn related_item_text(related: &RelatedItem) -> String {
    format!("{}: {}", related.reference_id, related.title.as_deref().unwrap_or("(missing)"))
}
