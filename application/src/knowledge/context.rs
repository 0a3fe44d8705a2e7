//! `ixchel_context`.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::cut_report::CutReport;
use reqlore_domain::records::answers::document_label::DocumentLabel;
use reqlore_domain::records::answers::links::LinkEntry;
use reqlore_domain::task_context::sentences::sentence_ends;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Repo;
use super::entity_request::{EntityId, find_address};
use crate::addresses::links::{LinkNode, OutgoingLink};
use crate::answers::answer::{Answer, ToolAnswer, serialization_error, whole_advice};
use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::context::ToolContext;
use crate::documents::get_one;
use crate::task_context::candidate_texts::{body_text, removed_error};
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct ContextTool;

const MAX_ITEMS: usize = 1_000;
/// The largest limit of an answer. Further bodies are not read.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The beginning of the entity itself, which precedes the lines of linked items under a limit.
const FIRST_BYTES: usize = 2_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Entity ID or path, or any other ID.
    id: EntityId,
    /// Folder.
    repo: Option<Repo>,
    #[serde(default)]
    show: ShowKeys<ItemKeys>,
}

struct ItemKeys;

const BODY: &str = "body";

impl EntryKeys for ItemKeys {
    const KEYS: &'static [&'static str] =
        &["kind", "title", "status", "superseded_by", "tags", BODY];
}

#[derive(Serialize, JsonSchema)]
struct EntityContext<'a> {
    id: &'a str,
    /// The entity, linked entities, then other linked texts.
    #[schemars(with = "Vec<ContextItem<'_>>")]
    items: Vec<Map<String, Value>>,
    #[serde(flatten)]
    cut: CutReport,
}

#[derive(Serialize, JsonSchema)]
struct ContextItem<'a> {
    /// Of the link, with its type; absent for the entity itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    relation: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    attribute: Option<&'a str>,
    #[serde(flatten)]
    label: &'a DocumentLabel,
    #[schemars(default)]
    body: &'a str,
}

#[async_trait]
impl Tool for ContextTool {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, EntityContext<'_>>(
            "ixchel_context",
            "Read a decision and everything that it links to",
            "Returns the entity with this ID and the texts that it links to. Without an ID, call \
             get_context.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let Arguments { id, repo, show } = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let address = find_address(context, &call.caller, &id, repo.as_ref()).await?;
        let links = address.read_outgoing(context).await?;
        let own = address.read_label(context).await?;
        let mut linked = linked_nodes(&own.id, &links);
        let (id, total) = (own.id.clone(), linked.len() + 1);
        linked.truncate(MAX_ITEMS - 1);
        let has_body = show.has(BODY);
        // One unreadable document must not fail the call.
        let body = if has_body {
            address.read_text(context).await.map(|text| text.body).map_err(|error| error.message)
        } else {
            Ok(String::new())
        };
        let mut bytes = body.as_ref().map_or(0, String::len);
        let mut entries = vec![ContextEntry { link: None, label: own, body }];
        for (node, link) in linked {
            let body = if !has_body || bytes > MAX_BODY_BYTES {
                Ok(String::new())
            } else {
                read_body(context, &address.project, node).await
            };
            bytes += body.as_ref().map_or(0, String::len);
            let label = node.label();
            entries.push(ContextEntry { link: Some(link), label, body });
        }
        for entry in &mut entries {
            entry.label.keep(|key| show.has(key));
            if let Some(link) = &mut entry.link {
                link.label = entry.label.clone();
            }
        }
        let is_complete = bytes <= MAX_BODY_BYTES;
        let mut answer = ToolAnswer::new(ContextAnswer::new(id, entries, total, show, is_complete));
        answer.add_shown(address.target.shown_links(call.caller.project.as_str()));
        Ok(answer)
    }
}

/// The targets of a document's links, each once and without itself: entities, items, sections.
/// Several relations to one target are one link.
fn linked_nodes<'a>(own_id: &str, links: &'a [OutgoingLink]) -> Vec<(&'a LinkNode, LinkEntry)> {
    let mut nodes: Vec<(&LinkNode, LinkEntry)> = Vec::new();
    for link in links {
        let Some(node) = &link.target else { continue };
        let entry = link.entry();
        match nodes.iter_mut().find(|(_, known)| known.label.id == entry.label.id) {
            Some((_, known)) => {
                known.relation = format!("{}, {}", known.relation, entry.relation);
                known.attribute = known.attribute.take().or(entry.attribute);
            }
            None if entry.label.id != own_id => nodes.push((node, entry)),
            None => {}
        }
    }
    nodes.sort_by_key(|(node, _)| (node.meta.entity.is_none(), node.meta.item.is_none()));
    nodes
}

/// The text of a document without front matter, or the reason why it cannot be read.
async fn read_body(
    context: &ToolContext,
    project: &ProjectKey,
    node: &LinkNode,
) -> Result<String, String> {
    let index = node.part.as_ref().map(|part| &*part.index);
    let document = get_one(&*context.ports.documents, project, &node.meta.id).await;
    let body = match document {
        Ok(Some(document)) => body_text(&document, index),
        Ok(None) => Err(removed_error(&node.meta.id)),
        Err(error) => Err(error.into()),
    };
    body.map_err(|error| error.message)
}

