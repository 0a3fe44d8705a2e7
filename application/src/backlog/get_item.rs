//! `get_item`.

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
use crate::tool::{Tool, decode, read_tool, reply};

pub(crate) struct GetItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    reference: ItemRef,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
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
        read_tool::<Arguments, Answer>(
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
        let given: Arguments = decode(&mut call, spec)?;
        let reference = given.reference.reference("reference")?;
        let backlog = BacklogReader::of(&context.ports, &call.caller);
        let head = backlog.find(reference, "reference").await?;
        let around = ItemRelations::of(backlog, reference, &head).await?;
        let answer = Answer {
            item: item_view::one(backlog, &head).await?,
            children: ItemSummary::all(&around.children),
            relationships: around.relationships,
            links: around.links,
            fault: item_lookup::fault(&head),
        };
        reply(text(&answer), &answer)
    }
}

fn text(answer: &Answer) -> String {
    let Answer { item, children, relationships, fault, .. } = answer;
    let said = [
        item.status.map(|status| format!("Status: {status}")),
        item.priority.map(|priority| format!("Priority: {priority}")),
        item.type_name.map(|name| format!("Type: {name}")),
        item.epic.as_ref().map(|epic| format!("Epic: {epic}")),
        item.user_story.as_ref().map(|story| format!("User story: {story}")),
        item.assignee_username.as_ref().map(|name| format!("Assignee: {name}")),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    let mut parts = vec![
        format!("{}: {} (version {})", item.reference_id, item.title, &item.version[..8]),
        said.join(", "),
        item.description.clone(),
    ];
    parts.extend(children.iter().map(|child| format!("- {}: {}", child.reference_id, child.title)));
    parts.extend(relationships.outgoing.iter().map(|to| format!("- {} {}", to.kind, end(to))));
    parts.extend(
        relationships.incoming.iter().map(|from| format!("- {} {} it", end(from), from.kind)),
    );
    parts.extend(fault.iter().map(|fault| fault_text(fault)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

pub(super) fn fault_text(fault: &str) -> String {
    format!("Problem in the file: {fault}")
}

fn end(related: &RelatedItem) -> String {
    format!("{}: {}", related.reference_id, related.title.as_deref().unwrap_or("not there"))
}
