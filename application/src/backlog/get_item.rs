//! `get_item` (S5 7.3): any item by its reference, with what stands around it.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::identity::Access;
use reqlore_domain::ports::endpoint::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::around::{self, Brief, Related};
use super::find;
use super::given::{Any, Given};
use super::record::Record;
use crate::Context;
use crate::arguments::decode;
use crate::tool::{Tool, reply, schema};

pub(crate) struct GetItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Such as "EP-001", "US-047", "REQ-048" or "AC-003".
    reference: Given<Any>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    item: Record,
    /// What belongs to it.
    children: Vec<Brief>,
    /// Of a requirement.
    relationships: Vec<Related>,
    /// What a person should mend in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    fault: Option<String>,
}

#[async_trait]
impl Tool for GetItem {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "get_item",
            title: "Read an item",
            description: "Reads an epic, user story, requirement or acceptance criterion by its \
                          reference, with its children and relationships.",
            input_schema: schema::<Arguments>(),
            output_schema: schema::<Answer>(),
            access: Access::Read,
            may_change: false,
            destructive: false,
            idempotent: true,
        }
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(std::mem::take(&mut call.arguments), spec)?;
        let reference = given.reference.reference("reference")?;
        let ports = &context.ports;
        let named = |error: reqlore_domain::error::Error| error.field("reference");
        let head = find::head(ports, reference).await.map_err(named)?;
        let document = find::document(ports, &head).await?;
        let children = around::children(ports, reference).await?;
        let children = children.iter().filter_map(|head| Some(Brief::of(head, find::item(head)?)));
        let relationships = match find::item(&head) {
            Some(item) => around::relationships(ports, item).await?,
            None => Vec::new(),
        };
        let answer = Answer {
            item: Record::of(&head, &document)?,
            children: children.collect(),
            relationships,
            fault: head.fault.as_ref().map(|fault| fault.reason.clone()),
        };
        reply(text(&answer), &answer)
    }
}

/// The sentence, the description, and what stands around it.
fn text(answer: &Answer) -> String {
    let Answer { item, children, relationships, .. } = answer;
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
    parts.extend(relationships.iter().map(|related| {
        let title = related.title.as_deref().unwrap_or("not there");
        let other = format!("{}: {title}", related.reference_id);
        match related.direction {
            "to" => format!("- {} {other}", related.kind),
            _ => format!("- {other} {} this", related.kind),
        }
    }));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}
