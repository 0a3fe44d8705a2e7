//! `ixchel_graph`.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use schemars::JsonSchema;
use serde::Serialize;

use super::entity_request::{EntityArguments, EntityRequest};
use super::{TokenBudget, Truncation};
use crate::ToolContext;
use crate::answer::ToolAnswer;
use crate::links::{IncomingLink, LinkEntry, OutgoingLink};
use crate::tool::{Tool, read_tool};

pub(crate) struct GraphTool;

#[derive(Serialize, JsonSchema)]
struct EntityLinks {
    id: String,
    title: String,
    /// Links, by relation.
    outgoing: Vec<OutgoingLinks>,
    /// Backlinks from all toolsets, by relation.
    incoming: Vec<IncomingLinks>,
    incoming_total: usize,
    #[serde(flatten)]
    cut: Truncation,
}

#[derive(Serialize, JsonSchema)]
struct OutgoingLinks {
    /// Front matter key, or type of a map-style link.
    rel: String,
    targets: Vec<LinkTarget>,
}

#[derive(Serialize, JsonSchema)]
struct LinkTarget {
    id: String,
    /// Null if the target is missing.
    #[schemars(required, extend("type" = ["string", "null"]))]
    title: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct IncomingLinks {
    /// As in outgoing, or "mentions" for mentions in texts.
    rel: String,
    sources: Vec<LinkSource>,
}

#[derive(Serialize, JsonSchema)]
struct LinkSource {
    id: String,
    title: String,
}

#[async_trait]
impl Tool for GraphTool {
    fn spec(&self) -> ToolSpec {
        read_tool::<EntityArguments, EntityLinks>(
            "ixchel_graph",
            "Follow an entity's links",
            "Returns the links and backlinks of an entity, by relation.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let EntityRequest { address, mut budget } =
            EntityRequest::decode(context, spec, &mut call).await?;
        let links = address.read_outgoing(context).await?;
        // With the IDs as their document spells them.
        let spelled = |link: &OutgoingLink| LinkEntry { id: link.id.clone(), ..link.entry() };
        let outgoing = group_by_relation(links.iter().map(spelled));
        let links = address.read_incoming(context).await?;
        let incoming_total = links.len();
        let incoming = group_by_relation(links.iter().map(IncomingLink::entry));
        super::json_reply(&EntityLinks {
            id: address.target.id().into_owned(),
            title: address.target.title(),
            outgoing: fit_outgoing(outgoing, &mut budget),
            incoming: fit_incoming(incoming, &mut budget),
            incoming_total,
            cut: budget.into_truncation(),
        })
    }
}

/// Groups links by relation, in the order of the first link of each.
fn group_by_relation(links: impl Iterator<Item = LinkEntry>) -> Vec<(String, Vec<LinkEntry>)> {
    let mut groups: Vec<(String, Vec<LinkEntry>)> = Vec::new();
    for link in links {
        match groups.iter_mut().find(|(relation, _)| *relation == link.relation) {
            Some((_, group)) => group.push(link),
            None => groups.push((link.relation.clone(), vec![link])),
        }
    }
    groups
}

fn fit_outgoing(
    groups: Vec<(String, Vec<LinkEntry>)>,
    budget: &mut TokenBudget,
) -> Vec<OutgoingLinks> {
    let mut outgoing = Vec::with_capacity(groups.len());
    for (rel, links) in groups {
        let mut targets = Vec::with_capacity(links.len());
        for LinkEntry { id, title, .. } in links {
            targets.push(LinkTarget { id, title });
        }
        budget.keep_fitting(&rel, &mut targets);
        outgoing.push(OutgoingLinks { rel, targets });
    }
    outgoing
}

fn fit_incoming(
    groups: Vec<(String, Vec<LinkEntry>)>,
    budget: &mut TokenBudget,
) -> Vec<IncomingLinks> {
    let mut incoming = Vec::with_capacity(groups.len());
    for (rel, links) in groups {
        let mut sources = Vec::with_capacity(links.len());
        for LinkEntry { id, title, .. } in links {
            sources.push(LinkSource { id, title: title.unwrap_or_default() });
        }
        budget.keep_fitting(&format!("incoming {rel}"), &mut sources);
        incoming.push(IncomingLinks { rel, sources });
    }
    incoming
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::test_support::TestApplication;

    // S4: AC-002.4
    #[tokio::test]
    async fn graph_links_to_items_have_their_titles() {
        let testing = TestApplication::new();
        let text = "---\nid: dec-1d2c8f\ntitle: Files\nimplements: [REQ-48, iss-bbbbbb, REQ-049]\n\
                    ---\nFiles it is.\n";
        testing.write_entity("decisions/dec-1d2c8f", text).await;
        testing.write_entity("issues/iss-bbbbbb", "---\nid: iss-bbbbbb\ntitle: Why\n---\n").await;
        testing.write_item("REQ-048-3f9a1c", "---\ntitle: Keep\n---\n").await;
        let arguments = json!({ "id": "dec-1d2c8f" });
        let graph = testing.data("ixchel_graph", arguments.clone()).await;
        let targets = json!([
            { "id": "REQ-48", "title": "Keep" },
            { "id": "iss-bbbbbb", "title": "Why" },
            { "id": "REQ-049", "title": null },
        ]);
        assert_eq!(graph["outgoing"], json!([{ "rel": "implements", "targets": targets }]));
        testing.write_item("REQ-048-ffffff", "---\ntitle: Twin\n---\n").await;
        let graph = testing.data("ixchel_graph", arguments).await;
        assert_eq!(
            graph["outgoing"][0]["targets"][0]["title"],
            Value::Null,
            "two items have this reference"
        );
    }
}
