//! `ixchel_graph`.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use schemars::JsonSchema;
use serde::Serialize;

use super::Truncation;
use super::entity_view::{EntityArguments, EntityBacklinks, EntityRequest, LinkedEntities};
use crate::ToolContext;
use crate::tool::{Tool, read_tool};

pub(crate) struct GraphTool;

#[derive(Serialize, JsonSchema)]
struct EntityLinks<'a> {
    id: &'a str,
    title: &'a str,
    /// Links, by relation.
    outgoing: Vec<OutgoingLinks<'a>>,
    /// Backlinks from the knowledge graph and the backlog, by relation.
    incoming: Vec<IncomingLinks<'a>>,
    #[serde(flatten)]
    cut: Truncation,
}

#[derive(Serialize, JsonSchema)]
struct OutgoingLinks<'a> {
    /// Front matter key, or type of a map-style link.
    rel: &'a str,
    targets: Vec<LinkTarget<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct LinkTarget<'a> {
    id: &'a str,
    /// Null if the target is missing.
    #[schemars(required, extend("type" = ["string", "null"]))]
    title: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
struct IncomingLinks<'a> {
    /// As in outgoing, or "mentions" for mentions in texts.
    rel: &'a str,
    sources: Vec<LinkSource<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct LinkSource<'a> {
    /// Entity ID or item reference.
    id: String,
    title: &'a str,
}

#[async_trait]
impl Tool for GraphTool {
    fn spec(&self) -> ToolSpec {
        read_tool::<EntityArguments, EntityLinks<'_>>(
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
    ) -> Result<ToolReply> {
        let EntityRequest { project, node, mut budget } =
            EntityRequest::decode(context, spec, &mut call).await?;
        let linked = LinkedEntities::read_targets(context, &project, &node).await?;
        let mut outgoing = Vec::new();
        for links in linked.outgoing(&node) {
            let mut targets = Vec::with_capacity(links.targets.len());
            for edge in &links.targets {
                targets.push(LinkTarget { id: edge.id, title: linked.target_title(edge) });
            }
            budget.keep_fitting(links.relation, &mut targets);
            outgoing.push(OutgoingLinks { rel: links.relation, targets });
        }
        let backlinks = EntityBacklinks::read_sources(context, &project, &node).await?;
        let mut incoming = Vec::new();
        for (rel, entries) in backlinks.by_relation(&node) {
            let mut sources = Vec::with_capacity(entries.len());
            for (id, title) in entries {
                sources.push(LinkSource { id, title });
            }
            budget.keep_fitting(&format!("incoming {rel}"), &mut sources);
            incoming.push(IncomingLinks { rel, sources });
        }
        super::json_reply(&EntityLinks {
            id: &node.entity.id,
            title: &node.entity.title,
            outgoing,
            incoming,
            cut: budget.into_truncation(),
        })
    }
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