/// An item of the context.
struct ContextEntry {
    /// `None` for the entity itself.
    link: Option<LinkEntry>,
    label: DocumentLabel,
    /// The error if it cannot be read.
    body: Result<String, String>,
}

impl ContextEntry {
    fn heading(&self) -> String {
        match &self.link {
            Some(link) => link.outgoing_text(),
            None => self.label.text(),
        }
    }

    fn text(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }
}

/// A part of the answer that a limit may leave out.
#[derive(Clone, Copy)]
enum ContextPart {
    /// The line of an entry.
    Line,
    /// The body of an entry up to an end of a sentence.
    Body { entry: usize, end: usize },
}

struct ContextAnswer {
    id: String,
    /// The entity itself first.
    entries: Vec<ContextEntry>,
    /// Number of entries, with those above [`MAX_ITEMS`].
    total: usize,
    /// The most important parts first.
    parts: Vec<ContextPart>,
    show: ShowKeys<ItemKeys>,
    /// True if all bodies were read.
    is_complete: bool,
}

impl ContextAnswer {
    /// Orders the parts: the beginning of the entity itself, the lines of all items, the rest of
    /// the entity, and the other bodies.
    fn new(
        id: String,
        entries: Vec<ContextEntry>,
        total: usize,
        show: ShowKeys<ItemKeys>,
        is_complete: bool,
    ) -> Self {
        let mut parts = Vec::new();
        let mut rest = Vec::new();
        for (entry, item) in entries.iter().enumerate() {
            if item.text().is_empty() {
                continue;
            }
            for end in sentence_ends(item.text()) {
                let part = ContextPart::Body { entry, end };
                if entry == 0 && end <= FIRST_BYTES { parts.push(part) } else { rest.push(part) }
            }
        }
        parts.extend(entries.iter().skip(1).map(|_| ContextPart::Line));
        parts.extend(rest);
        Self { id, entries, total, parts, show, is_complete }
    }

    /// The shown entries, each with the beginning of its body, and what is left out.
    fn shown(&self, parts: usize) -> (Vec<(&ContextEntry, &str)>, CutReport) {
        // The line of the entity itself is always there.
        let mut lines = 1;
        let mut ends = vec![0; self.entries.len()];
        for part in self.parts.iter().take(parts) {
            match *part {
                ContextPart::Line => lines += 1,
                ContextPart::Body { entry, end } => ends[entry] = end,
            }
        }
        let (mut shown, mut cut, mut without_body) = (Vec::new(), Vec::new(), 0);
        for (entry, end) in self.entries.iter().zip(ends).take(lines) {
            let (body, id) = (entry.text(), &entry.label.id);
            match end {
                _ if end == body.len() => cut.extend(entry.body.clone().err()),
                0 => without_body += 1,
                _ => {
                    let (kept, all) = (body[..end].chars().count(), body.chars().count());
                    cut.push(format!("{id}: the first {kept} of {all} characters"));
                }
            }
            shown.push((entry, body[..end].trim_end()));
        }
        if without_body > 0 {
            cut.push(format!("the bodies of {without_body} items; ixchel_show returns each"));
        }
        if shown.len() < self.total {
            cut.push(format!("items: the first {} of {}", shown.len(), self.total));
        }
        if !self.is_complete {
            let limit = MAX_BODY_BYTES >> 10;
            cut.push(format!("bodies after the first {limit} KiB; ixchel_show returns each"));
        }
        if parts < self.parts.len() {
            cut.push(whole_advice(self.full_size()));
        }
        (shown, CutReport::new(cut))
    }

    fn full_size(&self) -> usize {
        let mut size = 0;
        for entry in &self.entries {
            // With the separators.
            size += entry.heading().len() + entry.text().len() + 8;
        }
        size
    }
}

impl Answer for ContextAnswer {
    fn part_count(&self) -> usize {
        self.parts.len()
    }

    fn text(&self, parts: usize) -> String {
        let (shown, cut) = self.shown(parts);
        let mut text = String::new();
        for (entry, body) in shown {
            // Between two bodies, so that a heading is not taken for a part of the first.
            let had_body = !text.is_empty() && self.show.has(BODY);
            text.push_str(if had_body {
                "\n\n"
            } else if text.is_empty() {
                ""
            } else {
                "\n"
            });
            text.extend(["=== ", &entry.heading()]);
            if !body.is_empty() {
                text.extend(["\n", body]);
            }
        }
        cut.add_to_text(&mut text);
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let (shown, cut) = self.shown(parts);
        let mut items = Vec::with_capacity(shown.len());
        for (entry, body) in shown {
            let link = entry.link.as_ref();
            let item = ContextItem {
                relation: link.map(|link| &*link.relation),
                attribute: link.and_then(|link| link.attribute.as_deref()),
                label: &entry.label,
                body,
            };
            let item = serde_json::to_value(item).map_err(serialization_error)?;
            let Value::Object(mut item) = item else { continue };
            self.show.filter(&mut item);
            items.push(item);
        }
        let id = &self.id;
        serde_json::to_value(EntityContext { id, items, cut }).map_err(serialization_error)
    }
}
