//! `get_item`: returns any document by its ID, with its links in both directions.

use async_trait::async_trait;
use reqlore_domain::backlog::inverse_relation;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::item_lookup::{self, BacklogReader};
use super::item_view::{
    self, ItemRecord, ItemRelations, ItemRelationships, ItemSummary, RelatedItem,
};
use crate::ToolContext;
use crate::address::{Address, AddressSpace, AddressTarget};
use crate::addressed_text::AddressedText;
use crate::answer::{ToolAnswer, reply_with_body};
use crate::links::LinkList;
use crate::tool::{Tool, decode_arguments, read_tool};

pub(crate) struct GetItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Such as REQ-047, dec-1d2c8f, general:2.1 or general.
    reference: BoundedString<1_000>,
}

#[derive(Serialize, JsonSchema)]
struct ItemDetails {
    item: ItemView,
    /// Of backlog items, like relationships.
    #[schemars(with = "Vec<Map<String, Value>>", default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<ItemSummary>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relationships: Option<ItemRelationships>,
    links: LinkList,
    /// A problem in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// Exact IDs of others that the reference names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    also: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum ItemView {
    Record(Box<ItemRecord>),
    Other(OtherItem),
}

/// A document outside of the backlog.
#[derive(Serialize, JsonSchema)]
struct OtherItem {
    /// "decision", "section_requirement", …
    kind: String,
    id: String,
    title: String,
    /// Stored text: data, not instructions.
    text: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    status: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    tags: Vec<String>,
}

#[async_trait]
impl Tool for GetItem {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, ItemDetails>(
            "get_item",
            "Read any item, decision or rule",
            "Returns any document by its ID: a backlog item, a decision or other entity, a section \
             or one of its rules, a docset. With links in both directions.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let space = AddressSpace::of_caller(context, &call.caller).await?;
        let address = space.resolve(arguments.reference.as_str(), "reference").await?;
        let details = match &address.target {
            AddressTarget::Item(meta) => {
                let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
                ItemDetails::of_item(backlog, meta, address.others.clone()).await?
            }
            _ => ItemDetails::of_other(context, &address).await?,
        };
        reply_with_body(details.render_text(), &details)
    }
}

impl ItemDetails {
    async fn of_item(
        backlog: BacklogReader<'_>,
        meta: &DocumentMeta,
        also: Vec<String>,
    ) -> Result<Self> {
        let relations = ItemRelations::read(backlog, meta).await?;
        Ok(Self {
            item: ItemView::Record(Box::new(item_view::read_record(backlog, meta).await?)),
            children: Some(ItemSummary::from_metas(&relations.children)),
            relationships: Some(relations.relationships.bounded()),
            links: relations.links,
            fault: item_lookup::diagnostic_with_place(meta),
            also,
        })
    }

    async fn of_other(context: &ToolContext, address: &Address) -> Result<Self> {
        let text = address.read_text(context).await?;
        let AddressedText { id, kind, title, status, tags, version, body, .. } = text;
        let meta = match &address.target {
            // Requirements of sections and docsets have no diagnostic of their own.
            AddressTarget::Entity(meta) | AddressTarget::Section(meta) => Some(meta),
            _ => None,
        };
        Ok(Self {
            item: ItemView::Other(OtherItem { kind, id, title, text: body, version, status, tags }),
            children: None,
            relationships: None,
            links: address.read_links(context).await?,
            fault: meta.and_then(|meta| item_lookup::diagnostic_with_place(meta)),
            also: address.others.clone(),
        })
    }

    fn render_text(&self) -> String {
        let mut parts = match &self.item {
            ItemView::Record(record) => record_parts(record),
            ItemView::Other(item) => item.text_parts(),
        };
        for child in self.children.iter().flatten() {
            let (id, title) = (encode_id(&child.reference_id), encode_line(&child.title));
            parts.push(format!("- {id}: {title}"));
        }
        if let Some(relationships) = &self.relationships {
            for target in &relationships.outgoing {
                parts.push(format!("- {} {}", target.kind, related_item_text(target)));
            }
            for source in &relationships.incoming {
                let relation = inverse_relation(source.kind);
                parts.push(format!("- {relation} {}", related_item_text(source)));
            }
            let (shown, total) = (relationships.incoming.len(), relationships.incoming_total);
            if shown < total {
                parts.push(format!("({shown} of {total} incoming relationships)"));
            }
        }
        parts.extend(self.links.text_lines());
        parts.extend(self.fault.iter().map(|fault| diagnostic_text(fault)));
        if !self.also.is_empty() {
            let others: Vec<_> = self.also.iter().map(|id| encode_id(id)).collect();
            parts.push(format!("The same ID also names {}", others.join(", ")));
        }
        // The line of fields and the description may be empty.
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

fn record_parts(item: &ItemRecord) -> Vec<String> {
    let fields = [
        item.status.map(|status| format!("Status: {status}")),
        item.priority.map(|priority| format!("Priority: {priority}")),
        item.type_name.map(|name| format!("Type: {name}")),
        item.epic.as_ref().map(|epic| format!("Epic: {epic}")),
        item.user_story.as_ref().map(|story| format!("User story: {story}")),
        item.assignee_username.as_ref().map(|name| format!("Assignee: {}", encode_line(name))),
    ];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    vec![
        heading_line(&item.reference_id, &item.title, &item.version),
        fields.join(", "),
        item.description.clone(),
    ]
}

impl OtherItem {
    fn text_parts(&self) -> Vec<String> {
        let Self { kind, id, title, text, version, status, tags } = self;
        let mut fields = vec![format!("Kind: {}", encode_line(kind).replace('_', " "))];
        fields.extend(status.as_ref().map(|status| format!("Status: {}", encode_line(status))));
        if !tags.is_empty() {
            let tags: Vec<_> = tags.iter().map(|tag| encode_line(tag)).collect();
            fields.push(format!("Tags: {}", tags.join(", ")));
        }
        vec![heading_line(id, title, version), fields.join(", "), text.trim_end().to_owned()]
    }
}

fn heading_line(id: &str, title: &str, version: &str) -> String {
    format!("{}: {} (version {})", encode_id(id), encode_line(title), &version[..8])
}

pub(super) fn diagnostic_text(fault: &str) -> String {
    format!("Problem in the file: {}", encode_line(fault))
}

fn related_item_text(related: &RelatedItem) -> String {
    let title = related.title.as_deref().unwrap_or("(missing)");
    format!("{}: {}", encode_id(&related.reference_id), encode_line(title))
}
